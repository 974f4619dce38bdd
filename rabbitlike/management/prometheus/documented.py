"""Queues in the words of the queue model: depth, what went in and out, what died and of what, who consumes.

One line for each queue where each is told of. Where only sums are, there is none of what queues counted: it would
shrink when one is deleted, and counts only grow.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from rabbitlike.management.prometheus.groups import label, queues

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.management.lists import Slices

#: Lines written at a time.
LINES: Final = 500

_NUMBERS: Final[tuple[tuple[str, str, str, Callable[[Queue], int]], ...]] = (
    ("depth", "Messages that are ready", "gauge", lambda queue: queue.message_count),
    ("delayed", "Messages that wait for their next try", "gauge", lambda queue: queue.waiting_count),
    ("enqueue_total", "Messages that came in", "counter", lambda queue: queue.counters.publish),
    ("dequeue_total", "Messages that were handed out", "counter", lambda queue: queue.counters.deliver_get),
    ("ack_total", "Messages that were acknowledged", "counter", lambda queue: queue.counters.ack),
    ("nack_total", "Messages that were given back or rejected", "counter", lambda queue: queue.nacked),
    ("active_consumers", "Consumers", "gauge", lambda queue: len(queue.consumers.all)),
)


async def documented(broker: Broker, slices: Slices, *, is_detailed: bool) -> AsyncIterator[bytes]:
    for suffix, said, kind, read in _NUMBERS:
        if kind == "counter" and not is_detailed:
            continue
        name = f"rabbitlike_queue_{suffix}"
        lines = [_head(name, said, kind)]
        total = 0
        for queue in queues(broker, None):
            value = read(queue)
            total += value
            if is_detailed:
                lines.append(f"{name}{{{_labels(queue)}}} {value}\n")
                if len(lines) >= LINES:
                    yield "".join(lines).encode()
                    lines.clear()
            await slices.breathe()
        if not is_detailed:
            lines.append(f"{name} {total}\n")
        yield "".join(lines).encode()
    async for piece in _deaths(broker, slices, is_detailed=is_detailed):
        yield piece


async def _deaths(broker: Broker, slices: Slices, *, is_detailed: bool) -> AsyncIterator[bytes]:
    name = "rabbitlike_queue_dlq_total"
    lines = [_head(name, "Messages that were given up, by the reason", "counter")]
    if is_detailed:
        for queue in queues(broker, None):
            for reason, count in (queue.deaths or {}).items():
                lines.append(f'{name}{{{_labels(queue)},reason="{reason.value}"}} {count}\n')
            await slices.breathe()
    else:
        lines += [f'{name}{{reason="{reason.value}"}} {sum(counts)}\n' for reason, counts in broker.deaths.items()]
    yield "".join(lines).encode()


def _head(name: str, said: str, kind: str) -> str:
    return f"# HELP {name} {said}\n# TYPE {name} {kind}\n"


def _labels(queue: Queue) -> str:
    return f'vhost="{label(queue.vhost.name)}",queue="{label(queue.name)}"'
