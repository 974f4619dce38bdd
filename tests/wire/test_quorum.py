"""x-queue-type quorum as a client sees it: what it refuses, how often it delivers, and x-delivery-count."""

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.pair import Channel, Message, Pair, Typed, loose

QUORUM: dict[str, object] = {"x-queue-type": "quorum"}
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def declare(ch: Channel, **arguments: object) -> None:
    """The queue q, which buries into dead."""
    ch.declare("dead")
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    ch.declare("q", durable=True, arguments={**QUORUM, **TO_DEAD, **given})


def fetch(ch: Channel, queue: str = "q") -> Message:
    message = ch.get(queue, no_ack=False)
    assert message is not None
    return message


def count_field(value: int) -> bytes:
    """x-delivery-count as it stands on the wire: an int64 of type l."""
    return frames.table({"x-delivery-count": Typed("l", value)})[4:]


# -------------------------------------------------------------------------------------------------------- declaring


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
        ({"auto_delete": True, "exclusive": True}, "auto-delete"),
    ],
)
def test_quorum_queue_is_durable_and_shared(flags: dict[str, object], named: str) -> None:
    """#75 406 for what such a queue cannot be."""
    ch = Pair().connect().channel()
    ch.send(loose(commands.Queue.Declare, queue="q", arguments=QUORUM, **flags))
    ch.expect_close(
        406, f"PRECONDITION_FAILED - invalid property '{named}' for queue 'q' in vhost '/'", commands.Queue.Declare
    )


@pytest.mark.parametrize(("key", "value"), [("x-max-priority", 5), ("x-queue-mode", "lazy"), ("x-queue-version", 2)])
def test_quorum_queue_has_no_classic_arguments(key: str, value: object) -> None:
    """#75 406 naming the type."""
    ch = Pair().connect().channel()
    ch.send(loose(commands.Queue.Declare, queue="q", durable=True, arguments={**QUORUM, key: value}))
    ch.expect_close(
        406,
        f"PRECONDITION_FAILED - invalid arg '{key}' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue",
        commands.Queue.Declare,
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("x-delivery-limit", 5),
        ("x-delivery-limit", Typed("I", -1)),
        ("x-quorum-initial-group-size", 3),
        ("x-dead-letter-strategy", "at-least-once"),
        ("x-queue-leader-locator", "balanced"),
        ("x-max-length", 10),
        ("x-overflow", "reject-publish"),
        ("x-message-ttl", 1000),
        ("x-expires", 1000),
        ("x-single-active-consumer", True),
    ],
)
def test_quorum_arguments_are_accepted(key: str, value: object) -> None:
    """#75 what RabbitMQ's quorum queues take."""
    ch = Pair().connect().channel()
    assert ch.declare("q", durable=True, arguments={**QUORUM, key: value}).queue == "q"


# ------------------------------------------------------------------------------------------------- x-delivery-count


