"""Field tables: every type octet by octet, every malformed shape, and round trips."""

import math
import struct
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pamqp import decode as pamqp_decode

from rabbitlike.protocol import tables
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.tables import Array, Table, Timestamp, Value
from tests.unit.protocol.wire_values import (
    QUIET,
    damaged,
    packed,
    prefixed,
    signed,
    table_bodies,
    texts,
    unless_refused,
    unsigned,
    whole_tables,
)

CASES: list[tuple[str, bytes, Value]] = [
    ("t", b"\x01", True),
    ("t", b"\x00", False),
    ("b", b"\xff", -1),
    ("B", b"\xff", 255),
    ("s", b"\xff\xfe", -2),
    ("u", b"\xff\xfe", 65534),
    ("I", b"\x80\x00\x00\x00", -(1 << 31)),
    ("i", b"\x80\x00\x00\x00", 1 << 31),
    ("l", b"\xff" * 8, -1),
    ("L", b"\xff" * 8, -1),
    ("f", b"\x3f\xc0\x00\x00", 1.5),
    ("d", b"\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5),
    ("D", b"\x02\x00\x00\x00\x96", Decimal("1.50")),
    ("D", b"\xff\xff\xff\xff\xff", Decimal(0xFFFFFFFF).scaleb(-255)),
    ("S", b"\x00\x00\x00\x03h\xc3\xa9", "hé"),
    ("S", b"\x00\x00\x00\x01\xff", "\udcff"),
    ("S", b"\x00\x00\x00\x00", ""),
    ("x", b"\x00\x00\x00\x02\x00\xff", b"\x00\xff"),
    ("A", b"\x00\x00\x00\x03t\x01V", Array([True, None])),
    ("A", b"\x00\x00\x00\x00", Array()),
    ("T", b"\xff" * 8, Timestamp((1 << 64) - 1)),
    ("F", b"\x00\x00\x00\x04\x01kt\x00", Table({"k": False})),
    ("F", b"\x00\x00\x00\x00", Table()),
    ("V", b"", None),
]


def one(kind: str, octets: bytes) -> bytes:
    body = b"\x03key" + kind.encode() + octets
    return struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(("kind", "octets", "value"), CASES)
def test_each_type_decodes_and_encodes(kind: str, octets: bytes, value: Value) -> None:
    """#144"""
    raw = one(kind, octets)
    table, end = tables.decode(raw)
    assert table == {"key": value}
    assert type(table["key"]) is type(value)
    assert table.kinds == {"key": kind}
    assert table.kind("key") == kind
    assert end == len(raw)
    assert tables.encode(table) == raw


@pytest.mark.parametrize(("kind", "octets", "value"), CASES)
def test_each_type_in_an_array(kind: str, octets: bytes, value: Value) -> None:
    """#144"""
    items = (kind.encode() + octets) * 2
    raw = one("A", struct.pack(">I", len(items)) + items)
    array = tables.decode(raw)[0]["key"]
    assert isinstance(array, Array)
    assert array == [value, value]
    assert array.kinds == [kind, kind]
    assert tables.encode(tables.decode(raw)[0]) == raw


@pytest.mark.parametrize(("kind", "octets", "value"), CASES)
def test_every_truncation_is_refused(kind: str, octets: bytes, value: Value) -> None:
    """#144 The octets end early, or the announced length does."""
    raw = one(kind, octets)
    for end in range(len(raw)):
        with pytest.raises(AmqpError) as raised:
            tables.decode(raw[:end])
        assert raised.value.code == 501
    for length in range(1, len(raw) - 4):
        with pytest.raises(AmqpError) as raised:
            tables.decode(struct.pack(">I", length) + raw[4:])
        assert raised.value.code == 501


def test_decoding_starts_at_an_offset_and_leaves_the_tail() -> None:
    raw = b"head" + one("t", b"\x01") + b"tail"
    assert tables.decode(raw, 4) == (Table({"key": True}), len(raw) - 4)
    assert tables.decode(memoryview(raw), 4)[0] == {"key": True}
    assert tables.decode_body(memoryview(one("t", b"\x01"))[4:]) == {"key": True}


@pytest.mark.parametrize("kind", sorted(set(range(256)) - set(b"tbBsuIilLfdDSxATFV")))
def test_unknown_type_letters_are_refused(kind: int) -> None:
    """#144 `U` and the zero octet, which other codecs read, are among them."""
    body = b"\x01k" + bytes((kind,)) + bytes(16)
    with pytest.raises(AmqpError, match="unknown field type") as raised:
        tables.decode_body(body)
    assert raised.value.code == 501


def test_s_is_a_short_integer_not_a_short_string() -> None:
    """#144"""
    assert tables.decode_body(b"\x01ks\x00\x05") == {"k": 5}


def test_lengths_count_octets() -> None:
    """#145 Of keys, arrays and tables alike; nested tables are what clients send as capabilities."""
    raw = (
        b"\x00\x00\x00\x2e"
        b"\x0ccapabilitiesF\x00\x00\x00\x0d\x0abasic.nackt\x01"
        b"\x01aA\x00\x00\x00\x08S\x00\x00\x00\x03\xe2\x82\xac"
    )
    table, end = tables.decode(raw)
    assert table == {"capabilities": {"basic.nack": True}, "a": ["€"]}
    assert end == len(raw)
    assert tables.encode(table) == raw


@pytest.mark.parametrize(
    "entry",
    [b"\x01kS\0\0\0\x05x", b"\x01kF\0\0\0\x05\0", b"\x01kA\0\0\0\x05V", b"\x01kI\0\0", b"\x01kT\0", b"\x09k"],
)
def test_what_follows_a_table_is_no_part_of_it(entry: bytes) -> None:
    """#145 A length that reaches beyond the table is wrong although the frame goes on behind it."""
    raw = len(entry).to_bytes(4, "big") + entry
    with pytest.raises(AmqpError) as caught:
        tables.decode(raw + b"\0" * 40)
    assert caught.value.code == 501


def test_keys_hold_at_most_255_octets() -> None:
    """#145"""
    longest = "é" * 127 + "e"
    assert tables.decode(tables.encode({longest: 1}))[0] == {longest: 1}
    with pytest.raises(ValueError, match="255 octets"):
        tables.encode({longest + "e": 1})


@pytest.mark.parametrize("kind", "FA")
def test_nesting_is_bounded(kind: str) -> None:
    """#144 A table bomb is refused before it can exhaust the stack."""
    key = b"\x00" if kind == "F" else b""

    def nested(depth: int) -> bytes:
        inner = b""
        for _ in range(depth - 1):
            inner = key + kind.encode() + struct.pack(">I", len(inner)) + inner
        return inner if kind == "F" else b"\x00" + inner

    assert tables.encode(tables.decode_body(nested(tables.MAX_DEPTH)))[4:] == nested(tables.MAX_DEPTH)
    for depth in (tables.MAX_DEPTH + 1, 10_000):
        with pytest.raises(AmqpError, match="nested too deeply") as raised:
            tables.decode_body(nested(depth))
        assert raised.value.code == 501


def test_encoding_bounds_nesting_too() -> None:
    deep: dict[str, Value] = {}
    array: list[Value] = []
    for _ in range(tables.MAX_DEPTH):
        deep, array = {"k": deep}, [array]
    for value in (deep, {"k": array}):
        with pytest.raises(ValueError, match="nested too deeply"):
            tables.encode(value)


def test_last_of_two_equal_keys_wins() -> None:
    assert tables.decode_body(b"\x01kt\x00\x01jV\x01kb\x05") == {"k": 5, "j": None}
    assert tables.encode(tables.decode_body(b"\x01kt\x00\x01jV\x01kb\x05"))[4:] == b"\x01kb\x05\x01jV"


def test_any_octet_but_zero_is_true() -> None:
    assert tables.decode_body(b"\x01kt\x07") == {"k": True}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "t"),
        (1, "I"),
        (-(1 << 31), "I"),
        (1 << 31, "l"),
        (-(1 << 31) - 1, "l"),
        ((1 << 63) - 1, "l"),
        (Timestamp(5), "T"),
        (1.0, "d"),
        ("s", "S"),
        (b"b", "x"),
        (Decimal("0.1"), "D"),
        (Decimal("1E3"), "D"),
        (None, "V"),
        ([], "A"),
        ({}, "F"),
        (Array(), "A"),
        (Table(), "F"),
    ],
)
def test_python_values_get_an_inferred_type(value: Value, kind: str) -> None:
    raw = tables.encode({"k": value})
    assert raw[6:7] == kind.encode()
    assert tables.decode(raw)[0] == {"k": value}
    assert Table({"k": value}).kind("k") == kind


