"""Prefetch: of consumers, of channels, of both; who waits for whose acks."""

from pamqp import commands

from interop.parity.conversations import conversation
from interop.parity.corpus.consuming import fill
from interop.parity.talk import Talk


@conversation
def of_consumers(talk: Talk) -> None:
    """For those that begin to consume afterwards."""
    ch = talk.connect().channel(confirms=True)
    queue, other = talk.name("q"), talk.name("other")
    ch.declare(queue)
    ch.declare(other)
    fill(ch, queue, 5)
    ch.qos(2)
    ch.consume(queue, "two")
    ch.qos(1)
    ch.ack(1)
    ch.nack(2)
    ch.ack(4, multiple=True)
    ch.cancel("two")
    ch.count(queue)
    fill(ch, other, 4)
    ch.consume(other, "one")
    ch.qos(0)
    ch.ack(0, multiple=True)
    ch.get(other)
    ch.ack(0, multiple=True)
    ch.qos(65535)
    ch.cancel("one")
    ch.consume(other, "all")


@conversation
def of_channels(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    fill(ch, queue, 8)
    ch.qos(2, is_global=True)
    ch.consume(queue, "c")
    ch.qos(3, is_global=True)
    ch.get(queue)
    ch.ack(1)
    ch.ack(2)
    ch.qos(1, is_global=True)
    ch.ack(3)
    ch.ack(0, multiple=True)
    ch.qos(0, is_global=True)
    ch.qos(1)
    ch.nack(0, multiple=True)
    ch.count(queue)


@conversation
def both(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    ch.qos(2)
    ch.qos(3, is_global=True)
    ch.consume(queue, "c")
    fill(ch, queue, 5)
    ch.ack(1)
    ch.ack(3, multiple=True)
    ch.count(queue)


@conversation
def one_ends_the_other(talk: Talk) -> None:
    """The one for consumers to come lifts the channel's."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    ch.consume(queue, "c")
    ch.qos(2, is_global=True)
    fill(ch, queue, 4)
    ch.qos(1)
    ch.ack(1)


@conversation
def after_get(talk: Talk) -> None:
    """A channel's prefetch that is set while it holds what it got."""
    talk.patience_s = 0.3
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    fill(ch, queue, 2)
    ch.get(queue)
    ch.qos(1, is_global=True)
    ch.consume(queue, "c")


@conversation
def without_acks(talk: Talk) -> None:
    """Who need not ack has no prefetch of its own, but waits for its channel's."""
    ch = talk.connect().channel(confirms=True)
    queue, other = talk.name("q"), talk.name("other")
    ch.declare(queue)
    ch.declare(other)
    ch.qos(1)
    ch.consume(other, "free", no_ack=True)
    fill(ch, other, 3)
    ch.qos(1, is_global=True)
    ch.consume(queue, "acks")
    fill(ch, queue, 1)
    fill(ch, other, 2)
    ch.ack(4)


@conversation
def tags_used_again(talk: Talk) -> None:
    """A consumer with the tag of one that was cancelled and still holds something."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    ch.consume(queue, "c")
    fill(ch, queue, 1)
    ch.cancel("c")
    ch.qos(1)
    ch.consume(queue, "c")
    ch.ack(1)
    fill(ch, queue, 2)


@conversation
def sizes(talk: Talk) -> None:
    client = talk.connect()
    for fields in ({"prefetch_size": 1}, {"prefetch_size": 2**32 - 1, "global_": True}):
        client.channel().say(commands.Basic.Qos, prefetch_count=1, **fields)
