"""AMQPStorm, which reads in a thread of its own and lets any thread write: its examples, and how they go wrong."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from amqpstorm import (
    AMQPChannelError,
    AMQPConnectionError,
    AMQPMessageError,
    Channel,
    Connection,
    Message,
    UriConnection,
)

from interop.conftest import Address
from interop.patience import PATIENCE_S, eventually
from tests.support.broker_process import BrokerProcess

Unique = Callable[[str], str]


@pytest.fixture
def connection(address: Address) -> Iterator[Connection]:
    with Connection(address.host, "guest", "guest", port=address.port, timeout=PATIENCE_S) as connection:
        yield connection


@pytest.fixture
def channel(connection: Connection) -> Channel:
    return connection.channel()


@pytest.fixture
def queue(channel: Channel) -> str:
    return str(channel.queue.declare(exclusive=True)["queue"])


def get(channel: Channel, queue: str, *, no_ack: bool = True) -> Message | None:
    message = channel.basic.get(queue, no_ack=no_ack)
    assert message is None or isinstance(message, Message)
    return message


def test_a_message_comes_out_as_it_went_in(channel: Channel, queue: str) -> None:
    properties = {
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "headers": {"text": "Grüße", "number": 2**40, "flag": True, "list": [1, "two"], "table": {"a": {"b": None}}},
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
    sent = Message.create(channel, '{"rabbit": "🐇"}' + " " * 300_000, properties)
    sent.publish(queue)
    got = get(channel, queue)
    assert got is not None
    assert got.json() == {"rabbit": "🐇"}
    assert len(str(got.body)) == len(str(sent.body))
    assert {name: got.properties[name] for name in properties} == properties
    assert got.method is not None
    assert (got.method["exchange"], got.method["routing_key"], got.redelivered) == ("", queue, False)


def test_workers_share_a_queue(connection: Connection, channel: Channel, queue: str) -> None:
    """Two threads on one connection with a prefetch of one: the slow one holds up nobody but itself."""
    done: list[str] = []
    release = threading.Event()
    is_all = threading.Event()

    def work(name: str) -> tuple[Channel, threading.Thread]:
        mine = connection.channel()
        mine.basic.qos(prefetch_count=1)

        def on_message(message: Message) -> None:
            if name == "slow":
                assert release.wait(PATIENCE_S)
            done.append(name)
            message.ack()
            if len(done) == 9:
                release.set()
            if len(done) == 10:
                is_all.set()

        mine.basic.consume(on_message, queue)
        thread = threading.Thread(target=mine.start_consuming, daemon=True)
        thread.start()
        return mine, thread

    workers = [work("slow"), work("fast")]
    for number in range(10):
        channel.basic.publish(str(number), queue, properties={"delivery_mode": 2})
    assert is_all.wait(PATIENCE_S)
    for mine, thread in workers:
        mine.stop_consuming()
        thread.join()
        mine.close()
    assert done == ["fast"] * 9 + ["slow"]


def test_confirms(channel: Channel) -> None:
    """True when the broker took it, False when it would not."""
    queue = channel.queue.declare(exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})[
        "queue"
    ]
    channel.confirm_deliveries()
    assert channel.basic.publish("fits", queue) is True
    assert channel.basic.publish("does not", queue) is False
    assert channel.queue.purge(queue)["message_count"] == 1


def test_returns(channel: Channel) -> None:
    channel.confirm_deliveries()
    with pytest.raises(AMQPMessageError, match="Message not delivered: NO_ROUTE") as caught:
        channel.basic.publish("lost", "nobody", mandatory=True)
    assert caught.value.error_code == 312
    assert channel.basic.publish("lost", "nobody") is True
    assert channel.is_open


def test_topics(channel: Channel, queue: str, unique: Unique) -> None:
    topics = unique("topics")
    channel.exchange.declare(topics, "topic", auto_delete=True)
    for key in ("kern.*", "*.critical", "#.deep.#"):
        channel.queue.bind(queue, topics, key)
    for key in ("kern.info", "kern.critical", "mail.critical", "mail.info", "deep", "very.deep.down", "kern.a.b"):
        channel.basic.publish(key, key, topics)
    got = []
    while (message := get(channel, queue)) is not None:
        got.append(message.body)
    assert got == ["kern.info", "kern.critical", "mail.critical", "deep", "very.deep.down"]
    channel.queue.unbind(queue, topics, "kern.*")
    channel.exchange.delete(topics)


def test_transactions(channel: Channel, queue: str) -> None:
    with channel.tx:
        channel.basic.publish("committed", queue)
    with pytest.raises(RuntimeError, match="roll it back"), channel.tx:
        channel.basic.publish("rolled back", queue)
        raise RuntimeError("roll it back")
    message = get(channel, queue)
    assert message is not None
    assert message.body == "committed"
    assert get(channel, queue) is None


def test_dead_letters(channel: Channel, queue: str, unique: Unique) -> None:
    work = unique("work")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue.declare(work, exclusive=True, arguments=arguments)
    channel.basic.publish("bad", work)
    message = get(channel, work, no_ack=False)
    assert message is not None
    message.nack(requeue=True)
    message = get(channel, work, no_ack=False)
    assert message is not None
    assert message.redelivered
    message.reject(requeue=False)
    eventually(lambda: channel.queue.declare(queue, passive=True)["message_count"] == 1, "the dead letter")
    dead = get(channel, queue)
    assert dead is not None
    (death,) = dead.properties["headers"]["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("rejected", work, 1)


def test_request_and_reply(connection: Connection, channel: Channel, queue: str) -> None:
    """A server thread, and a client that takes replies straight from the broker."""

    def serve(message: Message) -> None:
        reply = Message.create(server, str(int(str(message.body)) * 2), {"correlation_id": message.correlation_id})
        reply.publish(str(message.reply_to))
        message.ack()

    server = connection.channel()
    server.basic.consume(serve, queue)
    thread = threading.Thread(target=server.start_consuming, daemon=True)
    thread.start()
    replies: dict[str, str] = {}

    def on_reply(message: Message) -> None:
        replies[str(message.correlation_id)] = str(message.body)

    channel.basic.consume(on_reply, "amq.rabbitmq.reply-to", no_ack=True)
    for number in range(20):
        request = Message.create(channel, str(number), {"reply_to": "amq.rabbitmq.reply-to"})
        request.correlation_id = str(number)
        request.publish(queue)

    def is_answered() -> bool:
        channel.process_data_events()
        return len(replies) == 20

    eventually(is_answered, "all replies")
    server.stop_consuming()
    thread.join()
    assert replies == {str(number): str(number * 2) for number in range(20)}


def test_the_channel_is_closed(connection: Connection, unique: Unique) -> None:
    channel = connection.channel()
    with pytest.raises(AMQPChannelError, match=r"NOT_FOUND - no queue 'not there' in vhost '/'") as caught:
        channel.queue.declare("not there", passive=True)
    assert (caught.value.error_code, caught.value.error_type) == (404, "NOT-FOUND")
    assert channel.is_closed
    channel = connection.channel()
    name = unique("q")
    channel.queue.declare(name, exclusive=True)
    with pytest.raises(AMQPChannelError, match="inequivalent arg 'x-max-length'") as caught:
        channel.queue.declare(name, exclusive=True, arguments={"x-max-length": 1})
    assert caught.value.error_code == 406
    assert connection.is_open


def test_the_connection_is_closed(connection: Connection) -> None:
    with pytest.raises(AMQPConnectionError, match=r"NOT_IMPLEMENTED - prefetch_size!=0 \(10\)") as caught:
        connection.channel().basic.qos(prefetch_size=10)
    assert caught.value.error_code == 540


def test_refused(address: Address) -> None:
    with pytest.raises(AMQPConnectionError, match="ACCESS_REFUSED - Login was refused") as caught:
        Connection(address.host, "guest", "wrong", port=address.port)
    assert caught.value.error_code == 403
    with pytest.raises(AMQPConnectionError, match="NOT_ALLOWED - vhost nowhere not found") as caught:
        UriConnection(address.url("nowhere"))
    assert caught.value.error_code == 530


def test_the_consumer_is_cancelled(connection: Connection, channel: Channel, unique: Unique) -> None:
    name = unique("q")
    channel.queue.declare(name)
    channel.basic.consume(lambda _: None, name)
    assert channel.consumer_tags
    connection.channel().queue.delete(name)
    eventually(lambda: not channel.consumer_tags, "the consumer is gone")
    assert channel.is_open


def test_a_consumer_that_reconnects(start_broker: Callable[..., BrokerProcess]) -> None:
    """The robust consumer of its examples: when the connection breaks, make another and go on."""
    broker = start_broker()
    port = broker.port
    bodies: list[str] = []
    errors: list[AMQPConnectionError] = []
    is_consuming, is_back = threading.Event(), threading.Event()

    def connect() -> Connection:
        return Connection("127.0.0.1", "guest", "guest", port=port, timeout=PATIENCE_S)

    def publish(body: str) -> None:
        with connect() as connection:
            connection.channel().basic.publish(body, "work")

    def on_message(message: Message) -> None:
        bodies.append(str(message.body))
        message.ack()
        if message.body == "last":
            assert message.channel is not None
            message.channel.stop_consuming()

    def consume() -> None:
        while "last" not in bodies:
            try:
                with connect() as connection, connection.channel() as channel:
                    channel.queue.declare("work")
                    channel.basic.consume(on_message, "work")
                    is_consuming.set()
                    channel.start_consuming()
                    channel.check_for_errors()
            except AMQPConnectionError as error:
                is_consuming.clear()
                errors.append(error)
                is_back.wait(PATIENCE_S)  # AMQPStorm does not close a socket that was refused

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    assert is_consuming.wait(PATIENCE_S)
    publish("first")
    eventually(lambda: bodies == ["first"], "the first message")
    broker.stop()
    eventually(lambda: not is_consuming.is_set(), "the consumer notices")
    start_broker("--port", str(port))
    is_back.set()
    assert is_consuming.wait(PATIENCE_S)
    publish("last")
    thread.join(PATIENCE_S)
    assert bodies == ["first", "last"]
    assert errors[0].error_code == 320


def test_over_tls(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    broker = start_broker("--tls-port", "0", "--tls-certfile", str(tmp_path / "server.pem"))
    options = f"cert_reqs=required&server_hostname=localhost&ca_certs={tmp_path}/ca.pem"
    with UriConnection(f"amqps://guest:guest@127.0.0.1:{broker.port_of('amqps')}/%2F?{options}") as connection:
        channel = connection.channel()
        queue = channel.queue.declare(exclusive=True)["queue"]
        channel.basic.publish("x" * 400_000, queue)
        message = get(channel, queue)
        assert message is not None
        assert message.body == "x" * 400_000
