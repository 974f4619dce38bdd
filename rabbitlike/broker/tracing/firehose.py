"""The firehose: sends a copy of every message published or delivered in a vhost to `amq.rabbitmq.trace`.

parity: routing keys, headers and their types are RabbitMQ's. Messages published to `amq.rabbitmq.trace` itself are not
copied again, so clients can consume a queue bound there while the firehose is on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.message import exchange_of, make_address, routing_key_of
from rabbitlike.broker.publishing.router import try_route
from rabbitlike.broker.queues.dead_letters.x_death import original_keys
from rabbitlike.broker.queues.deposit import deposit
from rabbitlike.broker.views import node_name
from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Array, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rabbitlike.broker.message import Message
    from rabbitlike.broker.ports import ClientName
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.vhost import Vhost

EXCHANGE: Final = "amq.rabbitmq.trace"
#: spec: a routing key is a short string.
KEY_MAX: Final = 255
#: parity: the properties table holds them in this order.
FIELDS: Final = (
    "cluster_id", "app_id", "user_id", "type", "timestamp", "message_id", "expiration", "reply_to", "correlation_id",
    "priority", "delivery_mode", "headers", "content_encoding", "content_type",
)  # fmt: skip
SIGNED_32: Final = range(-(1 << 31), 1 << 31)


class Firehose:
    """The firehose of one vhost, while its tracing is on."""

    __slots__ = ("_vhost",)

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost

    def published(
        self,
        address: bytes,
        keys: Sequence[str],
        properties: Properties,
        body: bytes,
        queues: Iterable[Queue],
        client: ClientName,
    ) -> None:
        """Copy a publish that was routed to these queues."""
        if not self._has_bindings:
            return
        exchange = exchange_of(address)
        headers = self._describe(exchange, keys, properties)
        self._add_publisher(headers, client)
        headers["routed_queues"] = Array([queue.name for queue in queues])
        self._publish(f"publish.{exchange}", headers, body)

    def delivered(self, queue: str, message: Message, client: ClientName) -> None:
        """Copy a message that was delivered from a queue."""
        exchange = exchange_of(message.address)
        if exchange == EXCHANGE or not self._has_bindings:
            return
        properties = Properties(message.properties)
        keys = original_keys(routing_key_of(message.address), properties)
        headers = self._describe(exchange, keys, properties)
        headers.put("redelivered", 1 if message.attempts > 0 else 0, "I")
        self._add_publisher(headers, client)
        self._publish(f"deliver.{queue}", headers, message.body)

    @property
    def _has_bindings(self) -> bool:
        return self._vhost.exchanges[EXCHANGE].is_used

    def _describe(self, exchange: str, keys: Sequence[str], properties: Properties) -> Table:
        headers = Table()
        headers["exchange_name"] = exchange
        headers["routing_keys"] = Array(keys)
        headers["properties"] = describe_properties(properties)
        headers["node"] = node_name(self._vhost.broker.settings)
        return headers

    def _add_publisher(self, headers: Table, client: ClientName) -> None:
        connection, channel, user = client
        headers["vhost"] = self._vhost.name
        headers["connection"] = connection
        headers.put("channel", channel, "I")
        headers["user"] = user

    def _publish(self, key: str, headers: Table, body: bytes) -> None:
        octets = key.encode("utf-8", "surrogateescape")
        if len(octets) > KEY_MAX:
            key = octets[:KEY_MAX].decode("utf-8", "surrogateescape")
        vhost = self._vhost
        exchange = vhost.exchanges[EXCHANGE]
        properties = Properties.build(headers=headers)
        queues = try_route(exchange, (key,), properties, vhost.exchanges)
        exchange.counters.publish_in += 1
        exchange.counters.publish_out += len(queues)
        address = make_address(EXCHANGE, key)
        deposit(queues, None, address, properties.raw, body, False, -1, vhost.broker.turn.now_ms, 0, None)


def describe_properties(properties: Properties) -> Table:
    """Return the properties as a table. parity: numbers have 32 bits; larger ones get 64 bits instead of being cut."""
    described = Table()
    for name in FIELDS:
        value = getattr(properties, name)
        if name == "priority" and value < 0:
            continue  # no priority is set
        if isinstance(value, int):
            described.put(name, int(value), "I" if value in SIGNED_32 else "l")
        elif value is not None:
            described[name] = value
    return described
