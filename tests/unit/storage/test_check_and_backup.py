"""`check` finds what is wrong and nothing else; `backup` copies one state of a database that is being written."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from rabbitlike.storage.api import AttemptRecord, Batch, Record, StorageError, Work
from rabbitlike.storage.backup import backup
from rabbitlike.storage.check import check
from rabbitlike.storage.database import FILE_NAME, present_version
from rabbitlike.storage.store import SqliteStore


def batch(number: int, first: int | None = None) -> Batch:
    first = number * 10 if first is None else first
    return Batch(number, 1, 4, first, first + 9, 10, 1000, 0, data=b"%d" % number * 20_000)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """Of a broker that was stopped."""
    folder = tmp_path / "data"
    store = SqliteStore(folder, "off", log_bytes=1 << 20)
    await store.open()
    await store.commit(
        Work(
            records=[Record("queue", "q", "{}")],
            batches=[batch(1), batch(2), batch(3)],
            settled=[(2, b"\1")],
            marks=[(1, 40, 0)],
            attempts=[AttemptRecord(1, 12, 1)],
        )
    )
    await store.close()
    return folder


def spoil(folder: Path, script: str) -> None:
    connection = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
    connection.executescript(script)
    connection.close()


# check
# ---------------------------------------------------------------------------------------------------------------


def test_a_sound_database(folder: Path) -> None:
    report = check(folder)
    assert report.is_sound
    assert (report.version, report.queues, report.batches, report.messages) == (present_version(), 1, 3, 30)


def test_checking_changes_nothing(folder: Path) -> None:
    before = {file: file.read_bytes() for file in folder.iterdir() if file.name != "lock"}
    check(folder)
    assert {file: file.read_bytes() for file in folder.iterdir() if file.name != "lock"} == before


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("INSERT INTO settled VALUES (77, x'01')", "bitmap of batch 77, which is not there"),
        ("UPDATE settled SET bitmap = x'0102030405'", "batch 2 of queue 1 has 10 messages and a bitmap of 5 octets"),
        (
            "UPDATE batches SET count = 11 WHERE batch_id = 3",
            "batch 3 of queue 1 has 11 messages at positions 30 to 39",
        ),
        ("UPDATE batches SET first_position = 25 WHERE batch_id = 3", "batches 2 and 3 of queue 1 overlap"),
        ("UPDATE batches SET data = x'' WHERE batch_id = 1", "batch 1 of queue 1 is empty"),
        ("UPDATE counters SET value = 2", "batch 3 is numbered above 2"),
        ("UPDATE marks SET next_position = 39", "queue 1 has a message at position 39, but 39 is given next"),
    ],
)
def test_finds_what_cannot_be(folder: Path, script: str, words: str) -> None:
    spoil(folder, script)
    report = check(folder)
    assert len(report.problems) == 1
    assert report.problems[0].startswith(words)


def test_finds_damaged_pages(folder: Path) -> None:
    path = folder / FILE_NAME
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 16384 // 2 * 16384)
        file.write(b"\xff" * 16384)
    assert not check(folder).is_sound


def spoil_body(folder: Path) -> None:
    """One bit of the second batch's data: no page is damaged as far as SQLite can see."""
    path = folder / FILE_NAME
    octets = bytearray(path.read_bytes())
    octets[octets.index(b"2" * 1000) + 500] ^= 1
    path.write_bytes(octets)


def test_finds_damage_inside_bodies(folder: Path) -> None:
    spoil_body(folder)
    assert check(folder).problems == ["batch 2 of queue 1 is damaged: its data is not what was written"]


async def test_damaged_data_is_not_handed_out(folder: Path) -> None:
    spoil_body(folder)
    store = SqliteStore(folder, "off", log_bytes=1 << 20)
    await store.open()
    with pytest.raises(StorageError, match=r"batch 2 in .* is damaged: run `rabbitlike check`"):
        store.read(2)
    assert store.read(3) == batch(3).data
    await store.close()


def test_says_when_there_is_nothing_to_check(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no database"):
        check(tmp_path)
    assert not list(tmp_path.iterdir())


async def test_a_database_in_use_is_not_checked(folder: Path) -> None:
    store = SqliteStore(folder, "off", log_bytes=1 << 20)
    await store.open()
    with pytest.raises(StorageError, match="in use by process"):
        check(folder)
    await store.close()


async def test_recovery_reports_what_it_cannot_load(folder: Path) -> None:
    spoil(folder, "UPDATE batches SET count = 11 WHERE batch_id = 3")
    store = SqliteStore(folder, "off", log_bytes=1 << 20)
    recovered = await store.open()
    assert [each.batch_id for each in recovered.batches] == [1, 2]
    assert recovered.troubles == [
        "batch 3 of queue 1 has 11 messages at positions 30 to 39: left in the file, not loaded"
    ]
    assert store.read(3) == batch(3).data
    await store.close()


# backup
# --------------------------------------------------------------------------------------------------------------


async def test_a_copy_of_a_serving_store(tmp_path: Path) -> None:
    """Copies while commits go on: each is sound, holds all committed before it began, and whole commits only."""
    store = SqliteStore(tmp_path / "data", "off", log_bytes=1 << 20)
    await store.open()
    number = 0
    for turn in range(4):
        copying = asyncio.create_task(asyncio.to_thread(backup, tmp_path / "data", tmp_path / f"copy {turn}"))
        before = number
        while not copying.done():
            number += 2
            await store.commit(Work(batches=[batch(number - 1), batch(number)]))
            await asyncio.sleep(0.001)
        assert await copying > 0
        report = check(tmp_path / f"copy {turn}")
        assert report.is_sound
        assert report.batches >= before
        assert report.batches % 2 == 0
    await store.close()
    copied = SqliteStore(tmp_path / "copy 3", "off", log_bytes=1 << 20)
    recovered = await copied.open()
    last = recovered.batches[-1].batch_id
    assert copied.read(last) == batch(last).data
    await copied.close()


def test_a_copy_of_a_stopped_store(folder: Path, tmp_path: Path) -> None:
    before = sorted(folder.iterdir())
    backup(folder, tmp_path / "copy")
    assert check(tmp_path / "copy").messages == 30
    assert sorted(folder.iterdir()) == before
    assert [file.name for file in (tmp_path / "copy").iterdir() if file.name != "lock"] == [FILE_NAME]


def test_overwrites_no_backup(folder: Path, tmp_path: Path) -> None:
    backup(folder, tmp_path / "copy")
    with pytest.raises(StorageError, match="exists: name a folder that holds no backup yet"):
        backup(folder, tmp_path / "copy")


def test_copies_no_strangers(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no database"):
        backup(tmp_path, tmp_path / "copy")
    (tmp_path / FILE_NAME).write_bytes(b"something else" * 10)
    with pytest.raises(StorageError, match="not a database of this broker"):
        backup(tmp_path, tmp_path / "copy")
    assert not (tmp_path / "copy" / FILE_NAME).exists()
