"""Delayed messages: list, show and cancel them, and count them. Beyond RabbitMQ, whose plugin does not show them.

Most of them are only on disk. They are read a batch at a time, with pauses for other work.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Query, Request, Response

from rabbitlike.broker.delays import views as delay_views
from rabbitlike.broker.message import exchange_of
from rabbitlike.broker.views import text
from rabbitlike.management.auth import Caller, Member
from rabbitlike.management.context import Here
from rabbitlike.management.http.bodies import exchange_name
from rabbitlike.management.http.errors import bad_request, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists, shown
from rabbitlike.management.messages import payload_view, properties_view
from rabbitlike.management.turns import stored, turn
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from rabbitlike.broker.delays.delays import Delays
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.vhost import Vhost

router = Router("delayed")

#: Last message reached by `page`; use `after` beyond it, which costs the same at any depth.
DEEPEST: Final = 10_000
TRUNCATE: Final = 50_000
_ID: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,19})", re.ASCII)

#: A listed message before pagination: its due time, its number, and its view.
Row = tuple[int, int, "dict[str, object]"]


@router.get("/delayed/{vhost:name}", response_model=None)
async def read_all(
    request: Request,
    caller: Member,
    vhost: str,
    page: Annotated[int, Query(ge=1)] = 1,
    page_size: Annotated[int, Query(ge=1, le=lists.MAX_PAGE_SIZE)] = lists.DEFAULT_PAGE_SIZE,
    after: Annotated[str | None, Query(description="What an earlier answer had as `next`.")] = None,
    exchange: Annotated[str | None, Query(description="Only those published to it.")] = None,
) -> Response:
    """List the delayed messages at the vhost's exchanges that the caller may read, by due time."""
    home = caller.vhost(vhost)
    if page * page_size > DEEPEST:
        raise bad_request(f"beyond {DEEPEST} messages go on with after, which is next of an earlier answer")
    place = (0, 0) if after is None else _place(after)
    if place is None:
        raise bad_request("after: must be the value of next in an earlier answer")
    readable = _readable(caller, home)
    wanted = readable
    if exchange is not None:
        name = exchange_name(exchange)
        caller.permit_in(home)("read", "exchange", name)
        wanted = frozenset((name,))
    rows = await _earliest(home.delays, place, page * page_size + 1, wanted)
    items = rows[(page - 1) * page_size : page * page_size]
    is_more = len(rows) > page * page_size
    filtered = sum(map(home.delays.count_of, wanted))
    return lists.one(
        request,
        {
            "items": [view for _, _, view in items],
            "next": items[-1][2]["id"] if items and is_more else None,
            "item_count": len(items),
            "filtered_count": filtered,
            "total_count": sum(map(home.delays.count_of, readable)),
            "page": page,
            "page_size": page_size,
            "page_count": -(-filtered // page_size),
        },
    )


def _readable(caller: Caller, home: Vhost) -> frozenset[str]:
    """The exchanges with delayed messages that the caller may read."""
    permissions = caller.context.broker.permissions
    return frozenset(
        name
        for name in home.delays.routes.names
        if permissions.allows(caller.user.name, home.name, "read", "exchange", name)
    )


async def _earliest(delays: Delays, after: tuple[int, int], count: int, exchanges: Collection[str]) -> list[Row]:
    """The first `count` delayed messages at these exchanges after a place. Skips batches that cannot contain one."""
    slices = lists.Slices()
    found: dict[int, Row] = {}
    until_ms = delay_views.NEVER
    for starts_at_ms, portion in delay_views.portions(delays, after[0]):
        if starts_at_ms > until_ms:
            break
        for message in portion():
            if (message.expires_at_ms, message.position) > after and message.expires_at_ms <= until_ms:
                if exchange_of(message.address) in exchanges:
                    view = delay_views.delayed(message)
                    found[message.position] = (message.expires_at_ms, message.position, view)
            await slices.pause()
        if len(found) >= 2 * count:
            found = {row[1]: row for row in _first(found, count)}
            until_ms = max(row[0] for row in found.values())
        await slices.pause()
    return _first(found, count)


def _first(found: dict[int, Row], count: int) -> list[Row]:
    return sorted(found.values(), key=lambda row: row[:2])[:count]


def _place(name: str) -> tuple[int, int] | None:
    match = _ID.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


@router.get("/delay/stats", response_model=None)
async def read_all_stats(request: Request, caller: Member) -> Response:
    """Counts of delayed messages in all vhosts that the caller sees, in total and by vhost."""
    views = [{"vhost": text(home.name), **delay_views.stats(home.delays)} for home in shown.vhosts_of(caller)]
    totals: dict[str, object] = {
        name: sum(int(str(view[name])) for view in views)
        for name in ("pending", "delivered", "cancelled", "dropped", "memory")
    }
    times = [int(str(view["next_due"])) for view in views if view["next_due"] is not None]
    return lists.one(request, {**totals, "next_due": min(times, default=None), "vhosts": views})


@router.get("/delayed/{vhost:name}/stats", response_model=None)
async def read_stats(request: Request, caller: Member, vhost: str) -> Response:
    return lists.one(request, delay_views.stats(caller.vhost(vhost).delays))


@router.get("/delayed/{vhost:name}/{id:name}", response_model=None)
async def read(request: Request, caller: Member, vhost: str, id: str) -> Response:
    """Show one message by its id or message-id, with properties and payload."""
    home = caller.vhost(vhost)
    permit = caller.permit_in(home)
    async for message in _found(home.delays, id):
        permit("read", "exchange", exchange_of(message.address))
        view = {
            **delay_views.delayed(message),
            "properties": properties_view(message.properties),
            **payload_view(message.body, "auto", TRUNCATE),
        }
        return lists.one(request, view)
    raise not_found()


@router.delete("/delayed/{vhost:name}/{id:name}", status_code=204, response_model=None)
async def cancel(here: Here, caller: Member, vhost: str, id: str) -> Response:
    """Cancel the message with this id, or all with this message-id. The caller needs permission to publish to their
    exchange."""
    home = caller.vhost(vhost)
    permit = caller.permit_in(home)
    count = 0
    async for message in _found(home.delays, id):
        permit("write", "exchange", exchange_of(message.address))
        with turn(here.broker):
            count += home.delays.cancel(message)
    if not count:
        raise not_found()
    await stored(here.broker)
    return Response(status_code=204)


async def _found(delays: Delays, name: str) -> AsyncIterator[Message]:
    """The message with this id, else all with this message-id. Yields each message as soon as it is found."""
    slices = lists.Slices()
    place = _place(name)
    if place is not None:
        for message in delay_views.find(delays, *place):
            if message is not None:
                yield message
                return
            await slices.pause()
    octets = name.encode("utf-8", "surrogateescape")
    for _, portion in delay_views.portions(delays):
        for message in portion():
            # Search the octets first: most messages have another message-id.
            if octets in message.properties and Properties(message.properties).message_id == name:
                yield message
        await slices.pause()
