"""Many requests of one kind over one connection, sent without waiting for earlier answers.

The broker handles the requests of a connection one after the other, so messages arrive in order and the broker never
waits for the next request: several connections would be no faster and would lose the order.
"""

import asyncio
import base64
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import urlsplit

import httptools

from rabbitlike.commands.api import TIMEOUT_S, Address, path_of
from rabbitlike.commands.faults import Fault, Refused, Unreachable

#: Limits on unanswered requests: their number and their octets.
MOST_IN_FLIGHT: Final = 64
MOST_OCTETS: Final = 4 * 1024 * 1024
GRACE_S: Final = 2.0

#: Handles an answer: status and body.
Answered = Callable[[int, bytes], None]


def post_all(
    address: Address, names: tuple[str, ...], bodies: Iterable[bytes], answered: Answered, *, rate: float | None = None
) -> None:
    """POST each body to one path, at most `rate` per second; call `answered` for each answer in order. It may raise."""
    asyncio.run(_post_all(address, names, bodies, answered, rate))


async def _post_all(
    address: Address, names: tuple[str, ...], bodies: Iterable[bytes], answered: Answered, rate: float | None
) -> None:
    pipeline = _Pipeline(address, answered)
    head = _head(address, names)
    started = time.monotonic()
    try:
        for at, body in enumerate(bodies):
            if rate is not None and (early := started + at / rate - time.monotonic()) > 0:
                await asyncio.sleep(early)
            await pipeline.send(head % len(body) + body)
        await pipeline.drained()
    finally:
        await pipeline.close()


def _head(address: Address, names: tuple[str, ...]) -> bytes:
    """Return the request's head; the caller fills in the length of each body."""
    parts = urlsplit(address.url)
    login = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
    path = (parts.path + path_of(names)).replace("%", "%%")
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {parts.netloc}",
        f"Authorization: Basic {login}",
        "Content-Type: application/json",
        *(f"{name}: {value}" for name, value in address.headers.items()),
        "Content-Length: %d",
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1")


class _Pipeline(asyncio.Protocol):
    """One connection at a time, with the requests that are sent and not yet answered, and the callback for answers.

    A server may close a connection with its answer to any request. It has not handled the requests sent after that one,
    so they are sent again over the next connection.
    """

    def __init__(self, address: Address, answered: Answered) -> None:
        self._address = address
        self._answered = answered
        self._pending: deque[bytes] = deque()
        self._octets = 0
        self._transport: asyncio.Transport | None = None
        self._is_ending = False
        self._waiter: asyncio.Future[None] | None = None
        self._fault: Fault | None = None

    async def send(self, request: bytes) -> None:
        """Send a request as soon as the limits allow."""
        while self._fault is None and self._pending and not self._has_room(len(request)):
            await self._answer()
        transport = await self._connected()
        self._pending.append(request)
        self._octets += len(request)
        transport.write(request)

    def _has_room(self, octets: int) -> bool:
        return len(self._pending) < MOST_IN_FLIGHT and self._octets + octets <= MOST_OCTETS

    async def drained(self) -> None:
        """Wait until every request is answered."""
        while self._fault is None and self._pending:
            await self._connected()
            await self._answer()
        if self._fault is not None:
            raise self._fault

    async def close(self) -> None:
        """Close the connection; after a refusal, first wait for answers, as some servers fail on a reset."""
        with contextlib.suppress(TimeoutError, Unreachable):
            async with asyncio.timeout(GRACE_S):
                while self._pending and self._transport and isinstance(self._fault, Refused) and not self._is_ending:
                    await self._answer()
        if self._transport is not None:
            self._transport.close()

    async def _connected(self) -> asyncio.Transport:
        """Return the connection; if the last one ended cleanly, open a new one and resend unanswered requests."""
        while self._is_ending and self._transport is not None and self._fault is None:
            await self._answer()
        if self._fault is not None:
            raise self._fault
        if self._transport is None:
            parts = urlsplit(self._address.url)
            is_tls = parts.scheme == "https"
            opening = asyncio.get_running_loop().create_connection(
                lambda: self,
                str(parts.hostname),
                parts.port or (443 if is_tls else 80),
                ssl=self._address.verify if is_tls else None,
            )
            try:
                await asyncio.wait_for(opening, TIMEOUT_S)
            except (OSError, TimeoutError) as error:
                raise Unreachable(f"no broker at {self._address.url}: {error}") from None
            assert self._transport is not None
            self._transport.writelines(self._pending)
        return self._transport

    async def _answer(self) -> None:
        """Wait until an answer arrives or the connection ends."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait_for(self._waiter, TIMEOUT_S)
        except TimeoutError:
            raise Unreachable(f"the broker did not answer within {TIMEOUT_S:.0f} s") from None

    # Callbacks of the socket and the parser

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._is_ending = False

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not self._is_ending:
                self._fault = self._fault or Unreachable(f"the answer is not HTTP: {error}")
        self._wake()

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        if self._is_ending or not self._pending:
            return
        self._octets -= len(self._pending.popleft())
        self._is_ending = not self._parser.should_keep_alive()
        body, self._body = bytes(self._body), bytearray()
        if self._fault is None:
            try:
                self._answered(self._parser.get_status_code(), body)
            except Fault as fault:
                self._fault = fault

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if not self._is_ending and self._pending:
            lost = len(self._pending)
            self._fault = self._fault or Unreachable(
                f"the broker hung up: whether the last {lost:,} messages arrived is not known"
            )
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
