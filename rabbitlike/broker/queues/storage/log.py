"""The log of a queue: which of its messages are on disk, in which batch, and which of those are settled.

A message is added when it enters the queue and written with the next commit, in one batch with the others that arrived
since the last one. A message settled before that is never written. A batch is immutable; settled messages are bits in a
bitmap, and the batch is removed when all its messages are settled. All changes of a turn are in one commit, because
commits are taken between turns.
"""

from collections.abc import Callable
from functools import partial

from rabbitlike.broker.journal import Journal
from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.storage.record import pack, portions
from rabbitlike.broker.states import AWAITING_RETRY, COMMIT_COST, LOGGED, MESSAGE_COST, SETTLED
from rabbitlike.broker.statistics.counters import Counters
from rabbitlike.storage.api import AttemptRecord, Batch, Work

#: A batch with more bytes in memory than this is packed by the writer's thread, so that it does not block the broker.
PACKED_AT_ONCE = 64 * 1024
#: How many positions are reserved on disk at once.
RESERVED = 100_000
#: How far the delivery mark runs ahead of delivery: at least, at most, and in numbers of commits. After a crash, that
#: many messages may be marked as redelivered although they never were delivered.
LEAST_AHEAD = 256
MOST_AHEAD = 65_536
COMMITS_AHEAD = 8
#: While the journal is held, a batch is made whenever this many messages have arrived.
MADE_AHEAD = 4096
#: A position that is never reached.
NOWHERE = 1 << 62


class StoredBatch:
    """A batch that is on disk or being written, without its messages."""

    __slots__ = ("_log", "batch_id", "count", "is_dirty", "live", "settled")

    def __init__(self, log: "Log", batch_id: int, count: int, settled: bytes = b"") -> None:
        self._log = log
        self.batch_id = batch_id
        self.count = count
        #: One bit per message; empty while none is settled.
        self.settled = bytearray(settled)
        #: How many messages are not settled.
        self.live = count - sum(octet.bit_count() for octet in settled)
        #: The bitmap on disk is out of date.
        self.is_dirty = False

    def settle(self, index: int) -> None:
        if self.live == 0:
            return  # the whole batch was removed
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
        "attempts",
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
        #: Positions in its batches that do not belong to the page: awaiting a retry since the last run, or returned.
        self.away: set[int] | None = None
        #: For a page of returned messages: attempts + 1 for each message of its only batch; 0 if the page does not
        #: contain it.
        self.attempts: bytearray | None = None
        self.count = 0
        self.body_bytes = 0
        #: When its first message was published; 0: unknown, because an earlier run wrote it.
        self.published_at_ms = 0
        #: When the first message expires; 0: none does.
        self.expires_at_ms = 0
        #: Its messages are on disk only.
        self.is_out = False


