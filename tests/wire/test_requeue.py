"""How unsettled messages come back: when, flagged redelivered, and to the place they had."""

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.pair import Channel, Message, Pair


def filled(ch: Channel, count: int = 5) -> None:
    ch.declare("q")
    for n in range(1, count + 1):
        ch.publish(b"%d" % n, key="q")


def take(ch: Channel, count: int) -> list[Message]:
    """Get so many, unacked."""
    messages = [ch.get("q", no_ack=False) for _ in range(count)]
    assert None not in messages
    return [message for message in messages if message is not None]


def drain(ch: Channel) -> list[tuple[bytes, bool]]:
    """Everything ready as (body, redelivered)."""
    messages = []
    while (message := ch.get("q")) is not None:
        messages.append((message.body, message.redelivered))
    return messages


# ------------------------------------------------------------------------------------------------------ when it comes


@pytest.mark.parametrize("ending", ["channel", "connection", "drop", "error"])
def test_loss_gives_back_what_was_unacked(ending: str) -> None:
    """#113 the end of the channel or the connection, proper or not, requeues and flags as redelivered."""
    pair = Pair()
    client, watcher = pair.connect(), pair.connect().channel()
    ch = client.channel()
    filled(ch, 4)
    got = take(ch, 1)
    ch.qos(2)
    ch.consume("q")
    delivered = ch.deliveries()
    ch.ack(delivered[0].tag)
    ch.deliveries()
    assert got
    if ending == "channel":
        ch.close()
    elif ending == "connection":
        client.close()
    elif ending == "drop":
        client.drop()
    else:
        ch.ack(99)
    assert drain(watcher) == [(b"1", True), (b"3", True), (b"4", True)]


def test_loss_gives_to_a_waiting_consumer() -> None:
    """#113 another consumer of the queue is served at once."""
    pair = Pair()
    holder, other = pair.connect(), pair.connect().channel()
    ch = holder.channel()
    filled(ch, 2)
    ch.consume("q")
    assert len(ch.deliveries()) == 2
    other.consume("q")
    other.expect_nothing()
    holder.drop()
    assert [(message.body, message.redelivered) for message in other.deliveries()] == [(b"1", True), (b"2", True)]


def test_cancel_gives_nothing_back() -> None:
    """#113 a cancelled consumer's messages stay with the channel, which may still ack them."""
    client = Pair().connect()
    ch = client.channel()
    filled(ch, 2)
    ch.consume("q", "c")
    held = ch.deliveries()
    ch.call(commands.Basic.Cancel(consumer_tag="c"), commands.Basic.CancelOk)
    assert client.channel().drain("q") == []
    ch.ack(held[0].tag)
    ch.expect_nothing()
    ch.close()
    assert drain(client.channel()) == [(b"2", True)]


def test_redelivered_is_for_those_that_were_out() -> None:
    """#113 messages nobody had yet are not flagged, neither those published later."""
    ch = Pair().connect().channel()
    filled(ch, 3)
    ch.nack(take(ch, 1)[0].tag, requeue=True)
    ch.publish(b"4", key="q")
    assert drain(ch) == [(b"1", True), (b"2", False), (b"3", False), (b"4", False)]


def test_redelivered_stays() -> None:
    """#113 once out, flagged for every later delivery."""
    ch = Pair().connect().channel()
    filled(ch, 1)
    flags = []
    for _ in range(4):
        (message,) = take(ch, 1)
        flags.append(message.redelivered)
        ch.reject(message.tag, requeue=True)
    assert flags == [False, True, True, True]


# ---------------------------------------------------------------------------------------------------- where it comes


