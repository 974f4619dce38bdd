"""The limits of a soak, and their check."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bystander import MAX_LIMIT_MS, P99_LIMIT_MS
from benchmarks.scenarios.scenario import percentile
from benchmarks.soak.client import Times
from benchmarks.soak.control import Control
from benchmarks.soak.watch import Sample

MB = 1_000_000
#: Limit with floods only, whatever they send to queues without consumers.
FLOOD_RSS_BYTES = 400 * MB
#: Limit with all loads at once: more for messages and transactions of 127 to 256 MB, of which the broker holds one copy
#: while it arrives or leaves and one while it is written, and for unacknowledged deliveries of a consumer.
MIX_RSS_BYTES = 1_000 * MB
#: Memory that a broker may keep after the loads, in addition to that at the start.
KEPT_RSS_BYTES = 150 * MB


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table. Without a limit it only informs."""

    what: str
    value: str
    limit: str = ""
    is_kept: bool = True


@dataclass(frozen=True, slots=True)
class End:
    """The state after the loads ended."""

    start_rss_bytes: float
    rss_bytes: float
    alarms: int
    errors: Sequence[str]
    warnings: Sequence[str]
    is_alive: bool


def lines(
    samples: Sequence[Sample], transient: Times, durable: Times, beside: Control, end: End, rss_limit: float
) -> list[Line]:
    took, kept = sorted(transient.took_ms), sorted(durable.took_ms)
    p99, largest = percentile(took, 0.99), took[-1] if took else float("inf")
    rss = max((sample.rss_bytes for sample in samples), default=0.0)
    seconds = samples[-1].at_s - samples[0].at_s if len(samples) > 1 else 1.0
    lost = transient.lost + durable.lost
    return [
        Line("well-behaved client, messages", f"{len(took) + len(kept):,}"),
        *(Line("  failed", times.failure, "never", is_kept=False) for times in (transient, durable) if times.failure),
        Line("  p50", f"{percentile(took, 0.5):.2f} ms"),
        Line("  p99", f"{p99:.1f} ms", f"≤ {P99_LIMIT_MS:.0f} ms", p99 <= P99_LIMIT_MS),
        Line("  max", f"{largest:.1f} ms", f"≤ {MAX_LIMIT_MS:.0f} ms", largest <= MAX_LIMIT_MS),
        Line("  persistent: p50 / p99 / max", _three(kept)),
        Line("a process that only sleeps is late: p50 / p99 / max", _three(beside.late_ms)),
        Line("processor time that the host gave to others", f"{beside.stolen:.0%}"),
        Line("confirmed messages lost", f"{lost}", "0", lost == 0),
        Line("broker's memory, largest", f"{rss / MB:.0f} MB", f"≤ {rss_limit / MB:.0f} MB", rss <= rss_limit),
        Line(
            "broker's memory, before → after",
            f"{end.start_rss_bytes / MB:.0f} → {end.rss_bytes / MB:.0f} MB",
            f"+ {KEPT_RSS_BYTES / MB:.0f} MB",
            end.rss_bytes - end.start_rss_bytes <= KEPT_RSS_BYTES,
        ),
        Line("alarms at the end", f"{end.alarms}", "0", end.alarms == 0),
        Line("errors in the log", f"{len(end.errors)}", "0", not end.errors),
        Line("warnings in the log", f"{len(end.warnings)}"),
        Line("broker", "running" if end.is_alive else "ended", "running", end.is_alive),
        Line("messages in / out per second", _rates(samples, seconds)),
        Line("backlog, largest", f"{max((sample.backlog for sample in samples), default=0):,}"),
        Line("write-ahead log, largest", f"{max((sample.wal_bytes for sample in samples), default=0) / MB:.0f} MB"),
        Line("data folder, largest", f"{max((sample.data_bytes for sample in samples), default=0) / MB:.0f} MB"),
        Line("alarms, seconds", f"{sum(1 for sample in samples if sample.alarms)}"),
    ]


def _three(ordered: Sequence[float]) -> str:
    if not ordered:
        return "none"
    return f"{percentile(ordered, 0.5):.2f} / {percentile(ordered, 0.99):.1f} / {ordered[-1]:.1f} ms"


def _rates(samples: Sequence[Sample], seconds: float) -> str:
    if not samples:
        return "none"
    first, last = samples[0], samples[-1]
    into, out = last.published - first.published, last.delivered - first.delivered
    return f"{into / seconds:,.0f} / {out / seconds:,.0f}"


def spread_over(samples: Sequence[Sample], began: float, transient: Times, durable: Times) -> None:
    """Add to each sample the times of the messages that were due in its second."""
    for times, is_durable in ((transient, False), (durable, True)):
        buckets: list[list[float]] = [[] for _ in samples]
        at = 0
        for due, took in zip(times.at_s, times.took_ms, strict=True):
            while at < len(samples) - 1 and samples[at].at_s < due - began:
                at += 1
            if buckets:
                buckets[at].append(took)
        for sample, bucket in zip(samples, buckets, strict=True):
            bucket.sort()
            if not bucket:
                continue
            if is_durable:
                sample.durable_p99_ms, sample.durable_max_ms = percentile(bucket, 0.99), bucket[-1]
            else:
                sample.p50_ms, sample.p99_ms = percentile(bucket, 0.5), percentile(bucket, 0.99)
                sample.max_ms = bucket[-1]
