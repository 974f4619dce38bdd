"""Reads batches back for paging: at once, on the loop's own thread, past the writer and never in its way.

Sees everything that was committed. Each read ends its own read transaction, so it never keeps the log from starting
over.
"""

import sqlite3
from pathlib import Path

from rabbitlike.storage.api import StorageError
from rabbitlike.storage.database import connect_to_read
from rabbitlike.storage.errors import explain


class Pages:
    """A connection that only reads. Belongs to the thread that made it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = connect_to_read(path)
        except sqlite3.Error as error:
            raise explain(error, path) from error

    def read(self, batch_id: int) -> bytes:
        try:
            row = self._connection.execute("SELECT data FROM batches WHERE batch_id = ?", (batch_id,)).fetchone()
        except sqlite3.Error as error:
            raise explain(error, self._path) from error
        if row is None:
            raise StorageError(f"batch {batch_id} is not in {self._path}: run `rabbitlike check`")
        data: bytes = row[0]
        return data

    def close(self) -> None:
        self._connection.close()
