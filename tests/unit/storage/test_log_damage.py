"""Damage in the write-ahead log is reported, or harmless; a crash without damage is never reported."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rabbitlike.storage import upkeep
from rabbitlike.storage.api import Batch, StorageError, Work
from rabbitlike.storage.backup import backup
from rabbitlike.storage.check import check
from rabbitlike.storage.commit_record import notes_of
from rabbitlike.storage.database import FILE_NAME
from rabbitlike.storage.store import SqliteStore
from tests.unit.storage.committing import KEPT
from tests.unit.storage.test_kill import run_and_kill

LOG = f"{FILE_NAME}-wal"
#: Long enough that nothing is copied into the database meanwhile.
LOG_BYTES = 256 << 20
PLACES = 20
FRAME = 24 + 16384
MESSAGES = 7


def batch(number: int) -> Batch:
    return Batch(number, 1, 4, number * MESSAGES, number * MESSAGES + 6, MESSAGES, 8, 0, data=b"%08d" % number * 100)


def last_octet(log: Path) -> int:
    """The length of the log without the zeros at its end."""
    return len(log.read_bytes().rstrip(b"\0"))


def flip(file: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        octet = opened.read(1)
        opened.seek(at)
        opened.write(bytes([octet[0] ^ 0x55]))


async def serve(folder: Path) -> tuple[list[int], list[str]]:
    """What a broker finds: batches and troubles."""
    store = SqliteStore(folder, log_bytes=LOG_BYTES)
    recovered = await store.open()
    for each in recovered.batches:
        store.read(each.batch_id)
    await store.close()
    return [each.batch_id for each in recovered.batches], list(recovered.troubles)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The folder of a process that was killed while it committed, and the last commit it had reported."""
    folder = tmp_path_factory.mktemp("killed")
    _, committed = run_and_kill(folder, "full", 0.3, LOG_BYTES)
    return folder / "data", committed


@pytest.mark.parametrize("place", range(PLACES))
async def test_a_damaged_octet_is_reported_or_harmless(killed: tuple[Path, int], tmp_path: Path, place: int) -> None:
    folder, committed = tmp_path / "data", killed[1]
    shutil.copytree(killed[0], folder)
    length = last_octet(folder / LOG)
    assert length > PLACES * 1000
    flip(folder / LOG, place if place < 2 else length * place // PLACES)  # in the header, and all over the frames
    before = (folder / LOG).read_bytes()
    report = check(folder)
    if report.is_sound:
        assert place > PLACES * 0.8, "only an unfinished commit may be damaged and nothing be lost"
        batches, _ = await serve(folder)
        assert batches[-1] >= committed
        return
    assert "commits with up to" in report.problems[0]
    assert "are lost" in report.problems[0]
    with pytest.raises(
        StorageError, match=r"is damaged: .* are lost, the last of .*; restore a backup, or remove .*commits"
    ):
        await SqliteStore(folder).open()
    with pytest.raises(StorageError, match="are lost"):
        backup(folder, tmp_path / "copy")
    assert (folder / LOG).read_bytes() == before, "it stays as it is for whoever can repair it"
    (folder / "commits").unlink()
    batches, _ = await serve(folder)
    assert batches == [*range(max(1, batches[-1] - KEPT + 1), batches[-1] + 1)] if batches else True


async def test_a_crash_without_damage_is_no_damage(killed: tuple[Path, int], tmp_path: Path) -> None:
    shutil.copytree(killed[0], tmp_path / "data")
    assert check(tmp_path / "data").problems == []
    batches, troubles = await serve(tmp_path / "data")
    assert batches[-1] >= killed[1]
    assert troubles == []
    assert check(tmp_path / "data").problems == []
    assert not (tmp_path / "data" / "commits").exists(), "after a clean stop there is nothing to compare"


@pytest.fixture
def lull_s() -> float:
    """After which everything is copied into the database: not while a test looks at the log."""
    return 600.0


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lull_s: float) -> AsyncIterator[SqliteStore]:
    monkeypatch.setattr(upkeep, "LULL_S", lull_s)
    store = SqliteStore(tmp_path / "data", log_bytes=LOG_BYTES)
    await store.open()
    yield store
    await store.close()


async def commit(store: SqliteStore, *numbers: int) -> None:
    for number in numbers:
        await store.commit(Work(batches=[batch(number)]))
    await store._writer.run(lambda: None)  # the note of the last commit is written by now


