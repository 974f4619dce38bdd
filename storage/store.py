"""The store on disk: SQLite behind the port. Commits run in aiosqlite's thread, one hop there and one back; reads for
paging on the loop's. Owns the data folder from open() to close()."""

import sqlite3
from contextlib import AsyncExitStack
from pathlib import Path
from threading import Thread
from typing import Final

import aiosqlite

from rabbitlike.storage.api import Recovered, Work
from rabbitlike.storage.database import (
    FILE_NAME,
    LOG_STEP_BYTES,
    PAGE_BYTES,
    Durability,
    Lock,
    grow_log,
    log_of,
    make_folder,
    pragmas,
    prepared,
)
from rabbitlike.storage.errors import blame, explain
from rabbitlike.storage.pages import Pages
from rabbitlike.storage.recovery import Recovery, recover
from rabbitlike.storage.transaction import TransactionConnection
from rabbitlike.storage.upkeep import Upkeep

#: The write-ahead log is made this long, step by step, and used in circles. It grows past it only while checkpoints
#: cannot keep up.
LOG_BYTES: Final = 128 << 20


class SqliteStore:
    """Everything durable, in one file in `folder`."""

    is_durable = True

    def __init__(self, folder: Path, durability: Durability = "full", *, log_bytes: int = LOG_BYTES) -> None:
        self.path = folder / FILE_NAME
        self.durability: Durability = durability
        self._folder = folder
        self._log_bytes = log_bytes

    async def open(self) -> Recovered:
        make_folder(self._folder)
        async with AsyncExitStack() as opened:
            opened.callback(Lock(self._folder).release)
            with prepared(self.path, self.durability) as connection:
                recovery = recover(connection)
            length = self._grow_log(LOG_STEP_BYTES)
            try:
                await self._start(recovery, length, opened)
            except sqlite3.Error as error:
                raise explain(error, self.path) from error
            self._opened = opened.pop_all()
        return recovery.recovered

    async def _start(self, recovery: Recovery, length: int, opened: AsyncExitStack) -> None:
        """Three connections: one writes, one checkpoints beside it, one reads on this thread. The writer's is the
        last to be closed: that folds the log into the file."""

        def make(*arguments: object, **options: object) -> TransactionConnection:
            connection = TransactionConnection(*arguments, **options)  # type: ignore[arg-type]
            connection.last_id = connection.reserved_id = recovery.recovered.last_batch_id
            connection.marked = recovery.marked
            self._transaction = connection
            return connection

        self._writer = await opened.enter_async_context(
            _ending_with_the_process(aiosqlite.connect(self.path, factory=make, isolation_level=None))
        )
        await self._writer.executescript(pragmas(self.durability))
        # After it had to grow, the log is cut back to its length.
        await self._writer.executescript(f"PRAGMA journal_size_limit = {self._log_bytes}")
        other = await opened.enter_async_context(
            _ending_with_the_process(aiosqlite.connect(self.path, isolation_level=None))
        )
        await other.executescript(pragmas(self.durability))
        self._pages = Pages(self.path)
        opened.callback(self._pages.close)
        # A function of SQL runs in the writer's thread, when no commit does.
        await self._writer.create_function("grow_log", 1, self._grow_log)
        self._upkeep = Upkeep(self._writer, other, log_of(self.path), self._log_bytes, length)
        opened.push_async_callback(self._upkeep.close)

    def _grow_log(self, octets: int) -> int:
        """Only where each commit is synced does a longer log make a difference."""
        return grow_log(self.path, octets, self._log_bytes) if self.durability == "full" else 0

    async def commit(self, work: Work) -> None:
        if self._upkeep.is_behind:
            await self._upkeep.room()
        self._transaction.work = work
        try:
            await self._writer.commit()
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        except (ArithmeticError, TypeError, ValueError) as error:  # Python's module refuses a value
            raise blame(error, self.path) from error
        # A guess is enough: the pages of the data, and those of the tables and indexes around it.
        self._upkeep.written(sum(len(batch.data) for batch in work.batches) + 3 * PAGE_BYTES)

    def read(self, batch_id: int) -> bytes:
        return self._pages.read(batch_id)

    def spare_bytes(self) -> int:
        return self._pages.spare_bytes()

    async def close(self) -> None:
        await self._opened.aclose()


def _ending_with_the_process(connection: aiosqlite.Connection) -> aiosqlite.Connection:
    """Without it a process that fails before it has closed the store would never end: its thread waits for work."""
    # aiosqlite has no public way; before 0.22 the connection was the thread. What was committed is safe: it is a crash.
    thread: Thread = getattr(connection, "_thread", connection)  # type: ignore[arg-type]
    thread.daemon = True
    return connection
