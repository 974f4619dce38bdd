"""`top`: a live view of rates, the busiest queues and connections.

It fetches one page of each list, sorted by the broker: ten thousand queues cost as much to read as ten.
"""

import contextlib
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rabbitlike.commands.api import Api, View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.faults import Refused
from rabbitlike.commands.listing import worth_showing
from rabbitlike.commands.output import columns, duration, fitting, make_table, rate, size
from rabbitlike.commands.status import KINDS, number

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

HISTORY: Final = 40
BARS: Final = " ▁▂▃▄▅▆▇█"
#: Sort orders of queues: name and field.
ORDERS: Final = {
    "messages": "messages",
    "ready": "messages_ready",
    "unacked": "messages_unacknowledged",
    "in": "message_stats.publish_details.rate",
    "out": "message_stats.deliver_get_details.rate",
    "memory": "memory",
}
QUEUES: Final = columns(
    "vhost name state messages messages_ready=ready messages_unacknowledged=unacked consumers "
    "message_stats.publish_details.rate=in message_stats.deliver_get_details.rate=out "
    "message_stats.ack_details.rate=acked memory"
)
CONNECTIONS: Final = columns("name user vhost state channels recv_oct_details.rate=received send_oct_details.rate=sent")
LINES: Final = {"published": "publish", "delivered": "deliver_get", "acked": "ack"}


