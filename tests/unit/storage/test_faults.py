"""Full, failing and read-only disks: a clear error, nothing half done, nothing lost, and service goes on by itself
when it can."""

import os
import resource
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rabbitlike.storage.api import Batch, Record, StorageError, Work
from rabbitlike.storage.check import check
from rabbitlike.storage.store import SqliteStore

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")

LOG_BYTES = 256 << 10


def batch(number: int) -> Batch:
    return Batch(number, 1, 4, number, number, 1, 50_000, 0, data=b"%06d" % number * 10_000)


def work(number: int) -> Work:
    """Adds a batch, a record and a mark; deletes what was added 20 before."""
    return Work(
        records=[Record("queue", f"q{number}", "{}")],
        removed_records=[("queue", f"q{number - 20}")],
        batches=[batch(number)],
        marks=[(1, number + 1, 0)],
    )


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path, log_bytes=LOG_BYTES)
    await store.open()
    yield store
    await store.close()


async def fill(store: SqliteStore) -> int:
    """Commit until it fails; the number that failed."""
    for number in range(1, 1000):
        try:
            await store.commit(work(number))
        except StorageError as error:
            words = str(error)
            break
    else:
        pytest.fail("there was room for all of it")
    assert "no space left" in words
    assert str(store.path) in words
    assert "\n" not in words
    return number


def all_there(store: SqliteStore, last: int) -> bool:
    return all(store.read(number) == batch(number).data for number in range(1, last + 1))


async def test_no_room_in_the_file_and_room_again(store: SqliteStore) -> None:
    """SQLite's own limit stands for the disk's: it strikes in the middle of a transaction."""
    await store._writer.execute_fetchall("PRAGMA max_page_count = 100")
    failed = await fill(store)
    for _ in range(3):
        with pytest.raises(StorageError, match="no space left"):
            await store.commit(work(failed))
        assert all_there(store, failed - 1)
        with pytest.raises(StorageError, match=f"batch {failed} is not in"):
            store.read(failed)

    await store.commit(Work(removed_batches=[1, 2, 3]))  # deleting needs no room, and makes some
    await store.commit(work(failed))
    assert store.read(failed) == batch(failed).data


async def test_a_disk_that_fails_and_recovers(store: SqliteStore, tmp_path: Path) -> None:
    """No file may grow past a limit of the process: writing the log fails with an I/O error."""
    await store.commit(work(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LOG_BYTES, hard))
    try:
        with pytest.raises(StorageError, match="the disk failed while using"):
            await store.commit(replace(work(2), batches=[replace(batch(2), data=bytes(2 * LOG_BYTES))]))
        with pytest.raises(StorageError, match="batch 2 is not in"):
            store.read(2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await store.commit(work(2))
    assert all_there(store, 2)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"this root may not mount: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", folder], check=True)


@only_root
async def test_a_full_disk_and_space_again(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    store = SqliteStore(small_disk / "data", log_bytes=LOG_BYTES)
    await store.open()
    failed = await fill(store)
    assert failed > 10
    for _ in range(3):
        with pytest.raises(StorageError, match="no space left"):
            await store.commit(work(failed))
    assert all_there(store, failed - 1)

    ballast.unlink()
    for number in range(failed, failed + 5):
        await store.commit(work(number))
    await store.close()

    assert check(small_disk / "data").is_sound
    store = SqliteStore(small_disk / "data", log_bytes=LOG_BYTES)
    recovered = await store.open()
    assert [each.batch_id for each in recovered.batches] == [*range(1, failed + 5)]
    assert all_there(store, failed + 4)
    await store.close()


@only_root
async def test_stopped_and_started_on_a_full_disk(small_disk: Path) -> None:
    """Nothing that was committed is lost, and all can be read."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    store = SqliteStore(small_disk / "data", log_bytes=LOG_BYTES)
    await store.open()
    failed = await fill(store)
    await store.close()
    store = SqliteStore(small_disk / "data", log_bytes=LOG_BYTES)
    assert len((await store.open()).batches) == failed - 1
    assert all_there(store, failed - 1)
    ballast.unlink()
    await store.commit(work(failed))
    assert all_there(store, failed)
    await store.close()


@only_root
async def test_a_read_only_disk(small_disk: Path) -> None:
    store = SqliteStore(small_disk / "data", log_bytes=LOG_BYTES)
    await store.open()
    await store.commit(work(1))
    await store.close()
    remount(small_disk, "ro")
    with pytest.raises(StorageError, match="data cannot be written: Read-only file system"):
        await SqliteStore(small_disk / "data").open()
    with pytest.raises(StorageError, match="new cannot be made: Read-only file system"):
        await SqliteStore(small_disk / "new").open()
    remount(small_disk, "rw")
    store = SqliteStore(small_disk / "data", log_bytes=LOG_BYTES)
    await store.open()
    assert all_there(store, 1)
    await store.close()
