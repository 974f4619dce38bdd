"""Bindings: list all, or those between two ends; create and delete one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import quote, quote_plus, unquote_plus

from fastapi import Path, Request, Response
from pydantic import BeforeValidator, Field

from rabbitlike.broker import views
from rabbitlike.broker.accounts import access
from rabbitlike.broker.bindings import Binding
from rabbitlike.broker.vhost import plain_name
from rabbitlike.management.auth import Caller, Member
from rabbitlike.management.context import Here
from rabbitlike.management.http.bodies import Arguments, Body, checked_name, exchange_name, to_table
from rabbitlike.management.http.errors import not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists, shown
from rabbitlike.management.turns import stored, turn

if TYPE_CHECKING:
    from rabbitlike.broker.exchanges.exchange import Destination
    from rabbitlike.broker.vhost import Vhost

router = Router("bindings")

BINDING_ORDER: Final = ("vhost", "source", "type", "destination", "routing_key", "properties_key")

#: Kind of a binding's destination, in paths.
Kind = Annotated[Literal["e", "q"], Path(description="e: an exchange, q: a queue")]


def _key(value: object) -> object:
    """parity: a number is accepted as text, and null as the empty key."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else value


class NewBinding(Body):
    routing_key: Annotated[str, BeforeValidator(_key)] = ""
    arguments: Arguments = Field(default_factory=dict)


def bindings_in(vhosts: list[Vhost]) -> Iterator[views.View]:
    """Bindings of each vhost. Those of the default exchange come first; they exist only as views."""
    for vhost in vhosts:
        for queue in list(vhost.queues.values()):
            yield views.default_binding(queue)
        for source in list(vhost.exchanges.values()):
            for binding in list(source.bindings):
                yield views.binding(vhost, binding)


@router.get("/bindings", response_model=None, openapi_extra=lists.SORTED)
async def read_all(request: Request, caller: Member) -> Response:
    items = bindings_in(shown.vhosts_of(caller))
    return await lists.answer(request, items, order=BINDING_ORDER, is_paged=False)


@router.get("/bindings/{vhost:name}", response_model=None, openapi_extra=lists.SORTED)
async def read_those_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    items = bindings_in([caller.vhost(vhost)])
    return await lists.answer(request, items, order=BINDING_ORDER, is_paged=False)


def _destination(home: Vhost, kind: str, name: str) -> Destination | None:
    return home.queues.get(name) if kind == "q" else home.exchanges.get(exchange_name(name))


def _between(caller: Caller, vhost: str, source: str, kind: str, destination: str) -> Iterable[views.View]:
    home = caller.vhost(vhost)
    end = _destination(home, kind, destination)
    if end is None:
        return ()
    name = exchange_name(source)
    if not name:
        return (views.default_binding(home.queues[destination]),) if kind == "q" else ()
    return (views.binding(home, each) for each in list(home.bindings_to(end)) if each.source == name)


@router.get("/bindings/{vhost:name}/e/{source:name}/{kind}/{destination:name}", response_model=None)
async def read_between(
    request: Request, caller: Member, vhost: str, source: str, kind: Kind, destination: str
) -> Response:
    """All bindings between two ends."""
    found = _between(caller, vhost, source, kind, destination)
    return await lists.answer(request, found, order=BINDING_ORDER, is_paged=False)


@router.post("/bindings/{vhost:name}/e/{source:name}/{kind}/{destination:name}", status_code=201, response_model=None)
async def bind(
    here: Here, caller: Member, vhost: str, source: str, kind: Kind, destination: str, body: NewBinding
) -> Response:
    home = caller.vhost(vhost, "vhost_not_found")
    name = plain_name(exchange_name(source))
    end_name = plain_name(checked_name(destination, "queue")) if kind == "q" else exchange_name(destination)
    key = checked_name(body.routing_key, "routing key")
    arguments = to_table(body.arguments)
    resource: Literal["queue", "exchange"] = "queue" if kind == "q" else "exchange"
    access.bind(caller.permit_in(home), caller.permit_topic_in(home), home, name, resource, end_name, key)
    exchange = home.exchange(name)
    end = home.queue(end_name) if kind == "q" else home.exchange(end_name)
    with turn(here.broker):
        home.bind(name, end, key, arguments)
    if exchange.durable and end.durable:
        await stored(here.broker)
    properties_key = Binding(name, end, key, arguments).properties_key
    # parity: relative to the requested path.
    location = f"{quote(destination, safe='', errors='surrogateescape')}/{quote(properties_key, safe='~')}"
    return Response(status_code=201, headers={"Location": location})


def _spelt(given: str) -> str:
    """parity: a properties key that was not encoded before it was put into the path is accepted too."""
    keep = "surrogateescape"
    parts = (unquote_plus(part, errors=keep) for part in given.split("~"))
    return "~".join(quote_plus(part, safe="", errors=keep) for part in parts)


async def _one(caller: Caller, vhost: str, source: str, kind: str, destination: str, properties: str) -> views.View:
    wanted = _spelt(properties)
    slices = lists.Slices()
    for view in _between(caller, vhost, source, kind, destination):
        if view["properties_key"] == wanted:
            return view
        await slices.pause()
    raise not_found()


@router.get("/bindings/{vhost:name}/e/{source:name}/{kind}/{destination:name}/{properties:name}", response_model=None)
async def read(
    request: Request, caller: Member, vhost: str, source: str, kind: Kind, destination: str, properties: str
) -> Response:
    return lists.one(request, await _one(caller, vhost, source, kind, destination, properties))


@router.delete(
    "/bindings/{vhost:name}/e/{source:name}/{kind}/{destination:name}/{properties:name}",
    status_code=204,
    response_model=None,
)
async def unbind(
    here: Here, caller: Member, vhost: str, source: str, kind: Kind, destination: str, properties: str
) -> Response:
    properties = str((await _one(caller, vhost, source, kind, destination, properties))["properties_key"])
    home = caller.vhost(vhost)
    end = home.queue(destination) if kind == "q" else home.exchange(exchange_name(destination))
    resource: Literal["queue", "exchange"] = "queue" if kind == "q" else "exchange"
    permit, permit_topic = caller.permit_in(home), caller.permit_topic_in(home)
    name = exchange_name(source)
    same = (each for each in home.bindings_to(end) if each.source == name and each.properties_key == properties)
    found = next(same, None)
    key = destination if found is None else found.routing_key
    access.bind(permit, permit_topic, home, name, resource, end.name, key)
    is_durable = end.durable and home.exchange(name).durable
    with turn(here.broker):
        if found is not None:
            home.unbind(name, end, key, found.arguments)
    if is_durable:
        await stored(here.broker)
    return Response(status_code=204)