class Log:
    """What the store has of one queue, or will have after the next commit."""

    __slots__ = (
        "_ahead",
        "_attempts",
        "_batches",
        "_counters",
        "_covered",
        "_deferred",
        "_dirty",
        "_fresh",
        "_inherited",
        "_is_cover_due",
        "_is_mark_due",
        "_journal",
        "_mark",
        "_pages",
        "_release",
        "_removed",
        "_renew_from",
        "_taken_position",
        "_totals",
        "default_priority",
        "delivered_position",
        "hold_until",
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
        #: For a queue that is not durable, writing only frees memory: a restart deletes what was written.
        self.is_durable = is_durable
        self.is_deleted = False
        #: Called with pages that may leave memory.
        self._release: Callable[[list[Page]], None] = _keep
        self._journal = journal
        #: The queue's and the vhost's counters of writes; None until `count_in`.
        self._counters: Counters | None = None
        self._totals: Counters | None = None
        self.levels = levels
        self.default_priority = min(default_priority, levels - 1)
        self.is_touched = False
        #: Messages to write with the next commit, unless settled before.
        self._fresh: list[Message] = []
        #: Batches already made of such messages, and the pages that may leave memory once these are written.
        self._batches: list[Batch] = []
        self._pages: list[Page] = []
        self._dirty: list[StoredBatch] = []
        self._removed: list[int] = []
        self._attempts: dict[int, int] = {}
        #: Deferred messages to note: the message, a time, and its packed death. The time is when the retry is due or,
        #: for a held dead letter, when it was dead-lettered.
        self._deferred: dict[int, tuple[Message, int, bytes]] = {}
        #: The highest position delivered in this run: now, and when the last commit was taken.
        self.delivered_position = 0
        self._taken_position = 0
        #: The mark: after a crash, stored messages up to this position count as delivered. A message may leave the
        #: broker only if the mark on disk covers it, so the mark is written ahead. Three values: the mark that recovery
        #: found, the mark on disk, and the mark as it is or will be on disk after the last commit taken.
        self._inherited = 0
        self._covered = 0
        self._mark = 0
        self._ahead = LEAST_AHEAD
        self._is_cover_due = False
        #: Above this position the mark must be renewed.
        self._renew_from = 0 if is_durable else NOWHERE
        #: The commit that must finish before deliveries may leave, because it covers them; 0: they are covered.
        self.hold_until = 0
        #: Positions below this one may be in use. Reserved in blocks, so that few commits need to store it.
        self.next_position = 1
        self._is_mark_due = False
        #: From this position on, all messages are written and may leave memory; 0: none must.
        self.spill_from = 0
        #: The pages in the current commit that may leave memory when it is done.
        self.pages: list[Page] = []

    def release_with(self, release: "Callable[[list[Page]], None]") -> None:
        self._release = release

    def count_in(self, counters: Counters, totals: Counters) -> None:
        """Set the counters for writes: the queue's and the vhost's."""
        self._counters = counters
        self._totals = totals

    def add(self, message: Message) -> None:
        """Add a message to write."""
        message.logged = LOGGED
        self._fresh.append(message)
        self._journal.fresh_bytes += max(COMMIT_COST, MESSAGE_COST + len(message.properties) + len(message.body))
        if message.position >= self.next_position:
            self.next_position = message.position + RESERVED
            self._is_mark_due = True
        if not self.is_touched:
            self._journal.touch(self)
        if len(self._fresh) >= MADE_AHEAD and self._journal.is_held:
            # A commit is taken only after very many messages: make batches in each turn instead of all in one long
            # step.
            self._make_batches()

    def settle(self, message: Message) -> None:
        """Note that a message of the log is settled."""
        message.logged = SETTLED
        if message.batch is not None:
            message.batch.settle(message.index)
        if message.attempts > 0:
            self.erase(message)

    def erase(self, message: Message) -> None:
        """Delete a message's attempts and its deferral."""
        self._attempts[message.position] = 0
        self._deferred.pop(message.position, None)
        if not self.is_touched:
            self._journal.touch(self)

    def returned(self, message: Message) -> None:
        """Note that a message was returned."""
        self._attempts[message.position] = message.attempts
        self._deferred.pop(message.position, None)
        if not self.is_touched:
            self._journal.touch(self)

    def note_retry(self, message: Message, due_at_ms: int) -> None:
        """Note that a message was returned and may not be delivered before ``due_at_ms``."""
        self.note_dead_letter(message, due_at_ms, b"")

    def note_dead_letter(self, message: Message, dead_lettered_at_ms: int, death: bytes) -> None:
        """Note that a message is a held dead letter and may not be delivered any more."""
        self._deferred[message.position] = (message, dead_lettered_at_ms, death)
        self._attempts.pop(message.position, None)
        if not self.is_touched:
            self._journal.touch(self)

    def delivered(self, message: Message) -> None:
        """Note a delivery. The commit that writes a message covers it if it is not written yet."""
        if message.position > self.delivered_position:
            self.delivered_position = message.position
        if message.position > self._renew_from and message.batch is not None and message.persistent:
            self._cover(message)

    def _cover(self, message: Message) -> None:
        """Request a new mark if the current one is nearly used up or does not reach this message, which is written."""
        if not self._is_cover_due and message.position > self._mark - self._ahead // 2:
            self._is_cover_due = True
            if not self.is_touched:
                self._journal.touch(self)
        if message.position <= self._covered or self._journal.is_failing:
            # While the disk accepts no writes, consumers still get messages.
            return
        if message.position > self._mark:
            self.hold_until = self._journal.number
        elif message.batch is not None and message.batch.batch_id <= self._journal.written_batch_id:
            self.hold_until = max(self.hold_until, self._journal.number - 1)  # the current commit

    def inherit(self, mark: int, next_position: int) -> None:
        """Recovery: continue from the last run's mark and its next position."""
        self._inherited = self._covered = self._mark = mark
        self._renew_from = mark - self._ahead // 2
        self.delivered_position = self._taken_position = 0
        self.next_position = next_position

    def settle_mark(self) -> None:
        """Write the mark without any lead, because nothing will be delivered any more."""
        exact = max(self.delivered_position, self._inherited)
        if self._mark > exact and not self.is_deleted:
            self._mark = exact
            self._renew_from = NOWHERE
            self._is_cover_due = False
            self._is_mark_due = True
            if not self.is_touched:
                self._journal.touch(self)

    def purge(self, messages: list[Message], pages: list["Page"]) -> None:
        """Delete all ready messages: these in memory, and these pages on disk."""
        self.settle_all(messages)
        for page in pages:
            page.is_out = False
            for batch in page.batches:
                if batch.live:
                    self.remove(batch)

    def settle_all(self, messages: list[Message]) -> None:
        for message in messages:
            if message.logged == LOGGED:
                self.settle(message)

    def delete(self) -> None:
        """Delete the queue's log and everything written of it."""
        self._journal.remove_queue(self.queue_id)
        self._fresh = []
        self._batches = []
        self._pages = []
        self._dirty = []
        self._removed = []
        self._attempts = {}
        self._deferred = {}
        self._release = _keep
        self.is_deleted = True

    def written(self) -> None:
        """Note that the commit is done: what it wrote may leave memory."""
        if self._covered != self._mark:
            self._covered = self._mark
            self._renew_from = self._mark - self._ahead // 2
        if self.hold_until <= self._journal.committed:
            self.hold_until = 0
        pages = self.pages
        self.pages = []
        if pages and not self.is_deleted:
            self._release(pages)

    def remove(self, batch: StoredBatch) -> None:
        """Remove a batch whose messages are all settled."""
        batch.live = 0
        self._removed.append(batch.batch_id)
        if not self.is_touched:
            self._journal.touch(self)

    def note_dirty(self, batch: StoredBatch) -> None:
        self._dirty.append(batch)
        if not self.is_touched:
            self._journal.touch(self)

    def take(self, work: Work) -> None:
        """Add everything that changed since the last commit to ``work``."""
        self.is_touched = False
        if self.is_deleted:
            return
        if self._fresh:
            self._make_batches()
        if self._batches:
            work.batches += self._batches
            self._batches = []
            self.pages = self._pages
            self._pages = []
        for batch in self._dirty:
            batch.is_dirty = False
            if batch.live:
                work.settled.append((batch.batch_id, bytes(batch.settled)))
        self._dirty.clear()
        if self._removed:
            work.removed_batches += self._removed
            self._removed.clear()
        for position, count in self._attempts.items():
            work.attempts.append(AttemptRecord(self.queue_id, position, count))
        self._attempts.clear()
        if self._deferred:
            self._take_deferred(work)
        if self._is_cover_due:
            self._is_cover_due = False
            progress = self.delivered_position - self._taken_position
            self._ahead = min(max(COMMITS_AHEAD * progress, LEAST_AHEAD), MOST_AHEAD)
            self._mark = max(self._mark, self.delivered_position + self._ahead)
            self._is_mark_due = True
        self._taken_position = self.delivered_position
        if self._is_mark_due:
            self._is_mark_due = False
            work.marks.append((self.queue_id, self.next_position, self._mark))

    def _make_batches(self) -> None:
        fresh = self._fresh
        self._fresh = []
        # A batch never mixes messages that may leave memory with others, because a page consists of whole batches.
        groups: dict[tuple[int, bool], list[Message]] = {}
        group: list[Message] = []
        # Those of the previous message, because most messages have the same.
        last_level, last_may_leave = -1, False
        for message in fresh:
            if message.logged == SETTLED:
                continue
            level = self.default_priority if message.priority < 0 else min(message.priority, self.levels - 1)
            may_leave = 0 < self.spill_from <= message.position and message.state != AWAITING_RETRY
            if level != last_level or may_leave != last_may_leave:
                group = groups.setdefault((level, may_leave), [])
                last_level, last_may_leave = level, may_leave
            group.append(message)
        for (level, may_leave), group in groups.items():
            for messages in portions(group):
                batches = self._write(level, messages)
                if may_leave:
                    page = Page(level, messages[0].position, messages[len(messages) - 1].position)
                    page.batches = batches
                    self._pages.append(page)

    def _write(self, level: int, messages: list[Message]) -> list[StoredBatch]:
        """Make one batch, or one of persistent and one of transient messages: transient ones do not survive a
        restart."""
        persistent: list[Message] = []
        transient: list[Message] = []
        for message in messages:
            if message.persistent and self.is_durable:
                persistent.append(message)
            else:
                transient.append(message)
        batches = []
        if persistent:
            if self._mark < self.delivered_position + LEAST_AHEAD // 2:
                # Some may be delivered already, others will be before the next commit.
                self._is_cover_due = True
            batches.append(self._write_batch(level, True, persistent))
        if transient:
            batches.append(self._write_batch(level, False, transient))
        return batches

    def _take_deferred(self, work: Work) -> None:
        # Fresh messages among them have just got their batch.
        for position, (message, at_ms, death) in self._deferred.items():
            batch_id = 0 if message.batch is None else message.batch.batch_id
            work.attempts.append(
                AttemptRecord(self.queue_id, position, message.attempts, at_ms, batch_id, message.index, death)
            )
        self._deferred.clear()

    def _write_batch(self, level: int, is_persistent: bool, messages: list[Message]) -> StoredBatch:
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
        is_large = body_bytes + MESSAGE_COST * len(messages) > PACKED_AT_ONCE
        self._batches.append(
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
                b"" if is_large else pack(messages),
                pack=partial(pack, messages) if is_large else None,
            )
        )
        return batch


def _keep(pages: list[Page]) -> None:
    """Keep pages in memory: the default before the log has a queue and after its deletion."""
