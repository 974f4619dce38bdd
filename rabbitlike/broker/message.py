"""A message as it stands in one queue.

The octets (address, properties, body) are shared by all queues the message went to and never change; position, attempts
and state belong to this queue alone, which is why each queue has a Message of its own.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from rabbitlike.broker.states import MESSAGE_COST, READY, UNLOGGED
from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Table

if TYPE_CHECKING:
    from rabbitlike.broker.delays.log import DelayBatch
    from rabbitlike.broker.queues.storage.log import StoredBatch

DELIVERY_COUNT = "x-delivery-count"
#: Properties up to this size are worth remembering with their count.
REMEMBERED = 512


class Message:
    """One message in one queue."""

    __slots__ = (
        "address",
        "attempts",
        "batch",
        "body",
        "expires_at_ms",
        "index",
        "logged",
        "persistent",
        "position",
        "priority",
        "properties",
        "published_at_ms",
        "state",
    )

    def __init__(
        self, address: bytes, properties: bytes, body: bytes, persistent: bool, priority: int, published_at_ms: int
    ) -> None:
        #: Exchange and routing key as two short strings, just as basic.deliver carries them.
        self.address = address
        #: Property flags and list, just as they came.
        self.properties = properties
        self.body = body
        self.persistent = persistent
        #: -1: the publisher gave none.
        self.priority = priority
        self.published_at_ms = published_at_ms
        #: 0: never.
        self.expires_at_ms = 0
        #: Place in the queue: grows, is never reused, and is where a returned message goes back to.
        self.position = 0
        #: How often it was delivered and came back.
        self.attempts = 0
        self.state = READY
        self.logged = UNLOGGED
        #: The batch it is stored in and its place there, once it is written.
        self.batch: StoredBatch | DelayBatch | None = None
        self.index = 0


def make_message(
    address: bytes, properties: bytes, body: bytes, persistent: bool, priority: int, published_at_ms: int
) -> Message:
    """The same as `Message(…)`, for the hot path: compiled, no argument becomes an object on its way."""
    message = Message.__new__(Message)
    message.address = address
    message.properties = properties
    message.body = body
    message.persistent = persistent
    message.priority = priority
    message.published_at_ms = published_at_ms
    message.expires_at_ms = 0
    message.position = 0
    message.attempts = 0
    message.state = READY
    message.logged = UNLOGGED
    message.batch = None
    message.index = 0
    return message


def make_again(message: Message, address: bytes, now_ms: int) -> Message:
    """As if published anew, to this address: its time to live starts again."""
    again = make_message(address, message.properties, message.body, message.persistent, message.priority, now_ms)
    expiration_ms = Properties(message.properties).expiration_ms
    if expiration_ms >= 0:
        again.expires_at_ms = now_ms + expiration_ms
    return again


def cost_of(message: Message) -> int:
    """Bytes of memory that a message takes, roughly. The address is shared with its publisher's."""
    return MESSAGE_COST + len(message.properties) + len(message.body)


def make_address(exchange: str, routing_key: str) -> bytes:
    """The two names as short strings. A name is at most 255 octets long: whoever made it has seen to that."""
    first = exchange.encode("utf-8", "surrogateescape")
    second = routing_key.encode("utf-8", "surrogateescape")
    return bytes((len(first),)) + first + bytes((len(second),)) + second


def exchange_of(address: bytes) -> str:
    return address[1 : 1 + address[0]].decode("utf-8", "surrogateescape")


def routing_key_of(address: bytes) -> str:
    return address[2 + address[0] :].decode("utf-8", "surrogateescape")


def with_delivery_count(message: Message) -> bytes:
    """The message's properties with the header that says how often it came back; none at the first delivery.

    A header of that name that a publisher made up is not passed on.
    """
    if message.attempts == 0 and DELIVERY_COUNT.encode() not in message.properties:
        return message.properties
    if len(message.properties) > REMEMBERED:
        return _counted(message.properties, message.attempts)
    counted: bytes = _remembered(message.properties, message.attempts)
    return counted


def _counted(properties: bytes, attempts: int) -> bytes:
    changed = Properties(properties)
    headers = changed.headers or Table()
    headers.pop(DELIVERY_COUNT, None)
    if attempts > 0:
        headers.put(DELIVERY_COUNT, attempts, "l")
    raw: bytes = changed.replace(headers=headers).raw
    return raw


#: Messages that come back in numbers mostly have the same properties.
_remembered = lru_cache(maxsize=256)(_counted)
