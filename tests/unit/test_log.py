"""The lines of the log."""

import json
import logging
import re
import sys

from rabbitlike.log import JsonFormat, LineFormat


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
