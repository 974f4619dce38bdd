"""The way out to one client: its out-buffer, and whether deliveries may still be put there.

`open` turns false when the buffer is full or the socket does not take more: then nothing is delivered to this client
until it reads. Answers to its methods still go in; they are bounded by what it asks. `is_full` turns true when the
client holds too much that it has not acknowledged, which stays in the broker's memory.
"""

from rabbitlike.broker.turn import Flushable, Turn
from rabbitlike.protocol.frames import OutBuffer


class _NoClient:
    """A client that is gone."""

    __slots__ = ()

    def flush(self) -> None: ...


_NOBODY = _NoClient()


class Outlet(OutBuffer):
    """One per connection, shared by its channels and consumers."""

    __slots__ = (
        "_client",
        "_marked",
        "_turn",
        "is_full",
        "limit",
        "open",
        "payload_max",
        "unacked_bytes",
        "unacked_limit",
    )

    def __init__(self, client: Flushable, turn: Turn, limit: int, unacked_limit: int) -> None:
        super().__init__()
        self._client = client
        self._turn = turn
        self._marked = False
        self.open = True
        #: Octets in the buffer above which deliveries wait for the next flush.
        self.limit = limit
        #: The largest frame payload this client takes.
        self.payload_max = 4096 - 8
        #: Memory of what the client holds unacknowledged, and how much that may be; 0: without limit.
        self.unacked_bytes = 0
        self.unacked_limit = unacked_limit
        #: It holds too much: consumers that must ack get nothing more until it has acknowledged a quarter.
        self.is_full = False

    def mark(self) -> None:
        """Something was put: flush this client at the end of the turn."""
        if not self._marked:
            self._marked = True
            self._turn.mark(self._client)
        if self.size >= self.limit or self.held is not None:
            self.open = False

    def delivered(self, memory_bytes: int) -> None:
        """The client holds so much more."""
        self.unacked_bytes += memory_bytes
        if self.unacked_bytes > self.unacked_limit > 0:
            self.is_full = True

    def settled(self, memory_bytes: int) -> bool:
        """The client holds so much less. True: it may be given messages again."""
        self.unacked_bytes -= memory_bytes
        if self.is_full and self.unacked_bytes <= self.unacked_limit // 4 * 3:
            self.is_full = False
            return True
        return False

    def flushed(self) -> None:
        self._marked = False

    def detach(self) -> None:
        """The client is gone: whatever is still put here goes nowhere."""
        self._client = _NOBODY
