"""`get`: takes messages from a queue, and requeues them unless an option says otherwise. `peek` only browses."""

import base64
import enum
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.listing import worth_showing
from rabbitlike.commands.names import QueueName
from rabbitlike.commands.output import Column, columns, value_at


class AckMode(enum.StrEnum):
    """What the broker does with the messages."""

    ACK_REQUEUE_TRUE = "ack_requeue_true"
    ACK_REQUEUE_FALSE = "ack_requeue_false"
    REJECT_REQUEUE_TRUE = "reject_requeue_true"
    REJECT_REQUEUE_FALSE = "reject_requeue_false"


Raw = Annotated[bool, typer.Option("--raw", help="Print only the bodies, one per line.")]
Truncate = Annotated[
    int | None, typer.Option("--truncate", help="Maximum number of bytes of a body to show.", min=1, metavar="BYTES")
]

#: Headers about dead-lettering: several lines in a table.
DEATHS: Final = ("x-death", "x-first-death-", "x-last-death-")

SHOWN: Final = columns(
    "exchange routing_key redelivered properties.delivery_mode=mode properties.priority=priority "
    "properties.content_type=content_type properties.headers=headers payload_bytes=size payload message_count=left"
)


def get(
    call: Call,
    queue: QueueName,
    count: Annotated[int, typer.Option("--count", "-n", help="Maximum number of messages to get.", min=1)] = 1,
    ack_mode: Annotated[
        AckMode,
        typer.Option("--ack-mode", help="Requeue the messages, remove them (ack), or dead-letter them (reject)."),
    ] = AckMode.ACK_REQUEUE_TRUE,
    ack: Annotated[bool, typer.Option("--ack", help="Short for --ack-mode ack_requeue_false.")] = False,
    raw: Raw = False,
    truncate: Truncate = None,
) -> None:
    """Get messages from a queue. Without --ack they are requeued, marked as redelivered."""
    mode = AckMode.ACK_REQUEUE_FALSE if ack else ack_mode
    body: View = {"count": count, "ackmode": mode.value, "encoding": "auto"}
    if truncate is not None:
        body["truncate"] = truncate
    messages = call.api.post("queues", call.vhost, queue, "get", body=body)
    tell(call, messages, "no messages" if count > 1 else "no message", raw=raw)


def tell(call: Call, messages: list[View], empty: str, *, raw: bool, columns_shown: Sequence[Column] = SHOWN) -> None:
    """Print messages as a table, as JSON, or only their bodies."""
    if raw:
        for message in messages:
            write_body(message)
    elif call.output.as_json:
        call.output.json(messages)
    else:
        rows = [readable(message) for message in messages]
        shown = list(columns_shown) if call.output.is_plain else worth_showing(columns_shown, rows)
        call.output.table(rows, shown, empty=empty)


def readable(message: View) -> View:
    """Return a message for a table: escape a binary body, drop the dead-letter headers (JSON output has them)."""
    row = dict(message)
    if row.get("payload_encoding") == "base64":
        row["payload"] = repr(base64.b64decode(str(row["payload"])))[2:-1]
    headers = value_at(row, "properties.headers")
    if isinstance(headers, dict) and "x-death" in headers:
        kept = {key: value for key, value in headers.items() if not key.startswith(DEATHS)}
        row["properties"] = {**row["properties"], "headers": kept}
    return row


def write_body(message: View) -> None:
    """Write the octets of a body and a line break."""
    payload = str(message["payload"])
    octets = base64.b64decode(payload) if message.get("payload_encoding") == "base64" else payload.encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(octets + b"\n")
    sys.stdout.buffer.flush()


def add_commands(root: typer.Typer, panel: str) -> None:
    broker_command(root, "get", panel=panel)(get)
