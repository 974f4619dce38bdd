"""Field tables over the wire: every type RabbitMQ reads, what it does not read, and how long things may be."""

import re

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.pair import Client, Pair, loose

FRAME_ERROR = re.compile("FRAME_ERROR - .+", re.DOTALL)

#: A value of each type, with its letter, in octets.
VALUES = {
    "t bool": b"t\x01",
    "b int8": b"b\xff",
    "B uint8": b"B\xff",
    "s int16": b"s\xff\xfe",
    "u uint16": b"u\xff\xfe",
    "I int32": b"I\xff\xff\xff\xfe",
    "i uint32": b"i\xff\xff\xff\xfe",
    "l int64": b"l\xff\xff\xff\xff\xff\xff\xff\xfe",
    "L int64": b"L\xff\xff\xff\xff\xff\xff\xff\xfe",
    "f float32": b"f\x3f\x00\x00\x00",
    "d float64": b"d\x3f\xe0\x00\x00\x00\x00\x00\x00",
    "D decimal": b"D\x02\x00\x00\x04\xd2",
    "S longstr": b"S\x00\x00\x00\x03abc",
    "x bytes": b"x\x00\x00\x00\x03\x00\xff\xfe",
    "A array": b"A\x00\x00\x00\x07t\x00s\x00\x05t\x01",
    "T timestamp": b"T\x00\x00\x00\x00\x65\x53\xf1\x00",
    "F table": b"F\x00\x00\x00\x04\x01kt\x01",
    "V void": b"V",
}


def table(*entries: bytes) -> bytes:
    """A table of entries that hold key and value."""
    return frames.longstr(b"".join(entries))


def entry(key: str, value: bytes) -> bytes:
    return frames.shortstr(key) + value


def headers(*entries: bytes) -> bytes:
    """Properties with nothing but these headers."""
    return frames.short(1 << 13) + table(*entries)


def declares(client: Client, arguments: bytes) -> None:
    ch = client.channel()
    ch.call(loose(commands.Queue.Declare, queue="q", arguments=arguments), commands.Queue.DeclareOk)


@pytest.mark.parametrize("kind", VALUES)
def test_each_type_in_arguments(kind: str) -> None:
    """#144 read as an argument: the next argument behind it is understood, so its length was."""
    client = Pair().connect()
    ch = client.channel()
    arguments = table(entry("x-mine", VALUES[kind]), entry("x-max-length", b"I\x00\x00\x00\x01"))
    ch.call(loose(commands.Queue.Declare, queue="q", arguments=arguments), commands.Queue.DeclareOk)
    ch.publish(b"1", key="q")
    ch.publish(b"2", key="q")
    assert ch.drain("q") == [b"2"]


@pytest.mark.parametrize("kind", VALUES)
def test_each_type_in_headers(kind: str) -> None:
    """#144 #104 passed through octet by octet."""
    ch = Pair().connect().channel()
    ch.declare("q")
    raw = headers(entry("value", VALUES[kind]), entry("behind", VALUES["S longstr"]))
    ch.publish(b"m", key="q", properties=raw)
    message = ch.get("q")
    assert message is not None
    assert message.raw_properties == raw


@pytest.mark.parametrize("kind", VALUES)
def test_each_type_is_read_and_written(kind: str) -> None:
    """#144 a message whose headers the broker has to rewrite keeps every type, alone, in an array and in a table."""
    ch = Pair().connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    value = VALUES[kind]
    nested = [b"A" + frames.longstr(value + value), b"F" + table(entry("k", value))]
    entries = [entry("value", value), entry("array", nested[0]), entry("table", nested[1])]
    ch.publish(b"m", key="q", properties=headers(*entries))
    got = ch.get("q", no_ack=False)
    assert got is not None
    ch.reject(got.tag, requeue=False)
    dead = ch.get("dead")
    assert dead is not None
    assert "x-death" in dead.headers
    for octets in entries:
        assert octets in dead.raw_properties


@pytest.mark.parametrize(("kind", "matching"), [("l", b"L"), ("L", b"l")])
def test_both_letters_of_64_bits_are_signed(kind: str, matching: bytes) -> None:
    """#144 l and L are the same type: -2 equals -2, and is not a large number."""
    ch = Pair().connect().channel()
    octets = b"\xff\xff\xff\xff\xff\xff\xff\xfe"
    ch.declare("q")
    ch.bind("q", "amq.headers", arguments={"n": frames.Typed(kind, -2)})
    ch.publish(b"m", "amq.headers", properties=headers(entry("n", matching + octets)))
    assert ch.drain("q") == [b"m"]


def test_s_is_a_number() -> None:
    """#144 s is int16, never a short string: 's' 3 'a' would be the number 0x0361."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.headers", arguments={"n": frames.Typed("I", 0x0361)})
    ch.publish(b"m", "amq.headers", properties=headers(entry("n", b"s\x03a")))
    assert ch.drain("q") == [b"m"]


@pytest.mark.parametrize("letter", [b"U", b"z", b"\x00", b"c"])
def test_unknown_type_in_arguments(letter: bytes) -> None:
    """#144 501 closes the connection; U is not read either."""
    pair = Pair()
    client, other = pair.connect(), pair.connect()
    arguments = table(entry("k", letter + b"\x00\x05"))
    client.channel().send(loose(commands.Queue.Declare, queue="q", arguments=arguments))
    client.expect_close(501, FRAME_ERROR, commands.Queue.Declare)
    other.expect_alive()


