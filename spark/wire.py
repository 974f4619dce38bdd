"""A blocking AMQP client for one thread: one connection with one channel, on the broker's own codec. Imports no Spark.

It reads while it writes, so a broker that blocks publishers can report that; a wait fails when nothing has moved in
either direction for `timeout_s`. Heartbeats are declined by default: a task may pause between two batches of rows for
minutes. With heartbeats, which are sent while this side waits, a broker notices a lost machine sooner.
"""

import contextlib
import select
import ssl
import struct
import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from pamqp import commands
from pamqp.base import Frame

from rabbitlike import __version__
from rabbitlike.protocol import methods, octets
from rabbitlike.protocol.constants import (
    BASIC_ACK,
    BASIC_DELIVER,
    BASIC_GET_OK,
    BASIC_NACK,
    BASIC_RETURN,
    BODY_FRAME,
    FRAME_OVERHEAD,
    HEADER_FRAME,
    HEARTBEAT_FRAME,
    METHOD_FRAME,
    TX_REFUSE_UNROUTABLE,
)
from rabbitlike.protocol.errors import NAMES, AmqpError
from rabbitlike.protocol.frames import FrameReader
from rabbitlike.protocol.tables import Table, Value
from rabbitlike.spark.address import Address
from rabbitlike.spark.dial import Lost, dial

CHANNEL: Final = 1
FRAME_MAX: Final = 131072
DEFAULT_TIMEOUT_S: Final = 30.0
CLOSE_TIMEOUT_S: Final = 5.0
#: Reply code of a broker that shuts down: not an error of this side.
CONNECTION_FORCED: Final = 320

_PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_CAPABILITIES: Final = (
    "authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify", TX_REFUSE_UNROUTABLE,
)  # fmt: skip
_HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
_ACK: Final = struct.Struct(">BHIIQBB")
_GET_PIPE: Final = 500  # basic.get requests in one write

MethodT = TypeVar("MethodT", bound=Frame)


class Delivery(NamedTuple):
    """A message from a queue. `properties` is the property flags and list of its content header."""

    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


class Returned(NamedTuple):
    """A mandatory message that no queue accepted."""

    code: int
    text: str
    exchange: str
    routing_key: str


class Declared(NamedTuple):
    """The answer to queue.declare."""

    queue: str
    message_count: int
    consumer_count: int


