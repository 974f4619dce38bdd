"""`publish`: publishes one message or many."""

import base64
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from rabbitlike.commands.api import DEFAULT_EXCHANGE, Api, View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.faults import REFUSED, Fault, Refused
from rabbitlike.commands.names import EXCHANGE_OPTION, QUEUE_OPTION
from rabbitlike.commands.progress import Advance, counting
from rabbitlike.commands.values import pairs, read_file

Header = Annotated[
    list[str] | None, typer.Option("--header", "-H", help="A header; can be repeated.", metavar="KEY=VALUE")
]
Property = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-P",
        help="A property, such as correlation_id=7, expiration=5000, type=order.",
        metavar="KEY=VALUE",
    ),
]


def publish(
    call: Call,
    body: Annotated[
        str | None, typer.Argument(metavar="[BODY]", help="Default: standard input.", show_default=False)
    ] = None,
    exchange: Annotated[
        str, typer.Option("--exchange", "-x", help="Exchange to publish to.", autocompletion=EXCHANGE_OPTION)
    ] = "",
    key: Annotated[str, typer.Option("--routing-key", "-k", help="Routing key.", metavar="KEY")] = "",
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue", "-q", help="Queue to publish to, through the default exchange.", autocompletion=QUEUE_OPTION
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", help="Body from a file; - is standard input.", metavar="PATH")
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line is a message.")] = False,
    count: Annotated[int, typer.Option("--count", "-n", help="Number of times to publish it.", min=1)] = 1,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Maximum number of messages per second.", min=0.001, metavar="NUMBER")
    ] = None,
    header: Header = None,
    prop: Property = None,
    content_type: Annotated[str | None, typer.Option("--content-type", metavar="TEXT")] = None,
    persistent: Annotated[bool, typer.Option("--persistent", help="Publish persistent messages.")] = False,
) -> int:
    """Publish a message: from the command line, a file or standard input, once or many times.

    Ends with 1 when a message reached no queue.
    """
    if queue is not None and (exchange or key):
        raise Fault("--queue cannot be combined with --exchange or --routing-key")
    template: View = {
        "routing_key": queue if queue is not None else key,
        "properties": _properties(header, prop, content_type, persistent),
    }
    path = ("exchanges", call.vhost, exchange or DEFAULT_EXCHANGE, "publish")
    payloads, total = _payloads(body, file, lines, count)
    tally = Tally(call.api, path)
    with counting("publishing", total) as advance:
        tally.on_answer = advance
        if total == 1:
            tally.count(call.api.post(*path, body=_message(template, next(iter(payloads)))))
        else:
            from rabbitlike.commands.pipeline import post_all

            bodies = (json.dumps(_message(template, payload)).encode() for payload in payloads)
            post_all(call.api.address, path, bodies, tally.answered, rate=rate)
    call.output.done(tally.told(), messages=tally.published, unrouted=tally.unrouted, vhost=call.vhost)
    return REFUSED if tally.unrouted else 0


class Tally:
    """Counts accepted messages, and those of them that reached no queue."""

    def __init__(self, api: Api, path: tuple[str, ...]) -> None:
        self.published = 0
        self.unrouted = 0
        self.on_answer: Advance = lambda _: None
        self._api = api
        self._path = path

    def answered(self, status: int, body: bytes) -> None:
        """Count one answer; a refusal raises a Fault."""
        if status != 200:
            import httpx

            refusal = self._api.refusal(httpx.Response(status, content=body), "POST", self._path)
            after = f", after {self.published:,} messages" if self.published else ""
            raise Refused(f"{refusal}{after}", status)
        self.count(json.loads(body))

    def count(self, answer: Any) -> None:
        self.published += 1
        self.unrouted += not answer["routed"]
        self.on_answer(1)

    def told(self) -> str:
        if self.published == 1:
            return "the message reached no queue: nothing is bound for this key" if self.unrouted else "published"
        nowhere = f"; {self.unrouted:,} of them reached no queue" if self.unrouted else ""
        return f"{self.published:,} messages published{nowhere}"


def _properties(
    header: list[str] | None, prop: list[str] | None, content_type: str | None, persistent: bool
) -> dict[str, Any]:
    properties = pairs(prop, "--property")
    for name in TEXTS & properties.keys():
        if not isinstance(properties[name], str):
            properties[name] = json.dumps(properties[name])
    if content_type is not None:
        properties["content_type"] = content_type
    if persistent:
        properties["delivery_mode"] = 2
    if header:
        properties["headers"] = {**properties.get("headers", {}), **pairs(header, "--header")}
    return properties


#: Properties that stay text even if they look like a number.
TEXTS = frozenset(
    "content_type content_encoding correlation_id reply_to expiration message_id type user_id app_id".split()
)


def _payloads(body: str | None, file: str | None, lines: bool, count: int) -> tuple[Iterable[bytes], int | None]:
    """Return the bodies and their number, or None if it is unknown in advance."""
    if body is not None and file is not None:
        raise Fault("give either a body or --file, not both")
    if body is None and file is None and sys.stdin.isatty():
        raise Fault("nothing to publish: give a body or --file, or pipe a body to standard input")
    if body is not None:
        whole = body.encode(errors="surrogateescape")
    elif lines and file in (None, "-") and count == 1:
        return (line.rstrip(b"\r\n") for line in sys.stdin.buffer), None
    else:
        whole = read_file(file or "-")
    parts = whole.splitlines() if lines else [whole]
    return _repeated(parts, count), len(parts) * count


def _repeated(parts: list[bytes], count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield from parts


def _message(template: View, payload: bytes) -> View:
    try:
        return {**template, "payload": payload.decode(), "payload_encoding": "string"}
    except UnicodeDecodeError:
        return {**template, "payload": base64.b64encode(payload).decode(), "payload_encoding": "base64"}


def add_commands(root: typer.Typer, panel: str) -> None:
    broker_command(root, "publish", panel=panel)(publish)
