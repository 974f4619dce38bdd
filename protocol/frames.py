"""Reads and writes frames of the hot methods: publish, ack, nack, reject, deliver, get-ok, return.

`FrameReader.feed` parses a whole read in one loop without an object per frame; other methods go to `on_method` and
`on_odd_frame`. `OutBuffer` collects answers until the end of the read, except large bodies: `BodyFrames` splits those
as the socket accepts them. Every size is checked here before lower layers read. Most messages resemble the one before:
comparing octets detects a publish that repeats the last one up to its body, and a delivery that differs only in tag and
body takes a few copies.
"""

from struct import Struct

from rabbitlike.protocol import erlang, octets
from rabbitlike.protocol.constants import (
    BASIC_ACK,
    BASIC_DELIVER,
    BASIC_GET_OK,
    BASIC_NACK,
    BASIC_PUBLISH,
    BASIC_REJECT,
    BASIC_RETURN,
    BODY_FRAME,
    FRAME_END,
    FRAME_OVERHEAD,
    HEADER_FRAME,
    METHOD_FRAME,
)
from rabbitlike.protocol.content import Content
from rabbitlike.protocol.errors import frame_error

SMALLEST_BUFFER = 512
#: A larger buffer is freed after a burst.
KEPT_BUFFER = 65536
#: A larger body of several frames is encoded in steps: copying it whole would delay other clients.
LARGE_BODY = 1024 * 1024
_FRAME_HEAD = Struct(">BHI")
_FRAME_END = bytes((FRAME_END,))


