"""Several commands in one write, as by a client that does not wait for answers: each finds everything before it done.

Only what RabbitMQ does the same each time is said: what a channel tells one queue keeps its order there; what goes by
way of a second queue, or of the channel's own limiter, does not.
"""

from pamqp import base, commands

from interop.parity.conversations import conversation
from interop.parity.corpus.consuming import fill
from interop.parity.talk import Barrier, Talk, Voice, content_frames
from tests.support import frames
from tests.support.frames import loose


def method(cls: type[base.Frame], **fields: object) -> bytes:
    return frames.encode_method(loose(cls, **fields), 1)


def publishes(queue: str, count: int = 1) -> bytes:
    cls = loose(commands.Basic.Publish, exchange="", routing_key=queue)
    return b"".join(content_frames(cls, 1, b"%d" % number, frames.properties()) for number in range(count))


def said_at_once(ch: Voice, step: str, *parts: bytes, barrier: Barrier = Barrier.WITH) -> None:
    ch.client.send(step, b"".join(parts), ch.number, barrier=barrier)


@conversation
def publishes_then_cancel(talk: Talk) -> None:
    ch = talk.connect().channel()
    queue = talk.name("q")
    ch.declare(queue)
    ch.consume(queue, "low")
    ch.consume(queue, "high", arguments={"x-priority": 10})
    cancel = method(commands.Basic.Cancel, consumer_tag="high")
    said_at_once(ch, "10 publishes and cancel", publishes(queue, 10), cancel)
    said_at_once(ch, "10 publishes", publishes(queue, 10))


@conversation
def acks_then_cancel(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    fill(ch, queue, 12)
    ch.qos(5)
    ch.consume(queue, "c")
    acks = [method(commands.Basic.Ack, delivery_tag=tag) for tag in (1, 2)]
    said_at_once(ch, "2 acks and cancel", *acks, method(commands.Basic.Cancel, consumer_tag="c"))
    ch.count(queue)


@conversation
def publish_then_get(talk: Talk) -> None:
    """With consumers that take it first: one that was idle, one that has just come."""
    ch = talk.connect().channel()
    queue, other = talk.name("q"), talk.name("other")
    ch.declare(queue)
    ch.declare(other)
    ch.consume(queue, "idle", no_ack=True)
    said_at_once(ch, "publish and get", publishes(queue), method(commands.Basic.Get, queue=queue, no_ack=True))
    fill(ch, other, 3)
    consume = method(commands.Basic.Consume, queue=other, consumer_tag="new", no_ack=True, nowait=True)
    said_at_once(ch, "consume and get", consume, method(commands.Basic.Get, queue=other, no_ack=True))


@conversation
def requeue_then_get(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    fill(ch, queue, 1)
    ch.get(queue)
    ch.consume(queue, "c", no_ack=True)
    reject = method(commands.Basic.Reject, delivery_tag=1, requeue=True)
    said_at_once(ch, "reject and get", reject, method(commands.Basic.Get, queue=queue))


@conversation
def publishes_then_counts(talk: Talk) -> None:
    ch = talk.connect().channel()
    queue = talk.name("q")
    ch.declare(queue)
    ch.consume(queue, "c")
    passive = method(commands.Queue.Declare, queue=queue, passive=True)
    said_at_once(ch, "2 publishes and declare", publishes(queue, 2), passive)
    said_at_once(ch, "3 publishes and purge", publishes(queue, 3), method(commands.Queue.Purge, queue=queue))
    delete = method(commands.Queue.Delete, queue=queue, if_empty=True)
    said_at_once(ch, "publish and delete", publishes(queue), delete)


@conversation
def two_consumers(talk: Talk) -> None:
    """The second comes when the first has taken all there was."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    fill(ch, queue, 4)
    consumes = [method(commands.Basic.Consume, queue=queue, consumer_tag=tag) for tag in ("a", "b")]
    said_at_once(ch, "consume twice", *consumes)


@conversation
def publishes_then_close(talk: Talk) -> None:
    """What a consumer was sent before its channel closed counts as delivered."""
    client = talk.connect()
    ch, other = client.channel(), client.channel(2)
    queue = talk.name("q")
    ch.declare(queue)
    ch.consume(queue, "c")
    close = method(commands.Channel.Close, reply_code=200, reply_text="bye", class_id=0, method_id=0)
    said_at_once(ch, "2 publishes and close", publishes(queue, 2), close, barrier=Barrier.AFTER)
    other.get(queue)
    other.get(queue)
