"""Expire a queue's ready messages on time, anywhere in the queue, in memory or on disk.

Messages with the queue's own TTL are in the order in which they expire, so checking the first of each level is enough
and they need no entry. All others, and pages, have an entry in a heap; entries of messages no longer ready are skipped.
One timer runs, for the first message that expires.
"""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.dead_letters.x_death import Reason
from rabbitlike.broker.queues.ordering.ready import Ready
from rabbitlike.broker.queues.storage.log import Page
from rabbitlike.broker.states import READY
from rabbitlike.broker.turn import Turn
from rabbitlike.clock import Timer

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

#: The heap is rebuilt when it has this many more entries than messages that may still expire.
STALE_ENTRIES = 1024
#: How many messages of a page expire in one step.
STEPS_PER_PAGE = 16


class Expiry:
    """The expiry of one queue's ready messages."""

    __slots__ = (
        "_count",
        "_due_at_ms",
        "_had_ttl",
        "_heap",
        "_in_order",
        "_is_expiring",
        "_queue",
        "_ready",
        "_timer",
        "_ttl_ms",
        "_turn",
    )

    def __init__(self, queue: "Queue", ready: Ready, turn: Turn) -> None:
        self._queue = queue
        self._ready = ready
        self._turn = turn
        #: The third number is unique, so that neither messages nor pages are ever compared.
        self._heap: list[tuple[int, int, int, Message | Page]] = []
        self._count = 0
        self._timer: Timer | None = None
        self._due_at_ms = 0
        #: More messages have expired than the turn had time for: later turns continue, and set the timer at the end.
        self._is_expiring = False
        #: The queue's own TTL; -1: none.
        self._ttl_ms = -1
        #: The queue may contain messages with its TTL; and whether they expire in the order of their positions, so that
        #: new ones need no entry. They do not if messages with another TTL, or none, are in front of them.
        self._had_ttl = False
        self._in_order = False

    def change_ttl(self, ttl_ms: int) -> None:
        """Set the TTL of messages that arrive from now on; -1: none."""
        if ttl_ms != self._ttl_ms:
            self._in_order = self._queue.is_idle
            self._had_ttl = self._had_ttl or ttl_ms >= 0
            self._ttl_ms = ttl_ms

    def stamp(self, message: Message) -> None:
        """Set when a new message expires: after its own TTL, but no later than the queue's."""
        if self._ttl_ms >= 0:
            expires_at_ms = message.published_at_ms + self._ttl_ms
            if message.expires_at_ms == 0 or expires_at_ms < message.expires_at_ms:
                message.expires_at_ms = expires_at_ms

    def remember(self, message: Message) -> None:
        """Note when a ready message expires."""
        is_of_ttl = self._ttl_ms >= 0 and message.expires_at_ms == message.published_at_ms + self._ttl_ms
        if is_of_ttl and not self._in_order and self._ready.count == 1:
            self._in_order = self._queue.unacked_count == 0 and self._queue.awaiting_retry_count == 0
        if not is_of_ttl or not self._in_order:
            if len(self._heap) > 2 * self._ready.count + STALE_ENTRIES:
                # Most entries are of messages that were consumed long before.
                self._heap = [entry for entry in self._heap if isinstance(entry[3], Page) or entry[3].state == READY]
                heapify(self._heap)
            self._count += 1
            heappush(self._heap, (message.expires_at_ms, message.position, self._count, message))
        self._watch(message.expires_at_ms)

    def remember_page(self, page: Page) -> None:
        """Note when the first message of a page on disk expires."""
        if page.expires_at_ms:
            self._count += 1
            heappush(self._heap, (page.expires_at_ms, page.first_position, self._count, page))
            self._watch(page.expires_at_ms)

    def clear(self) -> list[tuple[int, int, int, Message | Page]]:
        """Remove all entries and return them. No other reference to the list exists."""
        heap = self._heap
        self._heap = []
        return heap

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def detach(self) -> None:
        """Drop the reference to the deleted queue, so that reference counting frees both."""
        self.stop()
        self._queue = None  # type: ignore[assignment]

    def _watch(self, expires_at_ms: int) -> None:
        """Start the timer for a message that expires at this time, unless it runs for an earlier one."""
        if self._is_expiring:
            return
        if self._timer is not None:
            if self._due_at_ms <= expires_at_ms:
                return
            self._timer.cancel()
        self._due_at_ms = expires_at_ms
        self._timer = self._turn.at(expires_at_ms - self._turn.now_ms, self._expire_due)

    def _expire_due(self) -> None:
        self._timer = None
        if not self._is_expiring:
            self._turn.run(self._expire_some)

    def _expire_some(self) -> bool:
        """Expire messages that are due, and set the timer for the next one. Return True if there are more than the turn
        has time for."""
        self._is_expiring = False
        if self._queue is None or self._queue.deleted:
            return False
        now_ms = self._turn.now_ms
        if not self._expire_entries(now_ms) or (self._had_ttl and not self._expire_heads(now_ms)):
            self._is_expiring = True
            return True
        due_ms = self._heap[0][0] if self._heap else 0
        if self._had_ttl:
            waiting = [message.expires_at_ms for message in self._ready.heads() if message.expires_at_ms]
            head_ms = min(waiting) if waiting else 0
            due_ms = min(due_ms, head_ms) if due_ms and head_ms else due_ms or head_ms
        if due_ms:
            self._watch(due_ms)
        return False

    def _expire_entries(self, now_ms: int) -> bool:
        """Expire messages that have an entry. Return whether all due ones are done."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            message = heappop(heap)[3]
            if isinstance(message, Page):
                self._expire_page(message, now_ms)
            elif message.state == READY:
                self._ready.remove(message)
                self._queue.dead_letter_ready(message, Reason.EXPIRED)
            if self._turn.is_spent():
                return not (heap and heap[0][0] <= now_ms)
        return True

    def _expire_heads(self, now_ms: int) -> bool:
        """Expire messages with the queue's TTL, the first of each level. Return whether all due ones are done."""
        while True:
            due = [message for message in self._ready.heads() if 0 < message.expires_at_ms <= now_ms]
            if not due:
                return True
            for message in due:
                self._ready.remove(message)
                self._queue.dead_letter_ready(message, Reason.EXPIRED)
            if self._turn.is_spent(len(due)):
                return False

    def _expire_page(self, page: Page, now_ms: int) -> None:
        """Expire some due messages of a page, and add an entry for the others."""
        if not page.is_out:
            return
        expired, page.expires_at_ms = self._queue.paging.expired(page, now_ms, STEPS_PER_PAGE)
        self._ready.shrink_page(page, len(expired), sum(len(message.body) for message in expired))
        for message in expired:
            self._queue.dead_letter_ready(message, Reason.EXPIRED)
        self.remember_page(page)
