"""Metrics of the queue model: depth, messages in and out, dead letters by reason, consumers.

The per-object endpoint has one line per queue. The aggregated endpoint omits what queues counted: the sum would shrink
when a queue is deleted, and counters must only grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.statistics import queue_metrics
from rabbitlike.management.prometheus.groups import head, of_queue, queues

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.queues.queue import Queue

_NUMBERS: Final[tuple[tuple[str, str, str, Callable[[Queue], int]], ...]] = (
    ("depth", "Messages that are ready", "gauge", queue_metrics.messages_ready),
    ("delayed", "Messages that wait for a retry", "gauge", queue_metrics.messages_delayed),
    (
        "held_letters",
        "Dead-lettered messages held until their target queues confirm them",
        "gauge",
        queue_metrics.messages_dlx,
    ),
    ("enqueue_total", "Messages published to the queue", "counter", lambda queue: queue.counters.publish),
    ("dequeue_total", "Messages delivered", "counter", lambda queue: queue.counters.deliver_get),
    ("ack_total", "Messages acknowledged", "counter", lambda queue: queue.counters.ack),
    ("nack_total", "Messages requeued or rejected", "counter", lambda queue: queue.nacked),
    ("active_consumers", "Consumers", "gauge", queue_metrics.consumers),
)


def documented(broker: Broker, *, is_detailed: bool) -> Iterator[str]:
    for suffix, said, kind, read in _NUMBERS:
        if kind == "counter" and not is_detailed:
            continue
        name = f"rabbitlike_queue_{suffix}"
        yield head(name, said, kind)
        total = 0
        for queue in queues(broker, None):
            value = read(queue)
            total += value
            yield f"{name}{{{of_queue(queue)}}} {value}\n" if is_detailed else ""
        if not is_detailed:
            yield f"{name} {total}\n"
    yield from _deaths(broker, is_detailed=is_detailed)


def _deaths(broker: Broker, *, is_detailed: bool) -> Iterator[str]:
    name = "rabbitlike_queue_dlq_total"
    yield head(name, "Messages dead-lettered or dropped, by reason", "counter")
    if is_detailed:
        for queue in queues(broker, None):
            labels = of_queue(queue) if queue.deaths else ""
            for reason, count in (queue.deaths or {}).items():
                yield f'{name}{{{labels},reason="{reason.value}"}} {count}\n'
            yield ""
    else:
        for reason, counts in broker.deaths.items():
            yield f'{name}{{reason="{reason.value}"}} {sum(counts)}\n'
