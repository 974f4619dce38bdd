"""Writes metrics in Prometheus' text format, in slices: ten thousand queues are a quarter of a million lines.

Families of the whole broker are written by prometheus-client. Lines of objects are put together here, with the labels
of each made once for all its numbers: its writer would take ten times as long, on the thread that serves clients.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from rabbitlike.broker.views import head_age_ms
from rabbitlike.management.lists import Slices
from rabbitlike.management.prometheus import families
from rabbitlike.management.prometheus.documented import documented
from rabbitlike.management.prometheus.groups import (
    BY_NAME,
    GROUPS,
    QUEUE,
    QUEUE_COARSE,
    QUEUE_CONSUMERS,
    Group,
    Row,
    channels,
    connections,
    label,
    queues,
)
from rabbitlike.management.prometheus.timings import timing_lines

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from rabbitlike.management.context import Context

Endpoint = Literal["aggregated", "per-object", "detailed"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Lines handed on at once.
LINES: Final = 500
_QUEUE_FAMILIES: Final = (QUEUE_COARSE, QUEUE_CONSUMERS, QUEUE)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which metrics are wanted: of which endpoint, and for the detailed one, which families of which vhosts."""

    endpoint: Endpoint = "aggregated"
    families: frozenset[str] = field(default_factory=frozenset)
    vhosts: frozenset[str] | None = None


