"""Who gets the next message, how consumers begin and end, and what the server says when it ends one."""

import re

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.pair import Channel, Client, Pair, Typed, loose

IN_USE = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"


def publish(ch: Channel, count: int, queue: str = "q", start: int = 0) -> None:
    for n in range(start, start + count):
        ch.publish(b"%d" % n, key=queue)


def cancel(ch: Channel, tag: str) -> None:
    assert ch.call(commands.Basic.Cancel(consumer_tag=tag), commands.Basic.CancelOk).consumer_tag == tag


def received(ch: Channel) -> list[tuple[str, bytes]]:
    """(consumer tag, body) of every delivery on the channel."""
    return [
        (message.method.consumer_tag or "", message.body)
        for message in ch.deliveries()
        if isinstance(message.method, commands.Basic.Deliver)
    ]


def order(ch: Channel) -> str:
    """The one-letter consumer tags of every delivery on the channel, in order."""
    return "".join(tag for tag, _ in received(ch))


# ---------------------------------------------------------------------------------------------------- begin and end


def test_cancel_of_an_unknown_tag() -> None:
    """#114 cancel-ok all the same, also for a tag cancelled before."""
    ch = Pair().connect().channel()
    cancel(ch, "nobody")
    ch.declare("q")
    ch.consume("q", "c")
    cancel(ch, "c")
    cancel(ch, "c")


def test_cancel_with_nowait() -> None:
    """#114 no cancel-ok, and no more deliveries."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.consume("q", "c")
    ch.send(commands.Basic.Cancel(consumer_tag="c", nowait=True))
    ch.send(commands.Basic.Cancel(consumer_tag="nobody", nowait=True))
    publish(ch, 1)
    ch.expect_nothing()
    assert ch.declare("q", passive=True).consumer_count == 0


def test_nothing_is_delivered_after_cancel_ok() -> None:
    """#114 publishes before, between and behind the cancel in one read: deliveries stand before cancel-ok only."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.consume("q", "c", no_ack=True)
    one = (
        frames.encode_method(commands.Basic.Publish(routing_key="q"), ch.number)
        + frames.header_frame(ch.number, 1)
        + frames.body_frame(ch.number, b"m")
    )
    ch.feed(one * 3 + frames.encode_method(commands.Basic.Cancel(consumer_tag="c"), ch.number) + one * 2)
    delivered = 0
    while not isinstance(ch.client.received()[0].frame, commands.Basic.CancelOk):
        ch.expect_message()
        delivered += 1
    ch.expect(commands.Basic.CancelOk)
    ch.expect_nothing()
    assert delivered + len(ch.drain("q")) == 5


def test_tag_cannot_be_used_twice_on_a_channel() -> None:
    """#115 530 closes the connection, whichever queue the second one is for."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    ch.declare("r")
    ch.consume("q", "x")
    ch.send(commands.Basic.Consume(queue="r", consumer_tag="x"))
    client.expect_close(530, "NOT_ALLOWED - attempt to reuse consumer tag 'x'", commands.Basic.Consume)


def test_tag_is_free_after_cancel() -> None:
    """#115 cancelled, it may be used again."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.consume("q", "x")
    cancel(ch, "x")
    assert ch.consume("q", "x") == "x"


def test_tag_may_be_used_on_another_channel() -> None:
    """#115 tags belong to the channel."""
    client = Pair().connect()
    one, two = client.channel(), client.channel()
    one.declare("q")
    assert (one.consume("q", "x"), two.consume("q", "x")) == ("x", "x")


