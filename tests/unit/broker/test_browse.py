"""Looking at a queue leaves no trace; what is taken out or moved is in one place or the other, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pamqp import commands

from rabbitlike.broker.exchanges import Exchange
from rabbitlike.broker.queues import browse
from rabbitlike.broker.queues.browse import Cursor, Walk
from rabbitlike.broker.queues.queue import Queue
from tests.support.crash_pair import DurablePair, SimulatedDisk, SimulatedStore
from tests.support.pair import Channel, Pair, loose

WINDOW = 2000


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    disk = SimulatedDisk()
    yield disk
    disk.close()


def declare(pair: DurablePair, ch: Channel, name: str = "q", **fields: object) -> Queue:
    ch.send(loose(commands.Queue.Declare, queue=name, durable=True, **fields))
    pair.commit_all()
    ch.expect(commands.Queue.DeclareOk)
    return queue_of(pair, name)


def queue_of(pair: Pair, name: str = "q") -> Queue:
    return pair.broker.vhosts["/"].queues[name]


def fill(pair: DurablePair, ch: Channel, count: int, key: str = "q", **properties: object) -> None:
    """One commit each, so one page each beyond the window."""
    for number in range(count):
        ch.publish(b"%d " % number + b"x" * 100, key=key, delivery_mode=2, **properties)
        pair.commit_all()


def numbers(seen: list[browse.Seen]) -> list[int]:
    return [int(one.message.body.split(b" ")[0]) for one in seen]


def walk_on(walk: Walk) -> list[browse.Seen]:
    found = []
    while not walk.is_done:
        found += walk.step()
    return found


def move(pair: Pair, positions: list[int], to: Queue | Exchange, routing_key: str | None = None) -> int:
    """Out of queue q, in a turn of its own."""
    turn = pair.broker.turn
    turn.begin()
    moved = browse.move(queue_of(pair), positions, to, routing_key)
    turn.finish()
    return moved


def test_a_walk_sees_memory_and_disk_in_order(disk: SimulatedDisk) -> None:
    pair = disk.boot(queue_window=WINDOW)
    ch = pair.connect().channel()
    queue = declare(pair, ch)
    fill(pair, ch, 30)
    ch.publish(b"30 ", key="q", delivery_mode=2)  # not committed: still in memory, behind the pages
    seen = walk_on(Walk(queue))
    assert numbers(seen) == list(range(31))
    assert [one.page for one in seen[:3]] == [None] * 3
    assert seen[20].page is not None
    assert seen[30].page is None
    assert queue.ready.page_count > 15
    assert queue.message_count == 31
    assert [ch.get("q").redelivered for _ in range(31)] == [False] * 31  # type: ignore[union-attr]


def test_higher_levels_go_first_and_what_came_back_stands_where_it_stood(disk: SimulatedDisk) -> None:
    pair = disk.boot(queue_window=WINDOW)
    ch = pair.connect().channel()
    queue = declare(pair, ch)
    fill(pair, ch, 6, priority=1)
    fill(pair, ch, 20)
    held = [ch.get("q", no_ack=False) for _ in range(3)]
    assert [one.body[:1] for one in held if one] == [b"0", b"1", b"2"]
    ch.nack(held[2].tag)  # type: ignore[union-attr]
    ch.nack(held[0].tag)  # type: ignore[union-attr]
    seen = walk_on(Walk(queue))
    assert numbers(seen) == [0, 2, 3, 4, 5, *range(20)]
    assert [one.cursor.level for one in seen] == [1] * 5 + [0] * 20
    assert [one.message.attempts for one in seen] == [1, 1, *[0] * 23]
    ch.nack(held[1].tag)  # type: ignore[union-attr]
    assert [int(body.split(b" ")[0]) for body in ch.drain("q")] == [*range(6), *range(20)]


def test_skipping_reads_no_page_that_is_not_wanted(disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = disk.boot(queue_window=WINDOW)
    ch = pair.connect().channel()
    queue = declare(pair, ch)
    fill(pair, ch, 60)
    read = []

    def count(store: SimulatedStore, batch_id: int) -> bytes:
        read.append(batch_id)
        return store.batches[batch_id].data

    monkeypatch.setattr(SimulatedStore, "read", count)
    for offset in range(62):
        read.clear()
        walk = Walk(queue, offset=offset)
        found: list[browse.Seen] = []
        while not found and not walk.is_done:
            found += walk.step()
        assert numbers(found)[:1] == list(range(60))[offset : offset + 1]
        assert len(read) <= 1
    assert queue.message_count == 60


def test_a_walk_goes_on_where_another_stopped(disk: SimulatedDisk) -> None:
    pair = disk.boot(queue_window=WINDOW)
    ch = pair.connect().channel()
    queue = declare(pair, ch)
    fill(pair, ch, 30)
    found: list[int] = []
    after: Cursor | None = None
    while part := walk_on(Walk(queue, after=after))[:4]:
        after = part[len(part) - 1].cursor
        found += numbers(part)
    assert found == list(range(30))


def test_a_walk_over_what_is_new(disk: SimulatedDisk) -> None:
    """In every level, wherever it is: a message of a low level is as new as one of a high level."""
    pair = disk.boot(queue_window=WINDOW)
    ch = pair.connect().channel()
    queue = declare(pair, ch)
    fill(pair, ch, 30)
    fill(pair, ch, 3, priority=5)
    last = queue.last_position
    assert walk_on(Walk(queue, newer_than=last)) == []
    fill(pair, ch, 2)
    fill(pair, ch, 1, priority=5)
    assert [seen.position for seen in walk_on(Walk(queue, newer_than=last))] == [last + 3, last + 1, last + 2]


def test_messages_may_vanish_and_come_between_steps(disk: SimulatedDisk) -> None:
    pair = disk.boot(queue_window=WINDOW)
    ch = pair.connect().channel()
    queue = declare(pair, ch)
    fill(pair, ch, 40)
    walk = Walk(queue)
    found: list[int] = []
    while not walk.is_done:
        found += numbers(walk.step())
        for _ in range(2):  # what was seen is consumed, and later also what was not: pages come back to memory
            ch.get("q")
        if len(found) == 20:
            ch.publish(b"99 ", key="q", delivery_mode=2)
            pair.commit_all()
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    assert found[len(found) - 1] == 99
    walk = Walk(queue)
    walk.step()
    ch.send(commands.Queue.Purge(queue="q"))
    assert walk_on(walk) == []


def test_looking_registers_no_expiry(disk: SimulatedDisk) -> None:
    pair = disk.boot(queue_window=WINDOW)
    ch = pair.connect().channel()
    queue = declare(pair, ch)
    fill(pair, ch, 30, expiration="5000")
    timers = len(pair.clock._timers)
    for _ in range(3):
        assert len(walk_on(Walk(queue))) == 30
    assert len(pair.clock._timers) == timers
    pair.advance(5001)
    assert queue.message_count == 0
    assert walk_on(Walk(queue)) == []


@pytest.mark.parametrize("position", [1, 5, 20, 31])
def test_one_message_is_deleted_wherever_it_is(disk: SimulatedDisk, position: int) -> None:
    pair = disk.boot(queue_window=WINDOW)
    ch = pair.connect().channel()
    queue = declare(pair, ch)
    fill(pair, ch, 30)
    ch.publish(b"30 ", key="q", delivery_mode=2)
    assert browse.remove(queue, [position]) == 1
    assert browse.remove(queue, [position, 777]) == 0
    assert queue.message_count == 30
    left = [number for number in range(31) if number != position - 1]
    assert numbers(walk_on(Walk(queue))) == left
    pair.commit_all()
    pair = disk.boot(queue_window=WINDOW, crash=True)
    assert numbers(walk_on(Walk(queue_of(pair)))) == left
    assert len(pair.connect().channel().drain("q")) == 30


def test_all_of_a_page_can_be_deleted(disk: SimulatedDisk) -> None:
    pair = disk.boot(queue_window=WINDOW)
    ch = pair.connect().channel()
    queue = declare(pair, ch)
    fill(pair, ch, 10)
    for number in range(10, 20):
        ch.publish(b"%d " % number, key="q", delivery_mode=2)
    pair.commit_all()  # ten in one page
    store = pair.store
    assert isinstance(store, SimulatedStore)
    before = len(store.batches)
    assert browse.remove(queue, list(range(11, 21))) == 10
    pair.commit_all()
    assert len(store.batches) == before - 1
    assert queue.message_count == 10
    fill(pair, ch, 1)
    assert [int(body.split(b" ")[0]) for body in ch.drain("q")] == [*range(10), 0]


@pytest.mark.parametrize("lands", [False, True])
def test_a_move_is_whole_or_has_not_happened(disk: SimulatedDisk, lands: bool) -> None:
    """Out of memory and out of pages, into a queue that is itself on disk, all in one commit."""
    pair = disk.boot(queue_window=WINDOW)
    ch = pair.connect().channel()
    queue, other = declare(pair, ch), declare(pair, ch, "other")
    fill(pair, ch, 30)
    fill(pair, ch, 10, key="other")
    assert move(pair, [25, 2, 12, 99], other) == 3
    assert (queue.message_count, other.message_count) == (27, 13)
    assert pair.begin_commit()
    if lands:
        pair.write()
    pair = disk.boot(queue_window=WINDOW, crash=True)
    here, there = (numbers(walk_on(Walk(queue_of(pair, name)))) for name in ("q", "other"))
    if lands:
        assert here == [number for number in range(30) if number not in (1, 11, 24)]
        assert there == [*range(10), 1, 11, 24]
    else:
        assert here == list(range(30))
        assert there == list(range(10))


def test_through_an_exchange_a_message_goes_by_its_own_keys_or_the_one_given() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    for name in ("q", "a", "b", "c"):
        ch.declare(name)
    ch.bind("a", "amq.direct", "q")
    ch.bind("b", "amq.direct", "copy")
    ch.bind("c", "amq.direct", "given")
    for body in (b"1 ", b"2 ", b"3 "):
        ch.publish(body, key="q", headers={"CC": ["copy"], "kept": True}, expiration="1000")
    vhost = pair.broker.vhosts["/"]
    direct, queue = vhost.exchange("amq.direct"), queue_of(pair)
    pair.advance(900)
    assert move(pair, [1], direct) == 1
    assert move(pair, [2], direct, "given") == 1
    assert move(pair, [3], direct, "nowhere") == 0, "no route: it stays"
    pair.advance(500)  # a time to live starts anew; the one that stayed is over
    assert queue.message_count == 0
    message = ch.get("a")
    assert message is not None
    assert (message.body, message.exchange, message.routing_key) == (b"1 ", "amq.direct", "q")
    assert message.headers["kept"] is True
    assert ch.drain("b") == [b"1 "]
    assert ch.drain("c") == [b"2 "]


def test_a_full_queue_that_refuses_leaves_the_message_where_it_is() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    ch.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for body in (b"1 ", b"2 ", b"3 "):
        ch.publish(body, key="q")
    full = queue_of(pair, "full")
    assert move(pair, [1, 2, 3], full) == 1
    assert ch.drain("full") == [b"1 "]
    assert ch.drain("q") == [b"2 ", b"3 "]


def test_a_queue_can_take_its_own_messages_to_its_end() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-max-length": 3})
    for body in (b"1 ", b"2 ", b"3 "):
        ch.publish(body, key="q")
    queue = queue_of(pair)
    assert move(pair, [1, 3], queue) == 2
    assert ch.drain("q") == [b"2 ", b"1 ", b"3 "]
