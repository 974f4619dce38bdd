"""Time as the broker sees it: wall time in ms and one-shot timers, behind a port.

Nothing below `server` reads the system's time or touches a loop; it asks the Clock it was given. Tests give FakeClock
(rabbitlike.testing) and move time by hand.
"""

import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that has been asked for. Cancelling one that has fired, or twice, does nothing."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The one source of time."""

    def now_ms(self) -> int:
        """Wall time: what timestamps, expirations and x-death speak of. May jump when the machine's clock is set."""
        ...

    def ticks_ns(self) -> int:
        """For measuring how long work takes: nanoseconds on a clock that does not jump, from no time in particular."""
        ...

    def call_later(self, delay_ms: int, fn: Callable[[], None]) -> Timer:
        """Call `fn` once, not before `delay_ms` have passed; measured on a clock that does not jump."""
        ...


class LoopClock:
    """The real clock: timers are the event loop's."""

    __slots__ = ("_loop",)

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop

    #: The function itself, as it is called for every turn.
    ticks_ns = staticmethod(time.perf_counter_ns)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_ms: int, fn: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, fn)
