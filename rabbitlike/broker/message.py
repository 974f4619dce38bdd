"""A message in one queue.

All queues of a message share its octets (address, properties, body), which never change. Position, attempts and state
belong to one queue, so each queue has its own Message.
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
#: Largest properties whose form with the delivery count is cached.
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
        #: Exchange and routing key as two short strings, as in basic.deliver.
        self.address = address
        #: Property flags and list, as received.
        self.properties = properties
        self.body = body
        self.persistent = persistent
        #: -1: the publisher set none.
        self.priority = priority
        self.published_at_ms = published_at_ms
        #: 0: never.
        self.expires_at_ms = 0
        #: Place in the queue: increasing, never reused; a requeued message returns to it.
        self.position = 0
        #: How often it was delivered and returned.
        self.attempts = 0
        self.state = READY
        self.logged = UNLOGGED
        #: The batch that stores it and its index there, once it is written.
        self.batch: StoredBatch | DelayBatch | None = None
        self.index = 0


def make_message(
    address: bytes, properties: bytes, body: bytes, persistent: bool, priority: int, published_at_ms: int
) -> Message:
    """`Message(…)` for the hot path: when compiled, it converts no argument to a Python object."""
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
    """A copy of the message as if published now to this address: its TTL starts again."""
    again = make_message(address, message.properties, message.body, message.persistent, message.priority, now_ms)
    expiration_ms = Properties(message.properties).expiration_ms
    if expiration_ms >= 0:
        again.expires_at_ms = now_ms + expiration_ms
    return again


def cost_of(message: Message) -> int:
    """Approximate memory of a message in bytes. Messages of one publisher share the address."""
    return MESSAGE_COST + len(message.properties) + len(message.body)


def make_address(exchange: str, routing_key: str) -> bytes:
    """The two names as short strings. The caller has checked that a name has at most 255 octets."""
    first = exchange.encode("utf-8", "surrogateescape")
    second = routing_key.encode("utf-8", "surrogateescape")
    return bytes((len(first),)) + first + bytes((len(second),)) + second


def exchange_of(address: bytes) -> str:
    return address[1 : 1 + address[0]].decode("utf-8", "surrogateescape")


def routing_key_of(address: bytes) -> str:
    return address[2 + address[0] :].decode("utf-8", "surrogateescape")


def with_delivery_count(message: Message) -> bytes:
    """The message's properties with the header x-delivery-count; without it at the first delivery.

    A header of that name from the publisher is removed.
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


#: When many messages are returned, most have the same properties.
_remembered = lru_cache(maxsize=256)(_counted)
