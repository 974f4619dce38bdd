"""py-amqp, the client under kombu and Celery, used by itself."""
# mypy: allow-untyped-calls

import socket
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import amqp
import pytest
import trustme
from amqp import Channel, Connection, Message
from amqp.exceptions import (
    AccessRefused,
    ChannelError,
    ConnectionForced,
    ConsumerCancelled,
    MessageNacked,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)

from interop.conftest import Address
from interop.patience import PATIENCE_S, eventually
from tests.support.broker_process import BrokerProcess

Unique = Callable[[str], str]


def connect(host: str, port: int, **options: object) -> Connection:
    return Connection(f"{host}:{port}", "guest", "guest", read_timeout=PATIENCE_S, **options)


@pytest.fixture
def connection(address: Address) -> Iterator[Connection]:
    with connect(address.host, address.port) as connection:
        yield connection


@pytest.fixture
def channel(connection: Connection) -> Channel:
    return connection.channel()


@pytest.fixture
def queue(channel: Channel) -> str:
    return str(channel.queue_declare(exclusive=True, auto_delete=False).queue)


def publish(channel: Channel, queue: str, body: str | bytes, **properties: object) -> None:
    channel.basic_publish(Message(body, **properties), routing_key=queue)


def test_a_message_comes_out_as_it_went_in(channel: Channel, queue: str) -> None:
    properties = {
        "content_type": "application/octet-stream",
        "content_encoding": "none",
        "application_headers": {
            "text": "Grüße",
            "number": 2**40,
            "real": 0.5,
            "flag": True,
            "list": [1, "two"],
            "table": {"a": {"b": None}},
            "when": datetime(2024, 2, 29, 12, 30, 15),
        },
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "correlation",
        "reply_to": "reply",
        "expiration": "60000",
        "message_id": "message",
        "timestamp": int(datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC).timestamp()),
        "type": "kind",
        "user_id": "guest",
        "app_id": "app",
    }
    body = bytes(range(256)) * 2000
    publish(channel, queue, body, **properties)
    got = channel.basic_get(queue, no_ack=True)
    assert got.body == body
    assert got.properties == properties
    assert (got.delivery_info["exchange"], got.delivery_info["routing_key"]) == ("", queue)
    assert channel.basic_get(queue) is None


def test_consuming(connection: Connection, channel: Channel, queue: str) -> None:
    """drain_events hands out what came; acked one by one, then all up to one, then none."""
    for number in range(10):
        publish(channel, queue, str(number))
    consumer = connection.channel()
    consumer.basic_qos(0, 5, False)
    got: list[Message] = []
    consumer.basic_consume(queue, callback=got.append)

    def drain(count: int) -> None:
        while len(got) < count:
            connection.drain_events(timeout=PATIENCE_S)

    drain(5)
    with pytest.raises(socket.timeout):
        connection.drain_events(timeout=0.05)
    consumer.basic_ack(got[0].delivery_tag)
    drain(6)
    consumer.basic_ack(got[5].delivery_tag, multiple=True)
    drain(10)
    assert [message.body for message in got] == [str(number) for number in range(10)]
    consumer.close()
    assert channel.queue_declare(queue, passive=True).message_count == 4
    assert channel.basic_get(queue).delivery_info["redelivered"]


def test_confirms(address: Address) -> None:
    with connect(address.host, address.port, confirm_publish=True) as connection:
        channel = connection.channel()
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = channel.queue_declare(exclusive=True, arguments=arguments).queue
        publish(channel, queue, "fits")
        with pytest.raises(MessageNacked):
            publish(channel, queue, "does not")
        assert channel.queue_purge(queue) == 1


def test_returns(connection: Connection, channel: Channel) -> None:
    returned: list[tuple[ChannelError, str, str, Message]] = []
    channel.events["basic_return"].add(lambda *values: returned.append(values))
    channel.basic_publish(Message("lost", message_id="1"), routing_key="nobody", mandatory=True)
    connection.drain_events(timeout=PATIENCE_S)
    ((error, exchange, key, message),) = returned
    assert (error.reply_code, error.reply_text) == (312, "NO_ROUTE")
    assert (exchange, key, message.body, message.message_id) == ("", "nobody", "lost", "1")


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_exchanges(channel: Channel, queue: str, unique: Unique, kind: str) -> None:
    exchange, source = unique("x"), unique("source")
    channel.exchange_declare(exchange, kind, auto_delete=True)
    channel.exchange_declare(source, "fanout", auto_delete=True)
    channel.queue_bind(queue, exchange, "a.b", arguments={"h": 1})
    channel.exchange_bind(exchange, source)
    channel.basic_publish(Message("x", application_headers={"h": 1}), source, "a.b")
    assert channel.basic_get(queue, no_ack=True).body == "x"
    channel.exchange_unbind(exchange, source)
    channel.queue_unbind(queue, exchange, "a.b", arguments={"h": 1})


