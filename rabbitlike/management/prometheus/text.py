"""Writes metrics in Prometheus' text format, in slices: ten thousand queues make a quarter of a million lines.

prometheus-client writes the families of the whole broker. Lines of single objects are built here, with the labels of
each object made once for all its numbers: prometheus-client would take ten times as long, on the broker's thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from rabbitlike.broker.statistics import queue_metrics
from rabbitlike.management.listing.lists import Slices
from rabbitlike.management.prometheus import families
from rabbitlike.management.prometheus.documented import documented
from rabbitlike.management.prometheus.groups import (
    BY_NAME,
    GROUPS,
    QUEUE,
    QUEUE_COARSE,
    QUEUE_CONSUMERS,
    Group,
    Number,
    channels,
    connections,
    head,
    label,
    of_exchange,
    of_queue,
    queues,
)
from rabbitlike.management.prometheus.timings import timing_lines

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from rabbitlike.management.context import Context

Endpoint = Literal["aggregated", "per-object", "detailed"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Steps between two readings of the time; the longest, a family of the whole broker, takes 0.05 ms.
STRIDE: Final = 8
#: Most lines in one step.
BLOCK: Final = 16
_QUEUE_FAMILIES: Final = (QUEUE_COARSE, QUEUE_CONSUMERS, QUEUE)


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested metrics: the endpoint, and for the detailed one its families and vhosts."""

    endpoint: Endpoint = "aggregated"
    families: frozenset[str] = field(default_factory=frozenset)
    vhosts: frozenset[str] | None = None


