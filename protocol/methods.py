"""Decodes and encodes all methods that are not hot.

pamqp's classes list the fields of each method; the decoding is our own, because field tables must keep their wire
types, names may be any octets, and a broker answers invalid values with AMQP errors, not with pamqp's ValueErrors.
Malformed arguments raise 501 and an unknown id raises 540; no input raises anything else.
"""

import re
from typing import ClassVar, Final, TypeVar

from pamqp import commands
from pamqp.base import Frame

from rabbitlike.protocol import octets, tables
from rabbitlike.protocol.errors import AmqpError, frame_error, not_implemented

MethodT = TypeVar("MethodT", bound=Frame)
FieldValue = bool | int | str | tables.Table

_END: Final = 0xCE
_BIT, _OCTET, _SHORT, _LONG, _LONGLONG, _SHORTSTR, _LONGSTR, _TABLE = range(8)
_CODES: Final[dict[str, int]] = {
    "bit": _BIT,
    "octet": _OCTET,
    "short": _SHORT,
    "long": _LONG,
    "longlong": _LONGLONG,
    "shortstr": _SHORTSTR,
    "longstr": _LONGSTR,
    "table": _TABLE,
}
# Octets of a number, or of the length of a string or table; zero for a bit.
_SIZES: Final = (0, 1, 2, 4, 8, 1, 4, 4)


class Access:
    """The class of AMQP 0-8 that old clients still call and pamqp lacks."""

    class Request(Frame):
        """Request an access ticket; brokers have ignored tickets since 0-9."""

        __slots__: ClassVar[list[str]] = ["realm", "exclusive", "passive", "active", "write", "read"]  # noqa: RUF023 wire order
        frame_id: ClassVar[int] = 10
        index: ClassVar[int] = 0x001E000A
        name: ClassVar[str] = "Access.Request"
        synchronous: ClassVar[bool] = True
        valid_responses: ClassVar[list[str]] = ["Access.RequestOk"]
        _realm = "shortstr"
        _exclusive = "bit"
        _passive = "bit"
        _active = "bit"
        _write = "bit"
        _read = "bit"
        realm: str
        exclusive: bool
        passive: bool
        active: bool
        write: bool
        read: bool

    class RequestOk(Frame):
        """The ticket."""

        __slots__: ClassVar[list[str]] = ["ticket"]
        frame_id: ClassVar[int] = 11
        index: ClassVar[int] = 0x001E000B
        name: ClassVar[str] = "Access.RequestOk"
        _ticket = "short"
        ticket: int


METHODS: Final[dict[int, type[Frame]]] = {
    **commands.INDEX_MAPPING,
    Access.Request.index: Access.Request,
    Access.RequestOk.index: Access.RequestOk,
}


def _plan(cls: type[Frame]) -> tuple[tuple[str, int, int], ...]:
    """The fields in wire order as (name, code, bit mask).

    spec: up to eight consecutive bits share an octet; mask 1 starts a new one.
    """
    steps: list[tuple[str, int, int]] = []
    mask = 0
    for name in cls.attributes():
        code = _CODES[cls.amqp_type(name)]
        mask = ((mask << 1) & 0xFF or 1) if code == _BIT else 0
        steps.append((name, code, mask))
    return tuple(steps)


_PLANS: Final = {index: _plan(cls) for index, cls in METHODS.items()}


def spec_name(method: Frame | type[Frame]) -> str:
    """The method's name as in the specification: `queue.declare-ok`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", method.name).lower()


def make(cls: type[MethodT], **fields: object) -> MethodT:
    """A method, without pamqp's checks of its values; omitted fields are zero, empty or false."""
    method = cls.__new__(cls)
    for name, code, _ in _PLANS[cls.index]:
        setattr(method, name, fields.pop(name) if name in fields else _zero(code))
    if fields:
        raise TypeError(f"{cls.name} has no field {', '.join(fields)}")
    return method


def _zero(code: int) -> FieldValue:
    if code == _BIT:
        return False
    if code == _TABLE:
        return tables.Table()
    return 0 if code < _SHORTSTR else ""


def decode(payload: bytes) -> Frame:
    """The method in the payload of a method frame."""
    if len(payload) < 4:
        raise frame_error("cannot decode method: truncated class and method id")
    p = payload
    index = octets.get_u32(p, 0)
    cls = METHODS.get(index)
    if cls is None:
        raise _about(index, not_implemented(f"unknown method {index >> 16},{index & 0xFFFF}"))
    method = cls.__new__(cls)
    end = len(payload)
    at = 4
    bits = 0
    for name, code, mask in _PLANS[index]:
        value: FieldValue
        if code == _BIT:
            if mask == 1:
                if at >= end:
                    raise _undecodable(cls, "truncated bits")
                bits = p[at]
                at += 1
            value = (bits & mask) != 0
        elif code == _TABLE:
            try:
                value, at = tables.decode(payload, at)
            except AmqpError as error:
                raise _undecodable(cls, error.text.removeprefix("cannot decode ")) from error
        else:
            start = at + _SIZES[code]
            number = _number(p, at, start) if start <= end else 0
            at = start if code < _SHORTSTR else start + number
            if at > end:
                raise _undecodable(cls, f"truncated {name}")
            value = number if code < _SHORTSTR else payload[start:at].decode("utf-8", "surrogateescape")
        setattr(method, name, value)
    # parity: RabbitMQ matches the whole payload, so trailing octets are an error too.
    if at != end:
        raise _undecodable(cls, f"{end - at} octets left over")
    return method


def _number(p: bytes, at: int, end: int) -> int:
    number = 0
    while at < end:
        number = number << 8 | p[at]
        at += 1
    return number


def encode(method: Frame, channel: int) -> bytes:
    """The whole method frame, including the end octet."""
    out = bytearray(b"\x01")
    out += channel.to_bytes(2, "big")
    out += b"\0\0\0\0"
    out += method.index.to_bytes(4, "big")
    for name, code, mask in _PLANS[method.index]:
        value = getattr(method, name)
        if code == _BIT:
            if mask == 1:
                out.append(0)
            if value:
                out[len(out) - 1] |= mask
        elif code == _TABLE:
            out += tables.encode(value or {})
        elif code < _SHORTSTR:
            out += (value or 0).to_bytes(_SIZES[code], "big")
        else:
            text = (value or "").encode("utf-8", "surrogateescape")
            if code == _SHORTSTR and len(text) > 255:
                raise ValueError(f"{method.name}.{name} is longer than 255 octets")
            out += len(text).to_bytes(_SIZES[code], "big")
            out += text
    out[3:7] = (len(out) - 7).to_bytes(4, "big")
    out.append(_END)
    return bytes(out)


def _undecodable(cls: type[Frame], reason: str) -> AmqpError:
    return _about(cls.index, frame_error(f"cannot decode {spec_name(cls)}: {reason}"))


def _about(index: int, error: AmqpError) -> AmqpError:
    """Add the method's ids to an error, because the caller has no method object to take them from."""
    error.class_id = index >> 16
    error.method_id = index & 0xFFFF
    return error
