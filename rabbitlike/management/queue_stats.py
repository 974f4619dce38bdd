"""The numbers of one queue in one object: how much it holds, what became of its messages, how fast and how late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rabbitlike.broker.queues.dead_letter_queue import letter_queues
from rabbitlike.broker.views import head_age_ms, text
from rabbitlike.management.kinds import QUEUE

if TYPE_CHECKING:
    from rabbitlike.broker.counters import Timing
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.management.context import Context


def stats_of(here: Context, queue: Queue) -> dict[str, object]:
    """Totals are of this run. `dlq_messages` is all that is ready where its letters go, others' included."""
    counters = queue.counters
    rates = here.rates.reading(QUEUE, (queue,))
    deaths = queue.deaths or {}
    waited_ms = _mean_ms(queue.waiting)
    age_ms = head_age_ms(queue) if queue.ready.count else None
    consumers = len(queue.consumers.all)
    return {
        "queue": text(queue.name),
        "depth": queue.message_count,
        "total_messages": queue.message_count + queue.unacked_count + queue.waiting_count + queue.letter_count,
        "inflight_messages": queue.unacked_count,
        "delayed_messages": queue.waiting_count,
        "held_dead_letters": queue.letter_count,
        "dlq_messages": sum(each.message_count for each in letter_queues(queue)),
        "consumers": consumers,
        "active_consumers": consumers,
        "published_total": counters.publish,
        "consumed_total": counters.deliver_get,
        "acked_total": counters.ack,
        "nacked_total": queue.nacked,
        "retry_count": counters.redeliver,
        "dead_lettered_total": sum(deaths.values()),
        "dead_lettered": {reason.value: count for reason, count in deaths.items()},
        "enqueue_rate": rates.rate("publish"),
        "dequeue_rate": rates.rate("deliver_get"),
        "ack_rate": rates.rate("ack"),
        "avg_wait_time_ms": waited_ms,
        "avg_delivery_latency_ms": waited_ms,
        "avg_process_latency_ms": _mean_ms(queue.processing),
        "oldest_message_age_secs": None if age_ms is None else age_ms / 1000,
        "partitions_assigned": {},
    }


def _mean_ms(timing: Timing) -> float | None:
    count = timing.count
    return timing.total_ms / count if count else None
