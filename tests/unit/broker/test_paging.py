"""A backlog that stands on disk: its bound in memory, and damage to a part of it."""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from pamqp import commands

from rabbitlike.broker.queues.queue import Queue
from tests.support import frames, turns
from tests.support.crash_pair import DurablePair, SimulatedDisk, SimulatedStore
from tests.support.pair import Channel


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
    assert f"1 messages cannot be read and are skipped (batch {damaged})" in caplog.text
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


def test_messages_of_a_page_that_expire_together_keep_their_order(disk: SimulatedDisk) -> None:
    pair = disk.boot(queue_window=1000)
    ch = pair.connect().channel()
    dead_letter_to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    for name, arguments in (("dead", {}), ("q", dead_letter_to_dead)):
        ch.send(commands.Queue.Declare(queue=name, durable=True, arguments=arguments))
        pair.commit_all()
        ch.expect(commands.Queue.DeclareOk)
    ch.publish(b"x" * 1000, key="q", delivery_mode=2)  # fills the window: the next ones become a page
    for number in range(30):
        ch.publish(b"%d" % number, key="q", delivery_mode=2, expiration="1000" if number < 25 else "500")
    pair.commit_all()
    assert pair.broker.vhosts["/"].queues["q"].ready.is_spilling
    pair.clock.advance(2000)
    pair.commit_all()
    assert [int(body) for body in ch.drain("dead")] == [*range(25, 30), *range(25)]


