"""Hypothesis strategies that write octets by hand, so that no codec under test is asked what is right."""

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from rabbitlike.protocol.errors import AmqpError

T = TypeVar("T")

#: The machine may be busy: no deadline for a single example.
QUIET = settings(deadline=None)


def unless_refused(code: int, decode: Callable[[], T]) -> T | None:
    """What decoding gives; None when it is refused with this code. Any other exception is a failure."""
    try:
        return decode()
    except AmqpError as error:
        if error.code != code:
            raise
        return None


def packed(kind: str, fmt: str, values: st.SearchStrategy[int] | st.SearchStrategy[float]) -> st.SearchStrategy[bytes]:
    return values.map(lambda value: kind.encode() + struct.pack(fmt, value))


def prefixed(kind: str, body: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return body.map(lambda octets: kind.encode() + struct.pack(">I", len(octets)) + octets)


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << bits) - 1)


#: A value with its type letter before it. Not-a-numbers of 32 bits are left out: widening may change their octets.
simple_values = st.one_of(
    packed("t", ">B", st.integers(0, 1)),
    packed("b", ">b", signed(8)),
    packed("B", ">B", unsigned(8)),
    packed("s", ">h", signed(16)),
    packed("u", ">H", unsigned(16)),
    packed("I", ">i", signed(32)),
    packed("i", ">I", unsigned(32)),
    packed("l", ">q", signed(64)),
    packed("L", ">q", signed(64)),
    packed("T", ">Q", unsigned(64)),
    packed("f", ">f", st.floats(width=32, allow_nan=False)),
    packed("d", ">d", st.floats()),
    st.tuples(unsigned(8), unsigned(32)).map(lambda pair: b"D" + struct.pack(">BI", *pair)),
    prefixed("S", st.binary(max_size=20)),
    prefixed("x", st.binary(max_size=20)),
    st.just(b"V"),
)


def _pairs(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    def join(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
        return b"".join(bytes((len(key),)) + key + value for key, value in pairs)

    return st.lists(st.tuples(st.binary(max_size=12), values), max_size=5, unique_by=lambda pair: pair[0]).map(join)


values = st.recursive(
    simple_values,
    lambda inner: st.one_of(prefixed("A", st.lists(inner, max_size=5).map(b"".join)), prefixed("F", _pairs(inner))),
    max_leaves=12,
)
#: The inside of a table, without its length.
table_bodies = _pairs(values)
#: A table with its length.
whole_tables = table_bodies.map(lambda body: struct.pack(">I", len(body)) + body)

#: Any octets a short string may hold, UTF-8 or not.
names = st.binary(max_size=255).map(lambda octets: octets.decode("utf-8", "surrogateescape"))
#: Text that any other codec takes as well.
texts = st.text(max_size=60)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """A well-formed block with some octets changed, cut off or put in."""
    octets = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(octets)))
        match draw(st.sampled_from(("change", "cut", "insert", "append"))):
            case "change" if at < len(octets):
                octets[at] = draw(unsigned(8))
            case "cut":
                del octets[at:]
            case "insert":
                octets[at:at] = draw(st.binary(min_size=1, max_size=4))
            case _:
                octets += draw(st.binary(max_size=4))
    return bytes(octets)
