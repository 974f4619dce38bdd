"""Leases: messages fetched over HTTP, unacked until they are settled by position or their lease ends.

A message that is not settled in time counts as a failed attempt and is requeued. A restart ends all leases: leased
messages are ready again, marked as redelivered.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from rabbitlike.broker.first_due import FirstDue
from rabbitlike.broker.held import Settled, decide
from rabbitlike.broker.settle import Settle

if TYPE_CHECKING:
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.queues.queue import Queue


class Lease(NamedTuple):
    message: Message
    leased_at_ms: int
    due_at_ms: int


class Leases(FirstDue):
    """The leases of one queue. Heap entries with an outdated deadline are skipped."""

    __slots__ = ("_heap", "_leases", "_queue")

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue.turn)
        self._queue = queue
        self._leases: dict[int, Lease] = {}
        #: Deadline, position.
        self._heap: list[tuple[int, int]] = []

    def lease(self, message: Message, ms: int) -> int:
        """Lease a fetched message for ``ms`` and return the deadline."""
        now_ms = self._turn.now_ms
        return self._set(Lease(message, now_ms, now_ms + ms))

    def view(self) -> list[dict[str, object]]:
        """The leased messages in the format of a channel's unacked messages, without channel fields."""
        return [
            {
                "position": position,
                "delivery_tag": 0,
                "consumer_tag": "",
                "delivered_at": lease.leased_at_ms,
                "redelivered": lease.message.attempts > 0,
                "message_bytes": len(lease.message.body),
                "channel_details": {},
            }
            for position, lease in self._leases.items()
        ]

    def settle(self, position: int, how: Settle) -> Settled | None:
        """Settle a leased message. None: it is not leased."""
        lease = self._leases.pop(position, None)
        if lease is None:
            return None
        queue = self._queue
        if how is Settle.ACK:
            queue.vhost.counters.ack += 1
        elif queue.tracer is not None:
            queue.tracer.nacked(lease.message, lease.leased_at_ms, None)
        return decide(queue, lease.message, lease.leased_at_ms, how)

    def extend(self, position: int, ms: int) -> int | None:
        """Move the deadline to ``ms`` from now and return it. None: the message is not leased."""
        lease = self._leases.get(position)
        return None if lease is None else self._set(lease._replace(due_at_ms=self._turn.now_ms + ms))

    def stop(self) -> None:
        """Drop all leases of a deleted queue."""
        self._leases.clear()
        self._heap.clear()
        super().stop()

    def _set(self, lease: Lease) -> int:
        self._leases[lease.message.position] = lease
        heappush(self._heap, (lease.due_at_ms, lease.message.position))
        self._watch(lease.due_at_ms)
        return lease.due_at_ms

    def on_due(self) -> None:
        """Requeue the messages whose lease has ended."""
        now_ms = self._turn.now_ms
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            due_at_ms, position = heappop(heap)
            lease = self._leases.get(position)
            if lease is not None and lease.due_at_ms == due_at_ms:
                self.settle(position, Settle.REQUEUE)
            if self._turn.is_spent():
                break
        if heap:
            self._watch(heap[0][0])
