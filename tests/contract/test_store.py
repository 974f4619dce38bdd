"""Every store keeps the port's promises: the same suite over memory and SQLite; what only a disk can promise, over
those that have one."""

import copy
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rabbitlike.storage.api import AttemptRecord, Batch, Record, Recovered, SeenKey, StorageError, Store, Work
from rabbitlike.storage.memory import MemoryStore
from rabbitlike.storage.store import SqliteStore

#: Short, so that even a test's few commits start it over.
LOG_BYTES = 1 << 20


def sqlite_store(folder: Path) -> Store:
    return SqliteStore(folder / "data", "off", log_bytes=LOG_BYTES)


ALL: dict[str, Callable[[Path], Store]] = {"memory": lambda _: MemoryStore(), "sqlite": sqlite_store}
DURABLE: dict[str, Callable[[Path], Store]] = {"sqlite": sqlite_store}


def batch(batch_id: int, queue_id: int = 1, level: int = 4, *, first: int | None = None, count: int = 3) -> Batch:
    at = batch_id * 100 if first is None else first
    data = b"%d:" % batch_id + b"x" * 100 * count
    return Batch(batch_id, queue_id, level, at, at + count - 1, count, 100 * count, 0, data=data)


def described(*batches: Batch) -> list[Batch]:
    """As recovery returns them."""
    return [replace(each, data=b"") for each in batches]


class Bench:
    """A store, and what remains of it after it was closed, or after the process died."""

    def __init__(self, make: Callable[[Path], Store], folder: Path) -> None:
        self._make = make
        self._folder = folder
        self._lives = 0
        self.store = make(folder)

    async def reopen(self) -> Recovered:
        await self.store.close()
        self.store = self._make(self._folder)
        return await self.store.open()

    async def crash(self) -> Recovered:
        """Go on with the files as they lie there now, as after a kill -9."""
        self._lives += 1
        folder = self._folder / f"life {self._lives}"
        shutil.copytree(self._folder / "data", folder / "data")
        await self.store.close()
        self._folder = folder
        self.store = self._make(folder)
        return await self.store.open()


@pytest.fixture(params=ALL)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store = ALL[request.param](tmp_path)
    assert await store.open() == Recovered(records=[], batches=[], marks=[], attempts=[], seen=[], troubles=[]) or (
        not store.is_durable
    )
    yield store
    await store.close()


@pytest.fixture(params=DURABLE)
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(DURABLE[request.param], tmp_path)
    await bench.store.open()
    yield bench
    await bench.store.close()


# Every store
# ---------------------------------------------------------------------------------------------------------


async def test_a_new_store_is_empty(store: Store) -> None:
    """The fixture has looked; here it is only opened and closed."""


async def test_takes_any_work(store: Store) -> None:
    await store.commit(Work())
    await store.commit(
        Work(
            records=[Record("queue", "q", "{}")],
            removed_records=[("queue", "other")],
            removed_queues=[9],
            batches=[batch(1), batch(2)],
            removed_batches=[1, 77],
            settled=[(2, b"\1")],
            marks=[(1, 300, 0)],
            attempts=[AttemptRecord(1, 200, 1), AttemptRecord(1, 201, 0)],
        )
    )


async def test_does_not_change_the_work(store: Store) -> None:
    work = Work(
        records=[Record("queue", "q", "{}")],
        batches=[batch(1)],
        attempts=[AttemptRecord(1, 100, 1), AttemptRecord(1, 100, 0)],
    )
    before = copy.deepcopy(work)
    await store.commit(work)
    assert work == before


async def test_reading_what_is_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(StorageError, match="batch 5"):
        store.read(5)


async def test_takes_much_work_at_once(store: Store) -> None:
    await store.commit(Work(batches=[batch(number) for number in range(1, 1000)]))
    await store.commit(
        Work(
            settled=[(number, b"\1") for number in range(1, 1000)],
            marks=[(number, 1, 1) for number in range(1000)],
            attempts=[AttemptRecord(1, number, 1) for number in range(1000)],
        )
    )
    await store.commit(Work(removed_batches=[*range(1, 1000)]))


