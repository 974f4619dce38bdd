"""Consumers: list them, and cancel one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fastapi import Request, Response

from rabbitlike.management.auth import ADMINISTRATOR, MONITORING, Caller, Member
from rabbitlike.management.context import Here
from rabbitlike.management.http.errors import bad_request, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists, shown
from rabbitlike.management.routes.clients.channels import NO_STATS
from rabbitlike.management.routes.clients.connections import find as find_connection
from rabbitlike.management.turns import turn

if TYPE_CHECKING:
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.management.listing.shown import View

#: parity
ORDER: Final = ("queue.vhost", "queue.name")

router = Router("consumers")


def consumers_in(caller: Caller, vhosts: list[Vhost]) -> Iterator[View]:
    """parity: monitors see all consumers, others only their own."""
    is_monitor = caller.has(MONITORING)
    for queue in shown.queues_in(vhosts):
        for consumer in list(queue.consumers.all):
            view = consumer.view()
            details = view["channel_details"]
            if is_monitor or (isinstance(details, dict) and details.get("user") == caller.user.name):
                yield view


@router.get("/consumers", response_model=None, openapi_extra=lists.SORTED)
async def read_all(request: Request, caller: Member) -> Response:
    if shown.without_stats(request):
        raise bad_request(NO_STATS)
    vhosts = list(caller.context.broker.vhosts.values())
    return await lists.answer(request, consumers_in(caller, vhosts), order=ORDER, is_paged=False)


@router.get("/consumers/{vhost:name}", response_model=None, openapi_extra=lists.SORTED)
async def read_those_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    if shown.without_stats(request):
        raise bad_request(NO_STATS)
    found = caller.context.broker.vhosts.get(vhost)
    if found is None:
        raise not_found()
    return await lists.answer(request, consumers_in(caller, [found]), order=ORDER, is_paged=False)


@router.delete(
    "/consumers/{vhost:name}/{connection:name}/{channel}/{consumer:name}", status_code=204, response_model=None
)
async def cancel(here: Here, caller: Member, vhost: str, connection: str, channel: int, consumer: str) -> Response:
    """Cancel a consumer as if its queue had been deleted; its client gets basic.cancel if it supports that."""
    home = caller.vhost(vhost)
    client = find_connection(caller, connection, ADMINISTRATOR)
    if client.vhost is home:
        for found in client.open_channels():
            if found.number == channel:
                with turn(here.broker):
                    is_cancelled = found.cancel_consumer(consumer)
                if is_cancelled:
                    return Response(status_code=204)
    raise not_found()
