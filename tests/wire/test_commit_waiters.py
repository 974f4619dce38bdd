"""Who waits for a commit: a commit is on its way for each, and none stays in `Broker.waiting` when it is done.

The loop looks for the next read instead of sleeping only while nobody waits for the disk, so one that stays behind
costs all clients; and one that waits for a commit nobody asked for waits for ever. `Pair.settle` checks both after
every step of every test; these tests bring about each kind of waiter.
"""

from collections.abc import Iterator

import pytest
from pamqp import base, commands

from tests.support import frames
from tests.support.crash_pair import Disk, DurablePair, SimulatedDisk
from tests.support.frames import loose
from tests.support.pair import Channel, F

PERSISTENT, TRANSIENT = 2, 1


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    disk = SimulatedDisk()
    yield disk
    disk.close()


@pytest.fixture
def pair(disk: Disk) -> DurablePair:
    return disk.boot()


@pytest.fixture
def ch(pair: DurablePair) -> Channel:
    return opened(pair)


def opened(pair: DurablePair) -> Channel:
    ch = pair.connect().channel()
    ask(pair, ch, commands.Queue.Declare(queue="q", durable=True), commands.Queue.DeclareOk)
    return ch


def ask(pair: DurablePair, ch: Channel, method: base.Frame, answer: type[F]) -> F:
    ch.send(method)
    pair.commit_all()
    return ch.expect(answer)


def in_one_read(ch: Channel, *deliveries: tuple[str, int]) -> None:
    """One publish to each of these queues, all in one read."""
    ch.client.feed(
        b"".join(
            frames.encode_method(commands.Basic.Publish(routing_key=key), ch.number)
            + frames.header_frame(ch.number, 1, frames.properties(delivery_mode=mode))
            + frames.body_frame(ch.number, b"x")
            for key, mode in deliveries
        )
    )


def expect_idle(pair: DurablePair) -> None:
    assert not pair.is_committing
    assert not pair.broker.commit_waiters


def test_confirms(pair: DurablePair, ch: Channel) -> None:
    """Also those of many channels, and of commits behind each other."""
    other = opened(pair)
    for each in (ch, other):
        each.confirm()
        each.publish(key="q", delivery_mode=PERSISTENT)
    assert len(pair.broker.commit_waiters) == 2
    pair.begin_commit()
    other.publish(key="q", delivery_mode=PERSISTENT)
    pair.end_commit()
    assert list(pair.broker.commit_waiters) == [other.client.connection]
    pair.commit_all()
    assert (ch.expect_confirms(), other.expect_confirms()) == (
        [("ack", 1, False)],
        [("ack", 1, False), ("ack", 2, False)],
    )
    expect_idle(pair)


def test_confirms_of_one_read_that_wait_and_do_not_wait(pair: DurablePair, ch: Channel) -> None:
    ch.confirm()
    in_one_read(ch, ("q", TRANSIENT), ("q", PERSISTENT), ("q", TRANSIENT))
    pair.commit_all()
    assert [confirm[1] for confirm in ch.expect_confirms()] == [1, 3]
    expect_idle(pair)


def test_an_accepted_publish_behind_a_refused_one(pair: DurablePair, ch: Channel) -> None:
    """Both are answered at once: neither waits for the disk."""
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    ch.declare("full", exclusive=True, arguments=full)
    ch.publish(key="full")
    ch.confirm()
    in_one_read(ch, ("full", TRANSIENT), ("q", TRANSIENT))
    assert ch.expect_confirms() == [("nack", 1, False), ("ack", 2, False)]
    expect_idle(pair)


@pytest.mark.parametrize("is_queue", [True, False], ids=["queue", "exchange"])
def test_a_duplicate_waits_for_no_commit_that_nobody_asked_for(pair: DurablePair, ch: Channel, is_queue: bool) -> None:
    """Nothing of it is stored; its confirm comes with the next commit, which comes for it alone."""
    sees = {"x-message-deduplication": True}
    ch.send(loose(commands.Exchange.Declare, exchange="e", durable=True, arguments={} if is_queue else sees))
    ch.send(loose(commands.Queue.Declare, queue="once", durable=True, arguments=sees if is_queue else {}))
    ch.send(commands.Queue.Bind(exchange="e", queue="once"))
    pair.commit_all()
    for answer in (commands.Exchange.DeclareOk, commands.Queue.DeclareOk, commands.Queue.BindOk):
        ch.expect(answer)
    ch.confirm()
    headers = {"x-deduplication-header": "key"}
    ch.publish(exchange="e", headers=headers, delivery_mode=PERSISTENT)
    pair.begin_commit()
    # While one commit is under way, and when none is.
    ch.publish(exchange="e", headers=headers, delivery_mode=PERSISTENT)
    pair.commit_all()
    assert ch.expect_confirms() == [("ack", 1, False), ("ack", 2, False)]
    ch.publish(exchange="e", headers=headers, delivery_mode=PERSISTENT)
    pair.commit_all()
    assert ch.expect_confirms() == [("ack", 3, False)]
    expect_idle(pair)