class TestReturned:
    """Messages that come back when memory is full stay on disk, where they are."""

    def take_all(
        self, disk: SimulatedDisk, count: int, consumers: int = 1, modes: tuple[int, ...] = (2,)
    ) -> tuple[DurablePair, list[Channel], Queue]:
        """Consumers that share a backlog of messages of 1 kB, all of it unacked."""
        pair = disk.boot(queue_window=65_536)
        ch = pair.connect().channel()
        ch.send(commands.Queue.Declare(queue="q", durable=True))
        pair.commit_all()
        ch.expect(commands.Queue.DeclareOk)
        for number in range(count):
            ch.publish(b"%1000d" % number, key="q", delivery_mode=modes[number % len(modes)])
            if number % 20 == 0:
                pair.commit_all()
        pair.commit_all()
        channels = [pair.connect().channel() for _ in range(consumers)]
        for other in channels:
            other.qos(count // consumers if consumers > 1 else 0)
            other.consume("q")
        return pair, channels, pair.broker.vhosts["/"].queues["q"]

    def test_memory_is_returned_and_order_kept(self, disk: SimulatedDisk) -> None:
        pair, (ch,), queue = self.take_all(disk, 500)
        assert [int(body) for body in ch.bodies()] == [*range(500)]
        assert queue.unacked_count == 500
        ch.client.drop()
        assert (queue.message_count, queue.unacked_count) == (500, 0)
        assert queue.ready.memory_bytes < 1.2 * 65_536
        again = pair.connect().channel()
        for number in range(500):
            message = again.get("q", no_ack=False)
            assert message is not None
            assert (int(message.body), message.redelivered) == (number, True)
        again.ack(0, multiple=True)
        pair.commit_all()
        assert queue.is_idle
        assert not pair.store.batches

    def test_again_and_again(self, disk: SimulatedDisk) -> None:
        """Each time some are settled, and new ones come; nothing is lost, doubled or out of order."""
        pair, (ch,), queue = self.take_all(disk, 300)
        publisher = pair.connect().channel()
        expected = [*range(300)]
        for attempt in range(6):
            deliveries = ch.deliveries()
            assert [int(one.body) for one in deliveries] == expected
            for one in deliveries[attempt::7]:
                ch.ack(one.tag)
                expected.remove(int(one.body))
            ch.client.drop()
            assert queue.ready.memory_bytes < 1.2 * 65_536
            for number in range(1000 * attempt + 1000, 1000 * attempt + 1100):
                publisher.publish(b"%1000d" % number, key="q", delivery_mode=2)
                expected.append(number)
                pair.commit_all()
            if attempt == 3:
                pair = disk.boot(crash=True, queue_window=65_536)
                publisher = pair.connect().channel()
                queue = pair.broker.vhosts["/"].queues["q"]
            ch = pair.connect().channel()
            ch.consume("q")
        assert [int(body) for body in ch.bodies()] == expected

    @pytest.mark.parametrize("modes", [(1,), (1, 2)], ids=["transient", "mixed"])
    def test_order_is_kept_whatever_is_persistent(self, disk: SimulatedDisk, modes: tuple[int, ...]) -> None:
        """Where both kinds are in the queue, they come back to memory."""
        pair, (ch,), queue = self.take_all(disk, 300, modes=modes)
        assert queue.unacked_count == 300
        ch.client.drop()
        if modes == (1,):
            assert queue.ready.memory_bytes < 1.2 * 65_536
        assert [int(body) for body in pair.connect().channel().drain("q")] == [*range(300)]

    @pytest.mark.parametrize("expiration", [None, "3600000"], ids=["all-may-leave", "some-stay"])
    def test_none_overtakes_one_that_is_on_disk_again(self, disk: SimulatedDisk, expiration: str | None) -> None:
        """The first leaves memory together with all behind it, so there is room again when the next one comes back."""
        pair = disk.boot(queue_window=65_536)
        ch = pair.connect().channel()
        ch.send(commands.Queue.Declare(queue="q", durable=True))
        pair.commit_all()
        ch.expect(commands.Queue.DeclareOk)
        for number in range(400):
            stays = expiration is not None and number % 2
            ch.publish(b"%1000d" % number, key="q", delivery_mode=2, expiration=expiration if stays else None)
        pair.commit_all()
        holder = pair.connect().channel()
        held = [holder.get("q", no_ack=False) for _ in range(100)]
        assert all(held)
        assert pair.broker.vhosts["/"].queues["q"].ready.memory_bytes > 65_536
        holder.client.drop()
        assert [int(body) for body in pair.connect().channel().drain("q")] == [*range(400)]

    def test_two_that_go_together(self, disk: SimulatedDisk) -> None:
        pair, channels, queue = self.take_all(disk, 400, consumers=2)
        assert queue.unacked_count == 400
        for ch in channels:
            ch.client.drop()
        assert [int(body) for body in pair.connect().channel().drain("q")] == [*range(400)]

    def test_what_stands_on_disk_can_be_purged(self, disk: SimulatedDisk) -> None:
        """But not what another consumer holds of the same batches."""
        pair, (first, second), queue = self.take_all(disk, 400, consumers=2)
        held = second.deliveries()
        first.client.drop()
        assert queue.purge() == 400 - len(held)
        second.ack(held[0].tag)
        pair.commit_all()
        pair = disk.boot(crash=True, queue_window=65_536)
        assert pair.broker.vhosts["/"].queues["q"].message_count == len(held) - 1


LARGE_BODY = 6 * 1024 * 1024


def fill_with_large(disk: SimulatedDisk, priorities: tuple[int, ...]) -> tuple[DurablePair, Channel]:
    """A queue with large messages of which the first alone is in memory."""
    pair = disk.boot(queue_window=65_536)
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", durable=True))
    pair.commit_all()
    ch.expect(commands.Queue.DeclareOk)
    for number, priority in enumerate(priorities):
        ch.publish(bytes([number]) * LARGE_BODY, key="q", delivery_mode=2, priority=priority)
        pair.commit_all()
    return pair, ch


def reads_of(store: SimulatedStore) -> list[int]:
    """Notes each large batch that is read at once."""
    found: list[int] = []
    read = store.read

    def note(batch_id: int) -> bytes:
        data = read(batch_id)
        if len(data) > LARGE_BODY:
            found.append(batch_id)
        return data

    store.read = note  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("way", ["get", "consume"])
def test_a_large_message_is_read_back_in_slices(disk: SimulatedDisk, way: str) -> None:
    pair, ch = fill_with_large(disk, (0, 0, 5, 0))
    store = pair.store
    assert isinstance(store, SimulatedStore)
    whole_reads = reads_of(store)
    pair.clock.tick_ns = 2_000_000
    steps: list[int] = []
    turns.recorder.on_turn = lambda: steps.append(sum(reader.reads for reader in store.readers))
    if way == "get":
        bodies = ch.drain("q")
    else:
        ch.consume("q", no_ack=True)
        bodies = []
        for _ in range(100):
            pair.commit_all()
            pair.advance(1)
            bodies += ch.bodies()
    assert [body[0] for body in bodies] == [2, 0, 1, 3]
    assert all(len(body) == LARGE_BODY for body in bodies)
    assert not whole_reads
    assert store.readers
    assert not any(reader.is_open for reader in store.readers)
    assert max(after - before for before, after in pairwise([0, *steps])) <= 5


def test_a_queue_is_deleted_while_a_large_message_is_read(disk: SimulatedDisk) -> None:
    pair, ch = fill_with_large(disk, (0, 0))
    store = pair.store
    assert isinstance(store, SimulatedStore)
    assert ch.get("q", no_ack=True) is not None
    pair.commit_all()
    queue = pair.broker.vhosts["/"].queues["q"]
    pair.broker.turn.begin()
    assert queue.is_reading()
    assert store.readers[-1].is_open
    queue.delete()
    pair.broker.turn.finish()
    assert not store.readers[-1].is_open
    pair.advance(10)
    assert store.readers[-1].reads == 1, "no more than what stands before the body"


def test_a_large_message_that_cannot_be_read_is_passed_over(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    pair, ch = fill_with_large(disk, (0, 0, 0))
    store = pair.store
    assert isinstance(store, SimulatedStore)
    damaged = sorted(store.batches)[1]
    store.batches[damaged] = replace(store.batches[damaged], data=store.batches[damaged].data[:-1])
    assert [body[0] for body in ch.drain("q")] == [0, 2]
    assert f"cannot be read and are skipped (batch {damaged})" in caplog.text
