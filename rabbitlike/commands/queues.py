"""Operations on whole queues and on connections: `purge`, `pause`, `resume`, `connections`."""

from typing import Annotated

import typer

from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.faults import Fault
from rabbitlike.commands.listing import list_command, named
from rabbitlike.commands.names import QueueName

purge = typer.Typer(help="Empty a queue.", no_args_is_help=True)
connections = typer.Typer(help="List and close connections.", no_args_is_help=True)


@broker_command(purge, "queue")
def purge_queue(call: Call, name: QueueName) -> None:
    """Delete all ready messages of a queue."""
    call.api.delete("queues", call.vhost, name, "contents")
    call.output.done(
        f"queue '{name}' purged{call.in_vhost}",
        kind="queue",
        name=name,
        vhost=call.vhost,
        outcome="purged",
    )


def pause(call: Call, name: QueueName) -> None:
    """Stop deliveries of a queue until `resume`; it still accepts messages."""
    call.api.put("queues", call.vhost, name, "pause")
    call.output.done(
        f"queue '{name}' delivers nothing until `rabbitlike resume`{call.in_vhost}",
        kind="queue",
        name=name,
        vhost=call.vhost,
        outcome="paused",
    )


def resume(call: Call, name: QueueName) -> None:
    """Resume deliveries of a paused queue."""
    call.api.put("queues", call.vhost, name, "resume")
    call.output.done(
        f"queue '{name}' delivers again{call.in_vhost}",
        kind="queue",
        name=name,
        vhost=call.vhost,
        outcome="resumed",
    )


@broker_command(connections, "close")
def close_connections(
    call: Call,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name shown by `list connections`.", show_default=False)
    ] = None,
    of_user: Annotated[
        str | None, typer.Option("--of-user", help="All connections of this user.", metavar="USER")
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="All connections; with --vhost, those of the vhost.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Reason that clients receive.", metavar="TEXT")] = (
        "closed by an operator"
    ),
) -> None:
    """Close a connection, or all connections of a user or a vhost."""
    if [name is not None, of_user is not None, everyone].count(True) != 1:
        raise Fault("which connections? Give a name, --of-user or --all")
    names = [name] if name is not None else _open(call, of_user)
    for each in names:
        call.api.delete("connections", each, headers={"X-Reason": reason})
    told = f"connection '{name}' closed" if name is not None else f"{len(names):,} connections closed"
    call.output.done(told, kind="connections", names=names, outcome="closed")


def _open(call: Call, user: str | None) -> list[str]:
    """Return the names of open connections."""
    if user is not None:
        views = call.api.get_list("connections", "username", user)
    elif call.asked_vhost is not None:
        views = call.api.get_list("vhosts", call.asked_vhost, "connections")
    else:
        views = call.api.get_list("connections")
    return [str(view["name"]) for view in views]


list_command(named("connections"), connections, "list")


def add_commands(root: typer.Typer, panel: str) -> None:
    broker_command(root, "pause", panel=panel)(pause)
    broker_command(root, "resume", panel=panel)(resume)
