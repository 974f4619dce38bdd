"""A broker over a disk that can fail at any moment, in one thread; the test begins and ends every commit by hand.

    disk = SimulatedDisk()                         # or SqliteDisk(folder)
    pair = disk.boot(queue_window=2000)            # a DurablePair: a Pair whose broker has a journal
    ...
    pair.begin_commit(); ...; pair.end_commit()    # what happens in between belongs to the next commit
    pair = disk.boot(now_ms=..., crash=True)       # the process died: only committed data is left

Deliveries beyond the mark on disk wait for a commit, which happens automatically (`commit_for_delivery`).

Invariant: a commit begins only when the broker asked for one, as with the writer.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rabbitlike.broker.broker import Broker
from rabbitlike.broker.journal import Journal
from rabbitlike.config import BrokerSettings
from rabbitlike.storage.api import AttemptRecord, Batch, Record, Recovered, SeenKey, StorageError, Store, Work
from rabbitlike.storage.store import SqliteStore
from tests.support.pair import Client, Pair, whole
from tests.support.turns import TurnClock

T = TypeVar("T")

START_MS = 1_700_000_000_000


class SimulatedStore:
    """The store's port over dictionaries: only what `commit` received survives the broker."""

    is_durable = True

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], str] = {}
        self.batches: dict[int, Batch] = {}
        self.marks: dict[int, tuple[int, int]] = {}
        self.attempts: dict[tuple[int, int], AttemptRecord] = {}
        self.seen: dict[tuple[str, bytes], SeenKey] = {}
        self.last_batch_id = 0
        #: Readers of all batches that were read piece by piece.
        self.readers: list[SimulatedReader] = []

    async def open(self) -> Recovered:
        self.batches = {number: batch for number, batch in self.batches.items() if not batch.is_transient}
        batches = sorted(self.batches.values(), key=lambda one: (one.queue_id, one.level, one.first_position))
        return Recovered(
            records=[Record(kind, key, value) for (kind, key), value in sorted(self.records.items())],
            batches=[replace(batch, data=b"") for batch in batches],
            marks=[(queue_id, *mark) for queue_id, mark in self.marks.items()],
            attempts=[*self.attempts.values()],
            seen=[*self.seen.values()],
            last_batch_id=self.last_batch_id,
        )

    async def commit(self, work: Work) -> None:
        for record in work.records:
            self.records[record.kind, record.key] = record.value
        for place in work.removed_records:
            self.records.pop(place, None)
        for gone in work.removed_queues:
            self.batches = {number: batch for number, batch in self.batches.items() if batch.queue_id != gone}
            self.attempts = {place: attempt for place, attempt in self.attempts.items() if place[0] != gone}
            self.marks.pop(gone, None)
        for batch in work.batches:
            assert batch.batch_id > self.last_batch_id, "batch ids only grow"
            self.batches[batch.batch_id] = replace(batch, data=batch.packed(), pack=None)
            self.last_batch_id = batch.batch_id
        for number in work.removed_batches:
            assert self.batches.pop(number, None) is not None, f"batch {number} is removed and was not there"
        for number, settled in work.settled:
            self.batches[number] = replace(self.batches[number], settled=settled)
        for queue_id, following, delivered in work.marks:
            before = self.marks.get(queue_id, (0, 0))
            assert following >= before[0], "positions are never given twice"
            self.marks[queue_id] = (following, delivered)
        for attempt in work.attempts:
            self.attempts[attempt.queue_id, attempt.position] = attempt
            if attempt.is_over:
                del self.attempts[attempt.queue_id, attempt.position]
        self.seen = {place: one for place, one in self.seen.items() if one.owner not in work.forgotten_owners}
        for forgotten in work.forgotten:
            self.seen.pop(forgotten, None)
        for one in work.seen:
            self.seen.pop(one[:2], None)
            self.seen[one[:2]] = one

    def read(self, batch_id: int) -> bytes:
        if batch_id not in self.batches:
            raise StorageError(f"batch {batch_id} is not there")
        return self.batches[batch_id].data

    def open_batch(self, batch_id: int) -> SimulatedReader:
        if batch_id not in self.batches:
            raise StorageError(f"batch {batch_id} is not there")
        self.readers.append(SimulatedReader(self.batches[batch_id].packed()))
        return self.readers[-1]

    def spare_bytes(self) -> int:
        return 0

    async def close(self) -> None:
        return None


