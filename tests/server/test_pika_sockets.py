"""The server's options and sockets as pika meets them: what is offered, what is limited, who is slow.

Everything else that pika does is in interop/.
"""

import time
from collections.abc import Iterator

import pika
import pytest
from pamqp import body, commands, frame, header
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAuthenticationError,
)
from pika.spec import Basic

from tests.server.raw import RawClient
from tests.server.test_listeners import ipv6
from tests.support.broker_process import BrokerProcess, running

MEGABYTE = 1_000_000


def connect(broker: BrokerProcess, host: str = "127.0.0.1", **parameters: object) -> BlockingConnection:
    return BlockingConnection(pika.ConnectionParameters(host, broker.port, **parameters))


def test_the_example_everybody_starts_with(broker: BrokerProcess) -> None:
    with connect(broker) as connection:
        channel = connection.channel()
        channel.queue_declare(queue="hello")
        channel.basic_publish(exchange="", routing_key="hello", body="Hello World!")
        got: list[bytes] = []

        def on_message(_: BlockingChannel, __: Basic.Deliver, ___: BasicProperties, body: bytes) -> None:
            got.append(body)
            channel.stop_consuming()

        channel.basic_consume(queue="hello", on_message_callback=on_message, auto_ack=True)
        channel.start_consuming()
        assert got == [b"Hello World!"]


@ipv6
def test_ipv6() -> None:
    with running("--host", "::1") as broker, connect(broker, "::1") as connection:
        assert connection.channel().is_open


@pytest.fixture(scope="module")
def limited() -> Iterator[BrokerProcess]:
    """Everything that can be limited is."""
    flags = ["--channel-max", "5", "--frame-max", "8192", "--heartbeat", "7", "--max-message-size", "1000"]
    flags += ["--consumer-max-per-channel", "2", "--default-consumer-timeout-ms", "200", "--default-prefetch", "3"]
    flags += ["--default-user", "someone", "--default-password", "p:w", "--default-vhost", "/team/a"]
    with running(*flags) as broker:
        yield broker


@pytest.fixture
def connection(limited: BrokerProcess) -> Iterator[BlockingConnection]:
    connection = connect(limited, credentials=pika.PlainCredentials("someone", "p:w"), virtual_host="/team/a")
    yield connection
    if connection.is_open:
        connection.close()


def test_what_is_offered(connection: BlockingConnection) -> None:
    agreed = connection._impl.params
    assert (agreed.channel_max, agreed.frame_max, agreed.heartbeat) == (5, 8192, 7)


def test_frames_are_as_small_as_agreed(connection: BlockingConnection) -> None:
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    headers = {"long": "x" * 5000}
    channel.basic_publish("", queue, bytes(1000), BasicProperties(headers=headers))
    _, properties, body = next(channel.consume(queue, auto_ack=True))
    assert (properties.headers, body) == (headers, bytes(1000))


def test_names_in_a_url(limited: BrokerProcess) -> None:
    url = f"amqp://someone:p%3Aw@127.0.0.1:{limited.port}/%2Fteam%2Fa"
    with BlockingConnection(pika.URLParameters(url)) as connection:
        assert connection.is_open


def test_nobody_else_is_let_in(limited: BrokerProcess) -> None:
    with pytest.raises(ProbableAuthenticationError):
        connect(limited)


def test_too_large_a_message(connection: BlockingConnection) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "nobody", bytes(1000))
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_publish("", "nobody", bytes(1001))
    assert caught.value.reply_text == "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"


def test_too_many_consumers(connection: BlockingConnection) -> None:
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for _ in range(2):
        channel.basic_consume(queue, lambda *_: None)
    with pytest.raises((ChannelClosedByBroker, ConnectionClosedByBroker)) as caught:
        channel.basic_consume(queue, lambda *_: None)
    assert "reached maximum (2) of consumers per channel" in caught.value.reply_text


def test_the_default_prefetch(connection: BlockingConnection) -> None:
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for _ in range(5):
        channel.basic_publish("", queue, b"x")
    seen: list[int] = []
    channel.basic_consume(queue, lambda _c, method, _p, _b: seen.append(method.delivery_tag))
    while len(seen) < 3:
        connection.process_data_events(1)
    connection.sleep(0.05)
    assert seen == [1, 2, 3]


def test_a_delivery_nobody_acknowledges(connection: BlockingConnection) -> None:
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, b"x")
    next(channel.consume(queue))
    deadline = time.monotonic() + 20
    while channel.is_open and time.monotonic() < deadline:
        connection.process_data_events(0.05)
    assert channel.is_closed
    assert channel._closing_reason is not None
    assert channel._closing_reason.reply_code == 406
    assert channel._closing_reason.reply_text.startswith(
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 200 ms."
    )
    assert connection.channel().queue_declare(queue, passive=True).method.message_count == 1


def test_many_connections(broker: BrokerProcess) -> None:
    connections = [connect(broker) for _ in range(150)]
    channels = [connection.channel() for connection in connections]
    queue = channels[0].queue_declare("", exclusive=True).method.queue
    for channel in channels:
        channel.basic_publish("", queue, b"x")
    for connection in connections[1:]:
        connection.close()
    assert channels[0].queue_purge(queue).method.message_count == len(channels)
    connections[0].close()


def test_one_that_does_not_read_holds_up_nobody(broker: BrokerProcess) -> None:
    """It is sent no more than its buffers hold; others go on; and when it reads at last, all is there in order."""
    slow, fast = connect(broker), connect(broker)
    sleeping, working = slow.channel(), fast.channel()
    heap = sleeping.queue_declare("heap", auto_delete=True).method.queue
    busy = working.queue_declare("", exclusive=True).method.queue
    bodies: list[bytes] = []
    sleeping.basic_consume(heap, lambda _c, _m, _p, body: bodies.append(body), auto_ack=True)
    working.confirm_delivery()
    for number in range(40):
        working.basic_publish("", heap, bytes([number]) * MEGABYTE)
    started = time.monotonic()
    for _ in range(50):
        working.basic_publish("", busy, b"x")
        assert working.basic_get(busy, auto_ack=True)[2] == b"x"
    assert time.monotonic() - started < 5
    while len(bodies) < 40:
        slow.process_data_events(1)
    assert bodies == [bytes([number]) * MEGABYTE for number in range(40)]
    slow.close()
    fast.close()


def test_cut_in_the_middle_of_a_message(broker: BrokerProcess) -> None:
    """Half a body, and the client is gone: nothing is enqueued, nobody else notices."""
    with connect(broker) as watcher:
        channel = watcher.channel()
        channel.queue_declare("cut", auto_delete=True)
        with RawClient.connect(broker.port) as victim:
            victim.log_in()
            victim.open_channel()
            victim.publish(b"whole", "cut")
            victim.send(commands.Basic.Publish(exchange="", routing_key="cut"), 1)
            announced = header.ContentHeader(body_size=100, properties=commands.Basic.Properties())
            victim.sock.sendall(frame.marshal(announced, 1) + frame.marshal(body.ContentBody(bytes(50)), 1))
        while channel.queue_declare("cut", passive=True).method.message_count < 1:
            watcher.sleep(0.01)
        watcher.sleep(0.05)
        assert channel.basic_get("cut", auto_ack=True)[2] == b"whole"
        assert channel.basic_get("cut") == (None, None, None)
        channel.queue_delete("cut")
