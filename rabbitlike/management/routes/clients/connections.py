"""Connections: list, show and close them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fastapi import Request, Response

from rabbitlike.broker import views
from rabbitlike.management.auth import ADMINISTRATOR, MONITORING, Caller, Member
from rabbitlike.management.context import Here
from rabbitlike.management.http.errors import not_authorised, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists, shown
from rabbitlike.management.turns import turn

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Client

router = Router("connections")

CONNECTION_FORCED: Final = 320
CLOSED_BY_US: Final = "Closed via management plugin"
MAX_REASON: Final = 200


def user_of(client: Client) -> str:
    return "" if client.user is None else client.user.name


def connections_of(caller: Caller, vhost: str | None = None) -> Iterator[Client]:
    """parity: monitors see all connections, others only their own."""
    is_monitor = caller.has(MONITORING)
    for client in list(caller.context.broker.connections):
        if not client.is_open or client.vhost is None or vhost not in (None, client.vhost.name):
            continue
        if is_monitor or user_of(client) == caller.user.name:
            yield client


def find(caller: Caller, name: str, tag: str = MONITORING) -> Client:
    """The connection of this name. Raises 404 if there is none, 401 for another user's connection without the tag."""
    for client in caller.context.broker.connections:
        if client.name == name and client.is_open:
            if not caller.has(tag) and user_of(client) != caller.user.name:
                raise not_authorised("User not authorised to access object")
            return client
    raise not_found()


def key_of(client: Client) -> tuple[str, str]:
    return ("" if client.vhost is None else client.vhost.name, client.name)


def name_of(client: Client) -> str:
    return client.name


def brief(client: Client) -> views.View:
    """parity: the view of a connection without statistics."""
    view = client.view()
    return {name: view[name] for name in ("name", "vhost", "user", "node")}


@router.get("/connections", response_model=None, openapi_extra=lists.PAGED)
async def read_all(request: Request, caller: Member) -> Response:
    show = brief if shown.without_stats(request) else shown.connections(request)
    return await lists.answer(request, connections_of(caller), show, name_of=name_of, key_of=key_of)


@router.get("/vhosts/{vhost:name}/connections", response_model=None, openapi_extra=lists.SORTED)
async def read_those_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    """The connections of a vhost. parity: without pagination."""
    items = connections_of(caller, caller.vhost(vhost).name)
    return await lists.answer(request, items, shown.connections(request), key_of=key_of, is_paged=False)


@router.get("/connections/username/{username:name}", response_model=None, openapi_extra=lists.PAGED)
async def read_those_of_user(request: Request, caller: Member, username: str) -> Response:
    _see_user(caller, username, MONITORING)
    items = [client for client in connections_of(caller) if user_of(client) == username]
    return await lists.answer(request, items, brief, name_of=name_of, key_of=key_of)


@router.delete("/connections/username/{username:name}", status_code=204, response_model=None)
async def close_those_of_user(request: Request, here: Here, caller: Member, username: str) -> Response:
    _see_user(caller, username, ADMINISTRATOR)
    slices = lists.Slices()
    for client in [client for client in here.broker.connections if user_of(client) == username]:
        _close(request, here, client)
        await slices.pause()
    return Response(status_code=204)


@router.get("/connections/{connection:name}", response_model=None)
async def read(request: Request, caller: Member, connection: str) -> Response:
    client = find(caller, connection)
    view = {"name": client.name} if shown.without_stats(request) else shown.connections(request)(client)
    return lists.one(request, view)


@router.delete("/connections/{connection:name}", status_code=204, response_model=None)
async def close(request: Request, here: Here, caller: Member, connection: str) -> Response:
    """Close a connection; the client gets the header X-Reason as the reason."""
    _close(request, here, find(caller, connection, ADMINISTRATOR))
    return Response(status_code=204)


@router.get("/connections/{connection:name}/channels", response_model=None)
async def read_channels(request: Request, caller: Member, connection: str) -> Response:
    client = find(caller, connection)
    return await lists.answer(request, list(client.open_channels()), shown.channels(request), is_paged=False)


@router.get("/connections/{connection:name}/sessions", response_model=None)
async def read_sessions(request: Request, caller: Member, connection: str) -> Response:
    """parity: sessions belong to AMQP 1.0; an AMQP 0-9-1 connection has none."""
    find(caller, connection)
    return await lists.answer(request, (), is_paged=False)


def _see_user(caller: Caller, username: str, tag: str) -> None:
    if not caller.has(tag) and username != caller.user.name:
        raise not_authorised("User not authorised to access object")


def _close(request: Request, here: Here, client: Client) -> None:
    given = request.headers.get("x-reason", "")
    reason = "".join(character for character in given if character.isprintable())[:MAX_REASON]
    with turn(here.broker):
        client.shutdown(CONNECTION_FORCED, reason or CLOSED_BY_US)
