"""Checks every request before its route: origin, method, size, body; and adds the headers that every answer carries.

Routes get the path undecoded, GET instead of HEAD, and a body that is complete, within the size limit, and JSON
whatever its Content-Type. Before login, a client cannot make the broker read or parse more than a few octets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from rabbitlike.management.http.documents import has_more_values
from rabbitlike.management.http.errors import ApiError, answer, bad_request, not_found
from rabbitlike.management.http.origins import check_origin

if TYPE_CHECKING:
    from fastapi.routing import APIRouter
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: parity: RabbitMQ's value.
MAX_BODY: Final = 20 * 1024 * 1024
#: Maximum fields and items of a body, nested ones included: each takes some microseconds to parse and check.
MAX_VALUES: Final = 12_000
#: Maximum body before login: enough for the login form.
MAX_BODY_BEFORE_LOGIN: Final = 4096
#: Longest time to receive a body.
BODY_TIMEOUT_S: Final = 60

TOO_LARGE: Final = "Exceeded HTTP request body size limit"
JSON: Final = "application/json"
MULTIPART: Final = "multipart/form-data"
#: The path whose body is a form.
LOGIN_PATH: Final = "/api/login"
#: Paths whose routes parse the body themselves, because it may be long.
DOCUMENTS: Final = ("/api/definitions", "/api/all-configuration")

_EVERY_ANSWER: Final = {
    "cache-control": "no-cache",
    "content-security-policy": "script-src 'self' 'unsafe-eval' 'unsafe-inline'; object-src 'self'",  # parity
    "vary": "accept, accept-encoding, origin",
    "x-content-type-options": "nosniff",
}

#: In the order of the Allow header. parity
_METHODS: Final = ("HEAD", "GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")

#: Raises ApiError unless the request is authenticated.
Login = Callable[["Scope"], object]


class ApiMiddleware:
    """The outermost layer of the API."""

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter], login: Login, origins: Collection[str] = ()) -> None:
        """`origins`: other origins whose web pages may send requests that change something."""
        self._app = app
        self._origins = origins
        self._routers = tuple(routers)
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The router decodes each name by itself: `%2F` is not a slash. A trailing slash is ignored.
        scope = {**scope, "path": scope["raw_path"].decode("latin-1").rstrip("/") or "/"}
        method = scope["method"]
        sent = _with_headers(send, is_head=method == "HEAD")
        if method == "HEAD":
            scope["method"] = "GET"
        app = self._app
        try:
            check_origin(scope, self._origins)
            if method == "OPTIONS":
                app = self._options(scope["path"])
            elif _has_body(scope):
                body = await self._read(scope, receive)
                receive = _again(body, receive)
        except ApiError as refusal:
            app = answer(refusal)
        await app(scope, receive, sent)

    def _options(self, path: str) -> Response:
        """parity: needs no login."""
        allowed = allowed_methods(self._routers, path)
        return Response(headers={"Allow": allowed}) if allowed else answer(not_found())

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        headers = Headers(scope=scope)
        announced = headers.get("content-length", "0")
        limit = MAX_BODY_BEFORE_LOGIN
        if not announced.isdecimal() or int(announced) > limit:
            self._login(scope)
            limit = MAX_BODY
        if announced.isdecimal() and int(announced) > limit:
            raise bad_request(TOO_LARGE)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                async for part in _parts(receive):
                    body += part
                    if len(body) > limit:
                        if limit == MAX_BODY_BEFORE_LOGIN:
                            self._login(scope)
                            limit = MAX_BODY
                        if len(body) > limit:
                            raise bad_request(TOO_LARGE)
        except TimeoutError:
            raise ApiError(408, "request_timeout", "the body did not arrive in time") from None
        if headers.get("content-type", "").startswith(MULTIPART) or scope["path"] == LOGIN_PATH:
            return bytes(body)
        # parity: bodies are JSON whatever their Content-Type; curl's default declares a form.
        MutableHeaders(scope=scope)["content-type"] = JSON
        if scope["path"].startswith(DOCUMENTS):
            return bytes(body)
        if await has_more_values(bytes(body), MAX_VALUES):
            raise bad_request(f"the body holds more than {MAX_VALUES} values")
        return _checked(bytes(body))


def _has_body(scope: Scope) -> bool:
    if scope["method"] in ("POST", "PUT", "PATCH"):
        return True
    headers = Headers(scope=scope)
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise bad_request("the client has gone")
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


def _checked(body: bytes) -> bytes:
    """The body, if it is a JSON object."""
    if is_empty_body(body):
        return b"{}"
    try:
        check_object(orjson.loads(body))
    except orjson.JSONDecodeError:
        raise bad_request("not_json") from None
    return body


def is_empty_body(body: bytes) -> bool:
    """parity: an empty body and null stand for an empty object."""
    return body.strip() in (b"", b"null", b"undefined")


def check_object(value: object) -> None:
    """parity: only JSON objects are accepted."""
    if isinstance(value, str):
        raise bad_request(
            "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
        )
    if not isinstance(value, dict):
        raise bad_request("not_json")


def _again(body: bytes, receive: Receive) -> Receive:
    """Returns a body that was already read, then what follows it."""
    left = [body]

    async def give() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return give


def _with_headers(send: Send, *, is_head: bool) -> Send:
    """Adds the headers that every answer carries, and drops the body of an answer to HEAD."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _EVERY_ANSWER.items():
                headers.setdefault(name, value)
        elif is_head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return sent


def allowed_methods(routers: Iterable[APIRouter], path: str) -> str:
    """The methods that a path supports, for the Allow header; empty if the path is unknown."""
    found: set[str] = set()
    for router in routers:
        for route in router.routes:
            pattern = getattr(route, "path_regex", None)
            if pattern is not None and pattern.match(path):
                found |= getattr(route, "methods", None) or set()
    if not found:
        return ""
    found |= {"OPTIONS"} | ({"HEAD"} if "GET" in found else set())
    return ", ".join(method for method in _METHODS if method in found)
