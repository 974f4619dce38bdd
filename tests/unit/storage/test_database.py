"""Opening: our file and no other, one process at a time, at the present schema, or a refusal that says what to do."""

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rabbitlike.storage import upkeep
from rabbitlike.storage.api import Batch, StorageError, Work, WorkError
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
from rabbitlike.storage.store import SqliteStore
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
        plan = connection.execute(
            """EXPLAIN QUERY PLAN SELECT batch_id, queue_id, level, first_position, last_position, count, body_bytes,
            expires_at_ms, is_transient FROM batches INDEXED BY descriptors ORDER BY queue_id, level, first_position"""
        ).fetchall()
    assert [row[3] for row in plan] == ["SCAN batches USING COVERING INDEX descriptors"]


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


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    """A crash at the very first start leaves one."""
    path = tmp_path / "db"
    path.touch()
    prepare(path)
    assert schema_of(path)


def test_a_bare_database_is_a_new_one(tmp_path: Path) -> None:
    """So does one a moment later, when the log was switched on and nothing else was written."""
    path = tmp_path / "db"
    bare = sqlite3.connect(path)
    bare.execute("PRAGMA page_size = 16384")
    bare.execute("PRAGMA auto_vacuum = incremental")
    bare.execute("PRAGMA journal_mode = wal")
    bare.close()
    prepare(path)
    assert schema_of(path)


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
        ("SQLITE_CONSTRAINT_PRIMARYKEY", "cannot take what is to be written (SQLITE_CONSTRAINT_PRIMARYKEY: original"),
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
