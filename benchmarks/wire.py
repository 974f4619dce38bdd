"""The subset of AMQP 0-9-1 that the load generator sends and reads, as bytes.

Everything sent during a measurement is built here beforehand. `TagBlock` rewrites a run of frames that differ only in
their delivery tag without a Python step per frame.
"""

import struct
import sys
from array import array
from collections.abc import Iterator, Mapping

METHOD, HEADER, BODY = 1, 2, 3
END = b"\xce"
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_HEAD = struct.Struct(">BHI")  # type, channel, payload size

MethodId = tuple[int, int]
Value = str | int | bool

START, START_OK, TUNE, TUNE_OK = (10, 10), (10, 11), (10, 30), (10, 31)
OPEN, OPEN_OK, CLOSE, CLOSE_OK = (10, 40), (10, 41), (10, 50), (10, 51)
CHANNEL_OPEN, CHANNEL_OPEN_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (20, 10), (20, 11), (20, 40), (20, 41)
EXCHANGE_DECLARE, EXCHANGE_DECLARE_OK, EXCHANGE_DELETE, EXCHANGE_DELETE_OK = (40, 10), (40, 11), (40, 20), (40, 21)
QUEUE_DECLARE, QUEUE_DECLARE_OK, QUEUE_BIND, QUEUE_BIND_OK = (50, 10), (50, 11), (50, 20), (50, 21)
QUEUE_DELETE, QUEUE_DELETE_OK = (50, 40), (50, 41)
QOS, QOS_OK, CONSUME, CONSUME_OK = (60, 10), (60, 11), (60, 20), (60, 21)
PUBLISH, DELIVER, ACK, NACK = (60, 40), (60, 60), (60, 80), (60, 120)
GET, GET_OK, GET_EMPTY = (60, 70), (60, 71), (60, 72)
CANCEL, CANCEL_OK = (60, 30), (60, 31)
CONFIRM_SELECT, CONFIRM_SELECT_OK = (85, 10), (85, 11)
TX_SELECT, TX_SELECT_OK, TX_COMMIT, TX_COMMIT_OK = (90, 10), (90, 11), (90, 20), (90, 21)

# spec: basic.deliver's method payload is class, method, consumer tag; the delivery tag follows that short string.
CONSUMER_TAG_OFFSET = 7 + 4
ACK_TAG_OFFSET = 7 + 4
# spec: a content header is class, weight, body size, property flags and list.
BODY_SIZE_OFFSET = 7 + 4
ACK_FRAME = struct.Struct(">BHIHHQBB")  # type, channel, size, class, method, tag, multiple, end


def shortstr(text: str) -> bytes:
    raw = text.encode()
    return bytes((len(raw),)) + raw


