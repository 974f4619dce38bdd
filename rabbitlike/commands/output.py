"""Output of commands: Rich tables on a terminal, plain aligned columns elsewhere, JSON on request.

Output that does not go to a terminal has each row on one line of any length, for grep, awk and sort: counts as the
broker returned them, rates with one decimal, times as ISO 8601 in UTC. JSON has everything unchanged. Only requested
data goes to standard output; remarks go to standard error.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rabbitlike.commands.api import View

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

NOTHING: Final = "-"
#: Minimum width of a text column: a narrower table shows fewer columns.
LEAST_WIDTH: Final = 8
#: Spaces between two columns.
GAP: Final = 2
#: Fields that identify a row: always shown, and given space first.
KEYS: Final = {
    "check",
    "destination",
    "exchange",
    "id",
    "name",
    "of",
    "position",
    "queue",
    "queue.name",
    "source",
    "user",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A field, for example `message_stats.publish_details.rate`, and its heading."""

    path: str
    title: str

    @classmethod
    def of(cls, path: str) -> "Column":
        return cls(path, path)


def columns(said: str) -> list[Column]:
    """Parse columns from a text: `name messages_ready=ready` has two, the second with its own title."""
    made = []
    for word in said.split():
        path, _, title = word.partition("=")
        made.append(Column(path, title or path))
    return made


def value_at(view: View, path: str) -> Any:
    """Return the value at a dotted path, or None. It also finds a field whose own name contains dots."""
    if path in view:
        return view[path]
    head, _, rest = path.partition(".")
    inner = view.get(head)
    return value_at(inner, rest) if rest and isinstance(inner, dict) else None


