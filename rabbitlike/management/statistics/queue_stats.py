"""The statistics of one queue in one object: its lengths, totals, rates and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rabbitlike.broker.queues.dead_letters.dead_letter_queue import dead_letter_queues
from rabbitlike.broker.statistics import queue_metrics
from rabbitlike.broker.views import text
from rabbitlike.management.statistics.kinds import QUEUE

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.statistics.counters import Timing
    from rabbitlike.management.context import Context


def stats_of(here: Context, queue: Queue) -> dict[str, object]:
    """Totals count from the start. `dlq_messages` counts everything ready in its dead-letter queues."""
    counters = queue.counters
    rates = here.rates.reading(QUEUE, (queue,))
    deaths = queue.deaths or {}
    waited_ms = _mean_ms(queue.wait_time)
    age_ms = queue_metrics.oldest_message_age_ms(queue)
    consumers = queue_metrics.consumers(queue)
    return {
        "queue": text(queue.name),
        "depth": queue_metrics.messages_ready(queue),
        "total_messages": queue_metrics.messages(queue),
        "inflight_messages": queue_metrics.messages_unacknowledged(queue),
        "delayed_messages": queue_metrics.messages_delayed(queue),
        "held_dead_letters": queue_metrics.messages_dlx(queue),
        "dlq_messages": sum(queue_metrics.messages_ready(each) for each in dead_letter_queues(queue)),
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
        "avg_process_latency_ms": _mean_ms(queue.processing_time),
        "oldest_message_age_secs": None if age_ms is None else age_ms / 1000,
        "partitions_assigned": {},
    }


def _mean_ms(timing: Timing) -> float | None:
    count = timing.count
    return timing.total_ms / count if count else None