class SimulatedReader:
    """A batch that is read piece by piece."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data
        self._at = 0
        self.is_open = True
        self.reads = 0

    def read(self, most: int) -> bytes:
        assert self.is_open
        self.reads += 1
        part = self._data[self._at : self._at + most]
        self._at += len(part)
        return part

    def close(self) -> None:
        self.is_open = False


class Disk:
    """The data that survives a broker, and the event loop that calls the store's port."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._store: Store | None = None
        self._pair: DurablePair | None = None

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self._loop.run_until_complete(work)

    def boot(self, *, now_ms: int = START_MS, crash: bool = False, **settings: object) -> DurablePair:
        """Start a broker on the existing data, after the last one ended cleanly or crashed."""
        if self._store is not None:
            if self._pair is not None and not crash:
                self._pair.broker.settle_marks()
                self._pair.commit_all()
            self.leave(self._store, crash=crash)
        self._store = self.open()
        self._pair = DurablePair(self, self._store, self.run(self._store.open()), now_ms, **settings)
        return self._pair

    def open(self) -> Store:
        raise NotImplementedError

    def leave(self, store: Store, *, crash: bool) -> None:
        raise NotImplementedError

    def close(self) -> None:
        if self._store is not None:
            self.run(self._store.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class SimulatedDisk(Disk):
    def __init__(self) -> None:
        super().__init__()
        self._kept = SimulatedStore()

    def open(self) -> Store:
        return self._kept

    def leave(self, store: Store, *, crash: bool) -> None:
        pass


class SqliteDisk(Disk):
    """The real store; a crash leaves the files as they are."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._lives = 0

    @property
    def _present(self) -> Path:
        return self._folder / f"life {self._lives}"

    def open(self) -> Store:
        return SqliteStore(self._present, "off", log_bytes=1 << 18)

    def leave(self, store: Store, *, crash: bool) -> None:
        before = self._present
        if crash:
            self._lives += 1
            shutil.copytree(before, self._present)
        self.run(store.close())
        if crash:
            shutil.rmtree(before)


class DurablePair(Pair):
    """A Pair whose broker stores data on a disk."""

    def __init__(self, disk: Disk, store: Store, recovered: Recovered, now_ms: int, **settings: object) -> None:
        self.clock = TurnClock(now_ms)
        self.disk = disk
        self.store = store
        self.is_awake = False
        self.journal = Journal(self._wake)
        self.broker = Broker(BrokerSettings(**settings), store, self.clock, self.journal)  # type: ignore[arg-type]
        self.buffer = bytearray(4096)
        self.clients: list[Client] = []
        self.cut = whole
        #: The work of the commit in progress.
        self.in_flight: Work | None = None
        self.commit_for_delivery: Callable[[], None] = self.commit_all
        self._is_ending = False
        self.broker.recover(recovered)

    def _wake(self) -> None:
        self.is_awake = True

    def begin_commit(self) -> bool:
        """Take the collected work, if the broker asked for a commit and none is in progress."""
        if not self.is_awake or self.in_flight is not None or self.journal.is_held:
            return False
        self.is_awake = False
        self.in_flight = self.journal.take()
        return True

    def write(self) -> None:
        """Write the commit in progress to disk; the broker does not know yet."""
        assert self.in_flight is not None
        if not self.in_flight.is_empty():
            self.disk.run(self.store.commit(self.in_flight))

    def end_commit(self) -> int:
        """Write the commit to disk and tell the broker; return the number of the commit."""
        assert self.in_flight is not None
        self.write()
        number = self.in_flight.number
        self.in_flight = None
        self._is_ending = True
        self.broker.committed(number)
        self.settle()
        self._is_ending = False
        return number

    def commit_all(self) -> None:
        if self.in_flight is not None:
            self.end_commit()
        while self.begin_commit():
            self.end_commit()

    def settle(self) -> None:
        super().settle()
        if not self._is_ending and any(
            queue.hold_until for vhost in self.broker.vhosts.values() for queue in vhost.queues.values()
        ):
            self.commit_for_delivery()

    @property
    def is_committing(self) -> bool:
        """Whether a commit is in progress or requested."""
        return self.is_awake or self.in_flight is not None
