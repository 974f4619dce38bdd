"""What a broker said, as text that can be compared: every method with its fields, every message with its properties,
table values with their types.

What each broker makes up by itself (names it generates, the time of a death) stands there as a word, so that the texts
of two brokers are equal where nothing else differs.
"""

import re
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pamqp import base, commands, header

from rabbitlike.protocol.methods import spec_name
from tests.support.frames import Received

RECENT_S: Final = 600

#: Where answers of one channel come in an order of their own: confirms beside deliveries beside the rest.
CONFIRMS: Final = "confirms"

_GENERATED: Final = (
    (re.compile(r"amq\.gen-[\w-]{22}"), "amq.gen-*"),
    (re.compile(r"amq\.ctag-[\w-]{22}"), "amq.ctag-*"),
    # A process id and a key, in base64.
    (re.compile(r"amq\.rabbitmq\.reply-to\.[\w+/]+=*\.[\w+/]{22}=="), "amq.rabbitmq.reply-to.*"),
)
_PROPERTIES: Final = tuple(
    (name, commands.Basic.Properties.amqp_type(name)) for name in commands.Basic.Properties.__slots__
)
_NUMBERS: Final = {
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
}
_WITH_CONTENT: Final = (commands.Basic.Deliver, commands.Basic.GetOk, commands.Basic.Return)


@dataclass(frozen=True)
class Said:
    """One answer: what it is in order with, and what it says."""

    channel: int
    strand: str
    text: str


def tell(
    received: Sequence[Received], settled: dict[int, set[int]], given: list[str]
) -> tuple[list[Said], list[Received]]:
    """The answers in these frames, and the frames of a message that is not whole yet.

    `settled` are the confirms each channel has had: one that speaks for many is told as many. Names that the broker
    made up are added to `given`, once each."""
    said: list[Said] = []
    waiting = list(received)
    while waiting:
        first = waiting[0]
        if isinstance(first.frame, _WITH_CONTENT):
            taken = _content(waiting)
            if taken is None:
                break
            said.append(_message(first, taken, given))
            waiting = [item for item in waiting if item is not first and item not in taken]
            continue
        waiting.pop(0)
        if isinstance(first.frame, commands.Basic.Ack | commands.Basic.Nack):
            said += _confirms(first, settled)
        else:
            said.append(Said(first.channel, "", _plain(_tell(first), given)))
    return said, waiting


def _plain(text: str, given: list[str]) -> str:
    """Without what this broker made up."""
    for pattern, word in _GENERATED:
        given += [name for name in pattern.findall(text) if name not in given]
        text = pattern.sub(word, text)
    return text


def _tell(item: Received) -> str:
    if isinstance(item.frame, base.Frame):
        return f"{spec_name(item.frame)}{_fields(item)}"
    if isinstance(item.frame, header.ProtocolHeader):
        return repr(item.raw)
    return f"frame of type {item.raw[0]} {item.payload!r}"


def _fields(item: Received) -> str:
    assert isinstance(item.frame, base.Frame)
    if isinstance(item.frame, commands.Connection.Start):
        properties, _ = _table(item.payload, 4 + 2)
        # Who it is: each has its own, of the same type.
        properties = re.sub(
            r"'(cluster_name|copyright|information|platform|version)': S '[^']*'", r"'\1': S", properties
        )
        mechanisms = sorted(item.frame.mechanisms.split())  # offered in whatever order
        return f" {properties} {mechanisms} {item.frame.locales}"
    return "".join(f" {name}={value!r}" for name, value in item.frame if value is not False)


def _content(items: Sequence[Received]) -> list[Received] | None:
    """The header and the bodies that belong to the first of these."""
    mine = [item for item in items[1:] if item.channel == items[0].channel]
    if not mine:
        return None
    (size,) = struct.unpack_from(">Q", mine[0].payload, 4)
    taken, have = [mine[0]], 0
    for item in mine[1:]:
        if have >= size:
            break
        have += len(item.payload)
        taken.append(item)
    return taken if have >= size else None


