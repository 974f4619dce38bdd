"""A backlog that stands on disk: its bound in memory, and damage to a part of it."""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.crash_pair import SimulatedDisk, SimulatedStore


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    disk = SimulatedDisk()
    yield disk
    disk.close()


def test_a_damaged_batch_does_not_keep_back_the_others(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    pair = disk.boot()
    client = pair.connect()
    pair.commit_all()
    ch = client.channel()

    ch.send(commands.Queue.Declare(queue="q", durable=True))
    pair.commit_all()
    ch.expect(commands.Queue.DeclareOk)
    for body in (b"first", b"second", b"third"):
        ch.publish(body, key="q", delivery_mode=2)
        pair.commit_all()
    store = pair.store
    assert isinstance(store, SimulatedStore)
    damaged = sorted(store.batches)[1]
    store.batches[damaged] = replace(store.batches[damaged], data=store.batches[damaged].data[:-1])
    ch = disk.boot(crash=True).connect().channel()
    assert ch.drain("q") == [b"first", b"third"]
    assert f"1 messages cannot be read and are passed over (batch {damaged})" in caplog.text
    assert damaged in store.batches, "it stays for whoever can mend it"


def test_commit_is_answered_when_its_queue_is_gone(disk: SimulatedDisk) -> None:
    """A transaction whose only durable queue was deleted has nothing to store, and is answered all the same."""
    pair = disk.boot()
    ch, other = (pair.connect().channel() for _ in range(2))
    other.send(commands.Queue.Declare(queue="q", durable=True))
    pair.commit_all()
    other.expect(commands.Queue.DeclareOk)
    ch.send(commands.Tx.Select())
    ch.expect(commands.Tx.SelectOk)
    ch.publish(b"m", key="q", delivery_mode=2)
    other.send(commands.Queue.Delete(queue="q"))
    pair.commit_all()
    other.expect(commands.Queue.DeleteOk)
    ch.send(commands.Tx.Commit())
    pair.commit_all()
    ch.expect(commands.Tx.CommitOk)


def test_one_level_leaves_memory_while_another_comes_and_goes(disk: SimulatedDisk) -> None:
    """Whatever the levels do, what is in memory stays near the window, and order is kept."""
    pair = disk.boot(queue_window=65_536)
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", durable=True))
    pair.commit_all()
    ch.expect(commands.Queue.DeclareOk)
    queue = pair.broker.vhosts["/"].queues["q"]

    def publish(priority: int, count: int) -> None:
        for _ in range(count):
            ch.publish(b"x" * 1000, key="q", delivery_mode=2, priority=priority)
            pair.commit_all()

    publish(1, 200)
    publish(5, 3)
    for _ in range(3):
        message = ch.get("q")
        assert message is not None
    publish(5, 300)
    assert queue.message_count == 500
    assert queue.ready.memory_bytes < 1.2 * 65_536
    assert len(ch.drain("q")) == 500
    assert queue.ready.memory_bytes == 0


def test_a_run_that_finds_no_room_in_memory_leaves_it(disk: SimulatedDisk) -> None:
    """Many publishes of one read, of a queue that nothing was stored of before."""
    pair = disk.boot(queue_window=65_536)
    ch = pair.connect().channel()
    ch.declare("q")
    queue = pair.broker.vhosts["/"].queues["q"]
    head = frames.encode_method(commands.Basic.Publish(routing_key="q"), 1) + frames.header_frame(1, 1000, b"\x00\x00")
    bodies = [b"%1000d" % number for number in range(300)]
    for at in range(0, 300, 100):
        ch.feed(b"".join(head + frames.body_frame(1, body) for body in bodies[at : at + 100]))
        pair.commit_all()
    assert queue.ready.is_spilling
    assert queue.ready.memory_bytes < 1.2 * 65_536
    assert ch.drain("q") == bodies
    assert queue.ready.memory_bytes == 0


@pytest.mark.parametrize("seed", range(10))
def test_memory_stays_near_the_window_whatever_the_levels_do(disk: SimulatedDisk, seed: int) -> None:
    """Bursts of one priority or another, drains, and commits that come late; each message is handed out once."""
    dice = random.Random(seed)
    window = 20_000
    pair = disk.boot(queue_window=window)
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", durable=True))
    pair.commit_all()
    ch.expect(commands.Queue.DeclareOk)
    queue = pair.broker.vhosts["/"].queues["q"]
    waiting: dict[int, deque[int]] = {priority: deque() for priority in range(10)}
    number = 0
    for _ in range(150):
        priority = dice.choice((0, 0, 1, 5, 9))
        for _ in range(dice.choice((1, 5, 30))):
            number += 1
            waiting[priority].append(number)
            ch.publish(b"%7d" % number + b"x" * 993, key="q", delivery_mode=dice.choice((1, 2)), priority=priority)
            if dice.random() < 0.7:
                pair.commit_all()
        for _ in range(dice.choice((0, 1, 10, 30))):
            message = ch.get("q")
            line = next((waiting[one] for one in range(9, -1, -1) if waiting[one]), None)
            assert (message is None) == (line is None)
            if message is not None and line is not None:
                assert int(message.body[:7]) == line.popleft()
        pair.commit_all()
        # One message more than the window fills it; each level may have a page at hand, and one written late.
        assert queue.ready.memory_bytes < window + 4 * 2 * 6 * 1300
    assert queue.message_count == sum(map(len, waiting.values()))
    assert len(ch.drain("q")) == sum(map(len, waiting.values()))
    assert queue.ready.memory_bytes == 0
    assert not queue.ready.is_spilling


def test_what_was_handed_out_before_its_commit_is_in_no_page(disk: SimulatedDisk) -> None:
    """A level whose tail was needed at once, while another level spills: one commit holds some that are out and some
    that could leave memory."""
    pair = disk.boot(queue_window=3000)
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", durable=True))
    pair.commit_all()
    ch.expect(commands.Queue.DeclareOk)
    for _ in range(10):
        ch.publish(b"low" + b"x" * 1000, key="q", delivery_mode=2)
        pair.commit_all()
    for number in range(3):
        ch.publish(b"%d" % number, key="q", delivery_mode=2, priority=5)
    held = ch.get("q", no_ack=False)
    assert held is not None
    assert held.body == b"0"
    for number in range(3, 6):
        ch.publish(b"%d" % number, key="q", delivery_mode=2, priority=5)
    pair.commit_all()
    ch.publish(b"6", key="q", delivery_mode=2, priority=5)
    pair.commit_all()
    assert [body[:3] for body in ch.drain("q")] == [b"1", b"2", b"3", b"4", b"5", b"6", *[b"low"] * 10]
    ch.nack(held.tag)
    assert ch.drain("q") == [b"0"]
