"""`peek`, `move` and `delete message`: browse, move and delete single messages of a queue."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from rabbitlike.commands.api import Api, View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.declaring import delete, gone
from rabbitlike.commands.faults import Fault, Refused
from rabbitlike.commands.getting import Raw, Truncate, tell
from rabbitlike.commands.names import EXCHANGE_OPTION, QUEUE_OPTION, QueueName
from rabbitlike.commands.output import columns
from rabbitlike.commands.progress import counting

SHOWN: Final = columns(
    "position published_at exchange routing_key redelivered properties.delivery_mode=mode "
    "properties.priority=priority properties.content_type=content_type properties.headers=headers "
    "payload_bytes=size payload"
)
#: The most messages that one answer holds and that one request moves.
MOST_SEEN: Final = 500
MOST_MOVED: Final = 1_000

WithHeader = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", help="Only messages with this header; can be repeated.", metavar="KEY=VALUE"),
]
WithProperty = Annotated[
    list[str] | None,
    typer.Option("--property", "-P", help="Only messages with this property, such as type=order.", metavar="KEY=VALUE"),
]
WithText = Annotated[
    str | None, typer.Option("--text", help="Only messages with this text in the body.", metavar="TEXT")
]
WithKey = Annotated[
    str | None, typer.Option("--routing-key", "-k", help="Only messages with this routing key.", metavar="KEY")
]
FromExchange = Annotated[
    str | None, typer.Option("--exchange", "-x", help="Only messages published to this exchange.", metavar="EXCHANGE")
]


def look(
    api: Api, path: tuple[str, ...], query: dict[str, str | int], most: int, what: str = "messages"
) -> Iterator[View]:
    """Return up to `most` messages; the broker returns only part of the queue per request."""
    asked = dict(query)
    left = most
    while left > 0:
        answer = api.get(*path, what, limit=min(left, MOST_SEEN), **asked)
        yield from answer["items"]
        left -= len(answer["items"])
        if answer["next"] is None:
            return
        asked.pop("offset", None)
        asked["after"] = answer["next"]


def _texts(each: list[str] | None, option: str) -> dict[str, str]:
    """Parse `key=value` texts; the broker compares values as texts."""
    found = {}
    for text in each or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise Fault(f"{option} '{text}': write it as KEY=VALUE")
        found[key] = value
    return found


def filter_of(
    header: list[str] | None, prop: list[str] | None, text: str | None, key: str | None, exchange: str | None
) -> View:
    """Return the filter for messages as `messages/move` takes it."""
    given = {
        "headers": _texts(header, "--header"),
        "properties": _texts(prop, "--property"),
        "text": text,
        "routing_key": key,
        "exchange": exchange,
    }
    return {name: value for name, value in given.items() if value is not None and value != {}}


def query_of(wanted: View) -> dict[str, str | int]:
    """Return the same filter as query parameters."""
    query: dict[str, str | int] = {}
    for name, value in wanted.items():
        if isinstance(value, dict):
            query |= {f"{_ONE_OF[name]}.{key}": each for key, each in value.items()}
        else:
            query[name] = value
    return query


_ONE_OF: Final = {"headers": "header", "properties": "property"}


def peek(
    call: Call,
    queue: QueueName,
    count: Annotated[int, typer.Option("--count", "-n", help="Maximum number of messages to show.", min=1)] = 10,
    offset: Annotated[int, typer.Option("--offset", help="Number of messages to skip.", min=0)] = 0,
    header: WithHeader = None,
    prop: WithProperty = None,
    text: WithText = None,
    key: WithKey = None,
    exchange: FromExchange = None,
    raw: Raw = False,
    truncate: Truncate = None,
) -> None:
    """Browse messages without changing them, anywhere in the queue."""
    query = query_of(filter_of(header, prop, text, key, exchange))
    query |= {"offset": offset} if offset else {}
    query |= {"truncate": truncate} if truncate is not None else {}
    messages = list(look(call.api, ("queues", call.vhost, queue), query, count))
    tell(call, messages, "no such messages" if query else "no messages", raw=raw, columns_shown=SHOWN)


@broker_command(delete, "message")
def delete_message(
    call: Call,
    queue: QueueName,
    position: Annotated[int, typer.Argument(metavar="POSITION", help="Position shown by `peek`.", min=0)],
) -> None:
    """Delete one message, by its position; it is not dead-lettered."""
    answer = call.api.ask("DELETE", ("queues", call.vhost, queue, "messages", str(position)))
    if not answer.is_success:
        call.api.get("queues", call.vhost, queue)
        raise Refused(f"no message at position {position} of queue '{queue}' is ready")
    gone(call, "message", f"{queue}/{position}", vhost=call.vhost)


def move(
    call: Call,
    queue: QueueName,
    to: Annotated[
        str | None, typer.Option("--to", help="Queue to move to.", autocompletion=QUEUE_OPTION, metavar="QUEUE")
    ] = None,
    to_exchange: Annotated[
        str | None,
        typer.Option(
            "--to-exchange", help="Exchange to publish to instead.", autocompletion=EXCHANGE_OPTION, metavar="EXCHANGE"
        ),
    ] = None,
    to_key: Annotated[
        str | None, typer.Option("--to-key", help="Routing key; default: each message keeps its own.", metavar="KEY")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", help="Maximum number of messages.", min=1)] = None,
    everything: Annotated[bool, typer.Option("--all", help="All messages.")] = False,
    position: Annotated[
        list[int] | None, typer.Option("--position", help="Position shown by `peek`; can be repeated.", min=0)
    ] = None,
    header: WithHeader = None,
    prop: WithProperty = None,
    text: WithText = None,
    key: WithKey = None,
    exchange: FromExchange = None,
) -> None:
    """Move messages to another queue or to an exchange. A message that no queue would take stays where it is."""
    wanted = filter_of(header, prop, text, key, exchange)
    if (to is None) == (to_exchange is None):
        raise Fault("where to? Give --to a queue, or --to-exchange")
    if not (count or everything or position or wanted):
        raise Fault("which messages? Give --count, --all, --position or a filter")
    destination: View = {"queue": to} if to is not None else {"exchange": to_exchange}
    if to_key is not None:
        destination["routing_key"] = to_key
    call.api.get(*(("queues", call.vhost, to) if to is not None else ("exchanges", call.vhost, str(to_exchange))))
    path = ("queues", call.vhost, queue)
    if position:
        moved = call.api.post(*path, "messages", "move", body={"positions": position, "destination": destination})[
            "moved"
        ]
    else:
        moved = _move_many(call, path, wanted, destination, count)
    target = to if to is not None else f"exchange {to_exchange}"
    call.output.done(
        f"{moved:,} messages moved from '{queue}' to '{target}'{call.in_vhost}",
        kind="messages",
        queue=queue,
        vhost=call.vhost,
        destination=destination,
        moved=moved,
        outcome="moved",
    )


def _move_many(call: Call, path: tuple[str, ...], wanted: View, destination: View, count: int | None) -> int:
    """Send requests until `count` messages are moved or the position that was last at the start is reached."""
    ready = call.api.get(*path).get("messages_ready", 0)
    left = ready if count is None else count
    moved = scanned = 0
    after: Any = None
    with counting("moving", ready if count is None else min(count, ready)) as advance:
        while left > 0 and scanned < ready:
            body: View = {"filter": wanted, "count": min(left, MOST_MOVED), "destination": destination}
            if after is not None:
                body["after"] = after
            answer = call.api.post(*path, "messages", "move", body=body)
            advance(answer["moved"])
            moved += answer["moved"]
            left -= answer["matched"]
            scanned += answer["scanned"]
            after = answer["next"]
            if after is None:
                break
    return moved


def add_commands(root: typer.Typer, panel: str) -> None:
    broker_command(root, "peek", panel=panel)(peek)
    broker_command(root, "move", panel=panel)(move)
