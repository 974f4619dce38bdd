"""The store on disk: SQLite behind the port. Commits run in their own thread, reads for paging in the loop's. Owns the
data folder from open() to close()."""

import logging
import sqlite3
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import aiosqlite

from rabbitlike.storage.api import BatchReader, Recovered, StorageError, Work
from rabbitlike.storage.commit_record import FILE_NAME as RECORD_NAME
from rabbitlike.storage.commit_record import CommitRecord, clear, remove_record
from rabbitlike.storage.commit_thread import CommitThread
from rabbitlike.storage.database import (
    FILE_NAME,
    LOCK_NAME,
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
from rabbitlike.storage.event_files import FOLDER as EVENTS_FOLDER
from rabbitlike.storage.files import DataFiles
from rabbitlike.storage.modes import tighten
from rabbitlike.storage.pages import Pages
from rabbitlike.storage.recovery import Recovery, recover
from rabbitlike.storage.transaction import TransactionConnection
from rabbitlike.storage.upkeep import FRAME_BYTES, Upkeep

log = logging.getLogger(__name__)

#: The write-ahead log is extended to this length in steps, then overwritten from its start. It grows further only while
#: checkpoints cannot keep up.
LOG_BYTES: Final = 128 << 20


class SqliteStore:
    """All durable data, in one file in `folder`."""

    is_durable = True

    def __init__(self, folder: Path, durability: Durability = "full", *, log_bytes: int = LOG_BYTES) -> None:
        self.path = folder / FILE_NAME
        self.durability: Durability = durability
        self._folder = folder
        self._log_bytes = log_bytes
        self._record: CommitRecord | None = None
        self._files: DataFiles | None = None
        #: Work that was committed although the commit failed, because a file was missing: it must not be committed
        #: twice.
        self._written: Work | None = None

    async def open(self) -> Recovered:
        self._files = None  # of the last run
        make_folder(self._folder)
        async with AsyncExitStack() as opened:
            lock = Lock(self._folder)
            opened.callback(lock.release)
            troubles = clear(self.path)
            with prepared(self.path, self.durability) as connection:
                remove_record(self.path)
                recovery = recover(connection)
            lock.note_database()
            tighten(self._folder, f"{FILE_NAME}*", f"{LOCK_NAME}*", RECORD_NAME, EVENTS_FOLDER)
            length = self._grow_log(LOG_STEP_BYTES)
            try:
                await self._start(recovery, length, opened)
            except (sqlite3.Error, OSError) as error:
                raise explain(error, self.path) from error
            self._opened = opened.pop_all()
        return replace(recovery.recovered, troubles=[*troubles, *recovery.recovered.troubles])

    async def _start(self, recovery: Recovery, length: int, opened: AsyncExitStack) -> None:
        """Open three connections: one writes, one checkpoints meanwhile, one reads on this thread. The writer's closes
        last: that checkpoints and removes the log."""

        def connect_writer() -> TransactionConnection:
            connection = sqlite3.connect(self.path, factory=TransactionConnection, isolation_level=None)
            connection.last_id = connection.reserved_id = recovery.recovered.last_batch_id
            connection.described_id = recovery.described_id
            connection.marked = recovery.marked
            connection.executescript(pragmas(self.durability))
            # After the log had to grow, it is truncated to this length.
            connection.executescript(f"PRAGMA journal_size_limit = {self._log_bytes}")
            return connection

        files = DataFiles(self.path)
        opened.callback(files.close)  # after the connections are closed
        opened.callback(self._close_record)
        self._writer: CommitThread[TransactionConnection] = CommitThread()
        opened.push_async_callback(self._writer.close)
        await self._writer.connect(connect_writer)
        # The writer is a daemon thread and starts aiosqlite's thread, which is thus a daemon too: a process that fails
        # before it closes the store must still end.
        connection = await self._writer.run(partial(aiosqlite.connect, self.path, isolation_level=None))
        other = await opened.enter_async_context(connection)
        await other.executescript(pragmas(self.durability))
        self._pages = Pages(self.path)
        opened.callback(self._pages.close)
        # Each connection opens the log at its first read: read now, before the log can be removed and created anew.
        await self._writer.execute_fetchall("SELECT 1 FROM counters")
        await other.execute_fetchall("SELECT 1 FROM counters")
        self._pages.spare_bytes()
        files.watch_log()
        self._files = files
        self._upkeep = Upkeep(
            self._writer,
            other,
            log_of(self.path),
            self._log_bytes,
            length,
            lambda: self._writer.run(self._grow_log, LOG_STEP_BYTES),
            lambda: self._writer.run(self._renew_record),
        )
        opened.push_async_callback(self._upkeep.close)
        await self._writer.run(self._open_record)
        opened.callback(remove_record, self.path)

    def _grow_log(self, octets: int) -> int:
        """Extend the log by one step; a longer log helps only if each commit is synced."""
        if self.find_fault() is not None:
            return 0
        return grow_log(self.path, octets, self._log_bytes) if self.durability == "full" else 0

    def _open_record(self) -> None:
        self._writer.connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # creates the log's index
        try:
            self._record = CommitRecord(self.path, self.durability)
        except OSError as error:
            log.warning("commits are not recorded, so damage in the log will not be detected: %s", error)

    def _renew_record(self) -> None:
        if self._record is not None:
            self._record.renew()

    def _close_record(self) -> None:
        if self._record is not None:
            self._record.close()
            self._record = None

    def find_fault(self) -> StorageError | None:
        """The fault and its remedy if the files are no longer where they were opened; None otherwise."""
        return None if self._files is None else self._files.find_fault()

    async def commit(self, work: Work) -> None:
        if work is not self._written:
            await self._write_durably(work)
        assert self._files is not None
        if not self._files.are_safe():
            self._written = work
            assert self._files.fault is not None
            raise self._files.fault
        self._written = None

    async def _write_durably(self, work: Work) -> None:
        if self._upkeep.is_behind:
            await self._upkeep.room()
        try:
            frames = await self._writer.run(self._write, work)
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        except (ArithmeticError, TypeError, ValueError) as error:  # Python's sqlite3 module rejects a value
            raise blame(error, self.path) from error
        if frames is not None:
            self._upkeep.written(frames * FRAME_BYTES)
            return
        # An estimate is enough: pages of the data, and of the tables and indexes around it.
        self._upkeep.guess(sum(batch.body_bytes + 100 * batch.count for batch in work.batches) + 3 * PAGE_BYTES)

    def _write(self, work: Work) -> int | None:
        """Write in the writer's thread; return the number of frames in the log, if known."""
        self._writer.connection.write(work)
        record = self._record
        if record is None or (state := record.state()) is None:
            return None
        self._writer.later(record.add, sum([batch.count for batch in work.batches]))  # after the confirm
        return state.frames

    def read(self, batch_id: int) -> bytes:
        return self._pages.read(batch_id)

    def open_batch(self, batch_id: int) -> BatchReader:
        return self._pages.open(batch_id)

    def spare_bytes(self) -> int:
        return self._pages.spare_bytes()

    async def close(self) -> None:
        await self._opened.aclose()
