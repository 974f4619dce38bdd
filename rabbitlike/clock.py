"""The broker's clock: wall time in ms and one-shot timers, behind a port.

No module below `server` reads the system's time or uses a loop; each uses the Clock it is given. Tests pass FakeClock
(rabbitlike.testing) and advance it by hand.
"""

import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call. Cancelling it after it has fired, or twice, does nothing."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """A source of time."""

    def now_ms(self) -> int:
        """Wall time, for timestamps, expirations and x-death. May jump when the machine's clock is set."""
        ...

    def ticks_ns(self) -> int:
        """Nanoseconds of a monotonic clock with an arbitrary start, for measuring durations."""
        ...

    def call_later(self, delay_ms: int, fn: Callable[[], None]) -> Timer:
        """Call `fn` once after at least `delay_ms`, measured on a monotonic clock."""
        ...


class LoopClock:
    """The real clock, with timers of the event loop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop

    #: The bare function, because every turn calls it.
    ticks_ns = staticmethod(time.perf_counter_ns)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_ms: int, fn: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, fn)
