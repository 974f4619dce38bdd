"""Keeps the write-ahead log short and the file no larger than necessary, without delaying commits.

SQLite appends commits to its log, and restarts at its beginning only when all of it is copied into the file (a
checkpoint). Under load that never happens by itself, so a second connection copies in small steps during commits; when
the log is nearly full, the writer's connection copies the small rest between two commits. When idle, everything is
copied, and free pages return to the file system. Small steps, because frequent fsyncs delay the next commit's: steps of
2-4 MB kept the 99th percentile at a third of that with 32 MB.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from rabbitlike.storage.database import LOG_STEP_BYTES, PAGE_BYTES

log = logging.getLogger(__name__)

#: Size of a page in the log, with its header.
FRAME_BYTES: Final = PAGE_BYTES + 24
#: The store is idle after this time without a commit.
LULL_S: Final = 1.0
#: Delay after a checkpoint without progress: a backup is reading, or the disk is full.
RETRY_S: Final = 0.2
#: This many free pages, or a quarter of the file, stay in the file: growing it again costs more than keeping them.
SPARE_PAGES: Final = (64 << 20) // PAGE_BYTES
#: Pages returned at a time: commits wait meanwhile, and more would not fit the cache and be written in vain.
SLICE_PAGES: Final = 256

_PASSIVE: Final = "PRAGMA wal_checkpoint(PASSIVE)"


class Executor(Protocol):
    """A connection in its own thread."""

    async def execute_fetchall(self, sql: str) -> Iterable[Any]: ...

    async def executescript(self, sql: str) -> object: ...


class Upkeep:
    """Checkpoints and vacuums in its own task; the store reports every commit to it."""

    def __init__(
        self,
        writer: Executor,
        other: Executor,
        log_path: Path,
        log_bytes: int,
        length: int,
        grow: Callable[[], Awaitable[int]],
        copied: Callable[[], Awaitable[None]],
    ) -> None:
        """`grow` extends the log between two commits and returns its length; `copied` is called when the database has
        all of the log."""
        self._grow = grow
        self._copied = copied
        self._writer = writer
        self._other = other
        self._log_path = log_path
        #: Octets copied at a time; at most this much is left for the writer's connection.
        self._step = log_bytes // 32
        #: Log lengths at which it should restart soon, and must restart at once, however much the writer has to copy.
        self._soon = log_bytes // 4 * 3
        self._at_once = log_bytes * 2
        #: Target length of the log, and its length; if it cannot grow, this is set to the target.
        self._enough = log_bytes
        self._length = length
        #: Octets in the log since it last restarted, and those not yet copied: estimates, which each checkpoint
        #: corrects.
        self.log_bytes = 0
        self._left = 0
        #: How far the last incomplete checkpoint came.
        self._came_to = 0
        self._commits = 0
        self._is_resting = False
        self._wake = asyncio.Event()
        #: Set while nothing is being copied.
        self._pause = asyncio.Event()
        self._pause.set()
        self._task = asyncio.create_task(self._run(), name="storage upkeep")

    def written(self, log_bytes: int) -> None:
        """Note a commit; the log now holds ``log_bytes``."""
        # Fewer than before: the log has restarted.
        self.guess(log_bytes - self.log_bytes if log_bytes > self.log_bytes else log_bytes)
        self.log_bytes = log_bytes

    def guess(self, octets: int) -> None:
        """Note a commit that added approximately ``octets`` to the log."""
        self.log_bytes += octets
        self._left += octets
        self._commits += 1
        if self._left >= self._step or self._is_resting or self._is_short():
            self._wake.set()

    @property
    def is_behind(self) -> bool:
        """Whether the log is far too long, so that commits should await room(). Measured: a restart truncates the
        file."""
        if self.log_bytes < self._soon:
            return False
        try:
            return self._log_path.stat().st_size >= self._at_once
        except OSError:
            return False  # the file was removed: commits will report that

    async def room(self) -> None:
        """Wait until the current copying is done. Does not wait for readers that keep the log from restarting."""
        await self._pause.wait()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        is_failing = False
        while True:
            self._is_resting = False
            while not self._is_resting:
                try:
                    await self._care()
                    is_failing = False
                except sqlite3.Error as error:
                    # Nothing is lost, only the log grows. Commits report the error if it concerns them.
                    if not is_failing:
                        log.warning("checkpoint failed, retrying: %s", error)
                    is_failing = True
                    await asyncio.sleep(RETRY_S)
            await self._wake.wait()

    async def _care(self) -> None:
        """Work until an idle period has been used."""
        while True:
            self._wake.clear()
            if self._is_short():
                await self._lengthen()
            if self._left >= self._step:
                if not await self._copy():
                    await asyncio.sleep(RETRY_S)
                continue
            commits = self._commits
            try:
                async with asyncio.timeout(LULL_S):  # wait_for of Python 3.11 may swallow a cancellation
                    await self._wake.wait()
            except TimeoutError:
                if commits == self._commits and await self._rest():
                    return

    async def _copy(self) -> bool:
        """Copy one step. False without progress: a reader uses an old state, or the disk is full."""
        self._pause.clear()
        try:
            before = self._left
            in_log, copied = await self._checkpoint(self._other)
            since = self._left - before
            self.log_bytes = in_log + since
            self._left = in_log - copied + since
            # A commit that has just begun is in the way like a reader, but not for the writer's own connection.
            is_stuck = self._came_to == copied < in_log
            self._came_to = copied if copied < in_log else 0
            if not is_stuck and self.log_bytes < self._soon:
                if self._left == 0:
                    self.log_bytes = 0  # the next commit restarts the log, unless a commit began meanwhile
                return True
            if not is_stuck and self._left > self._step and not self.is_behind:
                return True
            return await self._start_over()
        finally:
            self._pause.set()

    async def _start_over(self) -> bool:
        """Copy the rest with the writer's connection: no commit runs then, and the next one restarts the log."""
        in_log, copied = await self._checkpoint(self._writer)
        self._left = in_log - copied
        self.log_bytes = in_log if self._left else 0
        return self._left == 0

    async def _rest(self) -> bool:
        """Use the idle period. False if it ended before everything was done."""
        commits = self._commits
        await self._copy()
        if await self._give_back(commits):
            await self._copy()
        if self._left == 0:
            await self._copied()
        while commits == self._commits and await self._lengthen():
            pass
        if commits != self._commits:
            return False
        self._is_resting = True
        return True

    async def _checkpoint(self, connection: Executor) -> tuple[int, int]:
        """Octets in the log, and how many of them are copied to the file."""
        ((_, in_log, copied),) = await connection.execute_fetchall(_PASSIVE)
        return max(in_log, 0) * FRAME_BYTES, max(copied, 0) * FRAME_BYTES

    def _is_short(self) -> bool:
        """Whether the next commits would append to the log."""
        return self._length < self._enough and self.log_bytes + LOG_STEP_BYTES // 2 > self._length

    async def _lengthen(self) -> bool:
        """Extend the log by one step, so that commits overwrite it. False if it cannot grow further."""
        length = await self._grow()
        has_grown = length > self._length
        self._length = length if has_grown else self._enough
        return has_grown

    async def _give_back(self, commits: int) -> bool:
        """Shrink the file during the idle period. True if it shrank."""
        has_shrunk = False
        while commits == self._commits:
            ((free,),) = await self._writer.execute_fetchall("PRAGMA freelist_count")
            ((total,),) = await self._writer.execute_fetchall("PRAGMA page_count")
            excess = free - max(SPARE_PAGES, total // 4)
            if excess <= 0:
                break
            # execute() would do only one step, which is one page.
            await self._writer.executescript(f"PRAGMA incremental_vacuum({min(excess, SLICE_PAGES)})")
            has_shrunk = True
        return has_shrunk
