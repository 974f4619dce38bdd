"""Counters for pairs of objects: channel and exchange, channel and queue, exchange and queue.

One of the two keeps the Counters of a pair in a dict by the other. Callers look them up once and then count in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from rabbitlike.broker.statistics.counters import Counters

if TYPE_CHECKING:
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.vhost import Vhost

Other = TypeVar("Other")

#: From this number of pairs on, pairs with a deleted object are dropped whenever the number has doubled.
FEW: Final = 8


def make_pair(pairs: dict[Other, Counters], other: Other, now_ms: int, is_gone: Callable[[Other], bool]) -> Counters:
    """Add a pair and return its counters."""
    if len(pairs) >= FEW and len(pairs).bit_count() == 1:
        for each in [each for each in pairs if is_gone(each)]:
            del pairs[each]
    made = pairs[other] = Counters(now_ms)
    return made


def is_exchange_gone(vhost: Vhost, exchange: Exchange) -> bool:
    return vhost.exchanges.get(exchange.name) is not exchange
