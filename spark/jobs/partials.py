"""Events counted into small tables that can be added up and from which all results are made.

`cells` counts by window, queue, priority, group, event, reason and bucket of time; `consumers` by consumer; `suspects`
lists messages that returned repeatedly. The sum of the partials of two lots of events is the partial of both, so a
stream adds one lot after the other and gets the same results as a batch over all of them.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from rabbitlike.spark.jobs.histogram import bucket_column

#: The columns that identify a queue's window.
PLACE: Final = ("window_us", "vhost", "queue")
CELL: Final = (*PLACE, "priority", "consumer_group", "event", "reason", "bucket")
CONSUMER: Final = (*PLACE, "consumer_group", "consumer_tag")
SUSPECT: Final = (*PLACE, "msg_seq")
#: Returns after which a message is a suspect.
POISONOUS: Final = 3


@dataclass(frozen=True, slots=True)
class Partials:
    """The three tables of one or several lots of events."""

    cells: DataFrame
    consumers: DataFrame
    suspects: DataFrame

    def tables(self) -> dict[str, DataFrame]:
        """Return the tables by the names they are stored under."""
        return {"cells": self.cells, "consumers": self.consumers, "suspects": self.suspects}


def window_of(window_us: int) -> Column:
    """Return the start of an event's window, in microseconds since 1970."""
    ts_us = f.unix_micros("ts")
    return (ts_us - f.pmod(ts_us, f.lit(window_us))).alias("window_us")


def count(events: DataFrame, window_us: int, poisonous: int = POISONOUS) -> Partials:
    """Count these events."""
    return Partials(
        cells=_cells(events, window_us),
        consumers=_consumers(events, window_us),
        suspects=_suspects(events, window_us, poisonous),
    )


def _cells(events: DataFrame, window_us: int) -> DataFrame:
    # No row has both times. Ignore times of all other events: their keys must not have buckets.
    settles = f.col("event").isin("ack", "nack")
    time_us = f.when(f.col("event") == "deliver", f.col("wait_us")).when(settles, f.col("proc_us"))
    rows = events.select(
        window_of(window_us),
        "vhost",
        "queue",
        "priority",
        f.coalesce("consumer_group", f.lit("")).alias("consumer_group"),
        "event",
        f.coalesce("reason", f.lit("")).alias("reason"),
        f.coalesce(bucket_column(time_us), f.lit(-1)).alias("bucket"),
        time_us.alias("time_us"),
        "size",
        f.col("redelivered").cast("bigint").alias("again"),
    )
    return rows.groupBy(*CELL).agg(
        f.count(f.lit(1)).alias("n"),
        f.sum("size").alias("bytes"),
        f.sum("again").alias("again"),
        f.sum("time_us").alias("sum_us"),
        f.max("time_us").alias("max_us"),
    )


def _consumers(events: DataFrame, window_us: int) -> DataFrame:
    given = events.where("event IN ('deliver', 'nack') AND consumer_tag IS NOT NULL")
    group = f.coalesce("consumer_group", f.lit("")).alias("consumer_group")
    is_given = f.col("event") == "deliver"
    return (
        given.select(window_of(window_us), "vhost", "queue", group, "consumer_tag", "event")
        .groupBy(*CONSUMER)
        .agg(f.count_if(is_given).alias("delivered"), f.count_if(~is_given).alias("nacked"))
    )


def _suspects(events: DataFrame, window_us: int, poisonous: int) -> DataFrame:
    rows = events.where(f.col("delivery_count") >= poisonous)
    return (
        rows.select(
            window_of(window_us),
            *("vhost", "queue", "msg_seq", "seq", "ts", "event", "reason", "message_id", "priority", "size"),
            "delivery_count",
        )
        .groupBy(*SUSPECT)
        .agg(
            f.max("delivery_count").alias("delivery_count"),
            f.max("message_id").alias("message_id"),
            f.max("priority").alias("priority"),
            f.max("size").alias("size"),
            f.min("ts").alias("first_ts"),
            f.max("ts").alias("last_ts"),
            # The last event of the message; Spark compares structs field by field.
            f.max(f.struct("seq", "event", "reason")).alias("last"),
        )
    )


def merge(partials: Partials) -> Partials:
    """Merge tables of several lots so that each key occurs once."""
    return Partials(
        cells=partials.cells.groupBy(*CELL).agg(
            *(f.sum(name).alias(name) for name in ("n", "bytes", "again", "sum_us")), f.max("max_us").alias("max_us")
        ),
        consumers=partials.consumers.groupBy(*CONSUMER).agg(
            *(f.sum(name).alias(name) for name in ("delivered", "nacked"))
        ),
        suspects=partials.suspects.groupBy(*SUSPECT).agg(
            *(f.max(name).alias(name) for name in ("delivery_count", "message_id", "priority", "size")),
            f.min("first_ts").alias("first_ts"),
            f.max("last_ts").alias("last_ts"),
            f.max("last").alias("last"),
        ),
    )
