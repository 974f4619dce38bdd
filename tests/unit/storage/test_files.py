"""Files that are deleted, moved, replaced or emptied while a store has them open: nothing is reported as committed that
nobody would find, and all goes on when they are back."""

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rabbitlike.storage.api import Batch, StorageError, Work
from rabbitlike.storage.database import FILE_NAME
from rabbitlike.storage.store import SqliteStore

DATABASE, LOG = FILE_NAME, f"{FILE_NAME}-wal"


def work(number: int) -> Work:
    return Work(batches=[Batch(number, 1, 4, number, number, 1, 5, 0, data=b"%05d" % number)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def store(folder: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(folder, log_bytes=1 << 20)
    await store.open()
    await store.commit(work(1))
    yield store
    await store.close()


def _delete(path: Path) -> None:
    path.unlink()


def _move(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def _replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def _delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def _move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def _empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("name", [DATABASE, LOG])
@pytest.mark.parametrize(
    ("harm", "said"),
    [(_delete, "was deleted"), (_move, "was moved away"), (_replace, "was replaced by another file")],
)
async def test_a_file_that_is_not_in_its_place(
    store: SqliteStore, folder: Path, name: str, harm: Callable[[Path], None], said: str
) -> None:
    assert store.find_fault() is None
    late = work(2)
    harm(folder / name)
    if harm is _move:
        store.find_fault()  # a look at names is not for every commit; what was moved has all that is written
    for _ in range(3):
        with pytest.raises(StorageError, match=f"{name} {said} while the broker uses it: put it back"):
            await store.commit(late)
    assert str(store.find_fault()).startswith(f"{folder / name} {said}")
    assert store.read(1) == b"00001", "consumers are served"
    assert store._grow_log(1000) == 0
    assert (folder / name).exists() == (harm is _replace), "no new one is made"


@pytest.mark.parametrize("harm", [_delete_folder, _move_folder, _empty])
async def test_other_ways_to_lose_a_database(store: SqliteStore, folder: Path, harm: Callable[[Path], None]) -> None:
    harm(folder / DATABASE)
    assert store.find_fault() is not None
    with pytest.raises(StorageError, match=f"{folder / DATABASE} was"):
        await store.commit(work(2))
    if harm is _move_folder:
        (folder.parent / "elsewhere").rename(folder)


@pytest.mark.parametrize("name", [DATABASE, LOG])
async def test_a_file_that_is_back(store: SqliteStore, folder: Path, name: str) -> None:
    """What was written meanwhile is not written twice."""
    late = work(2)
    _move(folder / name)
    assert store.find_fault() is not None
    with pytest.raises(StorageError, match="was moved away"):
        await store.commit(late)
    (folder / "elsewhere").rename(folder / name)
    await store.commit(late)
    assert store.find_fault() is None
    await store.commit(work(3))
    assert [store.read(number) for number in (1, 2, 3)] == [b"00001", b"00002", b"00003"]


async def test_stopping_saves_what_was_in_a_deleted_log(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, log_bytes=1 << 20)
    await store.open()
    await store.commit(work(1))
    (tmp_path / LOG).unlink()
    with pytest.raises(StorageError, match="restart the broker"):
        await store.commit(work(2))
    await store.close()
    store = SqliteStore(tmp_path, log_bytes=1 << 20)
    assert {batch.batch_id for batch in (await store.open()).batches} >= {1}
    assert store.read(1) == b"00001"
    await store.close()


def _deleted_files() -> dict[str, Path]:
    found = {}
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            name = handle.readlink().name
            if name in (f"{DATABASE} (deleted)", f"{LOG} (deleted)"):
                found[name.removesuffix(" (deleted)")] = handle
    return found


async def test_a_deleted_database_can_be_saved_while_it_is_open(tmp_path: Path) -> None:
    """As docs/durability.md says: by the handles of the process."""
    store = SqliteStore(tmp_path / "data", log_bytes=1 << 20)
    await store.open()
    await store.commit(work(1))
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "saved").mkdir()
    for name, handle in _deleted_files().items():
        shutil.copyfile(handle, tmp_path / "saved" / name)
    saved = SqliteStore(tmp_path / "saved", log_bytes=1 << 20)
    assert [batch.batch_id for batch in (await saved.open()).batches] == [1]
    await saved.close()
    await store.close()
