"""Cyclic garbage, collected in pauses of bounded length; and freed memory, returned to the system in idle moments.

Python's collector visits all tracked objects at once when it visits the oldest, however many they are. What ends here
is freed by reference counting, so there is little to collect: mostly what libraries leave behind. The young generations
are collected as usual, in some milliseconds; everything only when the broker is idle and there are few enough objects.
How many there are is known without counting them: those that the last full collection left, and for each automatic one
since no more than its threshold. Python 3.14 collects old objects in increments by itself, by the same thresholds.
"""

import gc
import logging
import sys
import time
from collections.abc import Callable
from typing import Final

from rabbitlike.broker.alarms import resident_bytes, return_freed_memory
from rabbitlike.clock import Clock, Timer

#: Tracked objects made, less those freed, that start a collection of the youngest; some 100 to 200 ns for each.
YOUNG: Final = 10_000
#: Collections of the youngest generation that start one of the two youngest: its pause is as many times as long.
MIDDLE: Final = 5
#: The oldest generation is not collected by itself.
NEVER: Final = 1_000_000_000

TICK_MS: Final = 1000
#: Objects made since the last full collection that make the next worth its while.
WORTHWHILE: Final = 2000
#: The longest that a full collection may take, by what the last ones took.
LONGEST_S: Final = 0.02
#: The most objects for which a full collection is tried first, and the fewest for which it is tried always.
FIRST_MOST: Final = 100_000
ALWAYS: Final = 20_000
#: Using less than this part of a processor, the broker is idle.
IDLE: Final = 0.2
#: So much more memory than the last time, or so many blocks less, make it worth while to return freed memory to the
#: system.
TRIM_BYTES: Final = 32 << 20
TRIM_BLOCKS: Final = 10_000
#: A broker that is never idle is stopped all the same, once in so many ticks.
PATIENCE: Final = 30

log = logging.getLogger(__name__)


def set_thresholds() -> None:
    gc.set_threshold(YOUNG, MIDDLE, NEVER)


class Collector:
    """Collects what Python, with these thresholds, does not: from `start` to `stop`."""

    def __init__(
        self,
        clock: Clock,
        *,
        cpu_s: Callable[[], float] = time.process_time,
        wall_s: Callable[[], float] = time.perf_counter,
        count_blocks: Callable[[], int] = sys.getallocatedblocks,
        collect: Callable[[], int] = gc.collect,
        read_bytes: Callable[[], int] = resident_bytes,
        trim: Callable[[], None] = return_freed_memory,
    ) -> None:
        self._clock = clock
        self._cpu_s = cpu_s
        self._wall_s = wall_s
        self._count_blocks = count_blocks
        self._collect = collect
        self._read_bytes = read_bytes
        self._trim = trim
        #: Memory that was left when freed memory was returned to the system last.
        self._trimmed_bytes = 0
        #: The most blocks that were in use since.
        self._trimmed_blocks = 0
        self._timer: Timer | None = None
        self._cpu_before_s = 0.0
        self._wall_before_s = 0.0
        #: Tracked objects that the last full collection left, and all collections until then.
        self._tracked = 0
        self._collections = 0
        #: Blocks that belong to what is frozen.
        self._frozen_blocks = 0
        #: A full collection of more objects than that would take too long.
        self._most = FIRST_MOST
        self._waited = 0
        #: How many full collections there were, and how long the longest took.
        self.count = 0
        self.longest_s = 0.0

    def start(self) -> None:
        self._tracked = len(gc.get_objects())
        self._collections = _collections()
        self._cpu_before_s, self._wall_before_s = self._cpu_s(), self._wall_s()
        self._timer = self._clock.call_later(TICK_MS, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def freeze(self) -> None:
        """What was made by now lives as long as the process: no collection visits it again."""
        # Not after a collection: that would take 40 ms, longer the more was recovered, and free a kilobyte.
        gc.freeze()
        self._frozen_blocks = self._count_blocks()
        self._tracked = 0
        self._collections = _collections()

    def _tick(self) -> None:
        self._timer = self._clock.call_later(TICK_MS, self._tick)
        cpu_s, wall_s = self._cpu_s(), self._wall_s()
        share = (cpu_s - self._cpu_before_s) / max(wall_s - self._wall_before_s, 0.001)
        self._cpu_before_s, self._wall_before_s = cpu_s, wall_s
        if share < IDLE:
            self._return_memory()
        made = (_collections() - self._collections) * YOUNG + gc.get_count()[0]
        if made < WORTHWHILE:
            return
        self._waited += 1
        is_time = share < IDLE or self._waited >= PATIENCE
        if is_time and self._is_short(made):
            self.collect()

    def _return_memory(self) -> None:
        """Return what a burst left behind, once: as long as the broker is busy, freed memory is kept for the next."""
        blocks = self._count_blocks()
        if self._read_bytes() > self._trimmed_bytes + TRIM_BYTES or blocks < self._trimmed_blocks - TRIM_BLOCKS:
            self._trim()
            self._trimmed_bytes = self._read_bytes()
            self._trimmed_blocks = blocks
        self._trimmed_blocks = max(self._trimmed_blocks, blocks)

    def _is_short(self, made: int) -> bool:
        """Will a full collection be short?"""
        blocks = self._count_blocks() - self._frozen_blocks
        if blocks > 5 * self._most:
            return False  # messages are not tracked, but the lists are that they stand in
        return self._tracked + made <= self._most or blocks <= self._most

    def collect(self) -> None:
        began_s = self._wall_s()
        freed = self._collect()
        self._tracked = len(gc.get_objects())
        took_s = self._wall_s() - began_s
        self._collections = _collections()
        self._waited = 0
        self.count += 1
        self.longest_s = max(self.longest_s, took_s)
        if self._tracked > ALWAYS:
            # Half of the old figure: one slow pause, when others have the processor, does not decide.
            fits = int(self._tracked * LONGEST_S / max(took_s, 1e-6))
            self._most = max(ALWAYS, (self._most + fits) // 2)
        log.debug("collected %d of %d objects in %.1f ms", freed, freed + self._tracked, took_s * 1000)


def _collections() -> int:
    """How many there were of any generation, ever."""
    return sum(generation["collections"] for generation in gc.get_stats())
