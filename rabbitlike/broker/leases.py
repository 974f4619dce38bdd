"""Messages that were fetched without a channel and are held until a deadline: whoever has one settles it by position.

They count as unacked. One that is not settled in time failed, and goes back. A restart ends all: what was leased is
ready again, as delivered before.
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
    """What is leased of one queue. A heap's entry that is not its lease's deadline any more is passed over."""

    __slots__ = ("_heap", "_leases", "_queue")

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue.turn)
        self._queue = queue
        self._leases: dict[int, Lease] = {}
        #: Deadline, position.
        self._heap: list[tuple[int, int]] = []

    def lease(self, message: Message, ms: int) -> int:
        """A message was fetched, for so long; until when."""
        now_ms = self._turn.now_ms
        return self._set(Lease(message, now_ms, now_ms + ms))

    def view(self) -> list[dict[str, object]]:
        """As what channels hold is shown; there is none."""
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
        """None: it is not leased."""
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
        """Give whoever has it so much time from now; until when. None: it is not leased."""
        lease = self._leases.get(position)
        return None if lease is None else self._set(lease._replace(due_at_ms=self._turn.now_ms + ms))

    def stop(self) -> None:
        """The queue is gone."""
        self._leases.clear()
        self._heap.clear()
        super().stop()

    def _set(self, lease: Lease) -> int:
        self._leases[lease.message.position] = lease
        heappush(self._heap, (lease.due_at_ms, lease.message.position))
        self._watch(lease.due_at_ms)
        return lease.due_at_ms

    def on_due(self) -> None:
        """Those whose time is over go back."""
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
