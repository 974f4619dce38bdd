"""Errors in the form of RabbitMQ's HTTP API. The second and last translator of AmqpError."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from rabbitlike.management.http.replies import Reply
from rabbitlike.protocol.errors import AmqpError

log = logging.getLogger(__name__)

ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
METHOD_NOT_ALLOWED: Final = 405
NOT_ALLOWED: Final = 530
ERLANG_LINE: Final = 80


class ApiError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, error: str, reason: object, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        #: Usually a text; a list of parts where RabbitMQ sends one.
        self.reason = reason
        self.headers = headers


def bad_request(reason: object) -> ApiError:
    return ApiError(400, "bad_request", reason)


def not_authorised(reason: str) -> ApiError:
    """parity: 401 also for authenticated users without the right."""
    return ApiError(401, "not_authorised", reason)


def not_found(reason: str = "") -> ApiError:
    """The object in the path does not exist, or with a reason, one that the request needs."""
    return ApiError(404, "not_found", reason) if reason else ApiError(404, "Object Not Found", "Not Found")


def answer(error: ApiError) -> Response:
    return Reply({"error": error.error, "reason": error.reason}, error.status, headers=error.headers)


def refused(error: AmqpError) -> ApiError:
    """parity: 400 for what the broker refuses, with the reason that AMQP clients get."""
    if error.code == NOT_FOUND:
        return not_found(error.text)
    if error.code in (ACCESS_REFUSED, NOT_ALLOWED):
        return not_authorised("Access refused.")
    return bad_request(error.text)


def closed(error: AmqpError) -> ApiError:
    """parity: publishing and getting use a channel; the error that closes it is reported with its code."""
    if error.code == NOT_FOUND:
        return not_found(error.reply_text)
    if error.code == ACCESS_REFUSED:
        return not_authorised(error.reply_text)
    return bad_request(str(error))


@contextmanager
def closing() -> Iterator[None]:
    """Translate each AmqpError raised inside with `closed`."""
    try:
        yield
    except AmqpError as error:
        raise closed(error) from None


def _of_validation(error: RequestValidationError) -> ApiError:
    faults = error.errors()
    fault = faults[0]
    where = ".".join(str(part) for part in fault["loc"][1:])
    if fault["type"] == "json_invalid":
        return bad_request("not_json")
    missing = [str(each["loc"][-1]) for each in faults if each["type"] == "missing" and each["loc"][0] == "body"]
    if missing:
        return bad_request(_erlang_list([f"{{key_missing,{name}}}" for name in missing]))
    said = str(fault["msg"]).removeprefix("Value error, ")
    return bad_request(f"{where}: {said}" if where else said)


def _erlang_list(parts: list[str]) -> str:
    """parity: printed as by Erlang, on one line if short enough."""
    line = f"[{','.join(parts)}]"
    return line if len(line) <= ERLANG_LINE else "[" + ",\n ".join(parts) + "]"


def install(api: FastAPI, allowed: Callable[[str], str]) -> None:
    """Translate all exceptions of routes; `allowed` returns the methods that a path supports."""

    @api.exception_handler(ApiError)
    async def _(_: Request, error: ApiError) -> Response:
        return answer(error)

    @api.exception_handler(AmqpError)
    async def _(_: Request, error: AmqpError) -> Response:
        return answer(refused(error))

    @api.exception_handler(RequestValidationError)
    async def _(_: Request, error: RequestValidationError) -> Response:
        return answer(_of_validation(error))

    @api.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        if error.status_code == NOT_FOUND:
            return answer(not_found())
        headers = dict(error.headers or {})
        if error.status_code == METHOD_NOT_ALLOWED:
            headers = {"Allow": allowed(request.scope["path"])}
        phrase = HTTPStatus(error.status_code).phrase
        return answer(ApiError(error.status_code, phrase.lower().replace(" ", "_"), str(error.detail), headers))

    @api.exception_handler(Exception)
    async def _(request: Request, _: Exception) -> Response:
        log.exception("%s %s failed", request.method, request.scope["path"])
        return answer(ApiError(500, "internal_error", "an unexpected error, for details see the broker log"))
