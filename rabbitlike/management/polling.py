"""Long polling: a request that finds a queue empty waits until another attempt may succeed.

No message is reserved for a waiting request. Consumers take precedence, and several waiting requests compete: those
that find no message wait again.
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
    """A request that waits for messages of one queue."""

    def __init__(self, broker: Broker, queue: Queue, wait_s: float) -> None:
        self._broker = broker
        self._queue = queue
        self._ends_at_ms = broker.clock.now_ms() + round(wait_s * 1000)

    async def is_worth_a_try(self, request: Request) -> bool:
        """Wait for a message. False if the time is over, or the queue was deleted, or the client disconnected."""
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
            # The message would be lost on this client; let other waiting requests and consumers have it.
            with turn(self._broker):
                self._broker.turn.touch(self._queue)
            return False
        return True