@pytest.mark.parametrize(
    "value",
    [
        1 << 63,
        -(1 << 63) - 1,
        Timestamp(-1),
        Timestamp(1 << 64),
        Decimal(-1),
        Decimal("NaN"),
        Decimal("1E10"),
        object(),
    ],
)
def test_values_without_a_wire_form_are_refused(value: Value) -> None:
    with pytest.raises(ValueError):
        tables.encode({"k": value})
    with pytest.raises(ValueError, match="object has no AMQP form"):
        tables.encode({"k": object()})  # type: ignore[dict-item]


def test_setting_a_value_forgets_the_wire_type() -> None:
    table = tables.decode_body(b"\x01kb\x05\x01jB\x06")
    table["k"] = 7
    assert tables.encode(table)[4:] == b"\x01kI\x00\x00\x00\x07\x01jB\x06"


def test_put_forces_a_type() -> None:
    table = Table()
    table.put("count", 1, "l")
    table.put("time", 2, "T")
    table.put("ratio", 0.5, "f")
    assert tables.encode(table)[4:] == (
        b"\x05countl\x00\x00\x00\x00\x00\x00\x00\x01\x04timeT\x00\x00\x00\x00\x00\x00\x00\x02\x05ratiof\x3f\x00\x00\x00"
    )


