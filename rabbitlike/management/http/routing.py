"""The router class of every resource, and routes that FastAPI analyses when they are first needed.

FastAPI takes more than a millisecond to analyse a route's function, and there are hundreds: at import this would take
half of the API's start time. Threads do it, because the loop serves clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import compile_path

from rabbitlike.management.http.replies import Reply

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send

#: One at a time: while FastAPI creates a route it changes the warning filters, which are global.
_MAKING: Final = Lock()


class LateRoute(APIRoute):
    """A route that can be matched, and is created when first called, or earlier by `make_all`."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.path = path
        self.endpoint = endpoint
        self.methods = set(options["methods"])
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self.include_in_schema = options["include_in_schema"]
        self._options: dict[str, Any] | None = options

    def make(self) -> None:
        """Create the route if it is not created yet. Call it on a thread."""
        with _MAKING:
            if self._options is not None:
                super().__init__(self.path, self.endpoint, **self._options)
                self._options = None

    async def made(self) -> None:
        if self._options is not None:
            await asyncio.to_thread(self.make)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.made()
        await super().handle(scope, receive, send)


async def make_all(routes: Iterable[BaseRoute]) -> None:
    """Create all remaining routes one by one, so that few requests must wait for theirs."""
    for route in routes:
        if isinstance(route, LateRoute):
            await route.made()


class Router(APIRouter):
    """Routes under /api, whose answers are encoded by `replies`."""

    def __init__(self, tag: str = "", prefix: str = "/api") -> None:
        super().__init__(
            prefix=prefix, tags=[tag] if tag else None, default_response_class=Reply, route_class=LateRoute
        )
