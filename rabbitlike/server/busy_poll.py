"""Staying awake: after each read, and after each confirm that a client waited for, the loop looks for the next read
for a while before it sleeps.

A processor that has gone to sleep takes longer to wake up than the broker takes for a message, and whoever asks and
waits for the answer would wait for that each time. What it costs is bounded by the number of reads: nothing while no
client says anything, and nothing while clients wait for the disk, which takes longer anyway. Where there are fewer than
two processors it is off: the client could not say anything meanwhile.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Final

#: Fewer processors than these, and the broker would be in its clients' way.
ENOUGH: Final = 2.0


class BusyPoll:
    """Keeps a loop from sleeping until so many seconds after the last read."""

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
        """Something was read, or a client has its confirm."""
        self._until = self._clock() + self._seconds
        if not self.is_awake:
            self.is_awake = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        # Before each callback that is due the loop looks for input, without waiting: so one is always due.
        if self._clock() < self._until:
            os.sched_yield()  # whoever wants this processor goes first: it may be the client that we are waiting for
            self._loop.call_soon(self._look)
        else:
            self.is_awake = False


def make_busy_poll(loop: asyncio.AbstractEventLoop, microseconds: int, processors: float) -> BusyPoll | None:
    """None where it is not wanted, or would do harm."""
    if microseconds == 0 or processors < ENOUGH:
        return None
    return BusyPoll(loop, microseconds / 1_000_000)


def usable_processors(cgroups: Path = Path("/sys/fs/cgroup")) -> float:
    """How many processors this process may use, which in a container may be half of one."""
    count = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = (cgroups / "cpu.max").read_text().split()
        return min(count, int(quota) / int(period))
    except (OSError, ValueError):  # no such group, or no limit: "max"
        return count
