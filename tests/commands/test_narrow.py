"""Tables on narrow terminals: what a row is known by is always there, and nothing of it is lost."""

import re

import pytest

from rabbitlike.commands.output import columns, fitting
from tests.commands.conftest import Run

NAME = "orders.europe.incoming.retries"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def shown(out: str) -> str:
    return ANSI.sub("", out)


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 120])
def test_the_name_of_a_queue(run: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    arguments = ["-a", "x-max-length=1000000", "-a", "x-message-ttl=60000000"]
    run("declare", "queue", NAME, *arguments).assert_done()
    monkeypatch.setenv("COLUMNS", str(width))
    ended = run("list", "queues", terminal=True).assert_done()
    lines = shown(ended.out).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    # A long name goes on in the next line, within its column.
    first = next(at for at, line in enumerate(lines) if line.startswith("orders"))
    name_width = lines[0].index("type") if "type" in lines[0] else width
    assert "".join(line[:name_width].strip() for line in lines[first:]) == NAME
    if width == 40:
        assert "no room for " in ended.err
        assert "consumers" in ended.err
    if width == 120:
        assert ended.err == ""
    run("delete", "queue", NAME).assert_done()


def test_a_pipe_has_everything(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("declare", "queue", NAME).assert_done()
    monkeypatch.setenv("COLUMNS", "20")
    header, row = run("list", "queues").assert_done().out.splitlines()
    assert len(header.split()) == len(row.split()) == 11
    assert NAME in row.split()
    run("delete", "queue", NAME).assert_done()


def test_columns_go_from_the_right_and_never_the_name() -> None:
    rows = [{"name": "a" * 30, "user": "u", "state": "running", "messages": 1_000_000}]
    made = columns("name state messages user")
    for width, kept in ((80, "name state messages user"), (30, "name state user"), (25, "name user"), (5, "name user")):
        assert [column.path for column in fitting(rows, made, width)] == kept.split()


def test_an_exchange_without_a_name_has_its_column(run: Run) -> None:
    out = shown(run("list", "exchanges", "--columns", "name,type", terminal=True).assert_done().out)
    assert "(default)" in out
