"""x-single-active-consumer: one consumer gets everything, the next takes over."""

import pytest
from pamqp import commands

from tests.support.pair import Channel, Pair

SINGLE = {"x-single-active-consumer": True}


def publish(ch: Channel, *bodies: bytes) -> None:
    for body in bodies:
        ch.publish(body, key="q")


def test_only_the_first_consumer_gets_messages() -> None:
    """#127 in order of arrival; the others count as consumers and wait."""
    pair = Pair()
    channels = [pair.connect().channel() for _ in range(3)]
    channels[0].declare("q", arguments=SINGLE)
    for ch in channels:
        ch.consume("q", "c")
    publish(channels[0], b"1", b"2", b"3")
    assert [ch.bodies() for ch in channels] == [[b"1", b"2", b"3"], [], []]
    assert channels[0].declare("q", passive=True).consumer_count == 3


def test_waiting_consumers_do_not_help_out() -> None:
    """#127 the active one at its prefetch: the message waits for it."""
    client = Pair().connect()
    active, waiting = client.channel(), client.channel()
    active.declare("q", arguments=SINGLE)
    active.qos(1)
    active.consume("q", "a")
    waiting.consume("q", "w")
    publish(active, b"1", b"2")
    first = active.expect_message()
    waiting.expect_nothing()
    active.ack(first.tag)
    assert active.bodies() == [b"2"]
    waiting.expect_nothing()


@pytest.mark.parametrize("ending", ["channel", "connection", "drop"])
def test_next_one_takes_over_with_what_was_unacked_first(ending: str) -> None:
    """#127 what the lost one held is requeued before anything is handed to its heir: order is kept."""
    pair = Pair()
    client = pair.connect()
    active, heir, third = client.channel(), pair.connect().channel(), pair.connect().channel()
    active.declare("q", arguments=SINGLE)
    active.qos(2)
    active.consume("q", "a")
    heir.consume("q", "h")
    third.consume("q", "t")
    publish(active, b"1", b"2", b"3", b"4")
    held = active.deliveries()
    active.ack(held[0].tag)
    assert active.bodies() == [b"3"]
    if ending == "channel":
        active.close()
    elif ending == "connection":
        client.close()
    else:
        client.drop()
    assert [(message.body, message.redelivered) for message in heir.deliveries()] == [
        (b"2", True),
        (b"3", True),
        (b"4", False),
    ]
    third.expect_nothing()


@pytest.mark.parametrize("ending", ["channel", "drop"])
def test_next_one_waits_until_all_has_come_back(ending: str) -> None:
    """#127 also where that takes many turns, and other clients are served in between."""
    pair = Pair()
    active, heir = pair.connect().channel(), pair.connect().channel()
    active.declare("q", arguments=SINGLE)
    active.qos(100)
    active.consume("q", "a")
    heir.consume("q", "h")
    bodies = [b"%d" % number for number in range(150)]
    publish(active, *bodies)
    assert active.bodies() == bodies[:100]
    pair.broker.turn.stride = 1
    pair.clock.tick_ns = 10_000_000  # each look at the clock finds the turn's time over
    if ending == "channel":
        active.send(commands.Channel.Close(200, "", 0, 0))
    else:
        active.client.drop()
    for _ in range(500):
        pair.clock.advance(1)
    assert heir.bodies() == bodies


def test_cancel_hands_over() -> None:
    """#127 a cancelled consumer keeps its unacked messages; what comes next goes to the heir."""
    client = Pair().connect()
    active, heir = client.channel(), client.channel()
    active.declare("q", arguments=SINGLE)
    active.qos(1)
    active.consume("q", "a")
    heir.consume("q", "h")
    publish(active, b"1", b"2")
    held = active.expect_message()
    active.call(commands.Basic.Cancel(consumer_tag="a"), commands.Basic.CancelOk)
    assert heir.bodies() == [b"2"]
    active.nack(held.tag, requeue=True)
    again = heir.expect_message()
    assert (again.body, again.redelivered) == (b"1", True)


def test_two_consumers_of_one_channel() -> None:
    """#127 it is about consumers, not channels."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments=SINGLE)
    ch.consume("q", "a")
    ch.consume("q", "b")
    publish(ch, b"1", b"2")
    tags = [getattr(message.method, "consumer_tag", "") for message in ch.deliveries()]
    assert tags == ["a", "a"]
    ch.call(commands.Basic.Cancel(consumer_tag="a"), commands.Basic.CancelOk)
    publish(ch, b"3")
    assert [getattr(message.method, "consumer_tag", "") for message in ch.deliveries()] == ["b"]


def test_the_next_one_is_the_one_of_the_highest_priority() -> None:
    """#127 #125 whoever waits with the highest x-priority takes over, not the active one's place while it is there."""
    client = Pair().connect()
    channels = [client.channel() for _ in range(4)]
    channels[0].declare("q", arguments=SINGLE)
    for ch, priority in zip(channels, (0, 1, 5, 5), strict=True):
        ch.consume("q", "c", arguments={"x-priority": priority})
    publish(channels[0], b"1")
    assert [ch.bodies() for ch in channels] == [[b"1"], [], [], []]
    channels[0].close()
    publish(channels[1], b"2")
    assert [ch.bodies() for ch in channels[1:]] == [[], [b"1", b"2"], []]


def test_returning_consumer_goes_to_the_end() -> None:
    """#127 being active is not remembered."""
    client = Pair().connect()
    one, two = client.channel(), client.channel()
    one.declare("q", arguments=SINGLE)
    one.consume("q", "c")
    two.consume("q", "c")
    one.call(commands.Basic.Cancel(consumer_tag="c"), commands.Basic.CancelOk)
    one.consume("q", "c")
    publish(one, b"m")
    one.expect_nothing()
    assert two.bodies() == [b"m"]


def test_get_beside_the_active_consumer() -> None:
    """#127 #119 a classic queue still answers basic.get."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments=SINGLE)
    ch.qos(1)
    ch.consume("q", "a")
    publish(ch, b"1", b"2")
    assert ch.bodies() == [b"1"]
    assert ch.drain("q") == [b"2"]
