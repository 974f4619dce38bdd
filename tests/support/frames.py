"""The client's side of the codec: pamqp reads and writes the frames, so our own codec never checks itself.

Tests must be able to send what pamqp refuses to build: `loose` builds a method without pamqp's checks, any field given
as bytes goes out unchanged, `Typed` forces a table value's type letter, `frame` builds any frame at all.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar
from unittest.mock import patch

from pamqp import base, body, commands, encode, header, heartbeat
from pamqp import decode as pamqp_decode
from pamqp import frame as pamqp_frame
from pamqp.exceptions import UnmarshalingException

F = TypeVar("F", bound=base.Frame)

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = 0xCE

#: One frame of each kind, as bytes that a client may send.
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"


class Typed(NamedTuple):
    """A table value with its type letter: `Typed("l", 5)` is an int64, whatever pamqp would choose."""

    kind: str
    value: object


# ---------------------------------------------------------------------------------------------- by hand


def octet(value: int) -> bytes:
    return struct.pack(">B", value)


def short(value: int) -> bytes:
    return struct.pack(">H", value)


def long(value: int) -> bytes:
    return struct.pack(">I", value)


def longlong(value: int) -> bytes:
    return struct.pack(">Q", value)


def shortstr(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return octet(len(raw)) + raw


def longstr(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return long(len(raw)) + raw


def frame(kind: int, channel: int, payload: bytes = b"", *, size: int | None = None, end: int = END) -> bytes:
    """Build one whole frame; `size` and `end` may be wrong."""
    return struct.pack(">BHI", kind, channel, len(payload) if size is None else size) + payload + octet(end)


def method_frame(channel: int, class_id: int, method_id: int, *arguments: bytes) -> bytes:
    return frame(METHOD, channel, short(class_id) + short(method_id) + b"".join(arguments))


def header_frame(
    channel: int, body_size: int, properties: bytes = b"\x00\x00", *, class_id: int = 60, weight: int = 0
) -> bytes:
    """Build a content header; `properties` is the flags and the property list."""
    return frame(HEADER, channel, struct.pack(">HHQ", class_id, weight, body_size) + properties)


def body_frame(channel: int, payload: bytes) -> bytes:
    return frame(BODY, channel, payload)


# ------------------------------------------------------------------------------------------ through pamqp

_TYPED = {
    "b": ">b",
    "B": ">B",
    "s": ">h",
    "u": ">H",
    "I": ">i",
    "i": ">I",
    "l": ">q",
    "L": ">q",
    "f": ">f",
    "d": ">d",
    "T": ">Q",
}


def _field(value: object) -> bytes:
    """Encode a table value with its type letter: pamqp's choice, unless it is `Typed` or holds a `Typed`."""
    if isinstance(value, Typed):
        letter = value.kind.encode()
        if value.kind in _TYPED:
            return letter + struct.pack(_TYPED[value.kind], value.value)
        if value.kind in "Sx" and isinstance(value.value, (str, bytes)):
            return letter + longstr(value.value)
        if value.kind == "V":
            return letter
        raise ValueError(f"cannot force type {value.kind!r}")
    if isinstance(value, Mapping):
        return b"F" + table(value)
    if isinstance(value, (list, tuple)):
        return b"A" + longstr(b"".join(_field(item) for item in value))
    return encode.encode_table_value(value)  # type: ignore[arg-type]


def table(values: Mapping[str, object]) -> bytes:
    """Encode a field table with its length; keeps the order given."""
    return longstr(b"".join(shortstr(key) + _field(value) for key, value in values.items()))


def _argument(value: object, kind: str) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if kind == "table":
        assert isinstance(value, Mapping)
        return table(value)
    if kind == "timestamp" and isinstance(value, int):
        return longlong(value)
    if kind == "longlong" and isinstance(value, int):
        return longlong(value)
    return encode.by_type(value, kind)  # type: ignore[arg-type]


def properties(**fields: object) -> bytes:
    """Encode flags and property list of the given fields, in pamqp's names (`message_type` is AMQP's type)."""
    flags, parts = 0, []
    for name in commands.Basic.Properties.__slots__:
        if fields.get(name) is not None:
            flags |= commands.Basic.Properties.flags[name]
            parts.append(_argument(fields[name], commands.Basic.Properties.amqp_type(name)))
    unknown = set(fields) - set(commands.Basic.Properties.__slots__)
    assert not unknown, f"no such property: {unknown}"
    return short(flags) + b"".join(parts)


