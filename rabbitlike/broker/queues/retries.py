"""Messages of one queue that failed and await a retry, by due time.

They keep their positions. One timer runs, for the message due first. However many are due at once, at most a window of
them is read back from disk: the others wait until half of those read back are no longer ready.
"""

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.message import Message, cost_of
from rabbitlike.broker.queues.dead_letters.x_death import Reason
from rabbitlike.broker.queues.deferred import DeferredEntry, DeferredMessages
from rabbitlike.broker.queues.storage.log import StoredBatch
from rabbitlike.broker.queues.storage.paging import EVERYTHING
from rabbitlike.broker.states import AWAITING_RETRY, GONE, LOGGED

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

#: When a batch is read for one message, those of its messages due within this time are read as well.
READ_AHEAD_MS: Final = 1000
#: How many messages become ready in one turn.
STRIDE: Final = 1000


class Retries(DeferredMessages):
    """The messages of one queue that await a retry."""

    __slots__ = ("_back", "_back_bytes", "_heap", "_is_full")

    def __init__(self, queue: "Queue") -> None:
        super().__init__(queue)
        self._heap: list[DeferredEntry] = []
        #: The memory cost of messages that became ready again and still are, by position.
        self._back: dict[int, int] = {}
        self._back_bytes = 0
        #: Some are due, and the window is full.
        self._is_full = False

    def add(self, message: Message, due_at_ms: int) -> None:
        message.state = AWAITING_RETRY
        heappush(self._heap, (due_at_ms, message.position, message))
        self.put(message, due_at_ms)
        if message.logged == LOGGED and self._queue.log is not None:
            self._queue.log.note_retry(message, due_at_ms)
        self._watch(due_at_ms)

    def recover(self, batch: StoredBatch, index: int, position: int, attempts: int, due_at_ms: int, size: int) -> None:
        """Add a message that awaited its retry when the last run ended; ``size`` is its approximate body size."""
        message = self.put_unread(batch, index, position, attempts, due_at_ms, size)
        message.state = AWAITING_RETRY
        heappush(self._heap, (due_at_ms, position, message))
        self._watch(due_at_ms)

    def clear(self) -> list[Message]:
        messages = super().clear()
        for message in messages:
            message.state = GONE
        self._heap = []
        self._back = {}
        self._back_bytes = 0
        self._is_full = False
        return messages

    # Time

    def on_due(self) -> None:
        """Make due messages ready, in slices so that other work gets its turn."""
        self._is_full = False
        heap = self._heap
        now_ms = self._turn.now_ms
        left = STRIDE
        while heap and heap[0][0] <= now_ms and left:
            message = heap[0][2]
            if not message.properties and self._back and self._back_bytes >= self._queue.paging.window_bytes:
                self._is_full = True
                return
            heappop(heap)
            if message.state != AWAITING_RETRY:
                continue  # `clear` removed it meanwhile
            left -= 1
            if not message.properties:
                self.read(message, now_ms + READ_AHEAD_MS, self._queue.paging.window_bytes - self._back_bytes)
            self.leave(message)
            message.state = GONE
            if message.properties:
                self._end_wait(message, now_ms)
            if self._turn.is_spent():
                break
        if heap:
            self._watch(max(heap[0][0], now_ms))

    def gone(self, message: Message) -> None:
        """Subtract a message that is no longer ready; it may have awaited a retry before."""
        self._back_bytes -= self._back.pop(message.position, 0)
        if self._is_full and self._timer is None and 2 * self._back_bytes <= self._queue.paging.window_bytes:
            self._watch(self._turn.now_ms)

    def read_due(self) -> None:
        """Make due messages ready although the window was full, for a client that fetches while nothing is ready."""
        if self._is_full:
            self.stop()
            self.on_due()

    def _end_wait(self, message: Message, now_ms: int) -> None:
        """Make a message ready, or dead-letter it if its TTL or retry time is over."""
        queue = self._queue
        retry = queue.settings.retry
        if 0 < message.expires_at_ms <= now_ms:
            queue.dead_letter_ready(message, Reason.EXPIRED)
        elif retry is not None and retry.is_over(message.published_at_ms, now_ms):
            queue.dead_letter_ready(message, Reason.RETRY_TIMEOUT)
        else:
            if queue.paging.window_bytes != EVERYTHING:
                octets = cost_of(message)
                self._back[message.position] = octets
                self._back_bytes += octets
            queue.put_back(message)
