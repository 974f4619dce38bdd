"""Opens the database file: one process at a time, our own file and no other, at the present schema, with the pragmas
that make commits durable and fast. Everything that opens a connection does it here."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

from rabbitlike.storage.api import StorageError
from rabbitlike.storage.errors import explain

#: full: a commit has returned when it is on the disk. normal: it survives the process, the last ones may not survive
#: a power cut. off: the same, and a power cut may damage the file.
Durability = Literal["full", "normal", "off"]

FILE_NAME: Final = "rabbitlike.db"
LOCK_NAME: Final = "lock"

APPLICATION_ID: Final = 0x52424C4B  # "RBLK", in the file's header
#: Big pages: a batch of messages spans fewer of them.
PAGE_BYTES: Final = 16384
#: The log grows so much at a time: commits wait meanwhile.
LOG_STEP_BYTES: Final = 4 << 20
MAGIC: Final = b"SQLite format 3\0"


class Lock:
    """Keeps other brokers out of a data folder, for as long as this process lives or until it is released."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_NAME
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(f"data folder {folder} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise StorageError(
                f"data folder {folder} is in use by process {holder}: stop that broker or choose another folder"
            ) from error
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass  # a full disk: the lock holds, it only cannot say whose it is

    def release(self) -> None:
        # The file stays: removing it would let two processes lock two different files of the same name.
        os.close(self._file)


def make_folder(folder: Path) -> None:
    """Make the data folder, and see that it is still there after a power cut."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
    except OSError as error:
        raise StorageError(f"data folder {folder} cannot be made: {error.strerror}") from error


def pragmas(durability: Durability) -> str:
    """What every connection that writes or checkpoints must set."""
    return f"""
        PRAGMA synchronous = {durability};
        PRAGMA wal_autocheckpoint = 0;
        PRAGMA secure_delete = off;
        PRAGMA cache_size = -32768;
        PRAGMA temp_store = memory;
    """


def connect(path: Path, durability: Durability) -> sqlite3.Connection:
    """A connection that may write, outside any transaction until told otherwise."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.executescript(pragmas(durability))
    except BaseException:
        connection.close()
        raise
    return connection


def log_of(path: Path) -> Path:
    """The write-ahead log beside a database."""
    return path.with_name(f"{path.name}-wal")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that cannot change a bit: it sees what is committed, and folds no log into the file at its end."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


def remove_traces(path: Path) -> None:
    """The empty log that a connection which only reads leaves behind, perhaps as another user. Only under the lock."""
    log, index = log_of(path), path.with_name(f"{path.name}-shm")
    if log.exists() and log.stat().st_size == 0:
        log.unlink()
        index.unlink(missing_ok=True)


@contextmanager
def prepared(path: Path, durability: Durability) -> Iterator[sqlite3.Connection]:
    """Our database at the present schema: made, migrated or refused. Errors inside are explained.

    It is the only connection; when it closes, the write-ahead log is folded into the file and gone. Nothing is left of
    a refusal either. Only under the lock.
    """
    has_log = log_of(path).exists()
    try:
        refuse_foreign(path)
        connection = connect(path, durability)
        try:
            _bring_to_present(connection, path)
            yield connection
        finally:
            connection.close()
    except (sqlite3.Error, OSError) as error:
        raise explain(error, path) from error
    finally:
        if not has_log:
            remove_traces(path)


def refuse_foreign(path: Path) -> None:
    """Raise unless the file is ours, or new. Changes nothing in it."""
    # The file is opened and closed here before SQLite has it open: closing any handle on it drops SQLite's own locks.
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
    except FileNotFoundError:
        return
    if not head:
        return
    if head != MAGIC:
        raise StorageError(f"{path} is not a database of this broker: move it away or choose another data folder")
    connection = connect_to_read(path)
    try:
        version = version_of(connection)
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        is_bare = connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is None
    finally:
        connection.close()
    if application != APPLICATION_ID and not (is_bare and application == 0):
        raise StorageError(f"{path} belongs to another program: move it away or choose another data folder")
    if version > present_version():
        raise StorageError(
            f"{path} was written by a newer rabbitlike (schema {version}, this one knows {present_version()}): "
            "run the newer one, or restore a backup of this age"
        )


def version_of(connection: sqlite3.Connection) -> int:
    """The schema's version; 0 when nothing is there yet."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def migrations() -> dict[int, str]:
    """Script by the version it leads to."""
    folder = files("rabbitlike.storage") / "migrations"
    scripts = {int(file.name[:4]): file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".sql")}
    return dict(sorted(scripts.items()))


def present_version() -> int:
    return max(migrations())


def _bring_to_present(connection: sqlite3.Connection, path: Path) -> None:
    version = version_of(connection)
    if version == 0:
        # Both are fixed when the first table is made. Pages that know their owner (auto_vacuum) let the file shrink,
        # and let a batch be deleted without reading its data: 1 GB goes in 0.05 s instead of seconds.
        connection.executescript(f"PRAGMA page_size = {PAGE_BYTES}; PRAGMA auto_vacuum = incremental;")
    (mode,) = connection.execute("PRAGMA journal_mode = wal").fetchone()
    if mode != "wal":
        raise StorageError(f"{path} cannot use a write-ahead log (journal mode {mode}): use a local disk")
    if version == 0:
        schema = (files("rabbitlike.storage") / "schema.sql").read_text("utf-8")
        _run_whole(connection, f"{schema}\nPRAGMA application_id = {APPLICATION_ID};", present_version())
    for number, script in migrations().items():
        if 0 < version < number:
            _run_whole(connection, script, number)


def _run_whole(connection: sqlite3.Connection, script: str, version: int) -> None:
    """The script and the version it leads to, as one transaction."""
    try:
        connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {version};\nCOMMIT;")
    finally:
        if connection.in_transaction:
            connection.rollback()


def grow_log(path: Path, octets: int, enough: int) -> int:
    """Make the write-ahead log longer by zeros, up to ``enough``, if the disk has room. How long it is.

    Overwriting costs half of what appending costs to fsync: no block is allocated, the file system's journal stays
    out of it. Zeros are no valid frame, so SQLite takes them for the log's end. Nobody may write to the log meanwhile.
    """
    log = log_of(path)
    try:
        before = log.stat().st_size if log.exists() else 0
        disk = os.statvfs(path.parent)
        if before >= enough or disk.f_bavail * disk.f_frsize < 4 * (enough - before):
            return before
        with log.open("ab", buffering=0) as file:
            written = file.write(bytes(min(octets, enough - before)))
            os.fsync(file.fileno())
    except OSError:
        return 0  # only speed is lost
    return before + written
