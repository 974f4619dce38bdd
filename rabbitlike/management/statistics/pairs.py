"""Statistics of pairs of objects: of a channel that publishes to an exchange, an exchange that feeds a queue, etc.

parity: RabbitMQ's lists in its rates mode `detailed`. Each entry names the other object and has the counts of the pair.
The other objects are found by a scan of all candidates, with pauses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from rabbitlike.broker import views
from rabbitlike.management.context import context_of
from rabbitlike.management.listing.lists import Slices
from rabbitlike.management.statistics.ages import ages_in
from rabbitlike.management.statistics.kinds import INLET, PUBLISHES, TAKES, Kind

if TYPE_CHECKING:
    from fastapi import Request

    from rabbitlike.broker.broker import ClientChannel
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.statistics.counters import Counters
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.management.statistics.details import View

T = TypeVar("T")

#: Objects scanned between two readings of the time.
STRIDE: Final = 100


class Pairs:
    """Makes the lists for one request."""

    def __init__(self, request: Request) -> None:
        here = context_of(request)
        self._rates, self._vhosts = here.rates, here.broker.vhosts
        self._ages = ages_in(request)

    async def of_exchange(self, exchange: Exchange) -> View:
        vhost = self._vhosts[exchange.vhost]
        incoming = [
            {"channel_details": channel.details(), "stats": stats}
            async for channel in _channels(vhost)
            if (stats := self._stats(PUBLISHES, channel.publishes.get(exchange)))
        ]
        outgoing = [
            {"queue": _named(queue.name, vhost), "stats": stats}
            async for queue in _paced(list(vhost.queues.values()))
            if (stats := self._stats(INLET, queue.incoming.get(exchange) if queue.incoming else None))
        ]
        return {"incoming": incoming, "outgoing": outgoing}

    async def of_queue(self, queue: Queue) -> View:
        exchanges = queue.vhost.exchanges
        incoming = [
            {"exchange": _named(exchange.name, queue.vhost), "stats": stats}
            for exchange, counts in (queue.incoming or {}).items()
            if exchanges.get(exchange.name) is exchange and (stats := self._stats(INLET, counts))
        ]
        deliveries = [
            {"channel_details": channel.details(), "stats": stats}
            async for channel in _channels(queue.vhost)
            if (stats := self._stats(TAKES, channel.deliveries.get(queue)))
        ]
        return {"incoming": incoming, "deliveries": deliveries}

    def of_channel(self, channel: ClientChannel) -> View:
        vhost = channel.vhost
        publishes = [
            {"exchange": _named(exchange.name, vhost), "stats": stats}
            for exchange, counts in channel.publishes.items()
            if vhost.exchanges.get(exchange.name) is exchange and (stats := self._stats(PUBLISHES, counts))
        ]
        deliveries = [
            {"queue": _named(queue.name, vhost), "stats": stats}
            for queue, counts in channel.deliveries.items()
            if not queue.deleted and (stats := self._stats(TAKES, counts))
        ]
        return {"publishes": publishes, "deliveries": deliveries}

    def _stats(self, kind: Kind, counts: Counters | None) -> View | None:
        """The counts and their rates; None if nothing was counted."""
        if counts is None:
            return None
        stats: View = dict(_COUNTED[kind](counts))
        if not stats:
            return None
        self._rates.annotate(kind, counts, {"message_stats": stats}, self._ages)
        return stats


#: RabbitMQ's names, as seen from a channel. A group of counts appears once one of them is not 0.
_COUNTED: Final[dict[Kind, Callable[[Counters], dict[str, int]]]] = {
    PUBLISHES: views.channel_stats,
    TAKES: views.channel_stats,
    INLET: views.queue_stats,
}


def _named(name: str, vhost: Vhost) -> View:
    return {"name": views.text(name), "vhost": views.text(vhost.name)}


def _channels(vhost: Vhost) -> AsyncIterator[ClientChannel]:
    return _paced(channel for client in views.clients_of(vhost) for channel in client.open_channels())


async def _paced(items: Iterable[T]) -> AsyncIterator[T]:
    slices = Slices()
    for count, item in enumerate(items, 1):
        yield item
        if count % STRIDE == 0:
            await slices.pause()
