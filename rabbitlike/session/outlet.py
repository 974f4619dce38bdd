"""The way out to one client: its out-buffer, and whether deliveries may still be put there.

`open` turns false when the buffer is full or the socket does not take more: then nothing is delivered to this client
until it reads. Answers to its methods still go in; they are bounded by what it asks.
"""

from rabbitlike.broker.turn import Flushable, Turn
from rabbitlike.protocol.frames import OutBuffer


class Outlet(OutBuffer):
    """One per connection, shared by its channels and consumers."""

    __slots__ = ("_client", "_marked", "_turn", "limit", "open", "payload_max")

    def __init__(self, client: Flushable, turn: Turn, limit: int) -> None:
        super().__init__()
        self._client = client
        self._turn = turn
        self._marked = False
        self.open = True
        #: Octets in the buffer above which deliveries wait for the next flush.
        self.limit = limit
        #: The largest frame payload this client takes.
        self.payload_max = 4096 - 8

    def mark(self) -> None:
        """Something was put: flush this client at the end of the turn."""
        if not self._marked:
            self._marked = True
            self._turn.mark(self._client)
        if self.size >= self.limit:
            self.open = False

    def flushed(self) -> None:
        self._marked = False
