"""Descriptors of batches are written in blocks: a small commit writes one page, and recovery finds every batch."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from rabbitlike.storage import transaction, upkeep
from rabbitlike.storage.api import Batch, Work
from rabbitlike.storage.check import check
from rabbitlike.storage.database import FILE_NAME, connect_to_read
from rabbitlike.storage.store import SqliteStore

FRAME = 24 + 16384
LOG_BYTES = 256 << 20


def batch(number: int, queue: int = 1, *, transient: bool = False, size: int = 1000) -> Batch:
    return Batch(number, queue, 4, number, number, 1, size, 0, transient, data=b"%04d" % number * (size // 4))


def described(path: Path) -> int:
    connection = connect_to_read(path)
    try:
        return int(connection.execute("SELECT count(*) FROM batch_descriptors").fetchone()[0])
    finally:
        connection.close()


async def test_a_commit_of_one_message_writes_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "LULL_S", 600.0)
    store = SqliteStore(tmp_path, log_bytes=LOG_BYTES)
    await store.open()
    await store.commit(Work(batches=[batch(1)]))
    log = tmp_path / f"{FILE_NAME}-wal"
    before = len(log.read_bytes().rstrip(b"\0"))
    for number in range(2, 202):
        await store.commit(Work(batches=[batch(number)]))
    pages = (len(log.read_bytes().rstrip(b"\0")) - before) / FRAME
    assert pages < 200 * 1.25, "each commit one page, and now and then a new one"
    await store.close()


async def test_batches_are_described_in_blocks(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, "off", log_bytes=1 << 20)
    await store.open()
    for number in range(1, transaction.BLOCK + 1):
        await store.commit(Work(batches=[batch(number)]))
    assert described(store.path) == 0
    await store.commit(Work(batches=[batch(transaction.BLOCK + 1)]))
    assert described(store.path) == transaction.BLOCK + 1
    for number in range(1000, 3000):  # a queue that is consumed never has so many
        await store.commit(Work(batches=[batch(number)], removed_batches=[number - 5] if number >= 1005 else []))
    assert described(store.path) == transaction.BLOCK + 1
    await store.close()


async def test_every_batch_is_found_after_any_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding, deleting one by one and with the queue, transient ones, crashes: described or not."""
    monkeypatch.setattr(transaction, "BLOCK", 4)
    dice = random.Random(7)
    kept: dict[int, Batch] = {}
    number = 0
    folder = tmp_path / "0"
    store = SqliteStore(folder, "off", log_bytes=1 << 20)
    await store.open()
    for step in range(1, 400):
        work = Work()
        if dice.random() < 0.05:
            queue = dice.randrange(3)
            work.removed_queues.append(queue)
            kept = {key: each for key, each in kept.items() if each.queue_id != queue}
        for _ in range(dice.choice((0, 1, 1, 1, 2, 6))):
            number += dice.choice((1, 1, 5))
            each = batch(number, dice.randrange(3), transient=dice.random() < 0.2, size=dice.choice((8, 1000, 40_000)))
            work.batches.append(each)
            kept[number] = each
        before = [key for key in kept if key not in {each.batch_id for each in work.batches}]
        for gone in dice.sample(before, min(len(before), dice.choice((0, 0, 1, 3)))):
            work.removed_batches.append(gone)
            del kept[gone]
        await store.commit(work)
        if step % 40 == 0:
            folder = tmp_path / str(step)
            shutil.copytree(store.path.parent, folder)  # as a crash leaves it
            await store.close()
            assert check(folder).problems == []
            store = SqliteStore(folder, "off", log_bytes=1 << 20)
            recovered = await store.open()
            kept = {key: each for key, each in kept.items() if not each.is_transient}
            assert {each.batch_id: each.queue_id for each in recovered.batches} == {
                key: each.queue_id for key, each in kept.items()
            }
            assert all(store.read(key) == each.data for key, each in kept.items())
            number = max(number, recovered.last_batch_id)
    await store.close()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("UPDATE batch_descriptors SET count = 2 WHERE batch_id = 1", "batch 1 of queue 1 is listed, and is not there"),
        ("DELETE FROM batches WHERE batch_id = 2", "batch 2 of queue 1 is listed, and is not there"),
        ("DELETE FROM batch_descriptors WHERE batch_id = 1", "batch 1 of queue 1 is there, and is not listed"),
    ],
)
async def test_check_compares_both_tables(tmp_path: Path, script: str, words: str) -> None:
    for _ in range(2):  # the second start describes what the first one wrote
        store = SqliteStore(tmp_path, "off", log_bytes=1 << 20)
        recovered = await store.open()
        if not recovered.batches:
            await store.commit(Work(batches=[batch(1), batch(2), batch(3)]))
        await store.close()
    assert check(tmp_path).problems == []
    connection = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    connection.execute(script)
    connection.close()
    problems = check(tmp_path).problems
    assert any(problem.startswith(words) for problem in problems), problems
