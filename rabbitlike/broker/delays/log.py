"""The durable side of a vhost's delays: which delayed messages are written where, and what of that is gone.

A batch holds messages of one exchange that are due in one bucket of time; it is written once and deleted as a whole.
Delays end in order, so what is gone is mostly said by one number: everything due up to `mark_ms` is. A bit per message
tells of those beyond it, which were cancelled. What leaves here and enters queues in one turn does so in one commit.
"""

from collections.abc import Callable
from typing import Final

from rabbitlike.broker.journal import Journal
from rabbitlike.broker.message import Message, cost_of
from rabbitlike.broker.queues.storage.record import pack, portions
from rabbitlike.broker.states import COMMIT_COST, LOGGED, SETTLED
from rabbitlike.storage.api import UNORDERED_LEVELS, Batch, Work

#: Positions that are set apart on disk at once.
RESERVED: Final = 100_000
#: A batch is read back in one go, so none is larger.
BATCH_MESSAGES: Final = 1000
BATCH_BYTES: Final = 1 << 20
#: Batches below the first, and the second, are merged when there are so many in a bucket: messages, octets.
SMALL: Final = ((16, 1 << 16), (128, 1 << 17))
SMALL_BATCHES: Final = 16
#: So long before they are due, messages are brought in line.
AHEAD_MS: Final = 2000
#: What a message takes in memory beside its octets, roughly.
OVERHEAD: Final = 250

#: The narrowest bucket, as a power of two milliseconds.
NARROWEST: Final = 10
#: A bucket is as wide as an eighth of the time until then, or less: coarser, the farther away.
FINENESS: Final = 3

# A level is the number of the exchange, the power of two that is the width, and which bucket of that width.
_INDEX_BITS: Final = 39
_POWER_BITS: Final = 6


def level_for(source: int, due_ms: int, now_ms: int) -> int:
    """The bucket for a message that is due then."""
    power = max(NARROWEST, max(due_ms - now_ms, 1).bit_length() - 1 - FINENESS)
    return level_of(source, power, due_ms)


def level_of(source: int, power: int, due_ms: int) -> int:
    return UNORDERED_LEVELS + (source << _POWER_BITS + _INDEX_BITS | power << _INDEX_BITS | due_ms >> power)


