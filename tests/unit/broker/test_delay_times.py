"""When a publish is due: the quick look at `x-delay` says what decoding all headers says."""

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rabbitlike.broker.delays.times import negated, plain_delay, read_due
from rabbitlike.protocol import tables
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import Properties

NOW_MS = 1_700_000_000_000
SIGNED = {"b": ">b", "s": ">h", "I": ">i", "l": ">q", "L": ">q"}
OTHERS = {"B": ">B", "u": ">H", "i": ">I", "T": ">Q", "d": ">d"}


def entry(key: bytes, kind: str, octets: bytes) -> bytes:
    return bytes((len(key),)) + key + kind.encode() + octets


def make(*entries: bytes) -> Properties:
    body = b"".join(entries)
    return Properties(b"\x20\x00" + struct.pack(">I", len(body)) + body)


values = st.one_of(
    *(
        st.binary(min_size=struct.calcsize(layout), max_size=struct.calcsize(layout)).map(
            lambda octets, kind=kind: (kind, octets)
        )
        for kind, layout in (SIGNED | OTHERS).items()
    ),
    st.integers(-99, 10**9).map(lambda number: ("S", struct.pack(">I", len(str(number))) + str(number).encode())),
)
keys = st.sampled_from((b"x-delay", b"x-deliver-at", b"x-delays", b"a", b"x-dela"))
entries = st.tuples(keys, values).map(lambda pair: entry(pair[0], *pair[1]))


@settings(deadline=None, max_examples=300)
@given(st.lists(entries, max_size=4))
@example([entry(b"x-delay", "b", b"\x80")])
@example([entry(b"x-delay", "I", b"\x7f\xff\xff\xff"), entry(b"x-delay", "I", b"\x00\x00\x00\x07")])
def test_the_quick_look_agrees(found: list[bytes]) -> None:
    """F17"""
    properties = make(*found)
    headers = properties.headers or tables.Table()
    delay_ms = plain_delay(properties)
    if delay_ms == 0:
        return
    assert "x-deliver-at" not in headers
    assert headers["x-delay"] == delay_ms > 0
    changed = Properties(negated(properties)).headers
    assert changed is not None
    assert changed.pop("x-delay") == -delay_ms
    assert changed.kinds == headers.kinds
    del headers["x-delay"]
    assert repr(changed) == repr(headers)


@pytest.mark.parametrize("kind", SIGNED)
@pytest.mark.parametrize("before", [b"", entry(b"k", "S", b"\0\0\0\1v")])
@pytest.mark.parametrize("after", [b"", entry(b"x-death", "V", b"")])
def test_every_number_with_a_sign_is_seen(kind: str, before: bytes, after: bytes) -> None:
    properties = make(before, entry(b"x-delay", kind, struct.pack(SIGNED[kind], 100)), after)
    assert plain_delay(properties) == 100
    due_ms, shown = read_due(properties, NOW_MS)
    assert due_ms == NOW_MS + 100
    assert shown.header(b"x-delay") == -100
    assert len(shown.raw) == len(properties.raw)


@pytest.mark.parametrize("kind", SIGNED)
@pytest.mark.parametrize("number", [0, -1, -100])
def test_what_is_not_to_wait_is_not_touched(kind: str, number: int) -> None:
    properties = make(entry(b"x-delay", kind, struct.pack(SIGNED[kind], number)))
    assert plain_delay(properties) == 0
    assert read_due(properties, NOW_MS) == (0, properties)


def test_the_last_of_two_counts() -> None:
    properties = make(entry(b"x-delay", "I", struct.pack(">i", 5)), entry(b"x-delay", "I", struct.pack(">i", 7)))
    assert plain_delay(properties) == 7
    assert Properties(negated(properties)).header(b"x-delay") == -7


def test_beyond_all_time_is_refused() -> None:
    with pytest.raises(AmqpError, match="9999"):
        read_due(make(entry(b"x-delay", "l", struct.pack(">q", 1 << 49))), NOW_MS)
    with pytest.raises(AmqpError, match="9999"):
        read_due(make(entry(b"x-delay", "l", struct.pack(">q", 1 << 62))), NOW_MS)
