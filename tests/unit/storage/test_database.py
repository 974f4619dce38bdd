"""Opening: our file and no other, one process at a time, at the present schema, or a refusal that says what to do."""

import asyncio
import fcntl
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rabbitlike.storage import database, upkeep
from rabbitlike.storage.api import Batch, StorageError, Work, WorkError
from rabbitlike.storage.backup import backup
from rabbitlike.storage.check import check
from rabbitlike.storage.database import (
    APPLICATION_ID,
    FILE_NAME,
    Lock,
    connect_to_read,
    grow_log,
    migrations,
    prepared,
    present_version,
    version_of,
)
from rabbitlike.storage.errors import explain
from rabbitlike.storage.recovery import DESCRIPTORS
from rabbitlike.storage.store import SqliteStore
from rabbitlike.storage.transaction import DESCRIBE
from tests.support.broker_process import ending


def schema_of(path: Path) -> list[tuple[str, str]]:
    connection = connect_to_read(path)
    try:
        rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
    finally:
        connection.close()
    return [(name, re.sub(r"\s*([(),])\s*", r"\1", " ".join(sql.split()))) for name, sql in rows]


def prepare(path: Path) -> None:
    with prepared(path, "full"):
        pass


def refusal(path: Path) -> str:
    before = {*path.parent.iterdir()}
    with pytest.raises(StorageError) as caught:
        prepare(path)
    assert {*path.parent.iterdir()} <= before, "nothing is left beside it"
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    return text


# Schema
# --------------------------------------------------------------------------------------------------------------


def test_a_new_file_has_the_right_shape(tmp_path: Path) -> None:
    with prepared(tmp_path / "db", "full") as connection:
        facts = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "auto_vacuum", "journal_mode", "synchronous", "application_id", "user_version")
        }
    assert facts == {
        "page_size": 16384,
        "auto_vacuum": 2,
        "journal_mode": "wal",
        "synchronous": 2,
        "application_id": APPLICATION_ID,
        "user_version": present_version(),
    }


@pytest.mark.parametrize("version", [*migrations()])
def test_migrating_from_any_version_leads_to_the_present_schema(tmp_path: Path, version: int) -> None:
    prepare(tmp_path / "new")
    old = sqlite3.connect(tmp_path / "old", isolation_level=None)
    for number, script in migrations().items():
        if number <= version:
            old.executescript(script)
    old.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version};")
    old.close()
    prepare(tmp_path / "old")
    assert schema_of(tmp_path / "old") == schema_of(tmp_path / "new")
    connection = connect_to_read(tmp_path / "old")
    assert version_of(connection) == present_version()
    connection.close()


def test_migrations_are_numbered_without_gaps() -> None:
    assert [*migrations()] == [*range(1, present_version() + 1)]


def test_a_migration_that_fails_leaves_the_old_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "db"
    prepare(path)
    before = schema_of(path)
    broken = {**migrations(), present_version() + 1: "CREATE TABLE more (x); CREATE TABLE records (y);"}
    monkeypatch.setattr("rabbitlike.storage.database.migrations", lambda: broken)
    refusal(path)
    monkeypatch.undo()
    assert schema_of(path) == before
    prepare(path)


def test_recovery_reads_no_page_of_data(tmp_path: Path) -> None:
    with prepared(tmp_path / "db", "full") as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {DESCRIPTORS.format(source='batch_descriptors')}").fetchall()
        assert next(row[3] for row in plan) == "SCAN batch_descriptors"
        plan = connection.execute(f"EXPLAIN QUERY PLAN {DESCRIBE}", (7,)).fetchall()
        assert [row[3] for row in plan] == ["SEARCH batches USING INTEGER PRIMARY KEY (rowid>?)"]


# Refusals
# ------------------------------------------------------------------------------------------------------------


def test_refuses_what_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "db"
    path.write_bytes(b"shopping list: " + b"milk " * 1000)
    before = path.read_bytes()
    assert "is not a database of this broker" in refusal(path)
    assert path.read_bytes() == before


