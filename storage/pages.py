"""Reads batches back for paging: at once, on the loop's own thread, past the writer and never in its way.

Sees everything that was committed, and whether it still is what was written. Each read ends its own read transaction,
so it never keeps the log from starting over.
"""

import sqlite3
from pathlib import Path
from typing import Final
from zlib import crc32

from rabbitlike.storage.api import StorageError
from rabbitlike.storage.database import PAGE_BYTES, connect_to_read
from rabbitlike.storage.errors import explain

_READ: Final = "SELECT data, checksum FROM batches WHERE batch_id = ?"


def is_whole(data: bytes, checksum: int | None) -> bool:
    """Whether the data of a batch is what was written. What has no checksum, from before there were any, is taken for
    that."""
    return checksum is None or crc32(data) == checksum


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
            row = self._connection.execute(_READ, (batch_id,)).fetchone()
        except sqlite3.Error as error:
            raise explain(error, self._path) from error
        if row is None:
            raise StorageError(f"batch {batch_id} is not in {self._path}: run `rabbitlike check`")
        data: bytes = row[0]
        if not is_whole(data, row[1]):
            raise StorageError(f"batch {batch_id} in {self._path} is damaged: run `rabbitlike check`")
        return data

    def spare_bytes(self) -> int:
        """Pages of the file that hold nothing, in octets: the next batches go there before the file grows."""
        try:
            (pages,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        except sqlite3.Error:
            return 0
        return int(pages) * PAGE_BYTES

    def close(self) -> None:
        self._connection.close()
