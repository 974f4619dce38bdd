"""Messages that return repeatedly, and consumers that receive more than others."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from rabbitlike.spark.jobs.partials import PLACE

TOP: Final = 10
_WITHOUT_WINDOW: Final = ("vhost", "queue")


def poison(suspects: DataFrame, top: int = TOP, *, by_window: bool = False) -> DataFrame:
    """Return the worst messages of each queue, overall or per window: number of returns, and reasons."""
    keys = PLACE if by_window else _WITHOUT_WINDOW
    messages = suspects.groupBy(*keys, "msg_seq").agg(
        *(f.max(name).alias(name) for name in ("delivery_count", "message_id", "priority", "size")),
        f.min("first_ts").alias("first_ts"),
        f.max("last_ts").alias("last_ts"),
        f.max("last").alias("last"),
    )
    worst_first = Window.partitionBy(*keys).orderBy(f.desc("delivery_count"), "msg_seq")
    last = f.col("last.event")
    fate = (
        f.when(last == "ack", "acked")
        .when(last == "dead_letter", "dead-lettered")
        .when(last.isin("expire", "drop_overflow"), "dropped")
        .otherwise("circulating")
    )
    return (
        messages.withColumn("rank", f.row_number().over(worst_first))
        .where(f.col("rank") <= top)
        .select(
            *keys,
            "rank",
            "msg_seq",
            "message_id",
            "delivery_count",
            fate.alias("fate"),
            f.col("last.reason").alias("reason"),
            "priority",
            "size",
            "first_ts",
            "last_ts",
        )
    )


def skew(consumers: DataFrame) -> DataFrame:
    """Return how evenly a queue's consumers received messages per window: the busiest compared with the median."""
    busiest = f.max_by("consumer_tag", f.struct("delivered", "consumer_tag"))
    return (
        consumers.groupBy(*PLACE, "consumer_group")
        .agg(
            f.count(f.lit(1)).alias("consumers"),
            f.sum("delivered").alias("delivered"),
            f.max("delivered").alias("most"),
            f.median("delivered").alias("median"),
            f.min("delivered").alias("least"),
            busiest.alias("busiest"),
        )
        .withColumn("skew", f.col("most") / f.greatest(f.col("median"), f.lit(1.0)))
    )
