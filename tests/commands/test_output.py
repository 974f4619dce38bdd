"""Values as people and as programs read them."""

from collections import deque

import pytest

from rabbitlike.commands import output
from rabbitlike.commands.getting import readable
from rabbitlike.commands.listing import in_order
from rabbitlike.commands.logs import events
from rabbitlike.commands.output import pretty, value_at
from rabbitlike.commands.top import graph


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        ({}, "-"),
        (0, "0"),
        (1234567, "1234567"),
        (False, "false"),
        (["a", "b"], "a,b"),
        ({"x": 1}, '{"x": 1}'),
        ("two\nlines\t\x1b[31m", "two\\nlines\\t\\x1b[31m"),
        ("Žluťoučký", "Žluťoučký"),
    ],
)
def test_plain_values(value: object, said: str) -> None:
    assert output.plain(value) == said


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("message_stats.publish_details.rate", 2.602081665332266, "2.6"),
        ("message_stats.publish_details.rate", 0.0, "0.0"),
        ("x_stats.enqueue_rate", 12345.678, "12345.7"),
        ("x_stats.avg_wait_time_ms", 208917.04999, "208917.05"),
        ("consumer_utilisation", 1.0, "1"),
        ("published_at", 1794836883102, "2026-11-16T13:48:03.102+00:00"),
        ("properties.timestamp", 1794836883, "2026-11-16T13:48:03.000+00:00"),
        ("properties.timestamp", 2**63, str(2**63)),
        ("published_at", None, "-"),
        ("messages", 1794836883102, "1794836883102"),
    ],
)
def test_plain_values_of_fields(path: str, value: object, said: str) -> None:
    assert output.plain(value, path) == said


def test_messages_in_tables() -> None:
    letter = {"x-death": [{"queue": "q"}], "x-first-death-queue": "q", "x-last-death-reason": "expired", "mine": 1}
    message = {"payload": "AAFiaW5hcnn/", "payload_encoding": "base64", "properties": {"headers": letter}}
    row = readable(message)
    assert row["payload"] == "\\x00\\x01binary\\xff"
    assert row["properties"] == {"headers": {"mine": 1}}
    assert message["properties"] == {"headers": letter}, "JSON has it all"
    plain_one = {"payload": "text", "payload_encoding": "string", "properties": []}
    assert readable(plain_one) == plain_one


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("messages", 1234567, "1,234,567"),
        ("memory", 3_500_000, "3.3 MiB"),
        ("message_bytes", 10, "10 B"),
        ("message_stats.ack_details.rate", 12.34, "12.3/s"),
        ("message_stats.ack_details.rate", 12345.6, "12,346/s"),
        ("uptime", 7_200_000, "2.0 h"),
        ("durable", True, "yes"),
        ("arguments", {"x-max-length": 10, "x-overflow": "drop-head"}, "x-max-length=10, x-overflow=drop-head"),
        ("name", "", "(default)"),
        ("policy", "", ""),
        ("name", "\x1b[2J", "\\x1b[2J"),
        ("properties.timestamp", 2**63, "9223372036854776"),
    ],
)
def test_pretty_values(path: str, value: object, said: str) -> None:
    assert pretty(path, value).plain == said


def test_values_at_paths() -> None:
    view = {"a": {"b": {"c": 1}}, "x.y": 2, "list": [1]}
    assert [value_at(view, path) for path in ("a.b.c", "x.y", "a.x", "a.b.c.d", "list.x")] == [1, 2, None, None, None]


def test_order() -> None:
    views = [{"n": 2, "s": "b"}, {"n": None, "s": "a"}, {"n": 10, "s": "b"}, {"s": "c"}]
    assert [view["s"] for view in in_order(views, ["n"])] == ["a", "c", "b", "b"], "what has none comes first"
    assert [view.get("n") for view in in_order(views, ["s", "-n"])] == [None, 10, 2, None]


def test_small_graphs() -> None:
    assert graph(deque()) == ""
    assert graph(deque([0, 0])) == "▁▁"
    assert graph(deque([0, 4, 8])) == "▁▄█"


def test_server_sent_events() -> None:
    lines = [": hello", "", "id: 1", "event: info", 'data: {"a":', "data: 1}", "", "data: {}", "", 'data: {"half": 1}']
    assert list(events(lines)) == [("info", {"a": 1}), ("message", {})]
