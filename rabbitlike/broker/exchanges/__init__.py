"""Exchanges: route a message by its keys to queues and other exchanges. One module per type."""

from typing import Final

from rabbitlike.broker.exchanges.consistent_hash import ConsistentHashExchange
from rabbitlike.broker.exchanges.default import DefaultExchange
from rabbitlike.broker.exchanges.delayed_message import DelayedMessageExchange
from rabbitlike.broker.exchanges.direct import DirectExchange
from rabbitlike.broker.exchanges.exchange import Exchange
from rabbitlike.broker.exchanges.fanout import FanoutExchange
from rabbitlike.broker.exchanges.headers import HeadersExchange
from rabbitlike.broker.exchanges.message_deduplication import MessageDeduplicationExchange
from rabbitlike.broker.exchanges.modulus_hash import ModulusHashExchange
from rabbitlike.broker.exchanges.random import RandomExchange
from rabbitlike.broker.exchanges.recent_history import RecentHistoryExchange
from rabbitlike.broker.exchanges.topic import TopicExchange

#: All types that clients can declare, by their names in exchange.declare.
KINDS: Final[dict[str, type[Exchange]]] = {
    cls.kind: cls
    for cls in (
        DirectExchange,
        FanoutExchange,
        TopicExchange,
        HeadersExchange,
        ConsistentHashExchange,
        ModulusHashExchange,
        RandomExchange,
        RecentHistoryExchange,
        MessageDeduplicationExchange,
    )
}
# x-delayed-message can route like any of these.
DelayedMessageExchange.inner_kinds = KINDS.copy()
KINDS[DelayedMessageExchange.kind] = DelayedMessageExchange

__all__ = ["KINDS", "DefaultExchange", "Exchange"]
