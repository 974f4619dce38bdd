"""Queues: flags that must agree, names that are taken, passive declarations, and whose queue it is."""

from itertools import product

from pamqp import commands

from interop.parity.conversations import conversation
from interop.parity.corpus.consuming import fill
from interop.parity.talk import Talk
from tests.support.frames import Typed

FLAGS = ("durable", "exclusive", "auto_delete")


@conversation
def declared_again(talk: Talk) -> None:
    """Every combination of flags against every other."""
    ch = talk.connect().channel()
    choices = [dict(zip(FLAGS, bits, strict=True)) for bits in product((False, True), repeat=3)]
    for number, first in enumerate(choices):
        queue = talk.name(f"q{number}")
        ch.declare(queue, **first)
        for second in choices:
            with ch.refused():
                ch.declare(queue, **second)
        ch.delete(queue)


@conversation
def reserved_names(talk: Talk) -> None:
    ch = talk.connect().channel()
    for name in ("amq.text", "amq.", "amq.gen-text", "AMQ.text", "amq"):
        for fields in ({}, {"passive": True}, {"exclusive": True}):
            with ch.refused():
                ch.declare(name, **fields)
    for name in ("amq.text", "AMQ.text", "amq"):
        with ch.refused():
            ch.delete(name)


@conversation
def passive(talk: Talk) -> None:
    """Nothing but the name counts; what is ready and who consumes is told."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue = talk.name("q")
    with ch.refused():
        ch.declare(queue, passive=True, durable=True)
    ch.say(commands.Confirm.Select)
    ch.declare(queue, durable=True, auto_delete=True, arguments={"x-max-length": 5})
    ch.declare(queue, passive=True, exclusive=True, arguments={"x-max-length": -1, "x-queue-type": 5})
    fill(ch, queue, 3)
    ch.get(queue)
    ch.count(queue)
    other = client.channel(2)
    other.qos(1)
    other.consume(queue, "c")
    ch.count(queue)
    ch.declare(queue, durable=True, auto_delete=True, arguments={"x-max-length": Typed("l", 5)})
    other.consume(queue, "d")
    ch.count(queue)


@conversation
def nowait(talk: Talk) -> None:
    ch = talk.connect().channel()
    queue = talk.name("q")
    ch.declare(queue, nowait=True)
    ch.declare(queue, nowait=True, passive=True)
    ch.say(commands.Queue.Bind, queue=queue, exchange="amq.direct", routing_key="k", arguments={}, nowait=True)
    with ch.refused():
        ch.say(commands.Queue.Bind, queue=queue, exchange="absent", routing_key="k", arguments={}, nowait=True)
    with ch.refused():
        ch.declare(queue, nowait=True, durable=True)
    with ch.refused():
        ch.declare(talk.name("absent"), nowait=True, passive=True)
    ch.declare("", nowait=True, exclusive=True)
    ch.get("")
    ch.delete(queue, nowait=True)
    ch.delete(queue, nowait=True)


@conversation
def exclusive(talk: Talk) -> None:
    """Its owner may do all, on any channel; it is not durable, whatever was said."""
    client = talk.connect()
    ch, other = client.channel(confirms=True), client.channel(2)
    queue = talk.name("q")
    ch.declare(queue, exclusive=True, durable=True)
    other.declare(queue, exclusive=True, durable=True)
    with other.refused():
        other.declare(queue, exclusive=True)
    with other.refused():
        other.declare(queue, durable=True)
    other.bind(queue, "amq.direct", queue)
    ch.publish(b"1", "amq.direct", queue)
    ch.close()
    other.count(queue)
    other.get(queue)
    client.close()
    third = talk.connect("third").channel()
    with third.refused():
        third.declare(queue, passive=True)


@conversation
def unused(talk: Talk) -> None:
    """What if-unused and if-empty are about, together."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    for consumers, messages in ((0, 0), (0, 1), (1, 0), (1, 1)):
        for if_unused, if_empty in product((False, True), repeat=2):
            ch.declare(queue)
            ch.qos(1)
            if consumers:
                ch.consume(queue, "c")
            ch.say(commands.Confirm.Select)
            fill(ch, queue, messages + consumers)
            ch.count(queue)
            with ch.refused():
                ch.delete(queue, if_unused=if_unused, if_empty=if_empty)
            ch.close()
            ch.reopen()
            ch.delete(queue)


@conversation
def returned_then_confirmed(talk: Talk) -> None:
    """A return comes before the confirm of the same message."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    for line in client.lines:
        line.keeps_order = True
    ch.publish(b"1", key="nowhere", mandatory=True)
    ch.publish(b"2", key="nowhere", mandatory=True)