@pytest.mark.parametrize("how", ["nack", "reject", "recover", "channel", "drop"])
def test_delivery_count_appears_on_redeliveries(how: str) -> None:
    """#130 absent at first, then 1, 2, 3 as int64, however the message came back."""
    pair = Pair()
    declare(pair.connect().channel())
    pair.connect().channel().publish(b"m", key="q", properties=b"\x00\x00")
    for attempt in range(4):
        client = pair.connect()
        ch = client.channel()
        message = fetch(ch)
        assert message.redelivered is (attempt > 0)
        if attempt == 0:
            assert message.raw_properties == b"\x00\x00"
        else:
            assert message.headers["x-delivery-count"] == attempt
            assert count_field(attempt) in message.raw_properties
        if how == "nack":
            ch.nack(message.tag, requeue=True)
        elif how == "reject":
            ch.reject(message.tag, requeue=True)
        elif how == "recover":
            ch.call(commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
        elif how == "channel":
            ch.close()
        else:
            client.drop()


def test_delivery_count_to_a_consumer() -> None:
    """#130 the same in basic.deliver; the other headers stay as they were, in order."""
    ch = Pair().connect().channel()
    declare(ch)
    ch.qos(1)
    ch.consume("q")
    headers = {"a": Typed("s", 5), "b": "text"}
    ch.publish(b"m", key="q", headers=headers, message_id="id")
    first = ch.expect_message()
    assert first.raw_properties == frames.properties(headers=headers, message_id="id")
    ch.nack(first.tag, requeue=True)
    again = ch.expect_message()
    assert again.raw_properties == frames.properties(
        headers={**headers, "x-delivery-count": Typed("l", 1)}, message_id="id"
    )


def test_delivery_count_of_the_publisher_is_not_trusted() -> None:
    """#130 a published x-delivery-count neither counts nor is ever passed on."""
    ch = Pair().connect().channel()
    declare(ch, x_delivery_limit=3)
    ch.publish(b"m", key="q", headers={"x-delivery-count": Typed("l", 99), "other": "kept"})
    first = fetch(ch)
    assert first.headers == {"other": "kept"}
    ch.nack(first.tag, requeue=True)
    for attempt in range(1, 4):
        again = fetch(ch)
        assert again.headers == {"x-delivery-count": attempt, "other": "kept"}
        assert again.raw_properties.count(b"x-delivery-count") == 1
        ch.nack(again.tag, requeue=True)
    assert ch.get("q") is None
    assert fetch(ch, "dead").headers["x-first-death-reason"] == "delivery_limit"


def test_classic_queue_counts_too() -> None:
    """#130 beyond RabbitMQ: x-delivery-count on a plain queue's redelivery as well."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"m", key="q")
    ch.nack(fetch(ch).tag, requeue=True)
    again = fetch(ch)
    assert (again.redelivered, dict(again.headers)) == (True, {"x-delivery-count": 1})


# ---------------------------------------------------------------------------------------------------- delivery limit


def deliveries_until_gone(ch: Channel, most: int = 100) -> int:
    """Requeue the message of q until it is not there any more; how often it was delivered."""
    for count in range(most):
        message = ch.get("q", no_ack=False)
        if message is None:
            return count
        ch.nack(message.tag, requeue=True)
    return most


def test_twenty_redeliveries_by_default() -> None:
    """#130 delivered once and twenty times more; the next return buries it with reason delivery_limit."""
    ch = Pair().connect().channel()
    declare(ch)
    ch.publish(b"m", key="q")
    assert deliveries_until_gone(ch) == 21
    dead = fetch(ch, "dead")
    assert dead.body == b"m"
    assert dead.headers["x-first-death-reason"] == "delivery_limit"
    assert dead.headers["x-first-death-queue"] == "q"


@pytest.mark.parametrize(("queue_type", "limit"), [("quorum", 0), ("quorum", 3), ("classic", 3)])
def test_delivery_limit_is_an_argument(queue_type: str, limit: int) -> None:
    """#130 x-delivery-limit n: n redeliveries. Classic queues take it too."""
    ch = Pair().connect().channel()
    declare(ch, x_queue_type=queue_type, x_delivery_limit=limit)
    ch.publish(b"m", key="q")
    assert deliveries_until_gone(ch) == limit + 1
    assert fetch(ch, "dead").headers["x-first-death-reason"] == "delivery_limit"


def test_delivery_limit_can_be_lifted() -> None:
    """#130 -1 sets none."""
    ch = Pair().connect().channel()
    declare(ch, x_delivery_limit=Typed("I", -1))
    ch.publish(b"m", key="q")
    assert deliveries_until_gone(ch) == 100
    assert fetch(ch).headers["x-delivery-count"] == 100


def test_classic_queue_has_no_limit() -> None:
    """#130 without the argument a classic queue delivers for ever."""
    ch = Pair().connect().channel()
    declare(ch, x_queue_type="classic")
    ch.publish(b"m", key="q")
    assert deliveries_until_gone(ch) == 100


def test_limit_without_dead_letter_exchange_drops() -> None:
    """#130 #138 nowhere to go: gone."""
    ch = Pair().connect().channel()
    ch.declare("q", durable=True, arguments={**QUORUM, "x-delivery-limit": 1})
    ch.publish(b"m", key="q")
    assert deliveries_until_gone(ch) == 2


def test_dropped_connections_count_towards_the_limit() -> None:
    """#130 #113 a message that kills its consumers is stopped."""
    pair = Pair()
    watcher = pair.connect().channel()
    declare(watcher, x_delivery_limit=2)
    watcher.publish(b"poison", key="q")
    for _ in range(3):
        victim = pair.connect()
        ch = victim.channel()
        ch.consume("q")
        assert ch.bodies() == [b"poison"]
        victim.drop()
    assert watcher.drain("q") == []
    assert watcher.drain("dead") == [b"poison"]


def test_rejected_for_good_is_rejected() -> None:
    """#130 #131 requeue=false buries at once with reason rejected."""
    ch = Pair().connect().channel()
    declare(ch)
    ch.publish(b"m", key="q")
    ch.nack(fetch(ch).tag, requeue=False)
    assert fetch(ch, "dead").headers["x-first-death-reason"] == "rejected"


# ------------------------------------------------------------------------------------------------- the rest of a queue


def test_absent_priority_is_four() -> None:
    """#106 on a quorum queue a message without priority stands with level 4."""
    ch = Pair().connect().channel()
    declare(ch)
    for body, priority in ((b"3", 3), (b"absent", None), (b"4", 4), (b"5", 5)):
        ch.publish(body, key="q", priority=priority)
    assert ch.drain("q") == [b"5", b"absent", b"4", b"3"]


def test_get_on_a_single_active_consumer_quorum_queue() -> None:
    """#119 405, with or without a consumer."""
    ch = Pair().connect().channel()
    declare(ch, x_single_active_consumer=True)
    ch.send(commands.Basic.Get(queue="q"))
    ch.expect_close(
        405,
        "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. basic.get operations are not "
        "supported by quorum queues with single active consumer",
        commands.Basic.Get,
    )


def test_purge_and_global_qos_work() -> None:
    """#79 #122 the permissive side where RabbitMQ's versions differ."""
    ch = Pair().connect().channel()
    declare(ch)
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    ch.qos(1, is_global=True)
    ch.consume("q")
    assert ch.bodies() == [b"1"]
    assert ch.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk).message_count == 2


def test_requeue_goes_to_the_original_place() -> None:
    """#123 as on a classic queue."""
    ch = Pair().connect().channel()
    declare(ch)
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    held = [fetch(ch), fetch(ch)]
    for message in reversed(held):
        ch.nack(message.tag, requeue=True)
    assert ch.drain("q") == [b"1", b"2", b"3"]


def test_published_is_confirmed() -> None:
    """#94 persistent and transient."""
    ch = Pair().connect().channel()
    declare(ch)
    ch.confirm()
    ch.publish(b"1", key="q", delivery_mode=2)
    assert ch.expect_confirms() == [("ack", 1, False)]
    ch.publish(b"2", key="q")
    assert ch.expect_confirms() == [("ack", 2, False)]
