"""`dlq`: browse, retry and delete the dead-lettered messages of a queue."""

from typing import Annotated, Final

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.browsing import (
    FromExchange,
    WithHeader,
    WithKey,
    WithProperty,
    WithText,
    filter_of,
    look,
    query_of,
)
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.declaring import gone
from rabbitlike.commands.faults import Fault, Refused
from rabbitlike.commands.getting import Raw, Truncate, tell
from rabbitlike.commands.names import QueueName
from rabbitlike.commands.output import columns

group = typer.Typer(help="List, retry, delete and purge dead-lettered messages of a queue.", no_args_is_help=True)

SHOWN: Final = columns(
    "id reason deaths retry_count=retries moved_at exchange routing_key message_id properties.headers=headers "
    "payload_bytes=size payload"
)

WithReason = Annotated[
    str | None,
    typer.Option("--reason", help="Only messages with this reason, such as rejected or expired.", metavar="REASON"),
]
Letters = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="IDs shown by `dlq list`.")]


@broker_command(group, "list")
def list_letters(
    call: Call,
    queue: QueueName,
    count: Annotated[int, typer.Option("--count", "-n", help="Maximum number of messages to show.", min=1)] = 100,
    reason: WithReason = None,
    header: WithHeader = None,
    prop: WithProperty = None,
    text: WithText = None,
    key: WithKey = None,
    exchange: FromExchange = None,
    raw: Raw = False,
    truncate: Truncate = None,
) -> None:
    """List dead-lettered messages of a queue, without changing them."""
    query = query_of(filter_of(header, prop, text, key, exchange))
    query |= {"reason": reason} if reason is not None else {}
    query |= {"truncate": truncate} if truncate is not None else {}
    letters = list(look(call.api, ("queues", call.vhost, queue), query, count, "dlq"))
    tell(call, letters, "no such dead letters" if query else "no dead letters", raw=raw, columns_shown=SHOWN)


@broker_command(group, "retry")
def retry(
    call: Call,
    queue: QueueName,
    letter: Letters = None,
    everything: Annotated[bool, typer.Option("--all", help="All messages.")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", help="Maximum number of messages.", min=1)] = None,
    reason: WithReason = None,
    header: WithHeader = None,
    prop: WithProperty = None,
    text: WithText = None,
    key: WithKey = None,
    exchange: FromExchange = None,
) -> None:
    """Put dead-lettered messages back into their queue, as new messages; a message stays if the queue is full."""
    wanted = filter_of(header, prop, text, key, exchange)
    wanted |= {"reason": reason} if reason is not None else {}
    if [bool(letter), bool(wanted), everything].count(True) != 1:
        raise Fault("which messages? Give their ids, a filter or --all")
    body: View = {"ids": letter} if letter else {"filter": wanted} if wanted else {"all": True}
    if count is not None:
        body["count"] = count
    answer = call.api.post("queues", call.vhost, queue, "dlq", "retry", body=body)
    stay = answer["matched"] - answer["retried"]
    call.output.done(
        f"{answer['retried']:,} messages put back into '{queue}'{call.in_vhost}"
        + (f"; {stay:,} do not exist, or the queue is full" if stay else ""),
        kind="dead letters",
        queue=queue,
        vhost=call.vhost,
        **answer,
        outcome="retried",
    )


@broker_command(group, "delete")
def delete_letter(
    call: Call, queue: QueueName, letter: Annotated[str, typer.Argument(metavar="ID", help="ID shown by `dlq list`.")]
) -> None:
    """Delete one dead-lettered message."""
    answer = call.api.ask("DELETE", ("queues", call.vhost, queue, "dlq", letter))
    if not answer.is_success:
        call.api.get("queues", call.vhost, queue)
        raise Refused(f"queue '{queue}' has no dead-lettered message '{letter}'")
    gone(call, "dead letter", letter, vhost=call.vhost)


@broker_command(group, "purge")
def purge(
    call: Call,
    queue: QueueName,
    reason: WithReason = None,
    header: WithHeader = None,
    prop: WithProperty = None,
    text: WithText = None,
    key: WithKey = None,
    exchange: FromExchange = None,
) -> None:
    """Delete all dead-lettered messages of a queue, or those that match a filter."""
    query = query_of(filter_of(header, prop, text, key, exchange))
    query |= {"reason": reason} if reason is not None else {}
    answer = call.api.request("DELETE", ("queues", call.vhost, queue, "dlq"), query=query)
    deleted = answer.json()["deleted"]
    call.output.done(
        f"{deleted:,} dead-lettered messages of '{queue}' deleted{call.in_vhost}",
        kind="dead letters",
        queue=queue,
        vhost=call.vhost,
        deleted=deleted,
        outcome="purged",
    )
