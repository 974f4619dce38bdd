"""A large message that is read back from disk in steps, each in a turn of its own.

Once started, it is read to its end even if no client waits any more: while a batch is open, the store's
write-ahead log cannot restart.
"""

from collections.abc import Callable
from io import BytesIO

from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.storage.record import unpack_large
from rabbitlike.broker.turn import Turn
from rabbitlike.storage.api import BatchReader, StorageError

#: A message up to this size is read in one step; a larger one in several.
LARGE = 4 * 1024 * 1024
#: Octets read in one step.
STEP = 512 * 1024


class LargeRead:
    """Reads a batch of one message. Calls ``then`` in a turn of its own when it is read or the read has failed."""

    __slots__ = ("_body", "_head", "_is_read", "_reader", "_then", "_turn", "batch_id")

    def __init__(
        self, turn: Turn, reader: BatchReader, batch_id: int, body_bytes: int, then: Callable[[], None]
    ) -> None:
        self.batch_id = batch_id
        self._turn = turn
        self._reader: BatchReader | None = reader
        self._then: Callable[[], None] | None = then
        self._head = reader.read(max(0, reader.size - body_bytes))
        # Zeroed memory costs no time until it is written, and a buffer of the final size never moves.
        self._body = BytesIO(bytes(body_bytes))
        self._is_read = False
        turn.at(0, self._read_some)

    @property
    def is_under_way(self) -> bool:
        return self._reader is not None

    def _read_some(self) -> None:
        """Read as much as the turn has time for."""
        try:
            while self._reader is not None:
                part = self._reader.read(STEP)
                if not part:
                    self._body.truncate()
                    self._is_read = True
                    break
                self._body.write(part)
                self._turn.look()
                if self._turn.is_spent():
                    self._turn.at(0, self._read_some)
                    return
        except StorageError:
            pass  # reading the batch as a whole gets the same error and logs it
        then = self._then
        self.end()
        if then is not None:
            then()

    def message(self) -> Message | None:
        """Return the message, or None if the read failed."""
        return unpack_large(self._head, self._body.getvalue()) if self._is_read else None

    def end(self) -> None:
        """Stop reading."""
        self._then = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
