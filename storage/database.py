"""Opens the database file: for one process at a time, only our own file, at the current schema, with pragmas for
durable and fast commits. All connections are opened here."""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

from rabbitlike.storage.api import DamageError, StorageError
from rabbitlike.storage.errors import explain
from rabbitlike.storage.event_files import FOLDER as EVENTS
from rabbitlike.storage.modes import make_private_file, make_private_folder, private

#: full: a returned commit is on the disk. normal: it survives the process; a power cut may lose the last ones. off: as
#: normal, and a power cut may damage the file.
Durability = Literal["full", "normal", "off"]

FILE_NAME: Final = "rabbitlike.db"
LOCK_NAME: Final = "lock"

APPLICATION_ID: Final = 0x52424C4B  # "RBLK", in the file's header
#: Large pages, so that a batch of messages spans fewer of them.
PAGE_BYTES: Final = 16384
#: The log grows in steps of this size; commits wait meanwhile.
LOG_STEP_BYTES: Final = 4 << 20
MAGIC: Final = b"SQLite format 3\0"
#: The header of a database file; octets 16 and 17 are its page size.
HEAD_BYTES: Final = 100

log = logging.getLogger(__name__)


class Lock:
    """Keeps other brokers out of a data folder, until it is released or the process ends.

    The folder itself is locked, so the lock holds even if the lock file is removed or renamed, and for every path to
    the folder. The file is locked too, for file systems that cannot lock folders, and names the process that holds the
    lock.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_NAME
        with ExitStack() as opened:
            try:
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                opened.callback(os.close, handle)
                is_locked = _try_lock(handle, folder)
                self._file = private(path, os.O_RDWR | os.O_CREAT)
                opened.callback(os.close, self._file)
            except OSError as error:
                raise StorageError(f"data folder {folder} cannot be written: {error.strerror}") from error
            if not _try_lock(self._file, folder) and not is_locked:
                raise StorageError(f"data folder {folder} cannot be locked: use a local disk")
            self._write(os.getpid(), *_read_lock(path)[1:])
            self._opened = opened.pop_all()

    def note_database(self) -> None:
        """Note that the folder has a database: if it is missing later, it is lost, not new."""
        self._write(os.getpid(), FILE_NAME)

    def _write(self, *lines: object) -> None:
        text = "".join(f"{line}\n" for line in lines).encode()
        try:
            os.pwrite(self._file, text, 0)
            os.ftruncate(self._file, len(text))
        except OSError:
            pass  # a full disk: the lock holds but cannot name its process

    def release(self) -> None:
        # Keep the file: removing it would let two processes lock two different files of the same name.
        self._opened.close()


def _try_lock(handle: int, folder: Path) -> bool:
    """Lock a file or folder. False if the file system cannot. Raise StorageError if another process holds the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = next(iter(_read_lock(folder / LOCK_NAME)), "")
        by = f"process {holder}" if holder else "another process"
        raise StorageError(
            f"data folder {folder} is in use by {by}: stop that broker or choose another folder"
        ) from error
    except OSError:
        return False
    return True


def _read_lock(path: Path) -> list[str]:
    """The process that holds or last held the lock, and the database that existed."""
    try:
        return path.read_text("ascii", "replace").splitlines()
    except OSError:
        return []


def make_folder(folder: Path) -> None:
    """Make the data folder, synced so that it survives a power cut."""
    try:
        make_private_folder(folder)
    except OSError as error:
        raise StorageError(f"data folder {folder} cannot be made: {error.strerror}") from error


def pragmas(durability: Durability) -> str:
    """Pragmas for every connection that writes or checkpoints."""
    return f"""
        PRAGMA synchronous = {durability};
        PRAGMA wal_autocheckpoint = 0;
        PRAGMA secure_delete = off;
        PRAGMA cache_size = -32768;
        PRAGMA temp_store = memory;
    """


def connect(path: Path, durability: Durability) -> sqlite3.Connection:
    """A connection that can write, in autocommit mode."""
    make_private_file(path)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.executescript(pragmas(durability))
    except BaseException:
        connection.close()
        raise
    return connection


def log_of(path: Path) -> Path:
    """The path of the write-ahead log beside a database."""
    return path.with_name(f"{path.name}-wal")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A read-only connection: it sees what is committed, and does not checkpoint the log when it closes."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


def remove_traces(path: Path) -> None:
    """Remove the empty log that a read-only connection leaves behind, perhaps as another user. Requires the lock."""
    log, index = log_of(path), path.with_name(f"{path.name}-shm")
    if log.exists() and log.stat().st_size == 0:
        log.unlink()
        index.unlink(missing_ok=True)


@contextmanager
def prepared(path: Path, durability: Durability) -> Iterator[sqlite3.Connection]:
    """Our database at the current schema: created, migrated or refused. Explains errors raised inside.

    It is the only connection; closing it checkpoints and removes the write-ahead log. A refusal leaves nothing behind
    either. Requires the lock.
    """
    has_log = log_of(path).exists()
    try:
        if not path.exists():
            refuse_lost(path)
            _make(path, durability)
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


