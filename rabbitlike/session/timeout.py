"""The ack timeout: how long a client may sit on a delivery.

parity: when the oldest delivery of a channel is older than its queue's timeout, the channel is closed with 406 and what
it held goes back. One timer per channel, set only where a timeout is, looks again when the oldest of what is left is
due.
"""

from collections.abc import Callable

from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.turn import Turn
from rabbitlike.clock import Timer
from rabbitlike.protocol.errors import AmqpError, precondition_failed
from rabbitlike.session.unacked import Unacked


class AckTimeout:
    """The timer of one channel, shared by its queues; the shortest timeout seen rules how soon it looks."""

    __slots__ = ("_due_at_ms", "_number", "_on_late", "_timeout_of", "_timer", "_turn", "_unacked")

    def __init__(
        self,
        number: int,
        unacked: Unacked,
        turn: Turn,
        timeout_of: Callable[[Queue], int],
        on_late: Callable[[AmqpError], None],
    ) -> None:
        self._number = number
        self._unacked = unacked
        self._turn = turn
        self._timeout_of = timeout_of
        self._on_late = on_late
        self._timer: Timer | None = None
        self._due_at_ms = 0

    def watch(self, timeout_ms: int) -> None:
        """A delivery went out that is to be settled within ``timeout_ms``."""
        due_at_ms = self._turn.now_ms + timeout_ms
        if self._timer is not None:
            if self._due_at_ms <= due_at_ms:
                return
            self._timer.cancel()
        self._due_at_ms = due_at_ms
        self._timer = self._turn.at(timeout_ms, self._look)

    def timeout_of(self, queue: Queue) -> int:
        """How long a delivery of this queue may stay unsettled, in ms; 0: for ever."""
        return self._timeout_of(queue)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        soonest_ms = 0
        for delivery in self._unacked.deliveries():
            timeout_ms = self._timeout_of(delivery.queue)
            if not timeout_ms:
                continue
            left_ms = delivery.delivered_at_ms + timeout_ms - self._turn.now_ms
            if left_ms <= 0:
                self._on_late(
                    precondition_failed(
                        f"delivery acknowledgement on channel {self._number} timed out. "
                        f"Timeout value used: {timeout_ms} ms. "
                        "This timeout value can be configured, see consumers doc guide to learn more"
                    )
                )
                return
            soonest_ms = min(soonest_ms or left_ms, left_ms)
        if soonest_ms:
            self.watch(soonest_ms)
