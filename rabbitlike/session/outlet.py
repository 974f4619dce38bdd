"""The output buffer of one client, and whether deliveries may be added to it.

Deliveries stop while `open` is false: the buffer is full or the socket accepts no more data. Answers to methods are
still added; the client's requests bound them. `is_full` is true while the client has too much unacknowledged, because
that stays in the broker's memory.
"""

from rabbitlike.broker.turn import Flushable, Turn
from rabbitlike.protocol.frames import OutBuffer


class _NoClient:
    """Stands for a client that has disconnected."""

    __slots__ = ()

    def flush(self) -> None: ...


_NOBODY = _NoClient()


class Outlet(OutBuffer):
    """The outlet of one connection, shared by its channels and consumers."""

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
        #: The largest frame payload that this client accepts.
        self.payload_max = 4096 - 8
        #: Memory of the client's unacknowledged messages, and its limit; 0: no limit.
        self.unacked_bytes = 0
        self.unacked_limit = unacked_limit
        #: Over the limit: consumers with acks get nothing until the client has acknowledged a quarter.
        self.is_full = False

    def mark(self) -> None:
        """Schedule a flush at the end of the turn, after output was added."""
        if not self._marked:
            self._marked = True
            self._turn.mark(self._client)
        if self.size >= self.limit or self.held is not None:
            self.open = False

    def delivered(self, memory_bytes: int) -> None:
        """Add the memory of delivered messages."""
        self.unacked_bytes += memory_bytes
        if self.unacked_bytes > self.unacked_limit > 0:
            self.is_full = True

    def settled(self, memory_bytes: int) -> bool:
        """Subtract the memory of settled messages. True if consumers may take messages again."""
        self.unacked_bytes -= memory_bytes
        if self.is_full and self.unacked_bytes <= self.unacked_limit // 4 * 3:
            self.is_full = False
            return True
        return False

    def flushed(self) -> None:
        self._marked = False

    def detach(self) -> None:
        """Drop the client: output added from now on is discarded."""
        self._client = _NOBODY
