"""A client for a broker that may crash: it sends at once and reports what it receives at once.

It speaks through pamqp, on asyncio, without a thread. When the connection is lost, every waiting call raises Lost;
everything received by then has been reported.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pamqp import base, commands, header

from tests.support import frames
from tests.support.frames import Received, loose

F = TypeVar("F", bound=base.Frame)


class Lost(Exception):
    """The broker is gone."""


@dataclass(frozen=True, slots=True)
class Delivery:
    tag: int
    redelivered: bool
    consumer: str
    body: bytes


class Connection(asyncio.Protocol):
    """One connection; `await Connection.open(port)`."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._input = bytearray()
        self._replies: dict[int, deque[asyncio.Future[base.Frame]]] = {}
        self._deliver: dict[int, tuple[commands.Basic.Deliver, bytearray, int] | None] = {}
        self.channels: dict[int, Channel] = {}
        self.is_lost = False
        self.gone: asyncio.Future[None] = loop.create_future()

    @classmethod
    async def open(cls, port: int) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        except OSError as error:
            raise Lost from error
        connection.write(frames.PROTOCOL_HEADER)
        await connection.expect(0)
        start_ok = loose(
            commands.Connection.StartOk,
            client_properties={"product": "crash", "capabilities": {"basic.nack": True, "publisher_confirms": True}},
            mechanism="PLAIN",
            response=frames.longstr("\0guest\0guest"),
            locale="en_US",
        )
        await connection.call(start_ok, 0)
        connection.write(frames.encode_method(commands.Connection.TuneOk(2047, 131072, 0), 0))
        await connection.call(commands.Connection.Open(virtual_host="/"), 0)
        return connection

    async def channel(self) -> Channel:
        channel = Channel(self, len(self.channels) + 1)
        self.channels[channel.number] = channel
        await self.call(commands.Channel.Open(), channel.number)
        return channel

    async def close(self) -> None:
        """Close the socket without a handshake, and wait until that is done."""
        if self._transport is not None:
            self._transport.abort()
        await self.gone

    def write(self, octets: bytes) -> None:
        if self.is_lost or self._transport is None:
            raise Lost
        self._transport.write(octets)

    async def call(self, method: base.Frame, channel: int) -> base.Frame:
        self.write(frames.encode_method(method, channel))
        return await self.expect(channel)

    async def expect(self, channel: int) -> base.Frame:
        """Return the next answer on a channel."""
        if self.is_lost:
            raise Lost
        reply: asyncio.Future[base.Frame] = asyncio.get_running_loop().create_future()
        self._replies.setdefault(channel, deque()).append(reply)
        return await reply

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._input += data
        for item in frames.cut(self._input):
            self._take(item)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        for replies in self._replies.values():
            for reply in replies:
                if not reply.done():
                    reply.set_exception(Lost())
        self._replies.clear()
        if not self.gone.done():
            self.gone.set_result(None)

    def _take(self, item: Received) -> None:
        frame = item.frame
        if isinstance(frame, commands.Basic.Deliver):
            self._deliver[item.channel] = (frame, bytearray(), 0)
        elif isinstance(frame, header.ContentHeader):
            self._gather(item.channel, b"", frame.body_size)
        elif not isinstance(frame, base.Frame):
            self._gather(item.channel, item.payload, None)
        elif isinstance(frame, (commands.Basic.Ack, commands.Basic.Nack)):
            self.channels[item.channel].hear_confirm(
                frame.delivery_tag or 0, bool(frame.multiple), isinstance(frame, commands.Basic.Ack)
            )
        else:
            self._answer(item.channel, frame)

    def _gather(self, channel: int, payload: bytes, size: int | None) -> None:
        """Collect a piece of content; the content of a returned message is dropped."""
        under_way = self._deliver.get(channel)
        if under_way is None:
            return
        method, body, whole = under_way
        body += payload
        whole = whole if size is None else size
        self._deliver[channel] = (method, body, whole)
        if len(body) == whole:
            self._deliver[channel] = None
            self.channels[channel].hear_delivery(
                Delivery(method.delivery_tag or 0, bool(method.redelivered), method.consumer_tag or "", bytes(body))
            )

    def _answer(self, channel: int, frame: base.Frame) -> None:
        if isinstance(frame, commands.Basic.Return):
            self.channels[channel].returns += 1
            return
        replies = self._replies.get(channel)
        if replies:
            reply = replies.popleft()
            if not reply.done():
                reply.set_result(frame)
        elif not isinstance(frame, commands.Basic.Cancel):
            raise AssertionError(f"nobody asked for {frame.name}({dict(frame)})")


class Channel:
    """One channel; it reports confirms to `on_confirm` and deliveries to `on_delivery`."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.published = 0
        self.returns = 0
        self.on_delivery: Callable[[Delivery], None] = lambda delivery: None
        self.on_confirm: Callable[[int, bool], None] = lambda number, is_ack: None
        self._answered = 0
        self._is_confirming = False

    def hear_confirm(self, tag: int, multiple: bool, is_ack: bool) -> None:
        """Handle a confirm. The broker answers in order, so one answer covers everything up to it."""
        assert multiple or tag == self._answered + 1, f"{tag} is confirmed after {self._answered}"
        for number in range(self._answered + 1, tag + 1):
            self.on_confirm(number, is_ack)
        self._answered = tag

    def hear_delivery(self, delivery: Delivery) -> None:
        self.on_delivery(delivery)

    async def call(self, method: base.Frame, reply: type[F]) -> F:
        answer = await self.connection.call(method, self.number)
        if not isinstance(answer, reply):
            raise Refused(answer)
        return answer

    def send(self, method: base.Frame) -> None:
        self.connection.write(frames.encode_method(method, self.number))

    async def confirm(self) -> None:
        await self.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        self._is_confirming = True

    def publish(self, body: bytes, key: str, exchange: str = "", *, mandatory: bool = False, **fields: object) -> int:
        """Publish, and return the number that the confirm will have."""
        method = commands.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory)
        self.connection.write(
            frames.encode_method(method, self.number)
            + frames.header_frame(self.number, len(body), frames.properties(**fields))
            + frames.body_frame(self.number, body)
        )
        self.published += 1
        return self.published

    async def declare(self, queue: str, **fields: object) -> commands.Queue.DeclareOk:
        return await self.call(loose(commands.Queue.Declare, queue=queue, **fields), commands.Queue.DeclareOk)

    async def consume(self, queue: str, prefetch: int) -> None:
        """Start consuming; the consumer's tag is the queue's name."""
        await self.call(commands.Basic.Qos(prefetch_count=prefetch), commands.Basic.QosOk)
        await self.call(commands.Basic.Consume(queue=queue, consumer_tag=queue), commands.Basic.ConsumeOk)

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        self.send(commands.Basic.Ack(delivery_tag=tag, multiple=multiple))

    def nack(self, tag: int, *, requeue: bool) -> None:
        self.send(commands.Basic.Nack(delivery_tag=tag, requeue=requeue))


class Refused(Exception):
    """The broker closed the channel instead of answering."""

    def __init__(self, answer: base.Frame) -> None:
        super().__init__(f"{answer.name}({dict(answer)})")
        self.answer = answer
