"""Sums over all queues of some vhosts, computed in slices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.statistics.queue_metrics import Sums
from rabbitlike.management.listing.lists import Slices

if TYPE_CHECKING:
    from rabbitlike.broker.vhost import Vhost

#: Queues between two readings of the time.
STRIDE: Final = 200


async def queue_sums(vhosts: Iterable[Vhost]) -> Sums:
    slices = Slices()
    sums = Sums()
    for vhost in vhosts:
        for count, queue in enumerate(list(vhost.queues.values()), 1):
            sums = sums.plus(queue)
            if count % STRIDE == 0:
                await slices.pause()
    return sums