def test_a_transaction(pair: DurablePair, ch: Channel) -> None:
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    ch.publish(key="q", delivery_mode=PERSISTENT)
    ch.send(commands.Tx.Commit())
    assert list(pair.broker.commit_waiters) == [ch.client.connection]
    pair.commit_all()
    ch.expect(commands.Tx.CommitOk)
    expect_idle(pair)


def test_held_answers(pair: DurablePair, ch: Channel) -> None:
    ch.send(commands.Queue.Declare(queue="another", durable=True))
    ch.expect_nothing()
    assert list(pair.broker.commit_waiters) == [ch.client.connection]
    pair.commit_all()
    ch.expect(commands.Queue.DeclareOk)
    expect_idle(pair)


def hold_deliveries(pair: DurablePair, ch: Channel) -> None:
    """Take more than the mark on disk covers: nothing of it goes out."""
    for _ in range(1000):
        ch.publish(key="q", delivery_mode=PERSISTENT)
    pair.commit_all()
    pair.commit_for_delivery = lambda: None
    ch.send(loose(commands.Basic.Consume, queue="q"))
    ch.expect_nothing()
    assert list(pair.broker.commit_waiters) == [ch.client.connection]


def test_held_deliveries(pair: DurablePair, ch: Channel) -> None:
    hold_deliveries(pair, ch)
    pair.commit_for_delivery = pair.commit_all
    pair.commit_all()
    ch.expect(commands.Basic.ConsumeOk)
    assert len(ch.deliveries()) == 1000
    expect_idle(pair)


def test_a_client_that_closes_while_deliveries_are_held_is_answered(pair: DurablePair, ch: Channel) -> None:
    hold_deliveries(pair, ch)
    ch.client.send(commands.Connection.Close(reply_code=200, reply_text="", class_id=0, method_id=0))
    pair.commit_for_delivery = pair.commit_all
    pair.commit_all()
    assert [item.frame for item in ch.client.take_all() if isinstance(item.frame, commands.Connection.CloseOk)]
    ch.client.expect_gone()
    expect_idle(pair)


def test_a_commit_that_fails(pair: DurablePair, ch: Channel) -> None:
    """Confirms are refused and wait no longer; what must not be refused waits on."""
    careful = opened(pair)
    careful.call(commands.Tx.Select(), commands.Tx.SelectOk)
    careful.publish(key="q", delivery_mode=PERSISTENT)
    ch.confirm()
    ch.publish(key="q", delivery_mode=PERSISTENT)
    careful.send(commands.Tx.Commit())
    pair.begin_commit()
    pair.broker.commit_failed()
    pair.settle()
    assert ch.expect_confirms() == [("nack", 1, False)]
    assert list(pair.broker.commit_waiters) == [careful.client.connection]
    # Commits go on failing: what is published meanwhile is refused with the next attempt.
    ch.publish(key="q", delivery_mode=PERSISTENT)
    assert len(pair.broker.commit_waiters) == 2
    pair.broker.commit_failed()
    pair.settle()
    assert ch.expect_confirms() == [("nack", 2, False)]
    assert list(pair.broker.commit_waiters) == [careful.client.connection]
    pair.commit_all()
    careful.expect(commands.Tx.CommitOk)
    ch.publish(key="q", delivery_mode=PERSISTENT)
    pair.commit_all()
    assert ch.expect_confirms() == [("ack", 3, False)]
    expect_idle(pair)


def test_a_channel_that_is_closed(pair: DurablePair, ch: Channel) -> None:
    ch.confirm()
    ch.publish(key="q", delivery_mode=PERSISTENT)
    ch.close()
    pair.commit_all()
    expect_idle(pair)
    # By the broker, for an error.
    ch = ch.client.channel()
    ch.confirm()
    ch.publish(key="q", delivery_mode=PERSISTENT)
    ch.publish(exchange="nowhere")
    ch.expect_close(404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'", commands.Basic.Publish)
    pair.commit_all()
    expect_idle(pair)


@pytest.mark.parametrize("is_transaction", [False, True], ids=["confirm", "transaction"])
@pytest.mark.parametrize("is_failing", [False, True], ids=["commit", "failing"])
def test_a_connection_that_is_lost(pair: DurablePair, ch: Channel, is_transaction: bool, is_failing: bool) -> None:
    if is_transaction:
        ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    else:
        ch.confirm()
    ch.publish(key="q", delivery_mode=PERSISTENT)
    if is_transaction:
        ch.send(commands.Tx.Commit())
    ch.client.drop()
    assert not pair.broker.commit_waiters
    pair.begin_commit()
    if is_failing:
        pair.broker.commit_failed()
        pair.settle()
    pair.commit_all()
    expect_idle(pair)


def test_a_connection_that_is_lost_while_deliveries_are_held(pair: DurablePair, ch: Channel) -> None:
    hold_deliveries(pair, ch)
    ch.client.drop()
    assert not pair.broker.commit_waiters
    pair.commit_for_delivery = pair.commit_all
    pair.commit_all()
    expect_idle(pair)