def refuse_lost(path: Path) -> None:
    """Raise if there is no database although the folder shows that there was one."""
    signs = _traces(path)
    if signs:
        raise DamageError(
            f"{path} is missing, but {' and '.join(signs)} in its folder show that there was a database: restore it or "
            f"a backup; to start empty, move {' and '.join(signs)} away"
        )


def _traces(path: Path) -> list[str]:
    """Files that show that a database existed."""
    found = [f"{path.name}{suffix}" for suffix in ("-wal", "-shm")]
    found = [name for name in found if path.with_name(name).exists()]
    if path.name in _read_lock(path.with_name(LOCK_NAME))[1:]:
        found.append(LOCK_NAME)
    if any(file.is_file() for file in path.with_name(EVENTS).rglob("*")):
        found.append(EVENTS)
    return found


def refuse_foreign(path: Path) -> None:
    """Raise unless the file is ours and, judging by its header, intact. Changes nothing in it."""
    # The file is opened and closed before SQLite opens it: closing any handle on it drops SQLite's own locks.
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        size = os.fstat(file.fileno()).st_size
    advice = f"restore a backup; to start empty, move {' and '.join([path.name, *_traces(path)])} away"
    if not any(head):
        # SQLite would treat it as new and remove the log beside it.
        raise DamageError(f"{path} {'begins with zeros' if head else 'is empty'}, so its data is lost: {advice}")
    if not head.startswith(MAGIC):
        raise StorageError(f"{path} is not a database of this broker: move it away or choose another data folder")
    if size < (int.from_bytes(head[16:18]) or 1):
        raise DamageError(f"{path} is cut off after {size} octets, so its data is lost: {advice}")
    connection = connect_to_read(path)
    try:
        version = version_of(connection)
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        is_bare = connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is None
    finally:
        connection.close()
    if is_bare and application == 0:
        raise DamageError(f"{path} holds no tables, so its data is lost: {advice}")
    if application != APPLICATION_ID:
        raise StorageError(f"{path} belongs to another program: move it away or choose another data folder")
    if version > present_version():
        raise StorageError(
            f"{path} was written by a newer rabbitlike (schema {version}, this one knows {present_version()}): "
            "run the newer one, or restore a backup of this age"
        )


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version; 0 for an empty database."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def migrations() -> dict[int, str]:
    """Migration scripts by the version they lead to."""
    folder = files("rabbitlike.storage") / "migrations"
    scripts = {int(file.name[:4]): file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".sql")}
    return dict(sorted(scripts.items()))


def present_version() -> int:
    return max(migrations())


def _make(path: Path, durability: Durability) -> None:
    """Make a new database, complete or not at all: a crash never leaves an empty file of this name."""
    unfinished = path.with_name(f"{path.name}.new")
    try:
        _remove_unfinished(unfinished)
        connection = connect(unfinished, durability)
        try:
            _bring_to_present(connection, path)
        finally:
            connection.close()
        if durability != "off":
            sync(unfinished)
        unfinished.rename(path)
        if durability != "off":
            sync(path.parent)
    finally:
        _remove_unfinished(unfinished)


def _remove_unfinished(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _bring_to_present(connection: sqlite3.Connection, path: Path) -> None:
    version = version_of(connection)
    if version == 0:
        # Both are fixed when the first table is created. With auto_vacuum, pages know their owner: the file can shrink,
        # and a batch is deleted without reading its data: 1 GB takes 0.05 s instead of seconds.
        connection.executescript(f"PRAGMA page_size = {PAGE_BYTES}; PRAGMA auto_vacuum = incremental;")
    (mode,) = connection.execute("PRAGMA journal_mode = wal").fetchone()
    if mode != "wal":
        raise StorageError(f"{path} cannot use a write-ahead log (journal mode {mode}): use a local disk")
    if version == 0:
        schema = (files("rabbitlike.storage") / "schema.sql").read_text("utf-8")
        _run_whole(connection, f"{schema}\nPRAGMA application_id = {APPLICATION_ID};", present_version())
    if 0 < version < present_version():
        log.info(
            "%s: upgrading the schema from %d to %d; older versions can no longer open it",
            path,
            version,
            present_version(),
        )
        for number, script in migrations().items():
            if version < number:
                _run_whole(connection, script, number)
        log.info("%s: the schema is now %d", path, present_version())


def _run_whole(connection: sqlite3.Connection, script: str, version: int) -> None:
    """Run the script and set the version it leads to, as one transaction."""
    try:
        connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {version};\nCOMMIT;")
    finally:
        if connection.in_transaction:
            connection.rollback()


def grow_log(path: Path, octets: int, enough: int) -> int:
    """Extend the write-ahead log with zeros, up to ``enough``, if the disk has space; return its length.

    An fsync after overwriting costs half of one after appending: no block is allocated and the file system's journal is
    not involved. Zeros are no valid frame, so SQLite takes them for the log's end. No connection may write to the log
    meanwhile.
    """
    log = log_of(path)
    try:
        before = log.stat().st_size if log.exists() else 0
        disk = os.statvfs(path.parent)
        if before >= enough or disk.f_bavail * disk.f_frsize < 4 * (enough - before):
            return before
        with open(log, "ab", buffering=0, opener=private) as file:
            written = file.write(bytes(min(octets, enough - before)))
            os.fsync(file.fileno())
    except OSError:
        return 0  # only speed is lost
    return before + written
