"""Acks, nacks and rejects: one, many, all, twice, unknown, and on the wrong channel."""

import pytest
from pamqp import base, commands

from tests.support.pair import Channel, Message, Pair


def unknown(tag: int) -> str:
    return f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def holding(ch: Channel, count: int = 5, queue: str = "q") -> list[Message]:
    """Bodies 1 to count published to the queue and delivered to the channel, all unacked: their tags are 1 to count."""
    ch.declare(queue)
    for n in range(1, count + 1):
        ch.publish(b"%d" % n, key=queue)
    ch.consume(queue)
    return ch.deliveries()


def given_back(ch: Channel, queue: str = "q") -> list[bytes]:
    """What another channel finds in the queue after this one has gone: whatever was not settled."""
    ch.close()
    return ch.client.channel().drain(queue)


METHODS = [
    pytest.param(lambda tag, multiple: commands.Basic.Ack(delivery_tag=tag, multiple=multiple), id="ack"),
    pytest.param(
        lambda tag, multiple: commands.Basic.Nack(delivery_tag=tag, multiple=multiple, requeue=False), id="nack"
    ),
]
ANY_METHOD = [
    pytest.param(commands.Basic.Ack(delivery_tag=7), id="ack"),
    pytest.param(commands.Basic.Nack(delivery_tag=7, requeue=True), id="nack"),
    pytest.param(commands.Basic.Reject(delivery_tag=7, requeue=True), id="reject"),
]


@pytest.mark.parametrize("method", ANY_METHOD)
def test_unknown_tag(method: base.Frame) -> None:
    """#109 406 naming the very method; what the channel held goes back to the queue."""
    client = Pair().connect()
    ch = client.channel()
    assert len(holding(ch, 3)) == 3
    ch.send(method)
    ch.expect_close(406, unknown(7), type(method))
    assert client.channel().drain("q") == [b"1", b"2", b"3"]


@pytest.mark.parametrize("method", ANY_METHOD)
def test_tag_on_a_channel_that_was_given_nothing(method: base.Frame) -> None:
    """#109 the same where nothing was ever delivered."""
    ch = Pair().connect().channel()
    ch.send(method)
    ch.expect_close(406, unknown(7), type(method))


def test_acking_twice() -> None:
    """#109 a settled tag is unknown."""
    ch = Pair().connect().channel()
    holding(ch)
    ch.ack(2)
    ch.expect_nothing()
    ch.ack(2)
    ch.expect_close(406, unknown(2), commands.Basic.Ack)


def test_acking_what_a_multiple_ack_covered() -> None:
    """#109 covered is settled."""
    ch = Pair().connect().channel()
    holding(ch)
    ch.ack(3, multiple=True)
    ch.expect_nothing()
    ch.reject(2)
    ch.expect_close(406, unknown(2), commands.Basic.Reject)


def test_no_ack_delivery_cannot_be_acked() -> None:
    """#109 it was settled when it was sent."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"m", key="q")
    assert ch.get("q", no_ack=True) is not None
    ch.ack(1)
    ch.expect_close(406, unknown(1), commands.Basic.Ack)


def test_huge_tag_is_told_whole() -> None:
    """#109 all 64 bits."""
    ch = Pair().connect().channel()
    ch.ack(2**63 - 1)
    ch.expect_close(406, unknown(2**63 - 1), commands.Basic.Ack)


def test_acks_in_any_order() -> None:
    """#109 out of order, each exactly itself."""
    ch = Pair().connect().channel()
    holding(ch)
    for tag in (4, 1, 5):
        ch.ack(tag)
    ch.expect_nothing()
    assert given_back(ch) == [b"2", b"3"]


def test_multiple_ack_covers_what_is_below() -> None:
    """#110 up to and including the tag, across settled ones, not beyond."""
    ch = Pair().connect().channel()
    holding(ch)
    ch.ack(2)
    ch.ack(4, multiple=True)
    ch.expect_nothing()
    assert given_back(ch) == [b"5"]


def test_multiple_ack_covers_every_queue_and_get() -> None:
    """#110 the channel's row of tags counts, whatever queue and however received."""
    client = Pair().connect()
    ch = client.channel()
    holding(ch, 2, "q")
    ch.declare("r")
    ch.publish(b"got", key="r")
    ch.publish(b"kept", key="r")
    assert ch.get("r", no_ack=False) is not None
    assert ch.get("r", no_ack=False) is not None
    ch.ack(3, multiple=True)
    ch.expect_nothing()
    ch.close()
    assert (client.channel().drain("q"), client.channel().drain("r")) == ([], [b"kept"])