class BodyFrames:
    """The body frames of one large message, encoded in pieces."""

    __slots__ = ("_at", "_body", "_channel", "_payload_max", "size")

    def __init__(self, channel: int, body: bytes, payload_max: int) -> None:
        self._channel = channel
        self._body = body
        self._payload_max = payload_max
        self._at = 0
        #: Octets of all frames.
        self.size = len(body) + FRAME_OVERHEAD * ((len(body) + payload_max - 1) // payload_max)

    def take(self, most: int) -> bytes:
        """The next whole frames, until they reach ``most`` octets. Empty after the last frame."""
        body = memoryview(self._body)
        parts: list[bytes | memoryview] = []
        while most > 0 and self._at < len(body):
            payload = body[self._at : self._at + self._payload_max]
            parts += (_FRAME_HEAD.pack(BODY_FRAME, self._channel, len(payload)), payload, _FRAME_END)
            self._at += len(payload)
            most -= len(payload) + FRAME_OVERHEAD
        return b"".join(parts)


class DeliveryTemplate:
    """The octets of a delivery's frames without its tag, its body and the body's two sizes."""

    __slots__ = ("before", "behind", "between", "size")

    def __init__(self, frames: bytes, tag_at: int, properties_size: int, body_size: int) -> None:
        """Make a template of a delivery with its tag at ``tag_at`` and one body frame."""
        body_at = len(frames) - 1 - body_size
        size_at = body_at - 7 - 1 - properties_size - 8
        #: Octets before the tag, between the tag and the body's size, and between that and the body frame's size.
        self.before = frames[:tag_at]
        self.behind = frames[tag_at + 8 : size_at]
        self.between = frames[size_at + 8 : body_at - 4]
        #: All octets except the body.
        self.size = len(frames) - body_size


class OutBuffer:
    """Output for one client. Grows as needed; `take` empties it."""

    __slots__ = ("data", "held", "size")

    def __init__(self) -> None:
        self.data = bytearray(SMALLEST_BUFFER)
        self.size = 0
        #: Large bodies and the octets before each of them; all of it precedes `data`. None if empty.
        self.held: list[bytes | BodyFrames] | None = None

    def reserve(self, size: int) -> None:
        """Allocate space for ``size`` more octets. Invalidates pointers into the buffer."""
        needed = self.size + size
        room = len(self.data)
        if needed > room:
            while room < needed:
                room *= 2
            self.data += bytes(room - len(self.data))

    def take(self) -> bytes:
        """Return the contents and empty the buffer."""
        p = self.data
        data = octets.cut(p, 0, self.size)
        if len(self.data) > KEPT_BUFFER and self.size < KEPT_BUFFER // 8:
            self.data = bytearray(SMALLEST_BUFFER)
        self.size = 0
        return data

    def take_held(self) -> list[bytes | BodyFrames]:
        """Return the contents in order, including large bodies, and empty the buffer."""
        held = [] if self.held is None else self.held
        self.held = None
        if self.size:
            held.append(self.take())
        return held

    def waiting_bytes(self) -> int:
        """The size of the contents, including large bodies."""
        held = 0 if self.held is None else sum(len(p) if isinstance(p, bytes) else p.size for p in self.held)
        return self.size + held

    def put(self, data: bytes) -> None:
        """Add an encoded frame."""
        self.reserve(len(data))
        p = self.data
        octets.put_bytes(p, self.size, data)
        self.size += len(data)

    def put_settled(self, index: int, channel: int, delivery_tag: int, bits: int) -> None:
        """Add basic.ack or basic.nack, the two methods that a broker sends with only a tag and flags."""
        self.reserve(21)
        p = self.data
        at = self.size
        octets.put_method_head(p, at, channel, 13, index)
        octets.put_tag(p, at + 11, delivery_tag, bits)
        p[at + 20] = FRAME_END
        self.size = at + 21

    def put_deliver(
        self,
        channel: int,
        consumer_tag: bytes,
        delivery_tag: int,
        redelivered: bool,
        address: bytes,
        properties: bytes,
        body: bytes,
        payload_max: int,
    ) -> None:
        """Add a delivery. ``consumer_tag`` includes its length octet; ``address`` is exchange and routing key as
        published."""
        size = 13 + len(consumer_tag) + len(address)
        self.reserve(size + FRAME_OVERHEAD)
        p = self.data
        at = self.size
        octets.put_method_head(p, at, channel, size, BASIC_DELIVER)
        octets.put_bytes(p, at + 11, consumer_tag)
        at += 11 + len(consumer_tag)
        octets.put_tag(p, at, delivery_tag, redelivered)
        octets.put_bytes(p, at + 9, address)
        at += 9 + len(address)
        p[at] = FRAME_END
        self.size = at + 1
        self._put_content(channel, properties, body, payload_max)

    def put_like(self, like: DeliveryTemplate, delivery_tag: int, body: bytes) -> None:
        """Add a delivery that differs from the template only in tag and body; its body is not empty and fits in a
        frame."""
        size = like.size + len(body)
        self.reserve(size)
        p = self.data
        octets.put_like(p, self.size, like.before, delivery_tag, like.behind, like.between, body)
        self.size += size

    def put_run(self, like: DeliveryTemplate, delivery_tag: int, bodies: list[bytes], body_bytes: int) -> None:
        """Add several such deliveries with consecutive tags from ``tag`` on and ``body_bytes`` octets of bodies."""
        size = len(bodies) * like.size + body_bytes
        self.reserve(size)
        p = self.data
        octets.put_run(p, self.size, like.before, delivery_tag, like.behind, like.between, bodies)
        self.size += size

    def put_get_ok(
        self,
        channel: int,
        delivery_tag: int,
        redelivered: bool,
        address: bytes,
        message_count: int,
        properties: bytes,
        body: bytes,
        payload_max: int,
    ) -> None:
        size = 17 + len(address)
        self.reserve(size + FRAME_OVERHEAD)
        p = self.data
        at = self.size
        octets.put_method_head(p, at, channel, size, BASIC_GET_OK)
        octets.put_tag(p, at + 11, delivery_tag, redelivered)
        octets.put_bytes(p, at + 20, address)
        at += 20 + len(address)
        octets.put_u32(p, at, message_count)
        p[at + 4] = FRAME_END
        self.size = at + 5
        self._put_content(channel, properties, body, payload_max)

    def put_return(
        self, channel: int, code: int, text: bytes, address: bytes, properties: bytes, body: bytes, payload_max: int
    ) -> None:
        """Add basic.return. ``text`` includes its length octet."""
        size = 6 + len(text) + len(address)
        self.reserve(size + FRAME_OVERHEAD)
        p = self.data
        at = self.size
        octets.put_method_head(p, at, channel, size, BASIC_RETURN)
        octets.put_u16(p, at + 11, code)
        octets.put_bytes(p, at + 13, text)
        at += 13 + len(text)
        octets.put_bytes(p, at, address)
        at += len(address)
        p[at] = FRAME_END
        self.size = at + 1
        self._put_content(channel, properties, body, payload_max)

    def _put_content(self, channel: int, properties: bytes, body: bytes, payload_max: int) -> None:
        """Add the content header and as many body frames as ``payload_max`` requires; none for an empty body."""
        body_size = len(body)
        frames = (body_size + payload_max - 1) // payload_max
        header_size = 12 + len(properties)
        is_large = frames > 1 and body_size > LARGE_BODY
        self.reserve(header_size + FRAME_OVERHEAD + (0 if is_large else body_size + FRAME_OVERHEAD * frames))
        p = self.data
        at = self.size
        octets.put_content_head(p, at, channel, header_size, body_size)
        octets.put_bytes(p, at + 19, properties)
        at += 7 + header_size
        p[at] = FRAME_END
        at += 1
        if is_large:
            self.size = at
            held = self.take_held()
            held.append(BodyFrames(channel, body, payload_max))
            self.held = held
            return
        start = 0
        while start < body_size:
            size = body_size - start
            if size > payload_max:
                size = payload_max
            octets.put_frame_head(p, at, BODY_FRAME, channel, size)
            octets.put_part(p, at + 7, body, start, size)
            at += 7 + size
            p[at] = FRAME_END
            at += 1
            start += size
        self.size = at


class FrameReader:
    """Parses frames from a read buffer; the base class of a connection."""

    __slots__ = (
        "_between",
        "_current",
        "_head",
        "_is_known",
        "_may_repeat",
        "_publish_at",
        "at",
        "channels",
        "current_number",
        "is_stalled",
        "method_index",
        "payload_max",
    )

    def __init__(self) -> None:
        #: Start of the next frame. Advances past a frame before it is handled, so that an error does not lose the
        #: position.
        self.at = 0
        #: parity: a payload may be as large as frame_max itself, because many clients ignore the overhead.
        self.payload_max = 4096
        #: Class and method being handled, for the close if it fails; 0 if it is not a method.
        self.method_index = 0
        self.channels: dict[int, Content] = {}
        #: Channel of the current frame, and the entry of `channels` for that number.
        self.current_number = 0
        self._current: Content | None = None
        self._is_known = False
        #: Set while handling a frame to stop right after it; the rest stays unread.
        self.is_stalled = False
        #: The next publish may repeat the last one on the current channel: octets of that up to its body's size, and
        #: from there to the size of the body frame.
        self._may_repeat = False
        self._head = b""
        self._between = b""
        #: Where the current publish starts in this read; -1 if other frames interrupt it or it began in an earlier
        #: read.
        self._publish_at = -1

    def on_method(self, channel: Content, payload: bytes) -> None:
        """Handle a method that is not hot, on a channel that expects one."""
        raise NotImplementedError

    def on_odd_frame(self, kind: int, number: int, payload: bytes) -> None:
        """Handle a frame that no open channel expected."""
        raise NotImplementedError

    def forget_current(self) -> None:
        """Clear the cached channel; call it whenever ``channels`` changes."""
        self._is_known = False
        self._current = None
        self._may_repeat = False

    def feed(self, data: bytearray, end: int) -> None:
        """Handle every whole frame of ``data[self.at:end]`` and set ``self.at`` to the start of the incomplete rest."""
        p = data
        at = self.at
        self._publish_at = -1
        while end - at >= 7:
            if self._may_repeat and self._repeats(p, at, end):
                at = self.at
                if self.is_stalled:
                    return
                continue
            kind, number, size = octets.frame_head(p, at)
            following = at + size + FRAME_OVERHEAD
            if size > self.payload_max or (following <= end and p[following - 1] != FRAME_END):
                self._lose_framing(p, at, kind, size)
            if following > end:
                return
            self.at = following
            if number != self.current_number or not self._is_known:
                self.current_number = number
                self._current = self.channels.get(number)
                self._is_known = True
                self._may_repeat = False
                self._publish_at = -1
            channel = self._current
            if channel is None or kind != channel.expecting:
                self.method_index = 0
                self.on_odd_frame(kind, number, octets.cut(p, at + 7, following - 1))
            elif kind == METHOD_FRAME:
                self._publish_at = at
                self._may_repeat = False
                self._take_method(channel, p, at + 7, size)
            else:
                self.method_index = BASIC_PUBLISH
                if kind == HEADER_FRAME:
                    channel.take_header(p, at + 7, size)
                else:
                    if self._publish_at >= 0 and channel.is_repeated and size == channel.body_size:
                        size_at = at - 9 - len(channel.properties.raw)
                        self._head = octets.cut(p, self._publish_at, size_at)
                        self._between = octets.cut(p, size_at + 8, at + 3)
                        self._may_repeat = True
                    self._publish_at = -1
                    channel.take_body(p, at + 7, size)
            at = following
            if self.is_stalled:
                return

    def _repeats(self, p: bytearray, at: int, end: int) -> bool:
        """Handle the publish at ``at``, and those like it after it, if it is complete and like the last one. Whether it
        was."""
        channel = self._current
        if channel is None or channel.expecting != METHOD_FRAME:
            return False
        bodies: list[bytes] = []
        largest = min(self.payload_max, channel.body_size_max)
        following = octets.cut_run(p, at, end, self._head, self._between, largest, bodies)
        count = len(bodies)
        if count == 0:
            return False
        self.at = following
        self.method_index = BASIC_PUBLISH
        if count == 1:
            channel.on_publish(bodies[0])
            return True
        around = len(self._head) + len(self._between) + 13
        taken = channel.on_publishes(bodies, following - at - count * around)
        if taken < count:
            # The turn has no time for the rest: it stays unread.
            left = count - taken
            self.at = following - left * around - sum(map(len, bodies[taken:]))
        return True

    def _lose_framing(self, p: bytearray, at: int, kind: int, size: int) -> None:
        """Raise the framing error; the start of the next frame is unknown."""
        self.method_index = 0
        if size > self.payload_max:
            told = f"{{frame_too_large,{size},{self.payload_max - FRAME_OVERHEAD}}}"
            raise frame_error(f"{erlang.frame(kind, b'')}: {told}")
        payload = octets.cut(p, at + 7, at + 7 + size)
        raise frame_error(f"{erlang.frame(kind, payload)}: {{invalid_frame_end_marker,{p[at + 7 + size]}}}")

    def _take_method(self, channel: Content, p: bytearray, at: int, size: int) -> None:
        index = octets.get_u32(p, at) if size >= 4 else 0
        self.method_index = index
        if index == BASIC_PUBLISH:
            channel.take_publish(p, at + 4, at + size)
        elif index == BASIC_ACK and size >= 13:
            channel.on_ack(octets.get_u64(p, at + 4), (p[at + 12] & 1) != 0)
        elif index == BASIC_NACK and size >= 13:
            channel.on_nack(octets.get_u64(p, at + 4), (p[at + 12] & 1) != 0, (p[at + 12] & 2) != 0)
        elif index == BASIC_REJECT and size >= 13:
            channel.on_reject(octets.get_u64(p, at + 4), (p[at + 12] & 1) != 0)
        else:
            self.on_method(channel, octets.cut(p, at, at + size))
