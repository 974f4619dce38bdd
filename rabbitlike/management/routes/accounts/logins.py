"""Logins: available methods, the form of a web page, counts of attempts, and password hashes."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import Request, Response

from rabbitlike.broker import views
from rabbitlike.broker.accounts.users import hash_password
from rabbitlike.management.auth import MANAGEMENT, Administrator, Caller, Monitor, login_as
from rabbitlike.management.context import Here
from rabbitlike.management.http.errors import bad_request, not_authorised, not_found
from rabbitlike.management.http.middleware import LOGIN_PATH
from rabbitlike.management.http.replies import Reply
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists

if TYPE_CHECKING:
    from rabbitlike.broker.accounts.login_attempts import LoginAttempt

router = Router("logins", prefix="")


@router.get("/api/auth", response_model=None)
async def read_ways() -> Response:
    """Only by password. parity: needs no login, because login pages ask first."""
    return Reply({"oauth_enabled": False})


@router.post(LOGIN_PATH, response_model=None)
async def log_in(request: Request, here: Here) -> Response:
    """Log in with the form of a web page, `username` and `password`; the cookie is for that page's scripts.

    parity: the cookie is what follows `Basic` in the Authorization header, unescaped: scripts cut it at the first `=`.
    The broker itself reads no cookie.
    """
    try:
        form = parse_qs((await request.body()).decode(), max_num_fields=10)
        name, password = form["username"][0], form["password"][0]
    except (KeyError, ValueError):
        raise bad_request("username and password are needed, as a form") from None
    if not login_as(request.scope, here, name, password).has(MANAGEMENT):
        raise not_authorised("Not management user")
    answer = Reply("ok")
    value = b64encode(f"{name}:{password}".encode()).decode("ascii")
    # Not set_cookie: it would quote the = of base64.
    answer.headers["set-cookie"] = f"auth={value}; secure" if request.url.scheme == "https" else f"auth={value}"
    return answer


def _view(attempt: LoginAttempt) -> dict[str, object]:
    return {
        "protocol": attempt.protocol,
        "auth_attempts": attempt.succeeded + attempt.failed,
        "auth_attempts_failed": attempt.failed,
        "auth_attempts_succeeded": attempt.succeeded,
    }


def _view_of_source(attempt: LoginAttempt) -> dict[str, object]:
    return {"remote_address": attempt.remote_address, "username": attempt.username, **_view(attempt)}


def _check_node(caller: Caller, node: str) -> None:
    if node != views.node_name(caller.context.broker.settings):
        raise not_found()


@router.get("/api/auth/attempts/{node:name}", response_model=None)
async def read_attempts(request: Request, caller: Monitor, node: str) -> Response:
    _check_node(caller, node)
    found = list(caller.context.broker.login_attempts.totals())
    return await lists.answer(request, found, _view, order=("protocol",), is_paged=False)


@router.get("/api/auth/attempts/{node:name}/source", response_model=None)
async def read_attempts_by_source(request: Request, caller: Monitor, node: str) -> Response:
    """Login attempts by source; counted only with the option `track_auth_attempt_source`."""
    _check_node(caller, node)
    found = list(caller.context.broker.login_attempts.sources())
    return await lists.answer(request, found, _view_of_source, order=("remote_address", "username"), is_paged=False)


@router.delete("/api/auth/attempts/{node:name}", status_code=204, response_model=None)
async def reset_attempts(caller: Administrator, node: str) -> Response:
    _check_node(caller, node)
    caller.context.broker.login_attempts.reset()
    return Response(status_code=204)


@router.delete("/api/auth/attempts/{node:name}/source", status_code=204, response_model=None)
async def reset_attempts_by_source(caller: Administrator, node: str) -> Response:
    """parity: resets the total counts too, as there is one counter."""
    return await reset_attempts(caller, node)


@router.get("/api/auth/hash_password/{password:name}", response_model=None)
async def read_hash(caller: Administrator, password: str) -> Response:
    """A password hash for definitions; every call returns another one, because the salt is random."""
    return Reply({"ok": hash_password(password, caller.context.broker.users.algorithm)})
