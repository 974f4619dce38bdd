"""A queue's backlog on disk: when messages leave memory, how they come back, and what expires meanwhile.

A queue keeps its window in memory, whatever its backlog. When the window is full, all arriving messages are written,
transient ones too, and leave memory once written; nothing is written twice. A page is read back whole when its messages
are next. Reading is synchronous: a page is small and nearly always in the operating system's cache. Only a large
message is read ahead, in slices, when it is next (`is_reading`).
"""

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.storage.large_read import LARGE, LargeRead
from rabbitlike.broker.queues.storage.log import Log, Page, StoredBatch
from rabbitlike.broker.queues.storage.record import unpack
from rabbitlike.broker.states import LOGGED
from rabbitlike.broker.turn import Turn
from rabbitlike.storage.api import AttemptRecord, Batch, StorageError

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.queues.queue import Queue

log = logging.getLogger(__name__)

#: How many messages are settled in one step.
TOGETHER = 512
#: The window where there is no disk: no backlog fills it.
EVERYTHING = 1 << 62
#: A message with this many attempts stays in memory.
MOST_ATTEMPTS = 254


class Paging:
    """The pages of one queue."""

    __slots__ = (
        "_attempts",
        "_broker",
        "_delivered_position",
        "_expiring",
        "_large",
        "_queue",
        "_returned",
        "_written",
        "leaving",
        "window_bytes",
    )

    def __init__(self, queue: "Queue", broker: "Broker") -> None:
        self._queue = queue
        self._broker = broker
        self.window_bytes = EVERYTHING if broker.journal is None else broker.settings.queue_window
        #: Pages of messages that were returned when memory was full, by their batch.
        self._returned: dict[int, Page] = {}
        #: From the last run: the position up to which messages may have been delivered, and attempts by position.
        self._delivered_position = 0
        self._attempts: dict[int, int] = {}
        #: Positions of messages that are dead-lettered but not sent yet: neither settled nor ready.
        self.leaving: set[int] = set()
        #: Per level, the page whose messages expire now and these messages, last to expire first: the page is read only
        #: once.
        self._expiring: dict[int, tuple[Page, list[Message]]] = {}
        #: The large message that is being read, or was read and is not taken yet.
        self._large: LargeRead | None = None
        #: Pages that may leave memory, in the order they were written.
        self._written: deque[Page] = deque()

    def spill(self, log: Log | None, next_position: int) -> Log | None:
        """Start to spill because the window is full: from here on, messages may leave memory once written."""
        queue = self._queue
        if log is None:
            log = self._broker.make_log(queue.settings, is_durable=False)
            if log is None:
                return None
            log.next_position = next_position
            log.count_in(queue.counters, queue.vhost.counters)
        log.release_with(self._page_out)
        if queue.ready.is_spilling:
            # Pages remain from a restart with a small backlog: read them, so that no pages precede what is in memory.
            queue.ready.gather()
        queue.ready.start_spilling()
        log.spill_from = next_position
        return log

    def detach(self) -> None:
        """Drop the reference to the deleted queue, so that reference counting frees both."""
        self._forget_large()
        self._written.clear()
        self._queue = None  # type: ignore[assignment]

    def _page_out(self, pages: list[Page]) -> None:
        is_under_way = len(self._written) > 0
        self._written.extend(pages)
        if not is_under_way and self._page_out_some():
            # Not `Turn.run`: this frees memory, so it must continue while other work waits.
            self._queue.turn.poll(self._page_out_some)

    def _page_out_some(self) -> bool:
        """Page out as many pages as the turn has time for. Return True if there are more."""
        while self._written:
            page = self._written[0]
            if self._queue.ready.page_out(page):
                self._queue.expiry.remember_page(page)
            self._written.popleft()
            self._queue.turn.look()
            if self._queue.turn.is_spent():
                break
        return len(self._written) > 0

    def take_back(self, message: Message) -> bool:
        """Make a message ready that was unacked or deferred, but leave it on disk, because memory is full. Return False
        if it cannot stay on disk.

        Pages come after everything in memory, so messages in memory after this one must go to disk first."""
        queue = self._queue
        log = queue.log
        if log is None or queue.retries is not None or not self._may_leave(message) or self._is_mixed():
            return False
        level = queue.ready.level_of(message)
        while (last := level.ring.last()) is not None and last.position > message.position:
            if not self._may_leave(last):
                return False
            queue.ready.take_last(level)
            self._page_again(level.number, last)
        if level.returned and message.position < level.last_returned:
            return False
        self._page_again(level.number, message)
        if not queue.ready.is_spilling or log.spill_from == 0:
            queue.ready.start_spilling()
            log.spill_from = queue.last_position + 1
        return True

    def _is_mixed(self) -> bool:
        """Return whether the queue has both persistent and transient messages. Pages of their two batches would
        overlap."""
        queue = self._queue
        # If persistent, the current message is in persistent_count; it is in no other count at the moment.
        count = queue.ready.count + queue.unacked_count + queue.held_dead_letter_count + 1
        return queue.durable and queue.persistent_count not in (0, count)

    def _may_leave(self, message: Message) -> bool:
        """Return whether it is on disk, and a page of its batch describes it completely."""
        batch = message.batch
        return (
            message.logged == LOGGED
            and message.expires_at_ms == 0
            and message.attempts < MOST_ATTEMPTS
            and isinstance(batch, StoredBatch)
            and self.is_written(batch)
        )

    def _page_again(self, level: int, message: Message) -> None:
        batch = message.batch
        assert isinstance(batch, StoredBatch)
        page = self._returned.get(batch.batch_id)
        if page is None or not page.is_out:
            page = Page(level, message.position, message.position)
            page.batches = [batch]
            page.attempts = bytearray(batch.count)
            self._returned[batch.batch_id] = page
        assert page.attempts is not None
        page.attempts[message.index] = message.attempts + 1
        page.first_position = min(page.first_position, message.position)
        page.last_position = max(page.last_position, message.position)
        self._queue.ready.page_again(page, message)

    def load(self, page: Page) -> list[Message]:
        """Return the unsettled messages of a page, in order."""
        messages = self.read(page)
        self._queue.turn.look()
        self.forget(page)
        if page.attempts is not None:
            self._returned.pop(page.batches[0].batch_id, None)
        self._queue.counters.disk_reads += len(messages)
        self._queue.vhost.counters.disk_reads += len(messages)
        for message in messages:
            if message.expires_at_ms:
                self._queue.expiry.remember(message)
        return messages

    def expired(self, page: Page, now_ms: int, most: int) -> tuple[list[Message], int]:
        """Return up to ``most`` expired messages of a page, and when the next one expires or did (0: never)."""
        at_hand, waiting = self._expiring.get(page.level, (None, []))
        if at_hand is not page:
            waiting = [message for message in self.read(page) if message.expires_at_ms]
            waiting.sort(key=lambda message: (message.expires_at_ms, message.position), reverse=True)
            self._expiring[page.level] = (page, waiting)
            self._queue.turn.look()
        due: list[Message] = []
        while waiting and waiting[-1].expires_at_ms <= now_ms and len(due) < most:
            message = waiting.pop()
            batch = message.batch
            if batch is not None and batch.live and not batch.is_settled(message.index):
                due.append(message)
        if waiting:
            return due, waiting[-1].expires_at_ms
        del self._expiring[page.level]
        return due, 0

    def forget(self, page: Page | None = None) -> None:
        """Drop what is cached for the expiry of a page that was read, or of all."""
        if page is None:
            self._expiring.clear()
            self._returned.clear()
            self._forget_large()
        elif self._expiring.get(page.level, (None,))[0] is page:
            del self._expiring[page.level]

    def is_reading(self) -> bool:
        """Return whether the next message is large and still being read. The queue is touched when it has been read."""
        large = self._large
        page = self._queue.ready.page_ahead()
        if page is None or page.body_bytes <= LARGE or len(page.batches) != 1 or page.batches[0].count != 1:
            return False
        batch_id = page.batches[0].batch_id
        if large is None or large.batch_id != batch_id:
            self._forget_large()
            try:
                reader = self._broker.store.open_batch(batch_id)
                queue = self._queue
                large = LargeRead(queue.turn, reader, batch_id, page.body_bytes, partial(queue.turn.touch, queue))
            except StorageError:
                return False  # `unpack` gets the same error and logs it
            self._large = large
        return large.is_under_way

    def _forget_large(self) -> None:
        if self._large is not None:
            self._large.end()
            self._large = None

    def read(self, page: Page) -> list[Message]:
        """Return a page's messages without changing anything."""
        messages: list[Message] = []
        held_dead_letters = self._queue.held_dead_letters
        for batch in page.batches:
            if batch.live == 0:
                continue
            for message in self.unpack(batch):
                if batch.is_settled(message.index) or (page.away is not None and message.position in page.away):
                    continue
                if message.position in self.leaving or (
                    held_dead_letters is not None and held_dead_letters.has(message.position)
                ):
                    continue
                if page.attempts is None:
                    message.attempts = self._attempts_of(message.position)
                elif page.attempts[message.index]:
                    message.attempts = page.attempts[message.index] - 1
                else:
                    continue
                message.batch = batch
                message.logged = LOGGED
                messages.append(message)
        if len(page.batches) > 1:
            messages.sort(key=lambda message: message.position)
        return messages

    def purge(self, log: Log, deferred: list[Message]) -> None:
        """Settle all ready messages and these deferred ones in the log."""
        pages = self._queue.ready.pages()
        messages = self._queue.ready.in_memory() + deferred
        for page in pages:
            if page.away or page.attempts is not None:
                # Some of its messages are elsewhere: settle the others one by one.
                messages += self.read(page)
                page.is_out = False
        log.purge([], [page for page in pages if not page.away and page.attempts is None])
        self._queue.turn.run(partial(_settle_some, self._queue.turn, log, messages))

    def is_written(self, batch: StoredBatch) -> bool:
        """Return whether the batch can be read back already."""
        return self._broker.journal is not None and batch.batch_id <= self._broker.journal.written_batch_id

    def unpack(self, batch: StoredBatch) -> list[Message]:
        """Return the batch's messages, settled or not.

        If a batch is unreadable, the queue skips it and goes on; the batch stays on disk, where it may be repaired."""
        try:
            large = self._large
            if large is not None and large.batch_id == batch.batch_id and not large.is_under_way:
                self._large = None
                message = large.message()
                if message is not None:
                    return [message]
            return unpack(self._broker.store.read(batch.batch_id))
        except (StorageError, ValueError) as error:
            log.error(
                "queue '%s' in vhost '%s': %d messages cannot be read and are skipped (batch %d): %s",
                self._queue.name,
                self._queue.vhost.name,
                batch.live,
                batch.batch_id,
                error,
            )
            return []

    def _attempts_of(self, position: int) -> int:
        if position > self._delivered_position:
            return 0
        return self._attempts.get(position, 1)

    def forgives(self, position: int) -> bool:
        """Return whether this return of a message does not count as an attempt: the first one, if it is unknown whether
        the last run delivered the message. A crash marks more messages as delivered than were."""
        if position > self._delivered_position or position in self._attempts:
            return False
        self._attempts[position] = 1
        return True

    def recover(self, log: Log, batches: list[Batch], mark: tuple[int, int], attempts: list[AttemptRecord]) -> None:
        """Restore what the last run left of this queue: descriptors only, no message is read."""
        next_position, self._delivered_position = mark
        self._attempts = {attempt.position: attempt.times for attempt in attempts if not attempt.death}
        queue = self._queue
        # No new message may have a position that counts as delivered by the last run.
        next_position = max(next_position, self._delivered_position + 1)
        retries: dict[int, list[AttemptRecord]] = {}
        dead_letters: list[tuple[int, int, AttemptRecord, StoredBatch, int]] = []
        for attempt in attempts:
            if attempt.death or attempt.due_at_ms > queue.turn.now_ms:
                retries.setdefault(attempt.batch_id, []).append(attempt)
        for batch in batches:
            next_position = max(next_position, batch.last_position + 1)
            stored = StoredBatch(log, batch.batch_id, batch.count, batch.settled)
            if stored.live == 0:
                log.remove(stored)
                continue
            page = Page(batch.level, batch.first_position, batch.last_position)
            page.batches.append(stored)
            page.count = stored.live
            page.body_bytes = batch.body_bytes * stored.live // batch.count
            page.expires_at_ms = batch.expires_at_ms
            if batch.batch_id in retries:
                self._recover_deferred(page, stored, retries[batch.batch_id], dead_letters)
            if page.count:
                queue.ready.recover_page(page)
                queue.expiry.remember_page(page)
        dead_letters.sort()
        for _, _, attempt, stored, size in dead_letters:
            queue.ensure_held_dead_letters().recover(stored, attempt, size)
        log.inherit(self._delivered_position, next_position)
        queue.start_at(next_position)
        log.release_with(self._page_out)
        if queue.ready.body_bytes > self.window_bytes:
            log.spill_from = next_position

    def _recover_deferred(
        self,
        page: Page,
        batch: StoredBatch,
        attempts: list[AttemptRecord],
        dead_letters: list[tuple[int, int, AttemptRecord, StoredBatch, int]],
    ) -> None:
        """Defer a page's messages that await a retry or are held dead letters, without reading them."""
        size = page.body_bytes // page.count
        for attempt in attempts:
            if batch.is_settled(attempt.batch_index):
                continue
            page.count -= 1
            page.body_bytes -= size
            if attempt.death:
                dead_letters.append((attempt.due_at_ms, attempt.position, attempt, batch, size))
                continue
            if page.away is None:
                page.away = set()
            page.away.add(attempt.position)
            self._queue.ensure_retries().recover(
                batch, attempt.batch_index, attempt.position, attempt.times, attempt.due_at_ms, size
            )


def _settle_some(turn: Turn, log: Log, messages: list[Message]) -> bool:
    """Settle purged messages, as many as the turn has time for. Return True if there are more."""
    while messages:
        log.settle_all(messages[-TOGETHER:])
        del messages[-TOGETHER:]
        if turn.is_spent(TOGETHER):
            return bool(messages)
    return False
