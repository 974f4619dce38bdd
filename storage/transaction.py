"""A `Work` as SQL: one transaction in as few statements as possible, run by the store's thread in one go.

A small one is a single statement (see work.sql), a large one a handful: each costs a fight for the interpreter's lock with
a busy loop.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Final

from rabbitlike.storage.api import Batch, Work

#: Batch ids are reserved so many at a time: after a crash numbering goes on behind the reserve.
RESERVE: Final = 1 << 20

#: So many at most in one INSERT.
MOST_ROWS: Final = 256

_INSERT_WORK: Final = f"INSERT INTO temp.work VALUES ({', '.join('?' * 21)})"
_INSERT_BATCH: Final = ("INSERT INTO batches VALUES", 10)
_INSERT_BITMAP: Final = ("INSERT OR REPLACE INTO settled VALUES", 2)

#: Parts of a row of the view.
_NO_BATCH: Final = (None,) * 10
_NO_BITMAP: Final = (None,) * 2
_NO_LISTS: Final = (None,) * 4
_NO_OTHERS: Final = (None,) * 4

_Value = int | str | bytes | None
_Row = tuple[_Value, ...]


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

    def prepare(self) -> None:
        """Once, before the first commit and after all pragmas: temp_store forgets what is temporary."""
        self.executescript((files("rabbitlike.storage") / "work.sql").read_text("utf-8"))

    def commit(self) -> None:
        work, self.work = self.work, None
        if work is None:
            super().commit()
            return
        bitmaps = [(batch.batch_id, batch.settled) for batch in work.batches if batch.settled] + work.settled
        if _is_small(work, bitmaps):
            batch = _columns(work.batches[0]) if work.batches else _NO_BATCH
            self.execute(_INSERT_WORK, (*batch, *(bitmaps[0] if bitmaps else _NO_BITMAP), *self._rest(work)))
        else:
            self._write_large(work, bitmaps)
        self._remember(work)

    def close(self) -> None:
        """Give back the ids that were reserved and not used, if that is possible, and close."""
        with suppress(sqlite3.Error):
            if self.reserved_id > self.last_id:
                self.execute("INSERT OR REPLACE INTO counters VALUES ('batch_id', ?)", (self.last_id,))
        super().close()

    def _write_large(self, work: Work, bitmaps: list[tuple[int, bytes]]) -> None:
        self.execute("BEGIN IMMEDIATE")
        try:
            for row in _early_rows(work):
                self.execute(_INSERT_WORK, row)
            self._insert(_INSERT_BATCH, [_columns(batch) for batch in work.batches])
            self.execute(_INSERT_WORK, (*_NO_BATCH, *_NO_BITMAP, *self._rest(work)))
            self._insert(_INSERT_BITMAP, bitmaps)
            self.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself after some errors (a full disk), not after others.
            if self.in_transaction:
                self.execute("ROLLBACK")
            raise

    def _insert(self, what: tuple[str, int], rows: Sequence[_Row]) -> None:
        """As many rows to a statement as are left, down to a power of two: so few statements are ever compiled."""
        at = 0
        while at < len(rows):
            count = min(MOST_ROWS, 1 << (len(rows) - at).bit_length() - 1)
            self.execute(_statement(*what, count), [value for row in rows[at : at + count] for value in row])
            at += count

    def _rest(self, work: Work) -> _Row:
        """The part of a row after batch and bitmap."""
        reserved_id = None
        if work.batches and (highest := max(batch.batch_id for batch in work.batches)) > self.reserved_id:
            reserved_id = highest + RESERVE
        removed = work.removed_batches
        return (
            _json(removed),
            _json([batch_id for batch_id in removed if batch_id in self.marked]) if self.marked else None,
            _json(work.marks),
            _json(work.attempts),
            *_NO_OTHERS,
            reserved_id,
        )

    def _remember(self, work: Work) -> None:
        """What the transaction has changed in what is known of the tables. Only after it succeeded."""
        for batch in work.batches:
            if batch.batch_id > self.last_id:
                self.last_id = batch.batch_id
            if batch.settled:
                self.marked.add(batch.batch_id)
        if self.last_id > self.reserved_id:
            self.reserved_id = self.last_id + RESERVE
        if self.marked:
            self.marked.difference_update(work.removed_batches)
            if work.removed_queues:
                self.marked = {batch_id for (batch_id,) in self.execute("SELECT batch_id FROM settled")}
        if work.settled:
            self.marked.update(batch_id for batch_id, _ in work.settled)


def _is_small(work: Work, bitmaps: Sequence[tuple[int, bytes]]) -> bool:
    """Whether all of it goes into one row, where nothing depends on the order."""
    return (
        len(work.batches) <= 1
        and len(bitmaps) <= 1
        and not (work.records or work.removed_records or work.removed_queues)
        and not (work.batches and work.batches[0].batch_id in work.removed_batches)
        and not (bitmaps and bitmaps[0][0] in work.removed_batches)
    )


def _early_rows(work: Work) -> Iterator[_Row]:
    """What comes before any batch, a row each: it is rare."""
    before = (*_NO_BATCH, *_NO_BITMAP, *_NO_LISTS)
    for record in work.records:
        yield *before, record.kind, octets(record.key), octets(record.value), None, None
    for kind, key in work.removed_records:
        yield *before, kind, octets(key), None, None, None
    for queue_id in work.removed_queues:
        yield *before, None, None, None, queue_id, None


@cache
def _statement(verb: str, width: int, rows: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"{verb} {', '.join([row] * rows)}"


def _columns(batch: Batch) -> _Row:
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
    )


def _json(items: Sequence[object]) -> str | None:
    return json.dumps(items) if items else None