def _message(first: Received, content: Sequence[Received], given: list[str]) -> Said:
    method = first.frame
    body = b"".join(item.payload for item in content[1:])
    shown = repr(body) if len(body) <= 64 else f"{len(body)} octets {hash(body)}"
    text = _plain(f"{_tell(first)} {_properties(content[0])} {shown}", given)
    strand = _plain(f"consumer {method.consumer_tag}", given) if isinstance(method, commands.Basic.Deliver) else ""
    return Said(first.channel, strand, text)


def _confirms(item: Received, settled: dict[int, set[int]]) -> Iterator[Said]:
    method = item.frame
    assert isinstance(method, commands.Basic.Ack | commands.Basic.Nack)
    known = settled.setdefault(item.channel, set())
    tags = range(1, method.delivery_tag + 1) if method.multiple else [method.delivery_tag]
    for tag in tags:
        if tag not in known or not method.multiple:
            known.add(tag)
            yield Said(item.channel, CONFIRMS, f"{spec_name(method)} {tag}")


# Properties and tables, with the type of every value.


def _properties(item: Received) -> str:
    """All properties of a content header in their order on the wire."""
    payload = item.payload
    class_id, weight = struct.unpack_from(">HH", payload)
    (flags,) = struct.unpack_from(">H", payload, 12)
    at = 14
    told = []
    for bit, (name, kind) in enumerate(_PROPERTIES):
        if flags >> (15 - bit) & 1:
            value, at = _property(payload, at, kind)
            told.append(f"{name}={value}")
    assert (class_id, weight) == (60, 0), payload
    assert at == len(payload), payload
    return f"{{{', '.join(told)}}}"


def _property(p: bytes, at: int, kind: str) -> tuple[str, int]:
    if kind == "table":
        return _table(p, at)
    if kind == "octet":
        return str(p[at]), at + 1
    if kind == "timestamp":
        return str(struct.unpack_from(">Q", p, at)[0]), at + 8
    end = at + 1 + p[at]
    return _text(p[at + 1 : end]), end


def _table(p: bytes, at: int) -> tuple[str, int]:
    fields, at = _fields_of(p, at)
    return f"{{{', '.join(fields)}}}", at


def _fields_of(p: bytes, at: int) -> tuple[list[str], int]:
    (length,) = struct.unpack_from(">I", p, at)
    at += 4
    end = at + length
    told = []
    while at < end:
        key = p[at + 1 : at + 1 + p[at]]
        value, at = _value(p, at + 1 + len(key), key)
        told.append(f"{_text(key)}: {value}")
    assert at == end
    return told, end


def _value(p: bytes, at: int, key: bytes) -> tuple[str, int]:
    kind = chr(p[at])
    at += 1
    if kind in _NUMBERS:
        value = struct.unpack_from(_NUMBERS[kind], p, at)[0]
        return f"{kind} {value}", at + struct.calcsize(_NUMBERS[kind])
    if kind == "V":
        return kind, at
    if kind == "t":
        return f"t {p[at]}", at + 1
    if kind == "T":
        (seconds,) = struct.unpack_from(">Q", p, at)
        is_now = key == b"time" and abs(seconds - time.time()) < RECENT_S
        return f"T {'now' if is_now else seconds}", at + 8
    if kind == "D":
        return f"D {struct.unpack_from('>BI', p, at)}", at + 5
    if kind == "F":
        return _table(p, at)
    (length,) = struct.unpack_from(">I", p, at)
    at += 4
    if kind != "A":
        assert kind in "Sx", f"unknown type {kind!r} in {p!r}"
        return f"{kind} {_text(p[at : at + length])}", at + length
    end, told = at + length, []
    while at < end:
        value, at = _value(p, at, key) if key != b"x-death" else _death(p, at)
        told.append(value)
    return f"[{', '.join(told)}]", end


def _death(p: bytes, at: int) -> tuple[str, int]:
    """One entry of x-death. The order of its fields depends on the version, and in 3.10 on what was there before."""
    if p[at : at + 1] != b"F":
        return _value(p, at, b"")
    fields, at = _fields_of(p, at + 1)
    return f"{{{', '.join(sorted(fields))}}}", at


def _text(octets: bytes) -> str:
    return repr(octets)[1:]