def arguments(method: base.Frame) -> bytes:
    """Encode the arguments of a method without checks; fields that are bytes count as already encoded."""
    parts: list[bytes] = []
    bits = count = 0
    for name in method.__slots__:
        kind = method.amqp_type(name)
        value = getattr(method, name)
        if kind == "bit":
            bits |= bool(value) << count
            count += 1
            continue
        if count:
            parts.append(octet(bits))
            bits = count = 0
        parts.append(_argument(value, kind))
    if count:
        parts.append(octet(bits))
    return b"".join(parts)


def loose(cls: type[F], **fields: object) -> F:
    """Build a method with any fields: `loose(commands.Queue.Declare, ticket=7, queue="a\\nb")`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # basic.recover-async
        method = cls()
    for name, value in fields.items():
        assert name in cls.__slots__, f"{cls.name} has no field {name}"
        setattr(method, name, value)
    return method


def encode_method(method: base.Frame, channel: int) -> bytes:
    return frame(METHOD, channel, long(method.index) + arguments(method))


# ---------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class UnknownMethod:
    """A method for which pamqp has no class (access.request-ok)."""

    class_id: int
    method_id: int
    arguments: bytes


@dataclass(frozen=True, slots=True)
class UnreadableHeader:
    """A content header that pamqp cannot read but brokers pass on: non-text keys, times after the year 9999."""

    payload: bytes


Decoded = (
    base.Frame
    | header.ContentHeader
    | body.ContentBody
    | heartbeat.Heartbeat
    | header.ProtocolHeader
    | UnknownMethod
    | UnreadableHeader
)


@dataclass(frozen=True, slots=True)
class Received:
    """One frame that the server wrote: decoded by pamqp, and as raw bytes."""

    channel: int
    frame: Decoded
    raw: bytes

    @property
    def payload(self) -> bytes:
        return self.raw[7:-1]

    def __repr__(self) -> str:
        if isinstance(self.frame, base.Frame):
            return f"{self.channel}:{self.frame.name}({dict(self.frame)})"
        return f"{self.channel}:{type(self.frame).__name__}({self.payload[:80]!r})"


def decode(raw: bytes) -> Received:
    """Read one whole frame with pamqp; anything pamqp cannot read is the server's error and raises."""
    kind, channel, size = struct.unpack_from(">BHI", raw)
    assert (len(raw), raw[-1]) == (size + 8, END), f"the server wrote a broken frame: {raw[:64]!r}"
    if kind == METHOD:
        class_id, method_id = struct.unpack_from(">HH", raw, 7)
        if class_id << 16 | method_id not in commands.INDEX_MAPPING:
            return Received(channel, UnknownMethod(class_id, method_id, raw[11:-1]), raw)
    return Received(channel, _unmarshal(raw), raw)


def _unmarshal(raw: bytes) -> Decoded:
    try:
        consumed, _, decoded = pamqp_frame.unmarshal(raw)
    except (UnmarshalingException, UnicodeDecodeError, OverflowError):
        if raw[0] == HEADER:
            return UnreadableHeader(raw[7:-1])
        # Brokers treat names as octets; pamqp requires text.
        with patch.dict(pamqp_decode.METHODS, shortstr=_name):
            consumed, _, decoded = pamqp_frame.unmarshal(raw)
    assert consumed == len(raw)
    return decoded


def _name(value: bytes) -> tuple[int, str]:
    length = value[0]
    return length + 1, value[1 : length + 1].decode("utf-8", "surrogateescape")


def cut(buffer: bytearray) -> list[Received]:
    """Take every whole frame off the front of the buffer."""
    received = []
    while len(buffer) >= 8:
        if buffer.startswith(b"AMQP"):
            raw = bytes(buffer[:8])
            received.append(Received(0, pamqp_frame.unmarshal(raw)[2], raw))
        else:
            length = struct.unpack_from(">I", buffer, 3)[0] + 8
            if len(buffer) < length:
                break
            raw = bytes(buffer[:length])
            received.append(decode(raw))
        del buffer[: len(raw)]
    return received


def publish_frame(channel: int, key: str = "q", exchange: str = "") -> bytes:
    """Build basic.publish, without its content."""
    return encode_method(commands.Basic.Publish(exchange=exchange, routing_key=key), channel)