@pytest.mark.parametrize("method", METHODS)
def test_multiple_zero_is_everything(method: object) -> None:
    """#110 tag 0 with multiple settles all that is outstanding."""
    assert callable(method)
    ch = Pair().connect().channel()
    holding(ch)
    ch.send(method(0, True))
    ch.expect_nothing()
    assert given_back(ch) == []


@pytest.mark.parametrize("method", METHODS)
def test_multiple_zero_of_nothing(method: object) -> None:
    """#110 no error when nothing is outstanding, never was or no more."""
    assert callable(method)
    ch = Pair().connect().channel()
    ch.send(method(0, True))
    ch.expect_nothing()
    holding(ch)
    ch.send(method(0, True))
    ch.send(method(0, True))
    ch.expect_nothing()


@pytest.mark.parametrize("method", METHODS)
def test_zero_alone_is_unknown(method: object) -> None:
    """#110 tag 0 without multiple is no tag."""
    assert callable(method)
    ch = Pair().connect().channel()
    holding(ch)
    sent = method(0, False)
    ch.send(sent)
    ch.expect_close(406, unknown(0), type(sent))


@pytest.mark.parametrize("method", METHODS)
def test_multiple_with_a_tag_beyond(method: object) -> None:
    """#111 a tag that was never given is unknown, although lower ones are outstanding; none of them is settled."""
    assert callable(method)
    client = Pair().connect()
    ch = client.channel()
    holding(ch, 3)
    sent = method(4, True)
    ch.send(sent)
    ch.expect_close(406, unknown(4), type(sent))
    assert client.channel().drain("q") == [b"1", b"2", b"3"]


def test_multiple_with_a_settled_tag() -> None:
    """#111 the tag itself must be outstanding; a lower one that is does not help, and is not settled."""
    client = Pair().connect()
    ch = client.channel()
    holding(ch, 3)
    ch.ack(2)
    ch.ack(2, multiple=True)
    ch.expect_close(406, unknown(2), commands.Basic.Ack)
    assert client.channel().drain("q") == [b"1", b"3"]


def test_ack_on_another_channel() -> None:
    """#112 tags belong to the channel they were given on: the other channel is closed, the holder keeps its message."""
    client = Pair().connect()
    ch, other = client.channel(), client.channel()
    holding(ch, 1)
    other.ack(1)
    other.expect_close(406, unknown(1), commands.Basic.Ack)
    ch.ack(1)
    ch.expect_nothing()
    assert given_back(ch) == []


def test_acks_after_the_channel_failed_are_ignored() -> None:
    """#9 #109 acks sent before the client saw the close do no harm."""
    client = Pair().connect()
    ch = client.channel()
    holding(ch, 3)
    ch.ack(9)
    ch.ack(1)
    ch.ack(0, multiple=True)
    ch.expect_close(406, unknown(9), commands.Basic.Ack)
    assert client.channel().drain("q") == [b"1", b"2", b"3"]


@pytest.mark.parametrize("how", ["nack", "reject"])
def test_refused_without_dead_letter_exchange_is_gone(how: str) -> None:
    """#123 requeue=false and no DLX: the message is dropped."""
    ch = Pair().connect().channel()
    held = holding(ch, 2)
    if how == "nack":
        ch.nack(held[0].tag, requeue=False)
    else:
        ch.reject(held[0].tag, requeue=False)
    ch.expect_nothing()
    assert given_back(ch) == [b"2"]


def test_nack_multiple() -> None:
    """#110 #123 covers like ack and requeues in order."""
    client = Pair().connect()
    ch = client.channel()
    held = holding(ch)
    ch.call(commands.Basic.Cancel(consumer_tag=_consumer_tag(held[0])), commands.Basic.CancelOk)
    ch.nack(3, multiple=True, requeue=True)
    ch.expect_nothing()
    assert client.channel().drain("q") == [b"1", b"2", b"3"]
    assert given_back(ch) == [b"4", b"5"]


def _consumer_tag(message: Message) -> str:
    assert isinstance(message.method, commands.Basic.Deliver)
    return message.method.consumer_tag or ""
