"""Every method of the protocol, in and out, with pamqp's own codec as the oracle."""

import struct
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp import frame as pamqp_frame
from pamqp.base import Frame

from rabbitlike.protocol import methods, tables
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.methods import Access
from rabbitlike.protocol.tables import Table
from tests.unit.protocol.wire_values import QUIET, damaged, names, texts, unless_refused, unsigned, whole_tables

_FIELDS: dict[str, st.SearchStrategy[object]] = {
    "bit": st.booleans(),
    "octet": unsigned(8),
    "short": unsigned(16),
    "long": unsigned(32),
    "longlong": unsigned(64),
    "shortstr": names,
    "longstr": st.binary(max_size=300).map(lambda octets: octets.decode("utf-8", "surrogateescape")),
    "table": whole_tables.map(lambda raw: tables.decode(raw)[0]),
}
# What pamqp reads as we do: UTF-8 only, and its longlong is signed.
_PAMQP_FIELDS: dict[str, st.SearchStrategy[object]] = {
    **_FIELDS,
    "longlong": unsigned(63),
    "shortstr": texts,
    "longstr": texts,
    "table": st.dictionaries(st.text(max_size=20), texts | st.booleans() | st.integers(-99, 1 << 40), max_size=3),
}


def any_method(fields: dict[str, st.SearchStrategy[object]], classes: list[type[Frame]]) -> st.SearchStrategy[Frame]:
    def filled(cls: type[Frame]) -> st.SearchStrategy[Frame]:
        values = st.fixed_dictionaries({name: fields[cls.amqp_type(name)] for name in cls.attributes()})
        return values.map(lambda chosen: methods.make(cls, **chosen))

    return st.sampled_from(classes).flatmap(filled)


DECLARE_BITS = ["passive", "durable", "exclusive", "auto_delete", "nowait"]
ALL = [methods.METHODS[index] for index in sorted(methods.METHODS)]
payloads = any_method(_FIELDS, ALL).map(lambda method: methods.encode(method, 0)[7:-1])


def frame(payload: bytes, channel: int = 0) -> bytes:
    return struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"


def test_nothing_is_missing() -> None:
    """Class by class, as the specification and RabbitMQ's extensions number them."""
    expected = {
        10: [10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61, 70, 71],
        20: [10, 11, 20, 21, 40, 41],
        30: [10, 11],
        40: [10, 11, 20, 21, 30, 31, 40, 51],
        50: [10, 11, 20, 21, 30, 31, 40, 41, 50, 51],
        60: [10, 11, 20, 21, 30, 31, 40, 50, 60, 70, 71, 72, 80, 90, 100, 110, 111, 120],
        85: [10, 11],
        90: [10, 11, 20, 21, 30, 31],
    }
    assert sorted(methods.METHODS) == [number << 16 | method for number, ids in expected.items() for method in ids]
    assert all(cls.index == index for index, cls in methods.METHODS.items())


def test_queue_declare_octet_by_octet() -> None:
    """#18 #19 Five bits in one octet; the ticket before them may hold anything."""
    payload = (
        b"\x00\x32\x00\x0a"
        b"\xbe\xef"  # ticket
        b"\x02q\xff"  # not UTF-8
        b"\x12"  # durable, nowait
        b"\x00\x00\x00\x04\x01xb\x07"
    )
    method = methods.decode(payload)
    assert isinstance(method, commands.Queue.Declare)
    assert dict(method) == {
        "ticket": 0xBEEF,
        "queue": "q\udcff",
        "passive": False,
        "durable": True,
        "exclusive": False,
        "auto_delete": False,
        "nowait": True,
        "arguments": {"x": 7},
    }
    assert cast(Table, method.arguments).kinds == {"x": "b"}
    assert methods.encode(method, 3) == frame(payload, 3)


@pytest.mark.parametrize(("bit", "name"), list(enumerate(DECLARE_BITS)))
def test_bits_are_packed_from_the_lowest_up(bit: int, name: str) -> None:
    """#18"""
    payload = b"\x00\x32\x00\x0a\x00\x00\x00" + bytes((1 << bit,)) + b"\x00\x00\x00\x00"
    method = methods.decode(payload)
    assert [flag for flag in DECLARE_BITS if method[flag]] == [name]
    assert methods.encode(method, 0) == frame(payload)


def test_bits_nobody_defined_are_ignored() -> None:
    """#18"""
    method = methods.decode(b"\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x09\xfe")
    assert isinstance(method, commands.Basic.Ack)
    assert (method.delivery_tag, method.multiple) == (9, False)


def test_access_request_of_old_clients() -> None:
    payload = b"\x00\x1e\x00\x0a\x05/data\x16"
    method = methods.decode(payload)
    assert isinstance(method, Access.Request)
    assert method.realm == "/data"
    assert [method.exclusive, method.passive, method.active, method.write, method.read] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert methods.encode(method, 1) == frame(payload, 1)
    assert methods.encode(methods.make(Access.RequestOk, ticket=1), 1) == frame(b"\x00\x1e\x00\x0b\x00\x01", 1)