async def test_says_how_much_is_lost(store: SqliteStore, tmp_path: Path) -> None:
    await commit(store, *range(1, 31))
    shutil.copytree(tmp_path / "data", tmp_path / "left")
    flip(tmp_path / "left" / LOG, last_octet(tmp_path / "left" / LOG) - 5 * FRAME // 2)
    (problem,) = check(tmp_path / "left").problems
    assert "3 commits with up to 21 messages are lost, the last of 20" in problem
    assert "cannot be read past frame " in problem


@pytest.mark.parametrize("how", ["truncated", "zeros", "damaged"])
@pytest.mark.parametrize("part", [0.01, 0.3, 0.7, 0.99])
async def test_a_commit_that_was_not_done_may_be_torn(
    store: SqliteStore, tmp_path: Path, how: str, part: float
) -> None:
    """Power fails during a commit: the log has a part of its frames, the record does not know of it."""
    await commit(store, *range(1, 11))
    shutil.copytree(tmp_path / "data", tmp_path / "left")
    done = last_octet(tmp_path / "left" / LOG)
    await store.commit(Work(batches=[Batch(11, 1, 4, 77, 77, 1, 8, 0, data=os.urandom(100_000))]))
    log = tmp_path / "left" / LOG
    shutil.copy(tmp_path / "data" / LOG, log)
    at = done + int((last_octet(log) - done) * part)
    if how == "truncated":
        os.truncate(log, at)
    elif how == "zeros":
        os.truncate(log, at)
        os.truncate(log, 4 << 20)
    else:
        flip(log, at)
    assert check(tmp_path / "left").problems == []
    assert await serve(tmp_path / "left") == ([*range(1, 11)], [])


async def test_damage_is_seen_when_the_record_is_older_than_the_log(store: SqliteStore, tmp_path: Path) -> None:
    """After a power cut the record may be old, because it is never synced."""
    await commit(store, *range(1, 11))
    shutil.copy(tmp_path / "data" / "commits", tmp_path / "commits")
    done = last_octet(tmp_path / "data" / LOG)
    await commit(store, *range(11, 16))
    shutil.copytree(tmp_path / "data", tmp_path / "left")
    shutil.copy(tmp_path / "commits", tmp_path / "left" / "commits")
    assert check(tmp_path / "left").problems == []
    flip(tmp_path / "left" / LOG, done + FRAME)
    (problem,) = check(tmp_path / "left").problems
    assert "but completed commits follow it" in problem
    with pytest.raises(StorageError, match="but completed commits follow it"):
        await SqliteStore(tmp_path / "left").open()


async def test_a_log_that_is_gone(store: SqliteStore, tmp_path: Path) -> None:
    await commit(store, *range(1, 11))
    shutil.copytree(tmp_path / "data", tmp_path / "left")
    (tmp_path / "left" / LOG).unlink()
    (problem,) = check(tmp_path / "left").problems
    assert "rabbitlike.db-wal is missing" in problem
    with pytest.raises(StorageError, match="is missing, 10 commits with up to 70 messages are lost"):
        await SqliteStore(tmp_path / "left").open()


async def test_another_program_may_have_copied_the_log(store: SqliteStore, tmp_path: Path) -> None:
    """SQLite's own shell does, when it is used on the data of a killed broker."""
    await commit(store, *range(1, 11))
    shutil.copytree(tmp_path / "data", tmp_path / "left")
    shell = sqlite3.connect(tmp_path / "left" / FILE_NAME)
    assert shell.execute("SELECT count(*) FROM batches").fetchone() == (10,)
    shell.close()
    assert not (tmp_path / "left" / LOG).exists()
    batches, troubles = await serve(tmp_path / "left")
    assert batches == [*range(1, 11)]
    assert "unless another program has copied it" in troubles[0]


@pytest.mark.parametrize("lull_s", [0.5])
@pytest.mark.parametrize("what", ["header", "frame", "all"])
async def test_nothing_is_lost_that_was_copied(store: SqliteStore, tmp_path: Path, what: str) -> None:
    """Without the record, SQLite would put the old pages at the beginning of the log over the newer ones."""
    await commit(store, *range(1, 31))
    async with asyncio.timeout(20):
        while (note := notes_of(store.path)[-1]).copied < note.frames:  # noqa: ASYNC110 - what is waited for is a file
            await asyncio.sleep(0.01)
    assert note.frames > 20
    shutil.copytree(tmp_path / "data", tmp_path / "left")
    log = tmp_path / "left" / LOG
    if what == "all":
        log.unlink()
    else:
        flip(log, 20 if what == "header" else 10 * FRAME)
    batches, troubles = await serve(tmp_path / "left")
    assert batches == [*range(1, 31)]
    if what == "frame":
        assert "nothing is lost: all of it is in the database, and the log was renamed" in troubles[0]
        assert (tmp_path / "left" / f"{LOG}.damaged").exists()
    assert check(tmp_path / "left").problems == []


@pytest.mark.parametrize("durability", ["normal", "full"])
async def test_a_power_cut_may_take_what_is_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("11111111-1111-1111-1111-111111111111\n")
    monkeypatch.setattr("rabbitlike.storage.commit_record._BOOT_ID", boot)
    monkeypatch.setattr(upkeep, "LULL_S", 600.0)
    store = SqliteStore(tmp_path / "data", durability, log_bytes=LOG_BYTES)  # type: ignore[arg-type]
    await store.open()
    await commit(store, *range(1, 11))
    shutil.copytree(tmp_path / "data", tmp_path / "left")
    await store.close()
    os.truncate(tmp_path / "left" / LOG, last_octet(tmp_path / "left" / LOG) - 5 * FRAME // 2)
    boot.write_text("22222222-2222-2222-2222-222222222222\n")
    if durability == "full":
        with pytest.raises(StorageError, match="are lost"):
            await SqliteStore(tmp_path / "left").open()
        return
    batches, troubles = await serve(tmp_path / "left")
    assert batches == [*range(1, 8)]
    assert "3 commits with up to 21 messages are lost" in troubles[0]
    assert "the machine went down" in troubles[0]


async def test_a_damaged_record_proves_nothing(store: SqliteStore, tmp_path: Path) -> None:
    await commit(store, *range(1, 11))
    shutil.copytree(tmp_path / "data", tmp_path / "left")
    (tmp_path / "left" / "commits").write_bytes(os.urandom(1000))
    assert check(tmp_path / "left").problems == []
    assert await serve(tmp_path / "left") == ([*range(1, 11)], [])
