"""Memory and disk alarms and their listeners. The session blocks publishers while an alarm is raised.

parity: no hysteresis; each check compares the memory in use with the limit. Listeners are called on changes only; a
listener that is removed during a notification may still be called.
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
    """The raised alarms. `active` is empty, hence false, while none is raised."""

    def __init__(self) -> None:
        self.active: frozenset[str] = frozenset()
        self._listeners: dict[Listener, None] = {}

    @property
    def reason(self) -> str:
        """The reason in connection.blocked: `low on memory`, `low on disk`, `low on memory & disk`."""
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


#: Bytes that a freed block of Python's allocator makes available, at least: a message and its body are larger.
BLOCK_BYTES: Final = 48


class Reusable:
    """Memory that is free but still resident.

    Python's allocator returns memory by the megabyte, once all of it is free: a single remaining object keeps it
    resident. The next messages use the freed memory around that object before the process grows, so it counts as free.
    The allocator does not report how much that is; the number of blocks in use, compared with the number when the
    process was largest, gives an estimate.
    """

    __slots__ = ("_blocks", "_resident_bytes")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._blocks = 0
        self._resident_bytes = 0

    def used_bytes(self, resident_bytes: int, blocks: int) -> int:
        """The part of the resident memory that is in use."""
        if blocks >= self._blocks:
            self._blocks = blocks
            self._resident_bytes = resident_bytes
        freed_bytes = BLOCK_BYTES * (self._blocks - blocks)
        # Memory returned to the system meanwhile was freed as well and must not be subtracted twice.
        return min(resident_bytes, max(resident_bytes, self._resident_bytes) - freed_bytes)


class MemoryWatch:
    """Raises the memory alarm while the process uses more than `limit_bytes`. Checks once per interval."""

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
        """Check now and once per interval from now on."""
        self.stop()
        self._tick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        self.used_bytes = self._read()
        if self.used_bytes > self.limit_bytes:
            # The allocator keeps the memory of consumed messages unless trimmed, so the alarm would never clear.
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
    """Raises the disk alarm while the data folder's disk is short of space, while writes to it fail, or while written
    data would be lost."""

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
        #: Bytes that the store has allocated on disk and not filled.
        self._spare = spare
        self._limit_bytes = limit_bytes
        self._folder = folder
        self._interval_ms = interval_ms
        self._read_free = read_free or free_bytes
        self._is_failing = False
        #: Finds faults of the store although writes succeed. The last fault is kept so that it is logged once.
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
        """Note that writes fail, or succeed again."""
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
    """Bytes that this process may still use on the folder's disk."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize


def memory_limit(watermark: float, available_bytes: int) -> int:
    """The limit in bytes. A watermark up to 1 is a fraction of the available memory, above 1 a number of bytes; the
    limit never exceeds the available memory."""
    return int(available_bytes * watermark) if watermark <= 1 else min(int(watermark), available_bytes)


def resident_bytes() -> int:
    """Resident memory of this process."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:
        # Without /proc only the peak is known, so there the alarm does not clear.
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest if sys.platform == "darwin" else largest * 1024


def total_bytes(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory this process may use: the machine's, or the limit of its control group if that is lower."""
    physical = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    return min([physical, *_cgroup_limits(proc, cgroups)])


def _cgroup_limits(proc: Path, cgroups: Path) -> list[int]:
    """The memory limits of the process's control group and its parents, version 2 and 1."""
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
        # A container often sees its own group as the root, whatever the path: `parents` includes the root too.
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
    """Ask the C library to return freed memory to the system, if it has malloc_trim."""
    if _malloc_trim is not None:
        _malloc_trim(0)


def _find_malloc_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


_malloc_trim: Final = _find_malloc_trim()
