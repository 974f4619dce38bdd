"""`trace`: the firehose of a vhost, on and off."""

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.call import Call, broker_command

group = typer.Typer(help="Follow messages: the firehose, and the life of one message.", no_args_is_help=True)

#: What is said of a vhost all at once: PUT forgets what it is not told again.
SAID = ("description", "tags", "default_queue_type", "protected_from_deletion")


@broker_command(group, "on")
def trace_on(call: Call) -> None:
    """Copy every message published or delivered in a vhost to its exchange amq.rabbitmq.trace."""
    _set(call, True)
    call.output.done(
        f"the firehose is on{call.in_vhost}: bind a queue to exchange 'amq.rabbitmq.trace'",
        kind="vhost",
        name=call.vhost,
        outcome="traced",
    )


@broker_command(group, "off")
def trace_off(call: Call) -> None:
    """Copy nothing any more."""
    _set(call, False)
    call.output.done(f"the firehose is off{call.in_vhost}", kind="vhost", name=call.vhost, outcome="untraced")


def _set(call: Call, is_traced: bool) -> None:
    known = call.api.get("vhosts", call.vhost)
    body: View = {name: known[name] for name in SAID if known.get(name) is not None}
    call.api.put("vhosts", call.vhost, body={**body, "tracing": is_traced})
