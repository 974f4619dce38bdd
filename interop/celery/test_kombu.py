"""kombu, the messaging library under Celery, over py-amqp: what people use of it directly."""
# mypy: allow-untyped-calls

import socket
from collections.abc import Callable, Iterator

import pytest
from amqp.exceptions import MessageNacked, NotFound, PreconditionFailed
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.message import Message
from kombu.messaging import Consumer, Producer
from kombu.mixins import ConsumerMixin

from interop.conftest import Address
from interop.patience import PATIENCE_S, eventually

Unique = Callable[[str], str]


@pytest.fixture
def connection(address: Address) -> Iterator[Connection]:
    with Connection(address.url("/"), heartbeat=10) as connection:
        yield connection


def test_a_simple_queue(connection: Connection, unique: Unique) -> None:
    with connection.SimpleQueue(unique("simple"), queue_opts={"auto_delete": True}) as queue:
        for number in range(5):
            queue.put({"number": number}, compression="zlib")
        eventually(lambda: queue.qsize() == 5, "all five are there")
        for number in range(5):
            message = queue.get(timeout=PATIENCE_S)
            assert message.payload == {"number": number}
            message.ack()
        with pytest.raises(queue.Empty):
            queue.get_nowait()


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "headers"])
def test_declares_and_publishes(connection: Connection, unique: Unique, kind: str) -> None:
    exchange = Exchange(unique("x"), kind, durable=False, auto_delete=True)
    queue = Queue(unique("q"), exchange, routing_key="a.b", exclusive=True, binding_arguments={"h": 1})
    bodies: list[object] = []

    def on_message(body: object, message: Message) -> None:
        bodies.append(body)
        message.ack()

    channel = connection.channel()
    producer = Producer(channel, exchange)
    with Consumer(channel, queue, callbacks=[on_message], prefetch_count=1):
        producer.publish({"to": kind}, routing_key="a.b", headers={"h": 1}, declare=[exchange, queue])
        connection.drain_events(timeout=PATIENCE_S)
    assert bodies == [{"to": kind}]


def test_confirms(address: Address, unique: Unique) -> None:
    """py-amqp waits for each publish when asked to, and raises when the broker refuses."""
    with Connection(address.url("/"), transport_options={"confirm_publish": True}) as connection:
        channel = connection.channel()
        queue = Queue(unique("q"), exclusive=True, max_length=1, queue_arguments={"x-overflow": "reject-publish"})
        queue(channel).declare()
        producer = Producer(channel)
        producer.publish("fits", routing_key=queue.name)
        with pytest.raises(MessageNacked):
            producer.publish("does not", routing_key=queue.name)


def test_returns(connection: Connection) -> None:
    returned: list[tuple[int, str]] = []
    producer = Producer(
        connection.channel(), on_return=lambda _error, _exchange, key, message: returned.append((key, message.body))
    )
    producer.publish("x", routing_key="nobody", mandatory=True)
    connection.drain_events(timeout=PATIENCE_S)
    assert len(returned) == 1


def test_errors_have_their_classes(connection: Connection, unique: Unique) -> None:
    channel = connection.channel()
    with pytest.raises(NotFound, match="NOT_FOUND - no queue 'not there' in vhost '/'"):
        channel.queue_declare("not there", passive=True)
    channel = connection.channel()
    name = unique("q")
    channel.queue_declare(name, exclusive=True)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-max-length'"):
        channel.queue_declare(name, exclusive=True, arguments={"x-max-length": 1})


def test_requeue_and_reject(connection: Connection, unique: Unique) -> None:
    queue = Queue(unique("q"), exclusive=True)(connection.channel())
    queue.declare()
    Producer(queue.channel).publish("x", routing_key=queue.name)
    message = queue.get()
    assert message is not None
    message.requeue()
    message = queue.get()
    assert message is not None
    assert message.delivery_info["redelivered"] is True
    message.reject()
    assert queue.get() is None
    queue.channel.basic_recover(requeue=True)


def test_transactions(connection: Connection, unique: Unique) -> None:
    channel = connection.channel()
    queue = Queue(unique("q"), exclusive=True)(channel)
    queue.declare()
    channel.tx_select()
    Producer(channel).publish("no", routing_key=queue.name)
    channel.tx_rollback()
    Producer(channel).publish("yes", routing_key=queue.name)
    channel.tx_commit()
    message = queue.get(no_ack=True)
    assert message is not None
    assert message.payload == "yes"
    assert queue.get() is None


def test_heartbeats(address: Address) -> None:
    with Connection(address.url("/"), heartbeat=1) as connection:
        connection.connect()
        for _ in range(25):
            connection.heartbeat_check(rate=10)
            with pytest.raises(socket.timeout):
                connection.drain_events(timeout=0.1)
        assert connection.connected


def test_a_consumer_that_reconnects(address: Address, unique: Unique) -> None:
    """kombu's ConsumerMixin: its connection is cut, and it begins again."""
    name = unique("q")
    with Connection(address.url("/")) as connection:
        worker = Worker(connection, name)
        with connection.clone() as other:
            Queue(name, auto_delete=False)(other.channel()).declare()
            producer = other.Producer()
            producer.publish("one", routing_key=name)
            producer.publish("two", routing_key=name)
            worker.run()
            other.channel().queue_delete(name)
    assert worker.bodies == ["one", "one", "two"]


class Worker(ConsumerMixin):
    """Cuts its own connection at the first message, before the ack."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.name = name
        self.bodies: list[object] = []

    def get_consumers(self, consumer: type[Consumer], channel: object) -> list[Consumer]:
        return [consumer([Queue(self.name)], callbacks=[self.on_message], prefetch_count=1)]

    def on_message(self, body: object, message: Message) -> None:
        self.bodies.append(body)
        if len(self.bodies) == 1:
            message.channel.connection.transport.sock.shutdown(socket.SHUT_RDWR)
            return
        message.ack()
        self.should_stop = len(self.bodies) == 3
