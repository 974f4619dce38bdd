"""Messages of one queue that are deferred: neither ready nor unacked nor settled.

When they exceed the queue's window, those that are on disk drop their contents from memory and only their positions
remain; reading a batch back loads those of its messages that are wanted soon. After a restart all start without
contents, and nothing is read before its time. Subclasses decide why and until when messages are deferred; the base
class gives them a timer.
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

#: When it is wanted, position, message. Positions are unique, so messages are never compared.
DeferredEntry = tuple[int, int, Message]


class DeferredMessages(FirstDue):
    """Base class. A message without contents has empty properties; no other message has."""

    __slots__ = ("_here", "_light", "_queue", "_unwritten", "body_bytes", "count", "memory_bytes")

    def __init__(self, queue: "Queue") -> None:
        super().__init__(queue.turn)
        self._queue = queue
        #: All of them, by position.
        self._here: dict[int, Message] = {}
        #: Those whose contents are on disk only, by batch.
        self._light: dict[int, list[DeferredEntry]] = {}
        #: Those that came when the window was full and are not on disk yet.
        self._unwritten: deque[DeferredEntry] = deque()
        self.count = 0
        #: Includes estimates for messages not read since a restart.
        self.body_bytes = 0
        self.memory_bytes = 0

    def has(self, position: int) -> bool:
        return position in self._here

    def put(self, message: Message, wanted_at: int) -> None:
        """Add a message. ``wanted_at`` is a time or a sequence number; the lowest is wanted first."""
        self._here[message.position] = message
        self.count += 1
        self.body_bytes += len(message.body)
        self.memory_bytes += cost_of(message)
        if self.memory_bytes > self._queue.paging.window_bytes:
            self._lighten((wanted_at, message.position, message))

    def put_unread(
        self, batch: StoredBatch, index: int, position: int, attempts: int, wanted_at: int, size: int
    ) -> Message:
        """Add a message deferred when the last run ended; ``size`` is the approximate size of its body."""
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
        """Remove a message."""
        del self._here[message.position]
        self.count -= 1
        # The estimate for messages never read may have been too high or too low.
        self.body_bytes = max(0, self.body_bytes - len(message.body)) if self.count else 0
        self.memory_bytes -= cost_of(message)
        if self.count == 0:
            self._unwritten.clear()

    def clear(self) -> list[Message]:
        """Remove all messages and return them; some may be without contents."""
        messages = list(self._here.values())
        self._here = {}
        self._light = {}
        self._unwritten.clear()
        self.count = self.body_bytes = self.memory_bytes = 0
        self.stop()
        return messages

    def read(self, wanted: Message, until: int, room: int) -> None:
        """Load a message's contents, and those of its batch wanted until ``until``, while ``room`` lasts. If the batch
        is unreadable, which is already reported, the message stays empty."""
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
        """The window is full: free the contents of messages on disk, and write the others."""
        if entry[2].logged == UNLOGGED and self._queue.log is not None:
            self._queue.log.add(entry[2])  # only to free its memory; it need not survive a restart
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
