"""How long the server waits for clients that are slow, silent, blocked or gone, and how short others wait for a flood.

The transport is the server's own; its socket and its clock are moved by hand.
"""

import socket

import pytest
from pamqp import commands

from rabbitlike.broker.broker import Broker
from rabbitlike.config import BrokerSettings
from rabbitlike.server.transport import Transport, Transports
from rabbitlike.storage.memory import MemoryStore
from rabbitlike.testing import FakeClock
from tests.support.frames import PROTOCOL_HEADER, encode_method, frame, header_frame, longstr, loose, publish_frame


class Socket:
    """Just enough of an asyncio transport for server.transport.Transport."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_aborted = False
        self.is_reading = True
        #: One of the kernel's, for whoever asks how the other end is.
        self.real: socket.socket | None = None

    def get_extra_info(self, name: str) -> object:
        known = {"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 5672), "socket": self.real}
        return known.get(name)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_aborted = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None: ...

    def is_closing(self) -> bool:
        return self.is_aborted

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


class Dialled:
    """A client on the real transport, with a clock that is moved by hand."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.broker = Broker(BrokerSettings(), MemoryStore(), self.clock)
        self.socket = Socket()
        self.transport: Transport = Transports(self.broker, self.clock).make()
        self.transport.connection_made(self.socket)  # type: ignore[arg-type]

    def feed(self, data: bytes) -> None:
        room = self.transport.get_buffer(-1)
        room[: len(data)] = data
        self.transport.buffer_updated(len(data))


HEARTBEAT = frame(8, 0, b"")
HELLO = PROTOCOL_HEADER + encode_method(
    loose(commands.Connection.StartOk, client_properties={}, response=longstr("\0guest\0guest")), 0
)
TUNED = HELLO + encode_method(commands.Connection.TuneOk(channel_max=10, frame_max=4096, heartbeat=0), 0)
OPENED = TUNED + encode_method(commands.Connection.Open(), 0)


@pytest.mark.parametrize("said", [b"", b"A", PROTOCOL_HEADER[:7], PROTOCOL_HEADER, HELLO, TUNED, OPENED[:-1]])
def test_slow_handshake(said: bytes) -> None:
    """#26 A client that has not come to connection.open in ten seconds loses its socket."""
    slow = Dialled()
    if said:
        slow.feed(said)
    slow.clock.advance(9_999)
    assert not slow.socket.is_aborted
    slow.clock.advance(1)
    assert slow.socket.is_aborted


def test_handshake_in_drips() -> None:
    """#26 One octet a second keeps nobody connected."""
    slow = Dialled()
    for value in OPENED[:9]:
        slow.clock.advance(1000)
        slow.feed(bytes([value]))
    slow.clock.advance(2000)
    assert slow.socket.is_aborted


def test_handshake_in_time() -> None:
    """#26 Whoever is open stays."""
    quick = Dialled()
    quick.clock.advance(9_000)
    quick.feed(OPENED)
    quick.clock.advance(60_000)
    assert not quick.socket.is_aborted


def test_close_ok_that_is_not_followed_by_an_end() -> None:
    """#16 A client that was told close-ok and keeps its socket has it for 30 seconds."""
    slow = Dialled()
    slow.feed(OPENED)
    slow.feed(encode_method(commands.Connection.Close(200, "bye", 0, 0), 0))
    slow.clock.advance(29_999)
    assert not slow.socket.is_aborted
    slow.clock.advance(1)
    assert slow.socket.is_aborted


def test_silence_while_blocked() -> None:
    """#34 A blocked publisher is not read, so its silence does not count; when it is read again, it does."""
    quiet = Dialled()
    quiet.feed(HELLO + encode_method(commands.Connection.TuneOk(channel_max=10, frame_max=4096, heartbeat=10), 0))
    quiet.feed(encode_method(commands.Connection.Open(), 0) + encode_method(commands.Channel.Open(), 1))
    quiet.broker.alarms.raise_("memory")
    quiet.feed(publish_frame(1) + header_frame(1, 0))
    quiet.clock.advance(100_000)
    assert not quiet.socket.is_aborted
    quiet.broker.alarms.clear("memory")
    quiet.clock.advance(19_999)
    assert not quiet.socket.is_aborted
    quiet.clock.advance(10_001)
    assert quiet.socket.is_aborted