def test_refuses_the_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE songs (title)")
    other.commit()
    other.close()
    before = path.read_bytes()
    assert "belongs to another program" in refusal(path)
    assert path.read_bytes() == before


def test_refuses_a_newer_schema(tmp_path: Path) -> None:
    path = tmp_path / "db"
    prepare(path)
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    text = refusal(path)
    assert "newer rabbitlike (schema 99" in text


def test_refuses_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "db"
    prepare(path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(os.urandom(16384 - 100))
    text = refusal(path)
    assert "is damaged" in text
    assert "rabbitlike check" in text


def test_refuses_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "db"
    prepare(path)
    os.truncate(path, 3 * 16384)
    with pytest.raises(StorageError, match="is damaged"), prepared(path, "full") as connection:
        for table in ("records", "batches", "settled", "marks", "attempts", "counters"):
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _less_than_a_page(path: Path) -> None:
    os.truncate(path, 10_000)


def _no_tables(path: Path) -> None:
    path.unlink()
    bare = sqlite3.connect(path)
    bare.execute("PRAGMA page_size = 16384")
    bare.execute("PRAGMA auto_vacuum = incremental")
    bare.execute("PRAGMA journal_mode = wal")
    bare.close()


#: Files that SQLite takes for new ones, or nearly so.
HOLLOW = {
    "is empty": _empty,
    "begins with zeros": _zeros,
    "is cut off after 10000 octets": _less_than_a_page,
    "holds no tables": _no_tables,
}


@pytest.mark.parametrize(("said", "has_log"), [*((said, False) for said in HOLLOW), ("is empty", True)])
def test_a_file_without_data_is_damage_and_no_new_one(tmp_path: Path, said: str, has_log: bool) -> None:
    path, log = tmp_path / FILE_NAME, tmp_path / f"{FILE_NAME}-wal"
    prepare(path)
    HOLLOW[said](path)
    if has_log:
        log.write_bytes(b"all that was committed")
    text = refusal(path)
    names = f"{FILE_NAME} and {log.name}" if has_log else FILE_NAME
    assert f"{path} {said}, so its data is lost: restore a backup; to start empty, move {names} away" in text
    assert not has_log or log.read_bytes() == b"all that was committed"
    assert check(tmp_path).problems == [text], "serve and check agree"


def _log(folder: Path) -> str:
    (folder / f"{FILE_NAME}-wal").write_bytes(b"")
    return f"{FILE_NAME}-wal"


def _index(folder: Path) -> str:
    (folder / f"{FILE_NAME}-shm").write_bytes(b"")
    return f"{FILE_NAME}-shm"


def _events(folder: Path) -> str:
    (folder / "events" / "date=2026-01-01").mkdir(parents=True)
    (folder / "events" / "date=2026-01-01" / "ev-1.parquet").write_bytes(b"")
    return "events"


def _lock(folder: Path) -> str:
    lock = Lock(folder)
    lock.note_database()
    lock.release()
    Lock(folder).release()  # whoever locks it next does not forget
    return "lock"


@pytest.mark.parametrize("leave", [_log, _index, _events, _lock])
async def test_a_database_that_is_missing_is_damage_where_there_was_one(
    tmp_path: Path, leave: Callable[[Path], str]
) -> None:
    sign = leave(tmp_path)
    with pytest.raises(StorageError) as caught:
        await SqliteStore(tmp_path).open()
    said = (
        f"{tmp_path / FILE_NAME} is missing, but {sign} in its folder show that there was a database: restore it or a "
        f"backup; to start empty, move {sign} away"
    )
    assert str(caught.value) == said
    assert set(os.listdir(tmp_path)) == {sign, "lock"}, "nothing was made or removed"
    assert check(tmp_path).problems == [said], "serve and check agree"

    (tmp_path / sign).rename(tmp_path / "away")
    store = SqliteStore(tmp_path, "off")
    await store.open()
    await store.close()


async def test_a_refusal_is_no_sign_of_a_database(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("dear diary")
    with pytest.raises(StorageError, match="not a database of this broker: move it away"):
        await SqliteStore(tmp_path).open()
    (tmp_path / FILE_NAME).unlink()
    store = SqliteStore(tmp_path, "off")
    await store.open()
    await store.close()


def test_a_new_database_has_its_name_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash at the very first start leaves nothing that would be taken for damage."""

    def crash(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(database, "sync", crash)
    monkeypatch.setattr(database, "_remove_unfinished", lambda path: None)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "db")
    assert [file.name for file in tmp_path.iterdir()] == ["db.new"]
    monkeypatch.undo()
    prepare(tmp_path / "db")
    assert [file.name for file in tmp_path.iterdir()] == ["db"]
    assert schema_of(tmp_path / "db")


async def test_refuses_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StorageError, match="data cannot be made"):
        await SqliteStore(tmp_path / "data").open()


# One process
# ---------------------------------------------------------------------------------------------------------


async def test_a_second_store_names_the_first_ones_process(tmp_path: Path) -> None:
    first, second = SqliteStore(tmp_path, log_bytes=1 << 20), SqliteStore(tmp_path, log_bytes=1 << 20)
    await first.open()
    with pytest.raises(StorageError, match=f"is in use by process {os.getpid()}: stop that broker"):
        await second.open()
    await first.close()
    await second.open()
    await second.close()


def test_the_lock_goes_with_its_process(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from rabbitlike.storage.database import Lock
lock = Lock(Path({str(tmp_path)!r}))
print("locked", flush=True)
input()
"""
    holder = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with ending(holder):
        holder.stdout.readline()
        with pytest.raises(StorageError, match=f"process {holder.pid}"):
            Lock(tmp_path)
    Lock(tmp_path).release()


@pytest.mark.parametrize("harm", ["unlink", "rename"])
async def test_a_folder_stays_locked_without_its_lock_file(tmp_path: Path, harm: str) -> None:
    """By whatever path it is reached, and for those who only look."""
    folder = tmp_path / "data"
    first = SqliteStore(folder, "off", log_bytes=1 << 20)
    await first.open()
    if harm == "unlink":
        (folder / "lock").unlink()
    else:
        (folder / "lock").rename(folder / "old lock")
    (tmp_path / "link").symlink_to(folder)
    for path in (folder, tmp_path / "link", tmp_path / "link" / ".." / "data"):
        with pytest.raises(StorageError, match="is in use by another process: stop that broker"):
            await SqliteStore(path).open()
    with pytest.raises(StorageError, match="is in use by another process"):
        check(folder)
    backup(folder, tmp_path / "copy")
    assert not (folder / "lock").exists()
    folder.rename(tmp_path / "moved")
    with pytest.raises(StorageError, match="is in use by another process"):
        Lock(tmp_path / "moved")
    (tmp_path / "moved").rename(folder)
    await first.close()
    second = SqliteStore(folder, "off", log_bytes=1 << 20)
    await second.open()
    await second.close()


def test_a_broker_that_locks_the_file_alone_is_seen(tmp_path: Path) -> None:
    """So did those of earlier versions, and so it is where folders cannot be locked."""
    with (tmp_path / "lock").open("w") as file:
        file.write("4711\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="is in use by process 4711: stop that broker"):
            Lock(tmp_path)
    Lock(tmp_path).release()


def test_a_lock_file_that_a_crash_left_keeps_nobody_out(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(f"{os.getpid()}\n{FILE_NAME}\n")
    lock = Lock(tmp_path)
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n{FILE_NAME}\n"
    lock.release()


async def test_a_failed_opening_lets_go_of_everything(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 100)
    for _ in range(2):
        with pytest.raises(StorageError, match="not a database"):
            await SqliteStore(tmp_path).open()
    Lock(tmp_path).release()


# The log
# -------------------------------------------------------------------------------------------------------------


def test_a_log_of_zeros_is_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "db"
    prepare(path)
    assert grow_log(path, 2_000_000, 3_000_000) == 2_000_000
    assert grow_log(path, 2_000_000, 3_000_000) == 3_000_000
    assert grow_log(path, 2_000_000, 3_000_000) == 3_000_000, "it is long enough"
    log = tmp_path / "db-wal"
    assert log.stat().st_size == 3_000_000
    with prepared(path, "full") as connection:
        connection.execute("INSERT INTO records VALUES ('queue', 'q', '{}')")
        assert log.stat().st_size == 3_000_000
    with prepared(path, "full") as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (1,)


async def test_the_log_grows_behind_what_is_committed(tmp_path: Path) -> None:
    """Between commits, whatever is in the log by then: all of it is there after a crash."""
    store = SqliteStore(tmp_path / "data", log_bytes=24 << 20)
    await store.open()
    log = tmp_path / "data" / f"{FILE_NAME}-wal"
    lengths = [log.stat().st_size]
    number = 0
    while lengths[-1] < 24 << 20:
        number += 1
        assert number < 1000
        data = os.urandom(300_000)
        await store.commit(Work(batches=[Batch(number, 1, 4, number, number, 1, 1, 0, data=data)]))
        lengths.append(log.stat().st_size)
    assert lengths[0] == 4 << 20, "no more before clients are served"
    assert lengths == sorted(lengths)
    shutil.copytree(tmp_path / "data", tmp_path / "left")
    await store.close()
    left = SqliteStore(tmp_path / "left", log_bytes=1 << 20)
    assert [batch.batch_id for batch in (await left.open()).batches] == [*range(1, number + 1)]
    for each in range(1, number + 1):
        assert len(left.read(each)) == 300_000
    await left.close()


async def test_the_log_gets_its_length_in_a_lull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "LULL_S", 0.01)
    store = SqliteStore(tmp_path, log_bytes=24 << 20)
    await store.open()
    log = tmp_path / f"{FILE_NAME}-wal"
    async with asyncio.timeout(20):
        while log.stat().st_size < 24 << 20:  # noqa: ASYNC110 - what is waited for is a file
            await asyncio.sleep(0.01)
    await store.close()


def test_no_log_is_made_where_space_is_short(tmp_path: Path) -> None:
    assert not grow_log(tmp_path / "db", 1 << 20, 1 << 60)
    assert not (tmp_path / "db-wal").exists()


# Words
# ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SQLITE_FULL", "no space left"),
        ("SQLITE_IOERR_FSYNC", "the disk failed"),
        ("SQLITE_READONLY_DBMOVED", "cannot be written"),
        ("SQLITE_CORRUPT_INDEX", "is damaged"),
        ("SQLITE_SOMETHING_NEW", "db: original words"),
        ("SQLITE_CONSTRAINT_PRIMARYKEY", "rejects the changes (SQLITE_CONSTRAINT_PRIMARYKEY: original"),
    ],
)
def test_errors_are_explained(name: str, words: str) -> None:
    error = sqlite3.OperationalError("original words")
    error.sqlite_errorname = name
    assert words in str(explain(error, Path("/data/db")))


def test_errors_without_a_code_keep_their_words() -> None:
    assert str(explain(sqlite3.OperationalError("closed"), Path("db"))) == "db: closed"
    assert "No space left" in str(explain(OSError(28, "No space left on device"), Path("db")))


@pytest.mark.parametrize(
    "work",
    [
        Work(batches=[Batch(1, 1, 4, 1, 1, 1, 1, 0, data=b"x"), Batch(1, 1, 4, 2, 2, 1, 1, 0, data=b"x")]),
        Work(marks=[(1, 1 << 70, 0)]),
        Work(marks=[(1, None, 0)]),  # type: ignore[list-item]
        Work(marks=[(1, object(), 0)]),  # type: ignore[list-item]
    ],
)
async def test_a_fault_of_the_broker_is_told_from_one_of_the_disk(tmp_path: Path, work: Work) -> None:
    store = SqliteStore(tmp_path, "off", log_bytes=1 << 20)
    await store.open()
    with pytest.raises(WorkError, match="this is a fault in rabbitlike"):
        await store.commit(work)
    await store.commit(Work(marks=[(1, 5, 0)]))
    await store.close()
