"""The pipeline's tables: the name of the queue is always there, however narrow the terminal is, and in a pipe."""

import io
import re
from datetime import UTC, datetime

import pytest
from rich.console import Console

from rabbitlike.spark.jobs.report.gather import Queue, Story
from rabbitlike.spark.jobs.tables import COUNTS, TIMES, show

NAME = "orders.europe.incoming.retries"
TOTALS = {
    "enqueued": 1_234_567,
    "delivered": 1_234_567,
    "acked": 1_234_567,
    "redelivery_rate": 0.123,
    "dead_lettered": 12_345,
    **{f"{kind}_{part}_us": 123_456 for kind in ("wait", "proc") for part in ("p50", "p95", "p99")},
}


def story() -> Story:
    return Story(
        job="j",
        place="",
        window_us=60_000_000,
        windows=[],
        queues=[Queue("/", NAME, TOTALS)],
        exchanges=[],
        findings=[],
        starving=[],
        anomalies=[],
        poison=[],
        consumers=[],
        events=0,
        published=0,
        made_at=datetime.now(UTC),
    )


def shown(width: int, *, terminal: bool) -> list[str]:
    file = io.StringIO()
    show(story(), Console(file=file, width=width, force_terminal=terminal))
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).splitlines()


@pytest.mark.parametrize("width", [20, 24, 40, 60, 80, 100, 160])
def test_on_a_terminal(width: int) -> None:
    lines = shown(width, terminal=True)
    assert max(map(len, lines)) <= width
    header = next(line for line in lines if "queue" in line)
    first = next(at for at, line in enumerate(lines) if line.strip().startswith("orders"))
    names = [line.split()[0] for line in lines[first:] if line.strip()]
    assert "".join(names).startswith(NAME), "nothing of it is lost"
    if width >= 160:
        assert all(column in header for column in COUNTS + TIMES)
    if width >= 40:
        assert "dead" in header


def test_in_a_pipe() -> None:
    """As wide as it is: whoever reads it has no edge."""
    lines = shown(80, terminal=False)
    (row,) = [line for line in lines if NAME in line]
    assert row.split()[1:4] == ["1,234,567"] * 3
    header = next(line for line in lines if "queue" in line)
    assert all(column in header for column in COUNTS + TIMES)
