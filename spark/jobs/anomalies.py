"""Windows unlike those before them: robust z-scores of a few signals of each queue.

Each value is compared with the median of the preceding windows, in units of their median absolute deviation (MAD): one
bad window does not hide the next, as it would with a mean. Deviations below a signal's `least` are noise.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f


class Signal(NamedTuple):
    """A signal to watch: a column of the metrics by queue."""

    name: str
    column: str
    #: 1: higher is worse; -1: lower is worse.
    direction: int
    #: Lower bound of the deviation, however quiet the history is.
    least: float
    #: The value of a window without events; None: no value.
    idle: float | None = 0.0


SIGNALS: Final = (
    Signal("backlog_growth", "depth_change", 1, 5.0),
    Signal("wait_p95", "wait_p95_us", 1, 5_000.0, idle=None),
    Signal("redelivery_rate", "redelivery_rate", 1, 0.01),
    Signal("dead_letter_rate", "dead_letter_rate", 1, 0.01),
    Signal("throughput_drop", "delivered_per_s", -1, 0.5),
)
#: Number of preceding windows to compare with, and the fewest that allow a judgement.
TRAILING: Final = 60
FEWEST: Final = 10
#: The deviation is also at least this share of the median.
QUIET: Final = 0.05
#: z-scores for a warning and for critical. 0.6745 scales a MAD to a standard deviation of normal values.
WARNING: Final = 3.5
CRITICAL: Final = 10.0
_NORMAL: Final = 0.6745


def anomalies(by_queue: DataFrame, window_us: int, trailing: int = TRAILING, fewest: int = FEWEST) -> DataFrame:
    """Return the unusual windows of queues with the signal concerned. `by_queue` are metrics by PLACE."""
    series = Window.partitionBy("vhost", "queue", "signal").orderBy("window_us").rowsBetween(-trailing, -1)
    judged = (
        _signals(by_queue, window_us)
        .withColumn("history", f.collect_list("value").over(series))
        .where(f.col("value").isNotNull() & (f.size("history") >= fewest))
        .withColumn("median", _median(f.col("history")))
        .withColumn("mad", _median(_deviations(f.col("history"), f.col("median"))))
        .withColumn("unit", f.greatest(f.col("mad"), f.col("least"), f.abs(f.col("median")) * QUIET))
        .withColumn("score", f.lit(_NORMAL) * (f.col("value") - f.col("median")) * f.col("direction") / f.col("unit"))
    )
    severity = f.when(f.col("score") >= CRITICAL, "critical").when(f.col("score") >= WARNING, "warning")
    return (
        judged.withColumn("severity", severity)
        .where("severity IS NOT NULL")
        # The last window is incomplete, so low values in it mean nothing.
        .where((f.col("window_us") < f.col("last")) | (f.col("direction") > 0))
        .select("window_us", "vhost", "queue", "signal", "value", "median", "mad", "score", "severity")
    )


def _signals(by_queue: DataFrame, window_us: int) -> DataFrame:
    """Return one row per signal and window of a queue, from the queue's first window to the last window of all."""
    queues = by_queue.where("queue != ''")
    last = by_queue.agg(f.max("window_us").alias("last"))
    windows = f.explode(f.sequence("first", "last", f.lit(window_us).cast("bigint"))).alias("window_us")
    grid = (
        queues.groupBy("vhost", "queue")
        .agg(f.min("window_us").alias("first"))
        .crossJoin(f.broadcast(last))
        .select("vhost", "queue", windows, "last")
    )
    full = grid.join(queues, ["window_us", "vhost", "queue"], "left")
    return full.select(
        "window_us", "vhost", "queue", "last", f.inline(f.array(*(_entry(signal) for signal in SIGNALS)))
    )


def _entry(signal: Signal) -> Column:
    value = f.col(signal.column).cast("double")
    return f.struct(
        f.lit(signal.name).alias("signal"),
        (value if signal.idle is None else f.coalesce(value, f.lit(signal.idle))).alias("value"),
        f.lit(signal.direction).alias("direction"),
        f.lit(signal.least).alias("least"),
    )


def _deviations(values: Column, middle: Column) -> Column:
    # A function with `middle` in its closure would make Spark recompute `middle` for each value.
    return f.zip_with(values, f.array_repeat(middle, f.size(values)), lambda value, of: f.abs(value - of))


def _median(values: Column) -> Column:
    ordered, size = f.sort_array(values), f.size(values)
    low, high = f.floor((size + 1) / 2).cast("int"), f.floor((size + 2) / 2).cast("int")
    # Check the size here, because Spark may move a filter past this expression.
    return f.when(size > 0, (f.element_at(ordered, low) + f.element_at(ordered, high)) / 2)
