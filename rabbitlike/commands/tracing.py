"""`trace`: the firehose of a vhost, the events of one message, and events of many messages."""

import time
from typing import Annotated, Final

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.faults import Refused
from rabbitlike.commands.output import Column, columns

group = typer.Typer(help="Trace messages: the firehose, and the events of a message.", no_args_is_help=True)

#: Fields that PUT resets unless the request repeats them.
SAID: Final = ("description", "tags", "default_queue_type", "protected_from_deletion")


@broker_command(group, "on")
def trace_on(call: Call) -> None:
    """Enable the firehose: copy every published and delivered message of a vhost to amq.rabbitmq.trace."""
    _set(call, True)
    call.output.done(
        f"the firehose is on{call.in_vhost}: bind a queue to exchange 'amq.rabbitmq.trace'",
        kind="vhost",
        name=call.vhost,
        outcome="traced",
    )


@broker_command(group, "off")
def trace_off(call: Call) -> None:
    """Disable the firehose."""
    _set(call, False)
    call.output.done(f"the firehose is off{call.in_vhost}", kind="vhost", name=call.vhost, outcome="untraced")


def _set(call: Call, is_traced: bool) -> None:
    known = call.api.get("vhosts", call.vhost)
    body: View = {name: known[name] for name in SAID if known.get(name) is not None}
    call.api.put("vhosts", call.vhost, body={**body, "tracing": is_traced})


SHOWN: Final = columns(
    "ts=at event queue exchange routing_key consumer_tag=consumer delivery_count=returned wait_us proc_us reason"
)

Files = Annotated[bool, typer.Option("--files", help="Also search the files of the event log.")]
Count = Annotated[
    int, typer.Option("--count", "-n", help="Maximum number of events, the newest ones.", min=1, max=10_000)
]


@broker_command(group, "message")
def trace_message(
    call: Call,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The message-id.")],
    files: Files = False,
    count: Count = 1000,
) -> None:
    """Show the events of a message-id."""
    query = {"limit": count, "files": "true" if files else "false"}
    answer = call.api.ask("GET", ("traces", call.vhost, message_id), query=query)
    if answer.status_code == 404:
        call.api.get("vhosts", call.vhost)  # reports a missing vhost, if that is the reason
        where = "" if files else " lately; --files looks further back"
        raise Refused(f"nothing is known of a message '{message_id}'{call.in_vhost}{where}")
    if not answer.is_success:
        raise call.api.refusal(answer, "GET", ("traces", call.vhost, message_id))
    _show(call, answer.json()["events"], SHOWN)


@broker_command(group, "events")
def trace_events(
    call: Call,
    queue: Annotated[
        str | None, typer.Option("--queue", "-q", help="Only events of this queue.", metavar="NAME")
    ] = None,
    event: Annotated[
        str | None, typer.Option("--event", "-e", help="Only events of this kind, such as deliver.", metavar="KIND")
    ] = None,
    last: Annotated[float | None, typer.Option("--last", help="Only events of the last seconds.", min=0)] = None,
    files: Files = False,
    count: Count = 100,
) -> None:
    """List events of messages, newest last."""
    query: dict[str, str | int] = {"limit": count, "files": "true" if files else "false"}
    query |= {name: word for name, word in (("queue", queue), ("event", event)) if word is not None}
    if last is not None:
        query["since"] = int((time.time() - last) * 1000)
    shown = columns("ts=at event queue routing_key message_id consumer_tag=consumer wait_us proc_us reason")
    _show(call, call.api.get_list("trace-events", call.vhost, **query), shown)


def _show(call: Call, events: list[View], shown: list[Column]) -> None:
    if call.output.as_json:
        call.output.json(events)
    else:
        call.output.table(events, shown, empty="no events")
