"""Random work against a few dictionaries, with clean and dirty ends between: the store never differs from them."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rabbitlike.storage.api import AttemptRecord, Batch, Record, StorageError, Work
from rabbitlike.storage.check import check
from rabbitlike.storage.store import SqliteStore

Result = TypeVar("Result")

QUEUES = st.integers(1, 4)
NAMES = st.sampled_from(["a", "b", "c\udce9"])
KINDS = st.sampled_from(["queue", "exchange"])
SIZES = st.sampled_from([1, 300, 5_000, 20_000, 120_000])


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp())
        self.life = 0
        self.store = self.made()
        self.run(self.store.open())
        self.batch_id = 0
        self.positions = dict.fromkeys(range(1, 5), 1)
        self.records: dict[tuple[str, str], str] = {}
        self.batches: dict[int, Batch] = {}
        self.marks: dict[int, tuple[int, int]] = {}
        self.attempts: dict[tuple[int, int], AttemptRecord] = {}
        self.work = Work()

    def made(self) -> SqliteStore:
        return SqliteStore(self.folder / str(self.life), "off", log_bytes=1 << 20)

    def run(self, doing: Coroutine[object, object, Result]) -> Result:
        return self.loop.run_until_complete(doing)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.loop.close()
        assert check(self.folder / str(self.life)).is_sound
        shutil.rmtree(self.folder)

    # What gathers ----------------------------------------------------------------------------------------------------

    @rule(kind=KINDS, name=NAMES, value=st.text(max_size=3))
    def record(self, kind: str, name: str, value: str) -> None:
        self.work.records.append(Record(kind, name, value))

    @rule(kind=KINDS, name=NAMES)
    def remove_record(self, kind: str, name: str) -> None:
        self.work.removed_records.append((kind, name))

    @rule(queue=QUEUES)
    def remove_queue(self, queue: int) -> None:
        self.work.removed_queues.append(queue)

    @rule(queue=QUEUES, count=st.integers(1, 20), size=SIZES, level=st.integers(0, 9), bits=st.binary(max_size=1))
    def add_batch(self, queue: int, count: int, size: int, level: int, bits: bytes) -> None:
        self.batch_id += 1
        first = self.positions[queue]
        self.positions[queue] += count
        data = b"%d," % self.batch_id * size
        batch = Batch(self.batch_id, queue, level, first, first + count - 1, count, size, 0, False, data, bits)
        self.work.batches.append(batch)
        self.work.marks.append((queue, first + count, first))

    @rule(data=st.data())
    def remove_batch(self, data: st.DataObject) -> None:
        self.work.removed_batches.append(data.draw(st.integers(1, self.batch_id + 1)))

    @rule(data=st.data(), bits=st.binary(min_size=1, max_size=1))
    def settle(self, data: st.DataObject, bits: bytes) -> None:
        if self.batches:
            self.work.settled.append((data.draw(st.sampled_from(sorted(self.batches))), bits))

    @rule(
        queue=QUEUES,
        position=st.integers(1, 30),
        count=st.integers(0, 2),
        due_at_ms=st.integers(0, 1 << 62),
        death=st.sampled_from([b"", b"\0dead"]),
    )
    def attempt(self, queue: int, position: int, count: int, due_at_ms: int, death: bytes) -> None:
        self.work.attempts.append(
            AttemptRecord(queue, position, count, due_at_ms, due_at_ms and self.batch_id, 0, death)
        )

    # What is done with it --------------------------------------------------------------------------------------------

    @rule()
    def commit(self) -> None:
        self.run(self.store.commit(self.work))
        self.apply(self.work)
        self.work = Work()

    @rule()
    def fail(self) -> None:
        """The same with a fault in it: nothing happens."""
        twice = Batch(1 << 40, 1, 0, 1 << 40, 1 << 40, 1, 1, 0, data=b"x")
        try:
            self.run(self.store.commit(replace(self.work, batches=[*self.work.batches, twice, twice])))
        except StorageError:
            return
        raise AssertionError

    @rule()
    def close(self) -> None:
        self.run(self.store.close())
        self.compare()

    @rule()
    def die(self) -> None:
        """Go on with a copy of the files as they lie there: what was committed is there, what was not is not."""
        shutil.copytree(self.folder / str(self.life), self.folder / str(self.life + 1))
        self.run(self.store.close())
        self.life += 1
        self.compare()

    @invariant()
    def reads_are_right(self) -> None:
        for batch_id in (*[*self.batches][:1], *[*self.batches][-1:]):
            assert self.store.read(batch_id) == self.batches[batch_id].data

    def apply(self, work: Work) -> None:
        for record in work.records:
            self.records[record.kind, record.key] = record.value
        for key in work.removed_records:
            self.records.pop(key, None)
        for queue in work.removed_queues:
            self.batches = {number: batch for number, batch in self.batches.items() if batch.queue_id != queue}
            self.marks.pop(queue, None)
            self.attempts = {place: attempt for place, attempt in self.attempts.items() if place[0] != queue}
        self.batches |= {batch.batch_id: batch for batch in work.batches}
        for number in work.removed_batches:
            self.batches.pop(number, None)
        for number, bits in work.settled:
            if number in self.batches:
                self.batches[number] = replace(self.batches[number], settled=bits)
        self.marks |= {queue: (following, delivered) for queue, following, delivered in work.marks}
        for attempt in work.attempts:
            self.attempts[attempt.queue_id, attempt.position] = attempt
        self.attempts = {place: attempt for place, attempt in self.attempts.items() if attempt.times or attempt.death}

    def compare(self) -> None:
        self.store = self.made()
        recovered = self.run(self.store.open())
        assert not recovered.troubles
        assert {(each.kind, each.key): each.value for each in recovered.records} == self.records
        order = sorted(self.batches.values(), key=lambda each: (each.queue_id, each.level, each.first_position))
        assert recovered.batches == [replace(batch, data=b"") for batch in order]
        assert {queue: tuple(rest) for queue, *rest in recovered.marks} == self.marks
        spans = {
            queue: (
                min(batch.first_position for batch in order if batch.queue_id == queue),
                max(batch.last_position for batch in order if batch.queue_id == queue),
            )
            for queue in {batch.queue_id for batch in order}
        }
        self.attempts = {
            (queue, position): attempt
            for (queue, position), attempt in self.attempts.items()
            if queue in spans and spans[queue][0] <= position <= spans[queue][1]
        }
        assert {attempt[:2]: attempt for attempt in recovered.attempts} == self.attempts
        assert recovered.last_batch_id >= max(self.batches, default=0)


StoreMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestStore = StoreMachine.TestCase
