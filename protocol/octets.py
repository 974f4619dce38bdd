"""Reading and writing octets in a buffer: the pure twin of ``octets.pxd``.

The hot modules say ``octets.get_u32(p, at)``. Compiled, that is the inline C of the ``.pxd``; pure, it is the function
here. Both must do the same; this module itself is never compiled. No bounds are checked: callers have looked at the
sizes first.
"""

from struct import Struct

_U16 = Struct(">H")
_U32 = Struct(">I")
_U64 = Struct(">Q")


def get_u16(p: bytes | bytearray, at: int) -> int:
    return (p[at] << 8) | p[at + 1]


def get_u32(p: bytes | bytearray, at: int) -> int:
    value: int = _U32.unpack_from(p, at)[0]
    return value


def get_u64(p: bytes | bytearray, at: int) -> int:
    value: int = _U64.unpack_from(p, at)[0]
    return value


def put_u16(p: bytearray, at: int, value: int) -> None:
    _U16.pack_into(p, at, value)


def put_u32(p: bytearray, at: int, value: int) -> None:
    _U32.pack_into(p, at, value)


def put_u64(p: bytearray, at: int, value: int) -> None:
    _U64.pack_into(p, at, value)


def put_bytes(p: bytearray, at: int, data: bytes) -> None:
    p[at : at + len(data)] = data


def put_part(p: bytearray, at: int, data: bytes, start: int, size: int) -> None:
    """Write ``size`` octets of ``data`` from ``start`` on."""
    p[at : at + size] = data[start : start + size]


def cut(p: bytes | bytearray, at: int, end: int) -> bytes:
    return bytes(p[at:end])


def same(p: bytes | bytearray, at: int, size: int, data: bytes) -> bool:
    """Do the ``size`` octets at ``at`` equal ``data``?"""
    return size == len(data) and p[at : at + size] == data