class Connection(FrameReader):
    """A connection, open after construction; use it in a `with`."""

    def __init__(
        self,
        address: Address,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        heartbeat_s: int = 0,
        name: str = "rabbitlike.spark",
        redial_s: float | None = None,
    ) -> None:
        """`redial_s` is how long to retry a refused connection; None means `timeout_s`."""
        super().__init__()
        self.address = address
        self.timeout_s = timeout_s
        self._heartbeat_s = heartbeat_s
        #: Why the broker blocks publishers; None while it does not.
        self.blocked: str | None = None
        #: Every publish up to this number is confirmed or refused; later ones are in `_ahead`.
        self._confirmed = 0
        self._ahead: set[int] = set()
        self.refused = 0
        self.returned: list[Returned] = []
        #: The text of connection.close from a broker that shut down.
        self._farewell: str | None = None
        self._answers: deque[Frame] = deque()
        self._deliveries: deque[Delivery] = deque()
        self._arriving = b""
        self._properties = b""
        self._body = bytearray()
        self._missing = 0
        self._data = bytearray(65536)
        self._end = 0
        self._sock = dial(address, timeout_s, timeout_s if redial_s is None else redial_s)
        self._moved_at = time.monotonic()
        try:
            self._shake_hands(name)
        except BaseException:
            self._sock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def abandon(self) -> None:
        """Close the socket without a handshake: unacknowledged messages are requeued."""
        self._sock.close()

    def close(self) -> None:
        """Close with a handshake. A broker that no longer answers is not an error now."""
        self.timeout_s = min(self.timeout_s, CLOSE_TIMEOUT_S)
        try:
            with contextlib.suppress(OSError, AmqpError):
                self.send(methods.encode(methods.make(commands.Connection.Close, reply_code=200), 0))
                self._await_answer(commands.Connection.CloseOk)
        finally:
            self._sock.close()

    def _shake_hands(self, name: str) -> None:
        self.send(_PROTOCOL_HEADER)
        self._await_answer(commands.Connection.Start)
        properties = Table(
            {
                "product": "rabbitlike.spark",
                "version": __version__,
                "platform": "Python",
                "connection_name": name,
                "capabilities": Table(dict.fromkeys(_CAPABILITIES, True)),
            }
        )
        response = f"\0{self.address.user}\0{self.address.password}"
        start_ok = methods.make(
            commands.Connection.StartOk,
            client_properties=properties,
            mechanism="PLAIN",
            response=response,
            locale="en_US",
        )
        self.send(methods.encode(start_ok, 0))
        tune = self._await_answer(commands.Connection.Tune)
        frame_max = min(tune.frame_max or FRAME_MAX, FRAME_MAX)
        tune_ok = methods.make(
            commands.Connection.TuneOk, channel_max=tune.channel_max, frame_max=frame_max, heartbeat=self._heartbeat_s
        )
        open_ = methods.make(commands.Connection.Open, virtual_host=self.address.vhost)
        self.send(methods.encode(tune_ok, 0) + methods.encode(open_, 0))
        self._await_answer(commands.Connection.OpenOk)
        self.payload_max = frame_max - FRAME_OVERHEAD
        self._data.extend(bytes(max(0, 2 * frame_max - len(self._data))))
        self.call(methods.make(commands.Channel.Open), commands.Channel.OpenOk)

    # Octets

    def send(self, data: bytes) -> None:
        """Write all of it; read what arrives meanwhile."""
        view = memoryview(data)
        while view:
            try:
                sent = self._sock.send(view)
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._await(select.POLLIN | select.POLLOUT)
            except ssl.SSLWantReadError:
                self._await(select.POLLIN)
            except OSError as error:
                self._hear_last_words()
                raise self._lost(str(error)) from error
            else:
                view = view[sent:]
                self._moved_at = time.monotonic()

    def read(self, wait_s: float | None = None) -> bool:
        """Read what has arrived, for at most `wait_s` (None: until the timeout); return whether anything came."""
        if self._read_some():
            return True
        if wait_s is None:
            self._await(select.POLLIN)
            return True
        return wait_s > 0 and self._poll(select.POLLIN, wait_s) and self._read_some()

    def _await(self, events: int) -> None:
        """Wait until the socket is ready for `events`, then read what is there."""
        while not self._poll(events, self._patience_s()):
            if self._heartbeat_s:
                with contextlib.suppress(OSError):  # the next error says more than this one
                    self._sock.send(_HEARTBEAT)
            if time.monotonic() - self._moved_at >= self.timeout_s:
                why = f"; it blocks publishers: {self.blocked}" if self.blocked is not None else ""
                raise self._lost(f"nothing moved for {self.timeout_s:g} s{why}")
        self._read_some()

    def _patience_s(self) -> float:
        left_s = self._moved_at + self.timeout_s - time.monotonic()
        return min(left_s, self._heartbeat_s / 2) if self._heartbeat_s else left_s

    def _poll(self, events: int, wait_s: float) -> bool:
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return True
        poll = select.poll()
        poll.register(self._sock, events)
        return bool(poll.poll(max(0.0, wait_s) * 1000))

    def _read_some(self) -> bool:
        if self._end == len(self._data):
            self._make_room()
        try:
            with memoryview(self._data) as view:
                count = self._sock.recv_into(view[self._end :])
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            raise self._lost(str(error)) from error
        if count == 0:
            raise self._lost("the broker closed it")
        self._end += count
        self.feed(self._data, self._end)
        if self.at == self._end:
            self.at = self._end = 0
        return True

    def _make_room(self) -> None:
        """Move the rest of a frame to the front. The buffer is larger than any frame, so this frees space."""
        rest = self._data[self.at : self._end]
        self._data[: len(rest)] = rest
        self.at, self._end = 0, len(rest)

    def _hear_last_words(self) -> None:
        """Read what the broker sent before it closed: it may contain the reason."""
        with contextlib.suppress(Lost):
            while self._read_some():
                pass

    def _lost(self, why: str) -> Lost:
        return Lost(f"connection to {self.address} lost: {self._farewell or why}")

    # Frames

    def on_odd_frame(self, kind: int, number: int, payload: bytes) -> None:
        """Handle a frame. All frames arrive here: the broker's frame reader does not know a client's channels."""
        if kind != HEARTBEAT_FRAME:  # a broker that blocks publishers still sends heartbeats
            self._moved_at = time.monotonic()
        if kind == METHOD_FRAME:
            self._hear(number, payload)
        elif kind == HEADER_FRAME:
            self._missing = octets.get_u64(payload, 4)
            self._properties = payload[12:]
            self._body = bytearray()
            if self._missing == 0:
                self._take_message()
        elif kind == BODY_FRAME:
            self._missing -= len(payload)
            if self._missing == 0 and not self._body:
                self._take_message(payload)
            else:
                self._body += payload
                if self._missing == 0:
                    self._take_message(bytes(self._body))

    def _hear(self, number: int, payload: bytes) -> None:
        index = octets.get_u32(payload, 0)
        if index == BASIC_ACK or index == BASIC_NACK:
            self._take_confirm(octets.get_u64(payload, 4), payload[12] & 1 != 0, index == BASIC_NACK)
            return
        if index in (BASIC_DELIVER, BASIC_GET_OK, BASIC_RETURN):
            self._arriving = payload
            return
        method = methods.decode(payload)
        if isinstance(method, commands.Connection.Blocked):
            self.blocked = method.reason or "no reason given"
        elif isinstance(method, commands.Connection.Unblocked):
            self.blocked = None
        elif isinstance(method, commands.Connection.Close | commands.Channel.Close):
            self._take_close(method, number)
        elif isinstance(method, commands.Basic.Cancel):
            raise self._lost(f"the broker cancelled consumer {method.consumer_tag}: its queue is gone")
        else:
            self._answers.append(method)

    def _take_close(self, method: commands.Connection.Close | commands.Channel.Close, number: int) -> None:
        is_connection = isinstance(method, commands.Connection.Close)
        reply = commands.Connection.CloseOk if is_connection else commands.Channel.CloseOk
        with contextlib.suppress(OSError):
            self._sock.send(methods.encode(methods.make(reply), number))
        code = method.reply_code or 0
        if code == CONNECTION_FORCED:
            self._farewell = f"the broker closed it: {method.reply_text}"
            raise self._lost(self._farewell)
        text = (method.reply_text or "").removeprefix(f"{NAMES.get(code)} - ")
        raise AmqpError(code, text, method.class_id or 0, method.method_id or 0)

    def _take_confirm(self, tag: int, multiple: bool, is_refusal: bool) -> None:
        before = self._confirmed + len(self._ahead)
        if multiple and tag > self._confirmed:
            self._confirmed = tag
            self._ahead = {each for each in self._ahead if each > tag}
        elif not multiple:
            self._ahead.add(tag)
        while self._confirmed + 1 in self._ahead:
            self._confirmed += 1
            self._ahead.discard(self._confirmed)
        if is_refusal:
            self.refused += self._confirmed + len(self._ahead) - before

    def _take_message(self, body: bytes = b"") -> None:
        arguments = self._arriving
        index = octets.get_u32(arguments, 0)
        at = 4
        if index == BASIC_RETURN:
            code = octets.get_u16(arguments, at)
            text, at = _shortstr(arguments, at + 2)
            exchange, at = _shortstr(arguments, at)
            self.returned.append(Returned(code, text, exchange, _shortstr(arguments, at)[0]))
            return
        if index == BASIC_DELIVER:
            at += 1 + arguments[at]
        tag = octets.get_u64(arguments, at)
        exchange, after = _shortstr(arguments, at + 9)
        routing_key, _ = _shortstr(arguments, after)
        is_redelivered = arguments[at + 8] & 1 != 0
        self._deliveries.append(Delivery(tag, is_redelivered, exchange, routing_key, self._properties, body))

    # Methods and their answers

    def call(self, method: Frame, reply: type[MethodT]) -> MethodT:
        """Send a method on the channel and return the answer."""
        self.send(methods.encode(method, CHANNEL))
        return self._await_answer(reply)

    def _await_answer(self, reply: type[MethodT]) -> MethodT:
        while not self._answers:
            self.read()
        answer = self._answers.popleft()
        if not isinstance(answer, reply):
            raise self._lost(f"expected {methods.spec_name(reply)}, got {methods.spec_name(answer)}")
        return answer

    def declare_queue(
        self,
        queue: str,
        *,
        passive: bool = False,
        durable: bool = True,
        exclusive: bool = False,
        arguments: Mapping[str, Value] | None = None,
    ) -> Declared:
        declare = methods.make(
            commands.Queue.Declare,
            queue=queue,
            passive=passive,
            durable=durable,
            exclusive=exclusive,
            arguments=Table(arguments or {}),
        )
        answer = self.call(declare, commands.Queue.DeclareOk)
        return Declared(answer.queue or "", answer.message_count or 0, answer.consumer_count or 0)

    def declare_exchange(
        self,
        exchange: str,
        kind: str = "topic",
        *,
        passive: bool = False,
        arguments: Mapping[str, Value] | None = None,
    ) -> None:
        declare = methods.make(
            commands.Exchange.Declare,
            exchange=exchange,
            exchange_type=kind,
            passive=passive,
            durable=True,
            arguments=Table(arguments or {}),
        )
        self.call(declare, commands.Exchange.DeclareOk)

    def bind_queue(self, queue: str, exchange: str, routing_key: str) -> None:
        bind = methods.make(commands.Queue.Bind, queue=queue, exchange=exchange, routing_key=routing_key)
        self.call(bind, commands.Queue.BindOk)

    def delete_queue(self, queue: str) -> None:
        self.call(methods.make(commands.Queue.Delete, queue=queue), commands.Queue.DeleteOk)

    def purge(self, queue: str) -> int:
        answer = self.call(methods.make(commands.Queue.Purge, queue=queue), commands.Queue.PurgeOk)
        return answer.message_count or 0

    def select_confirms(self) -> None:
        self.call(methods.make(commands.Confirm.Select), commands.Confirm.SelectOk)

    def unconfirmed(self, published: int) -> int:
        """Return how many of `published` messages are neither confirmed nor refused yet."""
        return published - self._confirmed - len(self._ahead)

    def select_tx(self) -> None:
        self.call(methods.make(commands.Tx.Select), commands.Tx.SelectOk)

    def commit_tx(self) -> None:
        self.call(methods.make(commands.Tx.Commit), commands.Tx.CommitOk)

    # Messages from queues

    def consume(self, queue: str, *, prefetch: int, exclusive: bool = False) -> None:
        """Start consuming with `prefetch`; see `take`."""
        qos = methods.make(commands.Basic.Qos, prefetch_count=min(prefetch, 65535))
        self.call(qos, commands.Basic.QosOk)
        consume = methods.make(commands.Basic.Consume, queue=queue, exclusive=exclusive)
        self.call(consume, commands.Basic.ConsumeOk)

    @property
    def buffered(self) -> int:
        """The number of messages that arrived and were not taken."""
        return len(self._deliveries)

    def take(self, count: int, wait_s: float, size_max: int | None = None) -> list[Delivery]:
        """Return up to `count` delivered messages of `size_max` octets; fewer if none arrives for `wait_s`."""
        while len(self._deliveries) < count and self.read(wait_s):
            pass
        taken: list[Delivery] = []
        size = 0
        while self._deliveries and len(taken) < count:
            size += len(self._deliveries[0].body)
            if size_max is not None and size > size_max and taken:
                break
            taken.append(self._deliveries.popleft())
        return taken

    def get(self, queue: str, count: int, *, no_ack: bool = False) -> list[Delivery]:
        """Get up to `count` messages, fewer if the queue is empty; pipelines the requests."""
        request = methods.encode(methods.make(commands.Basic.Get, queue=queue, no_ack=no_ack), CHANNEL)
        taken: list[Delivery] = []
        while len(taken) < count:
            asked = min(count - len(taken), _GET_PIPE)
            self.send(request * asked)
            while len(self._deliveries) + len(self._answers) < asked:
                self.read()
            taken.extend(self._deliveries)
            self._deliveries.clear()
            if self._answers:
                self._answers.clear()
                break
        return taken

    def ack(self, tag: int) -> None:
        """Acknowledge everything up to this delivery."""
        self.send(_ACK.pack(METHOD_FRAME, CHANNEL, 13, BASIC_ACK, tag, 1, 0xCE))


def _shortstr(payload: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + payload[at]
    return str(payload[at + 1 : end], "utf-8", "surrogateescape"), end
