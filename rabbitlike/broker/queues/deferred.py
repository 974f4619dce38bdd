"""Messages of one queue that are deferred: in nobody's hands and not in line, but not settled either.

Beyond the queue's window one that is on disk leaves its octets there and only its place is remembered; a batch is read
back for as many of it as are wanted soon. After a restart all start that way: nothing is read before its time. Why they
stand here, and until when, is known to those that derive from this, who are given a timer by it as well.
"""

from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING

from rabbitlike.broker.first_due import FirstDue
from rabbitlike.broker.message import Message, cost_of
from rabbitlike.broker.queues.storage.log import StoredBatch
from rabbitlike.broker.states import LOGGED, MESSAGE_COST, UNLOGGED

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

#: When it is wanted, position, message. Positions are unlike, so messages are never compared.
DeferredEntry = tuple[int, int, Message]


class DeferredMessages(FirstDue):
    """To be derived from. A message without octets has no properties, as no other has."""

    __slots__ = ("_here", "_light", "_queue", "_unwritten", "body_bytes", "count", "memory_bytes")

    def __init__(self, queue: "Queue") -> None:
        super().__init__(queue.turn)
        self._queue = queue
        #: All of them, by position.
        self._here: dict[int, Message] = {}
        #: Those whose octets are on disk only, by batch.
        self._light: dict[int, list[DeferredEntry]] = {}
        #: Those that came when the window was full and were not on disk yet.
        self._unwritten: deque[DeferredEntry] = deque()
        self.count = 0
        #: Of those never read since a restart, a guess.
        self.body_bytes = 0
        self.memory_bytes = 0

    def has(self, position: int) -> bool:
        return position in self._here

    def put(self, message: Message, wanted_at: int) -> None:
        """``wanted_at`` may be a time or a place in a line: the lower, the sooner."""
        self._here[message.position] = message
        self.count += 1
        self.body_bytes += len(message.body)
        self.memory_bytes += cost_of(message)
        if self.memory_bytes > self._queue.paging.window_bytes:
            self._lighten((wanted_at, message.position, message))

    def put_unread(
        self, batch: StoredBatch, index: int, position: int, attempts: int, wanted_at: int, size: int
    ) -> Message:
        """One that stood here when the last run ended; its body is of about that size."""
        message = Message(b"", b"", b"", True, -1, 0)
        message.position = position
        message.attempts = attempts
        message.batch = batch
        message.index = index
        message.logged = LOGGED
        self._here[position] = message
        self._light.setdefault(batch.batch_id, []).append((wanted_at, position, message))
        self.count += 1
        self.body_bytes += size
        self.memory_bytes += MESSAGE_COST
        return message

    def leave(self, message: Message) -> None:
        """It stands here no more."""
        del self._here[message.position]
        self.count -= 1
        # What was guessed of messages never read may have been too much or too little.
        self.body_bytes = max(0, self.body_bytes - len(message.body)) if self.count else 0
        self.memory_bytes -= cost_of(message)
        if self.count == 0:
            self._unwritten.clear()

    def clear(self) -> list[Message]:
        """None stands here any more; those that did, perhaps without their octets."""
        messages = list(self._here.values())
        self._here = {}
        self._light = {}
        self._unwritten.clear()
        self.count = self.body_bytes = self.memory_bytes = 0
        self.stop()
        return messages

    def read(self, wanted: Message, until: int, room: int) -> None:
        """Bring a message's octets back, and with them those of its batch that are wanted until then, if there is
        room. It has none afterwards if the batch cannot be read, which has been told then."""
        assert isinstance(wanted.batch, StoredBatch)
        entries = self._light.pop(wanted.batch.batch_id, [])
        entries.sort(key=itemgetter(0, 1))
        stored = {message.index: message for message in self._queue.paging.unpack(wanted.batch)}
        later: list[DeferredEntry] = []
        for entry in entries:
            wanted_at, position, message = entry
            if self._here.get(position) is not message or message.properties:
                continue
            found = stored.get(message.index)
            if found is None:
                continue
            if message is not wanted and (wanted_at > until or room <= 0):
                later.append(entry)
                continue
            room -= cost_of(found)
            self.memory_bytes += cost_of(found) - cost_of(message)
            message.address, message.properties, message.body = found.address, found.properties, found.body
            message.persistent = found.persistent
            message.priority = found.priority
            message.published_at_ms = found.published_at_ms
            message.expires_at_ms = found.expires_at_ms
        if later:
            self._light[wanted.batch.batch_id] = later

    def _lighten(self, entry: DeferredEntry) -> None:
        """The window is full: let go of what is on disk, and see to it that the rest will be."""
        if entry[2].logged == UNLOGGED and self._queue.log is not None:
            self._queue.log.add(entry[2])  # it need not outlive us, but its octets are to leave memory
        self._unwritten.append(entry)
        while self._unwritten:
            _, position, message = self._unwritten[0]
            if self._here.get(position) is message and message.properties and message.logged == LOGGED:
                batch = message.batch
                if not isinstance(batch, StoredBatch) or not self._queue.paging.is_written(batch):
                    return
                self._light.setdefault(batch.batch_id, []).append(self._unwritten[0])
                self.memory_bytes -= len(message.properties) + len(message.body)
                message.address = message.properties = message.body = b""
            self._unwritten.popleft()
