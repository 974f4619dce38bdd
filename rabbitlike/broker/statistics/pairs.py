"""Counts of two objects together: what a channel published to an exchange or took from a queue, what an exchange gave a
queue. Each pair is a Counters, kept by one of the two in a dict by the other, found once and then counted in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from rabbitlike.broker.statistics.counters import Counters

if TYPE_CHECKING:
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.vhost import Vhost

Other = TypeVar("Other")

#: From so many pairs on, those whose other end is gone are dropped whenever the number has doubled.
FEW: Final = 8


def make_pair(pairs: dict[Other, Counters], other: Other, now_ms: int, is_gone: Callable[[Other], bool]) -> Counters:
    """Count with one more from now on."""
    if len(pairs) >= FEW and len(pairs).bit_count() == 1:
        for each in [each for each in pairs if is_gone(each)]:
            del pairs[each]
    made = pairs[other] = Counters(now_ms)
    return made


def is_exchange_gone(vhost: Vhost, exchange: Exchange) -> bool:
    return vhost.exchanges.get(exchange.name) is not exchange