@pytest.mark.parametrize(
    ("value", "kind"), [(300, "B"), (-1, "T"), ("s", "x"), (1, "S"), (True, "I"), (1e39, "f"), (1, "?")]
)
def test_put_refuses_a_type_the_value_does_not_fit(value: Value, kind: str) -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        Table().put("k", value, kind)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.0, 3.4028234663852886e38])
def test_put_takes_every_float_that_fits(value: float) -> None:
    table = Table()
    table.put("k", value, "f")
    assert tables.decode(tables.encode(table))[0] == {"k": value}


def test_values_changed_behind_the_table_fall_back_to_an_inferred_type() -> None:
    table = tables.decode_body(b"\x01kb\x05")
    table.update({"k": "text"})
    assert tables.encode(table)[4:] == b"\x01kS\x00\x00\x00\x04text"
    array = Array([1, 2], ["b", "b"])
    array.insert(0, "x")
    assert tables.encode({"k": array})[11:] == b"S\x00\x00\x00\x01xI\x00\x00\x00\x01I\x00\x00\x00\x02"


def test_copies_keep_types_and_are_apart() -> None:
    table = tables.decode_body(b"\x01kb\x05")
    for copied in (table.copy(), Table(table)):
        copied["new"] = 1
        assert copied.kinds == {"k": "b"}
        del copied["k"]
    assert table == {"k": 5}
    assert table.kinds == {"k": "b"}


