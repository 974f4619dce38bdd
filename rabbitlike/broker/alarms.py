"""Alarms: what the broker runs low on, and who wants to know. The session blocks publishers while one is raised.

parity: no hysteresis; the memory alarm follows the memory in use against the limit at each check. Listeners are told of
changes only; one that leaves while others are told may still be told itself.
"""

import ctypes
import logging
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rabbitlike.clock import Clock, Timer

MEMORY: Final = "memory"
DISK: Final = "disk"

CHECK_INTERVAL_MS: Final = 1000

Listener = Callable[[str, bool], None]
"""Told the source and whether its alarm is now raised."""

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

_log = logging.getLogger(__name__)


class Alarms:
    """Which alarms are raised. `active` is empty, hence false, when all is well."""

    def __init__(self) -> None:
        self.active: frozenset[str] = frozenset()
        self._listeners: dict[Listener, None] = {}

    @property
    def reason(self) -> str:
        """What connection.blocked says: `low on memory`, `low on disk`, `low on memory & disk`."""
        return "low on " + " & ".join(sorted(self.active, key=(MEMORY, DISK).index)) if self.active else ""

    def raise_(self, source: str) -> None:
        if source not in self.active:
            self.active |= {source}
            _log.warning("%s alarm raised: publishers are blocked until it clears", source)
            self._tell(source, True)

    def clear(self, source: str) -> None:
        if source in self.active:
            self.active -= {source}
            _log.warning("%s alarm cleared", source)
            self._tell(source, False)

    def listen(self, listener: Listener) -> None:
        self._listeners[listener] = None

    def _tell(self, source: str, raised: bool) -> None:
        for listener in self._listeners:
            listener(source, raised)


#: What a freed block of Python's allocator leaves for others, at least: a message and its body are larger.
BLOCK_BYTES: Final = 48


class Reusable:
    """Memory that is free and resident all the same.

    Python's allocator returns memory by the megabyte, once nothing is left in it: one object that lasts keeps all of it
    resident. What was freed around it takes the next messages before the process grows, so it counts as free. How much
    that is nobody tells; the number of blocks in use does, against what it was when the process was largest.
    """

    __slots__ = ("_blocks", "_resident_bytes")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._blocks = 0
        self._resident_bytes = 0

    def used_bytes(self, resident_bytes: int, blocks: int) -> int:
        """Of the resident memory, what is in use."""
        if blocks >= self._blocks:
            self._blocks = blocks
            self._resident_bytes = resident_bytes
        freed_bytes = BLOCK_BYTES * (self._blocks - blocks)
        # What was returned meanwhile was freed as well, and must not be counted off twice.
        return min(resident_bytes, max(resident_bytes, self._resident_bytes) - freed_bytes)


class MemoryWatch:
    """Raises the memory alarm while the process uses more than `limit_bytes`; looks at each tick of the clock."""

    def __init__(
        self,
        alarms: Alarms,
        clock: Clock,
        limit_bytes: int,
        *,
        read: Callable[[], int] | None = None,
        trim: Callable[[], None] | None = None,
        count_blocks: Callable[[], int] = sys.getallocatedblocks,
        interval_ms: int = CHECK_INTERVAL_MS,
    ) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._alarms = alarms
        self._clock = clock
        self._read = read or resident_bytes
        self._trim = trim or return_freed_memory
        self._count_blocks = count_blocks
        self._reusable = Reusable()
        self._interval_ms = interval_ms
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look now and from now on."""
        self.stop()
        self._tick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        self.used_bytes = self._read()
        if self.used_bytes > self.limit_bytes:
            # What consumers have drained meanwhile stays with the allocator unless asked for; the alarm would hang.
            self._trim()
            self.used_bytes = self._read()
        if self.used_bytes > self.limit_bytes:
            self.used_bytes = self._reusable.used_bytes(self.used_bytes, self._count_blocks())
        else:
            self._reusable.forget()
        if self.used_bytes > self.limit_bytes:
            self._alarms.raise_(MEMORY)
        else:
            self._alarms.clear(MEMORY)

    def _tick(self) -> None:
        self.check()
        self._timer = self._clock.call_later(self._interval_ms, self._tick)


class DiskWatch:
    """Raises the disk alarm while the data folder's disk is short of space, while writing to it fails, or while what is
    written would be lost."""

    def __init__(
        self,
        alarms: Alarms,
        clock: Clock,
        limit_bytes: int,
        folder: Path,
        *,
        interval_ms: int = CHECK_INTERVAL_MS,
        read_free: Callable[[Path], int] | None = None,
        spare: Callable[[], int] = lambda: 0,
        find_fault: Callable[[], Exception | None] = lambda: None,
    ) -> None:
        self._alarms = alarms
        self._clock = clock
        #: Room that the store has taken of the disk and not filled.
        self._spare = spare
        self._limit_bytes = limit_bytes
        self._folder = folder
        self._interval_ms = interval_ms
        self._read_free = read_free or free_bytes
        self._is_failing = False
        #: Looks for what is wrong with the store though writing succeeds; what it found last, for the log to say once.
        self._find_fault = find_fault
        self._fault = ""
        self._timer: Timer | None = None

    def start(self) -> None:
        self.check()
        self._timer = self._clock.call_later(self._interval_ms, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def failing(self, is_failing: bool) -> None:
        """Writes fail, or succeed again."""
        self._is_failing = is_failing
        self.check()

    def check(self) -> None:
        free = self._read_free(self._folder)
        if free < self._limit_bytes:
            free += self._spare()
        fault = self._find_fault()
        if fault is not None and not self._is_failing and self._fault != str(fault):
            _log.error("%s", fault)
        self._fault = "" if fault is None else str(fault)
        if fault is not None or self._is_failing or free < self._limit_bytes:
            self._alarms.raise_(DISK)
        else:
            self._alarms.clear(DISK)


def free_bytes(folder: Path) -> int:
    """Space that this process may still use on the folder's disk."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize


def memory_limit(watermark: float, available_bytes: int) -> int:
    """The limit in bytes: up to 1 a fraction of what there is, above 1 bytes, but never more than there is."""
    return int(available_bytes * watermark) if watermark <= 1 else min(int(watermark), available_bytes)


def resident_bytes() -> int:
    """Memory this process holds."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:
        # The largest it ever was: all that can be had without /proc, so there the alarm does not clear.
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest if sys.platform == "darwin" else largest * 1024


def total_bytes(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory this process may use: the machine's, or less where a control group says so."""
    physical = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    return min([physical, *_cgroup_limits(proc, cgroups)])


def _cgroup_limits(proc: Path, cgroups: Path) -> list[int]:
    """The memory limits of the process's control group and of those around it, version 2 and 1."""
    limits = []
    for line in _text(proc / "self" / "cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = root / path.strip("/")
        # A container often sees its own group as the root whatever the path says: `parents` leads there too.
        for folder in (group, *group.parents):
            limit = _text(folder / name).strip()
            if limit.isdigit():
                limits.append(int(limit))
            if folder == root:
                break
    return limits


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def return_freed_memory() -> None:
    """Ask the C library to give freed memory back to the system, where it knows how."""
    if _malloc_trim is not None:
        _malloc_trim(0)


def _find_malloc_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


_malloc_trim: Final = _find_malloc_trim()
