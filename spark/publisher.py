"""Publishes many messages in few writes: with a window of unconfirmed messages, or in a transaction.

Messages come as three columns: route (a whole basic.publish frame, see `route`), property list, body. Most messages
have the previous message's route and property list, compared by identity: the octets between two bodies are then built
once.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Final

from pamqp import commands

from rabbitlike.protocol import methods
from rabbitlike.protocol.constants import BASIC_CLASS, BODY_FRAME, HEADER_FRAME
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.spark.wire import CHANNEL, Connection

#: Octets gathered for one write.
WRITE_SIZE: Final = 131072

_END: Final = b"\xce"
_HEADER: Final = Struct(">BHIHHQ")
_BODY: Final = Struct(">BHI")
_UNBOUNDED: Final = 1 << 62

WHAT_TO_DO: Final = "create the queue or its binding, or set the option mandatory to false to drop such messages"


class Refused(Exception):
    """The broker refused or returned messages; the text says how many, and their address."""


def route(exchange: str, routing_key: str, *, mandatory: bool) -> bytes:
    """Return the basic.publish frame of messages with this address."""
    publish = methods.make(
        commands.Basic.Publish, exchange=exchange, routing_key=routing_key, mandatory=mandatory, immediate=False
    )
    return methods.encode(publish, CHANNEL)


def read_route(frame: bytes) -> commands.Basic.Publish:
    """Parse such a frame."""
    publish = methods.decode(frame[_BODY.size : -1])
    assert isinstance(publish, commands.Basic.Publish)
    return publish


class Publisher:
    """Publishes on a connection's channel, which is in confirm mode (with `max_in_flight`) or in a transaction."""

    def __init__(self, connection: Connection, max_in_flight: int | None = None) -> None:
        self._connection = connection
        self._max_in_flight = max_in_flight
        self.published = 0
        if max_in_flight is not None:
            connection.select_confirms()

    def publish(self, routes: Iterable[bytes], properties: Iterable[bytes], bodies: Iterable[bytes]) -> None:
        """Return when everything is written, not when it is confirmed. Constant columns are `itertools.repeat`."""
        payload_max = self._connection.payload_max
        before = b""
        last_route = last_list = b""
        last_size = -1
        parts: list[bytes] = []
        add = parts.append
        gathered = count = 0
        room = self._room()
        # strict=False: endless columns stand beside finite ones.
        for body, address, property_list in zip(bodies, routes, properties, strict=False):
            size = len(body)
            if size != last_size or address is not last_route or property_list is not last_list:
                before = _before_body(address, property_list, size, payload_max)
                last_route, last_list, last_size = address, property_list, size
            add(before)
            if 0 < size <= payload_max:
                add(body)
                add(_END)
            else:
                parts.extend(_body_frames(body, payload_max))
            count += 1
            gathered += size + len(before)
            if gathered >= WRITE_SIZE or count == room:
                self._write(parts, count)
                parts.clear()
                gathered = count = 0
                room = self._room()
        if count:
            self._write(parts, count)

    def _write(self, parts: list[bytes], count: int) -> None:
        self.published += count
        with _explaining():
            self._connection.send(b"".join(parts))
            self._connection.read(0)
        self._check()

    def _room(self) -> int:
        """Return how many messages may be sent now; wait until half of a full window is free, for fewer writes."""
        if self._max_in_flight is None:
            return _UNBOUNDED
        in_flight = self._connection.unconfirmed(self.published)
        if in_flight >= self._max_in_flight:
            self._drain(self._max_in_flight // 2)
            in_flight = self._connection.unconfirmed(self.published)
        return self._max_in_flight - in_flight

    def finish(self) -> None:
        """Wait until every message is confirmed; raise Refused if the broker refused one."""
        self._drain(0)

    def _drain(self, most: int) -> None:
        while self._connection.unconfirmed(self.published) > most:
            with _explaining():
                self._connection.read()
            self._check()

    def _check(self) -> None:
        if self._connection.returned:
            raise Refused(describe_returned(self._connection))
        if self._connection.refused:
            raise Refused(
                f"the broker refused {self._connection.refused} of {self.published} messages (basic.nack): a queue is "
                "full and rejects publishes, or the broker could not store them"
            )


@contextmanager
def _explaining() -> Iterator[None]:
    """Rephrase the broker's refusal of a large message in terms of a row."""
    try:
        yield
    except AmqpError as error:
        if not error.text.startswith("message size "):
            raise
        raise Refused(
            f"a row is too large, its {error.text} (max_message_size of the broker): raise that, or store such bodies "
            "elsewhere and publish where they are"
        ) from error


def describe_returned(connection: Connection) -> str:
    """Describe the returned messages, for an error."""
    first = connection.returned[0]
    return (
        f"the broker returned {len(connection.returned)} messages as unroutable, the first from exchange "
        f"'{first.exchange}' with routing key '{first.routing_key}' ({first.code} {first.text}): {WHAT_TO_DO}"
    )


def _before_body(address: bytes, property_list: bytes, size: int, payload_max: int) -> bytes:
    """Return everything before a body that fits one frame, or before the body's frames if it needs several or none."""
    header = _HEADER.pack(HEADER_FRAME, CHANNEL, 12 + len(property_list), BASIC_CLASS, 0, size)
    head = _BODY.pack(BODY_FRAME, CHANNEL, size) if 0 < size <= payload_max else b""
    return address + header + property_list + _END + head


def _body_frames(body: bytes, payload_max: int) -> Iterator[bytes]:
    for start in range(0, len(body), payload_max):
        part = body[start : start + payload_max]
        yield _BODY.pack(BODY_FRAME, CHANNEL, len(part)) + part + _END
