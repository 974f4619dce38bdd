"""Event files `events/date=YYYY-MM-DD/hour=HH/ev-<node>-<seq>.parquet`, written by their own thread.

A file is written under a name that begins with `.tmp-`, synced, and then renamed: readers that ignore names with a
leading dot, as Spark does, see only complete files. Without pyarrow the files are `.jsonl.gz` with the same columns.
Submitting rows never blocks: rows that do not fit in the queue are refused.
"""

import json
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from typing import TYPE_CHECKING, Final, NamedTuple

from rabbitlike.storage.columns import Column, Numbers, values
from rabbitlike.storage.modes import make_private_folders, private
from rabbitlike.storage.parquet import Parquet, Schema

if TYPE_CHECKING:
    from types import ModuleType

log = logging.getLogger(__name__)

FOLDER: Final = "events"
UNFINISHED: Final = ".tmp-"
#: Lots of rows that can wait to be written.
WAITING: Final = 4

#: Makes the columns, in the writing thread.
Make = Callable[[], Mapping[str, Column]]


class Lot(NamedTuple):
    """Rows of one hour."""

    first_seq: int
    at_ms: int
    make: Make
    #: Called in the writing thread when the rows are no longer needed.
    done: Callable[[], None] = lambda: None


def pyarrow() -> "ModuleType | None":
    """The pyarrow module, if it is installed."""
    try:
        for name in ("pyarrow.compute", "pyarrow.parquet"):
            import_module(name)
        return import_module("pyarrow")
    except ImportError:
        return None


class EventFiles:
    """The event files of one broker. The thread starts with the first rows."""

    def __init__(self, folder: Path, node: str, schema: Schema, *, max_age_s: int, max_bytes: int) -> None:
        self.folder = folder
        self._node = re.sub(r"[^\w@.-]", "_", node)
        self._schema = schema
        self._max_age_s = max_age_s
        self._max_bytes = max_bytes
        self._waiting: Queue[Lot | None] = Queue(WAITING)
        self._thread: Thread | None = None
        self._parquet: Parquet | None = None
        #: Complete files and their sizes, oldest first; listed once, at the start.
        self._kept: deque[tuple[Path, int]] | None = None
        self._bytes = 0

    def submit(self, lot: Lot) -> bool:
        """Queue rows for writing. False if too many lots wait."""
        try:
            self._waiting.put_nowait(lot)
        except Full:
            log.warning("events arrive faster than they can be written: some are lost")
            return False
        if self._thread is None:
            self._thread = Thread(target=self._run, name="events", daemon=True)
            self._thread.start()
        return True

    def drain(self) -> None:
        """Write all waiting lots, so that the queue is empty. Blocks."""
        self._waiting.join()

    def close(self) -> None:
        """Write all waiting lots and end the thread. Blocks."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        self._tidy()
        while (lot := self._waiting.get()) is not None:
            try:
                self.write(lot)
                self.forget(lot.at_ms)
            except Exception:  # most likely a full disk: the broker continues without its event log
                log.exception("events could not be written")
            finally:
                lot.done()
                self._waiting.task_done()

    def write(self, lot: Lot) -> Path:
        """Write one file; return its path. Blocks."""
        columns = lot.make()
        arrow = pyarrow()
        name = f"ev-{self._node}-{lot.first_seq}" + (".jsonl.gz" if arrow is None else ".parquet")
        folder = self.folder / f"{datetime.fromtimestamp(lot.at_ms / 1000, UTC):date=%Y-%m-%d/hour=%H}"
        make_private_folders(folder, below=self.folder)
        unfinished = folder / (UNFINISHED + name)
        if arrow is None:
            _write_json(unfinished, columns, self._schema)
        else:
            if self._parquet is None:
                zstd = arrow.Codec("zstd", compression_level=1)
                self._parquet = Parquet(self._schema, partial(zstd.compress, asbytes=True))
            with open(unfinished, "wb", opener=private) as file:
                file.writelines(self._parquet.file(columns, _count(columns)))
        _make_durable(unfinished)
        finished = folder / name
        kept, size = self._known(), unfinished.stat().st_size
        # The folder is not synced: a power cut may lose the last files, each as a whole, but queues need not wait for
        # them.
        unfinished.rename(finished)
        kept.append((finished, size))
        self._bytes += size
        return finished

    def forget(self, now_ms: int) -> None:
        """Delete files that are too old, then the oldest files over the size limit; always keep the last file."""
        oldest = (
            f"{datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(seconds=self._max_age_s):date=%Y-%m-%d/hour=%H}"
        )
        kept = self._known()
        while len(kept) > 1:
            path, size = kept[0]
            if path.parent.relative_to(self.folder).as_posix() >= oldest and self._bytes <= self._max_bytes:
                break
            kept.popleft()
            self._bytes -= size
            path.unlink(missing_ok=True)
            for folder in (path.parent, path.parent.parent):
                with suppress(OSError):  # not empty
                    folder.rmdir()

    def files(self) -> Iterator[Path]:
        """All complete files."""
        return self.folder.glob("date=*/hour=*/ev-*")

    def _known(self) -> deque[tuple[Path, int]]:
        if self._kept is None:
            self._kept = deque((path, path.stat().st_size) for path in sorted(self.files()))
            self._bytes = sum(size for _, size in self._kept)
        return self._kept

    def _tidy(self) -> None:
        """Delete files that a crash left incomplete."""
        for path in self.folder.glob(f"date=*/hour=*/{UNFINISHED}*"):
            path.unlink(missing_ok=True)


def _count(columns: Mapping[str, Column]) -> int:
    return next(
        len(each.values) for each in columns.values() if isinstance(each, Numbers) and isinstance(each.values, range)
    )


def _write_json(path: Path, columns: Mapping[str, Column], schema: Schema) -> None:
    import gzip

    count = _count(columns)
    kinds = {name: kind for name, kind, _ in schema}
    with (
        open(path, "wb", opener=private) as octets,
        gzip.open(octets, "wt", encoding="utf-8", compresslevel=3) as file,
    ):
        for row in zip(*(values(columns[name], count) for name in kinds), strict=True):
            named = {name: shown(kinds[name], value) for name, value in zip(kinds, row, strict=True)}
            file.write(json.dumps(named, separators=(",", ":")) + "\n")


def shown(kind: str, value: object) -> object:
    """A value in its JSON form."""
    if kind == "timestamp" and isinstance(value, int):
        return f"{datetime.fromtimestamp(value / 1_000_000, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    return bool(value) if kind == "boolean" else value


def _make_durable(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
