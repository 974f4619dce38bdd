"""Metrics of a queue: one function for each, named like the field of RabbitMQ's management API.

The HTTP API, its totals and samples, and Prometheus take each number from here, so that they cannot differ. Each
function reads counters; none walks over messages or reads a page from disk.

parity: `messages` counts all messages of the queue. As in RabbitMQ, `messages` of a quorum queue includes held dead
letters (`messages_dlx`), over HTTP and in `rabbitmq_queue_messages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rabbitlike.protocol.constants import TIMESTAMP
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

#: Approximate memory of a queue without messages.
QUEUE_COST: Final = 3000


class Sums(NamedTuple):
    """Totals of several queues."""

    messages: int = 0
    messages_ready: int = 0
    messages_unacknowledged: int = 0
    messages_delayed: int = 0
    consumers: int = 0

    def plus(self, queue: Queue) -> Sums:
        """The totals including one more queue."""
        return Sums(
            self.messages + messages(queue),
            self.messages_ready + messages_ready(queue),
            self.messages_unacknowledged + messages_unacknowledged(queue),
            self.messages_delayed + messages_delayed(queue),
            self.consumers + consumers(queue),
        )


# Messages


def messages(queue: Queue) -> int:
    """All messages of the queue: ready, unacknowledged, awaiting a retry, and held dead letters."""
    return queue.message_count + queue.unacked_count + queue.awaiting_retry_count + queue.held_dead_letter_count


def messages_ready(queue: Queue) -> int:
    """`message_count` of queue.declare-ok."""
    return queue.message_count


def messages_unacknowledged(queue: Queue) -> int:
    return queue.unacked_count


def messages_delayed(queue: Queue) -> int:
    """Messages awaiting a retry: neither ready nor unacknowledged."""
    return queue.awaiting_retry_count


def messages_dlx(queue: Queue) -> int:
    """Held dead letters: the queue keeps them until all target queues have them."""
    return queue.held_dead_letter_count


def messages_paged_out(queue: Queue) -> int:
    return queue.ready.paged_count


def messages_ready_ram(queue: Queue) -> int:
    return messages_ready(queue) - messages_paged_out(queue)


def messages_unacknowledged_ram(queue: Queue) -> int:
    return messages_unacknowledged(queue)


def messages_ram(queue: Queue) -> int:
    return messages_ready_ram(queue) + messages_unacknowledged_ram(queue)


def messages_persistent(queue: Queue) -> int:
    """parity: all messages of a quorum queue are persistent, and none of a transient queue is."""
    if queue.settings.queue_type == "quorum":
        return messages(queue)
    return queue.persistent_count if queue.durable else 0


# Bytes of message bodies


def message_bytes(queue: Queue) -> int:
    return message_bytes_ready(queue) + message_bytes_unacknowledged(queue) + queue.deferred_bytes


def message_bytes_ready(queue: Queue) -> int:
    return queue.ready.body_bytes


def message_bytes_unacknowledged(queue: Queue) -> int:
    return queue.unacked_bytes


def message_bytes_dlx(queue: Queue) -> int:
    return 0 if queue.held_dead_letters is None else queue.held_dead_letters.body_bytes


def message_bytes_paged_out(queue: Queue) -> int:
    return queue.ready.paged_bytes


def message_bytes_ram(queue: Queue) -> int:
    return message_bytes_ready(queue) + message_bytes_unacknowledged(queue) - message_bytes_paged_out(queue)


def message_bytes_persistent(queue: Queue) -> int:
    if queue.settings.queue_type == "quorum":
        return message_bytes(queue)
    # After a restart the sizes of messages on disk are estimates, so the sum may exceed the total.
    return min(queue.persistent_bytes, message_bytes(queue)) if queue.durable else 0


# Other metrics


def memory(queue: Queue) -> int:
    """Approximate memory of the queue and its messages."""
    aside = sum(part.memory_bytes for part in (queue.retries, queue.held_dead_letters) if part is not None)
    return QUEUE_COST + queue.ready.memory_bytes + queue.unacked_bytes + aside


def consumers(queue: Queue) -> int:
    """`consumer_count` of queue.declare-ok."""
    return queue.consumer_count


def consumer_capacity(queue: Queue) -> float:
    """The share of time in which consumers could take a message; RabbitMQ also calls it `consumer_utilisation`."""
    return queue.consumers.utilisation(queue.vhost.broker.clock.now_ms())


def head_message_timestamp(queue: Queue) -> int | None:
    """The timestamp property of the next message; None without one, or if the message is on disk only."""
    message = queue.ready.head() if messages_ready(queue) else None
    if message is None or not message.properties[1] & TIMESTAMP:
        return None
    return Properties(message.properties).timestamp


def oldest_message_age_ms(queue: Queue) -> int | None:
    """Age of the oldest ready message; None without one, or if the age is known only on disk."""
    published_at_ms = queue.ready.oldest_at_ms() if messages_ready(queue) else 0
    if published_at_ms == 0:
        return None
    return max(0, queue.vhost.broker.clock.now_ms() - published_at_ms)
