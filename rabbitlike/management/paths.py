"""Names in paths: `/queues/{vhost:name}/{queue:name}`, where `%2F` is the vhost `/` and not two slashes.

Frameworks decode a path before they look at its slashes. Here it is matched as it came, each name decoded by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class NameConvertor(Convertor[str]):
    """One path segment that holds a name."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value, errors="surrogateescape")

    def to_string(self, value: str) -> str:
        return quote(value, safe="", errors="surrogateescape")


register_url_convertor("name", NameConvertor())


class RawPaths:
    """Lets the router see the path as it came."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        await self._app(scope, receive, send)
