"""`x-message-deduplication`, as in RabbitMQ's plugin: a fanout that drops duplicates.

Any other type does the same with the argument `x-message-deduplication`; see deduplication.py.
"""

from rabbitlike.broker.exchanges.fanout import FanoutExchange


class MessageDeduplicationExchange(FanoutExchange):
    __slots__ = ()

    kind = "x-message-deduplication"
