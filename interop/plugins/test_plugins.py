"""RabbitMQ's shovel and federation: a real node moves messages from us and to us, with Erlang's client."""

from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from interop.conftest import FOREIGN
from interop.management import rabbitmq
from interop.management.doors import Doors
from interop.patience import eventually
from interop.rabbitmq import require
from tests.support.broker_process import running

pytestmark = pytest.mark.skipif(bool(FOREIGN), reason="is between two brokers")

Unique = Callable[[str], str]
COUNT = 500


@pytest.fixture(scope="module")
def theirs() -> Iterator[Doors]:
    require()
    with rabbitmq.running("rabbitmq_shovel", "rabbitmq_federation") as doors:
        yield doors
        doors.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[Doors]:
    with running() as broker:
        doors = Doors("127.0.0.1", broker.port, broker.management_port)
        yield doors
        doors.close()


def uri(doors: Doors) -> str:
    return f"amqp://guest:guest@{doors.host}:{doors.amqp_port}"


def publish(channel: BlockingChannel, exchange: str, key: str) -> None:
    """Messages with what could get lost on the way."""
    channel.confirm_delivery()
    for number in range(COUNT):
        properties = pika.BasicProperties(
            message_id=str(number),
            headers={"text": "Grüße", "table": {"list": [1, None, True]}},
            delivery_mode=2,
            priority=3,
        )
        channel.basic_publish(exchange, key, b"%d" % number * 100, properties, mandatory=True)


def expect(channel: BlockingChannel, queue: str) -> list[pika.BasicProperties]:
    """All of them, once, in their order."""
    got: list[pika.BasicProperties] = []
    for method, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=30):
        assert method is not None, f"{len(got)} messages, no more"
        assert body == properties.message_id.encode() * 100
        got.append(properties)
        if len(got) == COUNT:
            break
    channel.cancel()
    assert [properties.message_id for properties in got] == [str(number) for number in range(COUNT)]
    assert got[0].headers["table"] == {"list": [1, None, True]}
    assert (got[0].headers["text"], got[0].delivery_mode, got[0].priority) == ("Grüße", 2, 3)
    return got


def shovel(theirs: Doors, name: str, **definition: object) -> None:
    theirs.do("PUT", f"/parameters/shovel/%2F/{name}", {"value": {"ack-mode": "on-confirm", **definition}})


@pytest.mark.parametrize("way", ["from us", "to us"])
def test_a_shovel_between_queues(theirs: Doors, ours: Doors, unique: Unique, way: str) -> None:
    """It declares both ends, consumes with a prefetch, and acks what the other broker has confirmed."""
    source, target = (ours, theirs) if way == "from us" else (theirs, ours)
    name = unique("shovelled")
    ends = {"src-uri": uri(source), "src-queue": name, "dest-uri": uri(target), "dest-queue": name}
    with source.connect() as there, target.connect() as here:
        there.channel().queue_declare(name, durable=True)
        publish(there.channel(), "", name)
        shovel(theirs, name, **ends, **{"src-prefetch-count": 50, "dest-add-forward-headers": True})
        here.channel().queue_declare(name, durable=True)
        (first, *_) = expect(here.channel(), name)
        (forwarded,) = first.headers["x-shovelled"]
        assert forwarded["shovel-name"] == name
        eventually(lambda: there.channel().queue_declare(name, passive=True).method.message_count == 0, "all are acked")
        theirs.do("DELETE", f"/parameters/shovel/%2F/{name}")
        for connection in (there, here):
            connection.channel().queue_delete(name)


def test_a_shovel_between_exchanges_that_ends_by_itself(theirs: Doors, ours: Doors, unique: Unique) -> None:
    """`delete-after: queue-length`: it counts what is there, moves that, and goes."""
    queue, exchange = unique("moved"), unique("moved")
    with ours.connect() as there, theirs.connect() as here:
        there.channel().queue_declare(queue, durable=True)
        publish(there.channel(), "", queue)
        channel = here.channel()
        channel.exchange_declare(exchange, "topic")
        mine = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(mine, exchange, "moved.*")
        ends = {"src-uri": uri(ours), "src-queue": queue, "dest-uri": uri(theirs), "dest-exchange": exchange}
        shovel(theirs, queue, **ends, **{"dest-exchange-key": "moved.on", "src-delete-after": "queue-length"})
        expect(channel, mine)
        eventually(lambda: theirs.get("/parameters/shovel") == [], "the shovel is gone")
        channel.exchange_delete(exchange)
        there.channel().queue_delete(queue)


def test_a_federated_queue(theirs: Doors, ours: Doors, unique: Unique) -> None:
    """A consumer there drains the queue of the same name here, which its node does when it has nothing of its own."""
    name = unique("federated")
    theirs.do("PUT", f"/parameters/federation-upstream/%2F/{name}", {"value": {"uri": uri(ours)}})
    policy = {"pattern": f"^{name}$", "apply-to": "queues", "definition": {"federation-upstream": name}}
    theirs.do("PUT", f"/policies/%2F/{name}", policy)
    with ours.connect() as upstream, theirs.connect() as downstream:
        upstream.channel().queue_declare(name, durable=True)
        publish(upstream.channel(), "", name)
        channel = downstream.channel()
        channel.queue_declare(name, durable=True)
        expect(channel, name)
        eventually(
            lambda: upstream.channel().queue_declare(name, passive=True).method.message_count == 0, "all are acked"
        )
        theirs.do("DELETE", f"/policies/%2F/{name}")
        theirs.do("DELETE", f"/parameters/federation-upstream/%2F/{name}")
        channel.queue_delete(name)
        upstream.channel().queue_delete(name)
