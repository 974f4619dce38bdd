"""rabbitpy: connections, queues and messages as Python objects, and its functions for one message at a time."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import rabbitpy
from rabbitpy import exceptions

from interop.conftest import Address
from interop.patience import eventually
from tests.support.broker_process import BrokerProcess

Unique = Callable[[str], str]


@pytest.fixture
def connection(address: Address) -> Iterator[rabbitpy.Connection]:
    with rabbitpy.Connection(address.url()) as connection:
        yield connection


@pytest.fixture
def channel(connection: rabbitpy.Connection) -> Iterator[rabbitpy.Channel]:
    with connection.channel() as channel:
        yield channel


@pytest.fixture
def queue(channel: rabbitpy.Channel, unique: Unique) -> rabbitpy.Queue:
    queue = rabbitpy.Queue(channel, unique("q"), exclusive=True)
    queue.declare()
    return queue


def body_of(queue: rabbitpy.Queue) -> bytes | None:
    message = queue.get(acknowledge=False)
    return None if message is None else message.body


def test_a_message_comes_out_as_it_went_in(channel: rabbitpy.Channel, queue: rabbitpy.Queue) -> None:
    properties = {
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "headers": {"text": "Grüße", "number": 2**40, "flag": True, "list": [1, "two"]},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "correlation",
        "reply_to": "reply",
        "expiration": "60000",
        "message_id": "message",
        "timestamp": datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC),
        "message_type": "kind",
        "user_id": "guest",
        "app_id": "app",
    }
    rabbitpy.Message(channel, {"rabbit": "🐇", "pad": "x" * 300_000}, properties).publish("", queue.name)
    got = queue.get()
    assert got is not None
    assert got.json() == {"rabbit": "🐇", "pad": "x" * 300_000}
    assert {name: got.properties[name] for name in properties} == properties
    assert (got.exchange, got.routing_key, got.redelivered) == ("", queue.name, False)
    got.ack()


def test_the_consumer_is_an_iterator(channel: rabbitpy.Channel, queue: rabbitpy.Queue) -> None:
    for number in range(10):
        rabbitpy.Message(channel, str(number)).publish("", queue.name)
    bodies = []
    for message in queue.consume(prefetch=2):
        bodies.append(message.body)
        message.ack()
        if len(bodies) == 10:
            break
    assert bodies == [b"%d" % number for number in range(10)]


def test_one_message_at_a_time(address: Address, channel: rabbitpy.Channel, unique: Unique) -> None:
    """Its functions, each with a connection of its own."""
    url, name, exchange = address.url(), unique("q"), unique("x")
    rabbitpy.create_queue(url, name, durable=False)
    rabbitpy.create_topic_exchange(url, exchange)
    rabbitpy.Queue(channel, name).bind(exchange, "#.news")
    assert rabbitpy.publish(url, exchange, "daily.news", "hello", confirm=True)
    message = rabbitpy.get(url, name)
    assert message is not None
    assert message.body == b"hello"
    rabbitpy.delete_queue(url, name)
    rabbitpy.delete_exchange(url, exchange)


def test_confirms_and_nacks(channel: rabbitpy.Channel, unique: Unique) -> None:
    arguments = {"x-overflow": "reject-publish"}
    queue = rabbitpy.Queue(channel, unique("q"), exclusive=True, max_length=1, arguments=arguments)
    queue.declare()
    channel.enable_publisher_confirms()
    assert rabbitpy.Message(channel, "fits").publish("", queue.name) is True
    assert rabbitpy.Message(channel, "does not").publish("", queue.name) is False


def test_returns(channel: rabbitpy.Channel) -> None:
    channel.enable_publisher_confirms()
    with pytest.raises(exceptions.MessageReturnedException, match="NO_ROUTE"):
        rabbitpy.Message(channel, "lost").publish("", "nobody", mandatory=True)


def test_transactions(channel: rabbitpy.Channel, queue: rabbitpy.Queue) -> None:
    transaction = rabbitpy.Tx(channel)
    transaction.select()
    rabbitpy.Message(channel, "rolled back").publish("", queue.name)
    transaction.rollback()
    transaction.select()
    rabbitpy.Message(channel, "committed").publish("", queue.name)
    transaction.commit()
    assert [body_of(queue), body_of(queue)] == [b"committed", None]


def test_dead_letters(channel: rabbitpy.Channel, queue: rabbitpy.Queue, unique: Unique) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue.name}
    work = rabbitpy.Queue(channel, unique("work"), exclusive=True, arguments=arguments)
    work.declare()
    rabbitpy.Message(channel, "bad").publish("", work.name)
    message = work.get()
    assert message is not None
    message.nack(requeue=True)
    message = work.get()
    assert message is not None
    assert message.redelivered
    message.reject()
    eventually(lambda: queue.declare(passive=True)[0] == 1, "the dead letter")
    found = queue.get(acknowledge=False)
    assert found is not None
    (death,) = found.properties["headers"]["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("rejected", work.name, 1)


def test_errors_have_their_classes(connection: rabbitpy.Connection, unique: Unique) -> None:
    def refusal(kind: type[exceptions.AMQPException], name: str, passive: bool = False, **options: Any) -> str:
        with pytest.raises(kind) as caught:
            rabbitpy.Queue(connection.channel(), name, **options).declare(passive)
        return str(caught.value.args[0].reply_text)

    name = unique("q")
    rabbitpy.Queue(connection.channel(), name, exclusive=True).declare()
    assert refusal(exceptions.AMQPNotFound, "gone", passive=True) == "NOT_FOUND - no queue 'gone' in vhost '/'"
    text = refusal(exceptions.AMQPPreconditionFailed, name, exclusive=True, max_length=1)
    assert text.startswith(f"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{name}' in vhost '/'")
    text = refusal(exceptions.AMQPAccessRefused, "amq.mine")
    assert text == "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"


def test_refused(address: Address) -> None:
    with pytest.raises(exceptions.AMQPAccessRefused, match="Login was refused"):
        rabbitpy.Connection(f"amqp://guest:wrong@{address.host}:{address.port}/%2F").connect()
    with pytest.raises(exceptions.AMQPNotAllowed, match="vhost nowhere not found"):
        rabbitpy.Connection(address.url("nowhere")).connect()


def test_a_broker_that_was_stopped(start_broker: Callable[..., BrokerProcess]) -> None:
    """It says so, and another connection goes on with the next."""
    broker = start_broker()
    port = broker.port
    url = f"amqp://guest:guest@127.0.0.1:{port}/%2F"
    with pytest.raises(exceptions.RabbitpyException), rabbitpy.Connection(url) as connection:
        queue = rabbitpy.Queue(connection.channel(), "work")
        queue.declare()
        broker.stop()
        for _ in queue.consume():
            pass
    start_broker("--port", str(port))
    rabbitpy.create_queue(url, "work")
    assert rabbitpy.publish(url, "", "work", "after", confirm=True)