def test_gone_while_blocked() -> None:
    """#34 Nobody reads a blocked client, nor sees it go: without heartbeats it is looked after, or its transaction
    would be kept for ever."""
    quiet = Dialled()
    quiet.feed(OPENED + encode_method(commands.Channel.Open(), 1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        far_end = socket.create_connection(server.getsockname())
        quiet.socket.real = server.accept()[0]
    with far_end, quiet.socket.real:
        quiet.transport.pause_reading()
        quiet.clock.advance(120_000)
        assert not quiet.socket.is_aborted, "it is there, and may wait as long as it takes"
        far_end.sendall(b"not read")
        far_end.close()
        quiet.clock.advance(30_000)
        assert quiet.socket.is_aborted


def test_half_open_socket() -> None:
    """#33 A peer that vanished without a word is given up after two to three heartbeats."""
    gone = Dialled()
    gone.feed(HELLO + encode_method(commands.Connection.TuneOk(channel_max=10, frame_max=4096, heartbeat=10), 0))
    gone.feed(encode_method(commands.Connection.Open(), 0))
    gone.clock.advance(19_999)
    assert not gone.socket.is_aborted
    gone.clock.advance(10_001)
    assert gone.socket.is_aborted


def test_long_reads_wait_for_the_other_sockets() -> None:
    """#10 A socket with ever more to read has the loop for a moment only, then the others have their turn."""
    client = Dialled(FakeClock(tick_ns=1_500_000))
    client.feed(OPENED)
    client.clock.advance(0)
    client.feed(HEARTBEAT)
    assert client.socket.is_reading, "the first read of a round, however long"
    client.feed(HEARTBEAT)
    assert not client.socket.is_reading
    client.clock.advance(0)
    assert client.socket.is_reading
    client.clock.tick_ns = 1000
    for _ in range(10_000):
        client.feed(HEARTBEAT)
    assert client.socket.is_reading, "short reads"


def test_a_socket_that_waits_and_is_held() -> None:
    """#34 Its turn does not come while an alarm, say, holds it; nor before its turn when that is over at once."""
    client = Dialled(FakeClock(tick_ns=1_500_000))
    client.feed(OPENED)
    for is_over_at_once in (False, True):
        client.clock.advance(0)
        client.feed(HEARTBEAT)
        client.feed(HEARTBEAT)
        client.transport.pause_reading()
        if not is_over_at_once:
            client.clock.advance(0)
        assert not client.socket.is_reading
        client.transport.resume_reading()
        assert client.socket.is_reading is not is_over_at_once
        client.clock.advance(0)
        assert client.socket.is_reading


@pytest.mark.parametrize("what", ["declares", "publishes"])
def test_a_read_full_of_requests_is_handled_in_parts(what: str) -> None:
    """#10 Requests that take long do not keep the others waiting until the last of them is done; none is lost."""
    client = Dialled(FakeClock(tick_ns=500_000))
    client.feed(OPENED + encode_method(commands.Channel.Open(), 1))
    client.socket.written.clear()
    if what == "declares":
        many = [encode_method(commands.Queue.Declare(queue=f"q{number}"), 1) for number in range(200)]
    else:
        # each to an address that is not known yet
        many = [
            encode_method(commands.Basic.Publish(routing_key=f"q{number}", mandatory=True), 1) + header_frame(1, 0)
            for number in range(200)
        ]
    client.feed(b"".join(many))
    answered = client.socket.written.count(b"\xce")
    assert 5 < answered < 150
    assert not client.socket.is_reading
    for _ in range(50):
        client.clock.advance(100)
    assert client.socket.written.count(b"\xce") == 200 * (1 if what == "declares" else 2)
    assert client.socket.is_reading
