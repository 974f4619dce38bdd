"""Metrics of messages per window and other keys: counts, rates, and percentiles of times.

All are computed from cells (`partials.py`), at any grain: by priority and consumer group, by queue, in total. A queue
with an empty name stands for the exchanges of its vhost: publishes, and messages routed to no queue.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from rabbitlike.spark.jobs.histogram import PERCENTILES
from rabbitlike.spark.jobs.partials import PLACE
from rabbitlike.spark.jobs.percentiles import ENTRY, histogram, percentiles

#: The finest grain of results.
METRIC: Final = (*PLACE, "priority", "consumer_group")

#: Counts by the event that they count, in display order.
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
#: Reasons why messages leave a queue without an ack.
REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit", "retry_timeout")
#: Times by the events that carry them.
TIMES: Final = {"wait": ("deliver",), "proc": ("ack", "nack")}
_RATES: Final = ("enqueued", "delivered", "bytes_in", "bytes_out")


def sums(cells: DataFrame) -> DataFrame:
    """Aggregate cells by METRIC: everything that can be added, and lists of `percentiles.ENTRY`."""
    return cells.groupBy(*METRIC).agg(*map(f.expr, (*_counts(), *_times())))


def summarise(sums: DataFrame, keys: Sequence[str], window_us: int, *, histograms: bool = False) -> DataFrame:
    """Return one row per value of these columns of METRIC.

    Rates are per second of one window, so they need `window_us` among the keys. Spark does not shuffle sums again that
    are already partitioned by PLACE.
    """
    added = sums if tuple(keys) == METRIC else sums.groupBy(*keys).agg(*map(f.expr, _added(sums.columns)))
    read = {f"{kind}_percentiles": percentiles(f.col(f"{kind}_times")) for kind in TIMES}
    if histograms:
        read |= {f"{kind}_histogram": histogram(f.col(f"{kind}_times")) for kind in TIMES}
    shown = [f"{kind}_histogram" for kind in TIMES if histograms]
    return added.withColumns(read).selectExpr(
        *keys, *_results(window_us if "window_us" in keys else None), *_time_results(), *shown
    )


# In SQL: each step of an expression built in Python is a call to the JVM, and there are thousands of steps.


def _sum(what: str, where: str, name: str) -> str:
    return f"sum(if({where}, {what}, 0L)) AS {name}"


def _counts() -> Iterator[str]:
    for name, event in COUNTS.items():
        yield _sum("n", f"event = '{event}'", name)
    yield _sum("again", "event = 'deliver'", "redelivered")
    yield _sum("n", "event = 'deliver' AND reason = 'auto-ack'", "auto_acked")
    yield _sum("n", "event = 'confirm' AND reason = 'refused'", "refused")
    yield _sum("n", "event = 'drop_overflow' AND reason = 'maxlen'", "overflowed")
    yield _sum("bytes", "event = 'enqueue'", "bytes_in")
    yield _sum("bytes", "event = 'deliver'", "bytes_out")
    for reason in REASONS:
        yield _sum("n", f"event = 'dead_letter' AND reason = '{reason}'", f"dead_{reason}")
        yield _sum("n", f"event = 'expire' AND reason = '{reason}'", f"ended_{reason}")


def _times() -> Iterator[str]:
    for kind, events in TIMES.items():
        is_kind = f"bucket >= 0 AND event IN ({', '.join(map(repr, events))})"
        yield f"sum(if({is_kind}, n, NULL)) AS {kind}_n"
        yield f"sum(if({is_kind}, sum_us, NULL)) AS {kind}_sum_us"
        yield f"max(if({is_kind}, max_us, NULL)) AS {kind}_max_us"
        yield f"collect_list(if({is_kind}, {ENTRY}, NULL)) AS {kind}_times"


def _added(columns: Sequence[str]) -> Iterator[str]:
    for name in columns:
        if name.endswith("_times"):
            yield f"flatten(collect_list({name})) AS {name}"
        elif name.endswith("_max_us"):
            yield f"max({name}) AS {name}"
        elif name not in METRIC:
            yield f"sum({name}) AS {name}"


def _results(window_us: int | None) -> Iterator[str]:
    # A rejected message without a dead letter shows only as a nack that is neither followed by a requeue nor by the
    # end of its retries.
    rejected = "greatest(dead_rejected, nacked - requeued - ended_delivery_limit - ended_retry_timeout, 0L)"
    gone = f"(acked + auto_acked + expired + overflowed + {rejected})"
    yield from (*COUNTS, "redelivered", "auto_acked", "refused", "overflowed")
    yield f"{rejected} AS rejected"
    yield f"{gone} AS gone"
    yield f"enqueued - {gone} AS depth_change"
    yield from ("bytes_in", "bytes_out")
    if window_us is not None:
        yield from (f"{name} / {window_us / 1_000_000}D AS {name}_per_s" for name in _RATES)
    yield "if(delivered > 0, redelivered / delivered, 0D) AS redelivery_rate"
    yield "if(enqueued > 0, dead_lettered / enqueued, 0D) AS dead_letter_rate"
    yield f"{_by_reason('dead', 'dead_lettered')} AS dead_letters"
    yield f"{_by_reason('ended', 'expired')} AS expiries"


def _time_results() -> Iterator[str]:
    for kind in TIMES:
        yield f"{kind}_n"
        yield f"{kind}_sum_us / {kind}_n AS {kind}_mean_us"
        for name in PERCENTILES:
            time_us = f"{kind}_percentiles.{name}_us"
            yield f"if({time_us} IS NULL, NULL, least({time_us}, {kind}_max_us)) AS {kind}_{name}_us"
        yield f"{kind}_max_us"


def _by_reason(prefix: str, total: str) -> str:
    """Return a map of the reasons that occurred; `other` counts the unknown ones."""
    known = {reason: f"{prefix}_{reason}" for reason in REASONS}
    known["other"] = " - ".join((total, *known.values()))
    pairs = ", ".join(f"'{reason}', {count}" for reason, count in known.items())
    return f"map_filter(map({pairs}), (reason, count) -> count > 0)"


def with_times(results: DataFrame, window_us: int) -> DataFrame:
    """Add the times of windows for people: begin, end and day."""
    begins = f.timestamp_micros("window_us")
    others = [name for name in results.columns if name != "window_us"]
    return results.select(
        begins.alias("window_start"),
        f.timestamp_micros(f.col("window_us") + f.lit(window_us)).alias("window_end"),
        *others,
        f.to_date(begins).alias("date"),
    )
