"""Writes a `Work` as one SQL transaction with few statements, in one call of the store's thread.

A work that is too large for one transaction is written in several. Until the last of them is done, a counter tells
recovery from which batch on to delete.

Every statement releases the interpreter lock and must win it back from a busy loop, so ids are passed as one JSON list
instead of a statement each, and a single batch is a single INSERT without BEGIN and COMMIT.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final
from zlib import crc32

from rabbitlike.storage.api import Batch, Work

#: Batch ids are reserved in blocks of this size: after a crash, numbering continues after the reserved block.
RESERVE: Final = 1 << 20
#: Batches are described in blocks of this size: that writes one more page, but rarely. Recovery reads data pages of the
#: rest.
BLOCK: Final = 256
#: A larger work is written in several transactions.
PART_BYTES: Final = 32 << 20
#: A larger batch is written in pieces: Python's sqlite3 module would copy it and keep other threads from running.
LARGE_BYTES: Final = 8 << 20
STEP_BYTES: Final = 1 << 20
#: Approximate size of a message in a batch without its body.
MESSAGE_BYTES: Final = 100

_INSERT_RECORD: Final = "INSERT OR REPLACE INTO records VALUES (?, ?, ?)"
_DELETE_RECORD: Final = "DELETE FROM records WHERE kind = ? AND key = ?"
#: Parameters: a queue and the highest described batch; few batches are above it.
_DELETE_QUEUE_BATCHES: Final = (
    """DELETE FROM settled WHERE batch_id IN (
        SELECT batch_id FROM batch_descriptors WHERE queue_id = ?1
        UNION ALL SELECT batch_id FROM batches WHERE batch_id > ?2 AND queue_id = ?1
    )""",
    """DELETE FROM batches WHERE batch_id IN (
        SELECT batch_id FROM batch_descriptors WHERE queue_id = ?1
        UNION ALL SELECT batch_id FROM batches WHERE batch_id > ?2 AND queue_id = ?1
    )""",
)
_DELETE_QUEUE: Final = (
    "DELETE FROM batch_descriptors WHERE queue_id = ?",
    "DELETE FROM marks WHERE queue_id = ?",
    "DELETE FROM attempts WHERE queue_id = ?",
)
_INSERT_BATCH: Final = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#: For a large batch, whose data is written afterwards in pieces.
_INSERT_LARGE: Final = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, zeroblob(?), ?)"
_DELETE_BATCH: Final = "DELETE FROM batches WHERE batch_id = ?"
#: Runs before the batches are deleted, because they tell the queue.
_DELETE_DESCRIPTORS: Final = """
    DELETE FROM batch_descriptors WHERE (queue_id, batch_id) IN (
        SELECT queue_id, batch_id FROM batches WHERE batch_id IN (SELECT value FROM json_each(?))
    )
"""
_DELETE_BATCHES: Final = "DELETE FROM batches WHERE batch_id IN (SELECT value FROM json_each(?))"
_DELETE_SETTLED: Final = "DELETE FROM settled WHERE batch_id IN (SELECT value FROM json_each(?))"
_INSERT_SETTLED: Final = "INSERT OR REPLACE INTO settled VALUES (?, ?)"
_INSERT_MARK: Final = "INSERT OR REPLACE INTO marks VALUES (?, ?, ?)"
_INSERT_ATTEMPT: Final = "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)"
_DELETE_ATTEMPT: Final = "DELETE FROM attempts WHERE queue_id = ? AND position = ?"
_DELETE_OWNER: Final = "DELETE FROM seen WHERE owner = ?"
_DELETE_SEEN: Final = "DELETE FROM seen WHERE owner = ? AND key = ?"
_INSERT_SEEN: Final = "INSERT OR REPLACE INTO seen (owner, key, number, expires_at_ms) VALUES (?, ?, ?, ?)"
_INSERT_COUNTER: Final = "INSERT OR REPLACE INTO counters VALUES ('batch_id', ?)"

#: The first batch of a large work that is written in several transactions.
_INSERT_UNFINISHED: Final = "INSERT OR REPLACE INTO counters VALUES ('unfinished', ?)"
_DELETE_UNFINISHED: Final = "DELETE FROM counters WHERE name = 'unfinished'"

#: Describe the batches above this one.
DESCRIBE: Final = """
    INSERT INTO batch_descriptors
    SELECT queue_id, batch_id, level, first_position, last_position, count, body_bytes, expires_at_ms, is_transient
    FROM batches WHERE batch_id > ?
"""

#: Index of the data in a row of batches.
_DATA_COLUMN: Final = 9

_Value = int | str | bytes
#: A statement and the rows to run it with.
_Step = tuple[str, Sequence[Sequence[_Value]]]


class _Rows(Sequence[Sequence[_Value]]):
    """The rows of batches, each made on access: together they may be too large for memory."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: Any) -> Any:
        return _row(self._batches[index])


