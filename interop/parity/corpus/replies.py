"""Direct reply-to: who may consume from it, what becomes of reply-to, and how an answer comes back."""

from typing import Any

from pamqp import commands
from pamqp.base import Frame

from interop.parity.conversations import conversation
from interop.parity.talk import Talk

REPLY_TO = "amq.rabbitmq.reply-to"


@conversation
def asked_and_answered(talk: Talk) -> None:
    client = talk.connect()
    ch = client.channel(confirms=True)
    worker = talk.connect("worker").channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    worker.consume(queue, "w", no_ack=True)
    ch.consume(REPLY_TO, "r", no_ack=True)
    ch.publish(b"question", key=queue, reply_to=REPLY_TO, correlation_id="1")
    worker.publish(b"answer", "", lambda given: given[-1], correlation_id="1")
    ch.cancel("r")
    worker.publish(b"too late", "", lambda given: given[-1], mandatory=True)
    ch.consume(REPLY_TO, "", no_ack=True)
    ch.publish(b"question", key=queue, reply_to=REPLY_TO)
    ch.close()
    worker.publish(b"too late", "", lambda given: given[-1], mandatory=True)


@conversation
def refused(talk: Talk) -> None:
    ch = talk.connect().channel()
    flags: tuple[dict[str, Any], ...] = ({}, {"no_ack": True, "exclusive": True})
    for how in flags:
        with ch.refused():
            ch.consume(REPLY_TO, "c", **how)
    with ch.refused():
        ch.consume(REPLY_TO, "c", no_ack=True)
        ch.consume(REPLY_TO, "d", no_ack=True)
    methods: tuple[tuple[type[Frame], dict[str, object]], ...] = (
        (commands.Basic.Get, {}),
        (commands.Queue.Declare, {}),
        (commands.Queue.Declare, {"passive": True}),
        (commands.Queue.Delete, {}),
        (commands.Queue.Purge, {}),
        (commands.Queue.Bind, {"exchange": "amq.direct", "routing_key": "", "arguments": {}}),
        (commands.Queue.Unbind, {"exchange": "amq.direct", "routing_key": "", "arguments": {}}),
    )
    for cls, fields in methods:
        for name in (REPLY_TO, f"{REPLY_TO}.nonsense"):
            with ch.refused():
                ch.say(cls, queue=name, **fields)
    with ch.refused():
        ch.consume(REPLY_TO, "c", no_ack=True)
        ch.publish(b"", key=REPLY_TO, mandatory=True)
        ch.publish(b"", key=f"{REPLY_TO}.nonsense", mandatory=True)
        ch.cancel("other")
        ch.consume(REPLY_TO, "c", no_ack=True)


@conversation
def an_answer_that_must_arrive(talk: Talk) -> None:
    """mandatory, to a consumer of replies that is there."""
    client = talk.connect()
    ch, worker = client.channel(confirms=True), client.channel(2, confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    worker.consume(queue, "w", no_ack=True)
    ch.consume(REPLY_TO, "r", no_ack=True)
    ch.publish(b"question", key=queue, reply_to=REPLY_TO)
    worker.publish(b"answer", "", lambda given: given[-1], mandatory=True)


@conversation
def one_tag_for_two(talk: Talk) -> None:
    """The consumer of replies does not take a tag away from others; cancelling means it first."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    ch.consume(REPLY_TO, "c", no_ack=True)
    ch.consume(queue, "c", no_ack=True)
    ch.cancel("c")
    ch.publish(b"1", key=queue)
    ch.consume(REPLY_TO, "c", no_ack=True)
