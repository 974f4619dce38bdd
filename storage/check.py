"""Looks through a database at rest and reports: SQLite's own integrity check, what must hold between the tables, and
whether each batch is what was written. Changes nothing."""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from rabbitlike.storage.api import UNORDERED_LEVELS, Batch, StorageError
from rabbitlike.storage.database import FILE_NAME, Lock, connect_to_read, refuse_foreign, remove_traces, version_of
from rabbitlike.storage.errors import explain
from rabbitlike.storage.pages import is_whole
from rabbitlike.storage.recovery import DESCRIPTORS, descriptor, faults_of

#: The schema that brought them.
CHECKSUMS = 2
#: No more than so many problems of one kind are listed.
MOST = 100


@dataclass(slots=True)
class Report:
    """What is in the database, and what is wrong with it."""

    path: Path
    version: int = 0
    queues: int = 0
    batches: int = 0
    messages: int = 0
    file_bytes: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.problems


def check(folder: Path) -> Report:
    """Raises StorageError when there is nothing to look at: no database, another program's, or one in use."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise StorageError(f"there is no database in {folder}: name the data folder of a broker")
    lock = Lock(folder)
    report = Report(path, file_bytes=path.stat().st_size)
    try:
        refuse_foreign(path)
        connection = connect_to_read(path)
        try:
            _examine(connection, report)
        finally:
            connection.close()
    except sqlite3.Error as error:
        report.problems.append(str(explain(error, path)))
    finally:
        remove_traces(path)
        lock.release()
    return report


def _examine(connection: sqlite3.Connection, report: Report) -> None:
    report.version = version_of(connection)
    verdicts = [verdict for (verdict,) in connection.execute(f"PRAGMA integrity_check({MOST})")]
    if verdicts != ["ok"]:
        report.problems.extend(verdicts)
    report.queues, report.batches, report.messages = connection.execute(
        "SELECT count(DISTINCT queue_id), count(*), coalesce(sum(count), 0) FROM batches INDEXED BY descriptors"
    ).fetchone()
    _examine_batches(connection, report)
    if report.version >= CHECKSUMS:
        _examine_data(connection, report)
    for problem, sql in _INVARIANTS:
        report.problems.extend(problem.format(*row) for row in connection.execute(f"{sql} LIMIT {MOST}"))


def _examine_batches(connection: sqlite3.Connection, report: Report) -> None:
    bitmaps: dict[int, bytes] = dict(connection.execute("SELECT batch_id, bitmap FROM settled"))
    last: Batch | None = None
    for row in connection.execute(f"{DESCRIPTORS} ORDER BY queue_id, level, first_position"):
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
    """Damage that SQLite cannot see: octets that are not those that were written."""
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


#: What must never be found: words for each row found, and where to look.
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
        FROM batches INDEXED BY descriptors JOIN marks USING (queue_id)
        GROUP BY queue_id HAVING max(last_position) >= next_position""",
    ),
)
