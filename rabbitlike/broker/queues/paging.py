"""A queue's backlog beyond memory: when it starts to leave, how it comes back, what expires meanwhile.

A queue keeps its window in memory, whatever its backlog. When that is full, everything that arrives is written,
transient messages too, and leaves memory as soon as it is; nothing is written twice. A page comes back whole when its
turn comes. Reading is synchronous: a page is small and nearly always in the operating system's cache.
"""

import logging
from typing import TYPE_CHECKING

from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.log import Log, Page, StoredBatch
from rabbitlike.broker.queues.record import unpack
from rabbitlike.broker.states import LOGGED
from rabbitlike.storage.api import Attempt, Batch, StorageError

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.queues.queue import Queue

log = logging.getLogger(__name__)

#: A window no backlog ever fills, where there is no disk to go to.
EVERYTHING = 1 << 62


class Paging:
    """The pages of one queue."""

    __slots__ = ("_attempts", "_broker", "_delivered_position", "_expiring", "_queue", "window_bytes")

    def __init__(self, queue: "Queue", broker: "Broker") -> None:
        self._queue = queue
        self._broker = broker
        self.window_bytes = EVERYTHING if broker.journal is None else broker.settings.queue_window
        #: From the last run: messages up to here were handed out, and these came back so often.
        self._delivered_position = 0
        self._attempts: dict[int, int] = {}
        #: Of each level the page whose messages expire now, one by one, last to expire first: it is read once for all.
        self._expiring: dict[int, tuple[Page, list[Message]]] = {}

    def spill(self, log: Log | None, next_position: int) -> Log | None:
        """The window is full: from here on, what comes may leave memory once it is written."""
        queue = self._queue
        if log is None:
            log = self._broker.make_log(queue.settings, is_durable=False)
            if log is None:
                return None
            log.next_position = next_position
            log.count_in(queue.counters, queue.vhost.counters)
        log.release_with(self._page_out)
        if queue.ready.is_spilling:
            # Left from a restart with a small backlog: bring it in, so that order is plain again.
            queue.ready.gather()
        queue.ready.start_spilling()
        log.spill_from = next_position
        return log

    def _page_out(self, pages: list[Page]) -> None:
        for page in pages:
            if self._queue.ready.page_out(page):
                self._queue.expiry.remember_page(page)

    def load(self, page: Page) -> list[Message]:
        """The messages of a page that are not settled, in order."""
        messages = self.read(page)
        self.forget(page)
        self._queue.counters.disk_reads += len(messages)
        self._queue.vhost.counters.disk_reads += len(messages)
        for message in messages:
            if message.expires_at_ms:
                self._queue.expiry.remember(message)
        return messages

    def expired(self, page: Page, now_ms: int) -> tuple[list[Message], int]:
        """The messages of a page that are due, and when the next one will be (0: never)."""
        at_hand, waiting = self._expiring.get(page.level, (None, []))
        if at_hand is not page:
            waiting = [message for message in self.read(page) if message.expires_at_ms]
            waiting.sort(key=lambda message: message.expires_at_ms, reverse=True)
            self._expiring[page.level] = (page, waiting)
        due: list[Message] = []
        while waiting and waiting[-1].expires_at_ms <= now_ms:
            message = waiting.pop()
            batch = message.batch
            if batch is not None and batch.live and not batch.is_settled(message.index):
                due.append(message)
        if waiting:
            return due, waiting[-1].expires_at_ms
        del self._expiring[page.level]
        return due, 0

    def forget(self, page: Page | None = None) -> None:
        """A page is read, or all are gone: what was kept of it for its expiry need not be."""
        if page is None:
            self._expiring.clear()
        elif self._expiring.get(page.level, (None,))[0] is page:
            del self._expiring[page.level]

    def read(self, page: Page) -> list[Message]:
        """Its messages, for looking: nothing comes of it."""
        messages: list[Message] = []
        outbox = self._queue.outbox
        for batch in page.batches:
            if batch.live == 0:
                continue
            for message in self.unpack(batch):
                if batch.is_settled(message.index) or (page.away is not None and message.position in page.away):
                    continue
                if outbox is not None and outbox.has(message.position):
                    continue
                message.batch = batch
                message.logged = LOGGED
                message.attempts = self._attempts_of(message.position)
                messages.append(message)
        if len(page.batches) > 1:
            messages.sort(key=lambda message: message.position)
        return messages

    def purge(self, log: Log, aside: list[Message]) -> None:
        """The store may forget all that is ready, and these that stood aside."""
        pages = self._queue.ready.pages()
        messages = self._queue.ready.in_memory() + aside
        for page in pages:
            if page.away:
                # Some that were in it are out: the rest goes one by one.
                messages += self.read(page)
                page.is_out = False
        log.purge(messages, [page for page in pages if not page.away])

    def is_written(self, batch: StoredBatch) -> bool:
        """Can it be read back already?"""
        return self._broker.journal is not None and batch.batch_id <= self._broker.journal.written_batch_id

    def unpack(self, batch: StoredBatch) -> list[Message]:
        """Its messages, settled or not.

        One that cannot be read must not keep back those behind it; it stays on disk for whoever can mend it."""
        try:
            return unpack(self._broker.store.read(batch.batch_id))
        except (StorageError, ValueError) as error:
            log.error(
                "queue '%s' in vhost '%s': %d messages cannot be read and are passed over (batch %d): %s",
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

    def recover(self, log: Log, batches: list[Batch], mark: tuple[int, int], attempts: list[Attempt]) -> None:
        """Take up what the last run left of this queue: descriptors only, no message is read."""
        next_position, self._delivered_position = mark
        self._attempts = {attempt.position: attempt.times for attempt in attempts if not attempt.death}
        queue = self._queue
        log.delivered_position = self._delivered_position
        waits: dict[int, list[Attempt]] = {}
        letters: list[tuple[int, int, Attempt, StoredBatch, int]] = []
        for attempt in attempts:
            if attempt.death or attempt.due_at_ms > queue.turn.now_ms:
                waits.setdefault(attempt.batch_id, []).append(attempt)
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
            if batch.batch_id in waits:
                self._recover_aside(page, stored, waits[batch.batch_id], letters)
            if page.count:
                queue.ready.recover_page(page)
                queue.expiry.remember_page(page)
        letters.sort()
        for _, _, attempt, stored, size in letters:
            queue.keep_letters().recover(stored, attempt, size)
        log.next_position = next_position
        queue.start_at(next_position)
        log.release_with(self._page_out)
        if queue.ready.body_bytes > self.window_bytes:
            log.spill_from = next_position

    def _recover_aside(
        self,
        page: Page,
        batch: StoredBatch,
        attempts: list[Attempt],
        letters: list[tuple[int, int, Attempt, StoredBatch, int]],
    ) -> None:
        """Those of a page that wait for their next try, or are dead letters, stand apart from it, unread."""
        size = page.body_bytes // page.count
        for attempt in attempts:
            if batch.is_settled(attempt.batch_index):
                continue
            page.count -= 1
            page.body_bytes -= size
            if attempt.death:
                letters.append((attempt.due_at_ms, attempt.position, attempt, batch, size))
                continue
            if page.away is None:
                page.away = set()
            page.away.add(attempt.position)
            self._queue.hold_back().recover(
                batch, attempt.batch_index, attempt.position, attempt.times, attempt.due_at_ms, size
            )