class Output:
    """The destination of one command's output."""

    def __init__(self, *, as_json: bool = False, console: "Console | None" = None) -> None:
        self.as_json = as_json
        self._console = console

    @property
    def console(self) -> "Console":
        if self._console is None:
            from rich.console import Console

            self._console = Console(highlight=False, soft_wrap=False)
        return self._console

    @property
    def is_plain(self) -> bool:
        return not self.console.is_terminal

    def write(self, text: str) -> None:
        sys.stdout.write(text)

    def line(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")

    def json(self, value: object) -> None:
        """Write indented JSON for people; `json_line` writes one line per value in a stream."""
        self.line(json.dumps(value, indent=2, ensure_ascii=False))

    def json_line(self, value: object) -> None:
        self.line(json.dumps(value, ensure_ascii=False))
        sys.stdout.flush()

    def live(self, at: str, what: str, text: str) -> None:
        """Write one line of live output and flush it."""
        if self.is_plain:
            self.line(f"{at}  {what}  {text}")
        else:
            from rich.text import Text

            styles = {"WARNING": "yellow", "ERROR": "bold red", "CRITICAL": "bold red"}
            said = Text.assemble((at, "dim"), "  ", (what, styles.get(what, "cyan")), "  ", text)
            self.console.print(said, soft_wrap=True)
        sys.stdout.flush()

    def remark(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")

    def done(self, text: str, **told: object) -> None:
        """Report a change, as a sentence or as a JSON object."""
        if self.as_json:
            self.json(told)
        else:
            self.line(text)

    def table(self, rows: Sequence[View], shown: Sequence[Column], *, empty: str, title: str = "") -> None:
        if self.is_plain:
            if title:
                self.line(title)
            self._plain_table(rows, shown)
        elif not rows:
            self.remark(empty)
        else:
            kept = fitting(rows, shown, self.console.width)
            self.console.print(make_table(rows, kept, title=title, width=self.console.width))
            if len(kept) < len(shown):
                left = ", ".join(column.title for column in shown if column not in kept)
                self.remark(f"no room for {left}: --json has them, and so has a wider terminal")

    def record(self, view: View, *, title: str = "") -> None:
        """Write one object, one line per field."""
        fields = list(flat(view))
        if self.is_plain:
            width = max((len(path) for path, _ in fields), default=0)
            for path, value in fields:
                self.line(f"{path:<{width}}  {plain(value, path)}")
            return
        from rich.table import Table

        grid = Table(box=None, show_header=False, title=title or None, title_justify="left", title_style="bold")
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column(overflow="fold")
        for path, value in fields:
            grid.add_row(path, pretty(path, value))
        self.console.print(grid)

    def _plain_table(self, rows: Sequence[View], shown: Sequence[Column]) -> None:
        cells = [[plain(value_at(row, column.path), column.path) for column in shown] for row in rows]
        lines = [[column.title for column in shown], *cells]
        widths = [max(len(line[at]) for line in lines) for at in range(len(shown))]
        for line in lines:
            self.line("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def flat(view: View, prefix: str = "") -> Iterable[tuple[str, object]]:
    """Flatten nested fields into dotted names; free-form tables stay whole."""
    for name, value in view.items():
        if isinstance(value, dict) and value and name not in FREE_FORM:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


FREE_FORM: Final = {"arguments", "headers", "client_properties", "definition", "effective_policy_definition", "value"}


def fitting(rows: Sequence[View], shown: Sequence[Column], width: int) -> list[Column]:
    """Choose the columns that fit: first those that identify a row, then the others from the left."""
    kept = list(shown)
    while sum(_least_width(rows, column, width) + GAP for column in kept) - GAP > width:
        last = next((column for column in reversed(kept[1:]) if column.path not in KEYS), None)
        if last is None:
            break
        kept.remove(last)
    return kept


def _least_width(rows: Sequence[View], column: Column, width: int) -> int:
    """Return the width a column needs: all digits of a number, half the table for a name, a minimum for others."""
    values = [value_at(row, column.path) for row in rows]
    longest = max((len(pretty(column.path, value).plain) for value in values), default=0)
    heading = max(len(word) for word in column.title.replace("_", " ").split())
    if any(_is_number(value) for value in values):
        return max(longest, heading)
    most = max(width // 2, LEAST_WIDTH) if column.path in KEYS else LEAST_WIDTH
    return max(min(longest, most), heading)


def make_table(rows: Iterable[View], shown: Sequence[Column], *, title: str = "", width: int = 0) -> Any:
    """Return a Rich table with the columns that fit into `width`; numbers are right-aligned."""
    from rich import box
    from rich.table import Table

    made = Table(
        box=box.SIMPLE_HEAD,
        title=title or None,
        title_justify="left",
        title_style="bold",
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    rows = list(rows)
    for at, column in enumerate(shown):
        values = [value_at(row, column.path) for row in rows]
        is_number = any(_is_number(value) for value in values)
        made.add_column(
            column.title.replace("_", " "),
            justify="right" if is_number else "left",
            no_wrap=is_number,
            min_width=_least_width(rows, column, width),
            overflow="fold",
            header_style="bold cyan",
            style="bold" if at == 0 else "",
        )
    for row in rows:
        made.add_row(*(pretty(column.path, value_at(row, column.path)) for column in shown))
    return made


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Values


def plain(value: object, path: str = "") -> str:
    """Format a value on one line so that it sorts and compares."""
    if value is None or value in ("", [], {}):
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    name = path.rpartition(".")[2]
    if isinstance(value, int | float) and value and name in _TIMES:
        return instant(value)
    if isinstance(value, float):
        return f"{value:.1f}" if _is_rate(path, name) else f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return one_line(str(value))


def one_line(text: str) -> str:
    """Escape line breaks, tabs and terminal control characters."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def pretty(path: str, value: object) -> "Text":
    """Format a value for people."""
    from rich.text import Text

    name = path.rpartition(".")[2]
    if value == "" and path in ("name", "source", "exchange"):
        return Text("(default)", style="dim")
    if value is None or value in ("", [], {}):
        return Text("")
    if isinstance(value, bool):
        return Text("yes", style="green") if value else Text("no", style="dim")
    if isinstance(value, int | float):
        return Text(_number(path, name, value), style="dim" if not value else "")
    if name in ("state", "status"):
        return Text(str(value), style=_STATES.get(str(value), "yellow"))
    if isinstance(value, dict):
        return Text(", ".join(f"{key}={_short(inner)}" for key, inner in value.items()))
    if isinstance(value, list):
        return Text(", ".join(_short(each) for each in value))
    return Text(one_line(str(value)))


_STATES: Final = {"running": "green", "ok": "green", "enabled": "green", "failed": "bold red", "down": "bold red"}


def _short(value: object) -> str:
    return one_line(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(path: str, name: str, value: float) -> str:
    if _is_rate(path, name):
        return rate(value)
    if "bytes" in name or name in _SIZES:
        return size(value)
    if name == "uptime":
        return duration(value / 1000)
    if name in _TIMES and value:
        return moment(_seconds(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


_SIZES: Final = {"memory", "mem_used", "mem_limit", "disk_free", "disk_free_limit", "recv_oct", "send_oct", "octets"}


_TIMES: Final = {
    *("connected_at", "delivered_at", "expires_at", "head_message_timestamp", "moved_at", "published_at", "timestamp"),
}


def _is_rate(path: str, name: str) -> bool:
    return name == "rate" or path.endswith("_rate")


def _seconds(value: float) -> float:
    """Convert to seconds: the API returns some times in milliseconds, and those set by clients in seconds."""
    return value / 1000 if value > 1e11 else value


def instant(value: float) -> str:
    """Format a time for programs, as RabbitMQ writes times that are text."""
    try:
        return datetime.fromtimestamp(_seconds(value), UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(value)


def rate(value: float) -> str:
    return "0/s" if value == 0 else f"{value:,.1f}/s" if value < 100 else f"{value:,.0f}/s"


def size(octets: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if abs(octets) < 1024:
            return f"{octets:.0f} {unit}" if unit == "B" else f"{octets:.1f} {unit}"
        octets /= 1024
    return f"{octets:.1f} GiB"


def duration(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # a client may set any number as a timestamp
        return f"{seconds:.0f}"
