"""HTTP/1.1 as it comes in, with bounds on what stands before a body: how large it may be and how long it may take.

uvicorn leaves these to a proxy in front, and there may be none.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

#: Request line and headers of one request.
MAX_HEAD: Final = 64 * 1024
HEAD_TIMEOUT_S: Final = 30.0
#: Connections at a time; beyond them the answer is 503. Each is an open file, and AMQP clients need those more.
MAX_CONNECTIONS: Final = 1000

_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Intake(HttpToolsProtocol):
    """One HTTP connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        #: The request that is being answered; more may stand in `pipeline`, the next at its right.
        self._answered: RequestResponseCycle | None = None
        self._head_octets = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        # uvicorn tells the request that came last. If that stands in line behind others, the one being answered would
        # never hear of it and write to a socket that is closed.
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
            # All of it was head, and there is more to come.
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

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()
