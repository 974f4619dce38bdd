"""The overview of the broker, and its cluster name."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Request, Response
from pydantic import BaseModel, BeforeValidator

from rabbitlike import __version__
from rabbitlike.management.auth import MONITORING, Administrator, Member
from rabbitlike.management.context import Here
from rabbitlike.management.exchange_types import exchange_types
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.node.listeners import context_views, listener_views
from rabbitlike.management.node.node import ERLANG
from rabbitlike.management.statistics.ages import WithAges
from rabbitlike.management.statistics.history import RETENTION
from rabbitlike.management.statistics.kinds import CHURN, CHURNED, DISK, IN, LENGTHS, OUT, VHOST
from rabbitlike.management.statistics.sums import queue_sums
from rabbitlike.management.turns import stored, turn

if TYPE_CHECKING:
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.management.context import Context
    from rabbitlike.management.statistics.details import View

router = Router()

#: How far back history reaches, in seconds, as offered to tools. parity: rounded down from what is kept.
RETAINED: Final = {
    "global": [age_s // 600 * 600 for age_s, _ in RETENTION],
    "basic": [600],
    "detailed": [600],
}
MAX_OCTET: Final = 255


@router.get("/overview")
async def overview(request: Request, here: Here, caller: Member, ages: WithAges) -> Response:
    settings, broker = here.settings, here.broker
    is_monitor = caller.has(MONITORING)
    vhosts = [vhost for vhost in broker.vhosts.values() if is_monitor or caller.may_see(vhost.name)]
    view: View = {
        "management_version": settings.version,
        "rates_mode": "detailed",
        "sample_retention_policies": RETAINED,
        "exchange_types": exchange_types(),
        "product_version": settings.version,
        "product_name": settings.product,
        "rabbitmq_version": settings.version,
        "rabbitlike_version": __version__,
        "cluster_name": here.cluster_name,
        "cluster_tags": {},
        "node_tags": {},
        "erlang_version": ERLANG,
        "erlang_full_version": f"Python {platform.python_version()}, no Erlang",
        "release_series_support_status": "supported",
        "disable_stats": False,
        "default_queue_type": "classic",
        "is_op_policy_updating_enabled": True,
        "enable_queue_totals": False,
    }
    reading = here.rates.reading(VHOST, vhosts)
    stats = _message_stats(vhosts)
    reading.annotate(stats, list(stats), ages.msg_rates)
    churn: View = {name: getattr(broker.churn, ours) for name, ours in CHURNED.items()}
    here.rates.annotate(CHURN, CHURN, churn, ages)
    sums = await queue_sums(vhosts)
    totals: View = {name: getattr(sums, name) for name in LENGTHS}
    reading.annotate(totals, LENGTHS, ages.lengths)
    # First the messages that await a retry, from the queues; then those that no queue has yet, from the vhosts.
    totals["messages_delayed"] = sums.messages_delayed
    view["messages_delayed"] = sum(vhost.delays.pending for vhost in vhosts)
    view["message_stats"] = stats
    view["churn_rates"] = churn
    view["queue_totals"] = totals
    objects = await _object_totals(here, caller.user.name, vhosts, is_monitor=is_monitor)
    if is_monitor:
        objects["consumers"] = sums.consumers
    view["object_totals"] = objects
    view["statistics_db_event_queue"] = 0
    if is_monitor:
        view["node"] = here.node
        view["listeners"] = listener_views(here)
        view["contexts"] = context_views(here)
    return lists.one(request, view)


def _message_stats(vhosts: Iterable[Vhost]) -> View:
    """parity: all counts, including those that are 0."""
    stats: dict[str, int] = dict.fromkeys((*IN, *OUT, *DISK, "deliver_get"), 0)
    for vhost in vhosts:
        for name in (*IN, *OUT, *DISK, "deliver_get"):
            stats[name] += getattr(vhost.counters, name)
    return dict(stats)


async def _object_totals(here: Context, user: str, vhosts: list[Vhost], *, is_monitor: bool) -> View:
    """parity: without the monitoring tag users see only their own connections, and no consumers."""
    slices = lists.Slices()
    connections = channels = 0
    for client in list(here.broker.connections):
        if client.is_open and (is_monitor or (client.user is not None and client.user.name == user)):
            connections += 1
            channels += sum(1 for _ in client.open_channels())
        await slices.pause()
    return {
        "channels": channels,
        "connections": connections,
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sum(len(vhost.queues) for vhost in vhosts),
    }


def _joined(value: object) -> object:
    """parity: an Erlang io list stands for the text it holds: lists of texts, of octets, and of such lists."""
    if not isinstance(value, list):
        return value
    octets = bytearray()
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, list):
            rest += reversed(each)
        elif isinstance(each, str):
            octets += each.encode()
        elif isinstance(each, int) and 0 <= each <= MAX_OCTET:
            octets.append(each)
        else:
            raise ValueError("a text, or a list of texts and octets")
    return octets.decode(errors="replace")


class ClusterName(BaseModel):
    name: Annotated[str, BeforeValidator(_joined)]


@router.get("/cluster-name")
async def cluster_name(here: Here, caller: Member) -> dict[str, str]:
    return {"name": here.cluster_name}


@router.put("/cluster-name", status_code=204)
async def set_cluster_name(body: ClusterName, here: Here, caller: Administrator) -> None:
    with turn(here.broker):
        here.broker.set_global_parameter("cluster_name", body.name)
    await stored(here.broker)
