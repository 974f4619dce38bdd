"""Options: names in any case, values that are checked, typos that are named."""

import re

import pytest

from rabbitlike.spark import address, options
from rabbitlike.spark.address import Address, parse
from rabbitlike.spark.options import OptionError
from rabbitlike.spark.schema import ALIASES, READ_COLUMNS, WRITE_COLUMNS
from tests.support.broker_process import ROOT


def test_defaults_are_safe() -> None:
    parsed = options.parse({})
    assert (parsed.guarantee, parsed.mandatory, parsed.delivery_mode) == ("at-least-once", True, 2)
    assert (parsed.ack_mode, parsed.destructive, parsed.browse) == ("spool", False, False)
    assert parsed.address == Address()


def test_case_does_not_matter() -> None:
    assert options.parse({"MAXinFLIGHT": "5", "routingkey": "k"}).max_in_flight == 5


@pytest.mark.parametrize(
    ("given", "meant"), [("garantee", "guarantee"), ("routing_key", "routingKey"), ("max_inflight", "maxInFlight")]
)
def test_a_typo_is_told_the_nearest_name(given: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"no option '{given}': did you mean '{meant}'"):
        options.parse({given: "1"})


def test_what_is_like_nothing_is_refused_all_the_same() -> None:
    with pytest.raises(OptionError, match=r"no option 'zzzzzz'$"):
        options.parse({"zzzzzz": "1"})


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("guarantee", "twice", "at-least-once, effectively-once or exactly-once"),
        ("mandatory", "yes", "true or false"),
        ("maxInFlight", "0", "a number from 1 on"),
        ("deliveryMode", "3", "a number from 1 to 2"),
        ("maxAtomicBytes", "much", "a size"),
        ("tls", "perhaps", "true or false"),
        ("port", "0", "a number from 1 to 65535"),
        ("uri", "http://localhost", "begins with amqp://"),
        ("uri", "nonsense", "'nonsense' is no broker's URI: it begins with amqp:// or amqps://, as amqp://guest"),
        ("uri", "localhost:5672", "'localhost:5672' is no broker's URI"),
        ("startingOffsets", "latest", "must be earliest: a queue has no offsets.* purge the queue first"),
        ("startingOffsets", '{"q": 5}', "must be earliest"),
        ("endingOffsets", "earliest", "must be latest"),
        ("includeHeaders", "yes", "map, true or false"),
        ("uri", "amqp://localhost:port", "port"),
        ("uri", "amqps://localhost?verfy=x", "verfy"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, value: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        options.parse({name: value})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("subscribe", "option queue"),
        ("kafka.bootstrap.servers", "option uri"),
        ("topic", "option exchange"),
        ("path", "option queue"),
    ],
)
def test_options_of_other_sources_are_told_what_to_write_instead(name: str, instead: str) -> None:
    with pytest.raises(OptionError, match=f"amqp has no option '{name}': .*{instead}"):
        options.parse({name: "x"})


def test_options_of_spark_itself_are_ignored() -> None:
    given = {"checkpointLocation": "/c", "queryName": "totals", "asyncProgressTrackingEnabled": "true"}
    parsed = options.parse({key.lower(): value for key, value in given.items()})
    assert parsed == options.Options(Address(), query_name="totals")


def test_kafkas_words_for_options() -> None:
    assert options.parse({"minPartitions": "4"}).num_partitions == 4
    assert options.parse({"maxOffsetsPerTrigger": "7"}).max_rows_per_trigger == 7
    with pytest.raises(OptionError, match="options minPartitions and numPartitions are one"):
        options.parse({"minPartitions": "4", "numPartitions": "5"})


def test_sizes() -> None:
    assert options.parse({"maxAtomicBytes": "64m"}).max_atomic_bytes == 64 << 20
    assert options.parse({"maxBytesPerTrigger": "10kb"}).max_bytes_per_trigger == 10240


def test_address_by_parts_goes_before_the_uri() -> None:
    given = {"uri": "amqp://u:p@h:1/v", "host": "other", "username": "me", "password": "s", "virtualHost": "w"}
    assert options.parse(given).address == Address("other", 1, "w", "me", "s")


def test_the_environment_says_where_the_broker_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(options.URI_VARIABLE, "amqp://u:secret@h:1/v")
    assert options.parse({}).address.host == "h"
    assert options.parse({"uri": "amqp://other"}).address.host == "other"


def test_uris() -> None:
    assert parse("amqp://") == Address()
    assert parse("amqp://a%40b:c%2Fd@[::1]:7/%2f") == Address("::1", 7, "/", "a@b", "c/d")
    secure = parse("amqps://h/?verify=verify_none&cacertfile=/ca&heartbeat=5")
    assert secure.port == 5671
    assert secure.tls is not None
    assert (secure.tls.verify, secure.tls.cacertfile) == ("verify_none", "/ca")
    assert options.parse({"uri": "amqp://h", "tls": "true"}).address.port == 5671


def test_a_password_is_not_shown() -> None:
    parsed = options.parse({"uri": "amqp://user:hunter2@h/v"})
    assert "hunter2" not in f"{parsed!r} {parsed.address} {parsed.address!r}"
    with pytest.raises(OptionError) as refusal:
        options.parse({"uri": "user:hunter2@h"})
    assert "hunter2" not in str(refusal.value)


# The page about it

KAFKAS = ("maxOffsetsPerTrigger", "minPartitions")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of docs/spark.md."""
    _, _, rest = (ROOT / "docs" / "spark.md").read_text().partition(f"\n## {heading}\n")
    assert rest
    lines = rest.partition("\n## ")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]


def test_every_option_is_documented_with_its_default() -> None:
    documented: dict[str, str] = {}
    for names, defaults, *_ in rows("Options"):
        shown = defaults.split(", ")
        for at, name in enumerate(re.findall(r"`(\w+)`", names)):
            documented[name] = shown[min(at, len(shown) - 1)]
    of_address = {name: documented.pop(name) for name in options.ADDRESS_NAMES}
    assert of_address["uri"] == f"`{address.DEFAULT_URI}`"
    known = {name: shown_default(name) for name in options.NAMES if name not in KAFKAS}
    assert documented == known


def shown_default(name: str) -> str:
    default = options.default(name)
    if default is None:
        return "none"
    if isinstance(default, bool):
        return f"`{default}`".lower()
    if name == "maxAtomicBytes":
        return "`64m`"
    return f"`{default}`" if default != "" else '`""`'


@pytest.mark.parametrize(
    ("heading", "columns"), [("Writing", {*WRITE_COLUMNS, *ALIASES}), ("Reading", {*READ_COLUMNS})]
)
def test_every_column_is_documented(heading: str, columns: set[str]) -> None:
    assert {name for cells in rows(heading) for name in re.findall(r"`(\w+)`", cells[0])} == columns
