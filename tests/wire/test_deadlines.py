"""Ack deadlines: a message that is held too long goes back alone, and its channel lives."""

from __future__ import annotations

import re

import pytest
from pamqp import commands

from rabbitlike.broker.policies.keys import POLICY
from rabbitlike.broker.policies.policies import make_policy
from rabbitlike.broker.terms import Json
from tests.support.pair import Channel, Message, Pair


def consuming(pair: Pair, queue: dict[str, object], consumer: dict[str, object] | None = None) -> Channel:
    ch = pair.connect().channel()
    ch.declare("q", arguments=queue)
    ch.qos(10)
    ch.consume("q", arguments=consumer or {})
    return ch


def ready(ch: Channel, queue: str = "q") -> int:
    return ch.declare(queue, passive=True).message_count or 0


def next_one(ch: Channel) -> Message:
    return ch.expect_message(commands.Basic.Deliver)


def test_a_late_message_goes_back() -> None:
    """F4 S5 S14 at thirty seconds, not before; with its count, to whoever takes it; the channel lives."""
    pair = Pair()
    ch = consuming(pair, {"x-ack-timeout": 30_000})
    ch.publish(b"m", key="q")
    first = next_one(ch)
    pair.advance(29_999)
    ch.expect_nothing()
    pair.advance(1)
    again = next_one(ch)
    assert (again.body, again.redelivered, again.headers["x-delivery-count"]) == (b"m", True, 1)
    assert again.tag == first.tag + 1
    ch.ack(again.tag)
    assert ready(ch) == 0


@pytest.mark.parametrize("late", ["ack", "nack", "reject", "reject for good"])
def test_a_late_word_means_nothing(late: str) -> None:
    """G6 the old tag neither deletes nor returns the message, and is no error; a second time it is one."""
    pair = Pair()
    ch = consuming(pair, {"x-ack-timeout": 100})
    ch.publish(b"m", key="q")
    first = next_one(ch)
    pair.advance(100)
    again = next_one(ch)
    match late:
        case "ack":
            ch.ack(first.tag)
        case "nack":
            ch.nack(first.tag)
        case "reject":
            ch.reject(first.tag)
        case _:
            ch.reject(first.tag, requeue=False)
    ch.expect_nothing()
    ch.ack(again.tag)
    pair.advance(1000)
    ch.expect_nothing()
    assert ready(ch) == 0
    ch.ack(first.tag)
    ch.expect_close(406, f"PRECONDITION_FAILED - unknown delivery tag {first.tag}", commands.Basic.Ack)


def test_a_late_tag_that_stands_for_many() -> None:
    """G6 multiple: those before it that are still out are settled."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("slow")
    ch.declare("q", arguments={"x-ack-timeout": 100, "x-retry-initial": 10_000})
    ch.consume("slow")
    ch.consume("q")
    ch.publish(b"1", key="slow")
    ch.publish(b"2", key="q")
    ch.publish(b"3", key="slow")
    tags = [next_one(ch).tag for _ in range(3)]
    pair.advance(100)
    ch.ack(tags[1], multiple=True)
    ch.expect_nothing()
    ch.ack(tags[2])
    ch.close()
    other = pair.connect().channel()
    assert (ready(other, "slow"), ready(other)) == (0, 0)
    pair.advance(10_000)
    assert other.drain("q") == [b"2"]


def test_the_consumers_word_wins() -> None:
    """S3 x-ack-timeout of basic.consume over the queue's, shorter or longer; each consumer has its own."""
    pair = Pair()
    ch = consuming(pair, {"x-ack-timeout": 100}, {"x-ack-timeout": 300})
    ch.publish(b"m", key="q")
    next_one(ch)
    pair.advance(299)
    ch.expect_nothing()
    pair.advance(1)
    assert next_one(ch).redelivered
    hasty = pair.connect().channel()
    hasty.declare("plain")
    hasty.consume("plain", arguments={"x-ack-timeout": 50})
    hasty.publish(b"m", key="plain")
    next_one(hasty)
    pair.advance(50)
    assert next_one(hasty).redelivered


