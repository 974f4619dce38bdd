"""Messages that fail: retried later and later, dead-lettered in the end, and what a queue is meanwhile."""

from __future__ import annotations

import re

import pytest
from pamqp import commands

from tests.support.pair import Channel, Message, Pair

DLX = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def failing(pair: Pair, **arguments: object) -> Channel:
    """A channel, a queue of these arguments (x- and dashes added) and one for its dead letters."""
    ch = pair.connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={**DLX, **{f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}})
    return ch


def fetch(ch: Channel, queue: str = "q") -> Message:
    message = ch.get(queue, no_ack=False)
    assert message is not None
    return message


def fail(ch: Channel, queue: str = "q") -> Message:
    message = fetch(ch, queue)
    ch.nack(message.tag, requeue=True)
    return message


def wait_ms(pair: Pair, ch: Channel, most_ms: int = 1_000_000, step_ms: int = 1) -> int:
    """Milliseconds until something is ready."""
    for waited in range(0, most_ms, step_ms):
        if ready(ch):
            return waited
        pair.advance(step_ms)
    raise AssertionError("nothing comes back")


def ready(ch: Channel, queue: str = "q") -> int:
    return ch.declare(queue, passive=True).message_count or 0


def reason(message: Message) -> object:
    return message.headers["x-first-death-reason"]


# ------------------------------------------------------------------------------------------------------ the schedule


def test_gaps_grow_to_the_cap() -> None:
    """F5 with only x-retry-initial the gaps double up to five minutes: 5, 10, 20, 40, 80, 160, 300, 300 seconds."""
    pair = Pair()
    ch = failing(pair, retry_initial=5000)
    ch.publish(b"m", key="q")
    gaps = []
    for _ in range(8):
        fail(ch)
        assert ready(ch) == 0
        gaps.append(wait_ms(pair, ch, step_ms=100))
    assert gaps == [5000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]


def test_it_is_back_at_the_very_millisecond() -> None:
    """F5 not a millisecond early, not one late."""
    pair = Pair()
    ch = failing(pair, retry_initial=70, retry_multiplier=1.5, retry_max_delay=150)
    ch.publish(b"m", key="q")
    gaps = []
    for _ in range(4):
        fail(ch)
        gaps.append(wait_ms(pair, ch))
    assert gaps == [70, 105, 150, 150]


def test_eleventh_failure_is_the_last() -> None:
    """F6 G7 S5 ten tries after the first by default; then it is dead, for having been delivered too often."""
    pair = Pair()
    ch = failing(pair, retry_initial=10)
    ch.publish(b"m", key="q")
    for count in range(11):
        message = fetch(ch)
        assert message.headers.get("x-delivery-count", 0) == count
        ch.reject(message.tag, requeue=True)
        pair.advance(300_000)
    assert ready(ch) == 0
    dead = fetch(ch, "dead")
    assert reason(dead) == "delivery_limit"


def test_a_limit_of_its_own_or_none() -> None:
    """F6 x-delivery-limit rules where it is given; below zero there is none."""
    pair = Pair()
    ch = failing(pair, retry_initial=1, delivery_limit=2)
    ch.publish(b"m", key="q")
    for _ in range(3):
        fail(ch)
        pair.advance(10)
    assert (ready(ch), ready(ch, "dead")) == (0, 1)
    ch.declare("endless", arguments={"x-retry-initial": 1, "x-delivery-limit": -1, "x-retry-timeout": -1})
    ch.publish(b"m", key="endless")
    for _ in range(50):
        fail(ch, "endless")
        pair.advance(300_000)
    assert ready(ch, "endless") == 1


def test_total_time_is_up_while_it_waits() -> None:
    """F7 x-retry-timeout counts from the publish and ends the wait to the millisecond."""
    pair = Pair()
    ch = failing(pair, retry_initial=1000, retry_timeout=2500)
    ch.publish(b"m", key="q")
    pair.advance(100)
    fail(ch)
    pair.advance(1000)
    fail(ch)  # would be due at 3100
    pair.advance(1399)
    assert ready(ch, "dead") == 0
    pair.advance(1)
    assert reason(fetch(ch, "dead")) == "retry_timeout"


