"""Vhosts: list, show, create, change, protect and delete them, and list permissions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from fastapi import Request, Response
from pydantic import BaseModel

from rabbitlike.broker import views
from rabbitlike.broker.accounts.permissions import EVERYTHING
from rabbitlike.management.auth import Administrator, Caller, Member
from rabbitlike.management.http.bodies import checked_name, to_tags
from rabbitlike.management.http.errors import ApiError, bad_request, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists, shown
from rabbitlike.management.routes.accounts.permissions import permission_views
from rabbitlike.management.routes.accounts.topic_permissions import topic_permission_views
from rabbitlike.management.turns import change, stored

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.vhost import Vhost

router = Router("vhosts")

#: Interval of checks whether a vhost is deleted, which may take many turns.
LOOK_S: Final = 0.005


class VhostBody(BaseModel):
    description: str | None = None
    tags: str | list[str] | None = None
    default_queue_type: str | None = None
    #: Its name in RabbitMQ 3.11.
    defaultqueuetype: str | None = None
    tracing: bool | None = None
    protected_from_deletion: bool | None = None

    def tag_list(self) -> list[str]:
        return [] if self.tags is None else to_tags(self.tags)

    def queue_type(self) -> str | None:
        given = self.default_queue_type if self.default_queue_type is not None else self.defaultqueuetype
        if given == "":
            raise bad_request("default_queue_type must not be an empty string")
        return None if given == "undefined" else given


def find(caller: Caller, name: str) -> Vhost:
    vhost = caller.context.broker.vhosts.get(name)
    if vhost is None:
        raise not_found()
    return vhost


def _name_of(vhost: Vhost) -> str:
    return vhost.name


@router.get("/vhosts", response_model=None)
async def read_all(request: Request, caller: Member) -> Response:
    found = [vhost for vhost in caller.context.broker.vhosts.values() if caller.may_see(vhost.name)]
    return await lists.answer(request, found, await shown.vhosts(request, found), order=("name",), name_of=_name_of)


@router.get("/vhosts/{vhost:name}", response_model=None)
async def read(request: Request, caller: Administrator, vhost: str) -> Response:
    found = find(caller, vhost)
    return lists.one(request, (await shown.vhosts(request, [found]))(found))


@router.put("/vhosts/{vhost:name}", status_code=201, responses={204: {}}, response_model=None)
async def put(caller: Administrator, vhost: str, body: VhostBody) -> Response:
    """Create or change a vhost. The creator gets all permissions in it. parity: options absent from the body are
    cleared in an existing vhost, except its default queue type."""
    checked_name(vhost, "vhost")
    broker = caller.context.broker
    await _until_deleted(broker, vhost)
    with change(broker):
        is_new = broker.set_vhost(
            vhost,
            description=body.description or "",
            tags=body.tag_list(),
            default_queue_type=body.queue_type(),
            is_traced=body.tracing,
            is_protected=body.protected_from_deletion,
        )
        if is_new:
            broker.set_permission(caller.user.name, vhost, EVERYTHING)
    await stored(broker)
    return Response(status_code=201 if is_new else 204)


async def _until_deleted(broker: Broker, vhost: str) -> None:
    """Wait until the deletion of a vhost of this name is complete."""
    while vhost in broker.deletions:  # noqa: ASYNC110 - rare, and the broker does not use asyncio
        await asyncio.sleep(LOOK_S)


@router.delete("/vhosts/{vhost:name}", status_code=204, response_model=None)
async def delete(caller: Administrator, vhost: str) -> Response:
    """Delete a vhost with all its contents, and close its connections."""
    if find(caller, vhost).is_protected:
        reason = f"Refusing to delete virtual host '{vhost}' because it is protected from deletion"
        raise ApiError(412, "precondition_failed", reason)
    broker = caller.context.broker
    with change(broker):
        broker.delete_vhost(vhost)
    await _until_deleted(broker, vhost)
    await stored(broker)
    return Response(status_code=204)


@router.get("/vhosts/{vhost:name}/permissions", response_model=None)
async def read_permissions(request: Request, caller: Administrator, vhost: str) -> Response:
    find(caller, vhost)
    found = [each for each in permission_views(caller.context.broker) if each["vhost"] == vhost]
    return await lists.answer(request, found, order=("vhost", "user"), is_paged=False)


@router.get("/vhosts/{vhost:name}/topic-permissions", response_model=None)
async def read_topic_permissions(request: Request, caller: Administrator, vhost: str) -> Response:
    find(caller, vhost)
    found = [each for each in topic_permission_views(caller.context.broker) if each["vhost"] == vhost]
    return await lists.answer(request, found, order=("vhost", "user"), is_paged=False)


@router.post("/vhosts/{vhost:name}/deletion/protection", status_code=204, response_model=None)
async def protect(caller: Administrator, vhost: str) -> Response:
    return await _protect(caller, vhost, True)


@router.delete("/vhosts/{vhost:name}/deletion/protection", status_code=204, response_model=None)
async def unprotect(caller: Administrator, vhost: str) -> Response:
    return await _protect(caller, vhost, False)


async def _protect(caller: Caller, vhost: str, is_protected: bool) -> Response:
    find(caller, vhost)
    broker = caller.context.broker
    with change(broker):
        broker.set_vhost(vhost, is_protected=is_protected)
    await stored(broker)
    return Response(status_code=204)


@router.post("/vhosts/{vhost:name}/start/{node:name}", status_code=204, response_model=None)
async def start(caller: Administrator, vhost: str, node: str) -> Response:
    """Does nothing: every vhost is running."""
    find(caller, vhost)
    if node != views.node_name(caller.context.broker.settings):
        raise bad_request(f"Unknown node: {node}")
    return Response(status_code=204)