def test_server_makes_a_tag() -> None:
    """#115 an empty tag becomes amq.ctag- and 22 characters, another each time, and is the tag of the deliveries."""
    ch = Pair().connect().channel()
    ch.declare("q")
    first, second = ch.consume("q"), ch.consume("q")
    assert first != second
    assert all(re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", tag) for tag in (first, second))
    publish(ch, 1)
    assert received(ch) == [(first, b"0")]


def test_most_consumers_of_a_channel() -> None:
    """#115 one beyond consumer_max_per_channel is 530."""
    client = Pair(consumer_max_per_channel=2).connect()
    ch = client.channel()
    ch.declare("q")
    ch.consume("q", "a")
    ch.consume("q", "b")
    ch.send(commands.Basic.Consume(queue="q", consumer_tag="c"))
    client.expect_close(530, "NOT_ALLOWED - reached maximum (2) of consumers per channel", commands.Basic.Consume)


# -------------------------------------------------------------------------------------------------------- exclusive


@pytest.mark.parametrize(("first", "second"), [(True, False), (True, True), (False, True)])
def test_exclusive_consumer_is_alone(first: bool, second: bool) -> None:
    """#117 nobody beside an exclusive consumer, and no exclusive one beside others."""
    pair = Pair()
    holder, other = pair.connect().channel(), pair.connect().channel()
    holder.declare("q")
    holder.consume("q", "c", exclusive=first)
    other.send(loose(commands.Basic.Consume, queue="q", exclusive=second))
    other.expect_close(403, IN_USE, commands.Basic.Consume)
    publish(holder, 1)
    assert received(holder) == [("c", b"0")]


def test_exclusive_ends_with_its_consumer() -> None:
    """#117 cancelled or gone, the queue is free; basic.get was allowed all the time."""
    pair = Pair()
    holder, other = pair.connect(), pair.connect().channel()
    ch = holder.channel()
    ch.declare("q")
    ch.qos(1)
    ch.consume("q", "c", exclusive=True)
    publish(ch, 2)
    assert len(ch.deliveries()) == 1
    assert other.drain("q") == [b"1"]
    cancel(ch, "c")
    other.consume("q", "c", exclusive=True)
    cancel(other, "c")
    ch.consume("q", "c", exclusive=True)
    holder.drop()
    assert other.consume("q", "d") == "d"


def test_exclusive_consumer_on_a_single_active_consumer_queue() -> None:
    """#117 the two ways of being alone exclude each other."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-single-active-consumer": True})
    ch.send(loose(commands.Basic.Consume, queue="q", exclusive=True))
    ch.expect_close(403, IN_USE, commands.Basic.Consume)


# ------------------------------------------------------------------------------------------------------ round robin


def three_consumers(client: Client, prefetch: int = 0) -> Channel:
    ch = client.channel()
    ch.declare("q")
    ch.qos(prefetch)
    for tag in "abc":
        ch.consume("q", tag)
    return ch


def test_consumers_take_turns() -> None:
    """#125 published one by one, each consumer gets every third message."""
    ch = three_consumers(Pair().connect())
    publish(ch, 7)
    assert order(ch) == "abcabca"


def test_consumers_take_turns_within_one_read() -> None:
    """#125 the same when all messages come in one piece of bytes."""
    ch = three_consumers(Pair().connect())
    one = (
        frames.encode_method(commands.Basic.Publish(routing_key="q"), ch.number)
        + frames.header_frame(ch.number, 1)
        + frames.body_frame(ch.number, b"m")
    )
    ch.feed(one * 7)
    assert order(ch) == "abcabca"


def test_consumers_of_different_connections_take_turns() -> None:
    """#125 turns go over all consumers of the queue, wherever they are."""
    pair = Pair()
    channels = [pair.connect().channel() for _ in range(3)]
    channels[0].declare("q")
    for ch in channels:
        ch.consume("q", no_ack=True)
    publish(channels[0], 6)
    assert [ch.bodies() for ch in channels] == [[b"0", b"3"], [b"1", b"4"], [b"2", b"5"]]


def test_turns_skip_those_without_credit() -> None:
    """#125 a consumer at its prefetch is passed over and takes part again after its ack."""
    ch = three_consumers(Pair().connect(), prefetch=2)
    publish(ch, 5)
    held = ch.deliveries()
    tags = {
        consumer: [message.tag for message in held if getattr(message.method, "consumer_tag", "") == consumer]
        for consumer in "abc"
    }
    assert [len(tags[consumer]) for consumer in "abc"] == [2, 2, 1]
    publish(ch, 3, start=5)
    assert received(ch) == [("c", b"5")]
    ch.ack(tags["b"][0])
    assert received(ch) == [("b", b"6")]
    ch.ack(tags["a"][1])
    assert received(ch) == [("a", b"7")]


def test_backlog_is_shared_as_consumers_free_themselves() -> None:
    """#125 fair dispatch: whoever acks gets the next, the slow one is not waited for."""
    client = Pair().connect()
    slow, fast = client.channel(), client.channel()
    slow.declare("q")
    publish(slow, 5)
    for ch in (slow, fast):
        ch.qos(1)
        ch.consume("q")
    bodies = []
    assert slow.bodies() == [b"0"]
    while (delivered := fast.deliveries()) != []:
        bodies += [message.body for message in delivered]
        fast.ack(delivered[-1].tag)
    assert bodies == [b"1", b"2", b"3", b"4"]
    slow.expect_nothing()


def test_cancelled_consumer_has_no_turn() -> None:
    """#125 #114 the others go on in turn."""
    ch = three_consumers(Pair().connect())
    publish(ch, 2)
    assert order(ch) == "ab"
    cancel(ch, "b")
    publish(ch, 4, start=2)
    assert order(ch) == "caca"


def test_turns_go_on_where_they_were_when_several_leave() -> None:
    """#125 #114 whose turn it was keeps it, however many of those before it have gone."""
    ch = three_consumers(Pair().connect())
    ch.consume("q", "d")
    publish(ch, 3)
    assert order(ch) == "abc"
    cancel(ch, "a")
    cancel(ch, "b")
    publish(ch, 4, start=3)
    assert order(ch) == "dcdc"


# ------------------------------------------------------------------------------------------------- consumer priority


def test_higher_priority_first() -> None:
    """#125 the highest x-priority gets all while it has credit; the next only when it has none."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.qos(2)
    ch.consume("q", "l", arguments={"x-priority": -5})
    ch.consume("q", "m")
    ch.consume("q", "h", arguments={"x-priority": 10})
    publish(ch, 7)
    held = ch.deliveries()
    assert "".join(getattr(message.method, "consumer_tag", "") for message in held) == "hhmmll"
    ch.ack(held[1].tag)
    assert received(ch) == [("h", b"6")]


def test_equal_priorities_take_turns() -> None:
    """#125 among the highest, round robin."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.consume("q", "z")
    for tag in "ab":
        ch.consume("q", tag, arguments={"x-priority": 3})
    publish(ch, 4)
    assert order(ch) == "abab"
    cancel(ch, "a")
    cancel(ch, "b")
    publish(ch, 1)
    assert order(ch) == "z"


@pytest.mark.parametrize("kind", list("bBsuIilL"))
def test_priority_of_any_integer_type(kind: str) -> None:
    """#126 the width does not matter; it counts."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.consume("q", "low", arguments={"x-priority": 6})
    ch.consume("q", "high", arguments={"x-priority": Typed(kind, 7)})
    publish(ch, 1)
    assert received(ch) == [("high", b"0")]


@pytest.mark.parametrize(
    ("value", "name"),
    [("7", "longstr"), (True, "bool"), (Typed("d", 7.0), "double"), (Typed("V", None), "void"), ({}, "table")],
)
def test_priority_must_be_an_integer(value: object, name: str) -> None:
    """#126 406, and no consumer."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    ch.send(loose(commands.Basic.Consume, queue="q", arguments={"x-priority": value}))
    ch.expect_close(
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got {name}\"",
        commands.Basic.Consume,
    )
    assert client.channel().declare("q", passive=True).consumer_count == 0


# ------------------------------------------------------------------------------------------------------ ack timeout


def timed_out(ch: Channel, timeout_ms: int) -> None:
    """channel.close with RabbitMQ's text, which blames no method."""
    ch.expect_close(
        406,
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {ch.number} timed out. Timeout value used: "
        f"{timeout_ms} ms. This timeout value can be configured, see consumers doc guide to learn more",
        None,
    )


#: The timeout is looked at now and then, not to the millisecond.
SLACK_MS = 60_000


@pytest.mark.parametrize("how", ["consume", "get"])
def test_unacked_too_long_closes_the_channel(how: str) -> None:
    """#128 the configured timeout, for deliveries and for gets; the message goes back."""
    pair = Pair(default_consumer_timeout_ms=1_800_000)
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    publish(ch, 1)
    if how == "consume":
        ch.consume("q")
        assert len(ch.deliveries()) == 1
    else:
        assert ch.get("q", no_ack=False) is not None
    pair.advance(1_799_000)
    ch.expect_nothing()
    pair.advance(1_000 + SLACK_MS)
    timed_out(ch, 1_800_000)
    message = client.channel().get("q")
    assert message is not None
    assert message.redelivered


def test_acked_in_time_the_channel_lives() -> None:
    """#128 the time runs for each delivery by itself, and stops with the ack."""
    pair = Pair(default_consumer_timeout_ms=600_000)
    ch = pair.connect().channel()
    ch.declare("q")
    ch.consume("q")
    for _ in range(5):
        publish(ch, 1)
        message = ch.expect_message()
        pair.advance(500_000)
        ch.ack(message.tag)
    pair.advance(5_000_000)
    ch.expect_nothing()


def test_queue_has_its_own_timeout() -> None:
    """#128 x-consumer-timeout of the queue, also where no timeout is configured."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-consumer-timeout": 120_000})
    ch.consume("q")
    publish(ch, 1)
    assert len(ch.deliveries()) == 1
    pair.advance(119_000)
    ch.expect_nothing()
    pair.advance(1_000 + SLACK_MS)
    timed_out(ch, 120_000)


def test_no_timeout_unless_configured() -> None:
    """#128 off by default."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    ch.consume("q")
    publish(ch, 1)
    assert len(ch.deliveries()) == 1
    pair.advance(10 * 24 * 3_600_000)
    ch.expect_nothing()
    ch.ack(1)
    ch.expect_nothing()


# ---------------------------------------------------------------------------------------------------- server cancel


def test_cancel_ok_from_the_client_is_tolerated() -> None:
    """#129 a client that answers the server's basic.cancel does no harm."""
    client = Pair().connect()
    ch, deleter = client.channel(), client.channel()
    ch.declare("q")
    ch.consume("q", "c")
    deleter.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    notice = ch.expect(commands.Basic.Cancel)
    assert (notice.consumer_tag, notice.nowait) == ("c", True)
    ch.send(commands.Basic.CancelOk(consumer_tag="c"))
    client.expect_nothing()
    ch.declare("q")
    assert ch.consume("q", "c") == "c"


def test_end_of_an_owner_leaves_other_queues_alone() -> None:
    """#129 #85 an owner's end takes its exclusive queues; consumers of shared queues are not cancelled."""
    pair = Pair()
    owner, other = pair.connect(), pair.connect().channel()
    ch = owner.channel()
    ch.declare("mine", exclusive=True)
    ch.declare("shared")
    ch.consume("mine", "m")
    other.consume("shared", "s")
    owner.close()
    other.expect_nothing()
    publish(other, 1, "shared")
    assert received(other) == [("s", b"0")]


def test_every_group_gets_all() -> None:
    """F2 two groups of three consumers, a queue for each: a group is given every message, one of its consumers each."""
    pair = Pair()
    publisher = pair.connect().channel()
    publisher.declare_exchange("orders", "fanout")
    groups: dict[str, list[Channel]] = {}
    for name in ("billing", "shipping"):
        publisher.declare(name)
        publisher.bind(name, "orders")
        groups[name] = [pair.connect().channel() for _ in range(3)]
        for ch in groups[name]:
            ch.consume(name)
    for number in range(1000):
        publisher.publish(b"%d" % number, "orders")
    for members in groups.values():
        shares = [[int(message.body) for message in ch.deliveries()] for ch in members]
        assert sorted(len(share) for share in shares) == [333, 333, 334]
        assert sorted(number for share in shares for number in share) == list(range(1000))
    # What one group gives back, the other does not hear of.
    groups["billing"][0].nack(1)
    again = [message for ch in groups["billing"] for message in ch.deliveries()]
    assert [(message.body, message.redelivered) for message in again] == [(b"0", True)]
    assert [message for ch in groups["shipping"] for message in ch.deliveries()] == []


@pytest.mark.parametrize("value", ["first", "nonsense", 5])
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_offsets_are_for_streams(queue_type: str, value: object) -> None:
    """#75 an argument the queue's type does not know is refused before its value is looked at."""
    ch = Pair().connect().channel()
    ch.declare("q", durable=True, arguments={"x-queue-type": queue_type})
    ch.send(loose(commands.Basic.Consume, queue="q", arguments={"x-stream-offset": value}))
    text = (
        "PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue 'q' in vhost '/' "
        f"of queue type rabbit_{queue_type}_queue"
    )
    ch.expect_close(406, text, commands.Basic.Consume)


def test_a_new_consumer_comes_last() -> None:
    """#125 also when the one before it has just been served: whoever comes stands behind all others."""
    client = Pair().connect()
    ch, first, second, third = (client.channel() for _ in range(4))
    ch.declare("q")
    first.consume("q", "first")
    publish(ch, 1)
    second.consume("q", "second")
    publish(ch, 1, start=1)
    third.consume("q", "third")
    publish(ch, 3, start=2)
    assert received(first) == [("first", b"0"), ("first", b"1"), ("first", b"3")]
    assert received(second) == [("second", b"2")]
    assert received(third) == [("third", b"4")]


def test_who_has_room_again_comes_last() -> None:
    """#125 the same for a consumer that was at its prefetch."""
    client = Pair().connect()
    ch, bounded, first, second = (client.channel() for _ in range(4))
    ch.declare("q")
    bounded.qos(1)
    bounded.consume("q", "bounded")
    first.consume("q", "first")
    second.consume("q", "second")
    publish(ch, 4)
    assert [body for _, body in received(bounded)] == [b"0"]
    bounded.ack(1)
    publish(ch, 3, start=4)
    assert [body for _, body in received(first)] == [b"1", b"3", b"5"]
    assert [body for _, body in received(second)] == [b"2", b"4"]
    assert [body for _, body in received(bounded)] == [b"6"]
