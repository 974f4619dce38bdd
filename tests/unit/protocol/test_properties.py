"""Message properties: read from their octets, passed on untouched, changed field by field."""

import datetime
import struct
import typing

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pamqp import commands

from rabbitlike.protocol import tables
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import EMPTY, FieldValue, Properties, parse_expiration
from rabbitlike.protocol.tables import Table, Timestamp
from tests.unit.protocol.wire_values import (
    QUIET,
    damaged,
    table_bodies,
    texts,
    unless_refused,
    unsigned,
    whole_tables,
)

#: spec: the order on the wire, from the highest flag bit down.
ORDER = (
    "content_type content_encoding headers delivery_mode priority correlation_id reply_to expiration message_id"
    " timestamp type user_id app_id cluster_id"
).split()
SHORTSTRS = [name for name in ORDER if name not in ("headers", "delivery_mode", "priority", "timestamp")]

EVERY_FIELD = (
    b"\xff\xfc"
    b"\x02ct\x02ce"
    b"\x00\x00\x00\x04\x01hb\x05"
    b"\x02\x07"
    b"\x02ci\x02rt\x0260\x02mi"
    b"\x00\x00\x00\x00\x00\x00\x00\x09"
    b"\x02ty\x02ui\x02ai\x02cl"
)


def octets_of(name: str) -> st.SearchStrategy[bytes]:
    if name == "headers":
        return whole_tables
    if name in ("delivery_mode", "priority"):
        return st.binary(min_size=1, max_size=1)
    if name == "timestamp":
        return st.binary(min_size=8, max_size=8)
    return st.binary(max_size=20).map(lambda octets: bytes((len(octets),)) + octets)


@st.composite
def fields_on_the_wire(draw: st.DrawFn) -> dict[str, bytes]:
    return {name: draw(octets_of(name)) for name in ORDER if draw(st.booleans())}


def joined(fields: dict[str, bytes]) -> bytes:
    flags = sum(0x8000 >> ORDER.index(name) for name in fields)
    return struct.pack(">H", flags) + b"".join(fields[name] for name in ORDER if name in fields)


blocks = fields_on_the_wire().map(joined)


def test_every_field_in_its_place() -> None:
    """#103"""
    every = Properties(EVERY_FIELD)
    assert [getattr(every, name) for name in ORDER] == [
        "ct",
        "ce",
        {"h": 5},
        2,
        7,
        "ci",
        "rt",
        "60",
        "mi",
        9,
        "ty",
        "ui",
        "ai",
        "cl",
    ]
    assert every.raw == EVERY_FIELD
    assert every.persistent
    assert every.has_headers
    assert every.expiration_ms == 60
    assert every.headers_raw == b"\x00\x00\x00\x04\x01hb\x05"
    assert isinstance(every.timestamp, Timestamp)


@pytest.mark.parametrize(("place", "name"), list(enumerate(ORDER)))
def test_each_flag_bit_stands_for_its_field(place: int, name: str) -> None:
    """#103"""
    octets = {"headers": b"\0\0\0\0", "delivery_mode": b"\x01", "priority": b"\x01", "timestamp": bytes(7) + b"\x01"}
    only = Properties(struct.pack(">H", 0x8000 >> place) + octets.get(name, b"\x011"))
    assert [field for field in ORDER if getattr(only, field) not in (None, -1)] == [name]


def test_nothing_set() -> None:
    assert EMPTY.raw == b"\x00\x00"
    assert [getattr(EMPTY, name) for name in ORDER] == [None] * 4 + [-1] + [None] * 9
    assert not EMPTY.persistent
    assert not EMPTY.has_headers
    assert EMPTY.headers_raw == b""
    assert EMPTY.expiration_ms == -1
    assert repr(EMPTY) == "Properties()"


@pytest.mark.parametrize(("mode", "persistent"), [(0, False), (1, False), (2, True), (3, False), (255, False)])
def test_only_delivery_mode_2_is_persistent(mode: int, persistent: bool) -> None:
    assert Properties(b"\x10\x00" + bytes((mode,))).persistent is persistent


