"""Results as tables on a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from rabbitlike.spark.jobs.durations import shown
from rabbitlike.spark.jobs.report.gather import Story

#: The most rows of a table; the rest is counted.
MOST = 20


#: Columns of a queue, in this order; on a narrow terminal the last ones are dropped first.
COUNTS = ("enqueued", "delivered", "acked", "redelivered", "dead")
TIMES = tuple(f"{word} {part}" for word in ("wait", "work") for part in ("p50", "p95", "p99"))
FIRST_TO_GO = (
    *("work p50", "work p99", "wait p50", "wait p99", "work p95", "wait p95"),
    *("delivered", "redelivered", "acked", "enqueued", "dead"),
)
#: Minimum width of a queue's name; longer names wrap.
NAME_WIDTH = 20
#: Padding and border of a column.
GAP = 3
#: Width of a table that goes to a file or another program.
UNLIMITED = 10_000


def show(story: Story, console: Console) -> None:
    """Print the tables that have rows."""
    width = console.width
    for table in _tables(story, width if console.is_terminal else UNLIMITED):
        if not console.is_terminal:
            options = console.options.update(width=UNLIMITED)
            console.width = Measurement.get(console, options, table).maximum
        console.print(table)
    console.width = width


def _tables(story: Story, width: int) -> Iterator[Table]:
    yield _queues(story, width)
    if story.findings:
        yield _findings(story)
    if story.poison:
        yield _poison(story)


def _table(*names: str, title: str) -> Table:
    return Table(*names, title=title, title_justify="left", title_style="bold", caption_justify="left", box=SIMPLE_HEAD)


def _add_names(table: Table, names: list[str]) -> None:
    longest = max(map(len, names), default=0)
    table.add_column("queue", overflow="fold", min_width=min(longest, NAME_WIDTH))


def _queues(story: Story, width: int) -> Table:
    """Return a table with the name of each queue and as many other columns as fit."""
    rows = [(queue.name, _cells(queue.totals)) for queue in story.queues[:MOST]]
    longest = max((len(name) for name, _ in rows), default=0)
    kept = list(COUNTS + TIMES)
    widths = {name: max(len(name), *(cells[name].cell_len for _, cells in rows), 0) for name in kept}
    going = iter(FIRST_TO_GO)
    while kept and min(longest, NAME_WIDTH) + sum(widths[name] + GAP for name in kept) + GAP > width:
        kept.remove(next(going))
    table = _table(title="Queues")
    table.add_column("queue", overflow="fold", min_width=min(longest, NAME_WIDTH, max(width - GAP, 1)))
    for name in kept:
        table.add_column(name, justify="right", no_wrap=True)
    for name, cells in rows:
        table.add_row(Text(name), *(cells[column] for column in kept))
    if len(story.queues) > MOST:
        table.caption = f"and {len(story.queues) - MOST:,} more"
    return table


def _cells(totals: Mapping[str, Any]) -> dict[str, Text]:
    cells = {name: Text(f"{totals[name]:,}") for name in ("enqueued", "delivered", "acked")}
    again, dead = totals["redelivery_rate"], totals["dead_lettered"]
    cells["redelivered"] = Text(f"{again:.1%}", style="yellow" if again > 0.05 else "")
    cells["dead"] = Text(f"{dead:,}", style="red" if dead else "")
    for name in TIMES:
        word, part = name.split()
        cells[name] = Text(shown(totals[f"{'proc' if word == 'work' else word}_{part}_us"]))
    return cells


def _findings(story: Story) -> Table:
    table = _table("", title="What stands out")
    _add_names(table, [finding.queue for finding in story.findings[:MOST]])
    table.add_column("what")
    for finding in story.findings[:MOST]:
        style = "bold red" if finding.severity == "critical" else "yellow"
        table.add_row(Text(finding.severity, style=style), Text(finding.queue), Text(finding.text))
    if len(story.findings) > MOST:
        table.caption = f"and {len(story.findings) - MOST:,} more"
    return table


def _poison(story: Story) -> Table:
    table = _table(title="Poison messages")
    _add_names(table, [each["name"] for each in story.poison[:MOST]])
    table.add_column("message", overflow="fold")
    table.add_column("returned", justify="right")
    table.add_column("what became of it")
    for each in story.poison[:MOST]:
        fate = each["fate"] + (f" ({each['reason']})" if each["reason"] else "")
        name = each["message_id"] or f"position {each['msg_seq']}"
        table.add_row(Text(each["name"]), Text(name), f"{each['delivery_count']}×", Text(fate))
    return table
