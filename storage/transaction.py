"""A `Work` as SQL: one transaction in as few statements as possible, run by the store's thread in one go.

Every statement lets go of the interpreter's lock and must win it back from a busy loop, so ids travel as one JSON
list instead of a statement each, and a lone batch is a lone INSERT without BEGIN and COMMIT.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final
from zlib import crc32

from rabbitlike.storage.api import Batch, Work

#: Batch ids are reserved so many at a time: after a crash numbering goes on behind the reserve.
RESERVE: Final = 1 << 20

_INSERT_RECORD: Final = "INSERT OR REPLACE INTO records VALUES (?, ?, ?)"
_DELETE_RECORD: Final = "DELETE FROM records WHERE kind = ? AND key = ?"
_DELETE_QUEUE: Final = (
    "DELETE FROM settled WHERE batch_id IN (SELECT batch_id FROM batches WHERE queue_id = ?)",
    "DELETE FROM batches WHERE queue_id = ?",
    "DELETE FROM marks WHERE queue_id = ?",
    "DELETE FROM attempts WHERE queue_id = ?",
)
_INSERT_BATCH: Final = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DELETE_BATCH: Final = "DELETE FROM batches WHERE batch_id = ?"
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

_Value = int | str | bytes
#: A statement and the rows to run it with.
_Step = tuple[str, Sequence[Sequence[_Value]]]


def octets(text: str) -> bytes:
    """A name as the client sent it; SQLite's TEXT would refuse what is not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


class TransactionConnection(sqlite3.Connection):
    """A connection whose commit() writes what lies in `work`, whole or not at all.

    aiosqlite hands commit() to its thread like any other call: that makes a transaction one hop there and one back.
    """

    #: What the next commit() writes; that takes it away, whether it succeeds or not.
    work: Work | None = None
    #: The highest batch id in use, and the one up to which ids are reserved. Both as recovery found them.
    last_id = 0
    reserved_id = 0
    #: Batches that have a bitmap, so that deleting the others need not look for one. As recovery found them.
    marked: set[int]

    def commit(self) -> None:
        work, self.work = self.work, None
        if work is None:
            super().commit()
            return
        steps = list(self._steps(work))
        if len(steps) == 1 and len(steps[0][1]) == 1:
            self.execute(steps[0][0], steps[0][1][0])
        elif steps:
            self._run_whole(steps)
        self._remember(work)

    def close(self) -> None:
        """Give back the ids that were reserved and not used, if that is possible, and close."""
        with suppress(sqlite3.Error):
            if self.reserved_id > self.last_id:
                self.execute(_INSERT_COUNTER, (self.last_id,))
        super().close()

    def _run_whole(self, steps: list[_Step]) -> None:
        cursor = self.execute("BEGIN IMMEDIATE")
        try:
            for sql, rows in steps:
                if len(rows) == 1:
                    cursor.execute(sql, rows[0])
                else:
                    cursor.executemany(sql, rows)
            cursor.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself after some errors (a full disk), not after others.
            if self.in_transaction:
                cursor.execute("ROLLBACK")
            raise

    def _steps(self, work: Work) -> Iterator[_Step]:  # noqa: C901 - a list of what a Work can hold, in its order
        if work.records:
            yield _INSERT_RECORD, [(record.kind, octets(record.key), octets(record.value)) for record in work.records]
        if work.removed_records:
            yield _DELETE_RECORD, [(kind, octets(key)) for kind, key in work.removed_records]
        if work.removed_queues:
            queues = [(queue_id,) for queue_id in work.removed_queues]
            for sql in _DELETE_QUEUE:
                yield sql, queues
        if work.batches:
            yield _INSERT_BATCH, [_row(batch) for batch in work.batches]
            if (highest := max(batch.batch_id for batch in work.batches)) > self.reserved_id:
                yield _INSERT_COUNTER, [(highest + RESERVE,)]
        if work.removed_batches:
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
            last = {attempt[:2]: attempt for attempt in work.attempts}  # the last one holds
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

    def _remember(self, work: Work) -> None:
        """What the transaction has changed in what is known of the tables. Only after it succeeded."""
        for batch in work.batches:
            if batch.batch_id > self.last_id:
                self.last_id = batch.batch_id
        if self.last_id > self.reserved_id:
            self.reserved_id = self.last_id + RESERVE
        if self.marked:
            self.marked.difference_update(work.removed_batches)
            if work.removed_queues:
                self.marked = {batch_id for (batch_id,) in self.execute("SELECT batch_id FROM settled")}
        self.marked.update(batch_id for batch_id, _ in _bitmaps(work))


def _bitmaps(work: Work) -> list[tuple[int, bytes]]:
    """Those to be written: not of a batch that goes with the same work."""
    bitmaps = [(batch.batch_id, batch.settled) for batch in work.batches if batch.settled] + work.settled
    if bitmaps and work.removed_batches:
        removed = set(work.removed_batches)
        bitmaps = [bitmap for bitmap in bitmaps if bitmap[0] not in removed]
    return bitmaps


def _row(batch: Batch) -> tuple[_Value, ...]:
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
        batch.data,
        crc32(batch.data),
    )


def _ids(numbers: Sequence[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"
