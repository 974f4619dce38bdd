"""The durable side of a queue: which of its messages are written where, and what of that is settled.

A message is added when it enters the queue and written with the next commit, packed together with all others that
arrived since. One settled before that never touches the disk. A batch is immutable; what is settled of it is a bit, and
the batch goes when nothing is left of it. Everything a turn changed is in one commit, because commits are taken between
turns.
"""

from collections.abc import Callable

from rabbitlike.broker.counters import Counters
from rabbitlike.broker.journal import Journal
from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.record import pack
from rabbitlike.broker.states import LOGGED, SETTLED, WAITING
from rabbitlike.storage.api import Attempt, Batch, Work

#: Positions that are set apart on disk at once.
RESERVED = 100_000


class StoredBatch:
    """A batch on disk, or on its way there, as its queue sees it. Holds no messages."""

    __slots__ = ("_log", "batch_id", "count", "is_dirty", "live", "settled")

    def __init__(self, log: "Log", batch_id: int, count: int, settled: bytes = b"") -> None:
        self._log = log
        self.batch_id = batch_id
        self.count = count
        #: One bit per message; empty while none is settled.
        self.settled = bytearray(settled)
        #: Messages that are not settled.
        self.live = count - sum(octet.bit_count() for octet in settled)
        #: The bitmap on disk is not this one.
        self.is_dirty = False

    def settle(self, index: int) -> None:
        self.live -= 1
        if self.live == 0:
            self._log.remove(self)
            return
        if not self.settled:
            self.settled = bytearray((self.count + 7) // 8)
        self.settled[index >> 3] |= 1 << (index & 7)
        if not self.is_dirty:
            self.is_dirty = True
            self._log.note_dirty(self)

    def is_settled(self, index: int) -> bool:
        return len(self.settled) > 0 and self.settled[index >> 3] >> (index & 7) & 1 != 0


class Page:
    """Messages of one level that are on disk only: one batch, or one of persistent and one of transient messages."""

    __slots__ = (
        "away",
        "batches",
        "body_bytes",
        "count",
        "expires_at_ms",
        "first_position",
        "is_out",
        "last_position",
        "level",
        "published_at_ms",
    )

    def __init__(self, level: int, first_position: int, last_position: int) -> None:
        self.level = level
        self.first_position = first_position
        self.last_position = last_position
        self.batches: list[StoredBatch] = []
        #: Positions in it that are none of the page's: they wait for a try that the last run put off, or came back.
        self.away: set[int] | None = None
        self.count = 0
        self.body_bytes = 0
        #: When the first of them was published; 0: an earlier run knew.
        self.published_at_ms = 0
        #: When the first of them expires; 0: none does.
        self.expires_at_ms = 0
        #: Its messages are on disk and not in memory.
        self.is_out = False


class Log:
    """What the store holds, or is about to hold, of one queue."""

    __slots__ = (
        "_aside",
        "_attempts",
        "_counters",
        "_dirty",
        "_fresh",
        "_is_mark_due",
        "_journal",
        "_release",
        "_removed",
        "_totals",
        "default_priority",
        "delivered_position",
        "is_deleted",
        "is_durable",
        "is_touched",
        "levels",
        "next_position",
        "pages",
        "queue_id",
        "spill_from",
    )

    def __init__(
        self, queue_id: int, journal: Journal, levels: int, default_priority: int, *, is_durable: bool
    ) -> None:
        self.queue_id = queue_id
        #: What is written of a queue that is not durable only made room in memory, and is gone after a restart.
        self.is_durable = is_durable
        self.is_deleted = False
        #: Told of pages that may leave memory.
        self._release: Callable[[list[Page]], None] = lambda pages: None
        self._journal = journal
        #: Where writes are counted, once there is a queue.
        self._counters: Counters | None = None
        self._totals: Counters | None = None
        self.levels = levels
        self.default_priority = min(default_priority, levels - 1)
        self.is_touched = False
        #: Messages to be written with the next commit, unless settled until then.
        self._fresh: list[Message] = []
        self._dirty: list[StoredBatch] = []
        self._removed: list[int] = []
        self._attempts: dict[int, int] = {}
        #: Those that stand aside, and since or until when: they wait for their next try; or they are dead letters that
        #: cannot go yet, and what is to be known of their death.
        self._aside: dict[int, tuple[Message, int, bytes]] = {}
        #: Highest position that was ever handed out.
        self.delivered_position = 0
        #: Positions below this one may have been given. Reserved in blocks, so that few commits need say so.
        self.next_position = 1
        self._is_mark_due = False
        #: From this position on, everything is written and may leave memory; 0: nothing need leave it.
        self.spill_from = 0
        #: What the commit under way writes that may leave memory when it is done.
        self.pages: list[Page] = []

    def release_with(self, release: "Callable[[list[Page]], None]") -> None:
        self._release = release

    def count_in(self, counters: Counters, totals: Counters) -> None:
        """Count what is written there."""
        self._counters = counters
        self._totals = totals

    def add(self, message: Message) -> None:
        """A message that is to be written."""
        message.logged = LOGGED
        self._fresh.append(message)
        if message.position >= self.next_position:
            self.next_position = message.position + RESERVED
            self._is_mark_due = True
        if not self.is_touched:
            self._journal.touch(self)

    def settle(self, message: Message) -> None:
        """A message of the log that nobody needs any more."""
        message.logged = SETTLED
        if message.batch is not None:
            message.batch.settle(message.index)
        if message.attempts > 0:
            self.erase(message)

    def erase(self, message: Message) -> None:
        """Nobody need know any more how often it came back, or that it stood aside."""
        self._attempts[message.position] = 0
        self._aside.pop(message.position, None)
        if not self.is_touched:
            self._journal.touch(self)

    def returned(self, message: Message) -> None:
        """A message came back undone."""
        self._attempts[message.position] = message.attempts
        self._aside.pop(message.position, None)
        if not self.is_touched:
            self._journal.touch(self)

    def waits(self, message: Message, due_at_ms: int) -> None:
        """A message came back undone, and is not to be handed out before its time."""
        self.dies(message, due_at_ms, b"")

    def dies(self, message: Message, died_at_ms: int, death: bytes) -> None:
        """A message is a dead letter that cannot go yet, and not to be handed out any more."""
        self._aside[message.position] = (message, died_at_ms, death)
        self._attempts.pop(message.position, None)
        if not self.is_touched:
            self._journal.touch(self)

    def delivered(self, message: Message) -> None:
        """A message was handed out. The disk hears of it with the next commit, lest it pass as new after a crash."""
        if message.position > self.delivered_position:
            self.delivered_position = message.position
            if message.batch is not None:
                self._is_mark_due = True
                if not self.is_touched:
                    self._journal.touch(self)

    def purge(self, messages: list[Message], pages: list["Page"]) -> None:
        """All that was ready goes: these in memory, and these on disk only."""
        for message in messages:
            if message.logged == LOGGED:
                self.settle(message)
        for page in pages:
            page.is_out = False
            for batch in page.batches:
                if batch.live:
                    self.remove(batch)

    def delete(self) -> None:
        """The queue is gone, and all that was written of it."""
        self._journal.remove_queue(self.queue_id)
        self._fresh = []
        self._dirty = []
        self._removed = []
        self.is_deleted = True

    def written(self) -> None:
        """The commit is done: what it wrote need not stay in memory."""
        pages = self.pages
        self.pages = []
        if pages and not self.is_deleted:
            self._release(pages)

    def remove(self, batch: StoredBatch) -> None:
        """Nothing is left of this batch."""
        batch.live = 0
        self._removed.append(batch.batch_id)
        if not self.is_touched:
            self._journal.touch(self)

    def note_dirty(self, batch: StoredBatch) -> None:
        self._dirty.append(batch)
        if not self.is_touched:
            self._journal.touch(self)

    def take(self, work: Work) -> None:
        """Put all that changed since the last commit into ``work``."""
        self.is_touched = False
        if self.is_deleted:
            return
        if self._fresh:
            fresh = self._fresh
            self._fresh = []
            self._take_fresh(fresh, work)
        for batch in self._dirty:
            batch.is_dirty = False
            if batch.live:
                work.settled.append((batch.batch_id, bytes(batch.settled)))
        self._dirty.clear()
        if self._removed:
            work.removed_batches += self._removed
            self._removed.clear()
        for position, count in self._attempts.items():
            work.attempts.append(Attempt(self.queue_id, position, count))
        self._attempts.clear()
        if self._aside:
            self._take_aside(work)
        if self._is_mark_due:
            self._is_mark_due = False
            work.marks.append((self.queue_id, self.next_position, self.delivered_position))

    def _take_fresh(self, fresh: list[Message], work: Work) -> None:
        # What stands before and what may leave memory are never in one batch: a page is made of whole batches.
        groups: dict[tuple[int, bool, bool], list[Message]] = {}
        for message in fresh:
            if message.logged != SETTLED:
                if message.position <= self.delivered_position:
                    # Written while somebody holds it: after a crash it is to come back as delivered before.
                    self._is_mark_due = True
                level = self.default_priority if message.priority < 0 else min(message.priority, self.levels - 1)
                may_leave = 0 < self.spill_from <= message.position and message.state != WAITING
                key = (level, message.persistent and self.is_durable, may_leave)
                group = groups.get(key)
                if group is None:
                    groups[key] = [message]
                else:
                    group.append(message)
        pages: dict[int, Page] = {}
        for (level, is_persistent, may_leave), messages in groups.items():
            batch = self._write(level, is_persistent, messages, work)
            first, last = messages[0].position, messages[len(messages) - 1].position
            if may_leave:
                page = pages.get(level)
                if page is None:
                    page = pages[level] = Page(level, first, last)
                page.first_position = min(page.first_position, first)
                page.last_position = max(page.last_position, last)
                page.batches.append(batch)
        self.pages = list(pages.values())

    def _take_aside(self, work: Work) -> None:
        # Fresh ones among them have just been given their batch.
        for position, (message, at_ms, death) in self._aside.items():
            batch_id = 0 if message.batch is None else message.batch.batch_id
            work.attempts.append(
                Attempt(self.queue_id, position, message.attempts, at_ms, batch_id, message.index, death)
            )
        self._aside.clear()

    def _write(self, level: int, is_persistent: bool, messages: list[Message], work: Work) -> StoredBatch:
        batch = StoredBatch(self, self._journal.next_batch_id(), len(messages))
        if self._counters is not None and self._totals is not None:
            self._counters.disk_writes += len(messages)
            self._totals.disk_writes += len(messages)
        body_bytes = 0
        expires_at_ms = 0
        index = 0
        for message in messages:
            message.batch = batch
            message.index = index
            index += 1
            body_bytes += len(message.body)
            if message.expires_at_ms and (expires_at_ms == 0 or message.expires_at_ms < expires_at_ms):
                expires_at_ms = message.expires_at_ms
        work.batches.append(
            Batch(
                batch.batch_id,
                self.queue_id,
                level,
                messages[0].position,
                messages[len(messages) - 1].position,
                len(messages),
                body_bytes,
                expires_at_ms,
                not is_persistent,
                pack(messages),
            )
        )
        return batch
