"""Reads batches back for paging: synchronously, on the loop's own thread, without using or blocking the writer.

Reads see everything committed, and verify its checksum. Each read ends its own read transaction, so it never keeps the
log from restarting; a large batch is read in pieces, and keeps the log from restarting for that long.
"""

import sqlite3
from pathlib import Path
from typing import Final
from zlib import crc32

from rabbitlike.storage.api import StorageError
from rabbitlike.storage.database import PAGE_BYTES, connect_to_read
from rabbitlike.storage.errors import explain

_READ: Final = "SELECT data, checksum FROM batches WHERE batch_id = ?"
_READ_CHECKSUM: Final = "SELECT checksum FROM batches WHERE batch_id = ?"


def is_whole(data: bytes, checksum: int | None) -> bool:
    """Whether the data of a batch matches its checksum. Batches without one, from the first schema, count as intact."""
    return checksum is None or crc32(data) == checksum


class BlobReader:
    """A `BatchReader`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, batch_id: int) -> None:
        self._path = path
        self._batch_id = batch_id
        row = connection.execute(_READ_CHECKSUM, (batch_id,)).fetchone()
        if row is None:
            raise _missing(batch_id, path)
        self._checksum: int | None = row[0]
        self._read_checksum = 0
        self._blob = connection.blobopen("batches", "data", batch_id, readonly=True)
        self.size = self._left = len(self._blob)

    def read(self, most: int) -> bytes:
        if self._left == 0:
            if self._checksum is not None and self._checksum != self._read_checksum:
                raise _damaged(self._batch_id, self._path)
            return b""
        try:
            data = self._blob.read(min(most, self._left))
        except sqlite3.Error as error:
            raise explain(error, self._path) from error
        self._read_checksum = crc32(data, self._read_checksum)
        self._left -= len(data)
        return data

    def close(self) -> None:
        self._blob.close()


class Pages:
    """A read-only connection. Belongs to the thread that created it."""

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
            raise _missing(batch_id, self._path)
        data: bytes = row[0]
        if not is_whole(data, row[1]):
            raise _damaged(batch_id, self._path)
        return data

    def open(self, batch_id: int) -> BlobReader:
        try:
            return BlobReader(self._connection, self._path, batch_id)
        except sqlite3.Error as error:
            raise explain(error, self._path) from error

    def spare_bytes(self) -> int:
        """The size of the file's free pages: new batches use them before the file grows."""
        try:
            (pages,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        except sqlite3.Error:
            return 0
        return int(pages) * PAGE_BYTES

    def close(self) -> None:
        self._connection.close()


def _missing(batch_id: int, path: Path) -> StorageError:
    return StorageError(f"batch {batch_id} is not in {path}: run `rabbitlike check`")


def _damaged(batch_id: int, path: Path) -> StorageError:
    return StorageError(f"batch {batch_id} in {path} is damaged: run `rabbitlike check`")
