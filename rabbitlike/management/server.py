"""Serves the API with uvicorn on the loop it is started on, at sockets that are bound already."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn

from rabbitlike.management.api import create_api
from rabbitlike.management.context import Context

#: Requests under way at the end have this long; streams that never end by themselves are cut then.
GRACE_S: Final = 1
POLL_S: Final = 0.005


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the app's."""
        yield


class ManagementServer:
    """The HTTP side of one broker."""

    def __init__(self, context: Context) -> None:
        config = uvicorn.Config(
            create_api(context),
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = _Server(config)

    async def start(self, sockets: list[socket.socket]) -> None:
        self._task = asyncio.create_task(self._server.serve(sockets), name="management")
        while not self._server.started and not self._task.done():  # noqa: ASYNC110 - uvicorn has nothing to wait for
            await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        self._server.should_exit = True
        await asyncio.wait([self._task])
