"""Queues: list, show, declare, delete and purge them, and other operations."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from rabbitlike.broker import views
from rabbitlike.broker.accounts import access
from rabbitlike.broker.vhost import plain_name
from rabbitlike.management.auth import Administrator, Caller, Member
from rabbitlike.management.context import Here
from rabbitlike.management.http.bodies import Arguments, Body, Flag, checked_name, to_table
from rabbitlike.management.http.errors import bad_request, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists, shown
from rabbitlike.management.routes.topology.bindings import BINDING_ORDER
from rabbitlike.management.turns import stored, turn

if TYPE_CHECKING:
    from rabbitlike.broker.accounts.permissions import Access
    from rabbitlike.broker.queues.queue import Queue

router = Router("queues")


class Declaration(Body):
    durable: Flag = False
    auto_delete: Flag = False
    arguments: Arguments = Field(default_factory=dict)
    node: str | None = None


class Action(Body):
    action: str


def find(caller: Caller, vhost: str, name: str) -> Queue:
    """The queue, to read its state. Raises 404 if it does not exist."""
    queue = caller.vhost(vhost).queues.get(name)
    if queue is None:
        raise not_found()
    return queue


def take(caller: Caller, vhost: str, name: str, needed: Access) -> Queue:
    """The queue, for an operation that needs this access. Raises an error for another connection's exclusive queue."""
    queue = find(caller, vhost, name)
    caller.permit_in(queue.vhost)(needed, "queue", name)
    return queue.vhost.queue(name)


def readable(caller: Caller, vhost: str, name: str) -> Queue:
    """The queue, to read its messages. Checks the permission first, so that a 403 does not reveal whether it exists."""
    home = caller.vhost(vhost, "vhost_not_found")
    caller.permit_in(home)("read", "queue", name)
    if name not in home.queues:
        raise not_found("queue_not_found")
    return home.queue(name)


def key_of(queue: Queue) -> tuple[str, str]:
    return (queue.vhost.name, queue.name)


def name_of(queue: Queue) -> str:
    return queue.name


@router.get("/queues", response_model=None, openapi_extra=lists.PAGED)
@router.get("/queues/detailed", response_model=None, openapi_extra=lists.PAGED)
async def read_all(request: Request, caller: Member) -> Response:
    items = shown.queues_in(shown.vhosts_of(caller))
    return await lists.answer(request, items, shown.queues(request), name_of=name_of, key_of=key_of)


@router.get("/queues/{vhost:name}", response_model=None, openapi_extra=lists.PAGED)
async def read_those_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    items = shown.queues_in([caller.vhost(vhost)])
    return await lists.answer(request, items, shown.queues(request), name_of=name_of, key_of=key_of)


@router.get("/queues/{vhost:name}/{queue:name}", response_model=None)
async def read(request: Request, caller: Member, vhost: str, queue: str) -> Response:
    return lists.one(request, await shown.queue_in_full(request, find(caller, vhost, queue)))


@router.put("/queues/{vhost:name}/{queue:name}", status_code=201, responses={204: {}}, response_model=None)
async def declare(here: Here, caller: Member, vhost: str, queue: str, body: Declaration) -> Response:
    home = caller.vhost(vhost, "vhost_not_found")
    name = plain_name(checked_name(queue, "queue"))
    if body.node is not None and body.node != views.node_name(here.broker.settings):
        raise bad_request(f"Node {body.node} could not be contacted")
    arguments = to_table(body.arguments)
    access.declare_queue(caller.permit_in(home), home, name, arguments)
    is_new = name not in home.queues
    with turn(here.broker):
        home.declare_queue(name, durable=body.durable, auto_delete=body.auto_delete, arguments=arguments)
    if is_new and body.durable:
        await stored(here.broker)
    return Response(status_code=201 if is_new else 204)


@router.delete("/queues/{vhost:name}/{queue:name}", status_code=204, response_model=None)
async def delete(
    here: Here,
    caller: Member,
    vhost: str,
    queue: str,
    if_unused: Annotated[str, Query(alias="if-unused")] = "",
    if_empty: Annotated[str, Query(alias="if-empty")] = "",
) -> Response:
    doomed = take(caller, vhost, queue, "configure")
    with turn(here.broker):
        doomed.vhost.delete_queue(doomed, if_unused=if_unused == "true", if_empty=if_empty == "true")
    if doomed.durable:
        await stored(here.broker)
    return Response(status_code=204)


@router.delete("/queues/{vhost:name}/{queue:name}/contents", status_code=204, response_model=None)
async def purge(here: Here, caller: Member, vhost: str, queue: str) -> Response:
    full = take(caller, vhost, queue, "read")
    with turn(here.broker):
        full.purge()
    if full.durable:
        await stored(here.broker)
    return Response(status_code=204)


@router.get("/queues/{vhost:name}/{queue:name}/bindings", response_model=None)
async def read_bindings(request: Request, caller: Member, vhost: str, queue: str) -> Response:
    end = find(caller, vhost, queue)
    found = (views.binding(end.vhost, each) for each in list(end.vhost.bindings_to(end)))
    return await lists.answer(request, chain([views.default_binding(end)], found), order=BINDING_ORDER, is_paged=False)


@router.post("/queues/{vhost:name}/{queue:name}/actions", status_code=204, response_model=None)
async def act(caller: Administrator, vhost: str, queue: str, body: Action) -> Response:
    """parity: actions of mirrored queues. Here there is nothing to synchronise, so they succeed at once."""
    if queue not in caller.vhost(vhost, "vhost_not_found").queues:
        raise not_found("queue_not_found")
    if body.action not in ("sync", "cancel_sync"):
        raise bad_request(["unknown", body.action])
    return Response(status_code=204)


# Beyond RabbitMQ


@router.put("/queues/{vhost:name}/{queue:name}/pause", status_code=204, response_model=None)
async def pause(here: Here, caller: Member, vhost: str, queue: str) -> Response:
    """Pause deliveries; the queue still accepts messages."""
    found = take(caller, vhost, queue, "configure")
    with turn(here.broker):
        found.vhost.pause_queue(found)
    if found.durable:
        await stored(here.broker)
    return Response(status_code=204)


@router.put("/queues/{vhost:name}/{queue:name}/resume", status_code=204, response_model=None)
async def resume(here: Here, caller: Member, vhost: str, queue: str) -> Response:
    found = take(caller, vhost, queue, "configure")
    with turn(here.broker):
        found.vhost.resume_queue(found)
    if found.durable:
        await stored(here.broker)
    return Response(status_code=204)


@router.get("/queues/{vhost:name}/{queue:name}/priority/stats", response_model=None)
async def read_priorities(request: Request, caller: Member, vhost: str, queue: str) -> Response:
    """The `priorities` of a queue and the rule by which they are served."""
    found = find(caller, vhost, queue)
    settings = found.settings
    return lists.one(
        request,
        {
            "mode": "strict" if settings.weights is None else "weighted",
            "max_wait": settings.priority_max_wait_ms,
            "priorities": shown.priorities(request, found),
        },
    )


@router.get("/queues/{vhost:name}/{queue:name}/unacked", response_model=None)
async def read_unacked(request: Request, caller: Member, vhost: str, queue: str) -> Response:
    """Unacked messages: which consumer or lease holds them, and since when."""
    found = take(caller, vhost, queue, "read")
    held = (delivery for channel in views.unacked_of(found) for delivery in channel)
    return await lists.answer(request, held, order=("position",))
