"""The store's port: the broker's only interface to storage.

A `Work` holds the changes since the last commit, and `commit` makes it durable as one transaction: once it returns, all
of it survives a power cut; if it raises, nothing has changed. Messages are opaque here: the broker packs them in
batches, never changes them, and deletes whole batches. A separate bitmap marks the settled messages of a batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

#: From this level on, batches are unordered: their positions may interleave.
UNORDERED_LEVELS: Final = 1 << 32


class StorageError(Exception):
    """The store cannot do what was requested, and did none of it; the text names the remedy."""


class DamageError(StorageError):
    """Stored data is missing or differs from what was written."""


class WorkError(StorageError):
    """The store can never commit this work, however often it is tried: a fault of the broker, not of the disk."""


@dataclass(frozen=True, slots=True)
class Record:
    """A durable object other than a message: kind, key and value; the store interprets only kind and key.

    ``kind`` is one of vhost, user, permission, topic_permission, exchange, queue, binding, policy, operator_policy,
    parameter, global_parameter, limit, delays. ``key`` is unique within its kind. ``value`` is JSON.
    """

    kind: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one queue and level, stored together."""

    #: Assigned by the broker; ascending, never reused.
    batch_id: int
    queue_id: int
    level: int
    first_position: int
    last_position: int
    #: Number of messages, and octets of their bodies, when the batch was written.
    count: int
    body_bytes: int
    #: The earliest expiration of its messages; 0: none expires.
    expires_at_ms: int
    #: Transient messages, written to free memory; deleted at a restart.
    is_transient: bool = False
    #: Packed messages. Empty in batches from recovery: data is read when it is needed.
    data: bytes = b""
    #: One bit per message, set if it is settled; empty if none is.
    settled: bytes = b""
    #: Packs a large batch when it is written, in the writer's thread; then `data` is empty.
    pack: Callable[[], bytes] | None = None

    def packed(self) -> bytes:
        return self.data if self.pack is None else self.pack()


class AttemptRecord(NamedTuple):
    """The attempts of a message and the due time of its retry, or a held dead letter with its death."""

    queue_id: int
    position: int
    times: int
    #: When the retry is due, or when the message became a dead letter; 0: neither.
    due_at_ms: int = 0
    #: Where that message is stored, to find it without a search.
    batch_id: int = 0
    batch_index: int = 0
    #: The death of a held dead letter, opaque to the store; empty for other messages.
    death: bytes = b""

    @property
    def is_over(self) -> bool:
        """Whether the entry can be deleted."""
        return not self.times and not self.death


class SeenKey(NamedTuple):
    """A deduplication key that a queue or exchange has seen."""

    owner: str
    key: bytes
    #: The highest number of a producer that numbers its messages.
    number: int
    #: 0: never expires.
    expires_at_ms: int


@dataclass(slots=True)
class Work:
    """Everything that changed since the last commit, as one transaction. Applied in the order of the fields."""

    #: Records to write, and (kind, key) of records to remove.
    records: list[Record] = field(default_factory=list)
    removed_records: list[tuple[str, str]] = field(default_factory=list)
    #: Queues to remove, with their batches, marks and attempts.
    removed_queues: list[int] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    removed_batches: list[int] = field(default_factory=list)
    #: (batch_id, bitmap) of partly settled batches.
    settled: list[tuple[int, bytes]] = field(default_factory=list)
    #: (queue_id, next_position, delivered_position): positions are never reused, and recovery knows which were
    #: delivered.
    marks: list[tuple[int, int, int]] = field(default_factory=list)
    #: Attempts of messages that were delivered and returned, and held dead letters.
    attempts: list[AttemptRecord] = field(default_factory=list)
    #: Owners whose keys are removed, other (owner, key) to remove, and keys that are new or have a new number.
    forgotten_owners: list[str] = field(default_factory=list)
    forgotten: list[tuple[str, bytes]] = field(default_factory=list)
    seen: list[SeenKey] = field(default_factory=list)
    #: The number of this commit, counted by the object that collected it.
    number: int = 0

    def is_empty(self) -> bool:
        return not (
            self.records
            or self.removed_records
            or self.removed_queues
            or self.batches
            or self.removed_batches
            or self.settled
            or self.marks
            or self.attempts
            or self.forgotten_owners
            or self.forgotten
            or self.seen
        )


@dataclass(frozen=True, slots=True)
class Recovered:
    """All data from the last run, without transient batches. Batches are sorted by queue, level and position."""

    records: Sequence[Record] = ()
    batches: Sequence[Batch] = ()
    marks: Sequence[tuple[int, int, int]] = ()
    attempts: Sequence[AttemptRecord] = ()
    #: Oldest first.
    seen: Sequence[SeenKey] = ()
    #: The highest batch id ever assigned.
    last_batch_id: int = 0
    #: What could not be recovered, for the log; empty if nothing is wrong.
    troubles: Sequence[str] = ()


class BatchReader(Protocol):
    """The data of one batch, read in pieces from start to end."""

    #: Total size in octets.
    size: int

    def read(self, most: int) -> bytes:
        """The next octets; empty at the end. Raise StorageError, also at the end if the data is damaged."""
        ...

    def close(self) -> None:
        """Close the reader; may be called repeatedly."""
        ...


class Store(Protocol):
    """A store for durable data."""

    #: False if nothing survives the process, so that no caller need wait for commits or pack messages.
    is_durable: bool

    async def open(self) -> Recovered:
        """Take possession of the data and return what it holds. Raise StorageError."""
        ...

    async def commit(self, work: Work) -> None:
        """Make the work durable, all or nothing. One commit runs at a time. Raise StorageError; WorkError if a retry is
        useless."""
        ...

    def read(self, batch_id: int) -> bytes:
        """Read a batch's data at once, blocking, because the broker needs it now. Raise StorageError."""
        ...

    def open_batch(self, batch_id: int) -> BatchReader:
        """Open a batch that is too large to read at once. Close it soon: while it is open, the write-ahead log cannot
        restart. Raise StorageError."""
        ...

    def spare_bytes(self) -> int:
        """Unused space in what the store has already allocated on the disk."""
        ...

    async def close(self) -> None:
        """Finish all work. No calls are allowed afterwards."""
        ...
