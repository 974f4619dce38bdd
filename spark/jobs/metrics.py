"""What became of messages, per window and whatever else one asks for: counts, rates, and percentiles of times.

All of it is made of cells (`partials.py`), at any grain: of every priority and group of a queue, of the queue, of all.
A queue with an empty name stands for the exchanges of its vhost: what is published, and what finds no queue.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from rabbitlike.spark.jobs.histogram import PERCENTILES
from rabbitlike.spark.jobs.partials import PLACE
from rabbitlike.spark.jobs.percentiles import entry, histogram, percentiles

#: The finest grain of results.
METRIC: Final = (*PLACE, "priority", "consumer_group")

#: Counts by the event they count, in the order they are shown.
COUNTS: Final = {
    "published": "publish",
    "unroutable": "route_fail",
    "confirmed": "confirm",
    "enqueued": "enqueue",
    "delivered": "deliver",
    "acked": "ack",
    "nacked": "nack",
    "requeued": "requeue",
    "expired": "expire",
    "dropped": "drop_overflow",
    "dead_lettered": "dead_letter",
}
#: Why messages end.
REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit", "retry_timeout")
#: Times by the events that tell of them.
TIMES: Final = {"wait": ("deliver",), "proc": ("ack", "nack")}
_RATES: Final = ("enqueued", "delivered", "bytes_in", "bytes_out")


def sums(cells: DataFrame) -> DataFrame:
    """Cells by METRIC, one row for each: all that can be added up, and lists of `percentiles.entry`."""
    return cells.groupBy(*METRIC).agg(*_counts(), *_times())


def summarise(sums: DataFrame, keys: Sequence[str], window_us: int, *, histograms: bool = False) -> DataFrame:
    """One row for each value of these columns of METRIC. Rates are per second of one window: without `window_us` among
    the keys there are none. Sums that lie together by PLACE are not moved again."""
    added = sums if tuple(keys) == METRIC else sums.groupBy(*keys).agg(*_added(sums))
    return _finish(added, keys, window_us if "window_us" in keys else None, histograms=histograms)


def _is(event: str, reason: str | None = None) -> Column:
    found = f.col("event") == event
    return found if reason is None else found & (f.col("reason") == reason)


def _sum(what: str, where: Column, name: str) -> Column:
    return f.coalesce(f.sum(f.when(where, f.col(what))), f.lit(0)).cast("bigint").alias(name)


def _counts() -> Iterator[Column]:
    for name, event in COUNTS.items():
        yield _sum("n", _is(event), name)
    yield _sum("again", _is("deliver"), "redelivered")
    yield _sum("n", _is("deliver", "auto-ack"), "auto_acked")
    yield _sum("n", _is("confirm", "refused"), "refused")
    yield _sum("n", _is("drop_overflow", "maxlen"), "overflowed")
    yield _sum("bytes", _is("enqueue"), "bytes_in")
    yield _sum("bytes", _is("deliver"), "bytes_out")
    for reason in REASONS:
        yield _sum("n", _is("dead_letter", reason), f"dead_{reason}")
        yield _sum("n", _is("expire", reason), f"ended_{reason}")


def _times() -> Iterator[Column]:
    for kind, events in TIMES.items():
        is_kind = (f.col("bucket") >= 0) & f.col("event").isin(*events)
        yield f.sum(f.when(is_kind, f.col("n"))).alias(f"{kind}_n")
        yield f.sum(f.when(is_kind, f.col("sum_us"))).alias(f"{kind}_sum_us")
        yield f.max(f.when(is_kind, f.col("max_us"))).alias(f"{kind}_max_us")
        yield f.collect_list(f.when(is_kind, entry("bucket", "n"))).alias(f"{kind}_times")


def _added(sums: DataFrame) -> Iterator[Column]:
    for name in sums.columns:
        if name.endswith("_times"):
            yield f.flatten(f.collect_list(name)).alias(name)
        elif name.endswith("_max_us"):
            yield f.max(name).alias(name)
        elif name not in METRIC:
            yield f.sum(name).alias(name)


def _finish(sums: DataFrame, keys: Sequence[str], window_us: int | None, *, histograms: bool) -> DataFrame:
    # Rejected and no dead letter: nothing tells of it but a nack after which the message neither came back nor was
    # given up for its tries.
    unheard = f.col("nacked") - f.col("requeued") - f.col("ended_delivery_limit") - f.col("ended_retry_timeout")
    rejected = f.greatest(f.col("dead_rejected"), unheard, f.lit(0))
    gone = f.col("acked") + f.col("auto_acked") + f.col("expired") + f.col("overflowed") + rejected
    seconds = 1 if window_us is None else window_us / 1_000_000
    read = {f"{kind}_percentiles": percentiles(f.col(f"{kind}_times")) for kind in TIMES}
    return sums.withColumns(read).select(
        *keys,
        *COUNTS,
        *("redelivered", "auto_acked", "refused", "overflowed"),
        rejected.alias("rejected"),
        gone.alias("gone"),
        (f.col("enqueued") - gone).alias("depth_change"),
        *("bytes_in", "bytes_out"),
        *(() if window_us is None else ((f.col(name) / seconds).alias(f"{name}_per_s") for name in _RATES)),
        _part("redelivered", "delivered").alias("redelivery_rate"),
        _part("dead_lettered", "enqueued").alias("dead_letter_rate"),
        _by_reason("dead", "dead_lettered").alias("dead_letters"),
        _by_reason("ended", "expired").alias("expiries"),
        *(column for kind in TIMES for column in _time_columns(kind)),
        *(histogram(f.col(f"{kind}_times")).alias(f"{kind}_histogram") for kind in TIMES if histograms),
    )


def _time_columns(kind: str) -> Iterator[Column]:
    longest = f.col(f"{kind}_max_us")
    yield f.col(f"{kind}_n")
    yield (f.col(f"{kind}_sum_us") / f.col(f"{kind}_n")).alias(f"{kind}_mean_us")
    for name in PERCENTILES:
        time_us = f.col(f"{kind}_percentiles.{name}_us")
        yield f.when(time_us.isNotNull(), f.least(time_us, longest)).alias(f"{kind}_{name}_us")
    yield longest


def _part(some: str, of: str) -> Column:
    return f.when(f.col(of) > 0, f.col(some) / f.col(of)).otherwise(0.0)


def _by_reason(prefix: str, total: str) -> Column:
    """A map of the reasons there were; `other` is what none of those known accounts for."""
    known = {reason: f.col(f"{prefix}_{reason}") for reason in REASONS}
    other = f.col(total)
    for count in known.values():
        other = other - count
    pairs = [column for reason, count in (*known.items(), ("other", other)) for column in (f.lit(reason), count)]
    return f.map_filter(f.create_map(*pairs), lambda _, count: count > 0)


def with_times(results: DataFrame, window_us: int) -> DataFrame:
    """Windows as people read them: when they begin and end, and the day."""
    begins = f.timestamp_micros("window_us")
    others = [name for name in results.columns if name != "window_us"]
    return results.select(
        begins.alias("window_start"),
        f.timestamp_micros(f.col("window_us") + f.lit(window_us)).alias("window_end"),
        *others,
        f.to_date(begins).alias("date"),
    )