class Bucket:
    """Messages of one exchange that are due within one span of time."""

    __slots__ = (
        "batches",
        "ends_at_ms",
        "fresh",
        "is_open",
        "is_spread",
        "level",
        "opens_at_ms",
        "power",
        "small",
        "source",
        "starts_at_ms",
    )

    def __init__(self, level: int) -> None:
        code = level - UNORDERED_LEVELS
        self.level = level
        self.source = code >> _POWER_BITS + _INDEX_BITS
        self.power = code >> _INDEX_BITS & (1 << _POWER_BITS) - 1
        self.starts_at_ms = (code & (1 << _INDEX_BITS) - 1) << self.power
        self.ends_at_ms = self.starts_at_ms + (1 << self.power)
        #: When its messages are to be brought in line. A wide one may have many to spread over narrower ones first.
        self.opens_at_ms = self.starts_at_ms - max(AHEAD_MS, (1 << self.power) // 4)
        #: Those with something left in them, by their number; and again those of few messages, to be merged.
        self.batches: dict[int, DelayBatch] = {}
        self.small: tuple[dict[int, DelayBatch], ...] = ({}, {})
        #: Messages to be written with the next commit, unless gone until then.
        self.fresh: list[Message] = []
        #: Its messages are in line, or on their way there.
        self.is_open = False
        #: They are too many to be brought in line at once.
        self.is_spread = False

    @property
    def is_empty(self) -> bool:
        return not self.batches and not self.fresh

    def add(self, batch: "DelayBatch") -> None:
        self.batches[batch.batch_id] = batch
        for small, (messages, octets) in zip(self.small, SMALL, strict=True):
            if batch.count < messages and batch.size < octets:
                small[batch.batch_id] = batch
                return

    def drop(self, batch: "DelayBatch") -> None:
        self.batches.pop(batch.batch_id, None)
        for small in self.small:
            small.pop(batch.batch_id, None)

    def detach(self) -> None:
        """Nothing of it refers to itself any more, so that reference counting frees it."""
        for batch in self.batches.values():
            batch.messages = None
        self.batches.clear()
        self.fresh.clear()
        for small in self.small:
            small.clear()

    def small_batches(self) -> list["DelayBatch"]:
        """Small batches, so many that they had better be one; else none."""
        for small in self.small:
            if len(small) >= SMALL_BATCHES:
                return list(small.values())[:SMALL_BATCHES]
        return []


class DelayBatch:
    """A batch on disk, or on its way there."""

    __slots__ = (
        "_log",
        "batch_id",
        "bucket",
        "count",
        "due_ms",
        "first_position",
        "is_dirty",
        "last_position",
        "live",
        "messages",
        "settled",
        "size",
    )

    def __init__(self, log: "DelayLog", bucket: Bucket, batch: Batch) -> None:
        self._log = log
        self.bucket = bucket
        self.batch_id = batch.batch_id
        self.count = batch.count
        self.first_position = batch.first_position
        self.last_position = batch.last_position
        #: When the first of its messages was due when it was written.
        self.due_ms = batch.expires_at_ms
        self.size = batch.body_bytes + OVERHEAD * batch.count
        #: One bit per message that is gone; empty while none is. Those up to the mark may lack theirs.
        self.settled = bytearray(batch.settled)
        self.live = batch.count - sum(octet.bit_count() for octet in batch.settled)
        self.is_dirty = False
        #: Those in memory; None: on disk only.
        self.messages: list[Message] | None = None

    def settle(self, index: int) -> None:
        """One of its messages is gone, and the mark does not say so."""
        self.set_bit(index)
        if self.live and not self.is_dirty:
            self.is_dirty = True
            self._log.note_dirty(self)

    def set_bit(self, index: int) -> None:
        if not self.settled:
            self.settled = bytearray((self.count + 7) // 8)
        self.settled[index >> 3] |= 1 << (index & 7)

    def is_settled(self, index: int) -> bool:
        return len(self.settled) > 0 and self.settled[index >> 3] >> (index & 7) & 1 != 0


class DelayLog:
    """What the store holds, or is about to hold, of one vhost's delays."""

    __slots__ = (
        "_deleted",
        "_dirty",
        "_fresh",
        "_is_mark_due",
        "_journal",
        "_removed",
        "_told",
        "_writing",
        "held_bytes",
        "is_touched",
        "mark_ms",
        "next_position",
        "queue_id",
    )

    def __init__(self, queue_id: int, journal: Journal, told: Callable[[list[DelayBatch]], None]) -> None:
        self.queue_id = queue_id
        self._journal = journal
        #: Hears of batches that are on disk now.
        self._told = told
        self.is_touched = False
        self._deleted = False
        self._fresh: dict[Bucket, None] = {}
        self._dirty: list[DelayBatch] = []
        self._removed: list[int] = []
        self._writing: list[DelayBatch] = []
        #: What the batches in memory take there.
        self.held_bytes = 0
        #: Everything due up to here is gone.
        self.mark_ms = 0
        #: Positions below this one may have been given.
        self.next_position = 1
        self._is_mark_due = False

    @property
    def number(self) -> int:
        """The commit that is to hold what changes now."""
        return self._journal.number

    def add(self, bucket: Bucket, message: Message) -> None:
        """A message that is to be written; `expires_at_ms` is when it is due."""
        message.logged = LOGGED
        message.batch = None
        bucket.fresh.append(message)
        self._fresh[bucket] = None
        self._journal.fresh_bytes += max(COMMIT_COST, cost_of(message))
        if message.position >= self.next_position:
            self.next_position = message.position + RESERVED
            self._is_mark_due = True
        self._touch()

    def settle(self, message: Message) -> None:
        """A message of the log is gone: cancelled, or due and the mark has been set by now."""
        message.logged = SETTLED
        batch = message.batch
        if batch is None:
            return
        batch.live -= 1
        if batch.live == 0:
            assert isinstance(batch, DelayBatch)
            self.remove(batch)
        elif message.expires_at_ms > self.mark_ms:
            batch.settle(message.index)

    def set_mark(self, mark_ms: int) -> None:
        self.mark_ms = mark_ms
        self._is_mark_due = True
        self._touch()

    def remove(self, batch: DelayBatch) -> None:
        """Nothing of this batch is needed any more."""
        batch.live = 0
        self.drop_messages(batch)
        batch.bucket.drop(batch)
        self._removed.append(batch.batch_id)
        self._touch()

    def keep(self, batch: DelayBatch, messages: list[Message]) -> None:
        """The batch is in memory."""
        batch.messages = messages
        self.held_bytes += batch.size

    def drop_messages(self, batch: DelayBatch) -> None:
        """The batch is on disk, if anywhere."""
        if batch.messages is not None:
            batch.messages = None
            self.held_bytes -= batch.size

    def note_dirty(self, batch: DelayBatch) -> None:
        self._dirty.append(batch)
        self._touch()

    def delete(self) -> None:
        """The vhost is gone, and all that was written of it."""
        self._journal.remove_queue(self.queue_id)
        self._deleted = True
        self._fresh.clear()
        self._dirty.clear()
        self._told = _ignore

    def _touch(self) -> None:
        if not self.is_touched:
            self._journal.touch(self)

    # Called by the journal

    def take(self, work: Work) -> None:
        self.is_touched = False
        if self._deleted:
            return
        for bucket in self._fresh:
            fresh = [message for message in bucket.fresh if message.logged == LOGGED]
            bucket.fresh = []
            for messages in portions(fresh, BATCH_MESSAGES, BATCH_BYTES):
                self._writing.append(self._write(bucket, messages, work))
        self._fresh.clear()
        for batch in self._dirty:
            batch.is_dirty = False
            if batch.live:
                work.settled.append((batch.batch_id, bytes(batch.settled)))
        self._dirty.clear()
        work.removed_batches += self._removed
        self._removed.clear()
        if self._is_mark_due:
            self._is_mark_due = False
            work.marks.append((self.queue_id, self.next_position, self.mark_ms))

    def written(self) -> None:
        written, self._writing = self._writing, []
        if written and not self._deleted:
            self._told([batch for batch in written if batch.live])

    def _write(self, bucket: Bucket, messages: list[Message], work: Work) -> DelayBatch:
        positions = [message.position for message in messages]
        packed = Batch(
            self._journal.next_batch_id(),
            self.queue_id,
            bucket.level,
            min(positions),
            max(positions),
            len(messages),
            sum([size_of(message) for message in messages]),
            min([message.expires_at_ms for message in messages]),
            False,
            pack(messages),
        )
        work.batches.append(packed)
        batch = DelayBatch(self, bucket, packed)
        for index, message in enumerate(messages):
            message.batch = batch
            message.index = index
        self.keep(batch, messages)
        bucket.add(batch)
        return batch


def size_of(message: Message) -> int:
    return len(message.body) + len(message.properties) + len(message.address)


def _ignore(written: list[DelayBatch]) -> None:
    """Who hears of batches once the vhost is deleted."""