class Board:
    """The data on display: fetches it and keeps recent rates for the graphs."""

    def __init__(self, call: Call, order: str, rows: int) -> None:
        self._call = call
        self.order = order
        self._rows = rows
        self._past: dict[str, deque[float]] = {name: deque(maxlen=HISTORY) for name in (*LINES, "queued")}

    def look(self) -> View:
        """Fetch all displayed data from the broker."""
        api = self._call.api
        vhost = self._call.asked_vhost
        overview = api.get("overview")
        queues = _page(api, ("queues",) if vhost is None else ("queues", vhost), ORDERS[self.order], QUEUES, self._rows)
        path = ("connections",) if vhost is None else ("vhosts", vhost, "connections")
        connections = _page(api, path, "recv_oct_details.rate", CONNECTIONS, max(1, self._rows // 2))
        for name, counter in LINES.items():
            self._past[name].append(number(overview, f"message_stats.{counter}_details.rate"))
        self._past["queued"].append(number(overview, "queue_totals.messages"))
        return {"overview": overview, "nodes": _nodes(api), "queues": queues, "connections": connections}

    def draw(self, seen: View) -> "RenderableType":
        from rich.console import Group

        queues, connections = seen["queues"], seen["connections"]
        parts: list[Any] = [self._heading(seen), "", self._rates()]
        width = self._call.output.console.width
        if queues:
            shown = fitting(queues, worth_showing(QUEUES, queues), width)
            parts += ["", make_table(queues, shown, title=f"Queues by {self.order}", width=width)]
        if connections:
            sized = _with_sizes(connections)
            shown = fitting(sized, worth_showing(CONNECTIONS, connections), width)
            parts += ["", make_table(sized, shown, title="Connections", width=width)]
        return Group(*parts)

    def write(self, seen: View) -> None:
        """Write the same data line by line, for output that is not a terminal."""
        output = self._call.output
        output.line(self._heading(seen).plain)
        for name, past in self._past.items():
            output.line(f"{name} {past[-1]:.1f}")
        output.table(seen["queues"], QUEUES, empty="", title=f"\nQueues by {self.order}")
        output.table(seen["connections"], CONNECTIONS, empty="", title="\nConnections")

    def _heading(self, seen: View) -> "Text":
        from rich.text import Text

        overview = seen["overview"]
        totals = overview.get("object_totals") or {}
        said = Text()
        product = overview.get("product_name", "RabbitMQ")
        said.append(f"{product} {overview.get('product_version', '')}", style="bold")
        said.append(f"  {self._call.api.address.url}", style="cyan")
        for node in seen["nodes"]:
            said.append(f"  up {duration(number(node, 'uptime') / 1000)}  memory {size(number(node, 'mem_used'))}")
            for alarm, words in (("mem_alarm", "low on memory"), ("disk_free_alarm", "low on disk")):
                if node.get(alarm):
                    said.append(f"  {words}", style="bold red")
        said.append("\n" + "  ".join(f"{totals.get(kind, 0):,} {kind}" for kind in KINDS), style="dim")
        return said

    def _rates(self) -> Any:
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="cyan")
        grid.add_column(justify="right", min_width=10)
        grid.add_column(style="green", no_wrap=True)
        for name, past in self._past.items():
            now = past[-1] if past else 0
            grid.add_row(name, f"{now:,.0f}" if name == "queued" else rate(now), graph(past))
        return grid


def graph(past: "deque[float]") -> str:
    """Draw the last values as bars; the highest value is a full bar."""
    highest = max(past, default=0)
    if not highest:
        return "▁" * len(past)
    return "".join(BARS[max(1, round(value / highest * (len(BARS) - 1)))] for value in past)


def _page(api: Api, path: tuple[str, ...], order: str, shown: list[Any], rows: int) -> list[View]:
    """Return the first rows of a list in descending order."""
    answer = api.get(
        *path,
        page=1,
        page_size=rows,
        sort=order,
        sort_reverse="true",
        columns=",".join(column.path for column in shown),
    )
    found: list[View] = answer["items"] if isinstance(answer, dict) else answer
    return found[:rows]


def _nodes(api: Api) -> list[View]:
    with contextlib.suppress(Refused):
        return api.get_list("nodes", columns="name,uptime,mem_used,mem_alarm,disk_free_alarm")
    return []


def _with_sizes(connections: list[View]) -> list[View]:
    """Format octets per second as sizes."""
    made = []
    for view in connections:
        sizes = {f"{name}_details": {"rate": f"{size(number(view, f'{name}_details.rate'))}/s"} for name in OCTETS}
        made.append({**view, **sizes})
    return made


OCTETS: Final = ("recv_oct", "send_oct")


def top(
    call: Call,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    every: Annotated[float, typer.Option("--every", help="Seconds between two updates.", min=0.2)] = 2.0,
    sort: Annotated[str, typer.Option("--sort", help=f"Queues by {', '.join(ORDERS)}.", metavar="FIELD")] = "messages",
    rows: Annotated[int, typer.Option("--rows", "-n", help="Queues to show.", min=1, max=500)] = 15,
) -> None:
    """Show rates, the busiest queues and connections, live. Press q to quit, s to sort by the next field."""
    if sort not in ORDERS:
        raise typer.BadParameter(f"'{sort}' is none of {', '.join(ORDERS)}", param_hint="--sort")
    board = Board(call, sort, rows)
    if once or call.output.as_json or call.output.is_plain:
        seen = board.look()
        if call.output.as_json:
            call.output.json(seen)
        elif call.output.is_plain:
            board.write(seen)
        else:
            call.output.console.print(board.draw(seen))
        return
    with contextlib.suppress(KeyboardInterrupt):
        _watch(call, board, every)


def _watch(call: Call, board: Board, every_s: float) -> None:
    from rich.live import Live

    with _keys() as pressed, Live(console=call.output.console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(board.draw(board.look()), refresh=True)
            for key in pressed(every_s):
                if key == "q":
                    return
                if key == "s":
                    orders = list(ORDERS)
                    board.order = orders[(orders.index(board.order) + 1) % len(orders)]


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits up to the given seconds for pressed keys."""
    try:
        import termios
        import tty

        before = termios.tcgetattr(sys.stdin)
    except (ImportError, OSError, ValueError):  # no keyboard: Ctrl-C ends the command

        def wait(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield wait
        return

    def pressed(seconds: float) -> str:
        # Bypass the buffer of sys.stdin: select does not see what it holds.
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return os.read(sys.stdin.fileno(), 64).decode(errors="replace") if ready else ""

    tty.setcbreak(sys.stdin)
    try:
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def add_commands(root: typer.Typer, panel: str) -> None:
    broker_command(root, "top", panel=panel)(top)
