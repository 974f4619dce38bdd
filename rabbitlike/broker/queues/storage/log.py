"""The durable side of a queue: which of its messages are written where, and what of that is settled.

A message is added when it enters the queue and written with the next commit, packed together with all others that
arrived since. One settled before that never touches the disk. A batch is immutable; what is settled of it is a bit, and
the batch goes when nothing is left of it. Everything a turn changed is in one commit, because commits are taken between
turns.
"""

from collections.abc import Callable
from functools import partial

from rabbitlike.broker.journal import Journal
from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.storage.record import pack, portions
from rabbitlike.broker.states import AWAITING_RETRY, COMMIT_COST, LOGGED, MESSAGE_COST, SETTLED
from rabbitlike.broker.statistics.counters import Counters
from rabbitlike.storage.api import AttemptRecord, Batch, Work

#: A batch that takes more memory than this is packed by the thread that writes it, so as not to hold the broker up.
PACKED_AT_ONCE = 64 * 1024
#: Positions that are set apart on disk at once.
RESERVED = 100_000
#: The mark of what was delivered stands so far ahead of it, at least and at most: as far as it gets in so many commits.
#: So far ahead, messages may be marked as redelivered after a crash that never were delivered.
LEAST_AHEAD = 256
MOST_AHEAD = 65_536
COMMITS_AHEAD = 8
#: While the journal is held, batches are made of so many messages as they come.
MADE_AHEAD = 4096
#: Never reached.
NOWHERE = 1 << 62


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
        if self.live == 0:
            return  # it was removed as a whole
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
        #: Positions in it that are none of the page's: they wait for a try that the last run put off, or came back.
        self.away: set[int] | None = None
        #: Of a page of messages that came back: for each message of its only batch how often it did, and one more; 0 if
        #: it is not in the page.
        self.attempts: bytearray | None = None
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
        #: What is written of a queue that is not durable only made room in memory, and is gone after a restart.
        self.is_durable = is_durable
        self.is_deleted = False
        #: Told of pages that may leave memory.
        self._release: Callable[[list[Page]], None] = _keep
        self._journal = journal
        #: Where writes are counted, once there is a queue.
        self._counters: Counters | None = None
        self._totals: Counters | None = None
        self.levels = levels
        self.default_priority = min(default_priority, levels - 1)
        self.is_touched = False
        #: Messages to be written with the next commit, unless settled until then.
        self._fresh: list[Message] = []
        #: Batches of such, made already, and the pages that may leave memory when they are written.
        self._batches: list[Batch] = []
        self._pages: list[Page] = []
        self._dirty: list[StoredBatch] = []
        self._removed: list[int] = []
        self._attempts: dict[int, int] = {}
        #: Those that are deferred, and since or until when: they wait for their next try; or they are dead letters that
        #: cannot go yet, and what is to be known of their death.
        self._deferred: dict[int, tuple[Message, int, bytes]] = {}
        #: Highest position that was handed out in this run, now and when the last commit was taken.
        self.delivered_position = 0
        self._taken_position = 0
        #: The mark: after a crash, stored messages up to here are taken for delivered. A message may leave the broker
        #: only when the disk has a mark that covers it, so the mark is written ahead. As recovery found it, as it is on
        #: disk, and as it is or will be there when the last commit that was taken is done.
        self._inherited = 0
        self._covered = 0
        self._mark = 0
        self._ahead = LEAST_AHEAD
        self._is_cover_due = False
        #: Beyond this position the mark must be renewed.
        self._renew_from = 0 if is_durable else NOWHERE
        #: What is handed out must not leave before this commit is done, which covers it; 0: it is covered.
        self.hold_until = 0
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
        self._journal.fresh_bytes += max(COMMIT_COST, MESSAGE_COST + len(message.properties) + len(message.body))
        if message.position >= self.next_position:
            self.next_position = message.position + RESERVED
            self._is_mark_due = True
        if not self.is_touched:
            self._journal.touch(self)
        if len(self._fresh) >= MADE_AHEAD and self._journal.is_held:
            # Nothing is taken before very many have come: a step of each turn that brings them, not one long one.
            self._make_batches()

    def settle(self, message: Message) -> None:
        """A message of the log that nobody needs any more."""
        message.logged = SETTLED
        if message.batch is not None:
            message.batch.settle(message.index)
        if message.attempts > 0:
            self.erase(message)

    def erase(self, message: Message) -> None:
        """Nobody need know any more how often it came back, or that it was deferred."""
        self._attempts[message.position] = 0
        self._deferred.pop(message.position, None)
        if not self.is_touched:
            self._journal.touch(self)

    def returned(self, message: Message) -> None:
        """A message came back undone."""
        self._attempts[message.position] = message.attempts
        self._deferred.pop(message.position, None)
        if not self.is_touched:
            self._journal.touch(self)

    def note_retry(self, message: Message, due_at_ms: int) -> None:
        """A message came back undone, and is not to be handed out before its time."""
        self.note_dead_letter(message, due_at_ms, b"")

    def note_dead_letter(self, message: Message, dead_lettered_at_ms: int, death: bytes) -> None:
        """A message is a dead letter that cannot go yet, and not to be handed out any more."""
        self._deferred[message.position] = (message, dead_lettered_at_ms, death)
        self._attempts.pop(message.position, None)
        if not self.is_touched:
            self._journal.touch(self)

    def delivered(self, message: Message) -> None:
        """A message was handed out. One that is not written yet is covered by the commit that writes it."""
        if message.position > self.delivered_position:
            self.delivered_position = message.position
        if message.position > self._renew_from and message.batch is not None and message.persistent:
            self._cover(message)

    def _cover(self, message: Message) -> None:
        """The mark is nearly used up, or does not reach this message, which is written: ask for a new one."""
        if not self._is_cover_due and message.position > self._mark - self._ahead // 2:
            self._is_cover_due = True
            if not self.is_touched:
                self._journal.touch(self)
        if message.position <= self._covered or self._journal.is_failing:
            # While the disk takes nothing, consumers are served all the same.
            return
        if message.position > self._mark:
            self.hold_until = self._journal.number
        elif message.batch is not None and message.batch.batch_id <= self._journal.written_batch_id:
            self.hold_until = max(self.hold_until, self._journal.number - 1)  # the commit under way

    def inherit(self, mark: int, next_position: int) -> None:
        """Recovery: the last run has marked messages up to here, and given positions up to there."""
        self._inherited = self._covered = self._mark = mark
        self._renew_from = mark - self._ahead // 2
        self.delivered_position = self._taken_position = 0
        self.next_position = next_position

    def settle_mark(self) -> None:
        """Nothing will be delivered any more: the mark need not stand ahead."""
        exact = max(self.delivered_position, self._inherited)
        if self._mark > exact and not self.is_deleted:
            self._mark = exact
            self._renew_from = NOWHERE
            self._is_cover_due = False
            self._is_mark_due = True
            if not self.is_touched:
                self._journal.touch(self)

    def purge(self, messages: list[Message], pages: list["Page"]) -> None:
        """All that was ready goes: these in memory, and these on disk only."""
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
        """The queue is gone, and all that was written of it."""
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
        """The commit is done: what it wrote need not stay in memory."""
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
        # What stands before and what may leave memory are never in one batch: a page is made of whole batches.
        groups: dict[tuple[int, bool], list[Message]] = {}
        group: list[Message] = []
        # Of the message before, which most others are like.
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
        """One batch, or one of persistent and one of transient messages: those do not survive a restart."""
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
                # Some may be with consumers already, others will be before the next commit.
                self._is_cover_due = True
            batches.append(self._write_batch(level, True, persistent))
        if transient:
            batches.append(self._write_batch(level, False, transient))
        return batches

    def _take_deferred(self, work: Work) -> None:
        # Fresh ones among them have just been given their batch.
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
    """What a log does with pages that may leave memory before it has a queue, and after."""
