"""Checks that the files that SQLite has open are still the ones in the data folder.

A file that is deleted, moved or replaced while a process uses it stays open: SQLite keeps writing to it without an
error, but after a restart the data is gone.
"""

import os
from os import fstat, stat
from pathlib import Path
from typing import Final

from rabbitlike.storage.api import StorageError
from rabbitlike.storage.database import HEAD_BYTES, log_of

#: The remedies for the database and for its log.
_REMEDY: Final = "put it back, or save it before the broker stops (docs/durability.md says how)"
_LOG_REMEDY: Final = "put it back, or restart the broker: stopping it with SIGTERM saves what was confirmed"


class DataFiles:
    """The database and its write-ahead log; both must exist when this is created.

    Close it after SQLite has closed the database: closing any handle on the database drops SQLite's own locks.
    """

    def __init__(self, path: Path) -> None:
        #: The fault found by the last check.
        self.fault: StorageError | None = None
        self._path, self._log_path = str(path), str(log_of(path))
        self._database = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._log = -1

    def watch_log(self) -> None:
        """Open the log, after SQLite has opened it."""
        self._log = os.open(self._log_path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._database)
        if self._log >= 0:
            os.close(self._log)

    def are_safe(self) -> bool:
        """A quick check after each commit: neither file was deleted. A file that was moved still has its data;
        `find_fault` detects that."""
        if self.fault is None and fstat(self._database).st_nlink and fstat(self._log).st_nlink:
            return True
        return self.find_fault() is None

    def find_fault(self) -> StorageError | None:
        """The fault and its remedy; None if both files are in their places."""
        self.fault = _compare(self._database, self._path, _REMEDY) or _compare(self._log, self._log_path, _LOG_REMEDY)
        return self.fault


def _compare(handle: int, path: str, remedy: str) -> StorageError | None:
    known = fstat(handle)
    try:
        found = stat(path)
    except OSError:
        what = "was moved away" if known.st_nlink else "was deleted"
    else:
        if (found.st_ino, found.st_dev) != (known.st_ino, known.st_dev):
            what = "was replaced by another file"
        elif remedy is _REMEDY and found.st_size < HEAD_BYTES:
            what = "was emptied"
        else:
            return None
    return StorageError(f"{path} {what} while the broker uses it: {remedy}; nothing is confirmed until then")
