"""Messages of one queue that failed and wait for their next try, by the time they are due.

They keep their positions and go back to their places. One timer, for the one that is due first. Beyond the queue's
window a message that is on disk leaves its octets there and only its place is remembered; a batch is read back for what
of it is due soon. After a restart all start that way: nothing is read before its time. However many come due at once,
no more than a window of them is read: the others wait until half of those that went back are gone.
"""

from collections import deque
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.first_due import FirstDue
from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.dead_letter import Reason
from rabbitlike.broker.queues.log import StoredBatch
from rabbitlike.broker.queues.paging import EVERYTHING
from rabbitlike.broker.states import GONE, LOGGED, MESSAGE_COST, UNLOGGED, WAITING

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

#: When a batch is read for one message, those of it that are due within this time come with it.
READ_AHEAD_MS: Final = 1000
#: Messages that go back in one turn.
STRIDE: Final = 1000

#: Due time, position, message. Positions are unlike, so messages are never compared.
Entry = tuple[int, int, Message]


class Waiting(FirstDue):
    """The waiting messages of one queue. A heap's entry whose message does not wait any more is passed over."""

    __slots__ = (
        "_back",
        "_back_bytes",
        "_heap",
        "_is_full",
        "_light",
        "_queue",
        "_unwritten",
        "body_bytes",
        "count",
        "memory_bytes",
    )

    def __init__(self, queue: "Queue") -> None:
        super().__init__(queue.turn)
        self._queue = queue
        self._heap: list[Entry] = []
        #: Those whose octets are on disk only, by batch.
        self._light: dict[int, list[Entry]] = {}
        #: Those that came when the window was full and were not on disk yet.
        self._unwritten: deque[Entry] = deque()
        #: Those that went back and are ready still, by position, and what they take in memory.
        self._back: dict[int, int] = {}
        self._back_bytes = 0
        #: Some are due, and there is no room for them.
        self._is_full = False
        self.count = 0
        #: Of those never read since a restart, a guess.
        self.body_bytes = 0
        self.memory_bytes = 0

    def add(self, message: Message, due_at_ms: int) -> None:
        message.state = WAITING
        entry = (due_at_ms, message.position, message)
        heappush(self._heap, entry)
        self.count += 1
        self.body_bytes += len(message.body)
        self.memory_bytes += MESSAGE_COST + len(message.body)
        if self.memory_bytes > self._queue.paging.window_bytes:
            self._lighten(entry)
        if message.logged == LOGGED and self._queue.log is not None:
            self._queue.log.waits(message, due_at_ms)
        self._watch(due_at_ms)

    def recover(self, batch: StoredBatch, index: int, position: int, attempts: int, due_at_ms: int, size: int) -> None:
        """One that waited when the last run ended; its body is of about that size."""
        message = Message(b"", b"", b"", True, -1, 0)
        message.position = position
        message.attempts = attempts
        message.batch = batch
        message.index = index
        message.logged = LOGGED
        message.state = WAITING
        entry = (due_at_ms, position, message)
        heappush(self._heap, entry)
        self._light.setdefault(batch.batch_id, []).append(entry)
        self.count += 1
        self.body_bytes += size
        self.memory_bytes += MESSAGE_COST
        self._watch(due_at_ms)

    def has(self, position: int) -> bool:
        return any(at == position and message.state == WAITING for _, at, message in self._heap)

    def clear(self) -> list[Message]:
        """None waits any more; those that did, perhaps without their octets."""
        messages = [message for _, _, message in self._heap if message.state == WAITING]
        for message in messages:
            message.state = GONE
        self._heap = []
        self._light = {}
        self._unwritten.clear()
        self._back = {}
        self._back_bytes = 0
        self._is_full = False
        self.count = self.body_bytes = self.memory_bytes = 0
        self.stop()
        return messages

    # Time

    def on_due(self) -> None:
        """Those that are due go back; others see their turn between two slices of very many."""
        self._is_full = False
        heap = self._heap
        now_ms = self._turn.now_ms
        left = STRIDE
        while heap and heap[0][0] <= now_ms and left:
            message = heap[0][2]
            if message.state == WAITING and not message.properties and self._back:
                if self._back_bytes >= self._queue.paging.window_bytes:
                    self._is_full = True
                    return
            heappop(heap)
            if message.state != WAITING:
                continue
            left -= 1
            if not message.properties:
                self._read(message, now_ms)
            self._leave(message)
            if message.properties:
                self._end_wait(message, now_ms)
        if heap:
            self._watch(max(heap[0][0], now_ms))

    def gone(self, message: Message) -> None:
        """A message is not ready any more, that may have waited before."""
        self._back_bytes -= self._back.pop(message.position, 0)
        if self._is_full and self._timer is None and 2 * self._back_bytes <= self._queue.paging.window_bytes:
            self._watch(self._turn.now_ms)

    def hurry(self) -> None:
        """Nothing is ready, and somebody asks: those for which there was no room can come."""
        if self._is_full:
            self.stop()
            self.on_due()

    def _end_wait(self, message: Message, now_ms: int) -> None:
        """It has waited long enough, or in vain."""
        queue = self._queue
        retry = queue.settings.retry
        if 0 < message.expires_at_ms <= now_ms:
            queue.retire(message, Reason.EXPIRED)
        elif retry is not None and retry.is_over(message.published_at_ms, now_ms):
            queue.retire(message, Reason.RETRY_TIMEOUT)
        else:
            if queue.paging.window_bytes != EVERYTHING:
                octets = MESSAGE_COST + len(message.body)
                self._back[message.position] = octets
                self._back_bytes += octets
            queue.put_back(message)

    def _leave(self, message: Message) -> None:
        message.state = GONE
        self.count -= 1
        self.body_bytes -= len(message.body)
        self.memory_bytes -= MESSAGE_COST + len(message.body)
        if self.count == 0:
            self.body_bytes = 0  # what was guessed of messages never read

    # Beyond memory

    def _lighten(self, entry: Entry) -> None:
        """The window is full: let go of what is on disk, and see to it that the rest will be."""
        if entry[2].logged == UNLOGGED and self._queue.log is not None:
            self._queue.log.add(entry[2])  # it need not outlive us, but its octets are to leave memory
        self._unwritten.append(entry)
        while self._unwritten:
            message = self._unwritten[0][2]
            if message.state == WAITING and message.properties and message.logged == LOGGED:
                batch = message.batch
                if not isinstance(batch, StoredBatch) or not self._queue.paging.is_written(batch):
                    return
                self._light.setdefault(batch.batch_id, []).append(self._unwritten[0])
                self.memory_bytes -= len(message.body)
                message.address = message.properties = message.body = b""
            self._unwritten.popleft()

    def _read(self, wanted: Message, now_ms: int) -> None:
        """Bring a message's octets back, and with them those of its batch that are due soon, if there is room."""
        assert isinstance(wanted.batch, StoredBatch)
        entries = self._light.pop(wanted.batch.batch_id, [])
        entries.sort(key=itemgetter(0, 1))
        soon_ms = now_ms + READ_AHEAD_MS
        room = self._queue.paging.window_bytes - self._back_bytes
        stored = {message.index: message for message in self._queue.paging.unpack(wanted.batch)}
        later: list[Entry] = []
        for entry in entries:
            due_at_ms, _, message = entry
            if message.state != WAITING or message.properties:
                continue
            found = stored.get(message.index)
            if found is None:
                continue  # the batch cannot be read, and that has been told
            if message is not wanted and (due_at_ms > soon_ms or room <= 0):
                later.append(entry)
                continue
            room -= MESSAGE_COST + len(found.body)
            message.address, message.properties, message.body = found.address, found.properties, found.body
            message.persistent = found.persistent
            message.priority = found.priority
            message.published_at_ms = found.published_at_ms
            message.expires_at_ms = found.expires_at_ms
            self.memory_bytes += len(message.body)
        if later:
            self._light[wanted.batch.batch_id] = later
