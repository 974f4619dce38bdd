"""Field tables and arrays, with the value types that RabbitMQ reads and writes.

A decoded table keeps the wire type of each value, so decoding and encoding returns the same octets. Two exceptions: a
key sent twice (the last value wins, at the position of the first) and a boolean other than 0 or 1 (becomes 1). Any
malformed input raises 501 and nothing else; a Python value without a wire form raises ValueError.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from math import inf, isnan
from struct import Struct
from types import NoneType
from typing import Final, Self, TypeAlias

from rabbitlike.protocol import octets
from rabbitlike.protocol.errors import AmqpError, frame_error

Value: TypeAlias = "bool | int | float | Decimal | str | bytes | list[Value] | dict[str, Value] | None"

# Deeper than any sensible client nests; keeps a malicious table from exhausting the stack.
MAX_DEPTH: Final = 64

# parity: `s` is int16, never a short string; `l` and `L` are both signed; `U` and `\0` are unknown.
_NAMES: Final[dict[str, str]] = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "L": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "x": "binary",
    "A": "array",
    "T": "timestamp",
    "F": "table",
    "V": "void",
}
_NUMBERS: Final[dict[str, Struct]] = {
    "b": Struct(">b"),
    "B": Struct(">B"),
    "s": Struct(">h"),
    "u": Struct(">H"),
    "I": Struct(">i"),
    "i": Struct(">I"),
    "l": Struct(">q"),
    "L": Struct(">q"),
    "T": Struct(">Q"),
    "f": Struct(">f"),
    "d": Struct(">d"),
}
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "b": (-(1 << 7), (1 << 7) - 1),
    "B": (0, (1 << 8) - 1),
    "s": (-(1 << 15), (1 << 15) - 1),
    "u": (0, (1 << 16) - 1),
    "I": (-(1 << 31), (1 << 31) - 1),
    "i": (0, (1 << 32) - 1),
    "l": (-(1 << 63), (1 << 63) - 1),
    "L": (-(1 << 63), (1 << 63) - 1),
    "T": (0, (1 << 64) - 1),
}
_FLOAT_MAX: Final = 3.4028234663852886e38
_DECIMAL: Final = Struct(">BI")
_LETTERS: Final[dict[int, str]] = {ord(letter): letter for letter in _NAMES}


class Timestamp(int):
    """Seconds since the epoch (some clients send milliseconds; it is passed on unchanged)."""

    __slots__ = ()


class Array(list[Value]):
    """A field array. `kinds` holds one type letter per item as decoded; build a new array instead of editing one."""

    __slots__ = ("kinds",)

    def __init__(self, items: Iterable[Value] = (), kinds: Iterable[str] = ()) -> None:
        super().__init__(items)
        self.kinds: list[str] = list(kinds)

    def kind(self, index: int) -> str:
        """The type letter that an item has, or would have, on the wire."""
        return _kind_for(self.kinds[index] if index < len(self.kinds) else None, self[index])


class Table(dict[str, Value]):
    """A field table. `kinds` holds the type letters of values that came from the wire or through `put`."""

    __slots__ = ("kinds",)

    def __init__(self, items: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        super().__init__(items)
        self.kinds: dict[str, str] = items.kinds.copy() if isinstance(items, Table) else {}

    def __setitem__(self, key: str, value: Value) -> None:
        super().__setitem__(key, value)
        self.kinds.pop(key, None)

    def put(self, key: str, value: Value, kind: str) -> None:
        """Set a value and its type on the wire."""
        if not _suits(kind, value):
            raise ValueError(f"{value!r} cannot be sent as field type {kind!r}")
        super().__setitem__(key, value)
        self.kinds[key] = kind

    def kind(self, key: str) -> str:
        """The type letter that the value of `key` has, or would have, on the wire."""
        return _kind_for(self.kinds.get(key), self[key])

    def copy(self) -> Self:
        return type(self)(self)


# Subclasses come before their base classes.
_FAMILIES: Final[dict[type, str]] = {
    bool: "t",
    Timestamp: "T",
    int: "l",
    float: "d",
    Decimal: "D",
    str: "S",
    bytes: "x",
    NoneType: "V",
    Array: "A",
    Table: "F",
    list: "A",
    dict: "F",
}


def kind_name(letter: str) -> str:
    """RabbitMQ's name of a type letter, as in its error texts."""
    return _NAMES[letter]