def test_transactions(channel: Channel, queue: str) -> None:
    channel.tx_select()
    publish(channel, queue, "rolled back")
    channel.tx_rollback()
    publish(channel, queue, "committed")
    channel.tx_commit()
    assert channel.basic_get(queue, no_ack=True).body == "committed"
    assert channel.basic_get(queue) is None


def test_dead_letters(channel: Channel, queue: str) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, "x-message-ttl": 60_000}
    work = channel.queue_declare(exclusive=True, arguments=arguments).queue
    publish(channel, work, "expires", expiration="1")
    eventually(lambda: channel.queue_declare(queue, passive=True).message_count == 1, "it expires")
    publish(channel, work, "rejected")
    channel.basic_reject(channel.basic_get(work).delivery_tag, requeue=False)
    eventually(lambda: channel.queue_declare(queue, passive=True).message_count == 2, "it is rejected")
    for reason in ("expired", "rejected"):
        (death,) = channel.basic_get(queue, no_ack=True).headers["x-death"]
        assert (death["reason"], death["queue"], death["count"]) == (reason, work, 1)
        assert isinstance(death["time"], datetime)


def test_request_and_reply(connection: Connection, channel: Channel, queue: str) -> None:
    replies: dict[str, str] = {}
    channel.basic_consume(
        "amq.rabbitmq.reply-to",
        no_ack=True,
        callback=lambda message: replies.update({message.correlation_id: message.body}),
    )
    server = connection.channel()

    def serve(message: Message) -> None:
        publish(server, message.reply_to, str(int(message.body) * 2), correlation_id=message.correlation_id)
        server.basic_ack(message.delivery_tag)

    server.basic_consume(queue, callback=serve)
    for number in range(20):
        publish(channel, queue, str(number), reply_to="amq.rabbitmq.reply-to", correlation_id=str(number))
    while len(replies) < 20:
        connection.drain_events(timeout=PATIENCE_S)
    assert replies == {str(number): str(number * 2) for number in range(20)}


def test_errors_have_their_classes(address: Address, connection: Connection, unique: Unique) -> None:
    name = unique("q")
    connection.channel().queue_declare(name, exclusive=True)
    with pytest.raises(NotFound, match="no queue 'not there' in vhost '/'") as caught:
        connection.channel().queue_declare("not there", passive=True)
    assert (caught.value.reply_code, caught.value.method_name) == (404, "Queue.declare")
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-max-length'"):
        connection.channel().queue_declare(name, exclusive=True, arguments={"x-max-length": 1})
    with pytest.raises(AccessRefused, match=r"contains reserved prefix 'amq\.\*'"):
        connection.channel().queue_declare("amq.mine")
    with connect(address.host, address.port) as other, pytest.raises(ResourceLocked, match="exclusive access"):
        other.channel().queue_declare(name, exclusive=True)
    with pytest.raises(amqp.exceptions.AMQPNotImplementedError, match="prefetch_size!=0"):
        connection.channel().basic_qos(10, 1, False)


def test_refused(address: Address) -> None:
    where = f"{address.host}:{address.port}"
    with pytest.raises(AccessRefused, match="Login was refused"):
        Connection(where, "guest", "wrong").connect()
    with pytest.raises(NotAllowed, match="vhost nowhere not found"):
        Connection(where, virtual_host="nowhere").connect()


def test_the_consumer_is_cancelled(connection: Connection, channel: Channel, unique: Unique) -> None:
    name = unique("q")
    channel.queue_declare(name)
    channel.basic_consume(name)
    connection.channel().queue_delete(name)
    with pytest.raises(ConsumerCancelled):
        connection.drain_events(timeout=PATIENCE_S)


def test_heartbeats(address: Address) -> None:
    with connect(address.host, address.port, heartbeat=1) as connection:
        assert connection.negotiate_capabilities["consumer_cancel_notify"]
        for _ in range(25):
            connection.heartbeat_tick()
            with pytest.raises(socket.timeout):
                connection.drain_events(timeout=0.1)
        connection.channel().close()


def test_restarted_and_over_tls(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    """Stopped it says why; on the same port it answers again."""
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate = ("--tls-certfile", str(tmp_path / "server.pem"))
    broker = start_broker("--tls-port", "0", *certificate)
    port = broker.port_of("amqps")
    checks = {"ca_certs": tmp_path / "ca.pem", "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "localhost"}
    with connect("127.0.0.1", port, ssl=checks) as connection:
        broker.stop()
        with pytest.raises(ConnectionForced, match="broker forced connection closure"):
            connection.drain_events(timeout=PATIENCE_S)
    start_broker("--tls-port", str(port), *certificate)
    with connect("127.0.0.1", port, ssl=checks) as connection:
        channel = connection.channel()
        queue = channel.queue_declare(exclusive=True, auto_delete=False).queue
        publish(channel, queue, bytes(400_000))
        assert channel.basic_get(queue).body == bytes(400_000)
