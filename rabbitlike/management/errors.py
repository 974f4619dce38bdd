"""What goes wrong, as RabbitMQ's HTTP API says it. The second and last translator of AmqpError."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from rabbitlike.protocol.errors import AmqpError

log = logging.getLogger(__name__)

ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404


class ApiError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, error: str, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers


def bad_request(reason: str) -> ApiError:
    return ApiError(400, "bad_request", reason)


def not_authorised(reason: str) -> ApiError:
    """parity: 401 also for those who are known and may not."""
    return ApiError(401, "not_authorised", reason)


def not_found() -> ApiError:
    return ApiError(404, "Object Not Found", "Not Found")


def _answer(error: ApiError) -> JSONResponse:
    return JSONResponse({"error": error.error, "reason": error.reason}, error.status, headers=error.headers)


def _of_amqp(error: AmqpError) -> ApiError:
    """parity: what the broker refuses is a bad request with its text, but for what is not there."""
    if error.code == NOT_FOUND:
        return not_found()
    if error.code == ACCESS_REFUSED:
        return not_authorised(error.reply_text)
    return bad_request(f"{error.code} {error.reply_text}")


def _of_validation(error: RequestValidationError) -> ApiError:
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"] if part != "body")
    if fault["type"] == "json_invalid":
        return ApiError(400, "bad_request", "not_json")
    if fault["type"] == "missing":
        return ApiError(400, "bad_request", f"[{{key_missing,{where}}}]" if where else "body missing")
    return bad_request(f"{where}: {fault['msg']}")


def install(api: FastAPI) -> None:
    """Translate everything a route may raise."""

    @api.exception_handler(ApiError)
    async def _(_: Request, error: ApiError) -> JSONResponse:
        return _answer(error)

    @api.exception_handler(AmqpError)
    async def _(_: Request, error: AmqpError) -> JSONResponse:
        return _answer(_of_amqp(error))

    @api.exception_handler(RequestValidationError)
    async def _(_: Request, error: RequestValidationError) -> JSONResponse:
        return _answer(_of_validation(error))

    @api.exception_handler(HTTPException)
    async def _(_: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == NOT_FOUND:
            return _answer(not_found())
        phrase = HTTPStatus(error.status_code).phrase
        return _answer(ApiError(error.status_code, phrase, str(error.detail), dict(error.headers or {})))

    @api.exception_handler(Exception)
    async def _(request: Request, _: Exception) -> JSONResponse:
        log.exception("%s %s failed", request.method, request.url.path)
        return _answer(ApiError(500, "internal_error", "an unexpected error, for details see the broker log"))
