"""The blocking client: handshake, publishing in a window, what goes wrong on the way, and what it costs."""

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import trustme
from pamqp import commands
from pyspark.sql.types import BinaryType, StructType

from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import Properties
from rabbitlike.spark import options
from rabbitlike.spark.address import Address, Tls, parse
from rabbitlike.spark.dial import Lost
from rabbitlike.spark.identity import Task
from rabbitlike.spark.publisher import Publisher, Refused, route
from rabbitlike.spark.schema import plan_write
from rabbitlike.spark.wire import Connection
from rabbitlike.spark.writer import Sink
from tests.support.broker_process import ROOT, BrokerProcess, environment, running
from tests.support.frames import encode_method, loose

PERSISTENT = Properties.build(delivery_mode=2).raw


def publish(connection: Connection, address: bytes, *bodies: bytes, window: int = 2000) -> Publisher:
    publisher = Publisher(connection, window)
    publisher.publish(itertools.repeat(address), itertools.repeat(PERSISTENT), bodies)
    publisher.finish()
    return publisher


def to(queue: str) -> bytes:
    return route("", queue, mandatory=True)


# Publishing and taking


@pytest.mark.parametrize("window", [1, 7, 2000])
def test_all_is_confirmed_and_there(client: Connection, queue: str, window: int) -> None:
    bodies = [b"%d" % number for number in range(500)]
    publisher = publish(client, to(queue), *bodies, window=window)
    assert client.unconfirmed(publisher.published) == 0
    assert [delivery.body for delivery in client.get(queue, 1000)] == bodies


def test_bodies_of_no_and_of_many_frames(client: Connection, queue: str) -> None:
    bodies = [b"", b"x", b"y" * client.payload_max, b"z" * (client.payload_max + 1), b"w" * 1_000_000, b""]
    publish(client, to(queue), *bodies)
    client.consume(queue, prefetch=10)
    assert [delivery.body for delivery in client.take(len(bodies), wait_s=20)] == bodies


def test_taking_stops_at_so_many_octets(client: Connection, queue: str) -> None:
    publish(client, to(queue), *[b"x" * 100] * 10)
    client.consume(queue, prefetch=10)
    assert len(client.take(10, wait_s=20, size_max=350)) == 3
    assert len(client.take(7, wait_s=20, size_max=1)) == 1, "one at least"
    assert len(client.take(6, wait_s=20)) == 6


def test_what_is_abandoned_is_back_in_the_queue(address: Address, client: Connection, queue: str) -> None:
    publish(client, to(queue), b"1", b"2", b"3")
    other = Connection(address)
    taken = other.get(queue, 10)
    other.ack(taken[0].tag)
    other.close()
    assert [(delivery.body, delivery.redelivered) for delivery in client.get(queue, 10)] == [(b"2", True), (b"3", True)]


def test_confirms_come_in_any_order(client: Connection) -> None:
    def hear(tag: int, *, multiple: bool = False, is_refusal: bool = False) -> None:
        method = commands.Basic.Nack if is_refusal else commands.Basic.Ack
        frame = bytearray(encode_method(loose(method, delivery_tag=tag, multiple=multiple), 1))
        client.at = 0
        client.feed(frame, len(frame))
        client.at = 0

    for tag in (3, 5):
        hear(tag)
    assert client.unconfirmed(10) == 8
    hear(4, multiple=True)
    assert client.unconfirmed(10) == 5, "1 to 5"
    hear(2, multiple=True)  # late, and says nothing new
    hear(7)
    hear(9, multiple=True, is_refusal=True)
    assert (client.unconfirmed(10), client.refused) == (1, 3), "6, 8 and 9 were refused"


# What goes wrong


def test_unroutable_messages_are_an_error(client: Connection) -> None:
    with pytest.raises(Refused, match=r"returned 1 messages as unroutable.*'nowhere'"):
        publish(client, to("nowhere"), b"lost")


