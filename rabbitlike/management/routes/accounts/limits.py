"""Limits of connections, queues and channels per vhost and per user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import Request, Response
from pydantic import BaseModel, JsonValue

from rabbitlike.management.auth import Administrator, Caller, Member
from rabbitlike.management.http.errors import bad_request, not_authorised, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.turns import change, stored

if TYPE_CHECKING:
    from rabbitlike.broker.accounts.limits import Limits
    from rabbitlike.broker.accounts.users import User
    from rabbitlike.broker.terms import Json
    from rabbitlike.broker.vhost import Vhost

router = Router("limits")

#: In paths: all limits of a user. parity: vhosts have no such name.
ALL: Final = "all"


class LimitBody(BaseModel):
    value: JsonValue


def _with(limits: Limits, name: str, value: JsonValue) -> dict[str, JsonValue]:
    """The limits with one added; the broker validates them."""
    return {**limits, name: value}


def _without(limits: Limits, name: str) -> Limits:
    return {each: limits[each] for each in limits if each != name}


# Vhosts


def _of_vhosts(vhosts: list[Vhost]) -> list[dict[str, object]]:
    return [{"vhost": vhost.name, "value": vhost.limits} for vhost in vhosts if vhost.limits]


def _vhost(caller: Caller, name: str) -> Vhost:
    vhost = caller.context.broker.vhosts.get(name)
    if vhost is None:
        raise not_found("vhost_not_found")
    return vhost


@router.get("/vhost-limits", response_model=None)
async def read_those_of_vhosts(request: Request, caller: Member) -> Response:
    visible = [vhost for vhost in caller.context.broker.vhosts.values() if caller.may_see(vhost.name)]
    return await lists.answer(request, _of_vhosts(visible), order=("vhost",), is_paged=False)


@router.get("/vhost-limits/{vhost:name}", response_model=None)
async def read_those_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    home = caller.context.broker.vhosts.get(vhost)
    if home is None:
        raise not_found()
    if not caller.may_see(vhost):
        raise not_authorised("User not authorised to access virtual host")
    return await lists.answer(request, _of_vhosts([home]), order=("vhost",), is_paged=False)


@router.put("/vhost-limits/{vhost:name}/{limit:name}", status_code=204, response_model=None)
async def put_of_vhost(caller: Administrator, vhost: str, limit: str, body: LimitBody) -> Response:
    """Set a limit. A negative value means no limit; zero allows nothing new."""
    limits = _with(_vhost(caller, vhost).limits, limit, body.value)
    return await _set_of_vhost(caller, vhost, limits)


@router.delete("/vhost-limits/{vhost:name}/{limit:name}", status_code=204, response_model=None)
async def delete_of_vhost(caller: Administrator, vhost: str, limit: str) -> Response:
    return await _set_of_vhost(caller, vhost, _without(_vhost(caller, vhost).limits, limit))


async def _set_of_vhost(caller: Caller, vhost: str, limits: Json) -> Response:
    broker = caller.context.broker
    with change(broker):
        broker.set_vhost_limits(vhost, limits)
    await stored(broker)
    return Response(status_code=204)


# Users


def _of_users(users: list[User]) -> list[dict[str, object]]:
    return [{"user": user.name, "value": user.limits} for user in users if user.limits]


@router.get("/user-limits", response_model=None)
async def read_those_of_users(request: Request, caller: Member) -> Response:
    """List the limits of all users. parity: up to 4.1 every management user may read them."""
    return await lists.answer(request, _of_users(list(caller.context.broker.users)), order=("user",), is_paged=False)


@router.get("/user-limits/{user:name}", response_model=None)
async def read_those_of_user(request: Request, caller: Member, user: str) -> Response:
    found = caller.context.broker.users.get(user)
    if found is None:
        raise not_found()
    return await lists.answer(request, _of_users([found]), order=("user",), is_paged=False)


@router.put("/user-limits/{user:name}/{limit:name}", status_code=204, response_model=None)
async def put_of_user(caller: Administrator, user: str, limit: str, body: LimitBody) -> Response:
    """Set a limit. A negative value means no limit; zero allows nothing new."""
    found = caller.context.broker.users.get(user)
    if found is None:
        raise bad_request(["no_such_user", user])
    return await _set_of_user(caller, user, _with(found.limits, limit, body.value))


@router.delete("/user-limits/{user:name}/{limit:name}", status_code=204, response_model=None)
async def delete_of_user(caller: Administrator, user: str, limit: str) -> Response:
    """Remove one limit, or `all` of them."""
    found = caller.context.broker.users.get(user)
    if found is None:
        raise not_found("user_not_found")
    return await _set_of_user(caller, user, {} if limit == ALL else _without(found.limits, limit))


async def _set_of_user(caller: Caller, user: str, limits: Json) -> Response:
    broker = caller.context.broker
    with change(broker):
        broker.set_user_limits(user, limits)
    await stored(broker)
    return Response(status_code=204)
