"""Replicas and their balance: the single node holds every queue."""

from __future__ import annotations

from fastapi import Request, Response

from rabbitlike.broker.views import node_name
from rabbitlike.management.auth import Administrator, Member
from rabbitlike.management.context import Here
from rabbitlike.management.http.bodies import Body
from rabbitlike.management.http.errors import ApiError
from rabbitlike.management.http.replies import Reply
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.routes.topology.queues import find

router = Router("queues")

CLASSIC = "classic_queue_not_supported"


class Replica(Body):
    node: str


def _unavailable(reason: str) -> ApiError:
    return ApiError(503, "service_unavailable", reason)


@router.get("/queues/quorum/{vhost:name}/{queue:name}/status", response_model=None)
async def read(request: Request, here: Here, caller: Member, vhost: str, queue: str) -> Response:
    found = find(caller, vhost, queue)
    if found.settings.queue_type != "quorum":
        return Reply({"status": "failed", "reason": CLASSIC}, 503)
    replica = {"Node Name": node_name(here.broker.settings), "Raft State": "leader", "Membership": "voter"}
    return await lists.answer(request, [replica], order=(), is_paged=False)


@router.post("/queues/quorum/{vhost:name}/{queue:name}/replicas/add", status_code=204, response_model=None)
async def add(here: Here, caller: Administrator, vhost: str, queue: str, body: Replica) -> Response:
    _check(here, find(caller, vhost, queue).settings.queue_type, body)
    return Response(status_code=204)


@router.delete("/queues/quorum/{vhost:name}/{queue:name}/replicas/delete", status_code=202, response_model=None)
async def delete(here: Here, caller: Administrator, vhost: str, queue: str, body: Replica) -> Response:
    _check(here, find(caller, vhost, queue).settings.queue_type, body)
    raise _unavailable("last_node")


def _check(here: Here, queue_type: str, body: Replica) -> None:
    if queue_type != "quorum":
        raise _unavailable(CLASSIC)
    if body.node != node_name(here.broker.settings):
        raise _unavailable("node_not_running")


@router.post("/queues/quorum/replicas/on/{node:name}/grow", status_code=204, response_model=None)
async def grow(caller: Administrator, node: str) -> Response:
    """Does nothing: on the single node every queue has its replica, and other nodes do not exist."""
    return Response(status_code=204)


@router.delete("/queues/quorum/replicas/on/{node:name}/shrink", status_code=202, response_model=None)
async def shrink(caller: Administrator, node: str) -> Response:
    """Does nothing. parity: the last replica of a queue is kept."""
    return Response(status_code=202)