# Those with a disk
# ---------------------------------------------------------------------------------------------------


async def test_everything_comes_back(bench: Bench) -> None:
    record = Record("queue", "q", '{"durable": true}')
    await bench.store.commit(
        Work(
            records=[record],
            batches=[batch(1), batch(2)],
            settled=[(2, b"\5")],
            marks=[(1, 203, 150)],
            attempts=[AttemptRecord(1, 201, 2)],
            seen=[SeenKey("queue 1", b"k", 7, 5)],
        )
    )
    assert await bench.reopen() == Recovered(
        records=[record],
        batches=[*described(batch(1)), replace(batch(2), data=b"", settled=b"\5")],
        marks=[(1, 203, 150)],
        attempts=[AttemptRecord(1, 201, 2)],
        seen=[SeenKey("queue 1", b"k", 7, 5)],
        last_batch_id=2,
        troubles=[],
    )
    assert bench.store.read(1) == batch(1).data
    assert bench.store.read(2) == batch(2).data


async def test_a_commit_survives_the_process(bench: Bench) -> None:
    await bench.store.commit(Work(batches=[batch(1)]))
    await bench.store.commit(Work(batches=[batch(2)], removed_batches=[1]))
    recovered = await bench.crash()
    assert recovered.batches == described(batch(2))
    assert bench.store.read(2) == batch(2).data


async def test_reads_what_was_just_committed(bench: Bench) -> None:
    for number in range(1, 30):
        large = replace(batch(number), data=bytes([number]) * 100_000)
        await bench.store.commit(Work(batches=[large], removed_batches=[number - 2]))
        assert bench.store.read(number) == large.data
    with pytest.raises(StorageError):
        bench.store.read(27)


async def test_reads_a_batch_piece_by_piece(bench: Bench) -> None:
    data = bytes(range(256)) * 20_000
    await bench.store.commit(Work(batches=[replace(batch(1), data=data)]))
    reader = bench.store.open_batch(1)
    await bench.store.commit(Work(batches=[batch(2)], removed_batches=[1]))
    assert reader.size == len(data)
    parts = []
    while part := reader.read(1_000_000):
        parts.append(part)
    assert [len(part) for part in parts[:-1]] == [1_000_000] * 5
    assert b"".join(parts) == data
    reader.close()
    reader.close()
    with pytest.raises(StorageError):
        bench.store.open_batch(1)


async def test_large_batches_among_small_ones(bench: Bench) -> None:
    """Written piece by piece, alone and in one work with others, and taken back with the rest of it in a crash."""
    size = 10 << 20
    large = [
        replace(batch(number), data=bytes([number]) * (size + number), body_bytes=size + number) for number in (2, 4, 6)
    ]
    await bench.store.commit(Work(batches=[batch(1), large[0], batch(3), large[1]]))
    await bench.store.commit(Work(batches=[batch(5)]))
    await bench.store.commit(Work(batches=[large[2]]))
    for one in (batch(1), large[0], batch(3), large[1], batch(5), large[2]):
        assert bench.store.read(one.batch_id) == one.data
    recovered = await bench.crash()
    assert sorted(one.batch_id for one in recovered.batches) == [1, 2, 3, 4, 5, 6]
    assert bench.store.read(6) == large[2].data


async def test_batches_come_by_queue_level_and_position(bench: Bench) -> None:
    batches = [
        batch(1, queue_id=2, level=0, first=50),
        batch(2, queue_id=1, level=9, first=10),
        batch(3, queue_id=2, level=0, first=7),
        batch(4, queue_id=1, level=0, first=90),
    ]
    await bench.store.commit(Work(batches=batches))
    assert [each.batch_id for each in (await bench.reopen()).batches] == [4, 2, 3, 1]


async def test_a_removed_queue_takes_everything_along(bench: Bench) -> None:
    await bench.store.commit(
        Work(
            batches=[batch(1, queue_id=1), batch(2, queue_id=2)],
            settled=[(1, b"\1"), (2, b"\2")],
            marks=[(1, 103, 0), (2, 203, 0)],
            attempts=[AttemptRecord(1, 100, 1), AttemptRecord(2, 200, 1)],
        )
    )
    await bench.store.commit(Work(removed_queues=[1]))
    recovered = await bench.reopen()
    assert recovered.batches == [replace(batch(2, queue_id=2), data=b"", settled=b"\2")]
    assert recovered.marks == [(2, 203, 0)]
    assert recovered.attempts == [AttemptRecord(2, 200, 1)]


