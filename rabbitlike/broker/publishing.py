"""A publish from somebody who is no AMQP client: the checks of a channel, in the same order, for one message.

Clients take the short way in session/channel.py, which remembers what it found; this one finds it anew each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.copies import take_copies
from rabbitlike.broker.message import Message, make_address
from rabbitlike.broker.queues.dead_letter import forget_client_deaths
from rabbitlike.protocol.errors import precondition_failed

if TYPE_CHECKING:
    from rabbitlike.broker.access import Permit, PermitTopic
    from rabbitlike.broker.users import User
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.protocol.properties import Properties

#: Keys that begin so are addresses of direct replies.
REPLIES: Final = "amq.rabbitmq.reply-to."


@dataclass(frozen=True, slots=True)
class Published:
    """What became of it."""

    is_routed: bool
    #: False: a queue is full and refused it.
    is_accepted: bool
    #: It is safe only after a commit.
    is_stored: bool


@dataclass(frozen=True, slots=True)
class Publisher:
    """A user who publishes in a vhost."""

    user: User
    vhost: Vhost
    permit: Permit
    permit_topic: PermitTopic

    def publish(self, exchange_name: str, routing_key: str, properties: Properties, body: bytes) -> Published:
        """Publish as mandatory, within a turn; AmqpError as it would close a channel."""
        vhost, broker = self.vhost, self.vhost.broker
        largest = broker.settings.max_message_size
        if len(body) > largest:
            raise precondition_failed(f"message size {len(body)} is larger than configured max size {largest}")
        self.permit("write", "exchange", exchange_name)
        exchange = vhost.publish_target(exchange_name)
        expiration_ms = properties.expiration_ms
        keys, properties = take_copies(routing_key, properties)
        if not broker.settings.trust_client_x_death:
            properties = forget_client_deaths(properties)
        if exchange.kind == "topic":
            self.permit_topic("write", exchange_name, routing_key)
        self._check_user(properties)
        address = make_address(exchange_name, routing_key)
        exchange.counters.publish_in += 1
        vhost.counters.publish += 1
        if exchange_name == "" and routing_key.startswith(REPLIES):
            requester = broker.replies.get(routing_key)
            if requester is not None:
                requester.deliver(address, properties.raw, body)
            return self._published(requester is not None, True, False)
        now_ms = broker.turn.now_ms
        seen = Message(address, properties.raw, body, properties.persistent, properties.priority, now_ms)
        queues = vhost.route(exchange, keys, properties, seen)
        exchange.counters.publish_out += len(queues)
        is_accepted = True
        for queue in queues:
            message = Message(address, properties.raw, body, properties.persistent, properties.priority, now_ms)
            if expiration_ms >= 0:
                message.expires_at_ms = now_ms + expiration_ms
            if not queue.enqueue(message):
                is_accepted = False
        is_stored = properties.persistent and any(queue.durable for queue in queues)
        return self._published(bool(queues), is_accepted, is_stored)

    def _published(self, is_routed: bool, is_accepted: bool, is_stored: bool) -> Published:
        if not is_routed:
            self.vhost.counters.return_unroutable += 1
        return Published(is_routed, is_accepted, is_stored)

    def _check_user(self, properties: Properties) -> None:
        claimed = properties.user_id
        if claimed is not None and claimed != self.user.name and "impersonator" not in self.user.tags:
            raise precondition_failed(
                f"user_id property set to '{claimed}' but authenticated user was '{self.user.name}'"
            )
