"""A folder that keeps messages between queue and Spark, so that an epoch can be read again exactly.

A segment `<from>-<to>` holds rows by position; it is written atomically (fsync, then rename). Its name ends in
`.new.arrow` until the broker has confirmed the acknowledgement: only messages of such segments can be redelivered.
"""

import fcntl
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from rabbitlike.protocol.properties import Properties, message_id_of
from rabbitlike.protocol.tables import Table
from rabbitlike.spark.wire import Delivery

if TYPE_CHECKING:
    import pyarrow as pa

_NAME: Final = re.compile(r"(\d{19})-(\d{19})(\.new)?\.arrow")
_IDS: Final = b"ids"
#: How many processed segments without a confirmed acknowledgement are kept, to detect redeliveries.
DOUBTFUL_KEPT: Final = 10
RETRY_AFTER_S: Final = 0.1
ID_SIZE: Final = 16
_COUNT: Final = "x-delivery-count"


class SpoolError(Exception):
    """The folder has lost rows, or another query uses it."""


class Segment(NamedTuple):
    """Rows from `first` to `end`, excluding `end`."""

    first: int
    end: int
    path: Path

    @property
    def is_doubtful(self) -> bool:
        """Whether its messages may be delivered again."""
        return self.path.name.endswith(".new.arrow")


class Spool:
    """The segments of one queue. Only one process at a time holds them."""

    def __init__(self, location: str, queue: str, wait_s: float) -> None:
        path = location.removeprefix("file://").removeprefix("file:")
        if "://" in path:
            raise SpoolError(f"spoolLocation must be a folder of the driver's machine, not {location}")
        self.folder = Path(path, quote(queue, safe="") or "%")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._mark = self.folder / "used"
        self._lock = self._acquire(wait_s)
        self._segments = self._find()
        #: Ids that may be redelivered, with their counts.
        self.doubts = Counter(id_ for segment in self._segments if segment.is_doubtful for id_ in self._ids(segment))

    def _acquire(self, wait_s: float) -> int:
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(lock)
                    raise SpoolError(f"another query reads with the spool {self.folder}") from None
                time.sleep(RETRY_AFTER_S)

    def close(self) -> None:
        os.close(self._lock)

    def _find(self) -> list[Segment]:
        found = []
        for path in self.folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match:
                found.append(Segment(int(match[1]), int(match[2]), path))
            elif path.name.startswith(".tmp-"):
                path.unlink()
        return sorted(found)

    @property
    def is_used(self) -> bool:
        """Whether a checkpoint refers to this spool: Spark plans an epoch only after it has recorded its offset."""
        return self._mark.exists()

    def use(self) -> None:
        if not self._mark.exists():
            self._mark.touch()
            self._sync_folder()

    @property
    def first(self) -> int:
        """The oldest position that can be read."""
        return self._segments[0].first if self._segments else 0

    @property
    def end(self) -> int:
        return self._segments[-1].end if self._segments else 0

    def following(self, position: int) -> int | None:
        """Return the end of the segment that contains `position`, or None."""
        return next((segment.end for segment in self._segments if segment.first <= position < segment.end), None)

    def add(self, first: int, batch: "pa.RecordBatch", ids: Sequence[bytes]) -> Segment:
        """Store rows durably; they are not acknowledged yet."""
        import pyarrow as pa

        end = first + batch.num_rows
        path = self.folder / f"{first:019}-{end:019}.new.arrow"
        under_way = self.folder / f".tmp-{path.name}"
        schema = batch.schema.with_metadata({_IDS: b"".join(ids)})
        with under_way.open("wb") as file:
            with pa.ipc.new_file(file, schema) as writer:
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
            file.flush()
            os.fsync(file.fileno())
        under_way.rename(path)
        self._sync_folder()
        segment = Segment(first, end, path)
        self._segments.append(segment)
        return segment

    def _sync_folder(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def acknowledged(self, segment: Segment) -> None:
        """Mark a segment as acknowledged. If a crash loses the mark, the only cost is a comparison of ids."""
        settled = segment._replace(path=segment.path.with_name(segment.path.name.replace(".new.arrow", ".arrow")))
        segment.path.rename(settled.path)
        self._segments[self._segments.index(segment)] = settled

    def doubt(self, segment: Segment) -> None:
        """Note that the connection was lost during the acknowledgement of this segment."""
        self.doubts.update(self._ids(segment))

    def _ids(self, segment: Segment) -> list[bytes]:
        import pyarrow as pa

        with pa.memory_map(str(segment.path)) as source, pa.ipc.open_file(source) as reader:
            raw: bytes = reader.schema.metadata[_IDS]
        return [raw[at : at + ID_SIZE] for at in range(0, len(raw), ID_SIZE)]

    def read(self, first: int, end: int, schema: "pa.Schema") -> "pa.Table":
        """Return the rows at these positions, as first read. Their columns must match `schema`."""
        import pyarrow as pa

        tables = []
        at = first
        for segment in self._segments:
            if segment.first <= at < segment.end and at < end:
                with pa.OSFile(str(segment.path)) as source, pa.ipc.open_file(source) as reader:
                    table = reader.read_all().replace_schema_metadata(None)
                if table.schema != schema:
                    raise SpoolError(
                        f"rows {at} to {segment.end} in the spool {self.folder} were read with another value of the "
                        "option includeHeaders: go back to it until the query is done with them"
                    )
                stop = min(end, segment.end)
                tables.append(table.slice(at - segment.first, stop - at))
                at = stop
        if at < end:
            raise SpoolError(f"the spool {self.folder} has lost rows {at} to {end}")
        return pa.concat_tables(tables)

    def forget(self, end: int) -> None:
        """Delete rows before `end`; Spark does not ask for them again."""
        kept: list[Segment] = []
        doubtful = [segment for segment in self._segments if segment.is_doubtful and segment.end <= end]
        for segment in self._segments:
            if segment.end > end or segment is self._segments[-1] or segment in doubtful[-DOUBTFUL_KEPT:]:
                kept.append(segment)
            else:
                segment.path.unlink()
        self._segments = kept


def identify(delivery: Delivery) -> bytes:
    """Return the id that recognises a redelivered message: its message_id, or a digest of its content."""
    given = message_id_of(delivery.properties)
    digest = blake2b(digest_size=ID_SIZE)
    if given:
        digest.update(b"id\0" + given)
    else:
        digest.update(f"{delivery.exchange}\0{delivery.routing_key}\0".encode("utf-8", "surrogateescape"))
        digest.update(_as_published(delivery.properties) + delivery.body)
    return digest.digest()


def _as_published(properties: bytes) -> bytes:
    """Remove the header that brokers add on redelivery."""
    if _COUNT.encode() not in properties:
        return properties
    read = Properties(properties)
    headers = read.headers or Table()
    headers.pop(_COUNT, None)
    return read.replace(headers=headers or None).raw


def drop_repeated(deliveries: Iterable[Delivery], doubts: "Counter[bytes]") -> list[Delivery]:
    """Drop messages that are already in a doubtful segment, each as often as it occurs there.

    A message with an id is recognised by the id. A message without one must also have the redelivered flag, which a
    broker loses if it is killed: it might be another message with equal content, and a duplicate is better than a loss.
    """
    if not doubts:
        return list(deliveries)
    kept = []
    for delivery in deliveries:
        if delivery.redelivered or message_id_of(delivery.properties):
            id_ = identify(delivery)
            if doubts[id_] > 0:
                doubts[id_] -= 1
                continue
        kept.append(delivery)
    return kept
