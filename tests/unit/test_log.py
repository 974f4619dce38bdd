"""The lines of the log."""

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rabbitlike.log import LINES_TOGETHER, MOST_LINES, JsonFormat, LineFormat, Output


def record(text: str, *args: object, created: float = 1_700_000_000.5, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("rabbitlike", logging.WARNING, "", 0, text, args, **{"exc_info": None, **more})
    made.created, made.msecs = created, created % 1 * 1000
    return made


def test_a_line() -> None:
    said = LineFormat().format(record("connection %s: %d channels", "a", 3))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.500 \[WARNING\] connection a: 3 channels", said)


def test_the_stamp_is_the_records_own() -> None:
    """The text of a second is kept, and must not outlive it, forwards or backwards."""
    lines = LineFormat()
    fresh = [LineFormat().format(record("x", created=at)) for at in (1e9, 1e9 + 0.25, 1e9 + 61, 1e9)]
    assert [lines.format(record("x", created=at)) for at in (1e9, 1e9 + 0.25, 1e9 + 61, 1e9)] == fresh
    assert len(set(fresh)) == 3


def test_a_traceback_stands_below() -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        said = LineFormat().format(record("it broke", exc_info=sys.exc_info()))
    first, *_, last = said.splitlines()
    assert first.endswith("[WARNING] it broke")
    assert last == "RuntimeError: boom"


def test_a_line_of_json() -> None:
    said = JsonFormat().format(record('connection "%s"\nand é', "a", created=1_700_000_000.25))
    assert "\n" not in said
    assert json.loads(said) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "rabbitlike",
        "msg": 'connection "a"\nand é',
    }


def test_a_traceback_in_json() -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        said = JsonFormat().format(record("it broke", exc_info=sys.exc_info()))
    assert "\n" not in said
    assert json.loads(said)["msg"] == "it broke"
    assert json.loads(said)["exception"].endswith("RuntimeError: boom")


@pytest.fixture
def output() -> Iterator[Output]:
    output = Output()
    output.setFormatter(LineFormat())
    yield output
    output.close()


def fill(pipe: int) -> None:
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe, b"." * 4096)
    os.set_blocking(pipe, True)


def test_a_log_that_nobody_reads_stops_nobody(output: Output, tmp_path: Path) -> None:
    """Lines wait for a pipe that is full; too many are left out, and counted where the log goes on."""
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    fill(writer)
    output.reopen(pipe)
    total = 2 * MOST_LINES
    for number in range(total):
        output.handle(record("line %d", number))
    read = b""
    os.set_blocking(reader, True)
    while read.count(b"\n") < MOST_LINES:
        read += os.read(reader, 65_536)
    output.handle(record("the last"))
    while b"the last\n" not in read or not read.endswith(b"\n"):
        read += os.read(reader, 65_536)
    said = read.decode()
    numbers = [int(number) for number in re.findall(r"line (\d+)\n", said)]
    left_out = [int(count) for count in re.findall(r"(\d+) lines before this one were left out", said)]
    assert numbers == sorted(set(numbers))
    assert MOST_LINES <= len(numbers) <= MOST_LINES + 2 * LINES_TOGETHER
    assert sum(left_out) + len(numbers) == total
    output.reopen(None)
    os.close(writer)
    os.close(reader)


def test_everything_is_written_when_it_is_flushed(output: Output, tmp_path: Path) -> None:
    output.reopen(tmp_path / "log")
    for number in range(1000):
        output.handle(record("line %d", number))
    output.flush()
    assert len((tmp_path / "log").read_text().splitlines()) == 1000
    output.reopen(None)