def test_every_truncation_and_any_tail_is_refused() -> None:
    """#103"""
    for raw in [EVERY_FIELD[:end] for end in range(len(EVERY_FIELD))] + [EVERY_FIELD + b"\x00", b"\x00\x00\x00"]:
        with pytest.raises(AmqpError, match="cannot decode content header") as raised:
            Properties(raw)
        assert raised.value.code == 501


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x01",  # another flag word announced, none there
        b"\x00\x01\x00",
        b"\x00\x01\x00\x01",
        b"\x00\x01\x80\x00\x00",  # a field beyond cluster-id
        b"\x00\x02",
        b"\x00\x03\x00\x00",
        b"\x20\x00\xff\xff\xff\xff",  # headers larger than the block
        b"\x20\x00\x00\x00\x00",
        b"\x20\x00\x00\x00\x00\x03\x01k?",  # a type nobody knows
        b"\x20\x00\x00\x00\x00\x02\x05k",
        b"\x20\x00\x00\x00\x00\x07\x01kS\xff\xff\xff\xff",
        b"\x20\x00\x00\x00\x00\x07\x01kl\x00\x00\x00\x00",
        b"\x00\x40\x00\x00\x00\x00",
    ],
)
def test_malformed_blocks(raw: bytes) -> None:
    """#103 #144"""
    with pytest.raises(AmqpError) as raised:
        Properties(raw)
    assert raised.value.code == 501


def test_empty_flag_words_may_follow() -> None:
    """#103 Bit 0 announces another word of flags; basic defines none there."""
    continued = Properties(b"\x10\x01\x00\x01\x00\x00\x02")
    assert continued.persistent
    assert continued.delivery_mode == 2
    assert continued.replace(priority=1).raw == b"\x18\x00\x02\x01"


def test_mentions_looks_only_into_the_headers() -> None:
    some = Properties.build(content_type="BCC", headers={"CC": ["a"]})
    assert some.mentions(b"CC")
    assert not some.mentions(b"BCC")
    assert not Properties.build(content_type="CC").mentions(b"CC")


def test_headers_are_the_callers_to_change() -> None:
    some = Properties.build(headers={"BCC": ["a"], "n": {"m": 1}})
    headers = some.headers
    assert headers is not None
    del headers["BCC"]
    assert some.headers == {"BCC": ["a"], "n": {"m": 1}}
    assert some.replace(headers=headers).headers == {"n": {"m": 1}}


def test_replace_leaves_all_else_alone() -> None:
    every = Properties(EVERY_FIELD)
    assert every.replace().raw == EVERY_FIELD
    assert every.replace(expiration=None).raw == b"\xfe\xfc" + EVERY_FIELD[2:].replace(b"\x0260", b"")
    assert every.replace(reply_to="amq.x").raw == EVERY_FIELD.replace(b"\x02rt", b"\x05amq.x")
    assert every.replace(**dict.fromkeys(ORDER, None)) == EMPTY
    assert EMPTY.replace(type="").raw == b"\x00\x20\x00"
    assert EMPTY.replace(headers={}).raw == b"\x20\x00\x00\x00\x00\x00"


def test_replaced_headers_keep_their_wire_types() -> None:
    headers = Properties(EVERY_FIELD).headers
    assert headers is not None
    headers.put("x-delivery-count", 3, "l")
    assert Properties(EVERY_FIELD).replace(headers=headers).headers_raw == (
        b"\x00\x00\x00\x1e\x01hb\x05\x10x-delivery-countl\x00\x00\x00\x00\x00\x00\x00\x03"
    )


def test_build_checks_its_fields() -> None:
    wrong: list[tuple[str, FieldValue]] = [
        ("priority", 256),
        ("priority", -1),
        ("timestamp", 1 << 64),
        ("type", "é" * 128),
        ("type", 1),
        ("headers", "text"),
        ("headers", 1),
        ("delivery_mode", "2"),
        ("priority", {}),
        ("colour", "red"),
    ]
    for name, value in wrong:
        with pytest.raises((TypeError, ValueError), match=name):
            Properties.build(**{name: value})