def test_a_full_queue_is_an_error(client: Connection, queue: str) -> None:
    full = f"{queue}-full"
    client.declare_queue(full, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    with pytest.raises(Refused, match=r"refused [12] of 3 messages"):
        publish(client, to(full), b"1", b"2", b"3")


@pytest.mark.parametrize("window", [1, 2000])
def test_a_row_that_is_too_large_is_told_of(window: int) -> None:
    with running("--max-message-size", "1MiB") as broker, Connection(Address(port=broker.port)) as connection:
        connection.declare_queue("q")
        with pytest.raises(Refused, match=r"a row is too large, its message size 3000000 .* \(max_message_size of the"):
            publish(connection, to("q"), b"small", b"x" * 3_000_000, window=window)


def test_a_missing_exchange_is_an_error(client: Connection) -> None:
    with pytest.raises(AmqpError, match="404 NOT_FOUND - no exchange 'nix' in vhost '/'"):
        publish(client, route("nix", "", mandatory=True), b"1")


def test_a_wrong_password_is_told(address: Address) -> None:
    with pytest.raises(AmqpError, match="403 ACCESS_REFUSED"):
        Connection(replace(address, password="no"))


def test_a_missing_vhost_is_told(address: Address) -> None:
    with pytest.raises((AmqpError, Lost), match="vhost"):
        Connection(replace(address, vhost="no"))


def test_nobody_there_is_told_after_a_while() -> None:
    began = time.monotonic()
    with pytest.raises(Lost, match=r"no broker at amqp://guest@127\.0\.0\.1:1: "):
        Connection(Address(port=1), timeout_s=0.5)
    assert time.monotonic() - began < 20


def test_a_broker_that_restarts_is_waited_for(tmp_path: Path) -> None:
    with running("--no-memory", "--data-dir", str(tmp_path)) as first:
        port = first.port
        with Connection(Address(port=port)) as connection:
            connection.declare_queue("kept")
            publish(connection, to("kept"), b"1")
    found: list[int] = []

    def look() -> None:
        with Connection(Address(port=port), timeout_s=60) as connection:
            found.append(connection.declare_queue("kept", passive=True).message_count)

    looking = threading.Thread(target=look)
    looking.start()
    with running("--no-memory", "--data-dir", str(tmp_path), "--port", str(port)):
        looking.join(60)
    assert found == [1]


def test_a_broker_that_goes_away_is_told(tmp_path: Path) -> None:
    with running() as broker, Connection(Address(port=broker.port)) as connection:
        broker.process.kill()
        broker.process.wait()
        with pytest.raises(Lost, match="lost"):
            connection.declare_queue("q")


def test_a_broker_that_shuts_down_is_lost() -> None:
    """It says so with connection.close, which is no fault of ours: who can go on later does."""
    with running() as broker, Connection(Address(port=broker.port)) as connection:
        broker.stop()
        with pytest.raises(Lost, match="the broker closed it: CONNECTION_FORCED"):
            connection.declare_queue("q")


@pytest.fixture
def blocking(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that wants more free disk than there is."""
    with running("--no-memory", "--data-dir", str(tmp_path), "--disk-free-limit", str(1 << 60)) as process:
        yield process


def test_a_broker_that_blocks_publishers_is_given_up_on(blocking: BrokerProcess) -> None:
    """It is heard saying so, and with heartbeats it is told meanwhile that we are there."""
    with Connection(Address(port=blocking.port), timeout_s=4, heartbeat_s=1) as connection:
        connection.declare_queue("q")
        publisher = Publisher(connection, 100)
        began = time.monotonic()
        with pytest.raises(Lost, match="nothing moved for 4 s; it blocks publishers: low on disk"):
            while True:
                publisher.publish(itertools.repeat(to("q")), itertools.repeat(PERSISTENT), [b"x"] * 100)
        assert time.monotonic() - began >= 4


def test_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    files = {name: str(tmp_path / name) for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(files["ca"])
    server.private_key_pem.write_to_path(files["key"])
    for blob in server.cert_chain_pems:
        blob.write_to_path(files["cert"], append=True)
    flags = ("--tls-port", "0", "--tls-certfile", files["cert"], "--tls-keyfile", files["key"])
    with running(*flags) as broker:
        broker.wait_for("amqps")
        there = f"amqps://127.0.0.1:{broker.port_of('amqps')}"
        with Connection(parse(f"{there}?cacertfile={files['ca']}")) as connection:
            connection.declare_queue("q")
            bodies = [b"x" * 200_000] * 20
            publish(connection, to("q"), *bodies)
            assert [delivery.body for delivery in connection.get("q", 100)] == bodies
        with pytest.raises(Lost, match="no TLS"):
            Connection(parse(there))
        Connection(replace(parse(there), tls=Tls(verify="verify_none"))).close()


# What it costs


@pytest.mark.parametrize("guarantee", ["at-least-once", "effectively-once"])
def test_writing_costs_little(client: Connection, queue: str, guarantee: str) -> None:
    """A few microseconds of CPU time for a message of 200 bytes, from Arrow to the socket, in either build. The limit
    allows for a slow machine; a message that takes a step per octet exceeds it."""
    schema = StructType().add("body", BinaryType())
    batch = pa.RecordBatch.from_pydict({"body": [b"%0200d" % number for number in range(10_000)]})
    parsed = options.parse({"routingKey": queue, "guarantee": guarantee})
    sink = Sink(parsed, plan_write(schema, parsed), is_stream=False)
    publisher = Publisher(client, 2000)
    best_s = 1.0
    for _ in range(4):
        began_s = time.thread_time()
        for messages in sink.messages(iter([batch]), Task(partition=0, attempt=0, query=None, epoch=None)):
            publisher.publish(messages.routes, messages.properties, messages.bodies)
        publisher.finish()
        best_s = min(best_s, time.thread_time() - began_s)
    assert best_s / batch.num_rows < 40e-6


def test_nothing_heavy_is_imported() -> None:
    """An executor may have nothing but a zip of this: no broker, none of its libraries, no Spark for the client."""
    program = "import sys, rabbitlike.spark.wire, rabbitlike.spark.publisher; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment(), cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(ended.stdout.split())
    assert "rabbitlike.protocol.frames" in loaded
    assert not loaded & {"pyspark", "pyarrow", "pydantic", "uvloop", "fastapi", "asyncio", "rabbitlike.broker"}
