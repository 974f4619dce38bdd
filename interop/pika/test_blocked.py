"""A broker low on memory: publishers are told and held, consumers go on, and all is well again when it has room."""

import threading
import time
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.connection import Connection
from pika.exceptions import ConnectionBlockedTimeout

from interop.conftest import FOREIGN, Address
from interop.patience import PATIENCE_S
from interop.pika.walk import ADAPTERS, Walk, open_channel, walk
from tests.support.broker_process import BrokerProcess, running

pytestmark = pytest.mark.skipif(bool(FOREIGN), reason="starts a broker with little memory")

StartBroker = Callable[..., BrokerProcess]
MEGABYTE = 1_000_000
LIMIT_MB = 200


@pytest.fixture(scope="module")
def low() -> Iterator[BrokerProcess]:
    """It is always out of memory."""
    with running("--memory-high-watermark", "4096") as broker:
        yield broker


@pytest.fixture
def tight(start_broker: StartBroker) -> Iterator[BlockingConnection]:
    """A publisher's connection to one that has room for some messages, but not for many."""
    broker = start_broker("--memory-high-watermark", f"{LIMIT_MB}MB", "--memory-check-interval-ms", "20")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        yield connection


def connect(port: int, **parameters: object) -> BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, **parameters))


def test_blocked_and_unblocked(tight: BlockingConnection) -> None:
    """A publisher that does nothing but publish: it is held while there is no room, and goes on when there is."""
    heard: list[str] = []
    # pika's blocking layer tells only when it has nothing to send, which a held publisher always has
    tight._impl.add_on_connection_blocked_callback(lambda _, frame: heard.append(frame.method.reason))
    tight._impl.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
    channel = tight.channel()
    channel.queue_declare("filled")
    is_done = threading.Event()

    def make_room() -> None:
        """Another client, which the alarm does not hold."""
        with connect(tight._impl.params.port) as connection:
            consumer = connection.channel()
            while not is_done.wait(0.01):
                if heard:
                    consumer.queue_purge("filled")

    other = threading.Thread(target=make_room)
    other.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while len(heard) < 2:
            assert time.monotonic() < deadline
            channel.basic_publish("", "filled", bytes(MEGABYTE))
        tight.close()  # while there is somebody who makes room
    finally:
        is_done.set()
        other.join()
    assert heard[:2] == ["low on memory", "unblocked"]


def test_those_who_do_not_publish_are_left_alone(low: BrokerProcess) -> None:
    with connect(low.port) as connection:
        heard: list[object] = []
        connection.add_on_connection_blocked_callback(lambda *_: heard.append(1))
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_consume(queue, lambda *_: None)
        connection.sleep(0.1)
        assert channel.queue_purge(queue).method.message_count == 0
        assert heard == []


def test_pika_gives_up_when_it_is_blocked_too_long(low: BrokerProcess) -> None:
    connection = connect(low.port, blocked_connection_timeout=0.2)
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(ConnectionBlockedTimeout):
        while True:  # the first one is read before the connection is held
            channel.basic_publish("", "anywhere", b"x")


def test_heartbeats_survive(low: BrokerProcess) -> None:
    """A blocked client is not read, so its heartbeats are not seen: it must not be dropped for that."""
    connection = connect(low.port, heartbeat=1)
    heard: list[object] = []
    connection.add_on_connection_blocked_callback(lambda *_: heard.append(1))
    connection.channel().basic_publish("", "anywhere", b"x")
    deadline = time.monotonic() + 3.5
    while time.monotonic() < deadline:
        connection.process_data_events(0.1)
    assert heard
    connection._impl._terminate_stream(ConnectionBlockedTimeout("done"))  # a close would not be read
    with pytest.raises(ConnectionBlockedTimeout):
        connection.process_data_events(PATIENCE_S)


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_asynchronous_clients_are_told(low: BrokerProcess, name: str) -> None:
    def script(connection: Connection) -> Walk:
        channel = yield from open_channel(connection)
        (_, frame) = yield lambda done: (
            connection.add_on_connection_blocked_callback(done),
            channel.basic_publish("", "anywhere", b"x"),
        )
        assert frame.method.reason == "low on memory"
        connection._terminate_stream(ConnectionBlockedTimeout("leave"))
        yield lambda _: None

    assert isinstance(walk(ADAPTERS[name], Address("127.0.0.1", low.port), script), ConnectionBlockedTimeout)
