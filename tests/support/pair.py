"""A broker and any number of clients in one thread: no loop, no socket, a clock that tests advance.

    pair = Pair(max_message_size=100)             # any broker setting
    client = pair.connect()                       # handshake done; pair.dial() stops before the first byte
    ch = client.channel()                         # channel.open done
    ch.declare("q")
    ch.publish(b"hello", key="q", headers={"n": Typed("l", 5)})
    assert ch.get("q").body == b"hello"
    ch.send(commands.Queue.Declare(queue="q", passive=True)); ok = ch.expect(commands.Queue.DeclareOk)
    ch.expect_close(404, "NOT_FOUND - no queue 'nope' in vhost '/'", commands.Queue.Declare)
    client.feed(b"any bytes")                     # also frame by frame, see tests.support.frames
    client.expect_close(501, "FRAME_ERROR - …", None)
    pair.advance(5_000)                           # timers due in 5 s have run

Invariants: a client end does what the transport and the event loop do and nothing more. Reads go to one shared buffer
whose old content is overwritten before every read, `leftover` is put back at its start, paused or closed wires are not
read, writes beyond the high-water mark pause delivery, `lost` is called once after the wire has closed. pamqp reads
everything that the server writes, and no frame may exceed the negotiated frame-max.
"""

from __future__ import annotations

import dataclasses
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pytest
from pamqp import base, body, commands, header

from rabbitlike.broker.accounts.permissions import Permission, TopicPermission
from rabbitlike.broker.broker import Broker
from rabbitlike.config import BrokerSettings
from rabbitlike.protocol.frames import BodyFrames
from rabbitlike.session.connection import Connection
from rabbitlike.session.wire import Peer
from rabbitlike.storage.memory import MemoryStore
from tests.support import frames
from tests.support.frames import Received, Typed, loose
from tests.support.sanitizer import nothing_read_behind
from tests.support.turns import TurnClock, recorder

__all__ = ["Channel", "Client", "Message", "Pair", "Typed", "bytewise", "loose", "random_cuts", "whole", "whole_turns"]

F = TypeVar("F", bound=base.Frame)
Cut = Callable[[bytes], Iterable[bytes]]

#: Run all tests with turns of one step: nothing that a client sees may depend on where a turn ends.
SLICED = os.environ.get("RABBITLIKE_TEST_SLICED", "0") not in ("", "0")

#: For tests of what one turn does with a whole read.
whole_turns = pytest.mark.skipif(SLICED, reason="turns of one step gather nothing")

READ_SIZE = 256 * 1024
HIGH_WATER, LOW_WATER = 64 * 1024, 16 * 1024
CAPABILITIES = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "exchange_exchange_bindings",
    "publisher_confirms",
)


# --------------------------------------------------------------------------- how bytes are cut into reads


def whole(data: bytes) -> Iterator[bytes]:
    """One read as long as the buffer allows."""
    yield data


def bytewise(data: bytes) -> Iterator[bytes]:
    """One read per octet."""
    for at in range(len(data)):
        yield data[at : at + 1]


