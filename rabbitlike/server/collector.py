"""Collects cyclic garbage in pauses of bounded length, and returns freed memory to the system when idle.

Python's collector visits all tracked objects when it visits the oldest generation. Reference counting frees the
broker's own objects, so little is left to collect, mostly from libraries. Python collects the young generations in a
few milliseconds; a full collection runs only when the broker is idle and has few enough objects: those left by the last
full collection, plus at most the threshold for each automatic one since. Python 3.14 itself collects old objects in
increments, with the same thresholds.
"""

import gc
import logging
import sys
import time
from collections.abc import Callable
from typing import Final

from rabbitlike.broker.alarms import resident_bytes, return_freed_memory
from rabbitlike.clock import Clock, Timer

#: Net new tracked objects that start a collection of the youngest generation; each takes 100 to 200 ns.
YOUNG: Final = 10_000
#: Collections of the youngest generation per collection of the two youngest, whose pause is longer by this factor.
MIDDLE: Final = 5
#: Turns off automatic collections of the oldest generation.
NEVER: Final = 1_000_000_000

TICK_MS: Final = 1000
#: Objects made since the last full collection that justify the next.
WORTHWHILE: Final = 2000
#: Maximum duration of a full collection, estimated from earlier ones.
LONGEST_S: Final = 0.02
#: Initial maximum of objects for a full collection, and the number of objects below which it always runs.
FIRST_MOST: Final = 100_000
ALWAYS: Final = 20_000
#: The broker is idle if it uses less than this share of a processor.
IDLE: Final = 0.2
#: Memory growth, or decrease in allocated blocks, since the last time that justifies returning freed memory to the
#: system.
TRIM_BYTES: Final = 32 << 20
TRIM_BLOCKS: Final = 10_000
#: Ticks after which a full collection runs even if the broker is never idle.
PATIENCE: Final = 30

log = logging.getLogger(__name__)


def set_thresholds() -> None:
    gc.set_threshold(YOUNG, MIDDLE, NEVER)


class Collector:
    """Runs the full collections that these thresholds turn off, from `start` to `stop`."""

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
        #: Resident memory after freed memory was last returned to the system.
        self._trimmed_bytes = 0
        #: Most allocated blocks since then.
        self._trimmed_blocks = 0
        self._timer: Timer | None = None
        self._cpu_before_s = 0.0
        self._wall_before_s = 0.0
        #: Tracked objects after the last full collection, and the number of all collections until then.
        self._tracked = 0
        self._collections = 0
        #: Blocks of frozen objects.
        self._frozen_blocks = 0
        #: A full collection of more objects would take too long.
        self._most = FIRST_MOST
        self._waited = 0
        #: Number of full collections, and the duration of the longest.
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
        """Exclude all existing objects from collections, because they live as long as the process."""
        # Without a collection first: that would take 40 ms, longer the more was recovered, and free about a kilobyte.
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
        """Return memory that a burst left behind, once; a busy broker keeps freed memory for the next burst."""
        blocks = self._count_blocks()
        if self._read_bytes() > self._trimmed_bytes + TRIM_BYTES or blocks < self._trimmed_blocks - TRIM_BLOCKS:
            self._trim()
            self._trimmed_bytes = self._read_bytes()
            self._trimmed_blocks = blocks
        self._trimmed_blocks = max(self._trimmed_blocks, blocks)

    def _is_short(self, made: int) -> bool:
        """Whether a full collection will be short."""
        blocks = self._count_blocks() - self._frozen_blocks
        if blocks > 5 * self._most:
            return False  # messages are not tracked, but their lists are
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
            # Average with the old value, so that one slow pause under contention does not decide.
            fits = int(self._tracked * LONGEST_S / max(took_s, 1e-6))
            self._most = max(ALWAYS, (self._most + fits) // 2)
        log.debug("collected %d of %d objects in %.1f ms", freed, freed + self._tracked, took_s * 1000)


def _collections() -> int:
    """The number of collections of all generations since the start."""
    return sum(generation["collections"] for generation in gc.get_stats())