async def test_removing_a_queue_spares_what_comes_after_it_in_the_same_work(bench: Bench) -> None:
    await bench.store.commit(Work(batches=[batch(1)], marks=[(1, 103, 0)]))
    await bench.store.commit(Work(removed_queues=[1], batches=[batch(2)], marks=[(1, 203, 0)]))
    recovered = await bench.reopen()
    assert recovered.batches == described(batch(2))
    assert recovered.marks == [(1, 203, 0)]


async def test_a_removed_batch_is_gone_with_its_bitmap(bench: Bench) -> None:
    await bench.store.commit(Work(batches=[batch(n) for n in range(1, 8)], settled=[(1, b"\1"), (3, b"\1")]))
    await bench.store.commit(Work(removed_batches=[1]))
    await bench.store.commit(Work(removed_batches=[2, 3, 4]))
    recovered = await bench.reopen()
    assert recovered.batches == described(batch(5), batch(6), batch(7))
    with pytest.raises(StorageError):
        bench.store.read(3)


async def test_written_and_removed_in_one_work_is_gone(bench: Bench) -> None:
    await bench.store.commit(Work(batches=[replace(batch(1), settled=b"\1"), batch(2)], removed_batches=[1]))
    assert (await bench.reopen()).batches == described(batch(2))


async def test_a_removed_batch_gets_no_bitmap(bench: Bench) -> None:
    await bench.store.commit(Work(batches=[batch(1), batch(2)], settled=[(1, b"\1")]))
    await bench.store.commit(Work(removed_batches=[1], settled=[(1, b"\3"), (2, b"\2")]))
    assert (await bench.reopen()).batches == [replace(batch(2), data=b"", settled=b"\2")]


async def test_a_later_bitmap_replaces_the_earlier(bench: Bench) -> None:
    await bench.store.commit(Work(batches=[replace(batch(1), settled=b"\1")]))
    await bench.store.commit(Work(settled=[(1, b"\3")]))
    assert (await bench.reopen()).batches == [replace(batch(1), data=b"", settled=b"\3")]
    await bench.store.commit(Work(settled=[(1, b"\7")]))
    assert (await bench.reopen()).batches == [replace(batch(1), data=b"", settled=b"\7")]


async def test_attempts_are_replaced_and_removed_in_order(bench: Bench) -> None:
    await bench.store.commit(
        Work(
            batches=[batch(1)], attempts=[AttemptRecord(1, 100, 1), AttemptRecord(1, 101, 1), AttemptRecord(1, 102, 4)]
        )
    )
    await bench.store.commit(
        Work(
            attempts=[
                AttemptRecord(1, 100, 2),
                AttemptRecord(1, 100, 0),
                AttemptRecord(1, 101, 0),
                AttemptRecord(1, 101, 2),
            ]
        )
    )
    assert (await bench.reopen()).attempts == [AttemptRecord(1, 101, 2), AttemptRecord(1, 102, 4)]


async def test_what_is_known_of_a_death_is_kept(bench: Bench) -> None:
    dead = AttemptRecord(1, 101, 0, 1_700_000_000_000, 1, 1, b"\0any \xff octets")
    await bench.store.commit(
        Work(batches=[batch(1)], attempts=[AttemptRecord(1, 100, 1), AttemptRecord(1, 101, 2), dead])
    )
    assert (await bench.reopen()).attempts == [AttemptRecord(1, 100, 1), dead]
    await bench.store.commit(Work(attempts=[AttemptRecord(1, 101, 0)]))
    assert (await bench.reopen()).attempts == [AttemptRecord(1, 100, 1)]


