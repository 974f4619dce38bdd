"""The socket's side of a connection: shared reads, slow readers, slow talkers, limits, and how a socket is let go."""

import random
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from pamqp import commands, header

from rabbitlike.server.transport import LINGER_MS
from tests.server.raw import PROTOCOL_HEADER, RawClient
from tests.support import frames
from tests.support.broker_process import BrokerProcess, running


def test_interleaved_clients_keep_their_octets_apart(broker: BrokerProcess) -> None:
    """All reads go to one buffer: what is left of one client's frame must not reach another's."""
    clients = [RawClient.connect(broker.port) for _ in range(5)]
    streams = []
    for number, client in enumerate(clients):
        client.log_in()
        client.open_channel()
        client.send(commands.Queue.Declare(queue=f"apart-{number}", exclusive=True), 1)
        client.expect(commands.Queue.DeclareOk)
        streams.append(recorded(partial(fill, number)))
    chance = random.Random(7)
    waiting = [number for number, stream in enumerate(streams) for _ in range(0, len(stream), 777)]
    chance.shuffle(waiting)
    for number in waiting:
        clients[number].sock.sendall(streams[number][:777])
        streams[number] = streams[number][777:]
    for number, client in enumerate(clients):
        for index in range(30):
            client.send(commands.Basic.Get(queue=f"apart-{number}", no_ack=True), 1)
            client.expect(commands.Basic.GetOk)
            start = client.read()
            assert isinstance(start, header.ContentHeader)
            assert start.body_size == 1000 * index + number
            size = 0
            while size < start.body_size:
                part = client.read()
                assert isinstance(part, bytes)
                assert set(part) == {number}
                size += len(part)
        client.sock.close()


class Recorder(RawClient):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        self.sent = b""
        self.sock = self  # type: ignore[assignment]

    def sendall(self, data: bytes) -> None:
        self.sent += data


def recorded(talk: Callable[[RawClient], None]) -> bytes:
    wire = Recorder()
    talk(wire)
    return wire.sent


def fill(number: int, wire: RawClient) -> None:
    for index in range(30):
        wire.publish(bytes([number]) * (1000 * index + number), f"apart-{number}")


def test_one_octet_at_a_time(broker: BrokerProcess) -> None:
    talk = recorded(lambda wire: wire.send(commands.Channel.Open(), 1))
    with RawClient.connect(broker.port) as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.log_in()
        for octet in talk:
            client.sock.sendall(bytes([octet]))
            time.sleep(0.001)
        client.expect(commands.Channel.OpenOk)


def test_a_bad_header_is_answered_before_the_end(broker: BrokerProcess) -> None:
    """#21 Even when more is on its way: the answer is not lost to a reset."""
    with RawClient.connect(broker.port) as client:
        client.sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + bytes(100_000))
        assert client.sock.recv(100) == PROTOCOL_HEADER
        client.sock.sendall(bytes(100_000))
        assert client.sock.recv(100) == b""


def test_who_hears_close_ok_closes(broker: BrokerProcess) -> None:
    """#16 The client is left to end the connection: an end of ours could overtake its looking at close-ok."""
    with RawClient.connect(broker.port) as client:
        client.log_in()
        client.send(commands.Connection.Close(200, "bye", 0, 0))
        client.expect(commands.Connection.CloseOk)
        client.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.sock.recv(1)
        client.sock.settimeout(10)
        client.sock.shutdown(socket.SHUT_WR)
        assert client.sock.recv(1) == b""


def test_who_does_not_close_after_us_is_dropped(broker: BrokerProcess) -> None:
    with RawClient.connect(broker.port) as client:
        client.sock.sendall(b"HELO\0\0\0\0")
        started = time.monotonic()
        assert client.sock.recv(100) == PROTOCOL_HEADER
        assert client.sock.recv(100) == b""
        with pytest.raises(OSError):
            while True:
                client.sock.sendall(b"still here")
                time.sleep(0.05)
                assert time.monotonic() - started < LINGER_MS / 1000 + 5
        assert time.monotonic() - started > LINGER_MS / 1000 - 0.5


LARGE = bytes(range(250)) * 100_000


def put_large(client: RawClient, queue: str) -> None:
    client.log_in()
    client.open_channel()
    client.send(commands.Queue.Declare(queue=queue, exclusive=True), 1)
    client.expect(commands.Queue.DeclareOk)
    client.send(commands.Basic.Publish(routing_key=queue), 1)
    client.sock.sendall(frames.header_frame(1, len(LARGE), frames.properties()))
    for at in range(0, len(LARGE), 100_000):
        client.sock.sendall(frames.body_frame(1, LARGE[at : at + 100_000]))


def read_large(client: RawClient) -> None:
    client.expect(commands.Basic.GetOk)
    start = client.read()
    assert isinstance(start, header.ContentHeader)
    parts: list[bytes] = []
    size = 0
    while size < start.body_size:
        part = client.read()
        assert isinstance(part, bytes)
        parts.append(part)
        size += len(part)
    assert b"".join(parts) == LARGE


def test_a_large_message_goes_out_before_the_answer_to_close(broker: BrokerProcess) -> None:
    """The client asks for it and closes at once; it reads late."""
    with RawClient.connect(broker.port) as client:
        put_large(client, "large-close")
        client.send(commands.Basic.Get(queue="large-close", no_ack=True), 1)
        client.send(commands.Queue.Declare(queue="large-close", passive=True), 1)
        client.send(commands.Connection.Close(200, "bye", 0, 0))
        time.sleep(0.3)
        read_large(client)
        client.expect(commands.Queue.DeclareOk)
        client.expect(commands.Connection.CloseOk)


