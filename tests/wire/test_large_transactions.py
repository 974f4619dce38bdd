"""A transaction that takes many turns: others are served meanwhile, and nobody sees a part of it, nor does the disk.

Each look at the clock takes a tenth of a millisecond, so that a turn has time for some thousand steps (`test_slices`).
"""

from collections.abc import Callable, Iterator

import pytest
from pamqp import commands

from rabbitlike.broker.queues.queue import Queue
from tests.support import turns
from tests.support.crash_pair import DurablePair, SimulatedDisk
from tests.support.frames import encode_method
from tests.support.pair import Channel, Pair
from tests.wire.test_slices import COUNT, TICK_NS, Sliced, check, publish_frames

PERSISTENT = 2


def select(ch: Channel) -> None:
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)


def hold_back(ch: Channel, *keys: str, count: int = COUNT, **properties: object) -> None:
    """A transaction with so many publishes, for these queues in turn."""
    select(ch)
    some = b"".join(publish_frames(ch.number, b"m", key, **properties) for key in keys)
    for at in range(0, count, 1000):
        ch.feed(some * (min(1000, count - at) // len(keys)))


def commit(ch: Channel) -> None:
    ch.call(commands.Tx.Commit(), commands.Tx.CommitOk)


def each_turn(pair: Pair, look: Callable[[], None]) -> None:
    """From now on work takes time, and ``look`` is called after each turn."""
    pair.clock.tick_ns = TICK_NS
    turns.recorder.on_turn = look


def watch(pair: Pair, queues: list[Queue], look: Callable[[int], None]) -> list[int]:
    """Call ``look`` after each turn in which the queues had got some of a transaction, and not all: how much."""
    parts: list[int] = []
    before = sum(queue.counters.publish for queue in queues)

    def note() -> None:
        part = sum(queue.counters.publish for queue in queues) - before
        if 0 < part < COUNT:
            parts.append(part)
            look(part)

    each_turn(pair, note)
    return parts


def test_publishes_of_a_transaction() -> None:
    pair = Sliced()
    pair.ch.declare("q")
    hold_back(pair.ch, "q")
    changes = pair.watch(lambda: pair.queue().message_count)
    commit(pair.ch)
    check(changes)


def test_settles_of_a_transaction() -> None:
    pair = Sliced()
    pair.ch.declare("q")
    pair.ch.feed(publish_frames(1, b"m", "q") * COUNT)
    pair.ch.consume("q")
    pair.ch.bodies()
    select(pair.ch)
    pair.ch.ack(multiple=True)
    changes = pair.watch(lambda: pair.queue().unacked_count)
    commit(pair.ch)
    check(changes)


def test_publishes_that_are_rolled_back() -> None:
    """Nothing of it is seen; but freeing very much takes long as well."""
    pair = Sliced()
    pair.ch.declare("q")
    hold_back(pair.ch, "q", count=4 * COUNT)
    changes = pair.watch(lambda: 1)
    pair.ch.call(commands.Tx.Rollback(), commands.Tx.RollbackOk)
    pair.settle()
    assert len(changes) > 3
    assert pair.ch.get("q") is None


def test_consumers_get_nothing_before_all_of_it_is_there() -> None:
    pair = Sliced()
    for name in ("q", "r"):
        pair.ch.declare(name)
    other = pair.connect().channel()
    other.consume("q")
    other.consume("r")
    hold_back(pair.ch, "q", "r")
    parts = watch(pair, [pair.queue("q"), pair.queue("r")], lambda part: other.expect_nothing())
    commit(pair.ch)
    assert len(parts) > 2
    assert len(other.bodies()) == COUNT


def test_a_get_waits_for_all_of_it() -> None:
    pair = Sliced()
    pair.ch.declare("q")
    other = pair.connect().channel()
    hold_back(pair.ch, "q")
    asked: list[int] = []

    def ask(part: int) -> None:
        if not asked:
            asked.append(part)
            turns.recorder.on_turn = None
            other.client.wire.inbox.append(encode_method(commands.Basic.Get(queue="q", no_ack=True), other.number))

    watch(pair, [pair.queue()], ask)
    commit(pair.ch)
    assert asked
    assert other.expect_message(commands.Basic.GetOk).method.message_count == COUNT - 1


def test_what_was_accepted_is_not_refused_half_way() -> None:
    """The queue has room for the transaction and not for more; somebody else publishes while it comes in."""
    pair = Sliced()
    pair.ch.declare("q", arguments={"x-max-length": COUNT, "x-overflow": "reject-publish"})
    other = pair.connect().channel()
    other.confirm()
    hold_back(pair.ch, "q")
    tried: list[int] = []

    def publish(part: int) -> None:
        if not tried:
            tried.append(part)
            other.client.wire.inbox.append(publish_frames(other.number, b"no room", "q"))

    watch(pair, [pair.queue()], publish)
    commit(pair.ch)
    assert tried
    assert pair.queue().message_count == COUNT
    assert other.expect_confirms() == [("nack", 1, False)]
    turns.recorder.on_turn = None
    assert pair.ch.get("q") is not None
    pair.ch.publish(b"last", key="q")
    commit(pair.ch)
    assert pair.queue().message_count == COUNT, "the room that was kept is free again"


def test_room_for_one_too_many_refuses_all_of_it() -> None:
    pair = Sliced()
    pair.ch.declare("q", arguments={"x-max-length": COUNT - 1, "x-overflow": "reject-publish"})
    hold_back(pair.ch, "q")
    pair.clock.tick_ns = TICK_NS
    pair.ch.send(commands.Tx.Commit())
    pair.ch.expect_close(406, "PRECONDITION_FAILED - partial tx completion", commands.Tx.Commit)
    assert pair.queue().message_count == 0


def test_a_client_that_goes_while_its_transaction_comes_in() -> None:
    """It was begun, so all of it takes effect, settles included."""
    pair = Sliced()
    for name in ("q", "held"):
        pair.ch.declare(name)
    client = pair.connect()
    ch = client.channel()
    pair.ch.publish(b"to be acked", key="held")
    assert ch.get("held", no_ack=False) is not None
    hold_back(ch, "q")
    ch.ack(1)
    parts = watch(pair, [pair.queue()], lambda part: client.drop() if not client.wire.is_gone else None)
    ch.send(commands.Tx.Commit())
    pair.settle()
    assert client.wire.is_gone
    assert parts
    assert (pair.queue().message_count, pair.queue("held").is_idle) == (COUNT, True)
    assert pair.queue().deposits == 0


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    disk = SimulatedDisk()
    yield disk
    disk.close()


def boot(disk: SimulatedDisk) -> tuple[DurablePair, Channel]:
    pair = disk.boot()
    ch = pair.connect().channel()
    for name in ("q", "r"):
        ch.send(commands.Queue.Declare(queue=name, durable=True))
        pair.commit_all()
        ch.expect(commands.Queue.DeclareOk)
    return pair, ch


def queues_of(pair: DurablePair) -> list[Queue]:
    return [pair.broker.vhosts["/"].queues[name] for name in ("q", "r")]


def test_no_commit_has_a_part_of_it(disk: SimulatedDisk) -> None:
    """The writer asks after each turn, and a power cut at any of them leaves nothing."""
    pair, ch = boot(disk)
    hold_back(ch, "q", "r", delivery_mode=PERSISTENT)
    parts = watch(pair, queues_of(pair), lambda part: pair.commit_all())
    ch.send(commands.Tx.Commit())
    assert len(parts) > 2
    turns.recorder.on_turn = None
    ch.expect_nothing()
    pair = disk.boot(crash=True)
    assert [queue.message_count for queue in queues_of(pair)] == [0, 0]


def test_all_of_it_is_in_one_commit(disk: SimulatedDisk) -> None:
    pair, ch = boot(disk)
    hold_back(ch, "q", "r", delivery_mode=PERSISTENT)
    watch(pair, queues_of(pair), lambda part: pair.commit_all())
    ch.send(commands.Tx.Commit())
    turns.recorder.on_turn = None
    assert pair.begin_commit()
    ch.expect_nothing()
    pair.end_commit()
    ch.expect(commands.Tx.CommitOk)
    pair = disk.boot(crash=True)
    assert [queue.message_count for queue in queues_of(pair)] == [COUNT // 2, COUNT // 2]


def test_batches_are_made_as_the_messages_come(disk: SimulatedDisk) -> None:
    """Or taking them all at once would be one long turn."""
    pair, ch = boot(disk)
    hold_back(ch, "q", delivery_mode=PERSISTENT)
    queue = queues_of(pair)[0]
    made: list[int] = []
    watch(pair, [queue], lambda part: made.append(queue.counters.disk_writes))
    ch.send(commands.Tx.Commit())
    assert made[0] == 0
    assert made[-1] >= COUNT // 2


def test_confirms_of_others_wait_for_one_transaction_and_not_for_a_row_of_them(disk: SimulatedDisk) -> None:
    pair, ch = boot(disk)
    clients = [ch, pair.connect().channel(), pair.connect().channel()]
    for each in clients:
        hold_back(each, "q", "r", delivery_mode=PERSISTENT)
    other = pair.connect().channel()
    other.confirm()
    pair.clock.tick_ns = TICK_NS
    for each in clients:
        each.send(commands.Tx.Commit())
    other.publish(b"m", key="q", delivery_mode=PERSISTENT)
    assert sum(queue.message_count for queue in queues_of(pair)) == COUNT + 1
    assert pair.begin_commit()
    pair.end_commit()
    assert other.expect_confirms() == [("ack", 1, False)]
    pair.commit_all()
    assert sum(queue.message_count for queue in queues_of(pair)) == 3 * COUNT + 1
    for each in clients:
        each.expect(commands.Tx.CommitOk)


def test_a_client_that_goes_before_its_transaction_begins(disk: SimulatedDisk) -> None:
    """It waits for that of another; nothing of it happens, and nobody waits for it."""
    pair, ch = boot(disk)
    late = pair.connect()
    late_ch = late.channel()
    for each in (ch, late_ch):
        hold_back(each, "q", "r", delivery_mode=PERSISTENT)
    for each in (ch, late_ch):
        each.send(commands.Tx.Commit())
    late.drop()
    pair.commit_all()
    ch.expect(commands.Tx.CommitOk)
    assert sum(queue.message_count for queue in queues_of(pair)) == COUNT
    assert not pair.journal.is_held
