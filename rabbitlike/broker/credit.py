"""Credit of publishers: how much they may send before the store has committed it.

Messages that are to be written stay in memory until their commit is done. That is bounded for each connection and for
all together: a connection that has used up its credit is not read until a commit is done. Connections that publish
little are never stopped by those that publish much. Commits are bounded by it as well.
"""

from typing import Final

from rabbitlike.broker.journal import Journal
from rabbitlike.broker.ports import Publishing

#: Bytes of one connection, and of all, that are not committed yet: about half of that in the commit under way, and half
#: gathering for the next one. More would not be faster: a commit of 16 MiB takes many times as long as its fsync. But
#: whoever publishes one message waits for the commit under way and for the next one.
CONNECTION_BYTES: Final = 16 * 1024 * 1024
BROKER_BYTES: Final = 32 * 1024 * 1024
#: The broker's own work goes on where publishers have stopped: a flood must not keep messages from expiring.
OWN_BYTES: Final = 40 * 1024 * 1024
#: Less than this is nobody's fault.
LITTLE_BYTES: Final = 64 * 1024
#: What one publisher may bring with its next read, about.
READ_BYTES: Final = 256 * 1024


class Credit:
    """One per broker with a durable store."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiters: dict[Publishing, None] = {}

    def is_used_up(self, own_bytes: int) -> bool:
        """Must a connection with so many bytes of its own uncommitted stop?"""
        return own_bytes > CONNECTION_BYTES or (self.is_exhausted and own_bytes > LITTLE_BYTES)

    @property
    def is_exhausted(self) -> bool:
        """All publishers together have used up what there is."""
        return self._journal.pending_bytes > BROKER_BYTES

    def is_behind(self) -> bool:
        """Should work of the broker's own that adds to commits pause?"""
        return self._journal.pending_bytes > OWN_BYTES

    def wait(self, publisher: Publishing) -> None:
        """It is told when it may go on."""
        self._waiters[publisher] = None

    def leave(self, publisher: Publishing) -> None:
        """This publisher is gone."""
        self._waiters.pop(publisher, None)

    def committed(self) -> None:
        """A commit is done: those that waited longest go on, as many as there is room for."""
        room = BROKER_BYTES - self._journal.pending_bytes
        while self._waiters and room > 0:
            publisher = next(iter(self._waiters))
            del self._waiters[publisher]
            publisher.resume_publishing()
            room -= READ_BYTES
        if self._waiters:
            self._journal.ask()  # those that go on may have nothing to publish, and so bring about no commit
