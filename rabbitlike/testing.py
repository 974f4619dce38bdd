"""For tests, ours and those of programs that use the broker: a clock moved by hand.

Nothing in the broker itself imports this module.
"""

import heapq
from collections.abc import Callable
from itertools import count


class FakeTimer:
    """A timer of FakeClock. Ordered by when it is due, then by when it was asked for."""

    __slots__ = ("due_ms", "fn", "order")

    def __init__(self, due_ms: int, order: int, fn: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.order = order
        self.fn: Callable[[], None] | None = fn

    def __lt__(self, other: "FakeTimer") -> bool:
        return (self.due_ms, self.order) < (other.due_ms, other.order)

    def cancel(self) -> None:
        self.fn = None


class FakeClock:
    """A Clock that stands still until `advance`, which runs what falls due, in order, each at its own moment."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._timers: list[FakeTimer] = []
        self._order = count()

    def now_ms(self) -> int:
        return self._now_ms

    def call_later(self, delay_ms: int, fn: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self._now_ms + max(delay_ms, 0), next(self._order), fn)
        heapq.heappush(self._timers, timer)
        return timer

    def advance(self, ms: int) -> None:
        """Let `ms` pass. Timers set meanwhile run too when they fall due within it."""
        end_ms = self._now_ms + ms
        while self._timers and self._timers[0].due_ms <= end_ms:
            timer = heapq.heappop(self._timers)
            if timer.fn is None:
                continue
            self._now_ms = max(self._now_ms, timer.due_ms)
            timer.fn()
        self._now_ms = end_ms

    @property
    def pending(self) -> int:
        """How many timers are still to fire."""
        return sum(timer.fn is not None for timer in self._timers)
