"""Credit of publishers: how much they may send before the store has committed it.

Messages to be stored stay in memory until they are committed. Credit limits them per connection and for all connections
together: the broker does not read from a connection without credit until a commit is done. Connections that publish
little are never stopped by those that publish much. Credit also limits the size of commits.
"""

from typing import Final

from rabbitlike.broker.journal import Journal
from rabbitlike.broker.ports import Publishing

#: Uncommitted bytes of one connection, and of all: about half in the commit under way and half in the next one. More
#: would not be faster, since a commit of 16 MiB takes many times as long as its fsync, but a publisher of a single
#: message waits for the commit under way and for the next one.
CONNECTION_BYTES: Final = 16 * 1024 * 1024
BROKER_BYTES: Final = 32 * 1024 * 1024
#: Limit for the broker's own work, which continues after publishers are stopped: a flood must not delay expiry.
OWN_BYTES: Final = 40 * 1024 * 1024
#: A connection with less than this is never stopped because of others.
LITTLE_BYTES: Final = 64 * 1024
#: Approximate size of one publisher's next read.
READ_BYTES: Final = 256 * 1024


class Credit:
    """The credit of all publishers; one per broker with a durable store."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiters: dict[Publishing, None] = {}

    def is_used_up(self, own_bytes: int) -> bool:
        """Whether a connection with this many uncommitted bytes must stop."""
        return own_bytes > CONNECTION_BYTES or (self.is_exhausted and own_bytes > LITTLE_BYTES)

    @property
    def is_exhausted(self) -> bool:
        """Whether all publishers together have used up the broker's credit."""
        return self._journal.pending_bytes > BROKER_BYTES

    def is_behind(self) -> bool:
        """Whether the broker's own work that adds to commits should pause."""
        return self._journal.pending_bytes > OWN_BYTES

    def wait(self, publisher: Publishing) -> None:
        """Resume this publisher once there is credit again."""
        self._waiters[publisher] = None

    def leave(self, publisher: Publishing) -> None:
        """Forget a publisher that has disconnected."""
        self._waiters.pop(publisher, None)

    def committed(self) -> None:
        """Resume publishers after a commit, the longest waiting first, as many as the credit allows."""
        room = BROKER_BYTES - self._journal.pending_bytes
        while self._waiters and room > 0:
            publisher = next(iter(self._waiters))
            del self._waiters[publisher]
            publisher.resume_publishing()
            room -= READ_BYTES
        if self._waiters:
            self._journal.ask()  # resumed publishers may publish nothing, and then would cause no commit