async def test_attempts_at_messages_that_are_gone_are_forgotten(bench: Bench) -> None:
    await bench.store.commit(
        Work(
            batches=[batch(1), batch(2)],
            attempts=[AttemptRecord(1, 100, 1), AttemptRecord(1, 200, 1), AttemptRecord(7, 1, 1)],
        )
    )
    await bench.store.commit(Work(removed_batches=[1]))
    assert (await bench.reopen()).attempts == [AttemptRecord(1, 200, 1)]


async def test_records_are_replaced_and_removed_by_kind_and_key(bench: Bench) -> None:
    await bench.store.commit(Work(records=[Record("queue", "a", "1"), Record("exchange", "a", "2")]))
    await bench.store.commit(Work(records=[Record("queue", "a", "3")], removed_records=[("exchange", "a")]))
    assert (await bench.reopen()).records == [Record("queue", "a", "3")]


async def test_names_need_not_be_utf8(bench: Bench) -> None:
    name = b"caf\xe9 \x00 \xc3\xa9".decode("utf-8", "surrogateescape")
    await bench.store.commit(Work(records=[Record("queue", name, f'"{name}"')]))
    assert (await bench.reopen()).records == [Record("queue", name, f'"{name}"')]
    await bench.store.commit(Work(removed_records=[("queue", name)]))
    assert (await bench.reopen()).records == []


async def test_transient_messages_are_gone_after_a_restart(bench: Bench) -> None:
    transient = replace(batch(1), is_transient=True, settled=b"\1")
    await bench.store.commit(Work(batches=[transient, batch(2)]))
    assert bench.store.read(1) == transient.data
    assert (await bench.reopen()).batches == described(batch(2))


@pytest.mark.parametrize("is_clean", [True, False])
async def test_batch_ids_are_never_given_twice(bench: Bench, is_clean: bool) -> None:
    await bench.store.commit(Work(batches=[batch(41), batch(42)]))
    await bench.store.commit(Work(removed_batches=[41, 42]))
    recovered = await (bench.reopen() if is_clean else bench.crash())
    assert recovered.last_batch_id >= 42
    if is_clean:
        assert recovered.last_batch_id == 42
    last = recovered.last_batch_id + 5
    await bench.store.commit(Work(batches=[batch(last)], removed_batches=[last]))
    assert (await bench.crash()).last_batch_id >= last


async def test_a_commit_that_fails_has_not_happened(bench: Bench) -> None:
    await bench.store.commit(Work(batches=[batch(1)], marks=[(1, 103, 0)]))
    wrong = Work(
        records=[Record("queue", "q", "{}")], removed_queues=[1], batches=[batch(2, queue_id=2), batch(2, queue_id=2)]
    )
    with pytest.raises(StorageError):
        await bench.store.commit(wrong)
    assert bench.store.read(1) == batch(1).data
    await bench.store.commit(Work(batches=[batch(3)]))
    recovered = await bench.crash()
    assert recovered.batches == described(batch(1), batch(3))
    assert recovered.marks == [(1, 103, 0)]
    assert recovered.records == []


async def test_a_commit_with_everything_that_fails_at_its_end(bench: Bench) -> None:
    """A fault after thousands of good rows takes them all back."""
    await bench.store.commit(Work(batches=[batch(5000)]))
    with pytest.raises(StorageError):
        await bench.store.commit(Work(batches=[batch(number) for number in range(2000, 5001)]))
    assert (await bench.reopen()).batches == described(batch(5000))


async def test_keys_that_were_seen_come_back_in_order(bench: Bench) -> None:
    """A key that is seen again is the newest; those that are forgotten are gone, one by one or with their owner."""
    first = [SeenKey(owner, key, 0, 0) for owner in ("a", "b") for key in (b"1", b"2", b"3")]
    await bench.store.commit(Work(seen=first))
    await bench.store.commit(
        Work(forgotten_owners=["b"], forgotten=[("a", b"2"), ("a", b"none")], seen=[SeenKey("a", b"1", 5, 9)])
    )
    await bench.store.commit(Work(forgotten_owners=["c"], seen=[SeenKey("c", b"1", 0, 0)]))
    assert (await bench.crash()).seen == [SeenKey("a", b"3", 0, 0), SeenKey("a", b"1", 5, 9), SeenKey("c", b"1", 0, 0)]
