"""Where publishes to one exchange and routing key go.

A target is found with every check that depends on the address alone, and holds while topology and permissions are what
they were: `generation` tells. So a publish to an address that the channel knows looks nothing up.
"""

from typing import TYPE_CHECKING

from rabbitlike.broker.conformity import is_judged
from rabbitlike.broker.counters import Counters
from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.reply_names import DIRECT_REPLY
from rabbitlike.broker.router import cacheable
from rabbitlike.broker.trail import Trail
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Requester
    from rabbitlike.broker.exchanges.exchange import Exchange
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.session.connection import Connection


class Target:
    """One address, as one channel publishes to it."""

    __slots__ = (
        "counters",
        "exchange",
        "generation",
        "inlets",
        "is_plain",
        "is_reply",
        "is_stored",
        "is_topic_checked",
        "pair",
        "queues",
        "reply",
        "routing_key",
        "trail",
    )

    def __init__(self, exchange: "Exchange", routing_key: str) -> None:
        self.exchange = exchange
        self.counters = exchange.counters
        self.routing_key = routing_key
        self.generation = 0
        #: What the channel and the exchange count together, and what that and each queue do.
        self.pair: Counters = exchange.counters
        self.inlets: list[Counters] = []
        #: The queues are the same for every message, whatever its properties, and nothing is to be looked at in it.
        self.is_plain = False
        self.queues: list[Queue] = []
        #: Persistent messages are stored by at least one of them.
        self.is_stored = False
        #: A direct reply, and the requester that it goes to if there still is one.
        self.is_reply = False
        self.reply: Requester | None = None
        #: The user's permission for this exchange depends on the routing key.
        self.is_topic_checked = False
        #: Who is told of publishes.
        self.trail: Trail | None = None


def find_target(connection: "Connection", vhost: "Vhost", address: bytes, properties: Properties) -> Target:
    """Look up exchange and queues. Who finds it says for which generation, and where the channel counts."""
    exchange_name = exchange_of(address)
    routing_key = routing_key_of(address)
    connection.permit("write", "exchange", exchange_name)
    exchange = vhost.publish_target(exchange_name)
    target = Target(exchange, routing_key)
    if exchange_name == "" and routing_key.startswith(DIRECT_REPLY + "."):
        target.is_reply = True
        target.reply = vhost.replies.get(routing_key)
    elif exchange.kind == "topic" and connection.has_topic_permission(exchange_name):
        target.is_topic_checked = True
    elif cacheable(exchange, vhost.exchanges):
        target.queues = vhost.route(exchange, (routing_key,), properties)
        target.is_stored = is_stored(target.queues)
        target.inlets = [queue.inlet(exchange) for queue in target.queues]
        # The firehose sees all there is to see of a publish, which only the careful way does.
        target.is_plain = (
            vhost.firehose is None and exchange.duplicates is None and not is_judged(exchange, target.queues)
        )
        target.trail = vhost.trail_of(target.queues)
    return target


def is_stored(queues: list[Queue]) -> bool:
    """Does any of them keep what is to outlive us?"""
    return any(queue.durable for queue in queues)