def test_basic_get_has_the_queues_deadline() -> None:
    """F4 who fetches is held to it, too."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-ack-timeout": 100})
    ch.publish(b"m", key="q")
    message = ch.get("q", no_ack=False)
    assert message is not None
    pair.advance(100)
    assert ready(ch) == 1
    ch.ack(message.tag)
    assert ready(ch) == 1


def test_only_the_late_one() -> None:
    """F4 others of the same channel stay out until their own time."""
    pair = Pair()
    ch = consuming(pair, {"x-ack-timeout": 100, "x-retry-initial": 10_000})
    for number in range(3):
        ch.publish(b"%d" % number, key="q")
        pair.advance(10)
    tags = [next_one(ch).tag for _ in range(3)]
    ch.ack(tags[1])
    pair.advance(70)
    queue = pair.broker.vhosts["/"].queues["q"]
    assert (queue.unacked_count, queue.awaiting_retry_count) == (1, 1)
    ch.ack(tags[2])
    assert (queue.unacked_count, queue.awaiting_retry_count) == (0, 1)


def test_lateness_is_a_failure() -> None:
    """F4 F5 G7 S5 the retry rules hold: it waits, and in the end it is dead."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("dead")
    arguments = {"x-ack-timeout": 100, "x-retry-initial": 1000, "x-delivery-limit": 1}
    ch.declare("q", arguments={**arguments, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.consume("q")
    ch.publish(b"m", key="q")
    next_one(ch)
    pair.advance(1099)
    ch.expect_nothing()
    pair.advance(1)
    next_one(ch)
    pair.advance(100)
    dead = ch.get("dead")
    assert dead is not None
    assert dead.headers["x-first-death-reason"] == "delivery_limit"


def test_credit_comes_back() -> None:
    """S8 S14 a late message gives its consumer room for the next."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-ack-timeout": 100, "x-retry-initial": 10_000})
    ch.qos(1)
    ch.consume("q")
    ch.publish(b"1", key="q")
    ch.publish(b"2", key="q")
    assert next_one(ch).body == b"1"
    ch.expect_nothing()
    pair.advance(100)
    assert next_one(ch).body == b"2"


def test_a_rollback_brings_the_deadline_back() -> None:
    """F4 what a transaction had settled and gave back is as late as it is."""
    pair = Pair()
    ch = consuming(pair, {"x-ack-timeout": 100})
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    other = pair.connect().channel()
    other.publish(b"m", key="q")
    message = next_one(ch)
    ch.ack(message.tag)
    pair.advance(200)
    ch.expect_nothing()
    ch.call(commands.Tx.Rollback(), commands.Tx.RollbackOk)
    pair.advance(1)
    assert next_one(ch).redelivered


def test_very_many_late_ones_are_forgotten_safely() -> None:
    """G6 however many were never heard of again, a late ack is no error."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-ack-timeout": 10, "x-delivery-limit": 0})
    ch.consume("q")
    for _ in range(12_000):
        ch.publish(b"m", key="q")
    tags = [message.tag for message in ch.deliveries()]
    assert len(tags) == 12_000
    pair.advance(1000)
    for tag in (tags[0], tags[5], tags[-1]):
        ch.ack(tag)
    ch.expect_nothing()
    ch.client.expect_alive()


def test_a_bad_deadline() -> None:
    """F4 refused in RabbitMQ's manner, by the queue and by the consumer."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.send(commands.Basic.Consume(queue="q", arguments={"x-ack-timeout": -1}))
    ch.expect_close(
        406, re.compile(".*invalid arg 'x-ack-timeout' for queue 'q'.*value_negative.*"), commands.Basic.Consume
    )


def test_a_policy_sets_it() -> None:
    """F4 F5 `ack-timeout` and the retry keys work as a policy, on queues that are there already."""
    pair = Pair()
    ch = consuming(pair, {})
    vhost = pair.broker.vhosts["/"]
    definition: Json = {"ack-timeout": 100, "retry-initial": 500, "delivery-limit": 3}
    pair.broker.turn.begin()
    vhost.policies.set(make_policy("/", "p", POLICY, pattern="^q$", definition=definition))
    pair.broker.turn.finish()
    ch.publish(b"m", key="q")
    next_one(ch)
    pair.advance(599)
    ch.expect_nothing()
    pair.advance(1)
    assert next_one(ch).headers["x-delivery-count"] == 1
    assert vhost.queues["q"].settings.delivery_limit == 3
