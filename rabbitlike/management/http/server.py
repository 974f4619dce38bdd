"""Serves the API with uvicorn on the current loop, at sockets that are already bound."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

# Otherwise the first streamed answer would import it, which blocks the broker's loop for 30 ms.
import anyio._backends._asyncio  # noqa: F401
import uvicorn
from fastapi import FastAPI

from rabbitlike.management.api import create_api
from rabbitlike.management.context import Context
from rabbitlike.management.http.connection import (
    MAX_CONNECTIONS,
    TLS_HANDSHAKE_TIMEOUT_S,
    HttpConnection,
    IncompleteRequests,
)
from rabbitlike.management.http.routing import make_all
from rabbitlike.management.routes.node.metrics import create_metrics_api

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

#: Time that requests under way have at shutdown; then endless streams are cut.
GRACE_S: Final = 1
POLL_S: Final = 0.005
#: How long an idle connection stays open. parity; uvicorn's default of 5 s is the interval of many polling clients.
KEEP_ALIVE_S: Final = 60


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, incomplete: IncompleteRequests) -> None:
        super().__init__(config)
        self._incomplete = incomplete

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, with a deadline for TLS handshakes."""
        await super().startup([])
        tls = self.config.ssl
        for listening in sockets or ():
            self.servers.append(
                await asyncio.get_running_loop().create_server(
                    self._make_intake,
                    sock=listening,
                    backlog=self.config.backlog,
                    ssl=tls,
                    ssl_handshake_timeout=None if tls is None else TLS_HANDSHAKE_TIMEOUT_S,
                )
            )

    def _make_intake(self) -> HttpConnection:
        return HttpConnection(
            self._incomplete, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing: the app handles signals."""
        yield


class ManagementServer:
    """The HTTP side of one broker."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._running: list[tuple[_Server, asyncio.Task[None]]] = []
        self._routes: Sequence[BaseRoute] = ()
        self._incomplete = IncompleteRequests()
        context.start()

    async def start(self, sockets: list[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        """Serve the API on these sockets."""
        api = create_api(self._context)
        self._routes = api.routes  # the same on every port
        await self._serve(api, sockets, tls)

    async def make_routes(self) -> None:
        await make_all(self._routes)

    async def start_metrics(self, sockets: list[socket.socket]) -> None:
        """Serve metrics on these sockets, without a login."""
        await self._serve(create_metrics_api(self._context), sockets)

    async def _serve(self, api: FastAPI, sockets: list[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        config = uvicorn.Config(
            api,
            # Use the peer address, whatever the headers claim.
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        config.load()
        config.ssl = tls
        server = _Server(config, self._incomplete)
        task = asyncio.create_task(server.serve(sockets), name="management")
        self._running.append((server, task))
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn offers nothing to await
            await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        self._context.stop()
        for server, _ in self._running:
            server.should_exit = True
        if self._running:
            await asyncio.wait([task for _, task in self._running])
        await self._context.webhooks.close()