def test_kind_names() -> None:
    """#72 #144 As RabbitMQ's texts call the types."""
    names = "bool byte unsignedbyte short unsignedshort signedint unsignedint long long float double decimal longstr"
    assert " ".join(map(tables.kind_name, "tbBsuIilLfdDS")) == names
    assert " ".join(map(tables.kind_name, "xATFV")) == "binary array timestamp table void"


def test_same_value_compares_integers_by_value_and_types_otherwise() -> None:
    """#72"""
    assert tables.same_value(
        tables.decode_body(b"\x01kb\x05")["k"], tables.decode_body(b"\x01kl\0\0\0\0\0\0\0\x05")["k"]
    )
    assert tables.same_value(math.nan, math.nan)
    assert tables.same_value({"a": [1, {"b": None}]}, Table({"a": Array([1, Table({"b": None})])}))
    assert tables.same_value({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert tables.same_value("é", "é".encode())
    different: list[tuple[Value, Value]] = [
        (1, True),
        (1, 1.0),
        (1, Timestamp(1)),
        (1, Decimal(1)),
        ("a", b"b"),
        (0, None),
        (False, None),
        ([1], [True]),
        ([1], [1, 1]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": "1"}),
        ({}, []),
        ([], {}),
        ("", {}),
        (math.nan, 1.0),
    ]
    for a, b in different:
        assert not tables.same_value(a, b)
        assert not tables.same_value(b, a)


@QUIET
@given(whole_tables)
def test_decode_then_encode_is_identical(raw: bytes) -> None:
    """#144 #145"""
    table, end = tables.decode(raw)
    assert end == len(raw)
    assert tables.encode(table) == raw
    assert tables.decode(raw + b"tail")[1] == end
    assert tables.encode(tables.decode_body(raw[4:])) == raw


@QUIET
@given(st.binary(max_size=80) | damaged(table_bodies))
@example(b"\x01kF\xff\xff\xff\xff")
@example(b"\xff")
@example(b"\x00")
def test_any_octets_give_a_table_or_501(body: bytes) -> None:
    """#144"""
    table = unless_refused(501, lambda: tables.decode_body(body))
    if table is not None:
        again = tables.encode(table)
        assert tables.encode(tables.decode(again)[0]) == again


@QUIET
@given(st.binary(max_size=60) | damaged(whole_tables), st.integers(0, 8))
def test_any_octets_with_a_length_give_a_table_or_501(raw: bytes, at: int) -> None:
    decoded = unless_refused(501, lambda: tables.decode(raw, at))
    if decoded is not None:
        assert at + 4 <= decoded[1] <= len(raw)


# What both codecs read alike: pamqp turns timestamps into dates, wants strings in UTF-8 and has its own decimals.
_alike = st.recursive(
    st.one_of(
        packed("t", ">B", st.integers(0, 1)),
        packed("b", ">b", signed(8)),
        packed("B", ">B", unsigned(8)),
        packed("s", ">h", signed(16)),
        packed("u", ">H", unsigned(16)),
        packed("I", ">i", signed(32)),
        packed("i", ">I", unsigned(32)),
        packed("l", ">q", signed(64)),
        packed("L", ">q", signed(64)),
        packed("f", ">f", st.floats(width=32, allow_nan=False)),
        packed("d", ">d", st.floats(allow_nan=False)),
        prefixed("S", texts.map(str.encode)),
        prefixed("x", st.binary(max_size=20)),
        st.just(b"V"),
    ),
    lambda inner: prefixed("A", st.lists(inner, max_size=4).map(b"".join)),
    max_leaves=8,
)


@QUIET
@given(st.dictionaries(st.text(max_size=20).map(str.encode), _alike, max_size=6))
def test_pamqp_reads_the_same_values(pairs: dict[bytes, bytes]) -> None:
    """#144"""
    body = b"".join(bytes((len(key),)) + key + value for key, value in pairs.items())
    raw = struct.pack(">I", len(body)) + body
    assert pamqp_decode.field_table(raw) == (len(raw), tables.decode(raw)[0])
