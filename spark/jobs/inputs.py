"""Locations of events: the folder of a broker with `event_log`, or any other location that Spark can read.

Importable without Spark. Local folders are checked first, so that an empty folder is reported within a second.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rabbitlike.spark.events import DDL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT: Final = "data/events"
#: File kinds by suffix, with Spark's names of the formats.
KINDS: Final = {".parquet": "parquet", ".jsonl.gz": "json"}
HOW: Final = (
    "A broker writes events when it is started with --event-log (or for queues declared with x-trace true), to the "
    "folder events in its data folder, a file each minute and one when it stops: give that folder with --input."
)
#: Window lengths to choose from, in seconds; the shortest that makes at most `MANY` windows is used.
LENGTHS_S: Final = (1, 2, 5, 10, 15, 30, 60, 300, 900, 3600)
MANY: Final = 120


class NoEvents(Exception):
    """There are no events; the text says how to get some."""


@dataclass(frozen=True, slots=True)
class Events:
    """The event files to read."""

    place: str
    #: None: not on this machine, or not known yet.
    files: tuple[Path, ...] | None = None

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.files or ())

    @property
    def kinds(self) -> Sequence[str]:
        """Return the suffixes of the files present."""
        return [end for end in KINDS if self.files is None or any(file.name.endswith(end) for file in self.files)]


def find(place: str, since: datetime | None = None, until: datetime | None = None) -> Events:
    """Find what to read at a location; raise NoEvents if there is nothing.

    Files of hours outside the given times are left out.
    """
    folder = local(place)
    if folder is None:
        return Events(place)
    if not folder.exists():
        raise NoEvents(f"There is no folder {folder}. {HOW}")
    found = sorted(
        file
        for file in ([folder] if folder.is_file() else folder.rglob("*"))
        if file.name.endswith(tuple(KINDS)) and not file.name.startswith((".", "_"))
    )
    if not found:
        raise NoEvents(f"There are no files of events in {folder}. {HOW}")
    kept = tuple(file for file in found if _is_within(file, since, until))
    if not kept:
        raise NoEvents(f"None of the {len(found)} files of events in {folder} is of that time. {HOW}")
    return Events(place, kept)


def look(place: str) -> None:
    """For a stream, raise NoEvents if the folder does not exist."""
    folder = local(place)
    if folder is not None and not folder.is_dir():
        raise NoEvents(f"There is no folder {folder}. {HOW}")


def local(place: str) -> Path | None:
    """Return the path if the location is on this machine."""
    scheme = re.match(r"([a-z][a-z0-9+.-]+):", place)
    if scheme and scheme[1] != "file":
        return None
    return Path(re.sub(r"^file:(//)?", "", place)).expanduser()


def _is_within(file: Path, since: datetime | None, until: datetime | None) -> bool:
    match = re.search(r"date=([\d-]+)/hour=(\d\d)/[^/]+$", file.as_posix())
    if match is None:
        return True
    hour = datetime.fromisoformat(f"{match[1]}T{match[2]}:00:00+00:00")
    if until is not None and hour >= until:
        return False
    return since is None or hour >= since.replace(minute=0, second=0, microsecond=0)


def read(
    spark: "SparkSession", events: Events, since: datetime | None = None, until: datetime | None = None
) -> "DataFrame":
    """Return all events as one table."""
    tables: list[DataFrame] = []
    for end in events.kinds:
        reader = spark.read.schema(DDL).option("recursiveFileLookup", "true").option("pathGlobFilter", f"*{end}")
        paths = [str(file) for file in events.files or () if file.name.endswith(end)] or events.place
        tables.append(reader.format(KINDS[end]).load(paths))
    found = tables[0]
    for table in tables[1:]:
        found = found.unionByName(table)
    if since is not None:
        found = found.where(found["ts"] >= since)
    return found if until is None else found.where(found["ts"] < until)


def read_stream(spark: "SparkSession", place: str, files_at_once: int) -> "DataFrame":
    """Stream existing and future events, file by file in the order of writing."""
    look(place)
    try:
        kinds = find(place).kinds
    except NoEvents:
        kinds = [".parquet"]
    if len(kinds) > 1 and local(place) is not None:
        raise NoEvents(
            f"There are both .parquet and .jsonl.gz in {place}: a stream follows one kind, so move the older away."
        )
    return (
        spark.readStream.schema(DDL)
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", f"*{kinds[0]}")
        .option("maxFilesPerTrigger", files_at_once)
        .format(KINDS[kinds[0]])
        .load(place)
    )


def fitting_window_s(events: Events) -> int:
    """Return a window length that gives neither a handful nor thousands of windows."""
    span_s = _span_s(events.files) if events.files else None
    if span_s is None:
        return 60
    return next((length for length in LENGTHS_S if span_s / length <= MANY), LENGTHS_S[-1])


def _span_s(files: Sequence[Path]) -> float | None:
    """Return the time from first to last event from the files' metadata; None if the metadata lacks it."""
    import pyarrow.parquet as pq

    first, last = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
    for file in files:
        if not file.name.endswith(".parquet"):
            return None
        found = pq.read_metadata(file)
        column = found.schema.names.index("ts")
        for group in range(found.num_row_groups):
            numbers = found.row_group(group).column(column).statistics
            if numbers is None or not numbers.has_min_max:
                return None
            first, last = min(first, numbers.min), max(last, numbers.max)
    return (last - first).total_seconds() if first <= last else None