def test_equal_octets_are_equal_properties() -> None:
    assert Properties(EVERY_FIELD) == Properties(EVERY_FIELD)
    assert len({Properties(EVERY_FIELD), Properties(EVERY_FIELD), EMPTY}) == 2
    assert Properties(b"\x00\x00") != b"\x00\x00"
    assert repr(Properties(b"\x18\x00\x02\x05")) == "Properties(delivery_mode=2, priority=5)"


@pytest.mark.parametrize(("text", "milliseconds"), [("0", 0), ("60000", 60000), ("+5", 5), ("007", 7), ("-0", 0)])
def test_expiration_is_a_decimal_string(text: str, milliseconds: int) -> None:
    """#101"""
    assert parse_expiration(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("abc", "no_integer"),
        ("", "no_integer"),
        ("-", "no_integer"),
        (" 5", "no_integer"),
        ("٣", "no_integer"),
        ("60ms", '{leftover_string,"ms"}'),
        ("1.5", '{leftover_string,".5"}'),
        ("1_000", '{leftover_string,"_000"}'),
        ("-1", "{value_negative,-1}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_bad_expirations_are_refused_in_rabbitmqs_words(text: str, reason: str) -> None:
    """#101"""
    with pytest.raises(AmqpError) as raised:
        _ = Properties.build(expiration=text).expiration_ms
    assert raised.value.code == 406
    assert raised.value.text == f"invalid expiration '{text}': {reason}"


def test_user_id_is_read_from_its_place() -> None:
    """#102 The session compares it with the login; absent and empty are different things."""
    assert Properties.build(user_id="x", app_id="y").user_id == "x"
    assert Properties.build(user_id="").user_id == ""
    assert Properties.build(app_id="y").user_id is None


@QUIET
@given(fields_on_the_wire())
def test_fields_read_as_they_were_written(fields: dict[str, bytes]) -> None:
    """#103"""
    read = Properties(joined(fields))
    for name in ORDER:
        value = getattr(read, name)
        if name not in fields:
            assert value == (-1 if name == "priority" else None)
        elif name == "headers":
            assert tables.encode(value) == fields[name] == read.headers_raw
        elif name in SHORTSTRS:
            assert value.encode("utf-8", "surrogateescape") == fields[name][1:]
        else:
            assert value == int.from_bytes(fields[name], "big")


@QUIET
@given(blocks)
def test_reading_and_writing_back_every_field_is_identical(raw: bytes) -> None:
    """#103 #104"""
    read = Properties(raw)
    assert read.replace().raw == raw
    values: dict[str, FieldValue] = {name: getattr(read, name) for name in ORDER}
    present = {name: value for name, value in values.items() if value not in (None, -1)}
    assert Properties.build(**present).raw == raw


@QUIET
@given(fields_on_the_wire(), fields_on_the_wire(), st.sets(st.sampled_from(ORDER)))
def test_replace_changes_just_what_it_is_told(old: dict[str, bytes], new: dict[str, bytes], gone: set[str]) -> None:
    """#104"""
    other = Properties(joined(new))
    changes: dict[str, FieldValue] = {name: getattr(other, name) for name in new} | dict.fromkeys(gone, None)
    expected = {name: octets for name, octets in (old | new).items() if name not in gone}
    assert Properties(joined(old)).replace(**changes).raw == joined(expected)


@QUIET
@given(st.binary(max_size=40) | damaged(blocks))
@example(b"")
@example(b"\xff\xff\xff\xff")
def test_any_octets_give_properties_or_501(raw: bytes) -> None:
    """#103"""
    read = unless_refused(501, lambda: Properties(raw))
    if read is not None:
        assert read.raw == raw
        assert [getattr(read, name) for name in ORDER]  # what was accepted can be read
        assert repr(read)
        assert Properties(read.replace().raw).headers_raw == read.headers_raw


def with_headers(body: bytes) -> Properties:
    return Properties(b"\x20\x00" + struct.pack(">I", len(body)) + body)


def assert_judged_alike(body: bytes) -> None:
    """Properties accept a headers table if, and only if, it can be decoded."""
    decoded = unless_refused(501, lambda: tables.decode_body(body))
    accepted = unless_refused(501, lambda: with_headers(body))
    assert (accepted is None) == (decoded is None)


@pytest.mark.parametrize("size", range(10))
def test_the_quick_look_knows_the_same_types(size: int) -> None:
    """#144 Every type letter before a value of any size."""
    for kind in range(256):
        assert_judged_alike(b"\x01k" + bytes((kind,)) + bytes(size))


@QUIET
@given(st.binary(max_size=60) | table_bodies | damaged(table_bodies))
@example(b"\x00F\x00\x00\x00\x06\x00A\x00\x00\x00\x00")
def test_the_quick_look_at_a_table_agrees_with_decoding_it(body: bytes) -> None:
    """#144"""
    assert_judged_alike(body)


@QUIET
@given(st.lists(table_bodies, max_size=3).map(b"".join), st.binary(max_size=12))
@example(b"\x01kV\x01kt\x01\x02kkV", b"k")
@example(b"\x01aF\x00\x00\x00\x04\x01kt\x01", b"k")
def test_a_header_alone_is_what_it_is_among_all(body: bytes, other: bytes) -> None:
    """#144 Also of tables in which a key comes twice, where the last one counts, and with tables within."""
    properties = with_headers(body)
    decoded = tables.decode_body(body)
    for key in (other, *(name.encode("utf-8", "surrogateescape") for name in decoded)):
        name = key.decode("utf-8", "surrogateescape")
        assert repr(properties.header(key)) == repr(decoded.get(name))
        assert (properties.header_at(key) > 0) == (name in decoded)
        if name in decoded:
            assert chr(properties.raw[properties.header_at(key)]) == decoded.kinds[name]


def test_no_header_without_headers() -> None:
    assert Properties.build(message_id="x-delay").header_at(b"x-delay") == 0
    assert Properties.build(message_id="x-delay").header(b"x-delay") is None


@pytest.mark.parametrize("depth", [tables.MAX_DEPTH - 1, tables.MAX_DEPTH, tables.MAX_DEPTH + 1, 5000])
def test_the_quick_look_bounds_nesting_too(depth: int) -> None:
    """#144"""
    body = b""
    for _ in range(depth - 1):
        body = b"\x00F" + struct.pack(">I", len(body)) + body
    assert (unless_refused(501, lambda: with_headers(body)) is not None) == (depth <= tables.MAX_DEPTH)
    assert_judged_alike(body)


def in_order(headers: dict[str, str | bool]) -> dict[str, str | bool]:
    return dict(sorted(headers.items()))


# pamqp drops empty strings, sorts headers, has dates for timestamps, and refuses a cluster id.
_FOR_PAMQP = st.fixed_dictionaries(
    {},
    optional={
        **{name: texts.filter(bool) for name in SHORTSTRS if name not in ("cluster_id", "expiration")},
        "expiration": st.integers(0, 10**9).map(str),
        "headers": st.dictionaries(st.text(max_size=20), texts | st.booleans(), min_size=1, max_size=3).map(in_order),
        "delivery_mode": st.sampled_from([1, 2]),
        "priority": unsigned(8),
        "timestamp": unsigned(31),
    },
)


@QUIET
@given(_FOR_PAMQP)
def test_pamqp_writes_the_same_octets(fields: dict[str, FieldValue]) -> None:
    """#103"""
    theirs: dict[str, typing.Any] = dict(fields)
    if "timestamp" in theirs:
        theirs["timestamp"] = datetime.datetime.fromtimestamp(theirs["timestamp"], tz=datetime.UTC)
    if "type" in theirs:
        theirs["message_type"] = theirs.pop("type")
    raw = commands.Basic.Properties(**theirs).marshal()
    built = Properties.build(**fields)
    assert built.raw == raw
    headers = fields.get("headers")
    assert built.headers == (None if headers is None else Table(typing.cast(dict[str, tables.Value], headers)))