def test_total_time_is_up_when_it_fails() -> None:
    """F7 one that is held longer than that is dead when it comes back; it needs no x-retry-initial."""
    pair = Pair()
    ch = failing(pair, retry_timeout=1000)
    ch.publish(b"m", key="q")
    fail(ch)
    assert ready(ch) == 1  # no delay is asked for
    message = fetch(ch)
    pair.advance(1000)
    ch.nack(message.tag, requeue=True)
    assert reason(fetch(ch, "dead")) == "retry_timeout"


def test_three_hours_by_default() -> None:
    """F7 with only x-retry-initial given."""
    pair = Pair()
    ch = failing(pair, retry_initial=1)
    ch.publish(b"m", key="q")
    message = fetch(ch)
    pair.advance(3 * 3_600_000)
    ch.nack(message.tag, requeue=True)
    assert reason(fetch(ch, "dead")) == "retry_timeout"


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_rabbitmq_schedule(queue_type: str) -> None:
    """F5 x-delayed-retry-*: RabbitMQ 4.3's words and its steps, min(min · count, max)."""
    pair = Pair()
    ch = pair.connect().channel()
    arguments = {
        "x-queue-type": queue_type,
        "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 100,
        "x-delayed-retry-max": 250,
    }
    ch.declare("q", durable=True, arguments=arguments)
    ch.publish(b"m", key="q")
    gaps = []
    for _ in range(4):
        fail(ch)
        gaps.append(wait_ms(pair, ch))
    assert gaps == [100, 200, 250, 250]


