"""Priorities that get no messages delivered while higher ones do.

A priority is hungry in a window if less than half of its waiting messages were delivered, and a higher priority of the
same queue fared better. It starves if it is hungry for `patience` windows in a row.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from rabbitlike.spark.jobs.partials import PLACE

#: The key columns of the metrics that `starvation` takes.
KEYS: Final = (*PLACE, "priority")
#: A priority is hungry below this share of delivered waiting messages.
ENOUGH: Final = 0.5
#: Consecutive hungry windows that count as starvation.
PATIENCE: Final = 3


def starvation(by_priority: DataFrame, window_us: int, patience: int = PATIENCE) -> DataFrame:
    """Rate each priority in each window, for queues with more than one priority.

    Windows without events of the priority are included. `by_priority` are metrics by KEYS.
    """
    lane, moment = Window.partitionBy("vhost", "queue", "priority"), Window.partitionBy(*PLACE)
    before = lane.orderBy("window_us").rowsBetween(Window.unboundedPreceding, -1)
    higher = moment.orderBy(f.desc("priority")).rowsBetween(Window.unboundedPreceding, -1)
    # Ready messages: a redelivery cancels a requeue, so only first deliveries reduce the number.
    entered = f.col("enqueued") - f.col("served") - f.col("left")
    shares = (
        _dense(by_priority, window_us)
        .withColumn("backlog", f.greatest(f.coalesce(f.sum(entered).over(before), f.lit(0)), f.lit(0)))
        .withColumn("waiting", f.col("enqueued") + f.col("backlog"))
        .withColumn("share", f.when(f.col("waiting") > 0, f.least(f.col("served") / f.col("waiting"), f.lit(1.0))))
        .withColumn("higher_share", f.max("share").over(higher))
        .withColumn("higher_served", f.coalesce(f.sum("served").over(higher), f.lit(0)))
        .withColumn("highest_wait_p99_us", f.first("wait_p99_us", ignorenulls=True).over(higher))
        .withColumn(
            "is_hungry",
            f.coalesce(
                (f.col("share") < ENOUGH) & (f.col("higher_served") > 0) & (f.col("higher_share") > f.col("share")),
                f.lit(False),
            ),
        )
    )
    # Consecutive windows: the number since the last one that was not hungry.
    so_far = lane.orderBy("window_us").rowsBetween(Window.unboundedPreceding, 0)
    fed = f.coalesce(f.max(f.when(~f.col("is_hungry"), f.col("at"))).over(so_far), f.lit(-1))
    return (
        shares.withColumn("at", f.row_number().over(lane.orderBy("window_us")) - 1)
        .withColumn("hungry_windows", (f.col("at") - fed).cast("int"))
        .withColumn("is_starving", f.col("hungry_windows") >= patience)
        .drop("at", "left")
    )


def _dense(by_priority: DataFrame, window_us: int) -> DataFrame:
    """Return one row per window from the first one of a priority to the last of all."""
    lanes = (
        by_priority.where("queue != ''")
        .groupBy("vhost", "queue", "priority")
        .agg(f.min("window_us").alias("first"))
        .withColumn("lanes", f.count(f.lit(1)).over(Window.partitionBy("vhost", "queue")))
        .where("lanes > 1")
    )
    last = by_priority.agg(f.max("window_us").alias("last"))
    windows = f.explode(f.sequence("first", "last", f.lit(window_us).cast("bigint"))).alias("window_us")
    grid = lanes.crossJoin(f.broadcast(last)).select("vhost", "queue", "priority", windows)
    told = by_priority.select(
        *KEYS,
        "enqueued",
        (f.col("delivered") - f.col("redelivered")).alias("served"),
        (f.coalesce(f.col("expiries")["expired"], f.lit(0)) + f.col("overflowed")).alias("left"),
        "wait_p99_us",
        "wait_max_us",
    )
    return grid.join(told, list(KEYS), "left").fillna(0, ["enqueued", "served", "left"])
