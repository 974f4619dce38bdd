"""Channels and their statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastapi import Request, Response

from rabbitlike.management.auth import MONITORING, Caller, Member
from rabbitlike.management.http.errors import bad_request, not_authorised, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists, shown
from rabbitlike.management.routes.clients.connections import connections_of, user_of

if TYPE_CHECKING:
    from rabbitlike.broker.broker import ClientChannel

router = Router("channels")

NO_STATS = "Stats in management UI are disabled on this node"


def channels_of(caller: Caller, vhost: str | None = None) -> Iterator[ClientChannel]:
    for client in connections_of(caller, vhost):
        yield from list(client.open_channels())


def name_of(channel: ClientChannel) -> str:
    return channel.name


@router.get("/channels", response_model=None, openapi_extra=lists.PAGED)
async def read_all(request: Request, caller: Member) -> Response:
    if shown.without_stats(request):
        raise bad_request(NO_STATS)
    return await lists.answer(request, channels_of(caller), shown.channels(request), name_of=name_of)


@router.get("/vhosts/{vhost:name}/channels", response_model=None, openapi_extra=lists.SORTED)
async def read_those_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    """The channels of a vhost. parity: without pagination."""
    items = channels_of(caller, caller.vhost(vhost).name)
    return await lists.answer(request, items, shown.channels(request), is_paged=False)


@router.get("/channels/{channel:name}", response_model=None)
async def read(request: Request, caller: Member, channel: str) -> Response:
    if shown.without_stats(request):
        raise bad_request(NO_STATS)
    for client in caller.context.broker.connections:
        # A channel's name starts with its connection's.
        if client.is_open and channel.startswith(client.name):
            for found in client.open_channels():
                if found.name == channel:
                    if not caller.has(MONITORING) and user_of(client) != caller.user.name:
                        raise not_authorised("User not authorised to access object")
                    return lists.one(request, shown.channel_in_full(request, found))
    raise not_found()