@pytest.mark.parametrize(
    ("kind", "nack", "reject", "gone"),
    [
        ("all", True, True, True),
        ("failed", False, True, True),
        ("returned", True, False, False),
        ("disabled", False, False, False),
    ],
)
def test_what_is_delayed(kind: str, nack: bool, reject: bool, gone: bool) -> None:
    """F3 basic.nack returns, basic.reject and a client's end fail; x-delayed-retry-type picks."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-delayed-retry-type": kind, "x-delayed-retry-min": 100})
    ch.publish(b"m", key="q")
    ch.nack(fetch(ch).tag, requeue=True)
    assert ready(ch) == (0 if nack else 1)
    pair.advance(100)
    ch.reject(fetch(ch).tag, requeue=True)
    assert ready(ch) == (0 if reject else 1)
    pair.advance(300)
    other = pair.connect()
    fetch(other.channel())
    other.drop()
    assert ready(ch) == (0 if gone else 1)


# ------------------------------------------------------------------------------------------------- while it is waiting


def test_three_outcomes() -> None:
    """F3 ack deletes, nack retries, reject goes to the dead letters."""
    pair = Pair()
    ch = failing(pair, retry_initial=100)
    for body in (b"done", b"again", b"dead"):
        ch.publish(body, key="q")
    ch.ack(fetch(ch).tag)
    ch.nack(fetch(ch).tag, requeue=True)
    ch.reject(fetch(ch).tag, requeue=False)
    pair.advance(100)
    assert ch.drain("q") == [b"again"]
    dead = fetch(ch, "dead")
    assert (dead.body, reason(dead)) == (b"dead", "rejected")


def test_others_are_not_disturbed() -> None:
    """F5 those behind it go on at once, and it returns to its own place."""
    pair = Pair()
    ch = failing(pair, retry_initial=100)
    for number in range(5):
        ch.publish(b"%d" % number, key="q")
    fail(ch)
    fail(ch)
    assert fetch(ch).body == b"2"
    pair.advance(100)
    assert ch.drain("q") == [b"0", b"1", b"3", b"4"]


def test_it_keeps_its_priority() -> None:
    """F5 a waiting message lets lower ones pass, and goes before them again when it is due."""
    pair = Pair()
    ch = failing(pair, retry_initial=100)
    ch.publish(b"high", key="q", priority=5)
    ch.publish(b"low", key="q", priority=1)
    ch.publish(b"lower", key="q")
    fail(ch)
    assert fetch(ch).body == b"low"
    pair.advance(100)
    assert ch.drain("q") == [b"high", b"lower"]


def test_waiting_costs_no_credit() -> None:
    """F5 a consumer with a prefetch of one gets the next message while the first waits."""
    pair = Pair()
    ch = failing(pair, retry_initial=100)
    ch.qos(1)
    ch.consume("q")
    ch.publish(b"1", key="q")
    ch.publish(b"2", key="q")
    first = ch.expect_message(commands.Basic.Deliver)
    ch.nack(first.tag, requeue=True)
    second = ch.expect_message(commands.Basic.Deliver)
    assert second.body == b"2"
    ch.ack(second.tag)
    ch.expect_nothing()
    pair.advance(99)
    ch.expect_nothing()
    pair.advance(1)
    again = ch.expect_message(commands.Basic.Deliver)
    assert (again.body, again.redelivered, again.headers["x-delivery-count"]) == (b"1", True, 1)


def test_a_lost_client_counts_as_a_failure() -> None:
    """F3 S5 what a client held when it went waits as well."""
    pair = Pair()
    ch = failing(pair, retry_initial=100)
    ch.publish(b"m", key="q")
    other = pair.connect()
    fetch(other.channel())
    other.drop()
    assert ready(ch) == 0
    pair.advance(100)
    assert fetch(ch).headers["x-delivery-count"] == 1


def test_it_expires_while_it_waits() -> None:
    """F15 its time to live goes on: dead as expired at the very time, not when the wait is over."""
    pair = Pair()
    ch = failing(pair, retry_initial=1000, message_ttl=600)
    ch.publish(b"m", key="q")
    fail(ch)
    pair.advance(599)
    assert ready(ch, "dead") == 0
    pair.advance(1)
    assert reason(fetch(ch, "dead")) == "expired"


def test_purge_takes_what_waits() -> None:
    """S9 and says so; nothing comes back later."""
    pair = Pair()
    ch = failing(pair, retry_initial=100)
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    fail(ch)
    held = fetch(ch)
    assert ch.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk).message_count == 2
    pair.advance(1000)
    assert ready(ch) == 0
    ch.nack(held.tag, requeue=True)
    pair.advance(100)
    assert ch.drain("q") == [b"2"]


def test_a_queue_with_waiting_messages_is_not_empty() -> None:
    """S9 if-empty spares it; without that they go with the queue, silently."""
    pair = Pair()
    ch = failing(pair, retry_initial=100)
    ch.publish(b"m", key="q")
    fail(ch)
    other = pair.connect().channel()
    other.send(commands.Queue.Delete(queue="q", if_empty=True))
    other.expect_close(406, re.compile(".*not empty"), commands.Queue.Delete)
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    pair.advance(1000)
    assert ready(ch, "dead") == 0


def test_length_limits_count_what_is_ready() -> None:
    """F15 as unacked ones, waiting messages are outside the limit; one that comes back too many drops the head."""
    pair = Pair()
    ch = failing(pair, retry_initial=100, max_length=2)
    ch.publish(b"1", key="q")
    fail(ch)
    ch.publish(b"2", key="q")
    ch.publish(b"3", key="q")
    assert (ready(ch), ready(ch, "dead")) == (2, 0)
    pair.advance(100)
    assert reason(fetch(ch, "dead")) == "maxlen"
    assert ch.drain("q") == [b"2", b"3"]


# --------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("x-retry-initial", 0, "{value_zero,0}"),
        ("x-retry-initial", -1, "{value_negative,-1}"),
        ("x-retry-initial", "soon", '"expected integer, got longstr"'),
        ("x-retry-multiplier", 0.5, "{value_too_small,0.5}"),
        ("x-retry-multiplier", "two", '"expected number, got longstr"'),
        ("x-retry-max-delay", 0, "{value_zero,0}"),
        ("x-retry-timeout", "long", '"expected integer, got longstr"'),
        ("x-ack-timeout", 0, "{value_zero,0}"),
        ("x-delayed-retry-type", "some", "invalid_delayed_retry_type"),
        ("x-delayed-retry-min", 0, "{value_zero,0}"),
        ("x-delayed-retry-max", -5, "{value_negative,-5}"),
    ],
)
def test_bad_arguments(key: str, value: object, text: str) -> None:
    """F5 406 in RabbitMQ's manner."""
    ch = Pair().connect().channel()
    ch.send(commands.Queue.Declare(queue="q", arguments={key: value}))  # type: ignore[dict-item]
    ch.expect_close(
        406, f"PRECONDITION_FAILED - invalid arg '{key}' for queue 'q' in vhost '/': {text}", commands.Queue.Declare
    )


def test_redeclaring_otherwise() -> None:
    """F5 the schedule is part of the declaration."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-retry-initial": 5})
    ch.send(commands.Queue.Declare(queue="q", arguments={"x-retry-initial": 6}))
    ch.expect_close(406, re.compile(".* inequivalent arg .x-retry-initial.*"), commands.Queue.Declare)