def test_a_large_message_reaches_a_client_that_has_closed_its_half(broker: BrokerProcess) -> None:
    with RawClient.connect(broker.port) as client:
        put_large(client, "large-half")
        client.send(commands.Basic.Get(queue="large-half", no_ack=True), 1)
        client.sock.shutdown(socket.SHUT_WR)
        read_large(client)
        assert client.sock.recv(1) == b""


def test_a_client_that_goes_in_the_middle_of_a_large_message(broker: BrokerProcess) -> None:
    with RawClient.connect(broker.port) as client:
        put_large(client, "large-gone")
        client.send(commands.Basic.Get(queue="large-gone", no_ack=True), 1)
        client.expect(commands.Basic.GetOk)
    with RawClient.connect(broker.port) as client:
        put_large(client, "large-next")
        client.send(commands.Basic.Get(queue="large-next", no_ack=True), 1)
        read_large(client)


@pytest.fixture(scope="module")
def strict() -> Iterator[BrokerProcess]:
    """A broker with little patience."""
    with running("--handshake-timeout-ms", "300", "--connection-max", "3", "--out-buffer-limit", "65536") as process:
        yield process


@pytest.mark.parametrize("said", [b"", b"AMQP", PROTOCOL_HEADER])
def test_a_slow_handshake_is_cut(strict: BrokerProcess, said: bytes) -> None:
    with RawClient.connect(strict.port) as client:
        client.sock.sendall(said)
        if said == PROTOCOL_HEADER:
            client.expect(commands.Connection.Start)
        started = time.monotonic()
        client.expect_end()
        assert time.monotonic() - started < 5


def test_an_open_connection_outlives_the_handshake_timeout(strict: BrokerProcess) -> None:
    with RawClient.connect(strict.port) as client:
        client.log_in()
        time.sleep(0.5)
        client.open_channel()


def test_one_too_many_is_turned_away(strict: BrokerProcess) -> None:
    clients = [RawClient.connect(strict.port) for _ in range(3)]
    for client in clients:
        client.log_in()
    with RawClient.connect(strict.port) as turned_away:
        turned_away.expect_end()
    clients[0].send(commands.Connection.Close(200, "bye", 0, 0))
    clients[0].expect(commands.Connection.CloseOk)
    clients[0].sock.close()
    deadline = time.monotonic() + 5
    while True:  # until the broker has noticed
        with RawClient.connect(strict.port) as next_one:
            try:
                next_one.log_in()
                break
            except (AssertionError, OSError):
                assert time.monotonic() < deadline
                time.sleep(0.05)
    for client in clients:
        client.sock.close()


def test_who_does_not_read_is_not_delivered_to(strict: BrokerProcess) -> None:
    """The out-buffer stays small, others are served, and reading again brings the rest."""
    total, size = 300, 100_000
    with RawClient.connect(strict.port) as slow, RawClient.connect(strict.port) as other:
        slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        for client in (slow, other):
            client.log_in()
            client.open_channel()
        slow.send(commands.Queue.Declare(queue="slow"), 1)
        slow.expect(commands.Queue.DeclareOk)
        slow.send(commands.Basic.Consume(queue="slow", no_ack=True), 1)
        slow.expect(commands.Basic.ConsumeOk)
        for _ in range(total):
            other.publish(bytes(size), "slow")
        other.send(commands.Queue.Declare(queue="slow", passive=True), 1)
        waiting = other.expect(commands.Queue.DeclareOk).message_count
        assert waiting is not None
        assert waiting > total // 2, "most of it waits in the queue, not in the out-buffer"
        seen = 0
        while seen < total:
            slow.expect(commands.Basic.Deliver)
            assert isinstance(slow.read(), header.ContentHeader)
            assert slow.read() == bytes(size)
            seen += 1
        other.send(commands.Queue.Delete(queue="slow"), 1)
        assert other.expect(commands.Queue.DeleteOk).message_count == 0


def test_who_asks_and_never_reads_is_not_read_either(strict: BrokerProcess) -> None:
    """Answers pile up only so far; then the client's own socket fills, and others go on."""
    ask = recorded(lambda wire: wire.send(commands.Basic.Get(queue="asked"), 1)) * 1000
    with RawClient.connect(strict.port) as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.log_in()
        client.open_channel()
        client.send(commands.Queue.Declare(queue="asked", exclusive=True), 1)
        client.expect(commands.Queue.DeclareOk)
        for _ in range(200):
            client.publish(bytes(100_000), "asked")
        client.sock.settimeout(1)
        with pytest.raises(TimeoutError):
            for _ in range(2000):
                client.sock.sendall(ask)
        with RawClient.connect(strict.port) as other:
            other.log_in()
            other.open_channel()


def test_a_client_that_vanishes_gives_back_its_messages(broker: BrokerProcess) -> None:
    """A reset instead of a close."""
    with RawClient.connect(broker.port) as client, RawClient.connect(broker.port) as other:
        for each in (client, other):
            each.log_in()
            each.open_channel()
        client.send(commands.Queue.Declare(queue="given-back"), 1)
        client.expect(commands.Queue.DeclareOk)
        client.publish(b"one", "given-back")
        client.send(commands.Basic.Get(queue="given-back"), 1)
        client.expect(commands.Basic.GetOk)
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.sock.close()
        deadline = time.monotonic() + 5
        while True:
            other.send(commands.Basic.Get(queue="given-back", no_ack=True), 1)
            found = other.read()
            if isinstance(found, commands.Basic.GetOk):
                assert found.redelivered
                break
            assert time.monotonic() < deadline
            time.sleep(0.02)
        other.read()
        other.read()
        other.send(commands.Queue.Delete(queue="given-back"), 1)
        other.expect(commands.Queue.DeleteOk)
