"""Reads and writes octets in a buffer: the pure twin of ``octets.pxd``.

The hot modules call ``octets.get_u32(p, at)``. Compiled, that is the inline C of the ``.pxd``; pure, it is the function
here. Both must do the same; this module itself is never compiled. Bounds are not checked: callers have checked the
sizes.
"""

from functools import lru_cache
from struct import Struct, iter_unpack

from rabbitlike.protocol.constants import FRAME_END

_U16 = Struct(">H")
_U32 = Struct(">I")
_U64 = Struct(">Q")
_FRAME_HEAD = Struct(">BHI")
_METHOD_HEAD = Struct(">BHII")
_CONTENT_HEAD = Struct(">HHQ")
_CONTENT_FRAME_HEAD = Struct(">BHIHHQ")
_TAG = Struct(">QB")
_END = bytes((FRAME_END,))


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
    memoryview(p)[at : at + len(data)] = data  # not p[…] = data: that would copy it twice


def put_part(p: bytearray, at: int, data: bytes, start: int, size: int) -> None:
    """Write ``size`` octets of ``data`` from ``start`` on."""
    memoryview(p)[at : at + size] = data if size == len(data) else memoryview(data)[start : start + size]


def frame_head(p: bytes | bytearray, at: int) -> tuple[int, int, int]:
    """Type, channel and payload size of the frame at ``at``."""
    head: tuple[int, int, int] = _FRAME_HEAD.unpack_from(p, at)
    return head


def content_head(p: bytes | bytearray, at: int) -> tuple[int, int, int]:
    """Class, weight and body size of a content header."""
    head: tuple[int, int, int] = _CONTENT_HEAD.unpack_from(p, at)
    return head


def put_frame_head(p: bytearray, at: int, kind: int, channel: int, size: int) -> None:
    _FRAME_HEAD.pack_into(p, at, kind, channel, size)


def put_method_head(p: bytearray, at: int, channel: int, size: int, index: int) -> None:
    """Write the head of a method frame and the method's ids: 11 octets."""
    _METHOD_HEAD.pack_into(p, at, 1, channel, size, index)


def put_content_head(p: bytearray, at: int, channel: int, size: int, body_size: int) -> None:
    """Write the head of a content header frame, with class basic, weight 0 and the body's size: 19 octets."""
    _CONTENT_FRAME_HEAD.pack_into(p, at, 2, channel, size, 60, 0, body_size)


def put_tag(p: bytearray, at: int, delivery_tag: int, bits: int) -> None:
    """Write a delivery tag and the octet of flags after it."""
    _TAG.pack_into(p, at, delivery_tag, bits)


def cut(p: bytes | bytearray, at: int, end: int) -> bytes:
    return bytes(p[at:end])


def same(p: bytes | bytearray, at: int, size: int, data: bytes) -> bool:
    """Whether the ``size`` octets at ``at`` equal ``data``."""
    return size == len(data) and p[at : at + size] == data


@lru_cache(maxsize=1024)
def _sized(head: int, between: int) -> Struct:
    """The layout of ``head`` octets, the body's size, ``between`` octets, and the body frame's size."""
    return Struct(f">{head}sQ{between}sI")


@lru_cache(maxsize=1024)
def _tagged(before: int, behind: int, between: int) -> Struct:
    return Struct(f">{before}sQ{behind}sQ{between}sI")


def cut_run(p: bytearray, at: int, end: int, head: bytes, between: bytes, largest: int, bodies: list[bytes]) -> int:
    """Read publishes that differ only in their bodies, from ``at`` on, and append the bodies to ``bodies``. Return the
    end.

    Each is ``head``, the body's size, ``between``, the body frame's size, the body, and the frame end.
    """
    shape = _sized(len(head), len(between))
    before = 0
    while end - at > shape.size:
        each_head, body_size, each_between, size = shape.unpack_from(p, at)
        body_at = at + shape.size
        last = body_at + size
        if each_head != head or each_between != between or size != body_size or not 0 < size <= largest:
            break
        if last >= end or p[last] != FRAME_END:
            break
        bodies.append(bytes(p[body_at:last]))
        at = last + 1
        if size == before:
            at = _cut_equal(p, at, end, bytes(p[body_at - shape.size : body_at]), size, bodies)
        before = size
    return at


def _cut_equal(p: bytearray, at: int, end: int, head: bytes, size: int, bodies: list[bytes]) -> int:
    """Read publishes of equal size, with a minimum of Python code per message."""
    step = len(head) + size + 1
    for each_head, body, last in iter_unpack(f"{len(head)}s{size}ss", memoryview(p)[at : end - (end - at) % step]):
        if each_head != head or last != _END:
            break
        bodies.append(body)
        at += step
    return at


def put_like(p: bytearray, at: int, before: bytes, tag: int, behind: bytes, between: bytes, body: bytes) -> None:
    """Write ``before``, a tag, ``behind``, the body's size, ``between``, the body frame's size, the body, the frame
    end."""
    put_run(p, at, before, tag, behind, between, [body])


def put_run(p: bytearray, at: int, before: bytes, tag: int, behind: bytes, between: bytes, bodies: list[bytes]) -> None:
    """Do the same as `put_like` for each body, with consecutive tags."""
    pack = _tagged(len(before), len(behind), len(between)).pack
    parts = []
    for body in bodies:
        size = len(body)
        parts.append(pack(before, tag, behind, size, between, size))
        parts.append(body)
        parts.append(_END)
        tag += 1
    put_bytes(p, at, b"".join(parts))
