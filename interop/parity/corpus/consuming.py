"""Getting, consuming, cancelling, settling: what is delivered to whom, what goes back, and what is refused."""

from typing import Any

from pamqp import commands

from interop.parity.conversations import conversation
from interop.parity.talk import Talk, Voice
from tests.support.frames import Typed


def fill(ch: Voice, queue: str, count: int, **fields: Any) -> None:
    for number in range(count):
        ch.publish(b"%d" % number, key=queue, **fields)


@conversation
def gets(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    with ch.refused():
        ch.get(queue)
    ch.say(commands.Confirm.Select)
    ch.declare(queue)
    ch.get(queue)
    fill(ch, queue, 3)
    ch.get(queue)
    ch.get(queue, no_ack=True)
    ch.get(queue)
    ch.get(queue)
    ch.nack(1, multiple=False)
    ch.count(queue)
    ch.get(queue)
    ch.close()


@conversation
def wrong_tags(talk: Talk) -> None:
    """Every way to settle what is not there."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    for cls, fields in (
        (commands.Basic.Ack, {}),
        (commands.Basic.Ack, {"multiple": True}),
        (commands.Basic.Nack, {}),
        (commands.Basic.Nack, {"multiple": True, "requeue": False}),
        (commands.Basic.Reject, {}),
        (commands.Basic.Reject, {"requeue": False}),
    ):
        for tag in (0, 1, 2, 3, 7, 2**64 - 1):
            with ch.refused():
                ch.say(commands.Confirm.Select)
                fill(ch, queue, 2)
                ch.get(queue)
                ch.get(queue)
                ch.say(cls, delivery_tag=tag, **fields)
                ch.count(queue)
                ch.say(cls, delivery_tag=tag, **fields)
                ch.count(queue)
                ch.close()
            ch.count(queue)
            ch.say(commands.Queue.Purge, queue=queue)


@conversation
def settled_twice(talk: Talk) -> None:
    ch = talk.connect().channel()
    queue = talk.name("q")
    ch.declare(queue)
    for first, second in ((ch.ack, ch.ack), (ch.ack, ch.nack), (ch.nack, ch.reject), (ch.reject, ch.ack)):
        ch.publish(b"", key=queue)
        ch.get(queue)
        first(1)
        with ch.refused():
            second(1)
        ch.say(commands.Queue.Purge, queue=queue)


@conversation
def no_ack(talk: Talk) -> None:
    """What needs no ack cannot be acked, but has used up its tag."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    fill(ch, queue, 3)
    ch.consume(queue, "c", no_ack=True)
    ch.cancel("c")
    ch.publish(b"next", key=queue)
    ch.get(queue)
    ch.ack(4)
    with ch.refused():
        ch.ack(1)


@conversation
def consumer_tags(talk: Talk) -> None:
    client = talk.connect()
    ch = client.channel()
    queue = talk.name("q")
    ch.declare(queue)
    ch.consume(queue, "c")
    ch.consume(queue, "d" * 255)
    ch.consume(queue, "")
    ch.consume(queue, "e", nowait=True)
    other = client.channel(2)
    other.consume(queue, "c")
    ch.count(queue)
    ch.cancel("absent")
    ch.cancel("absent", nowait=True)
    ch.cancel("c")
    ch.cancel("c")
    ch.consume(queue, "c")
    ch.consume(queue, "c")
    client.channel().count(queue)


@conversation
def cancelled(talk: Talk) -> None:
    """Cancelling keeps what was delivered; it can still be settled."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    ch.consume(queue, "c")
    fill(ch, queue, 3)
    ch.cancel("c")
    ch.publish(b"later", key=queue)
    ch.count(queue)
    ch.ack(1)
    ch.reject(2)
    ch.count(queue)
    ch.nack(3, requeue=False)
    ch.consume(queue, "c")
    ch.cancel("c", nowait=True)
    ch.say(commands.Basic.Recover, requeue=True)
    ch.count(queue)


@conversation
def going_back(talk: Talk) -> None:
    """To the places they had, redelivered, whoever sends them back."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    fill(ch, queue, 6)
    for _ in range(5):
        ch.get(queue)
    ch.reject(2)
    ch.nack(4)
    ch.count(queue)
    ch.get(queue)
    ch.nack(3, multiple=True)
    ch.count(queue)
    other = client.channel(2)
    for _ in range(3):
        other.get(queue)
    other.close()
    ch.count(queue)
    ch.say(commands.Basic.Recover, requeue=True)
    ch.count(queue)
    ch.drain(queue, 6)


@conversation
def recover(talk: Talk) -> None:
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    ch.say(commands.Basic.Recover, requeue=True)
    fill(ch, queue, 2)
    ch.consume(queue, "c")
    ch.say(commands.Basic.Recover, requeue=True)
    ch.say(commands.Basic.RecoverAsync, requeue=True)
    ch.ack(0, multiple=True)
    ch.count(queue)
    ch.say(commands.Basic.Recover, requeue=False)
    client.channel().say(commands.Basic.RecoverAsync, requeue=False)


@conversation
def turns(talk: Talk) -> None:
    """Whose turn it is when one comes, goes, or has room again."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    voices = [client.channel(number) for number in (2, 3, 4, 5)]
    voices[0].consume(queue, "2")
    fill(ch, queue, 1)
    voices[1].consume(queue, "3")
    fill(ch, queue, 1)
    voices[2].qos(1)
    voices[2].consume(queue, "4")
    fill(ch, queue, 4)
    voices[3].consume(queue, "5")
    fill(ch, queue, 3)
    voices[2].ack(1)
    fill(ch, queue, 5)
    voices[1].cancel("3")
    fill(ch, queue, 4)
    voices[0].nack(0, multiple=True)


@conversation
def exclusive_consumers(talk: Talk) -> None:
    client = talk.connect()
    ch, other = client.channel(), client.channel(2)
    queue = talk.name("q")
    ch.declare(queue)
    ch.consume(queue, "c", exclusive=True)
    for exclusive in (False, True):
        with other.refused():
            other.consume(queue, "d", exclusive=exclusive)
    with ch.refused():
        ch.consume(queue, "d")
    ch.consume(queue, "c")
    with other.refused():
        other.consume(queue, "d", exclusive=True)
    other.consume(queue, "d")
    ch.count(queue)


@conversation
def consume_arguments(talk: Talk) -> None:
    ch = talk.connect().channel()
    queue = talk.name("q")
    ch.declare(queue)
    for name in ("x-priority", "x-cancel-on-ha-failover", "x-stream-offset", "x-unheard-of"):
        for value in (1, -1, 0, 2**40, "text", True, Typed("V", None), Typed("d", 1.0), [1], {"credit": 1}):
            with ch.refused():
                ch.consume(queue, "c", arguments={name: value})
            with ch.refused():
                ch.cancel("c")


@conversation
def flags(talk: Talk) -> None:
    """no-local is for nothing; an absent queue is told, also without an answer."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    for fields in ({}, {"nowait": True}, {"exclusive": True}):
        with ch.refused():
            ch.consume(queue, "c", **fields)
    ch.say(commands.Confirm.Select)
    ch.declare(queue)
    ch.consume(queue, "c", no_local=True)
    ch.publish(b"my own", key=queue)


@conversation
def priorities_of_consumers(talk: Talk) -> None:
    """The highest first, as long as it takes more."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    for number, priority in ((2, 5), (3, -1), (4, 10)):
        voice = client.channel(number)
        voice.qos(1)
        voice.consume(queue, f"p{priority}", arguments={"x-priority": priority})
    fill(ch, queue, 3)
    voice.ack(1)
    ch.publish(b"again", key=queue)
    ch.publish(b"waits", key=queue)
    voice.cancel("p10")
    voice.ack(2)
    client.channel(2).ack(1)


@conversation
def single_active(talk: Talk) -> None:
    client = talk.connect()
    ch = client.channel(confirms=True)
    first, second = client.channel(2), client.channel(3)
    queue = talk.name("q")
    ch.declare(queue, arguments={"x-single-active-consumer": True})
    first.consume(queue, "first")
    second.consume(queue, "second")
    fill(ch, queue, 3)
    first.ack(1)
    first.cancel("first")
    fill(ch, queue, 1)
    first.close()
    second.ack(0, multiple=True)
    with ch.refused():
        ch.consume(queue, "c", exclusive=True)
    ch.get(queue)
    ch.count(queue)


@conversation
def deleted_under_consumers(talk: Talk) -> None:
    """They are told; what they hold can still be settled."""
    client = talk.connect()
    ch, other = client.channel(confirms=True), client.channel(2)
    queue = talk.name("q")
    ch.declare(queue)
    other.consume(queue, "c")
    other.consume(queue, "d")
    fill(ch, queue, 1)
    ch.delete(queue)
    other.ack(1)
    other.cancel("c")
    with other.refused():
        other.ack(1)


@conversation
def told_nothing(talk: Talk) -> None:
    """A client that does not know basic.cancel from a broker is not told."""
    client = talk.connect("old", {"capabilities": {}})
    ch, other = client.channel(), client.channel(2)
    queue = talk.name("q")
    ch.declare(queue)
    other.consume(queue, "c")
    ch.delete(queue)
    other.cancel("c")


@conversation
def cancel_answered(talk: Talk) -> None:
    """A client may answer a cancel that wants no answer."""
    client = talk.connect()
    ch = client.channel()
    queue = talk.name("q")
    ch.declare(queue)
    ch.consume(queue, "c")
    ch.delete(queue)
    ch.say(commands.Basic.CancelOk, consumer_tag="c")
    ch.say(commands.Basic.CancelOk, consumer_tag="never")


@conversation
def auto_delete(talk: Talk) -> None:
    """With the last consumer, however it goes."""
    client = talk.connect()
    ch, other = client.channel(), client.channel(2)
    queue = talk.name("q")

    def is_there() -> None:
        with ch.refused():
            ch.declare(queue, passive=True)

    ch.declare(queue, auto_delete=True)
    is_there()
    other.consume(queue, "c")
    other.consume(queue, "d")
    other.cancel("c")
    is_there()
    other.cancel("d")
    is_there()
    ch.declare(queue, auto_delete=True)
    other.consume(queue, "c")
    other.close()
    talk.pause(0.05)
    is_there()
    ch.declare(queue, auto_delete=True)
    third = talk.connect("third").channel()
    third.consume(queue, "c")
    third.client.close()
    talk.pause(0.05)
    is_there()


@conversation
def purge_and_delete(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    with ch.refused():
        ch.say(commands.Queue.Purge, queue=queue)
    ch.say(commands.Confirm.Select)
    ch.delete(queue)
    ch.delete(queue, if_unused=True, if_empty=True)
    ch.declare(queue)
    fill(ch, queue, 4)
    ch.get(queue)
    ch.say(commands.Queue.Purge, queue=queue)
    ch.say(commands.Queue.Purge, queue=queue, nowait=True)
    ch.reject(1)
    ch.count(queue)
    with ch.refused():
        ch.delete(queue, if_empty=True)
    ch.consume(queue, "c")
    with ch.refused():
        ch.delete(queue, if_unused=True)
    ch.consume(queue, "c", no_ack=True)
    with ch.refused():
        ch.delete(queue, if_unused=True, if_empty=True)
    ch.count(queue)
    ch.say(commands.Confirm.Select)
    fill(ch, queue, 2)
    ch.delete(queue, nowait=True)
    with ch.refused():
        ch.count(queue)