def test_recover_async_has_its_own_id() -> None:
    assert isinstance(methods.decode(b"\x00\x3c\x00\x64\x01"), commands.Basic.RecoverAsync)
    assert isinstance(methods.decode(b"\x00\x3c\x00\x6e\x01"), commands.Basic.Recover)


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.name)
def test_every_truncation_is_refused_in_the_methods_name(cls: type[Frame]) -> None:
    payload = methods.encode(methods.make(cls), 0)[7:-1]
    assert type(methods.decode(payload)) is cls
    for end in range(4, len(payload)):
        with pytest.raises(AmqpError, match=f"cannot decode {methods.spec_name(cls)}: ") as raised:
            methods.decode(payload[:end])
        assert raised.value.code == 501
        assert (raised.value.class_id, raised.value.method_id) == (cls.index >> 16, cls.index & 0xFFFF)


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.name)
def test_octets_left_over_are_refused(cls: type[Frame]) -> None:
    with pytest.raises(AmqpError, match="left over") as raised:
        methods.decode(methods.encode(methods.make(cls), 0)[7:-1] + b"\x00")
    assert raised.value.code == 501


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00\x32\x00"])
def test_too_short_for_an_id(payload: bytes) -> None:
    with pytest.raises(AmqpError, match="cannot decode") as raised:
        methods.decode(payload)
    assert raised.value.code == 501


@pytest.mark.parametrize(("class_id", "method_id"), [(0, 0), (10, 12), (60, 0), (61, 10), (0xFFFF, 0xFFFF)])
def test_unknown_ids_are_not_implemented(class_id: int, method_id: int) -> None:
    with pytest.raises(AmqpError, match=f"unknown method {class_id},{method_id}") as raised:
        methods.decode(struct.pack(">HH", class_id, method_id) + b"anything")
    assert raised.value.code == 540
    assert (raised.value.class_id, raised.value.method_id) == (class_id, method_id)


def test_malformed_arguments_are_refused() -> None:
    """#144"""
    with pytest.raises(AmqpError, match=r"cannot decode queue\.declare: field table: unknown field type") as raised:
        methods.decode(b"\x00\x32\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x03\x01k?")
    assert (raised.value.code, raised.value.class_id, raised.value.method_id) == (501, 50, 10)


def test_make_fills_in_nothings() -> None:
    method = methods.make(commands.Queue.Declare, queue="any name\n", durable=True)
    assert dict(method) == {
        "ticket": 0,
        "queue": "any name\n",
        "passive": False,
        "durable": True,
        "exclusive": False,
        "auto_delete": False,
        "nowait": False,
        "arguments": Table(),
    }
    with pytest.raises(TypeError, match="no field colour"):
        methods.make(commands.Queue.Declare, colour="red")


def test_fields_pamqp_leaves_none_are_sent_as_nothing() -> None:
    assert methods.encode(commands.Connection.Close(), 0) == frame(b"\x00\x0a\x00\x32\x00\x00\x00\x00\x00\x00\x00")


def test_a_string_too_long_for_its_length_octet_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="longer than 255 octets"):
        methods.encode(methods.make(commands.Basic.CancelOk, consumer_tag="é" * 128), 1)


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (commands.Queue.Declare, "queue.declare"),
        (commands.Queue.DeclareOk, "queue.declare-ok"),
        (commands.Connection.UpdateSecretOk, "connection.update-secret-ok"),
        (commands.Basic.RecoverAsync, "basic.recover-async"),
    ],
)
def test_names_as_the_specification_writes_them(cls: type[Frame], name: str) -> None:
    assert methods.spec_name(cls) == name
    assert methods.spec_name(methods.make(cls)) == name


@QUIET
@given(any_method(_FIELDS, ALL), unsigned(16))
def test_round_trip(method: Frame, channel: int) -> None:
    octets = methods.encode(method, channel)
    assert octets[:3] == struct.pack(">BH", 1, channel)
    assert octets[3:7] == struct.pack(">I", len(octets) - 8)
    assert octets[-1:] == b"\xce"
    decoded = methods.decode(octets[7:-1])
    assert type(decoded) is type(method)
    assert methods.encode(decoded, channel) == octets


@QUIET
@given(any_method(_PAMQP_FIELDS, list(commands.INDEX_MAPPING.values())), unsigned(16))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # recover-async
def test_pamqp_reads_what_we_write(method: Frame, channel: int) -> None:
    octets = methods.encode(method, channel)
    size, seen, read = pamqp_frame.unmarshal(octets)
    assert (size, seen) == (len(octets), channel)
    assert isinstance(read, type(method))
    assert dict(read) == dict(method)


@QUIET
@given(st.binary(max_size=40) | damaged(payloads))
def test_any_octets_give_a_method_or_an_error(payload: bytes) -> None:
    index = int.from_bytes(payload[:4], "big")
    code = 540 if len(payload) >= 4 and index not in methods.METHODS else 501
    method = unless_refused(code, lambda: methods.decode(payload))
    if method is not None:
        assert method.index == index


@QUIET
@given(st.sampled_from(sorted(methods.METHODS)), st.binary(max_size=60))
def test_any_arguments_give_a_method_or_501(index: int, arguments: bytes) -> None:
    unless_refused(501, lambda: methods.decode(index.to_bytes(4, "big") + arguments))
