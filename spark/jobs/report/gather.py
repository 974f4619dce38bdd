"""Collects results into a Story, small enough for the page to draw and the terminal to print."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from rabbitlike.spark.jobs.metrics import COUNTS, TIMES
from rabbitlike.spark.jobs.report.findings import Finding, findings
from rabbitlike.spark.jobs.results import Overview, Results, Settings

#: Series drawn as lines.
SERIES: Final = (
    "enqueued_per_s", "delivered_per_s", "bytes_out_per_s", "depth_change", "redelivered", "dead_lettered",
    *(f"{kind}_{part}_us" for kind in TIMES for part in ("p50", "p95", "p99", "max")),
)  # fmt: skip
#: Series per priority.
PRIORITY_SERIES: Final = ("wait_p95_us", "delivered", "enqueued")
#: Counts, zero in windows without events; times have no value there.
_COUNTED: Final = {
    "enqueued_per_s", "delivered_per_s", "bytes_out_per_s", "depth_change", "redelivered", "dead_lettered", "delivered",
    "enqueued",
}  # fmt: skip
#: The most windows drawn; the files have all of them.
LONGEST: Final = 2000


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue or, with an empty name, the exchanges of a vhost."""

    vhost: str
    queue: str
    totals: dict[str, Any]
    series: dict[str, list[float | None]] = field(default_factory=dict)
    priorities: dict[int, dict[str, list[float | None]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return name_of(self.vhost, self.queue)


@dataclass(frozen=True, slots=True)
class Story:
    """The results to show, as plain values."""

    job: str
    place: str
    window_us: int
    #: Starts of windows, without gaps.
    windows: list[int]
    #: The busiest first.
    queues: list[Queue]
    exchanges: list[Queue]
    findings: list[Finding]
    #: Starving priorities: queue, priority and window indexes.
    starving: list[dict[str, Any]]
    anomalies: list[dict[str, Any]]
    poison: list[dict[str, Any]]
    consumers: list[dict[str, Any]]
    events: int
    published: int
    made_at: datetime


def name_of(vhost: str, queue: str) -> str:
    return queue if vhost == "/" else f"{vhost} / {queue}"


def gather(results: Results, overview: Overview, settings: Settings, place: str, job: str, published: int = 0) -> Story:
    """Query Spark once for everything."""
    by_queue = _rows(results.queues, "window_us", "vhost", "queue", *SERIES)
    by_priority = _rows(
        results.priorities.where("queue != ''"), "window_us", "vhost", "queue", "priority", *PRIORITY_SERIES
    )
    hungry = _rows(
        results.starvation.where("is_starving"),
        *("window_us", "vhost", "queue", "priority", "share", "higher_share", "backlog", "hungry_windows"),
    )
    odd = [row.asDict() for row in results.anomalies.orderBy("window_us").collect()]
    skewed = [row.asDict() for row in _worst_skew(results.consumers).collect()]
    poison = [row.asDict() for row in overview.poison.orderBy(f.desc("delivery_count")).collect()]
    totals = [row.asDict(recursive=True) for row in overview.totals.collect()]

    windows = _windows((row["window_us"] for row in by_queue), settings.window_us)
    at = {window: number for number, window in enumerate(windows)}
    queues = [Queue(each["vhost"], each["queue"], each) for each in totals]
    _fill(queues, by_queue, by_priority, at)
    for each in (*poison, *odd, *skewed):
        each["name"] = name_of(each["vhost"], each["queue"])
    starving = [{**row, "name": name_of(row["vhost"], row["queue"])} for row in hungry]
    real = sorted((queue for queue in queues if queue.queue), key=lambda queue: -queue.totals["delivered"])
    exchanges = [queue for queue in queues if not queue.queue]
    return Story(
        job=job,
        place=place,
        window_us=settings.window_us,
        windows=windows,
        queues=real,
        exchanges=exchanges,
        findings=findings(starving, odd, poison, skewed, [each.totals for each in exchanges], settings.window_us),
        starving=[each for each in starving if each["window_us"] in at],
        anomalies=[each for each in odd if each["window_us"] in at],
        poison=poison,
        consumers=skewed,
        events=sum(_events(each.totals) for each in queues),
        published=published,
        made_at=datetime.now(UTC),
    )


def _events(totals: dict[str, Any]) -> int:
    return sum(totals[name] for name in COUNTS)


def _rows(table: DataFrame, *columns: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.select(*columns).collect()]


def _worst_skew(consumers: DataFrame) -> DataFrame:
    """Return the least even window of each consumer group, if it is meaningful."""
    row = f.struct("skew", "window_us", "consumers", "most", "median", "busiest", "delivered")
    worst = consumers.where("consumers > 1 AND delivered >= 20").groupBy("vhost", "queue", "consumer_group")
    return worst.agg(f.max(row).alias("worst")).select("vhost", "queue", "consumer_group", "worst.*")


def _windows(known: Iterable[int], window_us: int) -> list[int]:
    found = set(known)
    if not found:
        return []
    last = max(found)
    return list(range(max(min(found), last - (LONGEST - 1) * window_us), last + window_us, window_us))


def _fill(
    queues: Sequence[Queue],
    by_queue: list[dict[str, Any]],
    by_priority: list[dict[str, Any]],
    at: dict[int, int],
) -> None:
    by_name = {(queue.vhost, queue.queue): queue for queue in queues}
    for queue in queues:
        queue.series.update(_empty(SERIES, len(at)))
    for row in by_queue:
        if row["window_us"] in at:
            _put(by_name[row["vhost"], row["queue"]].series, row, at[row["window_us"]])
    for row in by_priority:
        if row["window_us"] in at:
            lines = by_name[row["vhost"], row["queue"]].priorities
            known = lines.setdefault(row["priority"], _empty(PRIORITY_SERIES, len(at)))
            _put(known, row, at[row["window_us"]])
    for queue in queues:
        depth = list(accumulate(change or 0 for change in queue.series["depth_change"]))
        lowest = min([0, *depth])  # what was there before the first event
        queue.series["depth"] = [each - lowest for each in depth]


def _empty(names: Iterable[str], length: int) -> dict[str, list[float | None]]:
    return {name: [0 if name in _COUNTED else None] * length for name in names}


def _put(lines: dict[str, list[float | None]], row: dict[str, Any], at: int) -> None:
    for name, line in lines.items():
        line[at] = row[name]
