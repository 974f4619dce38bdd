"""`list`: one table per kind of object."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from rabbitlike.commands.api import Api, View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.delayed import delayed
from rabbitlike.commands.output import KEYS, Column, columns, value_at
from rabbitlike.commands.values import names_in

group = typer.Typer(help="List queues, connections, users and other objects.", no_args_is_help=True)

#: Fetches the objects of all vhosts or of one, with the given fields or, without fields, with all.
Fetch = Callable[[Api, str | None, list[str]], list[View]]


def by_vhost(*names: str) -> Fetch:
    """A list with one path for all vhosts and one per vhost: /queues, /queues/{vhost}."""
    return lambda api, vhost, paths: api.get_list(*names, *([] if vhost is None else [vhost]), **_picked(paths))


def under_vhost(name: str) -> Fetch:
    """A list whose path per vhost starts with the vhost: /connections, /vhosts/{vhost}/connections."""
    return lambda api, vhost, paths: api.get_list(*([] if vhost is None else ["vhosts", vhost]), name, **_picked(paths))


def everywhere(name: str) -> Fetch:
    """A list for all vhosts only; the command filters it by vhost."""

    def fetch(api: Api, vhost: str | None, _: list[str]) -> list[View]:
        views = api.get_list(name)
        if vhost is None or not any("vhost" in view for view in views):
            return views
        api.get("vhosts", vhost)
        return [view for view in views if view["vhost"] == vhost]

    return fetch


def _picked(paths: list[str]) -> dict[str, str]:
    return {"columns": ",".join(paths)} if paths else {}


def limits(api: Api, vhost: str | None, _: list[str]) -> list[View]:
    """Return the limits of vhosts and of users, one row each."""
    of_vhosts = api.get_list("vhost-limits", *(() if vhost is None else (vhost,)))
    of_users = api.get_list("user-limits") if vhost is None else []
    return [
        {"of": kind, "name": view[kind], "limit": limit, "value": value}
        for kind, views in (("vhost", of_vhosts), ("user", of_users))
        for view in views
        for limit, value in view["value"].items()
    ]


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object to list. A terminal does not show columns that are empty in all rows."""

    name: str
    fetch: Fetch
    shown: list[Column]
    help: str
    sort: list[str] = field(default_factory=lambda: ["vhost", "name"])


