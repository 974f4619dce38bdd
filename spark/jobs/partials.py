"""Events counted once: small tables that can be added to those of other events, and from which all results are made.

`cells` counts by window, queue, priority, group, event, reason and bucket of time; `consumers` by consumer; `suspects`
keeps what came back again and again. A sum of partials of two lots of events is the partial of both: so a stream adds
one lot after the other, and gives the results of a batch over all of them.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from rabbitlike.spark.jobs.histogram import bucket_column

#: What a window belongs to.
PLACE: Final = ("window_us", "vhost", "queue")
CELL: Final = (*PLACE, "priority", "consumer_group", "event", "reason", "bucket")
CONSUMER: Final = (*PLACE, "consumer_group", "consumer_tag")
SUSPECT: Final = (*PLACE, "msg_seq")
#: Times a message has come back before it is looked at.
POISONOUS: Final = 3


@dataclass(frozen=True, slots=True)
class Partials:
    """The three tables of one lot of events, or of many."""

    cells: DataFrame
    consumers: DataFrame
    suspects: DataFrame

    def tables(self) -> dict[str, DataFrame]:
        """By name, as they are stored."""
        return {"cells": self.cells, "consumers": self.consumers, "suspects": self.suspects}


def window_of(window_us: int) -> Column:
    """The beginning of an event's window, in microseconds since 1970."""
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
    # No row has both times. Where neither belongs, none is believed: keys of other events must not have buckets.
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
            # The last that happened to it; a struct is compared field by field.
            f.max(f.struct("seq", "event", "reason")).alias("last"),
        )
    )


def merge(partials: Partials) -> Partials:
    """Tables in which a key may stand more than once, as those of many lots do, with each key once."""
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
