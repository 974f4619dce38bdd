"""A small blocking AMQP client: handshake, topology, consume.

It reads frame by frame and never ahead, so that a loop that counts bytes can take over the socket at any moment.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from benchmarks import wire

TIMEOUT_S = 30.0
READ_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The wire format of one delivery of a scenario; all its deliveries are equal except for the tag."""

    size: int
    tag_offset: int
    body_offset: int


class Refused(Exception):
    """The broker closed the channel or the connection, or sent something unexpected."""


class Client:
    """One connection. `Client(address)` returns it open; `Client.connect` leaves the handshake to the caller."""

    def __init__(self, address: Address) -> None:
        self._dial(address)
        try:
            for _ in self.shake_hands():
                pass
        except BaseException:
            self.sock.close()
            raise

    @classmethod
    def connect(cls, address: Address) -> Self:
        client = cls.__new__(cls)
        client._dial(address)
        return client

    def _dial(self, address: Address) -> None:
        self.sock = socket.create_connection((address.host, address.port), timeout=TIMEOUT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The kernel enforces the time limit: with a Python timeout every read and write would cost an additional poll.
        self.sock.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", int(TIMEOUT_S), 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.sock.close()

    # Dialogues: each yields where it waits for the broker, so that one process can run many connections in step.

    def shake_hands(self) -> Iterator[None]:
        self.send(wire.PROTOCOL_HEADER)
        yield
        self.expect_alone(wire.START)
        self.send(START_OK)
        yield
        channel_max, frame_max, _ = struct.unpack(">HIH", self.expect_alone(wire.TUNE))
        # No heartbeats: a heartbeat among the deliveries would break counting by bytes.
        self.send(wire.method(0, wire.TUNE_OK, struct.pack(">HIH", channel_max, frame_max, 0)) + OPEN)
        yield
        self.expect_alone(wire.OPEN_OK)

    def ask(self, request: bytes, reply: wire.MethodId) -> Iterator[None]:
        self.send(request)
        yield
        self.expect_alone(reply)

    # Frames

    def send(self, raw: bytes | bytearray) -> None:
        self.sock.sendall(raw)

    def read_exactly(self, count: int) -> bytes:
        data = self.sock.recv(count, socket.MSG_WAITALL)
        if len(data) < count:
            raise Refused("the broker closed the socket or fell silent")
        return data

    def read_frame(self) -> tuple[int, bytes, bytes]:
        """Return the type, the payload, and the whole frame as received."""
        head = self.read_exactly(7)
        kind, _, size = wire.FRAME_HEAD.unpack(head)
        rest = self.read_exactly(size + 1)
        if rest[-1:] != wire.END:
            raise Refused("a frame without its end octet")
        return kind, rest[:-1], head + rest

    def expect(self, method_id: wire.MethodId) -> bytes:
        """Return the arguments of the next method, which must be this one."""
        kind, payload, _ = self.read_frame()
        if kind != wire.METHOD:
            raise Refused(f"expected method {method_id}, got a frame of type {kind}")
        return _arguments(payload, method_id)

    def expect_alone(self, method_id: wire.MethodId) -> bytes:
        """Like `expect`, in one read: only for a method after which the broker sends nothing until it is answered."""
        data = b""
        while len(data) < 8 or len(data) < wire.FRAME_HEAD.unpack_from(data)[2] + 8:
            more = self.sock.recv(READ_BYTES)
            if not more:
                raise Refused("the broker closed the socket or fell silent")
            data += more
        return _arguments(data[7:-1], method_id)

    def call(self, request: bytes, reply: wire.MethodId) -> bytes:
        self.send(request)
        return self.expect(reply)

    # Methods

    def open_channel(self, channel: int = 1) -> None:
        self.call(wire.open_channel(channel), wire.CHANNEL_OPEN_OK)

    def declare_exchange(self, name: str, kind: str) -> None:
        arguments = b"\x00\x00" + wire.shortstr(name) + wire.shortstr(kind) + b"\x00" + wire.table({})
        self.call(wire.method(1, wire.EXCHANGE_DECLARE, arguments), wire.EXCHANGE_DECLARE_OK)

    def delete_exchange(self, name: str) -> None:
        arguments = b"\x00\x00" + wire.shortstr(name) + b"\x00"
        self.call(wire.method(1, wire.EXCHANGE_DELETE, arguments), wire.EXCHANGE_DELETE_OK)

    def declare_queue(
        self, name: str, *, durable: bool = False, arguments: Mapping[str, wire.Value] | None = None
    ) -> int:
        """Declare a queue and return its number of messages."""
        said = self.call(wire.declare_queue(name, durable=durable, arguments=arguments), wire.QUEUE_DECLARE_OK)
        return int(struct.unpack_from(">I", said, 1 + said[0])[0])

    def delete_queue(self, name: str) -> None:
        self.call(wire.delete_queue(name), wire.QUEUE_DELETE_OK)

    def bind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Mapping[str, wire.Value] | None = None
    ) -> None:
        names = wire.shortstr(queue) + wire.shortstr(exchange) + wire.shortstr(routing_key)
        request = wire.method(1, wire.QUEUE_BIND, b"\x00\x00" + names + b"\x00" + wire.table(arguments or {}))
        self.call(request, wire.QUEUE_BIND_OK)

    def qos(self, prefetch: int) -> None:
        self.call(wire.method(1, wire.QOS, struct.pack(">IHB", 0, prefetch, 0)), wire.QOS_OK)

    def consume(self, queue: str, *, auto_ack: bool) -> None:
        arguments = b"\x00\x00" + wire.shortstr(queue) + wire.shortstr("c") + bytes((2 if auto_ack else 0,))
        self.call(wire.method(1, wire.CONSUME, arguments + wire.table({})), wire.CONSUME_OK)

    def select_confirms(self) -> None:
        self.call(wire.method(1, wire.CONFIRM_SELECT, b"\x00"), wire.CONFIRM_SELECT_OK)

    def read_delivery(self) -> tuple[Shape, bytes]:
        """Read the next delivery frame by frame to learn the format of the following ones."""
        kind, payload, raw = self.read_frame()
        if kind != wire.METHOD or struct.unpack_from(">HH", payload) != wire.DELIVER:
            raise Refused("expected a delivery")
        tag_offset = wire.CONSUMER_TAG_OFFSET + 1 + payload[4]
        _, head, more = self.read_frame()
        raw += more
        (left,) = struct.unpack_from(">Q", head, 4)
        body_offset = len(raw) + 7
        while left:
            _, body, more = self.read_frame()
            raw += more
            left -= len(body)
        return Shape(len(raw), tag_offset, body_offset), raw

    def close(self) -> None:
        try:
            self.call(CLOSE, wire.CLOSE_OK)
        finally:
            self.sock.close()


def _arguments(payload: bytes, method_id: wire.MethodId) -> bytes:
    got = struct.unpack_from(">HH", payload)
    if got == method_id:
        return payload[4:]
    if got in (wire.CLOSE, wire.CHANNEL_CLOSE):
        code, length = struct.unpack_from(">HB", payload, 4)
        raise Refused(f"{code} {payload[7 : 7 + length].decode(errors='replace')}")
    raise Refused(f"expected method {method_id}, got {got}")


_CLIENT_PROPERTIES = wire.table({"product": "benchmarks", "platform": "Python"})
START_OK = wire.method(
    0,
    wire.START_OK,
    _CLIENT_PROPERTIES + wire.shortstr("PLAIN") + wire.longstr(b"\x00guest\x00guest") + wire.shortstr("en_US"),
)
OPEN = wire.method(0, wire.OPEN, wire.shortstr("/") + b"\x00\x00")
CLOSE = wire.method(0, wire.CLOSE, struct.pack(">H", 200) + wire.shortstr("bye") + b"\x00\x00\x00\x00")
