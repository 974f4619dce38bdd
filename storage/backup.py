"""Copies a database while a broker uses it: one consistent state, from the moment the copy begins.

Any process may do it. During the copy the broker's log cannot restart, so it grows by what is committed meanwhile; it
is truncated afterwards.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rabbitlike.storage.api import StorageError
from rabbitlike.storage.commit_record import find_damage
from rabbitlike.storage.database import (
    FILE_NAME,
    Lock,
    connect_to_read,
    make_folder,
    refuse_foreign,
    remove_traces,
    sync,
)
from rabbitlike.storage.errors import explain
from rabbitlike.storage.modes import make_private_file


def backup(folder: Path, destination: Path) -> int:
    """Make `destination` a data folder with a copy of `folder`; return the copy's size. Raise StorageError."""
    source, copy = folder / FILE_NAME, destination / FILE_NAME
    if not source.is_file():
        raise StorageError(f"there is no database in {folder}: name the data folder of a broker")
    if copy.exists():
        raise StorageError(f"{copy} exists: name a folder that holds no backup yet")
    make_folder(destination)
    unfinished = copy.with_name(f"{FILE_NAME}.part")
    try:
        unfinished.unlink(missing_ok=True)
        with _tidied(source):
            refuse_foreign(source)
            _copy(source, unfinished)
        sync(unfinished)
        unfinished.rename(copy)
        sync(destination)
        return copy.stat().st_size
    except (sqlite3.Error, OSError) as error:
        unfinished.unlink(missing_ok=True)
        raise explain(error, copy) from error


@contextmanager
def _tidied(source: Path) -> Iterator[None]:
    """Remove traces of the copy if no broker serves; a serving broker's files stay as they are."""
    try:
        lock = Lock(source.parent)
    except StorageError:
        yield
        return
    try:
        if (damage := find_damage(source)) and not damage.excuse:
            raise damage.refusal()
        yield
    finally:
        remove_traces(source)
        lock.release()


def _copy(source: Path, target: Path) -> None:
    reading = connect_to_read(source)
    make_private_file(target)
    writing = sqlite3.connect(target, isolation_level=None)
    try:
        writing.execute("PRAGMA synchronous = off")  # the whole file is synced at the end
        reading.backup(writing)  # in one step: a stepwise copy would restart at every commit of the broker
    finally:
        writing.close()
        reading.close()
