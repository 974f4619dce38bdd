"""Thrift's compact protocol, as far as a Parquet file needs it."""

from collections.abc import Sequence


class Long(int):
    """A number of eight octets."""


class Octets(bytes):
    """A text; plain bytes are a struct."""


Value = int | bytes | Sequence[int] | Sequence[bytes] | None


def struct(*fields: tuple[int, Value]) -> bytes:
    """A struct with its fields in order of their numbers; None is omitted."""
    out = bytearray()
    last = 0
    for number, value in fields:
        if value is not None:
            out.append((number - last) << 4 | _kind(value))
            _put(out, value)
            last = number
    out.append(0)
    return bytes(out)


def varint(value: int) -> bytes:
    """A non-negative number in as few octets as possible."""
    out = bytearray()
    _put_varint(out, value)
    return bytes(out)


def _kind(value: Value) -> int:
    if isinstance(value, int):
        return 6 if isinstance(value, Long) else 5
    if isinstance(value, bytes):
        return 8 if isinstance(value, Octets) else 12
    return 9


def _put(out: bytearray, value: Value) -> None:
    if isinstance(value, int):
        _put_varint(out, value << 1)
    elif isinstance(value, bytes):
        if isinstance(value, Octets):
            _put_varint(out, len(value))
        out += value
    elif value is not None:
        size = len(value)
        out.append((size if size < 15 else 15) << 4 | _kind(value[0]))
        if size >= 15:
            _put_varint(out, size)
        for item in value:
            _put(out, item)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
