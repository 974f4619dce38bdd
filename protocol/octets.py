"""Reading and writing octets in a buffer: the pure twin of ``octets.pxd``.

The hot modules say ``octets.get_u32(p, at)``. Compiled, that is the inline C of the ``.pxd``; pure, it is the function
here. Both must do the same; this module itself is never compiled. No bounds are checked: callers have looked at the
sizes first.
"""

from array import array
from struct import Struct, iter_unpack
from sys import byteorder

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
_NO_TAG = bytes(8)


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
    memoryview(p)[at : at + size] = memoryview(data)[start : start + size]


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


def cut_run(p: bytearray, at: int, end: int, head: bytes, size: int) -> list[bytes]:
    """What stands behind ``head``, ``size`` octets and the end of a frame, for as often as that repeats from ``at`` on.

    Without a step of Python's for each but the loop itself.
    """
    step = len(head) + size + 1
    found = []
    whole = memoryview(p)[at : end - (end - at) % step]
    for each_head, body, last in iter_unpack(f"{len(head)}s{size}ss", whole):
        if each_head != head or last != _END:
            break
        found.append(body)
    return found


def put_run(p: bytearray, at: int, before: bytes, tag: int, behind: bytes, bodies: list[bytes]) -> None:
    """For each body, all of one size: what comes before, the next tag, what is behind that, the body, a frame's end.

    The bodies are joined by what stands between them, and the tags written octet by octet over all of them: byte k of
    every tag is one assignment.
    """
    tag_at = at + len(before)
    step = len(before) + 8 + len(behind) + len(bodies[0]) + 1
    end = at + step * len(bodies)
    head = before + _NO_TAG + behind
    view = memoryview(p)
    view[at : at + len(head)] = head
    view[at + len(head) : end - 1] = (_END + head).join(bodies)
    p[end - 1] = FRAME_END
    tags = array("Q", range(tag, tag + len(bodies)))
    if byteorder == "little":
        tags.byteswap()
    octets = tags.tobytes()
    for k in range(8):
        p[tag_at + k : end : step] = octets[k::8]
