"""Busy polling: after each read and each awaited confirm, the loop polls for input for a while before it sleeps.

A sleeping processor takes longer to wake up than the broker needs for a message, and a client that waits for each
answer would pay that every time. The number of reads bounds the cost: it is zero while clients are silent, and while
they wait for the disk, which takes longer anyway. With fewer than two processors it is off: clients could not run
meanwhile.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Final

#: With fewer processors, polling would keep clients from running.
ENOUGH: Final = 2.0


class BusyPoll:
    """Keeps the loop from sleeping for some time after the last read."""

    __slots__ = ("_clock", "_loop", "_seconds", "_until", "is_awake")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._clock = clock
        self._until = 0.0
        self.is_awake = False

    def prolong(self) -> None:
        """Restart the polling time, after a read or a confirm."""
        self._until = self._clock() + self._seconds
        if not self.is_awake:
            self.is_awake = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        # The loop polls for input before each callback that is due, so keep one due.
        if self._clock() < self._until:
            os.sched_yield()  # let another process run first: it may be the client whose input we wait for
            self._loop.call_soon(self._look)
        else:
            self.is_awake = False


def make_busy_poll(loop: asyncio.AbstractEventLoop, microseconds: int, processors: float) -> BusyPoll | None:
    """A BusyPoll; None if it is turned off or would slow clients down."""
    if microseconds == 0 or processors < ENOUGH:
        return None
    return BusyPoll(loop, microseconds / 1_000_000)


def usable_processors(cgroups: Path = Path("/sys/fs/cgroup")) -> float:
    """How many processors this process may use; can be a fraction in a container."""
    count = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = (cgroups / "cpu.max").read_text().split()
        return min(count, int(quota) / int(period))
    except (OSError, ValueError):  # no such cgroup, or no limit: "max"
        return count
