"""Reads what the last run stored, at boot: records, batch descriptors, bitmaps, marks, attempts; never message data.

Deletes what should be gone (transient batches, leftovers of deleted ones) and reports what it could not interpret.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rabbitlike.storage.api import AttemptRecord, Batch, Record, Recovered, SeenKey
from rabbitlike.storage.transaction import DESCRIBE, text

#: The descriptors of all batches. `{source}` is batch_descriptors, or batches: same columns, but reads data pages too.
DESCRIPTORS: Final = """
    SELECT batch_id, queue_id, level, first_position, last_position, count, body_bytes, expires_at_ms, is_transient
    FROM {source} ORDER BY queue_id, level, first_position
"""
SEEN: Final = "SELECT owner, key, number, expires_at_ms FROM seen ORDER BY place"
ATTEMPTS: Final = "SELECT queue_id, position, count, due_at_ms, batch_id, batch_index, death FROM attempts"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovered data, and what the writer must know about it."""

    recovered: Recovered
    marked: set[int]
    #: Batches up to this one are in batch_descriptors.
    described_id: int


def recover(connection: sqlite3.Connection) -> Recovery:
    """Read everything, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        _take_back_unfinished(connection)
        described_id = _describe_all(connection)
        _forget_transient(connection)
        troubles: list[str] = []
        bitmaps: dict[int, bytes] = dict(connection.execute("SELECT batch_id, bitmap FROM settled"))
        batches, last_id = _batches(connection, bitmaps, troubles)
        marked = _forget_stray_bitmaps(connection, bitmaps, {batch.batch_id for batch in batches if batch.settled})
        _forget_stray_attempts(connection)
        recovered = Recovered(
            records=[
                Record(kind, text(key), text(value))
                for kind, key, value in connection.execute("SELECT kind, key, value FROM records ORDER BY kind, key")
            ],
            batches=batches,
            marks=connection.execute("SELECT queue_id, next_position, delivered_position FROM marks").fetchall(),
            attempts=[AttemptRecord(*row) for row in connection.execute(ATTEMPTS)],
            seen=[SeenKey(text(owner), *rest) for owner, *rest in connection.execute(SEEN)],
            last_batch_id=max(last_id, _reserved_id(connection)),
            troubles=troubles,
        )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return Recovery(recovered, marked, described_id)


def descriptor(row: Sequence[int], bitmap: bytes) -> Batch:
    """A batch without its data, from a row of DESCRIPTORS."""
    return Batch(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], bool(row[8]), b"", bitmap)


def faults_of(batch: Batch) -> str:
    """Describe what is impossible in a descriptor; empty if nothing is."""
    if not 0 < batch.count <= batch.last_position - batch.first_position + 1:
        return f"has {batch.count} messages at positions {batch.first_position} to {batch.last_position}"
    if batch.body_bytes < 0:
        return f"has {batch.body_bytes} octets of bodies"
    if len(batch.settled) > (batch.count + 7) // 8:
        return f"has {batch.count} messages and a bitmap of {len(batch.settled)} octets"
    return ""


def _batches(connection: sqlite3.Connection, bitmaps: dict[int, bytes], troubles: list[str]) -> tuple[list[Batch], int]:
    batches: list[Batch] = []
    last_id = 0
    for row in connection.execute(DESCRIPTORS.format(source="batch_descriptors")):
        batch_id: int = row[0]
        if batch_id > last_id:
            last_id = batch_id
        batch = descriptor(row, bitmaps.get(batch_id, b""))
        if fault := faults_of(batch):
            troubles.append(f"batch {batch_id} of queue {batch.queue_id} {fault}: left in the file, not loaded")
        else:
            batches.append(batch)
    return batches, last_id


def _take_back_unfinished(connection: sqlite3.Connection) -> None:
    """Delete batches written ahead for a large transaction that was never committed."""
    row = connection.execute("SELECT value FROM counters WHERE name = 'unfinished'").fetchone()
    if row is not None:
        connection.execute("DELETE FROM batches WHERE batch_id >= ?", row)
        connection.execute("DELETE FROM counters WHERE name = 'unfinished'")


def _describe_all(connection: sqlite3.Connection) -> int:
    """Describe the batches that the last run did not; return the highest batch id."""
    (described_id,) = connection.execute("SELECT coalesce(max(batch_id), 0) FROM batch_descriptors").fetchone()
    connection.execute(DESCRIBE, (described_id,))
    (last_id,) = connection.execute("SELECT coalesce(max(batch_id), 0) FROM batches").fetchone()
    return max(int(described_id), int(last_id))


def _forget_transient(connection: sqlite3.Connection) -> None:
    places = connection.execute("SELECT queue_id, batch_id FROM batch_descriptors WHERE is_transient = 1").fetchall()
    connection.executemany("DELETE FROM batch_descriptors WHERE queue_id = ? AND batch_id = ?", places)
    for table in ("batches", "settled"):
        connection.executemany(f"DELETE FROM {table} WHERE batch_id = ?", [place[1:] for place in places])


def _forget_stray_bitmaps(connection: sqlite3.Connection, bitmaps: dict[int, bytes], marked: set[int]) -> set[int]:
    """Delete bitmaps of missing batches; return the batch ids of the others."""
    stray = [
        (batch_id,)
        for batch_id in bitmaps
        if batch_id not in marked
        and connection.execute("SELECT 1 FROM batches WHERE batch_id = ?", (batch_id,)).fetchone() is None
    ]
    connection.executemany("DELETE FROM settled WHERE batch_id = ?", stray)
    return bitmaps.keys() - {batch_id for (batch_id,) in stray}


def _forget_stray_attempts(connection: sqlite3.Connection) -> None:
    """Delete attempts outside the positions of their queue's batches: these messages are gone."""
    connection.execute("""
        DELETE FROM attempts WHERE (queue_id, position) IN (
            SELECT attempts.queue_id, position FROM attempts LEFT JOIN (
                SELECT queue_id, min(first_position) AS first, max(last_position) AS last
                FROM batch_descriptors GROUP BY queue_id
            ) AS span ON span.queue_id = attempts.queue_id
            WHERE span.queue_id IS NULL OR position NOT BETWEEN first AND last
        )
    """)


def _reserved_id(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT value FROM counters WHERE name = 'batch_id'").fetchone()
    return row[0] if row else 0
