"""When a connection that publishes must wait: for commits of what it sent, or for the consumers of a queue.

Asked after each turn in which the connection published something that is to be written, or to a queue that is
congested. Whoever publishes little is never stopped. A connection that also consumes does not wait for consumers: its
acks come by the same socket, so it might wait for itself.
"""

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.credit import LITTLE_BYTES, Credit
from rabbitlike.broker.journal import Journal
from rabbitlike.broker.queues.admission import AdmissionControl
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.turn import Turn

if TYPE_CHECKING:
    from rabbitlike.session.flow import Flow

#: The reason that a connection is not read for.
FLOW: Final = "flow"
#: Bytes that a connection publishes within this time are a burst.
BURST_MS: Final = 10


class Throttle:
    """One per connection."""

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
        #: What it waits for, if that is the consumers of a queue.
        self._admission: AdmissionControl | None = None
        #: Bytes of it in the commit that gathers now, whose number this is, and in the one before that.
        self._fresh_bytes = 0
        self._older_bytes = 0
        self._number = 0
        #: Bytes of the burst at hand, and when it began.
        self._burst_bytes = 0
        self._burst_at_ms = 0

    def published(self, written_bytes: int) -> None:
        """The turn is over; it added so much to the next commit."""
        own_bytes = self._uncommitted(written_bytes) if written_bytes > 0 else 0
        # Most turns end here: a connection that has little uncommitted never waits for commits.
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
        """It may publish again."""
        self._admission = None

    def stop(self) -> None:
        """The connection is gone."""
        if self._credit is not None:
            self._credit.leave(self._client)
        if self._admission is not None:
            self._admission.leave(self._client)
            self._admission = None

    def detach(self) -> None:
        """The socket is gone: refer to the connection no longer, so that reference counting frees both."""
        self._client = None  # type: ignore[assignment]

    def _uncommitted(self, written_bytes: int) -> int:
        """Bytes of this connection that no commit holds yet, with those of this turn."""
        journal = self._journal
        assert journal is not None
        if self._number != journal.number:
            self._older_bytes = self._fresh_bytes if self._number == journal.number - 1 else 0
            self._fresh_bytes = 0
            self._number = journal.number
        self._fresh_bytes += written_bytes
        return self._fresh_bytes + (self._older_bytes if journal.committed < journal.number - 1 else 0)

    def _is_burst(self) -> bool:
        """Has it sent much in a short time?"""
        if self._turn.now_ms - self._burst_at_ms > BURST_MS:
            self._burst_at_ms = self._turn.now_ms
            self._burst_bytes = 0
        self._burst_bytes += self._client.read_bytes
        return self._burst_bytes > LITTLE_BYTES
