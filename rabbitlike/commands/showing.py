"""`show`: one object with all its fields."""

from typing import Annotated

import typer

from rabbitlike.commands.api import DEFAULT_EXCHANGE
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.names import ConnectionName, ExchangeName, PolicyName, QueueName, UserName, VhostName

group = typer.Typer(help="Show one object with all its fields.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


def _show(call: Call, title: str, *names: str) -> None:
    view = call.api.get(*names)
    if call.output.as_json:
        call.output.json(view)
    else:
        call.output.record(view, title=title)


@broker_command(group, "overview")
def overview(call: Call) -> None:
    """Totals and rates of the whole broker."""
    _show(call, f"Broker at {call.api.address.url}", "overview")


@broker_command(group, "queue")
def queue(call: Call, name: QueueName) -> None:
    """A queue."""
    _show(call, f"Queue {name}", "queues", call.vhost, name)


@broker_command(group, "exchange")
def exchange(call: Call, name: ExchangeName = "") -> None:
    """An exchange; without a name, the default exchange."""
    _show(call, f"Exchange {name or '(default)'}", "exchanges", call.vhost, name or DEFAULT_EXCHANGE)


@broker_command(group, "connection")
def connection(call: Call, name: ConnectionName) -> None:
    """A connection, by the name shown by `list connections`."""
    _show(call, f"Connection {name}", "connections", name)


@broker_command(group, "channel")
def channel(call: Call, name: Name) -> None:
    """A channel, by the name shown by `list channels`."""
    _show(call, f"Channel {name}", "channels", name)


@broker_command(group, "vhost")
def vhost(call: Call, name: VhostName) -> None:
    """A virtual host."""
    _show(call, f"Virtual host {name}", "vhosts", name)


@broker_command(group, "user")
def user(call: Call, name: UserName) -> None:
    """A user."""
    _show(call, f"User {name}", "users", name)


@broker_command(group, "policy")
def policy(call: Call, name: PolicyName) -> None:
    """A policy."""
    _show(call, f"Policy {name}", "policies", call.vhost, name)


@broker_command(group, "node")
def node(call: Call, name: Name) -> None:
    """A node, by the name shown by `list nodes`."""
    _show(call, f"Node {name}", "nodes", name)
