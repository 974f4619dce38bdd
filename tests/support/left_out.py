"""Tests skipped because a tool is missing: a table at the end of a run, and the command that installs the tools.

A run that is one of several (`make test`) adds the skips of the runs before it, from the file that LEFT_OUT names.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

#: Prefix of the skip reason of tests that require a missing tool or build.
NEEDS: Final = "needs "
COMMAND: Final = "make test-tools"
FILE: Final = "LEFT_OUT"


def tool_of(reason: str) -> str | None:
    """Return the missing tool in a few words; None if the test was skipped for another reason.

    >>> tool_of("Skipped: needs Ruby with bunny (Debian's ruby-bunny)")
    'Ruby with bunny'
    """
    said = reason.removeprefix("Skipped: ")
    if not said.startswith(NEEDS):
        return None
    return re.split(r": | \(|, ", said.removeprefix(NEEDS), maxsplit=1)[0].strip()


def table(counts: Counter[str]) -> Iterable[str]:
    """Return the lines, beginning with the tool that most tests need."""
    for tool, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
        yield f"{count:>7,}  {tool}"
    yield f"{counts.total():>7,}  tests were left out. `{COMMAND}` installs what they need (Debian, Ubuntu)."


def _added(counts: Counter[str]) -> Counter[str]:
    """Add the counts of earlier runs."""
    name = os.environ.get(FILE)
    if not name:
        return counts
    file = Path(name)
    if file.exists():
        counts = counts + Counter(json.loads(file.read_text()))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(counts))
    return counts


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if hasattr(terminalreporter.config, "workerinput"):
        return  # of several processes, only the one with all reports prints
    counts: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        if isinstance(report.longrepr, tuple | list) and (tool := tool_of(str(report.longrepr[2]))):
            counts[tool] += 1
    counts = _added(counts)
    if counts:
        terminalreporter.section("left out for want of a tool")
        for line in table(counts):
            terminalreporter.write_line(line)
