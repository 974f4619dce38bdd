"""HTTP/1.1 connections with limits that uvicorn leaves to a proxy, because there may be no proxy.

A TLS handshake has a deadline, and does not count as a connection until it is done. The head of a request has a maximum
size and a deadline. Connections without a complete request are limited to half of all connections: a new one replaces
the oldest of the address that has most of them. So clients that send slowly or nothing do not lock out others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from rabbitlike.broker.accounts.login_failures import source

#: Maximum size of the request line and headers.
MAX_HEAD: Final = 64 * 1024
HEAD_TIMEOUT_S: Final = 30.0
#: uvicorn leaves it at asyncio's 60 s, but each such connection is an open file.
TLS_HANDSHAKE_TIMEOUT_S: Final = 5.0
#: Maximum connections; above it the answer is 503. Each is an open file, and AMQP clients need those more.
MAX_CONNECTIONS: Final = 1000
#: Maximum connections without a complete request: new, partly received, or kept alive for the next request.
MAX_INCOMPLETE: Final = 500
MAX_INCOMPLETE_OF_ADDRESS: Final = 250
#: Shortest time between two warnings that connections were closed.
SILENCE_S: Final = 60.0

log = logging.getLogger(__name__)

_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class IncompleteRequests:
    """Connections without a complete request, on all ports; by address, oldest first."""

    def __init__(self) -> None:
        self._by_address: dict[str, OrderedDict[HttpConnection, None]] = {}
        self._count = 0
        self._silent_until = 0.0

    def __len__(self) -> int:
        return self._count

    def add(self, connection: HttpConnection) -> None:
        """Add a connection that waits for a request. Closes the oldest if there are too many."""
        found = self._by_address.setdefault(connection.address, OrderedDict())
        if connection not in found:
            found[connection] = None
            self._count += 1
        if len(found) > MAX_INCOMPLETE_OF_ADDRESS:
            self._close_oldest(found)
        elif self._count > MAX_INCOMPLETE:
            self._close_oldest(max(self._by_address.values(), key=len))

    def discard(self, connection: HttpConnection) -> None:
        found = self._by_address.get(connection.address)
        if found is not None and connection in found:
            del found[connection]
            self._count -= 1
            if not found:
                del self._by_address[connection.address]

    def _close_oldest(self, found: OrderedDict[HttpConnection, None]) -> None:
        oldest = next(iter(found))
        self.discard(oldest)
        if oldest.is_logged_in:
            return  # an authenticated request may send its body slowly
        now = oldest.loop.time()
        if now >= self._silent_until:
            self._silent_until = now + SILENCE_S
            log.warning(
                "HTTP: %d connections have not sent a complete request, %d of them from %s; closing the oldest",
                self._count + 1,
                len(found) + 1,
                oldest.address or "an unknown address",
            )
        oldest.transport.abort()


class HttpConnection(HttpToolsProtocol):
    """One HTTP connection."""

    def __init__(self, incomplete: IncompleteRequests, **given: Any) -> None:
        super().__init__(**given)
        self.address = ""
        self._incomplete = incomplete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = source(self.client[0]) if self.client else ""
        #: The request being answered; others may be queued in `pipeline`, the next at its right end.
        self._answered: RequestResponseCycle | None = None
        self._head_octets = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._await_head()
        self._incomplete.add(self)

    @property
    def is_logged_in(self) -> bool:
        """Whether the request that is being received, and not yet answered, is authenticated."""
        return self.cycle is not None and not self.cycle.response_complete and "caller" in self.cycle.scope["state"]

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._incomplete.discard(self)
        # uvicorn notifies only the last request. If that is queued behind others, the one being answered would not be
        # notified, and would write to a closed socket.
        self.pipeline.clear()
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_octets = 0
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.abort)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_timer is not None:
            # All data belonged to the head, which is not complete yet.
            self._head_octets += len(data)
            if self._head_octets > MAX_HEAD and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_head()
        if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > MAX_HEAD:
            raise ValueError("the head is too large")
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def on_message_complete(self) -> None:
        if not self.cycle.response_complete:  # else it was answered early, and now waits for the next request
            self._incomplete.discard(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        elif not self.transport.is_closing():
            self._incomplete.add(self)
        super().on_response_complete()
