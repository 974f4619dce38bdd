"""Transactions: what happens when, what is taken back, and what cannot be said in which mode."""

from pamqp import commands

from interop.parity.conversations import conversation
from interop.parity.corpus.consuming import fill
from interop.parity.talk import Talk


@conversation
def modes(talk: Talk) -> None:
    ch = talk.connect().channel()
    for cls in (commands.Tx.Commit, commands.Tx.Rollback):
        with ch.refused():
            ch.say(cls)
    ch.say(commands.Tx.Select)
    ch.say(commands.Tx.Select)
    for fields in ({}, {"nowait": True}):
        with ch.refused():
            ch.say(commands.Tx.Select)
            ch.say(commands.Confirm.Select, **fields)
    with ch.refused():
        ch.say(commands.Confirm.Select)
        ch.say(commands.Tx.Select)
    with ch.refused():
        ch.say(commands.Confirm.Select)
        ch.say(commands.Tx.Commit)


@conversation
def publishes(talk: Talk) -> None:
    client = talk.connect()
    ch, other = client.channel(), client.channel(2)
    queue = talk.name("q")
    ch.declare(queue)
    ch.say(commands.Tx.Select)
    ch.publish(b"1", key=queue)
    ch.publish(b"returned", key="nowhere", mandatory=True)
    other.count(queue)
    ch.say(commands.Tx.Commit)
    other.count(queue)
    ch.publish(b"2", key=queue)
    ch.publish(b"returned", key="nowhere", mandatory=True)
    ch.say(commands.Tx.Rollback)
    ch.say(commands.Tx.Commit)
    other.count(queue)
    ch.publish(b"3", key=queue)
    ch.close()
    other.count(queue)
    other.drain(queue, 1)


@conversation
def queues_that_go(talk: Talk) -> None:
    """Deleted, or deleted and declared again, between a publish and its commit."""
    client = talk.connect()
    ch, other = client.channel(), client.channel(2)
    gone, anew, kept = talk.name("gone"), talk.name("anew"), talk.name("kept")
    for queue in (gone, anew, kept):
        other.declare(queue)
        other.bind(queue, "amq.fanout")
    ch.say(commands.Tx.Select)
    for queue in (gone, anew):
        ch.publish(b"must arrive", key=queue, mandatory=True)
        ch.publish(b"may arrive", key=queue)
    ch.publish(b"to all", "amq.fanout", mandatory=True)
    for queue in (gone, anew):
        other.delete(queue)
    other.declare(anew)
    ch.say(commands.Tx.Commit)
    other.drain(anew, 3)
    other.drain(kept, 1)


@conversation
def acks(talk: Talk) -> None:
    client = talk.connect()
    ch, other = client.channel(), client.channel(2, confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    fill(other, queue, 5)
    ch.say(commands.Tx.Select)
    for _ in range(4):
        ch.get(queue)
    ch.ack(1)
    ch.reject(2)
    other.count(queue)
    ch.say(commands.Tx.Rollback)
    other.count(queue)
    ch.ack(2, multiple=True)
    ch.nack(3)
    ch.say(commands.Tx.Commit)
    other.count(queue)
    with ch.refused():
        ch.ack(1)
    other.count(queue)
    other.drain(queue, 3)


@conversation
def settled_twice(talk: Talk) -> None:
    """Within one transaction, and after it was taken back."""
    client = talk.connect()
    ch, other = client.channel(), client.channel(2, confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    fill(other, queue, 2)
    ch.say(commands.Tx.Select)
    ch.get(queue)
    ch.ack(1)
    with ch.refused():
        ch.ack(1)
    ch.say(commands.Tx.Select)
    ch.get(queue)
    ch.ack(1)
    ch.say(commands.Tx.Rollback)
    ch.ack(1)
    ch.say(commands.Tx.Commit)
    other.count(queue)


@conversation
def refusals(talk: Talk) -> None:
    """What is refused when it is said, and what at the commit."""
    client = talk.connect()
    ch, other = client.channel(), client.channel(2)
    queue = talk.name("q")
    ch.declare(queue, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.say(commands.Tx.Select)
    with ch.refused():
        ch.publish(b"", talk.name("absent"), queue)
    ch.say(commands.Tx.Select)
    with ch.refused():
        ch.publish(b"1", key=queue)
        ch.publish(b"", key=queue, expiration="text")
    other.count(queue)
    ch.say(commands.Tx.Select)
    ch.publish(b"1", key=queue)
    ch.say(commands.Tx.Commit)
    ch.publish(b"2", key=queue)
    with ch.refused():
        ch.say(commands.Tx.Commit)
    other.count(queue)


@conversation
def consumers(talk: Talk) -> None:
    """Deliveries come within a transaction; credit is given back at the commit."""
    client = talk.connect()
    ch, other = client.channel(), client.channel(2, confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    ch.qos(1)
    ch.say(commands.Tx.Select)
    ch.consume(queue, "c")
    fill(other, queue, 3)
    ch.ack(1)
    ch.say(commands.Tx.Commit)
    ch.nack(2)
    ch.say(commands.Tx.Rollback)
    ch.nack(2)
    ch.say(commands.Tx.Commit)
    ch.say(commands.Basic.Recover, requeue=True)
    ch.cancel("c")
    other.count(queue)


@conversation
def recovering(talk: Talk) -> None:
    """Recovering is no part of a transaction, and does not end one; what is to be acked stays so."""
    client = talk.connect()
    ch, other = client.channel(), client.channel(2, confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    fill(other, queue, 3)
    ch.say(commands.Tx.Select)
    ch.say(commands.Basic.Recover, requeue=True)
    ch.say(commands.Tx.Rollback)
    ch.get(queue)
    ch.get(queue)
    ch.ack(1)
    ch.say(commands.Basic.Recover, requeue=True)
    other.count(queue)
    ch.say(commands.Tx.Rollback)
    other.count(queue)
    ch.ack(1)
    ch.say(commands.Tx.Commit)
    other.count(queue)
