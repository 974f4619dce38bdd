"""Turns errors of SQLite and the operating system into one line for the operator: what happened and what to do."""

import sqlite3
from pathlib import Path
from typing import Final

from rabbitlike.storage.api import StorageError, WorkError

#: By SQLite's primary result code. {path} is the database, {error} SQLite's own text.
_ADVICE: Final = {
    "SQLITE_FULL": "no space left for {path}: free some on that disk; commits are retried until they succeed",
    "SQLITE_READONLY": "{path} cannot be written ({error}): give this user write access to the file and its folder",
    "SQLITE_PERM": "{path} cannot be accessed ({error}): give this user access to the file and its folder",
    "SQLITE_CANTOPEN": "{path} cannot be opened ({error}): see that its folder exists and this user may write in it",
    "SQLITE_IOERR": "the disk failed while using {path} ({error}): see the system log; commits are retried",
    "SQLITE_CORRUPT": "{path} is damaged ({error}): run `rabbitlike check`; restore a backup or move the file away",
    "SQLITE_NOTADB": "{path} is not a database of this broker: move it away or choose another data folder",
    "SQLITE_BUSY": "{path} is locked by another program ({error}): end that program",
    "SQLITE_LOCKED": "{path} is locked by another program ({error}): end that program",
    "SQLITE_NOMEM": "out of memory while using {path}: give the broker more",
}

#: SQLite's result codes for faults in the work itself.
_FAULTS: Final = {
    "SQLITE_CONSTRAINT",
    "SQLITE_ERROR",
    "SQLITE_MISMATCH",
    "SQLITE_MISUSE",
    "SQLITE_RANGE",
    "SQLITE_TOOBIG",
}


def explain(error: sqlite3.Error | OSError, path: Path) -> StorageError:
    """The StorageError to raise from `error`."""
    if isinstance(error, OSError):
        return StorageError(f"{error.filename or path} cannot be used: {error.strerror or error}")
    # None if the error comes from Python's sqlite3 module, or if SQLite's result code has no name there.
    name: str = getattr(error, "sqlite_errorname", None) or ""
    while name:
        if advice := _ADVICE.get(name):
            return StorageError(advice.format(path=path, error=error))
        if name in _FAULTS:
            return blame(error, path)
        name = name.rpartition("_")[0]  # SQLITE_IOERR_FSYNC is an SQLITE_IOERR
    if isinstance(error, (sqlite3.ProgrammingError, sqlite3.InterfaceError)):
        return blame(error, path)
    return StorageError(f"{path}: {error}")


def blame(error: Exception, path: Path) -> WorkError:
    """The WorkError to raise for work that can never be committed."""
    kind = getattr(error, "sqlite_errorname", None) or type(error).__name__
    return WorkError(f"{path} rejects the changes ({kind}: {error}): this is a fault in rabbitlike")
