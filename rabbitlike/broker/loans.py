"""Messages that were fetched without a channel and are held until a deadline: whoever has one settles it by position.

They count as unacked. One that is not settled in time failed, and goes back. A restart ends all: what was lent is ready
again, as delivered before.
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


class Loan(NamedTuple):
    message: Message
    lent_at_ms: int
    due_at_ms: int


class Loans(FirstDue):
    """What is lent of one queue. A heap's entry that is not its loan's deadline any more is passed over."""

    __slots__ = ("_heap", "_loans", "_queue")

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue.turn)
        self._queue = queue
        self._loans: dict[int, Loan] = {}
        #: Deadline, position.
        self._heap: list[tuple[int, int]] = []

    def lend(self, message: Message, ms: int) -> int:
        """A message was fetched, for so long; until when."""
        now_ms = self._turn.now_ms
        return self._set(Loan(message, now_ms, now_ms + ms))

    def view(self) -> list[dict[str, object]]:
        """As what channels hold is shown; there is none."""
        return [
            {
                "position": position,
                "delivery_tag": 0,
                "consumer_tag": "",
                "delivered_at": loan.lent_at_ms,
                "redelivered": loan.message.attempts > 0,
                "message_bytes": len(loan.message.body),
                "channel_details": {},
            }
            for position, loan in self._loans.items()
        ]

    def settle(self, position: int, how: Settle) -> Settled | None:
        """None: it is not lent."""
        loan = self._loans.pop(position, None)
        if loan is None:
            return None
        queue = self._queue
        if how is Settle.ACK:
            queue.vhost.counters.ack += 1
        elif queue.trail is not None:
            queue.trail.nacked(loan.message, loan.lent_at_ms, None)
        return decide(queue, loan.message, loan.lent_at_ms, how)

    def extend(self, position: int, ms: int) -> int | None:
        """Give whoever has it so much time from now; until when. None: it is not lent."""
        loan = self._loans.get(position)
        return None if loan is None else self._set(loan._replace(due_at_ms=self._turn.now_ms + ms))

    def stop(self) -> None:
        """The queue is gone."""
        self._loans.clear()
        self._heap.clear()
        super().stop()

    def _set(self, loan: Loan) -> int:
        self._loans[loan.message.position] = loan
        heappush(self._heap, (loan.due_at_ms, loan.message.position))
        self._watch(loan.due_at_ms)
        return loan.due_at_ms

    def on_due(self) -> None:
        """Those whose time is over go back."""
        now_ms = self._turn.now_ms
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            due_at_ms, position = heappop(heap)
            loan = self._loans.get(position)
            if loan is not None and loan.due_at_ms == due_at_ms:
                self.settle(position, Settle.REQUEUE)
            if self._turn.is_spent():
                break
        if heap:
            self._watch(heap[0][0])
