"""Assembles one publish on a channel: basic.publish, its content header and its body frames.

`expecting` is the type of the next frame; the connection handles any other. Memory is allocated for what has arrived,
not for the size that a client announces. The `on_…` methods are overridden by the module that handles publishes.
"""

from io import BytesIO

from rabbitlike.protocol import octets
from rabbitlike.protocol.constants import BASIC_CLASS, BODY_FRAME, DISCARD, HEADER_FRAME, METHOD_FRAME
from rabbitlike.protocol.errors import frame_error, precondition_failed, unexpected_frame
from rabbitlike.protocol.properties import EMPTY, Properties

#: The largest body that is ever accepted, whatever the configuration says.
BODY_SIZE_CAP = 512 * 1024 * 1024
#: Memory blocks of this size are mapped individually: they grow and shrink without a copy, and use no memory until
#: written.
MAPPED = 33 * 1024 * 1024
#: A body larger than MAPPED moves to such a block after this many octets have arrived.
MOVED = 4 * 1024 * 1024


class Content:
    """A channel's interface to the frame reader."""

    __slots__ = (
        "_parts",
        "_publish_arguments",
        "_remaining",
        "address",
        "bits",
        "body_size",
        "body_size_max",
        "expecting",
        "is_repeated",
        "number",
        "properties",
    )

    def __init__(self, number: int, body_size_max: int) -> None:
        self.number = number
        self.expecting = METHOD_FRAME
        self.body_size_max = body_size_max
        #: Arguments of the last basic.publish after the ticket, compared octet by octet with the next one.
        self._publish_arguments = b""
        #: Exchange and routing key of the current publish, as two short strings.
        self.address = b"\x00\x00"
        #: mandatory is bit 0, immediate bit 1.
        self.bits = 0
        self.properties: Properties = EMPTY
        #: Address and properties of the current publish equal those of the one before.
        self.is_repeated = False
        self.body_size = 0
        self._remaining = 0
        #: `BytesIO` grows in place and returns its octets without a copy; a bytearray does not.
        self._parts: BytesIO | None = None

    def on_ack(self, delivery_tag: int, multiple: bool) -> None:
        raise NotImplementedError

    def on_nack(self, delivery_tag: int, multiple: bool, requeue: bool) -> None:
        raise NotImplementedError

    def on_reject(self, delivery_tag: int, requeue: bool) -> None:
        raise NotImplementedError

    def on_address(self) -> None:
        """`address` or `bits` changed: cached data about the last publish is invalid."""
        raise NotImplementedError

    def on_properties(self) -> None:
        """`properties` changed."""
        raise NotImplementedError

    def on_publish(self, body: bytes) -> None:
        """A whole message has arrived; `address`, `bits` and `properties` belong to it."""
        raise NotImplementedError

    def on_part(self) -> None:
        """A part of a body has arrived and is kept; the rest is still to come."""
        raise NotImplementedError

    def on_publishes(self, bodies: list[bytes], body_bytes: int) -> int:
        """Messages that differ only in their bodies have arrived, ``body_bytes`` in total. Return how many were
        handled; the reader keeps the others."""
        for body in bodies:
            self.on_publish(body)
        return len(bodies)

    def take_publish(self, p: bytearray, at: int, end: int) -> None:
        """Take the arguments of basic.publish in ``p[at:end]``. The ticket before the names is ignored."""
        start = at + 2
        if end - start < 3:
            raise frame_error("cannot decode basic.publish")
        self.is_repeated = True
        if not octets.same(p, start, end - start, self._publish_arguments):
            self.is_repeated = False
            key = start + 1 + p[start]
            if key >= end or key + 1 + p[key] + 1 != end:
                raise frame_error("cannot decode basic.publish")
            self._publish_arguments = octets.cut(p, start, end)
            self.address = octets.cut(p, start, end - 1)
            self.bits = p[end - 1]
            self.on_address()
        self.expecting = HEADER_FRAME

    def take_header(self, p: bytearray, at: int, size: int) -> None:
        """Take the content header in ``p[at:at + size]``: class, weight, body size, properties."""
        if size < 14:
            raise frame_error("cannot decode content header")
        class_id, weight, body_size = octets.content_head(p, at)
        if weight != 0:
            # parity: RabbitMQ does not treat this as a content header.
            raise unexpected_frame(
                f"expected content header for class {BASIC_CLASS}, got non content header frame instead"
            )
        if class_id != BASIC_CLASS:
            raise unexpected_frame(
                f"expected content header for class {BASIC_CLASS}, got one for class {class_id} instead"
            )
        if body_size > BODY_SIZE_CAP:
            raise frame_error(f"content body of {body_size} octets is larger than the limit of {BODY_SIZE_CAP}")
        if not octets.same(p, at + 12, size - 12, self.properties.raw):
            self.is_repeated = False
            self.properties = Properties(octets.cut(p, at + 12, at + size))
            self.on_properties()
        self.body_size = body_size
        self._remaining = body_size
        if body_size == 0:
            self.expecting = METHOD_FRAME
            self.on_publish(b"")
        else:
            self.expecting = BODY_FRAME

    def take_body(self, p: bytearray, at: int, size: int) -> None:
        remaining = self._remaining
        if size > remaining:
            raise frame_error(f"content body of {self.body_size} octets announced, {size - remaining} more arrived")
        if size == remaining and self._parts is None and size <= self.body_size_max:
            self.expecting = METHOD_FRAME
            self.on_publish(octets.cut(p, at, at + size))
            return
        self._take_part(octets.cut(p, at, at + size))

    def _take_part(self, part: bytes) -> None:
        """Take one of several body frames. A body over the limit is read to its end, because the channel stays open,
        but not kept."""
        self._remaining -= len(part)
        if self._parts is None:
            self._parts = BytesIO()
        if self.body_size <= self.body_size_max:
            arrived = self.body_size - self._remaining
            if self.body_size > MAPPED and arrived - len(part) <= MOVED < arrived:
                parts = BytesIO(bytes(MAPPED))
                parts.write(self._parts.getvalue())
                self._parts = parts
            self._parts.write(part)
        if self._remaining == 0:
            self._parts.truncate()
            body = self._parts.getvalue()
            self._parts = None
            self.expecting = METHOD_FRAME
            if self.body_size > self.body_size_max:
                raise precondition_failed(
                    f"message size {self.body_size} is larger than configured max size {self.body_size_max}"
                )
            self.on_publish(body)
        else:
            self.on_part()

    def drop_content(self) -> None:
        """Discard the current publish; the channel is closing and expects nothing more."""
        self._parts = None
        self.expecting = DISCARD
