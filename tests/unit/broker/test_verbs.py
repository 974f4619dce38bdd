"""Publishing, fetching, pausing and cancelling without a channel of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pamqp import commands

from rabbitlike.broker.accounts.users import User
from rabbitlike.broker.broker import CONNECTION_FORCED
from rabbitlike.broker.publishing.verbs import fetch, publish, settle
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.settle import Settle
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Array, Table
from tests.support.crash_pair import SimulatedDisk
from tests.support.pair import Channel, Pair


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def ch(pair: Pair) -> Channel:
    return pair.connect().channel()


@contextmanager
def turn(pair: Pair) -> Iterator[None]:
    pair.broker.turn.begin()
    yield
    pair.broker.turn.finish()


def queue_of(pair: Pair, name: str = "q") -> Queue:
    return pair.broker.vhosts["/"].queues[name]


def user(pair: Pair, name: str = "guest") -> User:
    found = pair.broker.users.get(name)
    assert found is not None
    return found


def put(
    pair: Pair, exchange: str, key: str, body: bytes = b"m", properties: Properties | None = None, by: str = "guest"
) -> bool:
    with turn(pair):
        vhost = pair.broker.vhosts["/"]
        published = publish(vhost, exchange, key, properties or Properties.build(), body, user(pair, by))
        return published.is_routed and published.is_accepted


# Publishing


def test_a_publish_reaches_a_consumer_as_any_other(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.consume("q", "c")
    assert put(pair, "", "q", b"hello", Properties.build(content_type="text/plain"))
    message = ch.expect_message()
    assert (message.body, message.exchange, message.routing_key) == (b"hello", "", "q")
    assert message.properties.content_type == "text/plain"


def test_a_publish_says_whether_it_was_routed(pair: Pair, ch: Channel) -> None:
    ch.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    assert not put(pair, "", "nobody")
    assert put(pair, "", "q")
    assert not put(pair, "", "q"), "the queue is full and refuses"
    vhost = pair.broker.vhosts["/"]
    assert (vhost.counters.publish, vhost.counters.return_unroutable) == (3, 1)
    assert vhost.exchanges[""].counters.publish_in == 3


def test_a_publish_goes_by_cc_and_bcc_and_alternates(pair: Pair, ch: Channel) -> None:
    for name in ("a", "b", "c", "d"):
        ch.declare(name)
    headers = Table({"CC": Array(["b"]), "BCC": Array(["c"])})
    assert put(pair, "", "a", properties=Properties.build(headers=headers))
    assert [queue_of(pair, name).message_count for name in "abc"] == [1, 1, 1]
    found = ch.get("b")
    assert found is not None
    assert list(found.headers) == ["CC"]
    ch.declare_exchange("e", arguments={"alternate-exchange": "amq.fanout"})
    ch.bind("d", "amq.fanout")
    assert put(pair, "e", "nobody")
    assert queue_of(pair, "d").message_count == 1


def test_an_expiration_holds(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    put(pair, "", "q", properties=Properties.build(expiration="10"))
    pair.advance(11)
    assert queue_of(pair).message_count == 0


def test_what_a_channel_is_refused_is_refused(pair: Pair, ch: Channel) -> None:
    pair.add_user("reader", "x", write="^$")
    ch.declare_exchange("inner", internal=True)
    for code, text, arguments in (
        (404, "no exchange 'absent' in vhost '/'", ("absent", "")),
        (403, "cannot publish to internal exchange 'inner' in vhost '/'", ("inner", "")),
    ):
        with pytest.raises(AmqpError, match=text) as caught:
            put(pair, *arguments)
        assert caught.value.code == code
    with pytest.raises(AmqpError, match="refused for user 'reader'") as caught:
        put(pair, "amq.direct", "", by="reader")
    assert caught.value.code == 403
    with pytest.raises(AmqpError, match="user_id property set to 'other' but authenticated user was 'guest'"):
        put(pair, "", "q", properties=Properties.build(user_id="other"))
    with pytest.raises(AmqpError, match="invalid expiration 'soon'"):
        put(pair, "", "q", properties=Properties.build(expiration="soon"))


def test_a_topic_permission_holds(pair: Pair) -> None:
    pair.add_user("writer", "x")
    pair.set_topic_permission("writer", "amq.topic", write="^mine", read="")
    assert not put(pair, "amq.topic", "mine.1", by="writer"), "allowed, and nobody is bound"
    with pytest.raises(AmqpError, match="topic") as caught:
        put(pair, "amq.topic", "yours.1", by="writer")
    assert caught.value.code == 403


def test_a_body_may_not_be_too_large() -> None:
    pair = Pair(max_message_size=10)
    with pytest.raises(AmqpError, match="message size 11 is larger than configured max size 10"):
        put(pair, "", "q", b"x" * 11)


def test_what_is_persistent_is_stored() -> None:
    disk = SimulatedDisk()
    pair = disk.boot()
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", durable=True))
    put(pair, "", "q", b"kept", Properties.build(delivery_mode=2))
    while pair.begin_commit():
        pair.end_commit()
    ch = disk.boot(crash=True).connect().channel()
    assert ch.drain("q") == [b"kept"]
    disk.close()


# Fetching


def test_fetched_messages_can_go_back_be_dropped_or_done(pair: Pair, ch: Channel) -> None:
    ch.declare("dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    queue = queue_of(pair)
    with turn(pair):
        found = fetch(queue, 2, user(pair), no_ack=False)
        assert [(each.message.body, each.redelivered, each.message_count) for each in found] == [
            (b"1", False, 2),
            (b"2", False, 1),
        ]
        settle(queue, found, Settle.REQUEUE)
    with turn(pair):
        found = fetch(queue, 10, user(pair), no_ack=False)
        assert [(each.message.body, each.redelivered) for each in found] == [(b"1", True), (b"2", True), (b"3", False)]
        settle(queue, found[:1], Settle.ACK)
        settle(queue, found[1:2], Settle.REJECT)
        settle(queue, found[2:], Settle.REQUEUE)
    assert ch.drain("dead") == [b"2"]
    with turn(pair):
        assert [each.message.body for each in fetch(queue, 1, user(pair), no_ack=True)] == [b"3"]
        assert fetch(queue, 1, user(pair), no_ack=True) == []
    assert (queue.message_count, queue.unacked_count) == (0, 0)
    counters = queue.counters
    assert (counters.get, counters.get_no_ack, counters.get_empty, counters.redeliver, counters.ack) == (5, 1, 1, 3, 1)
    assert pair.broker.vhosts["/"].counters.ack == 1


def test_fetching_counts_deliveries_where_the_queue_does(pair: Pair, ch: Channel) -> None:
    ch.declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    ch.publish(b"m", key="q")
    queue = queue_of(pair)
    with turn(pair):
        settle(queue, fetch(queue, 1, user(pair), no_ack=False), Settle.REQUEUE)
        (found,) = fetch(queue, 1, user(pair), no_ack=True)
    assert Properties(found.properties).headers == {"x-delivery-count": 1}


def test_fetching_needs_permission_and_a_queue_that_allows_it(pair: Pair, ch: Channel) -> None:
    pair.add_user("writer", "x", read="^$")
    ch.declare("q")
    with pytest.raises(AmqpError, match="refused for user 'writer'"):
        fetch(queue_of(pair), 1, user(pair, "writer"), no_ack=True)
    ch.declare("s", durable=True, arguments={"x-queue-type": "quorum", "x-single-active-consumer": True})
    with pytest.raises(AmqpError, match="operations are not supported"):
        fetch(queue_of(pair, "s"), 1, user(pair), no_ack=True)


# Pausing


def test_a_paused_queue_takes_in_and_hands_nothing_out(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.consume("q")
    vhost = pair.broker.vhosts["/"]
    with turn(pair):
        vhost.pause_queue(queue_of(pair))
    ch.publish(b"1", key="q")
    ch.publish(b"late", key="q", expiration="10")
    ch.expect_nothing()
    other = pair.connect().channel()
    assert other.get("q") is None
    with turn(pair):
        assert fetch(queue_of(pair), 1, user(pair), no_ack=True) == []
    assert queue_of(pair).message_count == 2
    pair.advance(11)
    assert queue_of(pair).message_count == 1, "time does not stand still"
    with turn(pair):
        vhost.resume_queue(queue_of(pair))
    pair.settle()
    assert ch.bodies() == [b"1"]


def test_a_pause_outlives_a_restart() -> None:
    disk = SimulatedDisk()
    pair = disk.boot()
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", durable=True))
    with turn(pair):
        pair.broker.vhosts["/"].pause_queue(queue_of(pair))
    while pair.begin_commit():
        pair.end_commit()
    pair = disk.boot(crash=True)
    assert queue_of(pair).is_paused
    with turn(pair):
        pair.broker.vhosts["/"].resume_queue(queue_of(pair))
    while pair.begin_commit():
        pair.end_commit()
    assert not queue_of(disk.boot(crash=True)).is_paused
    disk.close()


# Cancelling and closing


def test_an_operator_ends_a_consumer(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.consume("q", "doomed")
    ch.publish(b"held", key="q")
    held = ch.expect_message()
    client = pair.broker.client("127.0.0.1:50000 -> 127.0.0.1:5672")
    assert client is not None
    (channel,) = client.open_channels()
    with turn(pair):
        assert channel.cancel_consumer("doomed")
        assert not channel.cancel_consumer("doomed")
    cancel = ch.expect(commands.Basic.Cancel)
    assert (cancel.consumer_tag, cancel.nowait) == ("doomed", True)
    assert queue_of(pair).consumer_count == 0
    ch.publish(b"later", key="q")
    ch.expect_nothing()
    ch.ack(held.tag)
    assert queue_of(pair).unacked_count == 0, "what it held could still be acked"


def test_a_client_that_knows_no_cancel_hears_nothing(pair: Pair) -> None:
    ch = pair.connect(capabilities=()).channel()
    ch.declare("q", auto_delete=True)
    ch.consume("q", "doomed")
    (channel,) = ch.client.connection.open_channels()
    with turn(pair):
        assert channel.cancel_consumer("doomed")
    ch.expect_nothing()
    assert "q" not in pair.broker.vhosts["/"].queues, "it was the last consumer of an auto-delete queue"


def test_a_connection_is_closed_with_a_reason(pair: Pair, ch: Channel) -> None:
    client = pair.broker.client("127.0.0.1:50000 -> 127.0.0.1:5672")
    assert client is not None
    client.shutdown(CONNECTION_FORCED, "tidying up")
    ch.client.expect_close(320, "CONNECTION_FORCED - tidying up", None)
    assert pair.broker.client("127.0.0.1:50000 -> 127.0.0.1:5672") is None