RESOURCES: Final = (
    Resource(
        "queues",
        by_vhost("queues"),
        columns(
            "vhost name type state messages_ready=ready messages_unacknowledged=unacked messages consumers "
            "message_stats.publish_details.rate=in message_stats.deliver_get_details.rate=out policy"
        ),
        "Queues with their messages and rates.",
    ),
    Resource(
        "exchanges",
        by_vhost("exchanges"),
        columns(
            "vhost name type durable auto_delete internal message_stats.publish_in_details.rate=in "
            "message_stats.publish_out_details.rate=out policy arguments"
        ),
        "Exchanges.",
    ),
    Resource(
        "bindings",
        by_vhost("bindings"),
        columns("vhost source destination_type=to destination routing_key arguments"),
        "Bindings, those of the default exchange included.",
        ["vhost", "source", "destination", "routing_key"],
    ),
    Resource(
        "connections",
        under_vhost("connections"),
        columns(
            "vhost name user user_provided_name=called state channels ssl=TLS recv_oct_details.rate=in "
            "send_oct_details.rate=out connected_at"
        ),
        "Open connections.",
    ),
    Resource(
        "channels",
        under_vhost("channels"),
        columns(
            "vhost name user consumer_count=consumers prefetch_count=prefetch messages_unacknowledged=unacked "
            "messages_unconfirmed=unconfirmed confirm state"
        ),
        "Open channels.",
    ),
    Resource(
        "consumers",
        by_vhost("consumers"),
        columns(
            "queue.vhost=vhost queue.name=queue consumer_tag channel_details.name=channel ack_required=acks "
            "prefetch_count=prefetch exclusive active"
        ),
        "Consumers of all queues.",
        ["queue.vhost", "queue.name", "consumer_tag"],
    ),
    Resource(
        "delayed",
        delayed,
        columns("id due_at exchange routing_key message_id size"),
        "Delayed messages of one vhost.",
        ["due", "id"],
    ),
    Resource(
        "vhosts",
        everywhere("vhosts"),
        columns("name description tags default_queue_type messages tracing"),
        "Virtual hosts.",
    ),
    Resource("users", everywhere("users"), columns("name tags"), "Users and their tags."),
    Resource(
        "permissions",
        under_vhost("permissions"),
        columns("vhost user configure write read"),
        "Permissions of users in vhosts.",
        ["vhost", "user"],
    ),
    Resource(
        "topic-permissions",
        under_vhost("topic-permissions"),
        columns("vhost user exchange write read"),
        "Topic permissions of users.",
        ["vhost", "user", "exchange"],
    ),
    Resource(
        "policies",
        by_vhost("policies"),
        columns("vhost name pattern apply-to priority definition"),
        "Policies.",
    ),
    Resource(
        "operator-policies",
        by_vhost("operator-policies"),
        columns("vhost name pattern apply-to priority definition"),
        "Operator policies.",
    ),
    Resource(
        "parameters",
        everywhere("parameters"),
        columns("vhost component name value"),
        "Runtime parameters of vhosts.",
        ["vhost", "component", "name"],
    ),
    Resource("global-parameters", everywhere("global-parameters"), columns("name value"), "Global parameters."),
    Resource("limits", limits, columns("of name limit value"), "Limits of vhosts and users.", ["of", "name"]),
    Resource(
        "nodes",
        everywhere("nodes"),
        columns("name type running uptime mem_used mem_limit mem_alarm disk_free disk_free_alarm fd_used sockets_used"),
        "The nodes: one.",
    ),
    Resource(
        "feature-flags", everywhere("feature-flags"), columns("name state stability desc=description"), "Feature flags."
    ),
)

Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", "-c", help="Fields to show, separated by commas: name,messages,message_stats.ack.", metavar="…"
    ),
]
Sort = Annotated[
    str | None,
    typer.Option("--sort", help="Field to sort by; with a minus, largest first: --sort -messages.", metavar="FIELD"),
]


def named(name: str) -> Resource:
    return next(each for each in RESOURCES if each.name == name)


def list_command(resource: Resource, to: typer.Typer, name: str) -> None:
    """Create the command that lists this kind."""

    def body(call: Call, chosen: Columns = None, sort: Sort = None) -> None:
        order = names_in(sort) if sort else resource.sort
        shown = [Column.of(path) for path in names_in(chosen)] if chosen else resource.shown
        is_whole = call.output.as_json and not chosen
        paths = [] if is_whole else [*(each.path for each in shown), *(path.removeprefix("-") for path in order)]
        views = in_order(resource.fetch(call.api, call.asked_vhost, paths), order)
        if call.output.as_json:
            call.output.json(
                views if is_whole else [{each.path: value_at(view, each.path) for each in shown} for view in views]
            )
            return
        if not chosen and not call.output.is_plain:
            shown = worth_showing(shown, views)
        call.output.table(views, shown, empty=f"no {resource.name.replace('-', ' ')}{call.in_vhost}")

    body.__doc__ = resource.help
    broker_command(to, name)(body)


def worth_showing(shown: Sequence[Column], views: list[View]) -> list[Column]:
    """Drop empty columns, unless they identify rows, and the vhost column if there is only one vhost."""
    kept = []
    for column in shown:
        values = [value_at(view, column.path) for view in views]
        said = [value for value in values if value is not None and value not in ("", [], {})]
        if column.path in KEYS or (said and (column.title != "vhost" or len(set(said)) > 1)):
            kept.append(column)
    return kept


def in_order(views: list[View], keys: list[str]) -> list[View]:
    """Sort by these fields, the first one before the others; a minus reverses a field's order."""
    for key in reversed(keys):
        path, is_reversed = key.removeprefix("-"), key.startswith("-")
        views = sorted(views, key=lambda view: _rank(value_at(view, path)), reverse=is_reversed)
    return views


def _rank(value: Any) -> tuple[int, float, str]:
    if value is None:
        return 0, 0, ""
    if isinstance(value, int | float):
        return 1, value, ""
    return 2, 0, str(value)


for _resource in RESOURCES:
    list_command(_resource, group, _resource.name)
