"""Results as messages: JSON bodies for the topic exchange `metrics`, with ids that are the same in every run.

`metric.<name>.<vhost>.<queue>` is the routing key, with `.` and `%` in names written as `%2E` and `%25`. The message-id
depends on the subject of the message, never on the time of computation, so consumers can drop ids that they have seen.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from rabbitlike.spark.jobs.metrics import TIMES
from rabbitlike.spark.jobs.partials import PLACE
from rabbitlike.spark.jobs.results import Results, settled

EXCHANGE: Final = "metrics"
TYPE: Final = "metric.v1"
SCHEMA: Final = 1
#: Longest routing key and message-id in octets: AMQP sends them as short strings.
SHORT: Final = 255
_GROUP: Final = "consumer_group"

_FLOW: Final = (
    "enqueued", "delivered", "acked", "auto_acked", "gone", "depth_change", "bytes_in", "bytes_out",
    "enqueued_per_s", "delivered_per_s", "bytes_in_per_s", "bytes_out_per_s",
)  # fmt: skip
_FAILURES: Final = (
    "nacked", "requeued", "redelivered", "redelivery_rate", "expired", "dropped", "rejected", "dead_lettered",
    "dead_letter_rate", "dead_letters", "expiries",
)  # fmt: skip
_PUBLISHING: Final = ("published", "unroutable", "confirmed", "refused")
_TIME: Final = ("n", "mean_us", "p50_us", "p95_us", "p99_us", "max_us")
_OF_PRIORITY: Final = (
    "priority", "enqueued", "delivered", "acked", "wait_p50_us", "wait_p95_us", "wait_p99_us", "proc_p95_us",
)  # fmt: skip
_STARVATION: Final = (
    "priority", "backlog", "enqueued", "served", "share", "higher_share", "hungry_windows", "wait_p99_us",
    "highest_wait_p99_us",
)  # fmt: skip
_ANOMALY: Final = ("signal", "value", "median", "mad", "score", "severity")
_POISON: Final = ("rank", "msg_seq", "message_id", "delivery_count", "fate", "reason", "priority", "size")
_SKEW: Final = ("consumers", "delivered", "most", "median", "least", "busiest", "skew")


def messages(results: Results, job: str, window_us: int) -> DataFrame:
    """Return one row per message, with the columns of the sink."""
    groups = settled(results.groups)
    queues = groups.where("queue != ''")
    metrics = results.metrics.where("queue != ''")
    by_priority = metrics.groupBy(*PLACE, _GROUP).agg(
        f.sort_array(f.collect_list(f.struct(*_OF_PRIORITY))).alias("priorities")
    )
    full = queues.join(by_priority, [*PLACE, _GROUP])
    starving = results.starvation.where("is_starving")
    worst = results.poison.groupBy(*PLACE).agg(f.sort_array(f.collect_list(f.struct(*_POISON))).alias("messages"))

    def made(name: str, of: DataFrame, values: Mapping[str, Column], besides: Sequence[str] = ()) -> DataFrame:
        return _message(name, of, values, job, window_us, besides)

    tables = [
        made("throughput", full, {**_named(_FLOW), "priorities": f.col("priorities")}),
        made("latency", full, {_LONG[kind]: _time(kind) for kind in TIMES} | {"priorities": f.col("priorities")}),
        made("failures", queues, _named(_FAILURES)),
        made("publishing", groups.where("queue = ''"), _named(_PUBLISHING)),
        made("consumers", results.consumers, _named(_SKEW)),
        made("starvation", starving, _named(_STARVATION), ("priority",)),
        made("anomaly", results.anomalies, _named(_ANOMALY), ("signal",)),
        made("poison", worst, {"messages": f.col("messages")}),
    ]
    found = tables[0]
    for table in tables[1:]:
        found = found.unionByName(table)
    return found


_LONG: Final = {"wait": "wait", "proc": "processing"}


def _named(names: Sequence[str]) -> dict[str, Column]:
    return {name: f.col(name) for name in names}


def _time(kind: str) -> Column:
    """Return percentiles, and the counts behind them, which consumers can add up."""
    return f.struct(
        *(f.col(f"{kind}_{name}").alias(name) for name in _TIME), f.col(f"{kind}_histogram").alias("histogram")
    )


def _message(
    name: str, of: DataFrame, values: Mapping[str, Column], job: str, window_us: int, besides: Sequence[str]
) -> DataFrame:
    """Return one message per row; `besides` are columns that distinguish several results of one queue."""
    group = f.col(_GROUP) if _GROUP in of.columns else f.lit("")
    begins, ends = f.col("window_us"), f.col("window_us") + f.lit(window_us)
    # With milliseconds: 2026-11-16T12:00:00.000Z.
    moment = f.date_format(f.timestamp_micros(begins), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    seconds = window_us / 1_000_000
    parts = [f.lit(job), f.lit(name), f.col("vhost"), f.col("queue"), group]
    key = f.concat_ws(
        "/", *map(_word, parts), *(f.col(each).cast("string") for each in besides), moment, f.lit(f"{seconds:g}s")
    )
    body = f.struct(
        f.lit(SCHEMA).alias("schema"),
        f.lit(name).alias("metric"),
        f.lit(job).alias("job"),
        f.col("vhost").alias("vhost"),
        f.col("queue").alias("queue"),
        f.when(group != "", group).alias(_GROUP),
        moment.alias("window_start"),
        f.lit(seconds).alias("window_s"),
        *(value.alias(each) for each, value in values.items()),
    )
    words = [f.lit("metric"), f.lit(name), _word(f.col("vhost")), f.when(f.col("queue") != "", _word(f.col("queue")))]
    return of.select(
        _short(f.concat_ws(".", *words)).alias("routing_key"),
        _short(key).alias("message_id"),
        f.lit(TYPE).alias("type"),
        f.lit("application/json").alias("content_type"),
        f.timestamp_micros(ends).alias("timestamp"),
        f.to_json(body).alias("body"),
        f.col("window_us"),
    )


def _word(name: Column) -> Column:
    """Escape a name so that it is one word of a routing key."""
    return f.replace(f.replace(name, f.lit("%"), f.lit("%25")), f.lit("."), f.lit("%2E"))


def _short(text: Column) -> Column:
    """Truncate to AMQP's limit; a hash keeps truncated texts distinct."""
    room = (SHORT - 41) // 4  # a character may take four octets
    cut = f.concat(f.substring(text, 1, room), f.lit("~"), f.sha1(text))
    return f.when(f.octet_length(text) <= SHORT, text).otherwise(cut)