@pytest.mark.parametrize("letter", [b"U", b"z", b"\x00"])
def test_unknown_type_in_headers(letter: bytes) -> None:
    """#144 501 for a message too: no consumer may be handed a table nobody can read."""
    pair = Pair()
    client, other = pair.connect(), pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.publish(b"m", key="q", properties=headers(entry("k", letter + b"\x00\x05")))
    client.expect_close(501, FRAME_ERROR, commands.Basic.Publish)
    assert other.channel().drain("q") == []


@pytest.mark.parametrize(
    "arguments",
    [
        b"\x00\x00\x00\x05\x01kI\x00",
        table(b"\x05k"),
        table(entry("k", b"")),
        table(entry("k", b"I\x00\x00")),
        table(entry("k", b"S\x00\x00\x00\x09short")),
        table(entry("k", b"S\xff\xff\xff\xff")),
        table(entry("k", b"A\x00\x00\x00\x05t\x01")),
        table(entry("k", b"A\x00\x00\x00\x01I")),
        table(entry("k", b"F\x00\x00\x00\x09\x01kt\x01")),
        table(entry("k", b"F\x00\x00\x00\x02\x05k")),
        table(entry("k", b"D\x02\x00")),
    ],
    ids=[
        "length beyond the frame",
        "key beyond the table",
        "no type",
        "integer cut short",
        "string beyond the table",
        "string of four gigabytes",
        "array beyond the table",
        "element beyond the array",
        "table beyond the table",
        "key beyond the inner table",
        "decimal cut short",
    ],
)
def test_lengths_must_hold(arguments: bytes) -> None:
    """#145 every length is in bytes and stays within what holds it: else 501."""
    pair = Pair()
    client, other = pair.connect(), pair.connect()
    client.channel().send(loose(commands.Queue.Declare, queue="q", arguments=arguments, nowait=False))
    client.expect_close(501, FRAME_ERROR, commands.Queue.Declare)
    other.expect_alive()


def test_array_and_table_lengths_are_bytes() -> None:
    """#145 not counts of elements: an array of three int16 is nine bytes long and the next key is found behind it."""
    three = b"A" + frames.longstr(b"s\x00\x01" * 3)
    client = Pair().connect()
    ch = client.channel()
    arguments = table(entry("list", three), entry("x-max-length", b"b\x00"))
    ch.call(loose(commands.Queue.Declare, queue="q", arguments=arguments), commands.Queue.DeclareOk)
    ch.publish(b"m", key="q")
    assert ch.drain("q") == []


def test_longest_key() -> None:
    """#145 255 bytes, also of several bytes a character."""
    client = Pair().connect()
    for key in ("k" * 255, "é" * 127 + "k"):
        ch = client.channel()
        ch.declare("q")
        raw = headers(entry(key, b"t\x01"))
        ch.publish(b"m", key="q", properties=raw)
        message = ch.get("q")
        assert message is not None
        assert message.headers == {key: True}
    declares(client, table())


def test_nested_tables_in_client_properties() -> None:
    """#145 capabilities are a table in a table, and are read: basic.cancel comes to who asked for it in there."""
    pair = Pair()
    asking = pair.connect(capabilities=(), client_properties={"capabilities": {"consumer_cancel_notify": True}})
    silent = pair.connect(
        capabilities=(), client_properties={"capabilities": {"deeper": {"consumer_cancel_notify": True}}}
    )
    channels = [client.channel() for client in (asking, silent)]
    channels[0].declare("q")
    for ch in channels:
        ch.consume("q", "c")
    pair.connect().channel().call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    assert channels[0].expect(commands.Basic.Cancel).consumer_tag == "c"
    channels[1].expect_nothing()


def test_reasonable_nesting_is_read() -> None:
    """#145 ten tables in one another."""
    value = b"t\x01"
    for _ in range(10):
        value = b"F" + table(entry("k", value))
    declares(Pair().connect(), table(entry("deep", value)))


def test_table_bomb() -> None:
    """#145 thousands of tables in one another are refused, the broker lives."""
    pair = Pair()
    client, other = pair.connect(), pair.connect()
    value = b"V"
    for _ in range(5000):
        value = b"F" + table(entry("", value))
    client.channel().send(loose(commands.Queue.Declare, queue="q", arguments=table(entry("", value))))
    client.expect_close(501, FRAME_ERROR, commands.Queue.Declare)
    other.expect_alive()


def test_empty_tables() -> None:
    """#145 an empty table is four zero octets, as arguments and as headers."""
    client = Pair().connect()
    declares(client, b"\x00\x00\x00\x00")
    ch = client.channel()
    raw = frames.short(1 << 13) + b"\x00\x00\x00\x00"
    ch.publish(b"m", key="q", properties=raw)
    message = ch.get("q")
    assert message is not None
    assert message.raw_properties == raw
