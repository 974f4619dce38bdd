"""The ack timeout: how long a client may leave a delivery unsettled.

parity: when the oldest delivery of a channel exceeds its queue's timeout, the broker closes the channel with 406 and
requeues its messages. Each channel with a timeout has one timer, which fires when the oldest remaining delivery is due.
"""

from collections.abc import Callable

from rabbitlike.broker.first_due import FirstDue
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.turn import Turn
from rabbitlike.protocol.errors import AmqpError, precondition_failed
from rabbitlike.session.deadlines import TOGETHER
from rabbitlike.session.unacked import Unacked


class AckTimeout(FirstDue):
    """The ack timeout timer of one channel, for all its queues; the shortest timeout decides when it fires first."""

    __slots__ = ("_is_looking", "_looked_to", "_number", "_on_late", "_soonest_ms", "_timeout_of", "_unacked")

    def __init__(
        self,
        number: int,
        unacked: Unacked,
        turn: Turn,
        timeout_of: Callable[[Queue], int],
        on_late: Callable[[AmqpError], None],
    ) -> None:
        super().__init__(turn)
        self._number = number
        self._unacked = unacked
        self._timeout_of = timeout_of
        self._on_late = on_late
        #: A check that takes several turns: the last tag checked, and the time until the next delivery is due.
        self._is_looking = False
        self._looked_to = 0
        self._soonest_ms = 0

    def end(self) -> None:
        """Stop and drop references to the closed channel."""
        self.stop()
        self._timeout_of = _no_timeout
        self._on_late = _ignore

    def watch(self, timeout_ms: int) -> None:
        """Watch a new delivery that must be settled within ``timeout_ms``."""
        self._watch(self._turn.now_ms + timeout_ms)

    def timeout_of(self, queue: Queue) -> int:
        """How long a delivery of this queue may stay unsettled, in ms; 0: no limit."""
        return self._timeout_of(queue)

    def on_due(self) -> None:
        if not self._is_looking:
            self._looked_to = self._soonest_ms = 0
            self._turn.run(self._look_on)

    def _look_on(self) -> bool:
        """Check outstanding deliveries while the turn has time; True if some are left."""
        self._is_looking = False
        while deliveries := self._unacked.after(self._looked_to, TOGETHER):
            self._looked_to = deliveries[-1].tag
            for delivery in deliveries:
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
                    return False
                self._soonest_ms = min(self._soonest_ms or left_ms, left_ms)
            if len(deliveries) == TOGETHER and self._turn.is_spent(TOGETHER):
                self._is_looking = True
                return True
        if self._soonest_ms:
            self.watch(self._soonest_ms)
        return False


def _no_timeout(queue: Queue) -> int:
    return 0


def _ignore(error: AmqpError) -> None: ...
