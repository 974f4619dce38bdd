"""The router every resource has one of, and routes that FastAPI looks at when they are needed.

Finding out what a function takes costs FastAPI more than a millisecond, and there are hundreds: made at import they
would be half of the time that the API takes to start. They are made on threads, for the loop has clients to serve.
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

#: One at a time: FastAPI changes the filters of warnings while it makes a route, and those are everybody's.
_MAKING: Final = Lock()


class LateRoute(APIRoute):
    """A route that can be matched, and is made when it is first called; or before, by `make_all`."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.path = path
        self.endpoint = endpoint
        self.methods = set(options["methods"])
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self.include_in_schema = options["include_in_schema"]
        self._options: dict[str, Any] | None = options

    def make(self) -> None:
        """Unless it is made. Call it on a thread."""
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
    """Make what is not made yet, one by one, so that hardly anybody has to wait for a route."""
    for route in routes:
        if isinstance(route, LateRoute):
            await route.made()


class Router(APIRouter):
    """Routes under /api, whose answers are written by `replies`."""

    def __init__(self, tag: str = "", prefix: str = "/api") -> None:
        super().__init__(
            prefix=prefix, tags=[tag] if tag else None, default_response_class=Reply, route_class=LateRoute
        )
