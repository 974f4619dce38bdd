"""A folder that messages are kept in between the queue and Spark, so that an epoch can be read again exactly.

A segment `<from>-<to>` holds rows by their place; it is whole or not there (fsync, then rename). Its name ends in
`.new.arrow` until the broker has taken the acknowledgement: only what is in such a segment can come again.
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
#: Segments that were processed and never known to be acknowledged are remembered this long, for what may come again.
DOUBTFUL_KEPT: Final = 10
RETRY_AFTER_S: Final = 0.1
ID_SIZE: Final = 16
_COUNT: Final = "x-delivery-count"


class SpoolError(Exception):
    """The folder is not what it was, or somebody else's."""


class Segment(NamedTuple):
    """Rows from one place up to another, which is not in it."""

    first: int
    end: int
    path: Path

    @property
    def is_doubtful(self) -> bool:
        """Whether its messages may be delivered again."""
        return self.path.name.endswith(".new.arrow")


class Spool:
    """The segments of one queue. One process at a time has it."""

    def __init__(self, location: str, queue: str, wait_s: float) -> None:
        path = location.removeprefix("file://").removeprefix("file:")
        if "://" in path:
            raise SpoolError(f"spoolLocation must be a folder of the driver's machine, not {location}")
        self.folder = Path(path, quote(queue, safe="") or "%")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._mark = self.folder / "used"
        self._lock = self._acquire(wait_s)
        self._segments = self._find()
        #: What may come again, by its id, and how often.
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
        """Whether a checkpoint knows of this spool: Spark has planned an epoch, and so written it down before."""
        return self._mark.exists()

    def use(self) -> None:
        if not self._mark.exists():
            self._mark.touch()
            self._sync_folder()

    @property
    def first(self) -> int:
        """The oldest place that can be read."""
        return self._segments[0].first if self._segments else 0

    @property
    def end(self) -> int:
        return self._segments[-1].end if self._segments else 0

    def following(self, position: int) -> int | None:
        """Where the segment ends that goes on from here; None when there is none yet."""
        return next((segment.end for segment in self._segments if segment.first <= position < segment.end), None)

    def add(self, first: int, batch: "pa.RecordBatch", ids: Sequence[bytes]) -> Segment:
        """Rows on the disk for good, not acknowledged yet."""
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
        """Nothing of it comes again. Forgotten in a crash, this costs a look at ids and no more."""
        settled = segment._replace(path=segment.path.with_name(segment.path.name.replace(".new.arrow", ".arrow")))
        segment.path.rename(settled.path)
        self._segments[self._segments.index(segment)] = settled

    def doubt(self, segment: Segment) -> None:
        """The connection was lost while it was being acknowledged."""
        self.doubts.update(self._ids(segment))

    def _ids(self, segment: Segment) -> list[bytes]:
        import pyarrow as pa

        with pa.memory_map(str(segment.path)) as source, pa.ipc.open_file(source) as reader:
            raw: bytes = reader.schema.metadata[_IDS]
        return [raw[at : at + ID_SIZE] for at in range(0, len(raw), ID_SIZE)]

    def read(self, first: int, end: int, schema: "pa.Schema") -> "pa.Table":
        """The rows of these places, as they were the first time. They must have these columns."""
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
        """Rows before this place are not asked for again."""
        kept: list[Segment] = []
        doubtful = [segment for segment in self._segments if segment.is_doubtful and segment.end <= end]
        for segment in self._segments:
            if segment.end > end or segment is self._segments[-1] or segment in doubtful[-DOUBTFUL_KEPT:]:
                kept.append(segment)
            else:
                segment.path.unlink()
        self._segments = kept


def identify(delivery: Delivery) -> bytes:
    """What a message is known by when it comes again: its message_id, or all it says."""
    given = message_id_of(delivery.properties)
    digest = blake2b(digest_size=ID_SIZE)
    if given:
        digest.update(b"id\0" + given)
    else:
        digest.update(f"{delivery.exchange}\0{delivery.routing_key}\0".encode("utf-8", "surrogateescape"))
        digest.update(_as_published(delivery.properties) + delivery.body)
    return digest.digest()


def _as_published(properties: bytes) -> bytes:
    """Without what brokers add when they deliver again."""
    if _COUNT.encode() not in properties:
        return properties
    read = Properties(properties)
    headers = read.headers or Table()
    headers.pop(_COUNT, None)
    return read.replace(headers=headers or None).raw


def drop_repeated(deliveries: Iterable[Delivery], doubts: "Counter[bytes]") -> list[Delivery]:
    """Without those that are in a doubtful segment already, each as often as it is there.

    A message with an id is known by it. One without must also say that it was delivered before, which a broker that was
    killed may have forgotten: it could be another one with the same words, and rather comes twice than not at all.
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
