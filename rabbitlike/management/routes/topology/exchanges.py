"""Exchanges: list, show, declare and delete them, and list their bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from rabbitlike.broker import views
from rabbitlike.broker.accounts import access
from rabbitlike.broker.vhost import plain_name
from rabbitlike.management.auth import Caller, Member
from rabbitlike.management.context import Here
from rabbitlike.management.http.bodies import Arguments, Body, Flag, exchange_name, to_table
from rabbitlike.management.http.errors import not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists, shown
from rabbitlike.management.routes.topology.bindings import BINDING_ORDER
from rabbitlike.management.statistics.pairs import Pairs
from rabbitlike.management.turns import stored, turn

if TYPE_CHECKING:
    from rabbitlike.broker.exchanges import Exchange

router = Router("exchanges")


class Declaration(Body):
    type: str = "direct"
    durable: Flag = False
    auto_delete: Flag = False
    internal: Flag = False
    arguments: Arguments = Field(default_factory=dict)


def find(caller: Caller, vhost: str, name: str) -> Exchange:
    exchange = caller.vhost(vhost).exchanges.get(exchange_name(name))
    if exchange is None:
        raise not_found()
    return exchange


def key_of(exchange: Exchange) -> tuple[str, str]:
    return (exchange.vhost, exchange.name)


def name_of(exchange: Exchange) -> str:
    return exchange.name


@router.get("/exchanges", response_model=None, openapi_extra=lists.PAGED)
async def read_all(request: Request, caller: Member) -> Response:
    items = shown.exchanges_in(shown.vhosts_of(caller))
    return await lists.answer(request, items, shown.exchanges(request), name_of=name_of, key_of=key_of)


@router.get("/exchanges/{vhost:name}", response_model=None, openapi_extra=lists.PAGED)
async def read_those_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    items = shown.exchanges_in([caller.vhost(vhost)])
    return await lists.answer(request, items, shown.exchanges(request), name_of=name_of, key_of=key_of)


@router.get("/exchanges/{vhost:name}/{exchange:name}", response_model=None)
async def read(request: Request, caller: Member, vhost: str, exchange: str) -> Response:
    found = find(caller, vhost, exchange)
    view = shown.exchanges(request)(found)
    if not shown.without_stats(request):
        view |= await Pairs(request).of_exchange(found)
    return lists.one(request, view)


@router.put("/exchanges/{vhost:name}/{exchange:name}", status_code=201, responses={204: {}}, response_model=None)
async def declare(here: Here, caller: Member, vhost: str, exchange: str, body: Declaration) -> Response:
    home = caller.vhost(vhost, "vhost_not_found")
    name = plain_name(exchange_name(exchange))
    arguments = to_table(body.arguments)
    access.declare_exchange(caller.permit_in(home), home, name, body.type, arguments)
    is_new = name not in home.exchanges
    with turn(here.broker):
        home.declare_exchange(
            name,
            body.type,
            durable=body.durable,
            auto_delete=body.auto_delete,
            internal=body.internal,
            arguments=arguments,
        )
    if is_new and body.durable:
        await stored(here.broker)
    return Response(status_code=201 if is_new else 204)


@router.delete("/exchanges/{vhost:name}/{exchange:name}", status_code=204, response_model=None)
async def delete(
    here: Here,
    caller: Member,
    vhost: str,
    exchange: str,
    if_unused: Annotated[str, Query(alias="if-unused")] = "",
) -> Response:
    doomed = find(caller, vhost, exchange)
    home = caller.vhost(vhost)
    access.delete_exchange(caller.permit_in(home), doomed.name)
    with turn(here.broker):
        home.delete_exchange(doomed.name, if_unused=if_unused == "true")
    if doomed.durable:
        await stored(here.broker)
    return Response(status_code=204)


@router.get("/exchanges/{vhost:name}/{exchange:name}/bindings/source", response_model=None)
async def read_bindings_from(request: Request, caller: Member, vhost: str, exchange: str) -> Response:
    """Bindings with this exchange as source."""
    home = caller.vhost(vhost)
    name = exchange_name(exchange)
    if not name:
        found = (views.default_binding(queue) for queue in list(home.queues.values()))
        return await lists.answer(request, found, order=BINDING_ORDER, is_paged=False)
    source = home.exchanges.get(name)
    leaving = [] if source is None else list(source.bindings)
    return await lists.answer(
        request, leaving, lambda each: views.binding(home, each), order=BINDING_ORDER, is_paged=False
    )


@router.get("/exchanges/{vhost:name}/{exchange:name}/bindings/destination", response_model=None)
async def read_bindings_to(request: Request, caller: Member, vhost: str, exchange: str) -> Response:
    """Bindings with this exchange as destination."""
    home = caller.vhost(vhost)
    end = home.exchanges.get(exchange_name(exchange))
    arriving = [] if end is None else list(home.bindings_to(end))
    return await lists.answer(
        request, arriving, lambda each: views.binding(home, each), order=BINDING_ORDER, is_paged=False
    )