def test_requeue_goes_to_the_original_place() -> None:
    """#123 before everything published later, whatever was taken meanwhile."""
    ch = Pair().connect().channel()
    filled(ch)
    held = take(ch, 3)
    ch.nack(held[1].tag, requeue=True)
    assert drain(ch) == [(b"2", True), (b"4", False), (b"5", False)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("how", ["nack", "reject"])
def test_order_of_requeueing_does_not_matter(order: tuple[int, ...], how: str) -> None:
    """#123 each returns to its own place."""
    ch = Pair().connect().channel()
    filled(ch)
    held = take(ch, 3)
    for at in order:
        if how == "nack":
            ch.nack(held[at].tag, requeue=True)
        else:
            ch.reject(held[at].tag, requeue=True)
    assert [body for body, _ in drain(ch)] == [b"1", b"2", b"3", b"4", b"5"]


def test_requeue_multiple_keeps_the_order() -> None:
    """#123 a whole batch at once."""
    ch = Pair().connect().channel()
    filled(ch)
    take(ch, 4)
    ch.nack(0, multiple=True, requeue=True)
    assert [body for body, _ in drain(ch)] == [b"1", b"2", b"3", b"4", b"5"]


def test_requeue_between_others_that_were_requeued() -> None:
    """#123 places are kept among several holders, in whatever order they let go."""
    pair = Pair()
    one, two, three = (pair.connect().channel() for _ in range(3))
    filled(one, 6)
    held = [take(ch, 1)[0] for ch in (one, two, three, one, two)]
    two.nack(held[4].tag, requeue=True)
    one.nack(held[0].tag, requeue=True)
    three.close()
    one.nack(held[3].tag, requeue=True)
    assert [body for body, _ in drain(one)] == [b"1", b"3", b"4", b"5", b"6"]
    two.close()
    assert drain(one) == [(b"2", True)]


def test_requeue_is_delivered_before_younger_ones() -> None:
    """#123 a consumer that requeues gets the same message again, before what is behind it."""
    ch = Pair().connect().channel()
    filled(ch, 3)
    ch.qos(1)
    ch.consume("q")
    first = ch.expect_message()
    ch.nack(first.tag, requeue=True)
    again = ch.expect_message()
    assert (again.body, again.redelivered, again.tag) == (b"1", True, 2)
    ch.ack(again.tag)
    assert ch.bodies() == [b"2"]


# ------------------------------------------------------------------------------------------------------------ recover


def test_recover_without_requeue_is_not_implemented() -> None:
    """#124 540, closing the connection."""
    client = Pair().connect()
    client.channel().send(commands.Basic.Recover(requeue=False))
    client.expect_close(540, "NOT_IMPLEMENTED - requeue=false", commands.Basic.Recover)


def test_recover_async_without_requeue_is_not_implemented() -> None:
    """#124 the same for the old method."""
    client = Pair().connect()
    client.feed(frames.method_frame(client.channel().number, 60, 100, b"\x00"))
    client.expect_close(540, "NOT_IMPLEMENTED - requeue=false", (60, 100))


def test_recover_requeues_everything() -> None:
    """#124 recover-ok, and what was delivered and got is ready again at its place; the old tags are unknown."""
    client = Pair().connect()
    ch = client.channel()
    filled(ch, 4)
    take(ch, 3)
    ch.call(commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
    assert drain(client.channel()) == [(b"1", True), (b"2", True), (b"3", True), (b"4", False)]
    ch.ack(1)
    ch.expect_close(406, "PRECONDITION_FAILED - unknown delivery tag 1", commands.Basic.Ack)


def test_recover_redelivers_to_the_consumer() -> None:
    """#124 with new tags, after recover-ok."""
    ch = Pair().connect().channel()
    filled(ch, 2)
    ch.consume("q")
    assert [message.tag for message in ch.deliveries()] == [1, 2]
    ch.send(commands.Basic.Recover(requeue=True))
    ch.expect(commands.Basic.RecoverOk)
    again = ch.deliveries()
    assert [(message.body, message.tag, message.redelivered) for message in again] == [(b"1", 3, True), (b"2", 4, True)]


def test_recover_is_for_one_channel() -> None:
    """#124 what other channels hold stays with them."""
    client = Pair().connect()
    ch, other = client.channel(), client.channel()
    filled(ch, 2)
    take(ch, 1)
    take(other, 1)
    ch.call(commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
    assert drain(ch) == [(b"1", True)]


def test_recover_async_gets_no_reply() -> None:
    """#124 the same work in silence."""
    ch = Pair().connect().channel()
    filled(ch, 2)
    take(ch, 2)
    ch.feed(frames.method_frame(ch.number, 60, 100, b"\x01"))
    ch.expect_nothing()
    assert drain(ch) == [(b"1", True), (b"2", True)]


def test_recover_with_nothing_held() -> None:
    """#124 answered all the same."""
    ch = Pair().connect().channel()
    ch.call(commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
    ch.expect_nothing()
