"""What all queues of a vhost come to, counted with a breath now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.views import Sums
from rabbitlike.management.lists import Slices

if TYPE_CHECKING:
    from rabbitlike.broker.vhost import Vhost

#: Queues between two looks at the time.
STRIDE: Final = 200


async def queue_sums(vhost: Vhost) -> Sums:
    slices = Slices()
    ready = unacked = waiting = letters = consumers = 0
    for count, queue in enumerate(list(vhost.queues.values()), 1):
        ready += queue.ready.count
        unacked += queue.unacked_count
        waiting += queue.waiting_count
        letters += queue.letter_count
        consumers += len(queue.consumers.all)
        if count % STRIDE == 0:
            await slices.breathe()
    return Sums(ready, unacked, waiting, letters, consumers)
