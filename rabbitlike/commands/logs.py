"""`logs`: shows the last lines of the broker's log, or follows it."""

import json
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.faults import Unreachable
from rabbitlike.commands.output import moment, one_line


def logs(
    call: Call,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new lines too, until Ctrl-C.")] = False,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", help="Maximum number of lines; with --follow, exit after this many.", min=1),
    ] = None,
) -> None:
    """Show the broker's last log lines; with --follow, new lines too."""
    if not follow:
        lines = call.api.request("GET", ("logs",)).text.splitlines()[-(count or 0) :]
        if call.output.as_json:
            call.output.json(lines)
        else:
            call.output.write("".join(f"{line}\n" for line in lines))
        return
    try:
        _follow(call, count)
    except KeyboardInterrupt:
        return


def _follow(call: Call, count: int | None) -> None:
    shown = 0
    with call.api.stream("GET", ("livelog",), endless=True) as answer:
        call.output.remark(f"following the log of {call.api.address.url}; Ctrl-C ends it")
        for event, line in events(answer.iter_lines()):
            if call.output.as_json:
                call.output.json_line(line)
            elif event == "lost":
                call.output.remark(f"{line.get('lost')} lines came too fast and are lost")
            else:
                at = moment(float(line["timestamp"]) / 1000)
                call.output.live(at, str(line["severity"]).upper(), one_line(str(line["message"])))
            shown += 1
            if shown == count:
                return
    raise Unreachable("the broker has ended the stream")


def events(lines: Iterable[str]) -> Iterator[tuple[str, View]]:
    """Parse server-sent events: their names and their JSON data."""
    event, data = "message", ""
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield event, json.loads(data)
            event, data = "message", ""
        elif name == "event":
            event = value
        elif name == "data":
            data += value


def add_commands(root: typer.Typer, panel: str) -> None:
    broker_command(root, "logs", panel=panel)(logs)