def same_value(a: Value, b: Value) -> bool:
    """Whether two arguments are equivalent: integers of any width by value, text and octets by their octets, otherwise
    same type and same value."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, str | bytes) and isinstance(b, str | bytes):
        return _octets(a) == _octets(b)
    if _family(a) != _family(b):
        return False
    if isinstance(a, float) and isinstance(b, float) and isnan(a):
        return isnan(b)
    return a == b


def _octets(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text


def decode(raw: bytes | memoryview, at: int = 0) -> tuple[Table, int]:
    """Decode a table with its length prefix at `at`; also return its end."""
    data = raw if isinstance(raw, bytes) else bytes(raw)
    start = at + 4
    end = start + _length(data, at, len(data))
    return _decode_table(data, start, end, 1), end


def decode_body(raw: bytes | memoryview) -> Table:
    """Decode a table without its length prefix."""
    data = raw if isinstance(raw, bytes) else bytes(raw)
    return _decode_table(data, 0, len(data), 1)


def decode_value(raw: bytes, at: int) -> Value:
    """Decode one table value whose type letter is at `at`."""
    return _decode_value(raw, _letter(raw[at]), at + 1, len(raw), 1)[0]


def encode(table: Mapping[str, Value]) -> bytes:
    """Encode a table with its length prefix."""
    out = bytearray()
    _encode_table(out, table, 1)
    return bytes(out)


def _malformed(reason: str) -> AmqpError:
    return frame_error(f"cannot decode field table: {reason}")


def _length(raw: bytes, at: int, end: int) -> int:
    """The 4-octet length at `at`, checked: that many octets follow before `end`."""
    if at + 4 > end:
        raise _malformed("truncated length")
    length = octets.get_u32(raw, at)
    if at + 4 + length > end:
        raise _malformed(f"length {length} exceeds the {end - at - 4} octets left")
    return length


def _decode_table(raw: bytes, at: int, end: int, depth: int) -> Table:
    if depth > MAX_DEPTH:
        raise _malformed("nested too deeply")
    values: dict[str, Value] = {}
    kinds: dict[str, str] = {}
    while at < end:
        key_end = at + 1 + raw[at]
        if key_end >= end:
            raise _malformed("truncated key")
        key = raw[at + 1 : key_end].decode("utf-8", "surrogateescape")
        kind = _letter(raw[key_end])
        values[key], at = _decode_value(raw, kind, key_end + 1, end, depth)
        kinds[key] = kind
    table = Table(values)
    table.kinds = kinds
    return table


def _decode_array(raw: bytes, at: int, end: int, depth: int) -> Array:
    if depth > MAX_DEPTH:
        raise _malformed("nested too deeply")
    array = Array()
    while at < end:
        kind = _letter(raw[at])
        value, at = _decode_value(raw, kind, at + 1, end, depth)
        array.append(value)
        array.kinds.append(kind)
    return array


def _letter(octet: int) -> str:
    letter = _LETTERS.get(octet)
    if letter is None:
        raise _malformed(f"unknown field type {octet:#04x}")
    return letter


def _decode_value(raw: bytes, kind: str, at: int, end: int, depth: int) -> tuple[Value, int]:
    """Decode one value of a known type; also return its end, never after `end`."""
    if kind in "SxAF":
        start = at + 4
        stop = start + _length(raw, at, end)
        if kind == "S":
            return raw[start:stop].decode("utf-8", "surrogateescape"), stop
        if kind == "F":
            return _decode_table(raw, start, stop, depth + 1), stop
        if kind == "A":
            return _decode_array(raw, start, stop, depth + 1), stop
        return raw[start:stop], stop
    if kind == "V":
        return None, at
    if kind == "t":
        if at >= end:
            raise _malformed("truncated bool")
        return raw[at] != 0, at + 1
    codec = _DECIMAL if kind == "D" else _NUMBERS[kind]
    stop = at + codec.size
    if stop > end:
        raise _malformed(f"truncated {_NAMES[kind]}")
    if kind == "D":
        scale, digits = _DECIMAL.unpack_from(raw, at)
        return Decimal(digits).scaleb(-scale), stop
    value: int | float = codec.unpack_from(raw, at)[0]
    return Timestamp(value) if kind == "T" else value, stop


def _encode_table(out: bytearray, table: Mapping[str, Value], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError("table nested too deeply")
    start = len(out)
    out += b"\0\0\0\0"
    kinds = table.kinds if isinstance(table, Table) else {}
    for key, value in table.items():
        name = key.encode("utf-8", "surrogateescape")
        if len(name) > 255:
            raise ValueError(f"table key longer than 255 octets: {key[:32]!r}…")
        out.append(len(name))
        out += name
        _encode_value(out, kinds.get(key), value, depth)
    out[start : start + 4] = (len(out) - start - 4).to_bytes(4, "big")


def _encode_array(out: bytearray, array: list[Value], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError("array nested too deeply")
    start = len(out)
    out += b"\0\0\0\0"
    # The kinds of an edited array no longer match its items: infer them all.
    kinds = array.kinds if isinstance(array, Array) and len(array.kinds) == len(array) else None
    for index, value in enumerate(array):
        _encode_value(out, kinds[index] if kinds is not None else None, value, depth)
    out[start : start + 4] = (len(out) - start - 4).to_bytes(4, "big")


def _encode_value(out: bytearray, known: str | None, value: Value, depth: int) -> None:
    kind = _kind_for(known, value)
    out.append(ord(kind))
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogateescape")
        out += len(text).to_bytes(4, "big")
        out += text
    elif isinstance(value, bool):
        out.append(value)
    elif isinstance(value, int | float):
        out += _NUMBERS[kind].pack(value)
    elif isinstance(value, dict):
        _encode_table(out, value, depth + 1)
    elif isinstance(value, list):
        _encode_array(out, value, depth + 1)
    elif isinstance(value, bytes):
        out += len(value).to_bytes(4, "big")
        out += value
    elif isinstance(value, Decimal):
        out += _encode_decimal(value)


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if sign or not isinstance(exponent, int) or not -255 <= exponent <= 10:
        raise ValueError(f"{value} has no AMQP decimal form")
    number = int("".join(map(str, digits)) or "0") * 10 ** max(exponent, 0)
    if number >= 1 << 32:
        raise ValueError(f"{value} has no AMQP decimal form")
    return _DECIMAL.pack(max(-exponent, 0), number)


def _kind_for(known: str | None, value: Value) -> str:
    return known if known is not None and _suits(known, value) else _infer(value)


def _family(value: Value) -> str:
    """The type letter that stands for all types as which a Python value may be sent."""
    letter = _FAMILIES.get(type(value))
    if letter is not None:
        return letter
    for family, letter in _FAMILIES.items():
        if isinstance(value, family):
            return letter
    raise ValueError(f"{type(value).__name__} has no AMQP form")


def _suits(kind: str, value: Value) -> bool:
    """Whether `value` can be sent as `kind`."""
    family = _family(value)
    if family == kind:
        family_range = _RANGES.get(kind)
        return family_range is None or (isinstance(value, int) and family_range[0] <= value <= family_range[1])
    if family == "l" and isinstance(value, int):
        low, high = _RANGES.get(kind, (1, 0))
        return low <= value <= high
    if family == "d" and isinstance(value, float):
        return kind == "f" and not _FLOAT_MAX < abs(value) < inf
    return False


def _infer(value: Value) -> str:
    """The wire type of a value from Python code."""
    kind = _family(value)
    if isinstance(value, int) and kind in "lT":
        kind = "I" if kind == "l" and _suits("I", value) else kind
        if not _suits(kind, value):
            raise ValueError(f"{value} does not fit in 64 bits")
    return kind
