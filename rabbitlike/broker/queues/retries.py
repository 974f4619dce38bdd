"""Messages of one queue that failed and wait for their next try, by the time they are due.

They keep their positions and go back to their places. One timer, for the one that is due first. However many come due
at once, no more than a window of them is read: the others wait until half of those that went back are gone.
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

#: When a batch is read for one message, those of it that are due within this time come with it.
READ_AHEAD_MS: Final = 1000
#: Messages that go back in one turn.
STRIDE: Final = 1000


class Retries(DeferredMessages):
    """The waiting messages of one queue."""

    __slots__ = ("_back", "_back_bytes", "_heap", "_is_full")

    def __init__(self, queue: "Queue") -> None:
        super().__init__(queue)
        self._heap: list[DeferredEntry] = []
        #: Those that went back and are ready still, by position, and what they take in memory.
        self._back: dict[int, int] = {}
        self._back_bytes = 0
        #: Some are due, and there is no room for them.
        self._is_full = False

    def add(self, message: Message, due_at_ms: int) -> None:
        message.state = AWAITING_RETRY
        heappush(self._heap, (due_at_ms, message.position, message))
        self.put(message, due_at_ms)
        if message.logged == LOGGED and self._queue.log is not None:
            self._queue.log.note_retry(message, due_at_ms)
        self._watch(due_at_ms)

    def recover(self, batch: StoredBatch, index: int, position: int, attempts: int, due_at_ms: int, size: int) -> None:
        """One that waited when the last run ended; its body is of about that size."""
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
        """Those that are due go back; others see their turn between two slices of very many."""
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
                continue  # all of them are gone meanwhile
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
        """A message is not ready any more, that may have waited before."""
        self._back_bytes -= self._back.pop(message.position, 0)
        if self._is_full and self._timer is None and 2 * self._back_bytes <= self._queue.paging.window_bytes:
            self._watch(self._turn.now_ms)

    def read_due(self) -> None:
        """Nothing is ready, and somebody asks: those for which there was no room can come."""
        if self._is_full:
            self.stop()
            self.on_due()

    def _end_wait(self, message: Message, now_ms: int) -> None:
        """It has waited long enough, or in vain."""
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
