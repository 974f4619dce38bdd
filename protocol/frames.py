"""Frames in, frames out, for the few that are hot: publish, ack, nack, reject, deliver, get-ok, return.

`FrameReader.feed` walks a whole read in one loop and makes no object per frame; what is not hot leaves it through
`on_method` and `on_odd_frame`. `OutBuffer` is where answers stand until the end of the read, but for large bodies:
`BodyFrames` cuts them as the socket takes them. Every size is checked here before anybody below reads. Most messages
look like the one before: a publish that repeats the last one up to its body is known by comparing octets, a delivery
that differs in tag and body alone is a few copies.
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
#: A buffer that grew beyond this goes back to the allocator when a burst is over.
KEPT_BUFFER = 65536
#: A body of several frames that is larger than this is encoded in steps: copying it whole would hold up the others.
LARGE_BODY = 1024 * 1024
_FRAME_HEAD = Struct(">BHI")
_FRAME_END = bytes((FRAME_END,))


class BodyFrames:
    """The body frames of one large message, encoded some at a time."""

    __slots__ = ("_at", "_body", "_channel", "_payload_max", "size")

    def __init__(self, channel: int, body: bytes, payload_max: int) -> None:
        self._channel = channel
        self._body = body
        self._payload_max = payload_max
        self._at = 0
        #: Octets of all frames.
        self.size = len(body) + FRAME_OVERHEAD * ((len(body) + payload_max - 1) // payload_max)

    def take(self, most: int) -> bytes:
        """The next frames, whole ones: as many as ``most`` octets need. Empty: all have been taken."""
        body = memoryview(self._body)
        parts: list[bytes | memoryview] = []
        while most > 0 and self._at < len(body):
            payload = body[self._at : self._at + self._payload_max]
            parts += (_FRAME_HEAD.pack(BODY_FRAME, self._channel, len(payload)), payload, _FRAME_END)
            self._at += len(payload)
            most -= len(payload) + FRAME_OVERHEAD
        return b"".join(parts)


class DeliveryTemplate:
    """What the frames of a delivery are beside its tag, its body and the two sizes of that."""

    __slots__ = ("before", "behind", "between", "size")

    def __init__(self, frames: bytes, tag_at: int, properties_size: int, body_size: int) -> None:
        """Of a delivery whose tag stands at ``tag_at``, with one frame of body."""
        body_at = len(frames) - 1 - body_size
        size_at = body_at - 7 - 1 - properties_size - 8
        #: Before the tag, from there to the body's size, and from there to the size of its frame.
        self.before = frames[:tag_at]
        self.behind = frames[tag_at + 8 : size_at]
        self.between = frames[size_at + 8 : body_at - 4]
        #: All octets but the body.
        self.size = len(frames) - body_size


class OutBuffer:
    """Octets on their way to one client. Grows as needed; `take` empties it."""

    __slots__ = ("data", "held", "size")

    def __init__(self) -> None:
        self.data = bytearray(SMALLEST_BUFFER)
        self.size = 0
        #: Large bodies and what stands before each of them; all of it goes before `data`. None: there is none.
        self.held: list[bytes | BodyFrames] | None = None

    def reserve(self, size: int) -> None:
        """Make room for ``size`` more octets. Pointers into the buffer taken before are void after."""
        needed = self.size + size
        room = len(self.data)
        if needed > room:
            while room < needed:
                room *= 2
            self.data += bytes(room - len(self.data))

    def take(self) -> bytes:
        """All that stands here, leaving it empty."""
        p = self.data
        data = octets.cut(p, 0, self.size)
        if len(self.data) > KEPT_BUFFER and self.size < KEPT_BUFFER // 8:
            self.data = bytearray(SMALLEST_BUFFER)
        self.size = 0
        return data

    def take_held(self) -> list[bytes | BodyFrames]:
        """All that stands here in its order, where large bodies are part of it."""
        held = [] if self.held is None else self.held
        self.held = None
        if self.size:
            held.append(self.take())
        return held

    def waiting_bytes(self) -> int:
        """All that stands here, in octets."""
        held = 0 if self.held is None else sum(len(p) if isinstance(p, bytes) else p.size for p in self.held)
        return self.size + held

    def put(self, data: bytes) -> None:
        """A frame that is encoded already."""
        self.reserve(len(data))
        p = self.data
        octets.put_bytes(p, self.size, data)
        self.size += len(data)

    def put_settled(self, index: int, channel: int, delivery_tag: int, bits: int) -> None:
        """basic.ack or basic.nack, the two methods a broker sends with a tag and flags alone."""
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
        """``consumer_tag`` with its length octet; ``address`` is exchange and routing key, as they were published."""
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
        """A delivery like an earlier one but for its tag and body, which fits in a frame and is not empty."""
        size = like.size + len(body)
        self.reserve(size)
        p = self.data
        octets.put_like(p, self.size, like.before, delivery_tag, like.behind, like.between, body)
        self.size += size

    def put_run(self, like: DeliveryTemplate, delivery_tag: int, bodies: list[bytes], body_bytes: int) -> None:
        """The same for several in a row, with so many octets in all; the tag is the first one's."""
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
        """``text`` with its length octet."""
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
        """Content header and as many body frames as ``payload_max`` asks for; none for an empty body."""
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
    """Cuts frames from a read buffer; a connection is one."""

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
        #: Where the next frame starts. Stands behind a frame before it is handled, so an error does not lose the place.
        self.at = 0
        #: parity: a payload may be as large as frame_max itself, because many clients are off by the overhead.
        self.payload_max = 4096
        #: Class and method of what is being handled, for the close that an error in it brings; 0 when it is no method.
        self.method_index = 0
        self.channels: dict[int, Content] = {}
        #: Channel of the frame being handled, and what `channels` has under that number.
        self.current_number = 0
        self._current: Content | None = None
        self._is_known = False
        #: Set while handling a frame to stop right behind it; what follows stays unread.
        self.is_stalled = False
        #: The next publish may well be like the last one, on the current channel: the octets of that up to its body's
        #: size, and from there to the size of the body's frame.
        self._may_repeat = False
        self._head = b""
        self._between = b""
        #: Where in this read the publish under way started; -1 when it is not all of a piece.
        self._publish_at = -1

    def on_method(self, channel: Content, payload: bytes) -> None:
        """A method that is not hot, on a channel that expects one."""
        raise NotImplementedError

    def on_odd_frame(self, kind: int, number: int, payload: bytes) -> None:
        """Anything that no open channel was waiting for."""
        raise NotImplementedError

    def forget_current(self) -> None:
        """To be called whenever ``channels`` changes."""
        self._is_known = False
        self._current = None
        self._may_repeat = False

    def feed(self, data: bytearray, end: int) -> None:
        """Handle every whole frame of ``data[self.at:end]`` and leave ``self.at`` at the first octet that belongs to
        none."""
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
        """Handle the publish at ``at`` if it is like the last one and all there, and those like it behind. Was it?"""
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
            # The turn has no time for the others: they stay unread.
            left = count - taken
            self.at = following - left * around - sum(map(len, bodies[taken:]))
        return True

    def _lose_framing(self, p: bytearray, at: int, kind: int, size: int) -> None:
        """Nobody can tell where the next frame starts."""
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
