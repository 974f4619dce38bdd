"""The log of a vhost's delays: which delayed messages are on disk, in which batch, and which are gone.

A batch has messages of one exchange that are due in one bucket of time; it is written once and deleted as a whole. A
message is gone when it was routed or cancelled. Delays end in order, so one number covers most of them: all messages
due up to `mark_ms` are gone. A bit per message marks cancelled ones beyond it. A message leaves here and enters its
queues in one turn and so in one commit.
"""

from collections.abc import Callable
from typing import Final

from rabbitlike.broker.journal import Journal
from rabbitlike.broker.message import Message, cost_of
from rabbitlike.broker.queues.storage.record import pack, portions
from rabbitlike.broker.states import COMMIT_COST, LOGGED, SETTLED
from rabbitlike.storage.api import UNORDERED_LEVELS, Batch, Work

#: How many positions are reserved on disk at once.
RESERVED: Final = 100_000
#: Limits of a batch, because it is read back in one step.
BATCH_MESSAGES: Final = 1000
BATCH_BYTES: Final = 1 << 20
#: Batches below the first limits, or the second (messages, octets), are merged when a bucket has this many.
SMALL: Final = ((16, 1 << 16), (128, 1 << 17))
SMALL_BATCHES: Final = 16
#: Messages are scheduled this long before they are due.
AHEAD_MS: Final = 2000
#: About what a message takes in memory beside its octets.
OVERHEAD: Final = 250

#: Width of the narrowest bucket, as a power of two milliseconds.
NARROWEST: Final = 10
#: A bucket is at most an eighth as wide as the delay: buckets widen with the delay.
FINENESS: Final = 3

# A level consists of the exchange's number, the width as a power of two, and the index of the bucket of that width.
_INDEX_BITS: Final = 39
_POWER_BITS: Final = 6


def level_for(source: int, due_ms: int, now_ms: int) -> int:
    """Return the level of the bucket for a message due at ``due_ms``."""
    power = max(NARROWEST, max(due_ms - now_ms, 1).bit_length() - 1 - FINENESS)
    return level_of(source, power, due_ms)


def level_of(source: int, power: int, due_ms: int) -> int:
    return UNORDERED_LEVELS + (source << _POWER_BITS + _INDEX_BITS | power << _INDEX_BITS | due_ms >> power)


class Bucket:
    """Messages of one exchange that are due within one period."""

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
        #: When to schedule its messages. A wide one may have many to spread over narrower ones first.
        self.opens_at_ms = self.starts_at_ms - max(AHEAD_MS, (1 << self.power) // 4)
        #: Batches with messages left, by number; and again those with few messages, to be merged.
        self.batches: dict[int, DelayBatch] = {}
        self.small: tuple[dict[int, DelayBatch], ...] = ({}, {})
        #: Messages to write with the next commit, unless gone before.
        self.fresh: list[Message] = []
        #: Its messages are scheduled, or are about to be.
        self.is_open = False
        #: It has too many messages to schedule at once.
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
        """Break reference cycles, so that reference counting frees it."""
        for batch in self.batches.values():
            batch.messages = None
        self.batches.clear()
        self.fresh.clear()
        for small in self.small:
            small.clear()

    def small_batches(self) -> list["DelayBatch"]:
        """Return enough small batches to be worth merging, or none."""
        for small in self.small:
            if len(small) >= SMALL_BATCHES:
                return list(small.values())[:SMALL_BATCHES]
        return []


class DelayBatch:
    """A batch that is on disk or being written."""

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
        #: When the first of its messages was due at the time of writing.
        self.due_ms = batch.expires_at_ms
        self.size = batch.body_bytes + OVERHEAD * batch.count
        #: One bit per message that is gone; empty while none is. Those up to the mark may have no bit.
        self.settled = bytearray(batch.settled)
        self.live = batch.count - sum(octet.bit_count() for octet in batch.settled)
        self.is_dirty = False
        #: The messages in memory; None: on disk only.
        self.messages: list[Message] | None = None

    def settle(self, index: int) -> None:
        """Mark one message as gone that the mark does not cover."""
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
    """What the store has of one vhost's delays, or will have after the next commit."""

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
        #: Called with batches that are now on disk.
        self._told = told
        self.is_touched = False
        self._deleted = False
        self._fresh: dict[Bucket, None] = {}
        self._dirty: list[DelayBatch] = []
        self._removed: list[int] = []
        self._writing: list[DelayBatch] = []
        #: How much memory the batches in memory take.
        self.held_bytes = 0
        #: All messages due up to this time are gone.
        self.mark_ms = 0
        #: Positions below this one may be in use.
        self.next_position = 1
        self._is_mark_due = False

    @property
    def number(self) -> int:
        """The number of the commit that will contain what changes now."""
        return self._journal.number

    def add(self, bucket: Bucket, message: Message) -> None:
        """Add a message to write; `expires_at_ms` is its due time."""
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
        """Note that a message is gone: cancelled, or due, in which case the mark is set already."""
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
        """Remove a batch that is not needed any more."""
        batch.live = 0
        self.drop_messages(batch)
        batch.bucket.drop(batch)
        self._removed.append(batch.batch_id)
        self._touch()

    def keep(self, batch: DelayBatch, messages: list[Message]) -> None:
        """Keep the batch's messages in memory."""
        batch.messages = messages
        self.held_bytes += batch.size

    def drop_messages(self, batch: DelayBatch) -> None:
        """Drop the batch's messages from memory."""
        if batch.messages is not None:
            batch.messages = None
            self.held_bytes -= batch.size

    def note_dirty(self, batch: DelayBatch) -> None:
        self._dirty.append(batch)
        self._touch()

    def delete(self) -> None:
        """Delete everything written, because the vhost is deleted."""
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
    """Do nothing: the callback for batches after the vhost is deleted."""
