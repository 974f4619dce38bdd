"""The log stays short under any load, comes back after a long reader, and the file shrinks when it is mostly free."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rabbitlike.storage import upkeep
from rabbitlike.storage.api import Batch, Work
from rabbitlike.storage.database import connect_to_read
from rabbitlike.storage.store import SqliteStore

LOG_BYTES = 4 << 20
DATA = bytes(100_000)


def batch(number: int, data: bytes = DATA) -> Batch:
    return Batch(number, 1, 4, number, number, 1, len(data), 0, data=data)


def log_size(store: SqliteStore) -> int:
    return store.path.with_name(f"{store.path.name}-wal").stat().st_size


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - what is waited for is a file
            await asyncio.sleep(0.02)


async def test_room_in_the_file_is_told(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, "off", log_bytes=LOG_BYTES)
    await store.open()
    await store.commit(Work(batches=[batch(number) for number in range(1, 11)]))
    before = store.spare_bytes()
    await store.commit(Work(removed_batches=list(range(1, 10))))
    assert store.spare_bytes() - before >= 9 * len(DATA) // 2
    await store.commit(Work(batches=[batch(number) for number in range(11, 20)]))
    assert store.spare_bytes() < len(DATA)
    await store.close()


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    monkeypatch.setattr(upkeep, "LULL_S", 0.1)
    monkeypatch.setattr(upkeep, "RETRY_S", 0.02)
    monkeypatch.setattr(upkeep, "SPARE_PAGES", 20)
    store = SqliteStore(tmp_path, "off", log_bytes=LOG_BYTES)
    await store.open()
    yield store
    await store.close()


async def test_the_log_stays_short_while_a_backlog_grows(store: SqliteStore) -> None:
    longest = 0
    for number in range(1, 501):  # 50 MB without a pause
        await store.commit(Work(batches=[batch(number)]))
        longest = max(longest, log_size(store))
    assert longest <= 3 * LOG_BYTES
    assert all(store.read(number) == DATA for number in (1, 250, 500))


async def test_log_and_file_stay_short_while_as_much_goes_as_comes(store: SqliteStore) -> None:
    longest = 0
    for number in range(1, 501):
        await store.commit(Work(batches=[batch(number)], removed_batches=[number - 5]))
        longest = max(longest, log_size(store))
    assert longest <= 3 * LOG_BYTES
    await until(lambda: store.path.stat().st_size > 0)
    assert store.path.stat().st_size <= 2 << 20


async def test_the_log_stays_short_however_slow_copying_is(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = upkeep.Upkeep._checkpoint

    async def slowly(self: upkeep.Upkeep, connection: upkeep.Executor) -> tuple[int, int]:
        known = await checkpoint(self, connection)
        await asyncio.sleep(0.1)
        return known

    monkeypatch.setattr(upkeep.Upkeep, "_checkpoint", slowly)
    longest = 0
    for number in range(1, 501):  # octets of a commit that are not data are most of it
        await store.commit(Work(batches=[batch(number, bytes(10_000))], removed_batches=[number - 5]))
        longest = max(longest, log_size(store))
    assert LOG_BYTES < longest <= 3 * LOG_BYTES


async def test_a_lull_empties_the_log(store: SqliteStore) -> None:
    empty = store.path.stat().st_size
    await store.commit(Work(batches=[batch(1)]))
    assert store.path.stat().st_size == empty
    await until(lambda: store.path.stat().st_size > empty)
    await store.commit(Work(batches=[batch(2)]))
    assert store.read(1) == store.read(2) == DATA


async def test_a_long_reader_lets_the_log_grow_and_later_it_is_cut_back(store: SqliteStore) -> None:
    await store.commit(Work(batches=[batch(1)]))
    reader = connect_to_read(store.path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM batches").fetchone()
    number = 1
    while log_size(store) < 4 * LOG_BYTES:
        number += 1
        await store.commit(Work(batches=[batch(number)], removed_batches=[number - 1]))
    assert reader.execute("SELECT count(*) FROM batches").fetchone() == (1,)
    reader.close()

    for _ in range(2000):
        number += 1
        await store.commit(Work(batches=[batch(number)], removed_batches=[number - 1]))
        if log_size(store) <= LOG_BYTES:
            break
    assert log_size(store) <= LOG_BYTES
    assert store.read(number) == DATA


async def test_the_file_shrinks_when_a_big_queue_is_deleted(store: SqliteStore) -> None:
    for number in range(1, 301):
        await store.commit(Work(batches=[batch(number)]))
    await store.commit(Work(batches=[Batch(301, 2, 4, 1, 1, 1, 5, 0, data=b"other")]))
    await until(lambda: store.path.stat().st_size > 25 << 20)
    await store.commit(Work(removed_queues=[1]))
    await until(lambda: store.path.stat().st_size < 2 << 20)
    assert store.read(301) == b"other"


async def test_a_failed_checkpoint_is_logged_and_tried_again(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    empty = store.path.stat().st_size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "_PASSIVE", "SELECT no_such_function()")
        await store.commit(Work(batches=[batch(1)]))
        await until(lambda: "checkpoint failed" in caplog.text)
    await until(lambda: store.path.stat().st_size > empty)