def random_cuts(seed: int) -> Cut:
    """Reads of random length, the same ones for the same seed."""
    dice = random.Random(seed)

    def cut(data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            length = dice.choice((1, 2, 3, 7, 8, 9, 20, 100, 5000))
            yield data[at : at + length]
            at += length

    return cut


# ------------------------------------------------------------------------------------------------- the wire


class MemoryWire:
    """The server's end of a socket, in memory (session.wire.Wire)."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.connection: Connection | None = None
        self.inbox: list[bytes] = []  # reads the server has not taken yet
        self.outbox = bytearray()  # written by the server, not read by the client yet
        self.client_reads = True
        self.is_reading = True
        self.is_delivery_paused = False
        self.is_closed = False  # close() was called: written data goes out, nothing more comes in
        self.is_left_to_client = False  # leave() was called: like close(), but the client ends the connection
        self.is_aborted = False
        self.is_lost = False
        self.heartbeat: int | None = None
        self.late = bytearray()  # written after close(): a real socket would drop it

    def write(self, data: bytes) -> None:
        if self.is_closed or self.is_aborted or self.is_lost:
            self.late += data
            return
        self.outbox += data
        if not self.client_reads and len(self.outbox) > HIGH_WATER and not self.is_delivery_paused:
            self.is_delivery_paused = True
            assert self.connection is not None
            self.connection.pause_delivery()

    def write_frames(self, frames: BodyFrames) -> None:
        while data := frames.take(HIGH_WATER):
            self.write(data)

    def close(self) -> None:
        self.is_closed = True

    def leave(self) -> None:
        self.is_closed = self.is_left_to_client = True

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def start_heartbeat(self, seconds: int) -> None:
        self.heartbeat = seconds

    @property
    def is_gone(self) -> bool:
        return self.is_closed or self.is_aborted or self.is_lost

    def lose(self) -> None:
        """End the socket for whatever reason; the loop tells the protocol once."""
        if not self.is_lost:
            self.is_lost = True
            assert self.connection is not None
            recorder.run(self.connection.lost)

    def step(self) -> bool:
        """Run one event of the loop; return False if there is none."""
        if self.is_lost:
            return False
        if self.is_aborted or (self.is_closed and (self.client_reads or not self.outbox)):
            self.lose()
            return True
        if self.is_delivery_paused and self.client_reads:
            self.is_delivery_paused = False
            assert self.connection is not None
            recorder.run(self.connection.resume_delivery)
            return True
        if not self.inbox or not self.is_reading or self.is_gone:
            return False
        self.read(self.inbox.pop(0))
        return True

    def read(self, data: bytes) -> None:
        assert self.connection is not None
        buffer = self.pair.buffer
        leftover = self.connection.leftover
        if len(leftover) + len(data) > len(buffer):
            buffer.extend(bytes(len(leftover) + len(data) - len(buffer)))
        buffer[:] = b"\xa5" * len(buffer)  # corrupts any view kept from an earlier read
        buffer[: len(leftover)] = leftover
        end = len(leftover) + len(data)
        buffer[len(leftover) : end] = data
        connection = self.connection
        with nothing_read_behind(buffer, end):
            recorder.run(lambda: connection.receive(buffer, end))


class Pair:
    """One broker with a fake clock and a memory store, and its clients."""

    def __init__(self, *, cut: Cut = whole, **settings: object) -> None:
        unknown = set(settings) - {field.name for field in dataclasses.fields(BrokerSettings)}
        assert not unknown, f"no such setting: {unknown}"
        self.clock = TurnClock()
        self.broker = Broker(BrokerSettings(**settings), MemoryStore(), self.clock)  # type: ignore[arg-type]
        if SLICED:
            self.slice()
        self.buffer = bytearray(4096)
        self.clients: list[Client] = []
        self.cut = cut

    def slice(self) -> None:
        """From now on, end each turn after one step."""
        self.clock.tick_ns = 1_000_000_000
        self.broker.turn.stride = 1

    def dial(self, *, host: str = "127.0.0.1", tls: bool = False, certificate_name: str | None = None) -> Client:
        """Connect a socket without sending anything."""
        peer = Peer(
            host=host,
            port=50_000 + len(self.clients),
            local_host="127.0.0.1",
            local_port=5672,
            tls=tls,
            certificate_name=certificate_name,
            is_loopback=host in ("127.0.0.1", "::1"),
        )
        client = Client(self, peer)
        self.clients.append(client)
        return client

    def connect(self, *login: str, **handshake: object) -> Client:
        """Return a client with an open connection; takes the arguments of `Client.handshake`."""
        client = self.dial()
        client.handshake(*login, **handshake)  # type: ignore[arg-type]
        return client

    def add_user(
        self,
        name: str,
        password: str,
        *,
        vhost: str | None = "/",
        configure: str = ".*",
        write: str = ".*",
        read: str = ".*",
    ) -> None:
        """Add a user with these permissions in one vhost (None: in none), or give an existing user new ones."""
        self.broker.users.add(name, password)
        if vhost is not None:
            self.broker.permissions.set(name, vhost, Permission(configure, write, read))

    def set_topic_permission(self, user: str, exchange: str, *, write: str, read: str, vhost: str = "/") -> None:
        self.broker.permissions.set_topic(user, vhost, exchange, TopicPermission(write, read))

    def advance(self, ms: int) -> None:
        """Advance time; run the timers that are due, and the loop until it is idle."""
        self.clock.advance(ms)
        self.settle()

    def settle(self) -> None:
        """Run the loop until nothing is left to do."""
        busy = True
        while busy:
            busy = False
            for client in list(self.clients):
                busy |= client.wire.step()
            if self.broker.turn.is_behind:
                self.clock.advance(0)
                busy = True
        assert self.is_committing or not self.broker.commit_waiters, "somebody waits for a commit that never comes"

    @property
    def is_committing(self) -> bool:
        """Whether a commit is in progress or requested."""
        return False


# ----------------------------------------------------------------------------------------------- the client


@dataclass(frozen=True, slots=True)
class Message:
    """Content that the server sent: basic.deliver, get-ok or return with its header and whole body."""

    method: commands.Basic.Deliver | commands.Basic.GetOk | commands.Basic.Return
    header: header.ContentHeader
    body: bytes
    raw_properties: bytes
    bodies: int  # number of body frames

    @property
    def properties(self) -> commands.Basic.Properties:
        return self.header.properties

    @property
    def headers(self) -> Mapping[str, object]:
        return self.header.properties.headers or {}

    @property
    def exchange(self) -> str:
        return self.method.exchange or ""

    @property
    def routing_key(self) -> str:
        return self.method.routing_key or ""

    @property
    def tag(self) -> int:
        assert not isinstance(self.method, commands.Basic.Return)
        return self.method.delivery_tag or 0

    @property
    def redelivered(self) -> bool:
        assert not isinstance(self.method, commands.Basic.Return)
        return bool(self.method.redelivered)


class Client:
    """A client's end of one connection."""

    def __init__(self, pair: Pair, peer: Peer) -> None:
        self.pair = pair
        self.peer = peer
        self.wire = MemoryWire(pair)
        self.connection = Connection(pair.broker, self.wire, peer)
        self.wire.connection = self.connection
        self.frame_max = 0
        self.raw = bytearray()  # everything that the server wrote and the client read
        self._partial = bytearray()
        self._frames: list[Received] = []
        self._next_channel = 1

    # ---- sending

    def feed(self, data: bytes, cut: Cut | None = None) -> None:
        """Send bytes; the server has answered when this returns (unless its wire is paused or gone)."""
        for piece in (cut or self.pair.cut)(data):
            for at in range(0, len(piece), READ_SIZE):
                self.wire.inbox.append(piece[at : at + READ_SIZE])
        self.pair.settle()

    def send(self, method: base.Frame, channel: int = 0) -> None:
        self.feed(frames.encode_method(method, channel))

    def drop(self) -> None:
        """Drop the TCP connection without a close handshake."""
        self.wire.lose()
        self.pair.settle()

    def stop_reading(self) -> None:
        """Stop reading: the server's output stays in the socket buffer and back-pressure builds up."""
        self.wire.client_reads = False

    def start_reading(self) -> None:
        self.wire.client_reads = True
        self.pair.settle()

    # ---- receiving

    def received(self) -> list[Received]:
        """Return the frames not taken yet, in order (a copy)."""
        if self.wire.client_reads and self.wire.outbox:
            self.raw += self.wire.outbox
            self._partial += self.wire.outbox
            self.wire.outbox.clear()
            for item in frames.cut(self._partial):
                assert not self.frame_max or len(item.raw) <= self.frame_max, f"frame beyond frame-max: {item!r}"
                self._frames.append(item)
        return list(self._frames)

    def take(self, channel: int | None = None) -> Received | None:
        """Take the next frame (of one channel), or return None."""
        for item in self.received():
            if channel is None or item.channel == channel:
                self._frames.remove(item)
                return item
        return None

    def take_all(self) -> list[Received]:
        everything = self.received()
        self._frames.clear()
        return everything

    def expect(self, cls: type[F], channel: int = 0) -> F:
        """Require that the next frame of that channel is this method."""
        item = self.take(channel)
        if item is None or not isinstance(item.frame, cls):
            raise AssertionError(f"expected {cls.name} on channel {channel}, got {item!r}; {self}")
        return item.frame

    def expect_nothing(self, channel: int | None = None) -> None:
        """Require that there are no frames (of one channel)."""
        pending = [item for item in self.received() if channel is None or item.channel == channel]
        assert not pending, f"expected silence, got {pending}; {self}"

    def expect_close(self, code: int, text: str | re.Pattern[str], cause: Cause, *, answer: bool = True) -> None:
        """Require connection.close with exactly this code, text and method; answer it; the wire must close."""
        close = self.expect(commands.Connection.Close)
        _check_close(close, code, text, cause)
        self.expect_nothing()
        if answer:
            self.send(commands.Connection.CloseOk())
            self.expect_gone()

    def expect_gone(self) -> None:
        """Require that the server has closed the wire and left no unread frames."""
        assert self.wire.is_gone, f"the wire is still there; {self}"
        self.expect_nothing()

    def expect_alive(self) -> None:
        """Require that the connection works: a channel can be opened and used."""
        ch = self.channel()
        ch.declare("", exclusive=True)
        ch.close()

    def __str__(self) -> str:
        state = "gone" if self.wire.is_gone else "paused" if not self.wire.is_reading else "open"
        return f"wire {state}, pending {self._frames}"

    # ---- opening and closing

    def handshake(
        self,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        *,
        frame_max: int | None = None,
        channel_max: int | None = None,
        heartbeat: int = 0,
        capabilities: Iterable[str] = CAPABILITIES,
        client_properties: Mapping[str, object] | None = None,
    ) -> commands.Connection.Tune:
        """Open the connection; the limits default to the server's offer. `login` and `tune` are its halves."""
        tune = self.login(user, password, capabilities=capabilities, client_properties=client_properties)
        self.tune(
            frame_max=tune.frame_max if frame_max is None else frame_max,
            channel_max=tune.channel_max if channel_max is None else channel_max,
            heartbeat=heartbeat,
        )
        self.send(commands.Connection.Open(virtual_host=vhost))
        self.expect(commands.Connection.OpenOk)
        return tune

    def login(
        self,
        user: str = "guest",
        password: str = "guest",
        *,
        capabilities: Iterable[str] = CAPABILITIES,
        client_properties: Mapping[str, object] | None = None,
    ) -> commands.Connection.Tune:
        self.feed(frames.PROTOCOL_HEADER)
        self.expect(commands.Connection.Start)
        self.start_ok(
            response=f"\0{user}\0{password}", capabilities=capabilities, client_properties=client_properties or {}
        )
        return self.expect(commands.Connection.Tune)

    def start_ok(
        self,
        mechanism: str = "PLAIN",
        response: str | bytes = "\0guest\0guest",
        *,
        capabilities: Iterable[str] = CAPABILITIES,
        client_properties: Mapping[str, object] | None = None,
    ) -> None:
        given = {"product": "pair", "capabilities": dict.fromkeys(capabilities, True), **(client_properties or {})}
        self.send(
            loose(
                commands.Connection.StartOk,
                client_properties=given,
                mechanism=mechanism,
                response=frames.longstr(response),
                locale="en_US",
            )
        )

    def tune(self, *, frame_max: int = 131072, channel_max: int = 2047, heartbeat: int = 0) -> None:
        self.frame_max = frame_max and max(frame_max, 4096)
        self.send(commands.Connection.TuneOk(channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat))

    def close(self) -> None:
        """Close with a handshake, then drop the connection."""
        self.send(commands.Connection.Close(200, "bye", 0, 0))
        self.expect(commands.Connection.CloseOk)
        self.expect_nothing()
        self.drop()

    def channel(self, number: int | None = None, *, is_open: bool = True) -> Channel:
        """Open a channel (unless `is_open` is false); the number defaults to the next free one."""
        number = number or self._next_channel
        self._next_channel = max(self._next_channel, number) + 1
        ch = Channel(self, number)
        if is_open:
            ch.open()
        return ch


class Channel:
    """A client's view of one channel; the short verbs send a method and require its reply."""

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number

    def open(self) -> None:
        self.call(commands.Channel.Open(), commands.Channel.OpenOk)

    def close(self) -> None:
        self.call(commands.Channel.Close(200, "bye", 0, 0), commands.Channel.CloseOk)

    # ---- raw methods

    def feed(self, data: bytes) -> None:
        self.client.feed(data)

    def send(self, method: base.Frame) -> None:
        self.client.send(method, self.number)

    def send_content(self, method: base.Frame, body: bytes = b"", properties: bytes = b"\x00\x00") -> None:
        """Send a method with content in one piece of bytes, the body cut to the negotiated frame-max."""
        step = (self.client.frame_max or 131072) - 8
        parts = [frames.encode_method(method, self.number), frames.header_frame(self.number, len(body), properties)]
        parts += [frames.body_frame(self.number, body[at : at + step]) for at in range(0, len(body), step)]
        self.feed(b"".join(parts))

    def call(self, method: base.Frame, reply: type[F]) -> F:
        self.send(method)
        return self.expect(reply)

    def expect(self, cls: type[F]) -> F:
        return self.client.expect(cls, self.number)

    def expect_nothing(self) -> None:
        self.client.expect_nothing(self.number)

    def expect_close(self, code: int, text: str | re.Pattern[str], cause: Cause) -> None:
        """Require channel.close with exactly this code, text and method; answer it; the connection stays open."""
        _check_close(self.expect(commands.Channel.Close), code, text, cause)
        self.expect_nothing()
        self.send(commands.Channel.CloseOk())
        self.client.expect_nothing(self.number)
        assert not self.client.wire.is_gone, f"the connection died with the channel; {self.client}"

    def expect_message(self, cls: type[base.Frame] = commands.Basic.Deliver) -> Message:
        """Require that a whole message comes next on this channel."""
        method = self.expect(cls)
        assert isinstance(method, (commands.Basic.Deliver, commands.Basic.GetOk, commands.Basic.Return))
        item = self.client.take(self.number)
        assert item is not None, f"no content header; {self.client}"
        assert isinstance(item.frame, header.ContentHeader), f"no content header but {item!r}"
        assert item.payload[:4] == b"\x00\x3c\x00\x00", "class 60, weight 0"
        content, bodies, size = bytearray(), 0, item.frame.body_size
        while len(content) < size:
            part = self.client.take(self.number)
            assert part is not None, f"{size - len(content)} octets of body are missing; {self.client}"
            assert isinstance(part.frame, body.ContentBody), f"no content body but {part!r}"
            content += part.payload
            bodies += 1
        assert len(content) == size, f"{len(content)} octets of body announced as {size}"
        return Message(method, item.frame, bytes(content), item.payload[12:], bodies)

    def deliveries(self) -> list[Message]:
        """Return every message delivered so far; no other frame may be between or after them."""
        messages = []
        while any(item.channel == self.number for item in self.client.received()):
            messages.append(self.expect_message())
        return messages

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.deliveries()]

    # ---- short verbs

    def declare(self, queue: str = "q", **fields: object) -> commands.Queue.DeclareOk:
        return self.call(loose(commands.Queue.Declare, queue=queue, **fields), commands.Queue.DeclareOk)

    def declare_exchange(self, exchange: str, kind: str = "direct", **fields: object) -> None:
        method = loose(commands.Exchange.Declare, exchange=exchange, exchange_type=kind, **fields)
        self.call(method, commands.Exchange.DeclareOk)

    def bind(self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, object] | None = None) -> None:
        method = loose(commands.Queue.Bind, queue=queue, exchange=exchange, routing_key=key, arguments=arguments or {})
        self.call(method, commands.Queue.BindOk)

    def unbind(self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, object] | None = None) -> None:
        method = loose(
            commands.Queue.Unbind, queue=queue, exchange=exchange, routing_key=key, arguments=arguments or {}
        )
        self.call(method, commands.Queue.UnbindOk)

    def bind_exchange(
        self, destination: str, source: str, key: str = "", arguments: Mapping[str, object] | None = None
    ) -> None:
        method = loose(
            commands.Exchange.Bind, destination=destination, source=source, routing_key=key, arguments=arguments or {}
        )
        self.call(method, commands.Exchange.BindOk)

    def publish(
        self,
        body: bytes = b"",
        exchange: str = "",
        key: str = "",
        *,
        mandatory: bool = False,
        immediate: bool = False,
        properties: bytes | None = None,
        **fields: object,
    ) -> None:
        """Send basic.publish; properties by name (`headers={…}, delivery_mode=2`) or as raw octets."""
        method = loose(
            commands.Basic.Publish, exchange=exchange, routing_key=key, mandatory=mandatory, immediate=immediate
        )
        self.send_content(method, body, frames.properties(**fields) if properties is None else properties)

    def consume(self, queue: str = "q", tag: str = "", **fields: object) -> str:
        """Start a consumer and return its tag."""
        method = loose(commands.Basic.Consume, queue=queue, consumer_tag=tag, **fields)
        return self.call(method, commands.Basic.ConsumeOk).consumer_tag or ""

    def get(self, queue: str = "q", *, no_ack: bool = True) -> Message | None:
        """Return the next message, or None if the queue is empty."""
        self.send(loose(commands.Basic.Get, queue=queue, no_ack=no_ack))
        item = next((item for item in self.client.received() if item.channel == self.number), None)
        if item is not None and isinstance(item.frame, commands.Basic.GetEmpty):
            self.expect(commands.Basic.GetEmpty)
            return None
        return self.expect_message(commands.Basic.GetOk)

    def drain(self, queue: str = "q") -> list[bytes]:
        """Get every ready message with no-ack; return their bodies."""
        bodies = []
        while (message := self.get(queue)) is not None:
            bodies.append(message.body)
        return bodies

    def ack(self, tag: int = 0, *, multiple: bool = False) -> None:
        self.send(commands.Basic.Ack(delivery_tag=tag, multiple=multiple))

    def nack(self, tag: int = 0, *, multiple: bool = False, requeue: bool = True) -> None:
        self.send(commands.Basic.Nack(delivery_tag=tag, multiple=multiple, requeue=requeue))

    def reject(self, tag: int, *, requeue: bool = True) -> None:
        self.send(commands.Basic.Reject(delivery_tag=tag, requeue=requeue))

    def qos(self, count: int, *, is_global: bool = False) -> None:
        self.call(commands.Basic.Qos(prefetch_count=count, global_=is_global), commands.Basic.QosOk)

    def confirm(self) -> None:
        self.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    def expect_confirms(self) -> list[tuple[str, int, bool]]:
        """Return all acks and nacks that come next on the channel, as (name, tag, multiple)."""
        confirms: list[tuple[str, int, bool]] = []
        while True:
            item = next((item for item in self.client.received() if item.channel == self.number), None)
            if item is None or not isinstance(item.frame, (commands.Basic.Ack, commands.Basic.Nack)):
                return confirms
            self.client.take(self.number)
            name = "ack" if isinstance(item.frame, commands.Basic.Ack) else "nack"
            confirms.append((name, item.frame.delivery_tag, item.frame.multiple))


#: The method that a close frame blames: a method class, raw ids, or None for 0/0.
Cause = type[base.Frame] | tuple[int, int] | None


def _check_close(
    close: commands.Channel.Close | commands.Connection.Close, code: int, text: str | re.Pattern[str], cause: Cause
) -> None:
    ids = cause if isinstance(cause, tuple) else (0, 0) if cause is None else (cause.index >> 16, cause.index & 0xFFFF)
    got = (close.reply_code, close.reply_text, close.class_id, close.method_id)
    if isinstance(text, re.Pattern):
        assert text.fullmatch(close.reply_text), f"expected {text.pattern!r}, got {close.reply_text!r}"
        text = close.reply_text
    assert got == (code, text, *ids), f"expected close {(code, text, *ids)}, got {got}"
