"""The store's port: all that the broker knows of storage.

What changed since the last commit travels as one `Work`, and `commit` makes it durable as one transaction: after it
returns, all of it survives a power cut; if it raises, none of it has happened. Messages are opaque here: packed
together in batches by the broker, never changed, deleted as a whole. What was settled of a batch is kept apart, as a
bitmap.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

#: From this level on, the batches of a level are in no order: their positions may interleave.
UNORDERED_LEVELS: Final = 1 << 32


class StorageError(Exception):
    """The store cannot do what was asked; the text says what to do about it. Nothing of the request has happened."""


class DamageError(StorageError):
    """Data that was there is missing or not what was written."""


class WorkError(StorageError):
    """The store will never take this work, however often it is tried: a fault of the broker, not of the disk."""


@dataclass(frozen=True, slots=True)
class Record:
    """A durable thing that is not a message: kind, name and value, opaque to the store but for the name.

    ``kind`` is one of vhost, user, permission, topic_permission, exchange, queue, binding, policy, operator_policy,
    parameter, global_parameter, limit, delays. ``key`` is unique within its kind. ``value`` is JSON.
    """

    kind: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one queue and one level, stored together."""

    #: Given by the broker; grows, never reused.
    batch_id: int
    queue_id: int
    level: int
    first_position: int
    last_position: int
    #: Messages in it, and octets of their bodies, when it was written.
    count: int
    body_bytes: int
    #: The earliest time a message in it expires; 0: none does.
    expires_at_ms: int
    #: Transient messages that were written to free memory: gone after a restart.
    is_transient: bool = False
    #: Packed messages. Empty in what recovery returns: bodies are read when they are needed.
    data: bytes = b""
    #: One bit per message, set when it is settled; empty when none is.
    settled: bytes = b""
    #: Packs the messages of a large batch when it is written, in the thread that does; then `data` is empty.
    pack: Callable[[], bytes] | None = None

    def packed(self) -> bytes:
        return self.data if self.pack is None else self.pack()


class AttemptRecord(NamedTuple):
    """How often a message was delivered and came back, and until when it waits for the next time; or that it died, and
    what is to be known of that."""

    queue_id: int
    position: int
    times: int
    #: When a message that waits is due, or one that died did; 0: neither.
    due_at_ms: int = 0
    #: Where such a message is stored, so that it is found without a search.
    batch_id: int = 0
    batch_index: int = 0
    #: Of a dead letter that cannot go yet, opaque to the store; empty: it lives.
    death: bytes = b""

    @property
    def is_over(self) -> bool:
        """It says nothing any more: the entry is to go."""
        return not self.times and not self.death


class SeenKey(NamedTuple):
    """The key of a message that a queue or exchange has seen, so that it knows a duplicate."""

    owner: str
    key: bytes
    #: The highest of a producer that counts its messages.
    number: int
    #: 0: never.
    expires_at_ms: int


@dataclass(slots=True)
class Work:
    """Everything that changed since the last commit, as one transaction. Applied in the order of the fields."""

    #: Records to write, and (kind, key) to remove.
    records: list[Record] = field(default_factory=list)
    removed_records: list[tuple[str, str]] = field(default_factory=list)
    #: Queues whose batches, marks and attempts all go.
    removed_queues: list[int] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    removed_batches: list[int] = field(default_factory=list)
    #: (batch_id, bitmap) of batches that are settled in part.
    settled: list[tuple[int, bytes]] = field(default_factory=list)
    #: (queue_id, next_position, delivered_position): positions are never reused, and what was delivered is known after
    #: a crash.
    marks: list[tuple[int, int, int]] = field(default_factory=list)
    #: Of messages that were delivered and came back, and of dead letters that cannot go yet.
    attempts: list[AttemptRecord] = field(default_factory=list)
    #: Owners whose keys all go, (owner, key) of others that go, and keys that are new or have another number.
    forgotten_owners: list[str] = field(default_factory=list)
    forgotten: list[tuple[str, bytes]] = field(default_factory=list)
    seen: list[SeenKey] = field(default_factory=list)
    #: Which commit it is, counted by whom it was taken from.
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
    """All that outlived the last run. Batches by queue, level and position; transient ones are gone already."""

    records: Sequence[Record] = ()
    batches: Sequence[Batch] = ()
    marks: Sequence[tuple[int, int, int]] = ()
    attempts: Sequence[AttemptRecord] = ()
    #: Oldest first.
    seen: Sequence[SeenKey] = ()
    #: Highest batch id ever given.
    last_batch_id: int = 0
    #: What could not be kept, in words for the log; empty when all is well.
    troubles: Sequence[str] = ()


class BatchReader(Protocol):
    """The data of one batch, to be read piece by piece, from its beginning to its end."""

    #: All of it, in octets.
    size: int

    def read(self, most: int) -> bytes:
        """The next octets; none at the end. Raises StorageError, at the end also for data that is not what was
        written."""
        ...

    def close(self) -> None:
        """As often as you like."""
        ...


class Store(Protocol):
    """Where durable things live."""

    #: False: nothing outlives the process, so nobody need wait for it or pack anything.
    is_durable: bool

    async def open(self) -> Recovered:
        """Take possession of the data and say what is there. Raises StorageError."""
        ...

    async def commit(self, work: Work) -> None:
        """Make it durable, all or nothing. Never called while another commit runs. Raises StorageError; WorkError
        when there is no use in trying again."""
        ...

    def read(self, batch_id: int) -> bytes:
        """A batch's data, at once: the broker needs it now. Raises StorageError."""
        ...

    def open_batch(self, batch_id: int) -> BatchReader:
        """The same for a batch that is too large to be read at once. Close it soon: while it is open, the store's log
        cannot start over. Raises StorageError."""
        ...

    def spare_bytes(self) -> int:
        """Room in what the store has taken of the disk already."""
        ...

    async def close(self) -> None:
        """Bring everything to rest. Nothing may be asked of it afterwards."""
        ...
