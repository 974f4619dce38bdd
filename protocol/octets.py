"""Reading and writing octets in a buffer: the pure twin of ``octets.pxd``.

The hot modules say ``octets.get_u32(p, at)``. Compiled, that is the inline C of the ``.pxd``; pure, it is the function
here. Both must do the same; this module itself is never compiled. No bounds are checked: callers have looked at the
sizes first.
"""

from struct import Struct

_U16 = Struct(">H")
_U32 = Struct(">I")
_U64 = Struct(">Q")
_FRAME_HEAD = Struct(">BHI")
_METHOD_HEAD = Struct(">BHII")
_CONTENT_HEAD = Struct(">HHQ")
_CONTENT_FRAME_HEAD = Struct(">BHIHHQ")
_TAG = Struct(">QB")


def get_u16(p: bytes | bytearray, at: int) -> int:
    value: int = _U16.unpack_from(p, at)[0]
    return value


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
    p[at : at + size] = data if size == len(data) else data[start : start + size]


def frame_head(p: bytes | bytearray, at: int) -> tuple[int, int, int]:
    """Kind, channel and payload size of the frame at ``at``."""
    head: tuple[int, int, int] = _FRAME_HEAD.unpack_from(p, at)
    return head


def content_head(p: bytes | bytearray, at: int) -> tuple[int, int, int]:
    """Class, weight and body size of a content header."""
    head: tuple[int, int, int] = _CONTENT_HEAD.unpack_from(p, at)
    return head


def put_frame_head(p: bytearray, at: int, kind: int, channel: int, size: int) -> None:
    _FRAME_HEAD.pack_into(p, at, kind, channel, size)


def put_method_head(p: bytearray, at: int, channel: int, size: int, index: int) -> None:
    """The head of a method frame and the method's ids: 11 octets."""
    _METHOD_HEAD.pack_into(p, at, 1, channel, size, index)


def put_content_head(p: bytearray, at: int, channel: int, size: int, body_size: int) -> None:
    """The head of a content header frame, class basic, weight 0 and the body's size: 19 octets."""
    _CONTENT_FRAME_HEAD.pack_into(p, at, 2, channel, size, 60, 0, body_size)


def put_tag(p: bytearray, at: int, delivery_tag: int, bits: int) -> None:
    """A delivery tag and the octet of flags behind it."""
    _TAG.pack_into(p, at, delivery_tag, bits)


def cut(p: bytes | bytearray, at: int, end: int) -> bytes:
    return bytes(p[at:end])


def same(p: bytes | bytearray, at: int, size: int, data: bytes) -> bool:
    """Do the ``size`` octets at ``at`` equal ``data``?"""
    return size == len(data) and p[at : at + size] == data
