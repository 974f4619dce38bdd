"""`declare`, `delete`, `bind` and `unbind` for queues, exchanges, bindings and virtual hosts.

accounts.py and policies.py add commands for users, policies and parameters to the same two groups.
"""

from typing import Annotated, Any, Final

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.faults import Refused
from rabbitlike.commands.names import ExchangeName, NewName, QueueName, VhostName
from rabbitlike.commands.values import Argument, Arguments, arguments_of

declare = typer.Typer(help="Declare a queue, an exchange, a user, a policy …", no_args_is_help=True)
delete = typer.Typer(help="Delete a queue, an exchange, a user, a policy …", no_args_is_help=True)

Durable = Annotated[bool, typer.Option("--durable/--transient", help="Whether it survives a restart.")]
AutoDelete = Annotated[bool, typer.Option("--auto-delete", help="Delete it when it is no longer used.")]
IfUnused = Annotated[bool, typer.Option("--if-unused", help="Only if it is not in use.")]
IfEmpty = Annotated[bool, typer.Option("--if-empty", help="Only if it is empty.")]
ToExchange = Annotated[
    bool, typer.Option("--to-exchange", help="The destination is an exchange; otherwise it is a queue.")
]
RoutingKey = Annotated[str, typer.Argument(metavar="[KEY]", help="Routing key.", show_default=False)]
Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The source exchange.", show_default=False)]
Destination = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="The destination queue; see --to-exchange.", show_default=False)
]


def made(call: Call, is_new: bool, kind: str, name: str, verb: str = "declared", **told: object) -> None:
    """Report that an object exists now."""
    outcome = "created" if is_new else "updated" if verb == "set" else "existed"
    text = f"{kind} '{name}' {verb}" if is_new or verb == "set" else f"{kind} '{name}' was there already"
    call.output.done(f"{text}{_place(told)}", kind=kind, name=name, outcome=outcome, **told)


def gone(call: Call, kind: str, name: str, **told: object) -> None:
    """Report that an object does not exist any more."""
    call.output.done(f"{kind} '{name}' deleted{_place(told)}", kind=kind, name=name, outcome="deleted", **told)


def _place(told: dict[str, object]) -> str:
    return f" in vhost '{told['vhost']}'" if told.get("vhost", "/") != "/" else ""


# Queues and exchanges


@broker_command(declare, "queue")
def declare_queue(
    call: Call,
    name: NewName,
    kind: Annotated[
        str | None, typer.Option("--type", help="Queue type: classic, quorum, stream.", metavar="TYPE")
    ] = None,
    durable: Durable = True,
    auto_delete: AutoDelete = False,
    argument: Argument = None,
    arguments: Arguments = None,
) -> None:
    """Declare a queue; an existing queue with the same properties stays unchanged."""
    wanted: dict[str, Any] = arguments_of(argument, arguments)
    if kind is not None:
        wanted["x-queue-type"] = kind
    body: View = {"durable": durable, "auto_delete": auto_delete, "arguments": wanted}
    made(call, call.api.put("queues", call.vhost, name, body=body), "queue", name, vhost=call.vhost)


@broker_command(delete, "queue")
def delete_queue(call: Call, name: QueueName, if_unused: IfUnused = False, if_empty: IfEmpty = False) -> None:
    """Delete a queue with its messages."""
    asked = {"if-unused": if_unused, "if-empty": if_empty}
    query = {condition: "true" for condition, is_asked in asked.items() if is_asked}
    call.api.delete("queues", call.vhost, name, query=query)
    gone(call, "queue", name, vhost=call.vhost)