class _Chunk(Collector):
    """A collector that returns given families."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


async def exposition(here: Context, asked: Selection) -> AsyncIterator[bytes]:
    """The text in pieces, with pauses between them."""
    slices = Slices()
    lines = _lines(here, asked)
    gathered: list[str] = []
    while steps := list(islice(lines, STRIDE)):
        gathered += steps
        if slices.is_over:
            if piece := "".join(gathered).encode():
                yield piece
            gathered.clear()
            await slices.pause()
    yield "".join(gathered).encode()


def _lines(here: Context, asked: Selection) -> Iterator[str]:
    """All metrics in short steps: some lines, a family, or an empty text where a step only read an object."""
    if asked.endpoint == "detailed":
        wanted = [group for name, group in BY_NAME.items() if name in asked.families]
        if QUEUE in wanted and QUEUE_CONSUMERS in wanted:
            wanted.remove(QUEUE_CONSUMERS)  # parity: QUEUE includes it
        yield from _objects(here, wanted, "rabbitmq_detailed_", asked.vhosts)
        yield from _cluster(here, asked)
        if any(group in wanted for group in _QUEUE_FAMILIES):
            yield from _queue_info(here, "rabbitmq_detailed_", asked.vhosts)
    else:
        yield from _written(families.node(here))
        if asked.endpoint == "per-object":
            yield from _objects(here, GROUPS, "rabbitmq_", None)
            yield from _queue_info(here, "rabbitmq_", None)
        else:
            yield from _sums(here)
        yield from _whole(here)
        yield from _ours(here, is_detailed=asked.endpoint == "per-object")
    yield from _written(families.identity(here, asked.endpoint))


def _written(metrics: Iterable[Metric]) -> Iterator[str]:
    for metric in metrics:
        yield generate_latest(_Chunk([metric])).decode()


def _head_of(number: Number, name: str) -> str:
    return head(name, number.help, "counter" if number.is_count else "gauge")


def _objects(here: Context, groups: Sequence[Group], prefix: str, vhosts: frozenset[str] | None) -> Iterator[str]:
    for group in groups:
        # One list, not one row per object: the garbage collector would stop to visit ten thousand rows.
        labels: list[str] = []
        numbers: list[float | None] = []
        for each in group.objects(here.broker, vhosts):
            labels.append(group.labels(each))
            numbers += group.read(each)
            yield ""
        for at, number in enumerate(group.numbers):
            name = prefix + number.name
            yield _head_of(number, name)
            column = numbers[at :: len(group.numbers)]
            for start in range(0, len(labels), BLOCK):
                few = zip(labels[start : start + BLOCK], column[start : start + BLOCK], strict=True)
                yield "".join([f"{name}{{{place}}} {value}\n" for place, value in few if value is not None])


def _sums(here: Context) -> Iterator[str]:
    """parity: sums over all current objects."""
    for group in GROUPS:
        sums: list[float] = [0] * len(group.numbers)
        for each in group.objects(here.broker, None):
            sums = [total + (value or 0) for total, value in zip(sums, group.read(each), strict=True)]
            yield ""
        for number, total in zip(group.numbers, sums, strict=True):
            name = f"rabbitmq_{number.name}"
            yield _head_of(number, name) + (f"{name} {total}\n" if number.has_sum else "")


def _whole(here: Context) -> Iterator[str]:
    open_connections = open_channels = publishers = consumers = count = 0
    for _ in connections(here.broker, None):
        open_connections += 1
        yield ""
    for channel in channels(here.broker, None):
        open_channels += 1
        publishers += channel.counters.publish > 0
        yield ""
    for queue in queues(here.broker, None):
        count += 1
        consumers += queue_metrics.consumers(queue)
        yield ""
    yield from _written(families.totals(open_connections, open_channels, consumers, count))
    yield from _written(families.global_counters(here, publishers, consumers))
    yield from _written([families.message_sizes(here)])
    yield from _written(families.dead_letters(here))
    yield from _written(families.logins(here))


def _cluster(here: Context, asked: Selection) -> Iterator[str]:
    """parity: families that only the detailed endpoint has, with their own prefix."""
    broker = here.broker
    seen = [vhost for name, vhost in broker.vhosts.items() if asked.vhosts is None or name in asked.vhosts]
    if "vhost_status" in asked.families:
        name = "rabbitmq_cluster_vhost_status"
        yield head(name, "Whether a given vhost is running", "gauge")
        for vhost in seen:
            yield f'{name}{{vhost="{label(vhost.name)}"}} 1\n'
    for family, name, said in (
        ("exchange_names", "rabbitmq_cluster_exchange_name", "Enumerates exchanges without any additional info."),
        ("exchange_bindings", "rabbitmq_cluster_exchange_bindings", "Number of bindings for an exchange."),
    ):
        if family not in asked.families:
            continue
        yield head(name, said, "gauge")
        for vhost in seen:
            for exchange in list(vhost.exchanges.values()):
                bound = len(exchange.bindings) if exchange.name else len(vhost.queues)
                value = 1 if family == "exchange_names" else bound
                yield f'{name}{{{of_exchange(exchange)},type="{exchange.kind}"}} {value}\n'


def _queue_info(here: Context, prefix: str, vhosts: frozenset[str] | None) -> Iterator[str]:
    name = f"{prefix}queue_info"
    yield head(name, "A metric with a constant '1' value and labels that provide some queue details", "gauge")
    for queue in queues(here.broker, vhosts):
        kind = f"rabbit_{queue.settings.queue_type}_queue"
        yield f'{name}{{{of_queue(queue)},queue_type="{kind}",membership="leader"}} 1\n'


def _ours(here: Context, *, is_detailed: bool) -> Iterator[str]:
    yield from _written(families.ours(here))
    name = "rabbitlike_queue_oldest_message_age_seconds"
    yield head(name, "Age of the oldest message that is ready", "gauge")
    oldest_ms = 0
    for queue in queues(here.broker, None):
        age_ms = queue_metrics.oldest_message_age_ms(queue)
        if age_ms is not None:
            oldest_ms = max(oldest_ms, age_ms)
        yield "" if age_ms is None or not is_detailed else f"{name}{{{of_queue(queue)}}} {age_ms / 1000}\n"
    if not is_detailed:
        yield f"{name} {oldest_ms / 1000}\n"
    for timing in ("waiting", "processing", "latency"):
        if timing != "latency" or not is_detailed:  # latency equals waiting
            yield from timing_lines(here.broker, timing, is_detailed=is_detailed)
    yield from documented(here.broker, is_detailed=is_detailed)
