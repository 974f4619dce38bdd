"""Keeps the write-ahead log short and the file no bigger than it need be, out of the commits' way.

SQLite appends every commit to its log, and starts over at the log's beginning only when all of it was copied into the
file (a checkpoint). Under load that moment never comes by itself, so a second connection copies all the time, in small
steps, while commits go on; and when the log is nearly full, the writer's own connection copies the little that is left
between two commits, and the next one starts over. In a lull everything is copied, and pages that became free are given
back to the file system. Small steps, because whoever fsyncs much makes the next commit's fsync wait: 2-4 MB at a time
kept the 99th percentile at a third of what 32 MB at a time did.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from rabbitlike.storage.database import LOG_STEP_BYTES, PAGE_BYTES

log = logging.getLogger(__name__)

#: A page in the log with its header.
FRAME_BYTES: Final = PAGE_BYTES + 24
#: No commit for so long is a lull.
LULL_S: Final = 1.0
#: Before a checkpoint that did not get on is tried again: a backup is reading, or the disk is full.
RETRY_S: Final = 0.2
#: Free pages stay in the file up to so many, or a quarter of the file: growing it again costs more than they do.
SPARE_PAGES: Final = (64 << 20) // PAGE_BYTES
#: Given back at a time: commits wait meanwhile, and more would not fit the cache and be written in vain.
SLICE_PAGES: Final = 256

_PASSIVE: Final = "PRAGMA wal_checkpoint(PASSIVE)"


class Executor(Protocol):
    """A connection in a thread of its own."""

    async def execute_fetchall(self, sql: str) -> Iterable[Any]: ...

    async def executescript(self, sql: str) -> object: ...


class Upkeep:
    """Told of every commit by the store; works in a task of its own."""

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
        """`grow` makes the log longer between two commits, and tells how long it is; `copied` is told when the database
        has all of it."""
        self._grow = grow
        self._copied = copied
        self._writer = writer
        self._other = other
        self._log_path = log_path
        #: So much is copied at a time; no more than that is left to the writer.
        self._step = log_bytes // 32
        #: A log so long is to start over soon, and one so long at once, however much the writer must copy for it.
        self._soon = log_bytes // 4 * 3
        self._at_once = log_bytes * 2
        #: How long the log is to be, and how long it is; where it cannot grow, that is as good as long enough.
        self._enough = log_bytes
        self._length = length
        #: Octets in the log since it last started over, and those not yet copied: guesses, but each checkpoint knows.
        self.log_bytes = 0
        self._left = 0
        #: How far the last checkpoint came that did not copy all.
        self._came_to = 0
        self._commits = 0
        self._is_resting = False
        self._wake = asyncio.Event()
        #: Set while nothing is being copied.
        self._pause = asyncio.Event()
        self._pause.set()
        self._task = asyncio.create_task(self._run(), name="storage upkeep")

    def written(self, log_bytes: int) -> None:
        """There was a commit, and so many octets are in the log now."""
        # Fewer than before: the log has started over.
        self.guess(log_bytes - self.log_bytes if log_bytes > self.log_bytes else log_bytes)
        self.log_bytes = log_bytes

    def guess(self, octets: int) -> None:
        """A commit has added about so many octets to the log."""
        self.log_bytes += octets
        self._left += octets
        self._commits += 1
        if self._left >= self._step or self._is_resting or self._is_short():
            self._wake.set()

    @property
    def is_behind(self) -> bool:
        """The log is far too long: a commit should wait for room(). Not guessed: starting over cuts the file back."""
        if self.log_bytes < self._soon:
            return False
        try:
            return self._log_path.stat().st_size >= self._at_once
        except OSError:
            return False  # somebody removed it: commits will tell

    async def room(self) -> None:
        """When the copying under way is done. Does not wait where a reader keeps the log from starting over."""
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
                    # Nothing is lost, only the log grows. Commits say so themselves when they are concerned.
                    if not is_failing:
                        log.warning("checkpoint failed, retrying: %s", error)
                    is_failing = True
                    await asyncio.sleep(RETRY_S)
            await self._wake.wait()

    async def _care(self) -> None:
        """Until a lull has been used."""
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
                async with asyncio.timeout(LULL_S):  # wait_for of Python 3.11 may swallow that the task is cancelled
                    await self._wake.wait()
            except TimeoutError:
                if commits == self._commits and await self._rest():
                    return

    async def _copy(self) -> bool:
        """One step. False when nothing moves: somebody reads an old state, or the disk is full."""
        self._pause.clear()
        try:
            before = self._left
            in_log, copied = await self._checkpoint(self._other)
            since = self._left - before
            self.log_bytes = in_log + since
            self._left = in_log - copied + since
            # A commit that begins just now is in the way as a reader is, but not of the writer's own connection.
            is_stuck = self._came_to == copied < in_log
            self._came_to = copied if copied < in_log else 0
            if not is_stuck and self.log_bytes < self._soon:
                if self._left == 0:
                    self.log_bytes = 0  # the next commit starts over by itself, unless one had begun meanwhile
                return True
            if not is_stuck and self._left > self._step and not self.is_behind:
                return True
            return await self._start_over()
        finally:
            self._pause.set()

    async def _start_over(self) -> bool:
        """Copy what is left with the writer's connection: no commit is under way then, the next begins a new log."""
        in_log, copied = await self._checkpoint(self._writer)
        self._left = in_log - copied
        self.log_bytes = in_log if self._left else 0
        return self._left == 0

    async def _rest(self) -> bool:
        """Use the lull. False when it ended before all was done."""
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
        """Octets in the log, and how many of them are in the file as well."""
        ((_, in_log, copied),) = await connection.execute_fetchall(_PASSIVE)
        return max(in_log, 0) * FRAME_BYTES, max(copied, 0) * FRAME_BYTES

    def _is_short(self) -> bool:
        """The next commits would have to append to the log."""
        return self._length < self._enough and self.log_bytes + LOG_STEP_BYTES // 2 > self._length

    async def _lengthen(self) -> bool:
        """One step towards the log's full length, so that commits overwrite it. False: it is as long as it can be."""
        length = await self._grow()
        has_grown = length > self._length
        self._length = length if has_grown else self._enough
        return has_grown

    async def _give_back(self, commits: int) -> bool:
        """Shrink the file while the lull lasts. True when it did anything."""
        has_shrunk = False
        while commits == self._commits:
            ((free,),) = await self._writer.execute_fetchall("PRAGMA freelist_count")
            ((total,),) = await self._writer.execute_fetchall("PRAGMA page_count")
            excess = free - max(SPARE_PAGES, total // 4)
            if excess <= 0:
                break
            # execute() would take one step, which is one page
            await self._writer.executescript(f"PRAGMA incremental_vacuum({min(excess, SLICE_PAGES)})")
            has_shrunk = True
        return has_shrunk