class _Chunk(Collector):
    """Some families, as a registry hands them out."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


async def exposition(here: Context, asked: Asked) -> AsyncIterator[bytes]:
    """The text, piece by piece, with a breath between them."""
    slices = Slices()
    if asked.endpoint == "detailed":
        wanted = [group for name, group in BY_NAME.items() if name in asked.families]
        if QUEUE in wanted and QUEUE_CONSUMERS in wanted:
            wanted.remove(QUEUE_CONSUMERS)  # parity: the one is part of the other
        async for piece in _objects(here, wanted, "rabbitmq_detailed_", asked.vhosts, slices):
            yield piece
        async for piece in _cluster(here, asked, slices):
            yield piece
        if any(group in wanted for group in _QUEUE_FAMILIES):
            async for piece in _queue_info(here, "rabbitmq_detailed_", asked.vhosts, slices):
                yield piece
    else:
        yield _written(families.node(here))
        await slices.breathe()
        if asked.endpoint == "per-object":
            async for piece in _objects(here, GROUPS, "rabbitmq_", None, slices):
                yield piece
            async for piece in _queue_info(here, "rabbitmq_", None, slices):
                yield piece
        else:
            yield await _sums(here, slices)
        yield await _whole(here, slices)
        async for piece in _ours(here, asked, slices):
            yield piece
    yield _written(families.identity(here, asked.endpoint))


def _written(metrics: Iterable[Metric]) -> bytes:
    return generate_latest(_Chunk(metrics))


def _head(name: str, said: str, kind: str) -> str:
    return f"# HELP {name} {said}\n# TYPE {name} {kind}\n"


async def _objects(
    here: Context, groups: Sequence[Group], prefix: str, vhosts: frozenset[str] | None, slices: Slices
) -> AsyncIterator[bytes]:
    for group in groups:
        rows: list[tuple[str, Row]] = []
        for each in group.objects(here.broker, vhosts):
            rows.append((group.labels(each), group.read(each)))
            await slices.breathe()
        for at, number in enumerate(group.numbers):
            name = prefix + number.name
            lines = [_head(name, number.help, "counter" if number.is_count else "gauge")]
            for labels, row in rows:
                value = row[at]
                if value is not None:
                    lines.append(f"{name}{{{labels}}} {value}\n")
                if len(lines) >= LINES:
                    yield "".join(lines).encode()
                    lines.clear()
                    await slices.breathe()
            yield "".join(lines).encode()


async def _sums(here: Context, slices: Slices) -> bytes:
    """parity: the sum over all objects there are now."""
    lines: list[str] = []
    for group in GROUPS:
        sums: list[float] = [0] * len(group.numbers)
        for each in group.objects(here.broker, None):
            for at, value in enumerate(group.read(each)):
                if value is not None:
                    sums[at] += value
            await slices.breathe()
        for number, value in zip(group.numbers, sums, strict=True):
            name = f"rabbitmq_{number.name}"
            kind = "counter" if number.is_count else "gauge"
            lines.append(_head(name, number.help, kind) + (f"{name} {value}\n" if number.has_sum else ""))
    return "".join(lines).encode()


async def _whole(here: Context, slices: Slices) -> bytes:
    open_connections = sum(1 for _ in connections(here.broker, None))
    open_channels = publishers = consumers = count = 0
    for channel in channels(here.broker, None):
        open_channels += 1
        publishers += channel.counters.publish > 0
        await slices.breathe()
    for queue in queues(here.broker, None):
        count += 1
        consumers += len(queue.consumers.all)
        await slices.breathe()
    return _written(
        [
            *families.totals(open_connections, open_channels, consumers, count),
            *families.global_counters(here, publishers, consumers),
            *families.dead_letters(here),
            *families.logins(here),
        ]
    )


async def _cluster(here: Context, asked: Asked, slices: Slices) -> AsyncIterator[bytes]:
    """parity: families that only the detailed endpoint has, under a prefix of their own."""
    broker = here.broker
    seen = [vhost for name, vhost in broker.vhosts.items() if asked.vhosts is None or name in asked.vhosts]
    if "vhost_status" in asked.families:
        name = "rabbitmq_cluster_vhost_status"
        lines = [f'{name}{{vhost="{label(vhost.name)}"}} 1\n' for vhost in seen]
        yield (_head(name, "Whether a given vhost is running", "gauge") + "".join(lines)).encode()
    for family, name, said in (
        ("exchange_names", "rabbitmq_cluster_exchange_name", "Enumerates exchanges without any additional info."),
        ("exchange_bindings", "rabbitmq_cluster_exchange_bindings", "Number of bindings for an exchange."),
    ):
        if family not in asked.families:
            continue
        yield _head(name, said, "gauge").encode()
        for vhost in seen:
            for exchange in list(vhost.exchanges.values()):
                bound = len(exchange.bindings) if exchange.name else len(vhost.queues)
                value = 1 if family == "exchange_names" else bound
                labels = f'vhost="{label(vhost.name)}",exchange="{label(exchange.name)}",type="{exchange.kind}"'
                yield f"{name}{{{labels}}} {value}\n".encode()
                await slices.breathe()


async def _queue_info(
    here: Context, prefix: str, vhosts: frozenset[str] | None, slices: Slices
) -> AsyncIterator[bytes]:
    name = f"{prefix}queue_info"
    yield _head(name, "A metric with a constant '1' value and labels that provide some queue details", "gauge").encode()
    lines: list[str] = []
    for queue in queues(here.broker, vhosts):
        place = f'vhost="{label(queue.vhost.name)}",queue="{label(queue.name)}"'
        kind = f"rabbit_{queue.settings.queue_type}_queue"
        lines.append(f'{name}{{{place},queue_type="{kind}",membership="leader"}} 1\n')
        if len(lines) >= LINES:
            yield "".join(lines).encode()
            lines.clear()
        await slices.breathe()
    yield "".join(lines).encode()


async def _ours(here: Context, asked: Asked, slices: Slices) -> AsyncIterator[bytes]:
    yield _written(families.ours(here))
    is_detailed = asked.endpoint == "per-object"
    name = "rabbitlike_queue_oldest_message_age_seconds"
    yield _head(name, "Age of the oldest message that is ready", "gauge").encode()
    oldest_ms = 0
    lines: list[str] = []
    for queue in queues(here.broker, None):
        age_ms = head_age_ms(queue) if queue.ready.count else None
        if age_ms is not None:
            oldest_ms = max(oldest_ms, age_ms)
            if is_detailed:
                labels = f'vhost="{label(queue.vhost.name)}",queue="{label(queue.name)}"'
                lines.append(f"{name}{{{labels}}} {age_ms / 1000}\n")
        await slices.breathe()
    yield ("".join(lines) if is_detailed else f"{name} {oldest_ms / 1000}\n").encode()
    for timing in ("waiting", "processing", "latency"):
        if timing != "latency" or not is_detailed:  # the same as waiting, by another name
            async for piece in timing_lines(here.broker, timing, slices, is_detailed=is_detailed):
                yield piece
    async for piece in documented(here.broker, slices, is_detailed=is_detailed):
        yield piece
