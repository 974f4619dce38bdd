"""When a publishing connection must wait: for commits of its messages, or for the consumers of a queue.

Checked after each turn in which the connection published something to be stored, or published to a congested queue. A
connection that publishes little never waits. A connection that also consumes does not wait for consumers: its acks
arrive on the same socket, so it might wait for itself.
"""

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.credit import LITTLE_BYTES, Credit
from rabbitlike.broker.journal import Journal
from rabbitlike.broker.queues.admission import AdmissionControl
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.turn import Turn

if TYPE_CHECKING:
    from rabbitlike.session.flow import Flow

#: The reason for not reading the connection.
FLOW: Final = "flow"
#: Bytes published within this time count as one burst.
BURST_MS: Final = 10


class Throttle:
    """The throttle of one connection."""

    __slots__ = (
        "_admission",
        "_burst_at_ms",
        "_burst_bytes",
        "_client",
        "_credit",
        "_fresh_bytes",
        "_journal",
        "_number",
        "_older_bytes",
        "_turn",
    )

    def __init__(self, client: "Flow", turn: Turn, journal: Journal | None, credit: Credit | None) -> None:
        self._client = client
        self._turn = turn
        self._journal = journal
        self._credit = credit
        #: The queue whose consumers the connection waits for, if any.
        self._admission: AdmissionControl | None = None
        #: Bytes of this connection in the commit being collected, in the one before, and the number of the former.
        self._fresh_bytes = 0
        self._older_bytes = 0
        self._number = 0
        #: Bytes of the current burst, and its start time.
        self._burst_bytes = 0
        self._burst_at_ms = 0

    def published(self, written_bytes: int) -> None:
        """Check after a turn whether the connection must wait; it added ``written_bytes`` to the next commit."""
        own_bytes = self._uncommitted(written_bytes) if written_bytes > 0 else 0
        # Most turns end here: a connection with few uncommitted bytes never waits for commits.
        if own_bytes > LITTLE_BYTES and self._credit is not None and self._credit.is_used_up(own_bytes):
            self._credit.wait(self._client)
            self._client.hold(FLOW)
        elif self._turn.congested and self._is_burst() and not self._client.has_consumers:
            for queue in self._turn.congested:
                assert isinstance(queue, Queue)
                if queue.make_wait(self._client):
                    self._admission = queue.admission
                    self._client.hold(FLOW)
                    return

    def resumed(self) -> None:
        """Note that the connection may publish again."""
        self._admission = None

    def stop(self) -> None:
        """Leave all wait lists, because the connection has ended."""
        if self._credit is not None:
            self._credit.leave(self._client)
        if self._admission is not None:
            self._admission.leave(self._client)
            self._admission = None

    def detach(self) -> None:
        """Drop the reference to the connection after its socket is closed, so that reference counting frees both."""
        self._client = None  # type: ignore[assignment]

    def _uncommitted(self, written_bytes: int) -> int:
        """Bytes of this connection that are not committed, including those of this turn."""
        journal = self._journal
        assert journal is not None
        if self._number != journal.number:
            self._older_bytes = self._fresh_bytes if self._number == journal.number - 1 else 0
            self._fresh_bytes = 0
            self._number = journal.number
        self._fresh_bytes += written_bytes
        return self._fresh_bytes + (self._older_bytes if journal.committed < journal.number - 1 else 0)

    def _is_burst(self) -> bool:
        """Whether the connection sent much in a short time."""
        if self._turn.now_ms - self._burst_at_ms > BURST_MS:
            self._burst_at_ms = self._turn.now_ms
            self._burst_bytes = 0
        self._burst_bytes += self._client.read_bytes
        return self._burst_bytes > LITTLE_BYTES