def octets(text: str) -> bytes:
    """A name as the client sent it; SQLite's TEXT would reject invalid UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


class TransactionConnection(sqlite3.Connection):
    """The writing connection. Belongs to the thread that created it."""

    #: The highest batch id in use, and the highest reserved id. Recovery sets both.
    last_id = 0
    reserved_id = 0
    #: Batches up to this one are described (recovery sets it), and the number of batches above it that are not.
    described_id = 0
    undescribed = 0
    #: The highest batch written ahead for a large work that is not finished; 0: none.
    ahead_id = 0
    #: Batches that have a bitmap, so that deleting other batches need not look for one. Recovery sets it.
    marked: set[int]

    def write(self, work: Work) -> None:
        """Write the work as one transaction, all or nothing."""
        if (batch := _lone_batch(work)) is not None and self._is_next(batch) and batch.body_bytes <= LARGE_BYTES:
            # A single message: nothing else needs to be written or remembered.
            self.execute(_INSERT_BATCH, _row(batch))
            self.last_id = batch.batch_id
            self.undescribed += 1
            return
        work = self._write_ahead(work)
        steps = list(self._steps(work))
        if len(steps) == 1 and len(steps[0][1]) == 1 and steps[0][0] is not _INSERT_LARGE:
            self.execute(steps[0][0], steps[0][1][0])
        elif steps:
            self._run_whole(steps)
        self._remember(work)

    def _write_ahead(self, work: Work) -> Work:
        """Write most of a large work in separate transactions, noted as unfinished so that recovery can delete them.
        Return the rest, which finishes it; or the work itself, if it is not large."""
        parts = _parts(work.batches)
        if len(parts) <= 1:
            return work
        for batches in parts[:-1]:
            last_id = batches[-1].batch_id
            if last_id <= self.ahead_id:
                continue  # an earlier try of this work failed at its end
            steps = list(_insert(batches))
            if self.ahead_id == 0:
                steps.append((_INSERT_UNFINISHED, [(batches[0].batch_id,)]))
            if last_id > self.reserved_id:
                steps.append((_INSERT_COUNTER, [(last_id + RESERVE,)]))
            self._run_whole(steps)
            self.ahead_id = self.last_id = last_id
            if last_id > self.reserved_id:
                self.reserved_id = last_id + RESERVE
            self.undescribed += len(batches)
        return replace(work, batches=parts[-1])

    def close(self) -> None:
        """Return reserved but unused ids, if possible, and close."""
        with suppress(sqlite3.Error):
            if self.reserved_id > self.last_id:
                self.execute(_INSERT_COUNTER, (self.last_id,))
        super().close()

    def _is_next(self, batch: Batch) -> bool:
        return self.last_id < batch.batch_id <= self.reserved_id and self.undescribed < BLOCK and not batch.settled

    def _run_whole(self, steps: list[_Step]) -> None:
        cursor = self.execute("BEGIN IMMEDIATE")
        try:
            for sql, rows in steps:
                if sql is _INSERT_LARGE:
                    self._insert_large(cursor, rows[0])
                elif len(rows) == 1:
                    cursor.execute(sql, rows[0])
                else:
                    cursor.executemany(sql, rows)
            cursor.execute("COMMIT")
        except BaseException:
            # SQLite has already rolled back after some errors (a full disk), but not after others.
            if self.in_transaction:
                cursor.execute("ROLLBACK")
            raise

    def _insert_large(self, cursor: sqlite3.Cursor, row: Sequence[_Value]) -> None:
        batch_id, data = row[0], row[_DATA_COLUMN]
        assert isinstance(batch_id, int)
        assert isinstance(data, bytes)
        cursor.execute(_INSERT_LARGE, (*row[:_DATA_COLUMN], len(data), *row[_DATA_COLUMN + 1 :]))
        view = memoryview(data)
        with self.blobopen("batches", "data", batch_id) as blob:
            for at in range(0, len(view), STEP_BYTES):
                blob.write(view[at : at + STEP_BYTES])

    def _steps(self, work: Work) -> Iterator[_Step]:  # noqa: C901 - a list of what a Work can hold, in its order
        if work.records:
            yield _INSERT_RECORD, [(record.kind, octets(record.key), octets(record.value)) for record in work.records]
        if work.removed_records:
            yield _DELETE_RECORD, [(kind, octets(key)) for kind, key in work.removed_records]
        if work.removed_queues:
            for sql in _DELETE_QUEUE_BATCHES:
                yield sql, [(queue_id, self.described_id) for queue_id in work.removed_queues]
            for sql in _DELETE_QUEUE:
                yield sql, [(queue_id,) for queue_id in work.removed_queues]
        if work.batches:
            ids = [batch.batch_id for batch in work.batches]
            if min(ids) <= self.described_id:
                raise ValueError(f"batch {min(ids)} comes after batch {self.described_id}")  # recovery would miss it
            yield from _insert(work.batches)
            if max(ids) > self.reserved_id:
                yield _INSERT_COUNTER, [(max(ids) + RESERVE,)]
        if work.removed_batches:
            if described := [batch_id for batch_id in work.removed_batches if batch_id <= self.described_id]:
                yield _DELETE_DESCRIPTORS, [(_ids(described),)]
            if len(work.removed_batches) == 1:
                yield _DELETE_BATCH, [(work.removed_batches[0],)]
            else:
                yield _DELETE_BATCHES, [(_ids(work.removed_batches),)]
            if marked := [batch_id for batch_id in work.removed_batches if batch_id in self.marked]:
                yield _DELETE_SETTLED, [(_ids(marked),)]
        if bitmaps := _bitmaps(work):
            yield _INSERT_SETTLED, bitmaps
        if work.marks:
            yield _INSERT_MARK, work.marks
        if work.attempts:
            last = {attempt[:2]: attempt for attempt in work.attempts}  # the last one is valid
            if kept := [attempt for attempt in last.values() if not attempt.is_over]:
                yield _INSERT_ATTEMPT, kept
            if gone := [place for place, attempt in last.items() if attempt.is_over]:
                yield _DELETE_ATTEMPT, gone
        if work.forgotten_owners:
            yield _DELETE_OWNER, [(octets(owner),) for owner in work.forgotten_owners]
        if work.forgotten:
            yield _DELETE_SEEN, [(octets(owner), key) for owner, key in work.forgotten]
        if work.seen:
            yield _INSERT_SEEN, [(octets(each.owner), *each[1:]) for each in work.seen]
        if self.ahead_id:
            yield _DELETE_UNFINISHED, [()]
        if self._undescribed_after(work) > BLOCK:
            yield DESCRIBE, [(self.described_id,)]

    def _undescribed_after(self, work: Work) -> int:
        """How many batches remain undescribed after this work; overestimated if a batch is removed with its queue."""
        removed = sum(1 for batch_id in work.removed_batches if batch_id > self.described_id)
        return max(0, self.undescribed + len(work.batches) - removed)

    def _remember(self, work: Work) -> None:
        """Update the cached state of the tables, after the transaction succeeded."""
        self.ahead_id = 0
        self.undescribed = self._undescribed_after(work)
        for batch in work.batches:
            if batch.batch_id > self.last_id:
                self.last_id = batch.batch_id
        if self.last_id > self.reserved_id:
            self.reserved_id = self.last_id + RESERVE
        if self.undescribed > BLOCK:
            self.described_id = self.last_id
            self.undescribed = 0
        if self.marked:
            self.marked.difference_update(work.removed_batches)
            if work.removed_queues:
                self.marked = {batch_id for (batch_id,) in self.execute("SELECT batch_id FROM settled")}
        self.marked.update(batch_id for batch_id, _ in _bitmaps(work))


def _insert(batches: list[Batch]) -> Iterator[_Step]:
    """Steps that insert the batches; a large one gets its own step."""
    small = [batch for batch in batches if batch.body_bytes <= LARGE_BYTES]
    if small:
        yield _INSERT_BATCH, _Rows(small)
    for batch in batches:
        if batch.body_bytes > LARGE_BYTES:
            yield _INSERT_LARGE, _Rows([batch])


def _parts(batches: list[Batch]) -> list[list[Batch]]:
    """Split the batches into groups that are written together."""
    parts: list[list[Batch]] = []
    size = PART_BYTES
    for batch in batches:
        if size >= PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(batch)
        size += batch.body_bytes + MESSAGE_BYTES * batch.count
    return parts


def _lone_batch(work: Work) -> Batch | None:
    """The batch if the work is one batch and nothing else; otherwise None."""
    if (
        len(work.batches) != 1
        or work.records
        or work.removed_records
        or work.removed_queues
        or work.removed_batches
        or work.settled
        or work.marks
        or work.attempts
        or work.forgotten_owners
        or work.forgotten
        or work.seen
    ):
        return None
    return work.batches[0]


def _bitmaps(work: Work) -> list[tuple[int, bytes]]:
    """The bitmaps to write, without those of batches that the same work removes."""
    bitmaps = [(batch.batch_id, batch.settled) for batch in work.batches if batch.settled] + work.settled
    if bitmaps and work.removed_batches:
        removed = set(work.removed_batches)
        bitmaps = [bitmap for bitmap in bitmaps if bitmap[0] not in removed]
    return bitmaps


def _row(batch: Batch) -> tuple[_Value, ...]:
    data = batch.packed()
    return (
        batch.batch_id,
        batch.queue_id,
        batch.level,
        batch.first_position,
        batch.last_position,
        batch.count,
        batch.body_bytes,
        batch.expires_at_ms,
        batch.is_transient,
        data,
        crc32(data),
    )


def _ids(numbers: Sequence[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"
