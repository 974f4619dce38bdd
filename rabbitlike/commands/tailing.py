"""`tail`: shows messages as they arrive in a queue or at an exchange, without consuming them.

A queue is polled for new positions, so messages consumed between two polls are missed. For an exchange, the command
binds, reads and deletes a temporary queue; it is short, and expires if the command is killed.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated, Final

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.browsing import look
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.faults import Fault
from rabbitlike.commands.getting import Raw, write_body
from rabbitlike.commands.names import ExchangeName, QueueName
from rabbitlike.commands.output import moment, one_line

group = typer.Typer(help="Follow messages that enter a queue or an exchange.", no_args_is_help=True)

LOT: Final = 500
#: Expiry of the temporary queue after the command ends, and its maximum length.
EXPIRES_MS: Final = 60_000
MOST_WAITING: Final = 10_000
MOST_HELD: Final = 10_000

Every = Annotated[float, typer.Option("--every", help="Seconds between two updates.", min=0.05)]
Count = Annotated[int | None, typer.Option("--count", "-n", help="Exit after this many messages.", min=1)]


@broker_command(group, "queue")
def tail_queue(call: Call, name: QueueName, every: Every = 0.5, count: Count = None, raw: Raw = False) -> None:
    """Show messages as they enter a queue, without taking them. Messages that are consumed at once may be missed."""
    path = ("queues", call.vhost, name)
    last = int(call.api.get(*path, "messages", limit=1)["last"])
    call.output.remark(f"waiting for messages in queue '{name}'{call.in_vhost}; Ctrl-C ends it")

    def fetch() -> Iterator[View]:
        nonlocal last
        found = look(call.api, path, {"newer_than": last}, MOST_WAITING)
        for message in sorted(found, key=lambda each: int(each["position"])):  # in order of arrival, not by priority
            yield message
            last = max(last, int(message["position"]))

    _follow(call, fetch, every, count, raw)


@broker_command(group, "exchange")
def tail_exchange(
    call: Call,
    name: ExchangeName,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--routing-key", "-k", help="Only this routing key; can be repeated. Default: all.", metavar="KEY"
        ),
    ] = None,
    every: Every = 0.5,
    count: Count = None,
    raw: Raw = False,
) -> None:
    """Show messages published to an exchange, through a temporary queue bound to it."""
    if not name:
        raise Fault("the default exchange has no bindings of ours: tail the queue instead")
    keys = key or _all_keys(call, name)
    queue = f"rabbitlike.tail.{uuid.uuid4().hex[:12]}"
    # One level, so that messages appear in the order of publishing, whatever their priorities.
    arguments = {"x-expires": EXPIRES_MS, "x-max-length": MOST_HELD, "x-overflow": "drop-head", "x-max-priority": 0}
    path = ("queues", call.vhost, queue)
    call.api.put(*path, body={"durable": False, "auto_delete": False, "arguments": arguments})
    try:
        for each in keys:
            body: View = {"routing_key": each, "arguments": {}}
            call.api.post("bindings", call.vhost, "e", name, "q", queue, body=body)
        call.output.remark(f"waiting for messages at exchange '{name}'{call.in_vhost}; Ctrl-C ends it")
        taking: View = {"count": LOT, "ackmode": "ack_requeue_false", "encoding": "auto"}
        _follow(call, lambda: iter(call.api.post(*path, "get", body=taking)), every, count, raw)
    finally:
        call.api.delete(*path)


def _all_keys(call: Call, name: str) -> list[str]:
    """Return keys that match everything. A direct exchange has no such key, so return all keys bound now."""
    kind = call.api.get("exchanges", call.vhost, name)["type"]
    if kind != "direct":
        return ["#"]
    bound = call.api.get_list("exchanges", call.vhost, name, "bindings", "source")
    keys = sorted({str(view["routing_key"]) for view in bound})
    if not keys:
        raise Fault(f"nothing is bound to the direct exchange '{name}': say which keys with --routing-key")
    return keys


def _follow(call: Call, fetch: Callable[[], Iterator[View]], every_s: float, count: int | None, raw: bool) -> None:
    """Poll and show messages until `count` are shown or the user interrupts."""
    shown = 0
    try:
        while True:
            for message in fetch():
                _show(call, message, raw)
                shown += 1
                if shown == count:
                    return
            time.sleep(every_s)
    except KeyboardInterrupt:
        return


def _show(call: Call, message: View, raw: bool) -> None:
    if raw:
        write_body(message)
    elif call.output.as_json:
        call.output.json_line(message)
    else:
        published = message.get("published_at")
        at = moment(published / 1000 if published else time.time())
        source = f"{message['exchange'] or '(default)'} {message['routing_key']}"
        call.output.live(at, source, one_line(str(message["payload"])))