@broker_command(declare, "exchange")
def declare_exchange(
    call: Call,
    name: NewName,
    kind: Annotated[
        str, typer.Option("--type", help="direct, fanout, topic, headers, x-consistent-hash, …", metavar="TYPE")
    ] = "direct",
    durable: Durable = True,
    auto_delete: AutoDelete = False,
    internal: Annotated[bool, typer.Option("--internal", help="Clients cannot publish to it.")] = False,
    argument: Argument = None,
    arguments: Arguments = None,
) -> None:
    """Declare an exchange; an existing exchange with the same properties stays unchanged."""
    body: View = {
        "type": kind,
        "durable": durable,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": arguments_of(argument, arguments),
    }
    made(call, call.api.put("exchanges", call.vhost, name, body=body), "exchange", name, vhost=call.vhost)


@broker_command(delete, "exchange")
def delete_exchange(call: Call, name: ExchangeName, if_unused: IfUnused = False) -> None:
    """Delete an exchange with its bindings."""
    query = {"if-unused": "true"} if if_unused else {}
    call.api.delete("exchanges", call.vhost, name, query=query)
    gone(call, "exchange", name, vhost=call.vhost)


# Bindings


def bind(
    call: Call,
    source: Source,
    destination: Destination,
    key: RoutingKey = "",
    to_exchange: ToExchange = False,
    argument: Argument = None,
    arguments: Arguments = None,
) -> None:
    """Bind a queue, or an exchange, to an exchange."""
    body: View = {"routing_key": key, "arguments": arguments_of(argument, arguments)}
    letter = _LETTERS[to_exchange]
    call.api.post("bindings", call.vhost, "e", source, letter, destination, body=body)
    call.output.done(
        f"'{destination}' bound to '{source}' with key '{key}'{call.in_vhost}",
        kind="binding",
        vhost=call.vhost,
        source=source,
        destination=destination,
        outcome="bound",
        **body,
    )


def unbind(
    call: Call,
    source: Source,
    destination: Destination,
    key: RoutingKey = "",
    to_exchange: ToExchange = False,
    argument: Argument = None,
    arguments: Arguments = None,
) -> None:
    """Remove the binding with this key and these arguments."""
    letter = _LETTERS[to_exchange]
    wanted = arguments_of(argument, arguments)
    path = ("bindings", call.vhost, "e", source, letter, destination)
    found = [
        view for view in call.api.get_list(*path) if view["routing_key"] == key and view.get("arguments", {}) == wanted
    ]
    if not found:
        raise Refused(f"'{destination}' is not bound to '{source}' with key '{key}' and these arguments")
    for view in found:
        call.api.delete(*path, str(view["properties_key"]))
    call.output.done(
        f"'{destination}' no longer bound to '{source}' with key '{key}'{call.in_vhost}",
        kind="binding",
        vhost=call.vhost,
        source=source,
        destination=destination,
        routing_key=key,
        arguments=wanted,
        outcome="unbound",
    )


_LETTERS: Final = {False: "q", True: "e"}
broker_command(declare, "binding")(bind)
broker_command(delete, "binding")(unbind)


# Virtual hosts


@broker_command(declare, "vhost")
def declare_vhost(
    call: Call,
    name: NewName,
    description: Annotated[str | None, typer.Option("--description", help="Description.", metavar="TEXT")] = None,
    tags: Annotated[str | None, typer.Option("--tags", help="Tags, separated by commas.", metavar="TEXT")] = None,
    queue_type: Annotated[
        str | None, typer.Option("--default-queue-type", help="Type of queues declared without one.", metavar="TYPE")
    ] = None,
) -> None:
    """Create a virtual host."""
    given = {"description": description, "tags": tags, "default_queue_type": queue_type}
    is_new = call.api.put("vhosts", name, body={key: value for key, value in given.items() if value is not None})
    made(call, is_new, "vhost", name)


@broker_command(delete, "vhost")
def delete_vhost(call: Call, name: VhostName) -> None:
    """Delete a virtual host with everything in it, and close its connections."""
    call.api.delete("vhosts", name)
    gone(call, "vhost", name)


def add_commands(root: typer.Typer, panel: str) -> None:
    broker_command(root, "bind", panel=panel)(bind)
    broker_command(root, "unbind", panel=panel)(unbind)
