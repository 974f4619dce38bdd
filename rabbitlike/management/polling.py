"""Waiting for a message to get: a request that finds a queue empty is told when it is worth another try.

Nothing is set aside for whoever waits: consumers go first, and of several that wait one comes too late and waits on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.queues.pollers import pollers_of
from rabbitlike.management.turns import turn

if TYPE_CHECKING:
    from fastapi import Request

    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.queues.queue import Queue

LONGEST_WAIT_S: Final = 3600.0


class Poll:
    """One request that waits for messages of one queue."""

    def __init__(self, broker: Broker, queue: Queue, wait_s: float) -> None:
        self._broker = broker
        self._queue = queue
        self._ends_at_ms = broker.clock.now_ms() + round(wait_s * 1000)

    async def is_worth_a_try(self, request: Request) -> bool:
        """When something came; False when the time is over, or the queue or the client is gone."""
        left_ms = self._ends_at_ms - self._broker.clock.now_ms()
        if left_ms <= 0:
            return False
        told = asyncio.Event()
        timer = self._broker.clock.call_later(left_ms, told.set)
        pollers = pollers_of(self._queue)
        pollers.add(told.set)
        try:
            await told.wait()
        finally:
            timer.cancel()
            has_come = not pollers.remove(told.set)
        if not has_come or self._queue.deleted:
            return False
        if await request.is_disconnected():
            # What it would be given were lost: somebody else may wait for it.
            with turn(self._broker):
                self._broker.turn.touch(self._queue)
            return False
        return True