def longstr(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def table(values: Mapping[str, Value]) -> bytes:
    return longstr(b"".join(shortstr(key) + _field(value) for key, value in values.items()))


def _field(value: Value) -> bytes:
    if isinstance(value, bool):
        return b"t" + bytes((value,))
    if isinstance(value, int):
        return b"I" + struct.pack(">i", value)
    return b"S" + longstr(value.encode())


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return FRAME_HEAD.pack(kind, channel, len(payload)) + payload + END


def method(channel: int, method_id: MethodId, arguments: bytes = b"") -> bytes:
    return frame(METHOD, channel, struct.pack(">HH", *method_id) + arguments)


def properties(
    *,
    persistent: bool = False,
    headers: Mapping[str, Value] | None = None,
    priority: int | None = None,
    correlation_id: str | None = None,
    expiration: str | None = None,
    message_id: str | None = None,
    timestamp: int | None = None,
) -> bytes:
    """Return property flags and list, in the order of the specification.

    The delivery mode is always present, as in every real client; the others are optional.
    """
    flags, values = 1 << 12, bytes((2 if persistent else 1,))
    if headers is not None:
        flags, values = flags | 1 << 13, table(headers) + values
    if priority is not None:
        flags, values = flags | 1 << 11, values + bytes((priority,))
    if correlation_id is not None:
        flags, values = flags | 1 << 10, values + shortstr(correlation_id)
    if expiration is not None:
        flags, values = flags | 1 << 8, values + shortstr(expiration)
    if message_id is not None:
        flags, values = flags | 1 << 7, values + shortstr(message_id)
    if timestamp is not None:
        flags, values = flags | 1 << 6, values + struct.pack(">Q", timestamp)
    return struct.pack(">H", flags) + values


def publish(exchange: str, routing_key: str, body: bytes, *, props: bytes, channel: int = 1) -> bytes:
    """Return one message as the frames of a publish. The body must fit one frame."""
    address = b"\x00\x00" + shortstr(exchange) + shortstr(routing_key) + b"\x00"
    head = struct.pack(">HHQ", 60, 0, len(body)) + props
    return method(channel, PUBLISH, address) + frame(HEADER, channel, head) + frame(BODY, channel, body)


def pieces(
    exchange: str, routing_key: str, body: bytes, *, props: bytes, channel: int = 1, frame_max: int = 131_072
) -> Iterator[bytes]:
    """Yield the frames of a publish with a body of any size."""
    address = b"\x00\x00" + shortstr(exchange) + shortstr(routing_key) + b"\x00"
    head = struct.pack(">HHQ", 60, 0, len(body)) + props
    yield method(channel, PUBLISH, address) + frame(HEADER, channel, head)
    step = frame_max - 8
    for at in range(0, len(body), step):
        yield frame(BODY, channel, body[at : at + step])


def get(queue: str, *, auto_ack: bool, channel: int = 1) -> bytes:
    return method(channel, GET, b"\x00\x00" + shortstr(queue) + bytes((auto_ack,)))


def ack(tag: int, *, multiple: bool, channel: int = 1) -> bytes:
    return ACK_FRAME.pack(METHOD, channel, 13, *ACK, tag, multiple, END[0])


def declare_queue(
    name: str, *, durable: bool = False, arguments: Mapping[str, Value] | None = None, channel: int = 1
) -> bytes:
    options = bytes((2 if durable else 0,))
    return method(channel, QUEUE_DECLARE, b"\x00\x00" + shortstr(name) + options + table(arguments or {}))


def delete_queue(name: str, *, channel: int = 1) -> bytes:
    return method(channel, QUEUE_DELETE, b"\x00\x00" + shortstr(name) + b"\x00")


def open_channel(channel: int = 1) -> bytes:
    return method(channel, CHANNEL_OPEN, b"\x00")


def close_channel(channel: int = 1) -> bytes:
    return method(channel, CHANNEL_CLOSE, struct.pack(">H", 200) + shortstr("") + b"\x00\x00\x00\x00")


class TagBlock:
    """`count` copies of one frame sequence, or of several of one size in turn, each with the next delivery tag.

    Tags are written byte by byte: byte k of all tags is one slice assignment with the frame's length as its step, which
    the interpreter runs as a C loop. A tag costs some tens of nanoseconds instead of a pack_into each.
    """

    def __init__(self, template: bytes, tag_offset: int, count: int, *others: bytes) -> None:
        self.size = len(template)
        self.count = count
        self._offset = tag_offset
        templates = (template, *others)
        self._block = bytearray(b"".join([templates[number % len(templates)] for number in range(count)]))
        self._view = memoryview(self._block)
        self._first = 0
        self._cover(1)

    def upto(self, first: int, last: int) -> memoryview:
        """Return the frames for tags `first` to `last`, or to the end of this block."""
        if not self._first <= first < self._first + self.count:
            self._cover(first)
        start = first - self._first
        stop = min(last + 1 - self._first, self.count)
        return self._view[start * self.size : stop * self.size]

    def _cover(self, first: int) -> None:
        tags = array("Q", range(first, first + self.count))
        if sys.byteorder == "little":
            tags.byteswap()
        raw = tags.tobytes()
        for k in range(8):
            self._block[self._offset + k :: self.size] = raw[k::8]
        self._first = first
