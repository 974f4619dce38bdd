"""Messages that live for a time: x-message-ttl, expiration, and what expiry does to readers and holders."""

import pytest
from pamqp import commands

from tests.support.pair import Channel, Message, Pair


def fetch(ch: Channel, queue: str = "q") -> Message:
    message = ch.get(queue, no_ack=False)
    assert message is not None
    return message


def ready(ch: Channel, queue: str = "q") -> int:
    return ch.declare(queue, passive=True).message_count or 0


@pytest.mark.parametrize("how", ["queue", "message"])
def test_message_expires_at_its_time(how: str) -> None:
    """#101 #134 there one millisecond before, gone at the time itself, for x-message-ttl and for expiration."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-message-ttl": 1000} if how == "queue" else {})
    expiration = "1000" if how == "message" else None
    ch.publish(b"early", key="q", expiration=expiration)
    pair.advance(999)
    assert ch.drain("q") == [b"early"]
    ch.publish(b"late", key="q", expiration=expiration)
    pair.advance(1000)
    assert ready(ch) == 0
    assert ch.get("q") is None


@pytest.mark.parametrize(("queue_ttl", "expiration"), [(1000, "300"), (300, "1000")])
def test_the_shorter_time_counts(queue_ttl: int, expiration: str) -> None:
    """#101 with both a queue's and a message's time the smaller one applies."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-message-ttl": queue_ttl})
    ch.publish(b"m", key="q", expiration=expiration)
    pair.advance(299)
    assert ready(ch) == 1
    pair.advance(1)
    assert ready(ch) == 0


def test_each_queue_keeps_its_own_time() -> None:
    """#101 a message routed to two queues expires in each by that queue's rule."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("short", arguments={"x-message-ttl": 100})
    ch.declare("long", arguments={"x-message-ttl": 10_000})
    for queue in ("short", "long"):
        ch.bind(queue, "amq.fanout")
    ch.publish(b"m", "amq.fanout")
    pair.advance(100)
    assert ch.drain("short") == []
    assert ch.drain("long") == [b"m"]


@pytest.mark.parametrize("how", ["queue", "message"])
def test_time_zero_needs_a_waiting_consumer(how: str) -> None:
    """#139 with a ready consumer it is delivered, without one it is gone at once, for get too."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-message-ttl": 0} if how == "queue" else {})
    expiration = "0" if how == "message" else None
    ch.publish(b"nobody", key="q", expiration=expiration)
    assert ch.get("q") is None
    ch.qos(1)
    ch.consume("q", "c")
    ch.expect_nothing()
    ch.publish(b"somebody", key="q", expiration=expiration)
    ch.publish(b"no credit", key="q", expiration=expiration)
    assert ch.bodies() == [b"somebody"]
    assert ready(ch) == 0


def test_time_zero_is_dead_lettered_at_once() -> None:
    """#139 without a ready consumer it dies as expired."""
    ch = Pair().connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish(b"m", key="q")
    dead = fetch(ch, "dead")
    assert (dead.body, dead.headers["x-first-death-reason"]) == (b"m", "expired")


def test_unacked_message_does_not_expire() -> None:
    """#113 #139 time passes it by while somebody holds it; requeued too late it is gone."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    for body in (b"acked", b"requeued"):
        ch.publish(body, key="q", expiration="100")
    acked, requeued = fetch(ch), fetch(ch)
    pair.advance(5000)
    assert ready(ch, "dead") == 0
    ch.ack(acked.tag)
    ch.nack(requeued.tag, requeue=True)
    assert ch.get("q") is None
    assert ch.drain("dead") == [b"requeued"]
    ch.expect_nothing()


def test_requeued_too_late_it_is_gone_at_once() -> None:
    """#113 #123 nobody needs to look for it: the counts leave it out and the dead letter is there."""
    pair = Pair()
    client = pair.connect()
    ch, watcher = client.channel(), client.channel()
    watcher.declare("dead")
    watcher.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    watcher.publish(b"m", key="q", expiration="100")
    fetch(ch)
    pair.advance(100)
    ch.close()
    assert (ready(watcher, "q"), ready(watcher, "dead")) == (0, 1)


def test_requeued_in_time_it_keeps_its_time() -> None:
    """#123 the time runs from publishing, not from the requeue."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    ch.publish(b"m", key="q", expiration="1000")
    held = fetch(ch)
    pair.advance(900)
    ch.nack(held.tag, requeue=True)
    assert ready(ch) == 1
    pair.advance(100)
    assert ready(ch) == 0


def test_expired_is_never_delivered_behind_a_longer_one() -> None:
    """#140 a short time behind a long one: whenever it is removed, no reader ever gets it too late."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish(b"long", key="q", expiration="10000")
    ch.publish(b"short", key="q", expiration="100")
    ch.publish(b"for ever", key="q")
    pair.advance(100)
    assert ch.drain("q") == [b"long", b"for ever"]
    assert ch.drain("dead") == [b"short"]


def test_expired_behind_an_unlimited_one_is_never_delivered() -> None:
    """#140 the same behind a message that never expires, to a consumer."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    ch.publish(b"for ever", key="q")
    ch.publish(b"short", key="q", expiration="100")
    ch.publish(b"still good", key="q", expiration="101")
    pair.advance(100)
    ch.consume("q", "c", no_ack=True)
    assert ch.bodies() == [b"for ever", b"still good"]


def test_expired_is_not_delivered_before_its_timer() -> None:
    """#140 a reader that comes in the very millisecond, before the queue has looked, gets nothing."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    got: list[Message | None] = []
    pair.clock.call_later(100, lambda: got.append(ch.get("q")))
    ch.publish(b"m", key="q", expiration="100")
    pair.advance(100)
    assert got == [None]


def test_expiry_needs_no_reader() -> None:
    """#139 #140 the head expires by itself: a dead letter appears although nobody touches the queue."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-message-ttl": 500, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.consume("dead", "c", no_ack=True)
    ch.publish(b"1", key="q")
    pair.advance(200)
    ch.publish(b"2", key="q")
    pair.advance(299)
    ch.expect_nothing()
    pair.advance(1)
    assert ch.bodies() == [b"1"]
    pair.advance(199)
    ch.expect_nothing()
    pair.advance(1)
    assert ch.bodies() == [b"2"]


def test_credit_after_expiry_gets_the_next_good_one() -> None:
    """#139 a consumer that frees its credit late is handed what is still alive."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    ch.qos(1)
    ch.consume("q", "c")
    ch.publish(b"held", key="q")
    ch.publish(b"expires", key="q", expiration="100")
    ch.publish(b"lasts", key="q")
    held = ch.expect_message()
    pair.advance(100)
    ch.ack(held.tag)
    assert ch.bodies() == [b"lasts"]


def test_purge_and_delete_forget_the_time() -> None:
    """#79 a purged message expires no more: no dead letter, no count."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish(b"m", key="q", expiration="100")
    ch.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk)
    pair.advance(1000)
    ch.publish(b"m", key="q", expiration="100")
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    pair.advance(1000)
    assert ch.drain("dead") == []
