"""The exchange type of RabbitMQ's plugin for deduplication: a fanout that drops what was published to it before.

Any other kind does the same with the argument `x-message-deduplication`; see deduplication.py.
"""

from rabbitlike.broker.exchanges.fanout import FanoutExchange


class MessageDeduplicationExchange(FanoutExchange):
    __slots__ = ()

    kind = "x-message-deduplication"
