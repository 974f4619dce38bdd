"""Times to live, to the millisecond, wherever a message stands: in memory, on disk, in any level, behind others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from rabbitlike.broker.queues.queue import Queue
from tests.support.crash_pair import START_MS, Disk, DurablePair, SimulatedDisk, SqliteDisk
from tests.support.pair import Channel


@pytest.fixture(params=["simulated", "sqlite"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    disk = SimulatedDisk() if request.param == "simulated" else SqliteDisk(tmp_path)
    yield disk
    disk.close()


def opened(pair: DurablePair, arguments: dict[str, object]) -> Channel:
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", durable=True, arguments=arguments))  # type: ignore[arg-type]
    pair.commit_all()
    ch.client.take_all()
    return ch


def the_queue(pair: DurablePair) -> Queue:
    return pair.broker.vhosts["/"].queues["q"]


@pytest.mark.parametrize("restart", [False, True])
def test_each_at_its_own_time(disk: Disk, restart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """F15 in pages, in several levels, in no order: each goes at its own millisecond, at one read a look at most."""
    pair = disk.boot(queue_window=20_000)
    ch = opened(pair, {})
    due: list[int] = []
    for number in range(300):
        ttl_ms = 1000 + (number * 7919) % 500
        due.append(ttl_ms)
        ch.publish(b"x" * 500, key="q", delivery_mode=2, priority=number % 3, expiration=str(ttl_ms))
        if number % 10 == 9:
            pair.commit_all()
    assert the_queue(pair).ready.page_count > 10
    if restart:
        pair = disk.boot(crash=True, queue_window=20_000)
    pages = the_queue(pair).ready.page_count
    reads: list[int] = []
    read = pair.store.read
    monkeypatch.setattr(pair.store, "read", lambda batch_id: reads.append(batch_id) or read(batch_id))
    pair.advance(999)
    for at_ms in range(1000, 1500):
        pair.advance(1)
        pair.commit_all()
        assert the_queue(pair).ready.count == sum(ttl_ms > at_ms for ttl_ms in due), at_ms
    assert the_queue(pair).ready.count == 0
    # Pages of one level expire across each other here, the worst case; each look costs one page at most.
    assert len(reads) <= 300 + pages


def test_the_queues_time_reads_a_page_once(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """F15 with one time to live for all, a long backlog on disk goes message by message, and is read page by page."""
    pair = disk.boot(queue_window=20_000)
    ch = opened(pair, {"x-message-ttl": 5000})
    for number in range(400):
        ch.publish(b"x" * 500, key="q", delivery_mode=2)
        pair.advance(1)
        if number % 20 == 19:
            pair.commit_all()
    pages = the_queue(pair).ready.page_count
    assert pages > 10
    reads: list[int] = []
    read = pair.store.read
    monkeypatch.setattr(pair.store, "read", lambda batch_id: reads.append(batch_id) or read(batch_id))
    pair.advance(START_MS + 4999 - pair.clock.now_ms())
    for left in range(399, -1, -1):
        pair.advance(1)
        assert the_queue(pair).ready.count == left
        pair.commit_all()
    assert len(reads) <= 2 * pages


def test_behind_one_that_lives_for_ever(disk: Disk) -> None:
    """F15 beyond RabbitMQ: a message that never expires keeps none behind it alive, in memory or on disk."""
    pair = disk.boot(queue_window=20_000)
    ch = opened(pair, {})
    ch.publish(b"for ever", key="q", delivery_mode=2)
    for number in range(200):
        ch.publish(b"x" * 500, key="q", delivery_mode=2, expiration="700" if number % 2 else None)
        if number % 10 == 9:
            pair.commit_all()
    pair.advance(699)
    assert the_queue(pair).ready.count == 201
    pair.advance(1)
    assert the_queue(pair).ready.count == 101
