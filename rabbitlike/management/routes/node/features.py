"""The broker's features in RabbitMQ's terms: feature flags, deprecated features, extensions."""

from __future__ import annotations

from typing import Final

from fastapi import Request, Response

from rabbitlike.management.auth import Administrator, Member
from rabbitlike.management.context import Here
from rabbitlike.management.http.errors import bad_request
from rabbitlike.management.http.replies import Reply
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists

router = Router()

#: All feature flags of RabbitMQ 3.13, enabled: clients check whether they may use the features.
_FLAGS: Final = {
    "classic_mirrored_queue_version": "Support setting version for classic mirrored queues",
    "classic_queue_type_delivery_support": "Bug fix for classic queue deliveries using mixed versions",
    "detailed_queues_endpoint": "Add a detailed queues HTTP API endpoint. Reduce number of metrics in the default one.",
    "direct_exchange_routing_v2": "v2 direct exchange routing implementation",
    "drop_unroutable_metric": "Count unroutable publishes to be dropped in stats",
    "empty_basic_get_metric": "Count AMQP `basic.get` on empty queues in stats",
    "feature_flags_v2": "Feature flags subsystem V2",
    "implicit_default_bindings": "Default bindings are now implicit, instead of being stored in the database",
    "listener_records_in_ets": "Store listener records in ETS instead of Mnesia",
    "maintenance_mode_status": "Maintenance mode status",
    "message_containers": "Message containers.",
    "quorum_queue": "Support queues of type `quorum`",
    "quorum_queue_non_voters": "Allows new quorum queue members to be added as non voters initially.",
    "restart_streams": "Support for restarting streams with optional preferred next leader argument.",
    "stream_filtering": "Support for stream filtering.",
    "stream_queue": "Support queues of type `stream`",
    "stream_sac_coordinator_unblock_group": "Bug fix to unblock a group of consumers in a super stream partition",
    "stream_single_active_consumer": "Single active consumer for streams",
    "stream_update_config_command": "A new internal command that is used to update streams as part of a policy.",
    "tracking_records_in_ets": "Store tracking records in ETS instead of Mnesia",
    "user_limits": "Configure connection and channel limits for a user",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
}
_BY_THE_AGENT: Final = ("drop_unroutable_metric", "empty_basic_get_metric")

#: parity: features that RabbitMQ deprecates and this broker has.
_DEPRECATED: Final = {
    "global_qos": "QoS with global set on basic.qos",
    "management_metrics_collection": "Rates and totals in the management API",
    "transient_nonexcl_queues": "Queues that are neither durable nor exclusive",
}


@router.get("/feature-flags")
async def feature_flags(request: Request, caller: Administrator) -> Response:
    views = [
        {
            "name": name,
            "desc": said,
            "doc_url": "",
            "state": "enabled",
            "stability": "required" if name == "feature_flags_v2" else "stable",
            "provided_by": "rabbitmq_management_agent" if name in _BY_THE_AGENT else "rabbit",
        }
        for name, said in _FLAGS.items()
    ]
    return await lists.answer(request, views, order=("name",), is_paged=False)


@router.put("/feature-flags/{flag:name}/enable", status_code=204)
async def enable_feature_flag(flag: str, caller: Administrator) -> None:
    """Does nothing: all feature flags are enabled."""
    if flag not in _FLAGS:
        raise bad_request("unsupported")


@router.get("/deprecated-features")
async def deprecated_features(request: Request, caller: Member) -> Response:
    return await lists.answer(request, [_deprecated(name) for name in _DEPRECATED], order=("name",), is_paged=False)


@router.get("/deprecated-features/used")
async def used_deprecated_features(request: Request, here: Here, caller: Member) -> Response:
    used = ["management_metrics_collection"]
    if any(
        not queue.durable and queue.owner is None
        for vhost in here.broker.vhosts.values()
        for queue in vhost.queues.values()
    ):
        used.append("transient_nonexcl_queues")
    return await lists.answer(request, [_deprecated(name) for name in used], order=("name",), is_paged=False)


def _deprecated(name: str) -> dict[str, object]:
    return {
        "name": name,
        "desc": _DEPRECATED[name],
        "doc_url": "",
        "state": "permitted",
        "deprecation_phase": "permitted_by_default",
        "provided_by": "rabbit",
    }


@router.get("/extensions")
async def extensions(caller: Member) -> Reply:
    return Reply([{"javascript": "dispatcher.js"}])


@router.get("/version")
async def version(here: Here) -> Reply:
    """parity: needs no login, because a login page of RabbitMQ 4 asks first."""
    return Reply(here.settings.version)
