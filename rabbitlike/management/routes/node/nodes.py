"""The single node. parity: for monitors."""

from __future__ import annotations

from fastapi import Request, Response

from rabbitlike.management.auth import Monitor
from rabbitlike.management.context import Context, Here
from rabbitlike.management.http.errors import not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.node.node import memory_view, node_view, relative_memory_view
from rabbitlike.management.statistics.ages import WithAges

router = Router(prefix="/api/nodes")


def _known(node: str, here: Context) -> None:
    if node != here.node:
        raise not_found()


@router.get("")
async def nodes(request: Request, here: Here, caller: Monitor, ages: WithAges) -> Response:
    return await lists.answer(request, [node_view(here, ages)], order=("name",), is_paged=False)


@router.get("/{node:name}")
async def node(request: Request, node: str, here: Here, caller: Monitor, ages: WithAges) -> Response:
    _known(node, here)
    view = node_view(here, ages)
    if request.query_params.get("memory") == "true":
        view["memory"] = memory_view()
    if request.query_params.get("binary") == "true":
        view["binary"] = {}
    return lists.one(request, view)


@router.get("/{node:name}/memory")
async def memory(node: str, here: Here, caller: Monitor) -> dict[str, object]:
    _known(node, here)
    return {"memory": memory_view()}


@router.get("/{node:name}/memory/relative")
async def relative_memory(node: str, here: Here, caller: Monitor) -> dict[str, object]:
    _known(node, here)
    return {"memory": relative_memory_view()}


@router.get("/{node:name}/memory/ets")
@router.get("/{node:name}/memory/ets/{filter:name}")
async def tables(node: str, here: Here, caller: Monitor) -> dict[str, object]:
    """Empty: there are no Erlang tables."""
    _known(node, here)
    return {"ets_tables": "no_tables"}
