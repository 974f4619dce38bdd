"""Checks a database at rest and reports: SQLite's own integrity check, invariants between the tables, and the checksum
of each batch. Changes nothing."""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from rabbitlike.storage.api import UNORDERED_LEVELS, Batch, DamageError, StorageError
from rabbitlike.storage.commit_record import find_damage
from rabbitlike.storage.database import (
    FILE_NAME,
    Lock,
    connect_to_read,
    refuse_foreign,
    refuse_lost,
    remove_traces,
    version_of,
)
from rabbitlike.storage.errors import explain
from rabbitlike.storage.pages import is_whole
from rabbitlike.storage.recovery import DESCRIPTORS, descriptor, faults_of

#: The schema versions that introduced them.
CHECKSUMS = 2
DESCRIPTORS_TABLE = 6
#: At most this many problems of one kind are listed.
MOST = 100


@dataclass(slots=True)
class Report:
    """What a database contains, and its problems."""

    path: Path
    version: int = 0
    queues: int = 0
    batches: int = 0
    messages: int = 0
    file_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    #: What to do if there is no backup.
    remedy: str = "start the broker on it: it leaves out what is damaged, and logs it"

    @property
    def is_sound(self) -> bool:
        return not self.problems


def check(folder: Path) -> Report:
    """Check the database in a data folder. Raise StorageError if there is none, it is another program's, or it is in
    use."""
    path = folder / FILE_NAME
    if not path.exists():
        try:
            refuse_lost(path)
        except DamageError as error:
            return Report(path, problems=[str(error)], remedy=_start_empty(path))
    if not path.is_file():
        raise StorageError(f"there is no database in {folder}: name the data folder of a broker")
    lock = Lock(folder)
    report = Report(path, file_bytes=path.stat().st_size)
    try:
        if (damage := find_damage(path)) and not damage.is_unproven:
            report.problems.append(str(damage))
            if not damage.is_copied:
                report.remedy = damage.remedy()
        refuse_foreign(path)
        connection = connect_to_read(path)
        try:
            _examine(connection, report)
        finally:
            connection.close()
    except DamageError as error:
        report.problems.append(str(error))
        report.remedy = _start_empty(path)
    except sqlite3.Error as error:
        # For corruption, `explain` advises to run this very command.
        is_corrupt = (getattr(error, "sqlite_errorname", None) or "").startswith("SQLITE_CORRUPT")
        report.problems.append(f"SQLite cannot read it: {error}" if is_corrupt else str(explain(error, path)))
        report.remedy = _start_empty(path)
    except OSError as error:
        raise explain(error, path) from error
    finally:
        remove_traces(path)
        lock.release()
    return report


def _start_empty(path: Path) -> str:
    return f"move {', '.join(path.name + suffix for suffix in ('', '-wal', '-shm'))} away: the broker starts empty"


def _examine(connection: sqlite3.Connection, report: Report) -> None:
    report.version = version_of(connection)
    verdicts = [verdict for (verdict,) in connection.execute(f"PRAGMA integrity_check({MOST})")]
    if verdicts != ["ok"]:
        report.problems.extend(verdicts)
    report.queues, report.batches, report.messages = connection.execute(
        "SELECT count(DISTINCT queue_id), count(*), coalesce(sum(count), 0) FROM batches"
    ).fetchone()
    _examine_batches(connection, report)
    if report.version >= CHECKSUMS:
        _examine_data(connection, report)
    for problem, sql in _INVARIANTS + (_DESCRIPTOR_INVARIANTS if report.version >= DESCRIPTORS_TABLE else ()):
        report.problems.extend(problem.format(*row) for row in connection.execute(f"{sql} LIMIT {MOST}"))


def _examine_batches(connection: sqlite3.Connection, report: Report) -> None:
    bitmaps: dict[int, bytes] = dict(connection.execute("SELECT batch_id, bitmap FROM settled"))
    last: Batch | None = None
    for row in connection.execute(DESCRIPTORS.format(source="batches")):
        batch = descriptor(row, bitmaps.get(row[0], b""))
        if fault := faults_of(batch):
            report.problems.append(f"batch {batch.batch_id} of queue {batch.queue_id} {fault}")
        if last is not None and (last.queue_id, last.level) == (batch.queue_id, batch.level):
            if batch.first_position <= last.last_position and batch.level < UNORDERED_LEVELS:
                report.problems.append(
                    f"batches {last.batch_id} and {batch.batch_id} of queue {batch.queue_id} overlap at position "
                    f"{batch.first_position}"
                )
        last = batch
        if len(report.problems) >= MOST:
            report.problems.append("and perhaps more")
            return


def _examine_data(connection: sqlite3.Connection, report: Report) -> None:
    """Find damage that SQLite cannot see: data that differs from what was written."""
    found = 0
    for batch_id, queue_id, data, checksum in connection.execute(
        "SELECT batch_id, queue_id, data, checksum FROM batches WHERE length(data) > 0"
    ):
        if not is_whole(data, checksum):
            report.problems.append(f"batch {batch_id} of queue {queue_id} is damaged: its data is not what was written")
            found += 1
            if found >= MOST:
                report.problems.append("and perhaps more")
                return


#: Queries that must return no rows, each with the text for a row.
_INVARIANTS = (
    (
        "bitmap of batch {0}, which is not there",
        "SELECT batch_id FROM settled WHERE batch_id NOT IN (SELECT batch_id FROM batches)",
    ),
    (
        "batch {0} of queue {1} is empty",
        "SELECT batch_id, queue_id FROM batches WHERE length(data) = 0",
    ),
    (
        "batch {0} is numbered above {1}, the highest ever given",
        "SELECT batch_id, value FROM batches, counters WHERE name = 'batch_id' AND batch_id > value",
    ),
    (
        "queue {0} has a message at position {1}, but {2} is given next",
        """SELECT queue_id, max(last_position), next_position
        FROM batches JOIN marks USING (queue_id)
        GROUP BY queue_id HAVING max(last_position) >= next_position""",
    ),
)

#: Invariants of batch_descriptors.
_DESCRIPTOR_INVARIANTS = (
    (
        "batch {0} of queue {1} is listed, and is not there or is another one",
        """SELECT batch_id, queue_id FROM (
            SELECT queue_id, batch_id, level, first_position, last_position, count, body_bytes, expires_at_ms,
            is_transient FROM batch_descriptors
            EXCEPT
            SELECT queue_id, batch_id, level, first_position, last_position, count, body_bytes, expires_at_ms,
            is_transient FROM batches
        )""",
    ),
    (
        "batch {0} of queue {1} is there, and is not listed",
        """SELECT batch_id, queue_id FROM batches
        WHERE batch_id < (SELECT max(batch_id) FROM batch_descriptors)
        AND (queue_id, batch_id) NOT IN (SELECT queue_id, batch_id FROM batch_descriptors)""",
    ),
)
