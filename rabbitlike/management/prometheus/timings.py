"""Histograms of how long messages wait and how long consumers take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal

from rabbitlike.broker.statistics.counters import BOUNDS_MS, Timing
from rabbitlike.management.prometheus.groups import head, of_queue, queues

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker

Name = Literal["waiting", "processing", "latency"]

#: For each timing of a queue: the metric and its help text.
_SAID: Final[dict[Name, tuple[str, str, str]]] = {
    "waiting": ("wait_time", "rabbitlike_queue_wait_seconds", "Time from publish to the first delivery"),
    "processing": (
        "processing_time",
        "rabbitlike_queue_processing_seconds",
        "Time from delivery to its acknowledgement",
    ),
    "latency": ("wait_time", "rabbitlike_queue_delivery_latency_seconds", "Time from publish to the first delivery"),
}
#: Upper bounds; the last bucket is unbounded.
_BOUNDS: Final = (*(str(bound_ms / 1000) for bound_ms in BOUNDS_MS), "+Inf")


def timing_lines(broker: Broker, timing: Name, *, is_detailed: bool) -> Iterator[str]:
    """One histogram for all queues, deleted ones included; or with `is_detailed`, one for each queue that was used."""
    field, name, said = _SAID[timing]
    yield head(name, said, "histogram")
    sums = [0] * len(_BOUNDS)
    total_ms = 0
    for vhost in list(broker.vhosts.values()):
        gone: Timing = getattr(vhost, field)
        sums = [mine + more for mine, more in zip(sums, gone.buckets(), strict=True)]
        total_ms += gone.total_ms
    for queue in queues(broker, None):
        measured: Timing = getattr(queue, field)
        buckets = measured.buckets()
        if not any(buckets):
            yield ""
        elif is_detailed:
            yield _lines(name, of_queue(queue), buckets, measured.total_ms)
        else:
            sums = [mine + more for mine, more in zip(sums, buckets, strict=True)]
            total_ms += measured.total_ms
            yield ""
    if not is_detailed:
        yield _lines(name, "", sums, total_ms)


def _lines(name: str, labels: str, buckets: Iterable[int], total_ms: int) -> str:
    before = f"{labels}," if labels else ""
    around = f"{{{labels}}}" if labels else ""
    lines = []
    count = 0
    for bound, more in zip(_BOUNDS, buckets, strict=True):
        count += more
        lines.append(f'{name}_bucket{{{before}le="{bound}"}} {count}\n')
    lines.append(f"{name}_count{around} {count}\n{name}_sum{around} {total_ms / 1000}\n")
    return "".join(lines)
