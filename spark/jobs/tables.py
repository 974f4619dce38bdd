"""Results on a terminal."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rabbitlike.spark.jobs.durations import shown
from rabbitlike.spark.jobs.report.gather import Story

#: Rows of a table that are shown; the rest is counted.
MOST = 20


#: Narrower terminals are shown fewer percentiles.
WIDE = 115


def show(story: Story, console: Console) -> None:
    """The tables that have something to say."""
    parts = ("p50", "p95", "p99") if console.width >= WIDE else ("p95",)
    for table in _tables(story, parts):
        console.print(table)


def _tables(story: Story, parts: Sequence[str]) -> Iterator[Table]:
    yield _queues(story, parts)
    if story.findings:
        yield _findings(story)
    if story.poison:
        yield _poison(story)


def _table(*names: str, title: str) -> Table:
    return Table(*names, title=title, title_justify="left", title_style="bold", caption_justify="left", box=SIMPLE_HEAD)


def _queues(story: Story, parts: Sequence[str]) -> Table:
    table = _table("queue", title="Queues")
    times = [f"{word} {part}" for word in ("wait", "work") for part in parts]
    for name in ("enqueued", "delivered", "acked", "redelivered", "dead", *times):
        table.add_column(name, justify="right", no_wrap=True)
    for queue in story.queues[:MOST]:
        totals = queue.totals
        again = Text(f"{totals['redelivery_rate']:.1%}", style="yellow" if totals["redelivery_rate"] > 0.05 else "")
        dead = Text(f"{totals['dead_lettered']:,}", style="red" if totals["dead_lettered"] else "")
        times = [shown(totals[f"{kind}_{part}_us"]) for kind in ("wait", "proc") for part in parts]
        table.add_row(
            Text(queue.name), *(f"{totals[name]:,}" for name in ("enqueued", "delivered", "acked")), again, dead, *times
        )
    if len(story.queues) > MOST:
        table.caption = f"and {len(story.queues) - MOST:,} more"
    return table


def _findings(story: Story) -> Table:
    table = _table("", "queue", "what", title="What stands out")
    for finding in story.findings[:MOST]:
        style = "bold red" if finding.severity == "critical" else "yellow"
        table.add_row(Text(finding.severity, style=style), Text(finding.queue), Text(finding.text))
    if len(story.findings) > MOST:
        table.caption = f"and {len(story.findings) - MOST:,} more"
    return table


def _poison(story: Story) -> Table:
    table = _table("queue", "message", title="Poison messages")
    table.add_column("returned", justify="right")
    table.add_column("what became of it")
    for each in story.poison[:MOST]:
        fate = each["fate"] + (f" ({each['reason']})" if each["reason"] else "")
        name = each["message_id"] or f"position {each['msg_seq']}"
        table.add_row(Text(each["name"]), Text(name), f"{each['delivery_count']}×", Text(fate))
    return table
