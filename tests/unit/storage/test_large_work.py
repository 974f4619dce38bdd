"""A work that is too large for one transaction is written in several, and is there whole or not at all."""

import shutil
from pathlib import Path

import pytest

from rabbitlike.storage import transaction
from rabbitlike.storage.api import Batch, Record, StorageError, Work
from rabbitlike.storage.check import check
from rabbitlike.storage.database import FILE_NAME, connect_to_read
from rabbitlike.storage.store import SqliteStore

SIZE = 50_000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "PART_BYTES", 4 * SIZE)


def batch(number: int) -> Batch:
    data = b"%05d" % number * (SIZE // 5)
    if number % 2:
        return Batch(number, 1, 4, number, number, 1, SIZE, 0, data=data)
    return Batch(number, 1, 4, number, number, 1, SIZE, 0, pack=lambda: data)


def large(first: int, last: int) -> Work:
    return Work(
        records=[Record("queue", "q", "{}")],
        batches=[batch(number) for number in range(first, last + 1)],
        removed_batches=[1],
        marks=[(1, last + 1, 0)],
    )


async def opened(folder: Path) -> tuple[SqliteStore, list[int]]:
    store = SqliteStore(folder, log_bytes=1 << 20)
    recovered = await store.open()
    assert not recovered.troubles
    return store, sorted(one.batch_id for one in recovered.batches)


def transactions(store: SqliteStore, monkeypatch: pytest.MonkeyPatch, *, fail_at: int = 0) -> list[int]:
    """How many batches each transaction writes; the one with this number fails, once."""
    seen: list[int] = []
    run_whole = transaction.TransactionConnection._run_whole

    def run(connection: transaction.TransactionConnection, steps: list[transaction._Step]) -> None:
        seen.append(sum(len(rows) for sql, rows in steps if sql == transaction._INSERT_BATCH))
        if len(seen) == fail_at:
            raise transaction.sqlite3.OperationalError("disk I/O error")
        run_whole(connection, steps)

    monkeypatch.setattr(transaction.TransactionConnection, "_run_whole", run)
    return seen


async def test_it_is_written_in_parts_and_there_is_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = await opened(tmp_path)
    await store.commit(Work(batches=[batch(1)]))
    seen = transactions(store, monkeypatch)
    await store.commit(large(2, 15))
    assert seen == [4, 4, 4, 2]
    assert all(store.read(number) == batch(number).packed() for number in range(2, 16))
    await store.commit(Work(batches=[batch(16)]))
    await store.close()
    store, batches = await opened(tmp_path)
    assert batches == [*range(2, 17)]
    await store.close()


async def test_what_a_crash_left_of_it_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after any of its transactions: none of it is there, and what was there before is."""
    store, _ = await opened(tmp_path / "first")
    for number in (1, 2, 3):
        await store.commit(Work(batches=[batch(number)]))
    for attempt, fail_at in enumerate((1, 2, 2, 2, 1)):  # each goes on where the one before failed
        transactions(store, monkeypatch, fail_at=fail_at)
        with pytest.raises(StorageError):
            await store.commit(large(4, 18))
        monkeypatch.undo()
        monkeypatch.setattr(transaction, "PART_BYTES", 4 * SIZE)
        crashed = tmp_path / f"crash{attempt}"
        shutil.copytree(tmp_path / "first", crashed)
        assert not check(crashed).problems
        again, batches = await opened(crashed)
        assert batches == [1, 2, 3]
        await again.commit(Work(batches=[batch(1 << 30)]))
        await again.close()
        again, batches = await opened(crashed)
        assert batches == [1, 2, 3, 1 << 30]
        await again.close()
    await store.commit(large(4, 18))
    await store.close()
    store, batches = await opened(tmp_path / "first")
    assert batches == [*range(2, 19)]
    connection = connect_to_read(tmp_path / "first" / FILE_NAME)
    assert connection.execute("SELECT count(*) FROM counters WHERE name = 'unfinished'").fetchone() == (0,)
    connection.close()
    await store.close()
