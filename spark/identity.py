"""Identity of a write (query or job, epoch, partition) and the message ids derived from it.

Two publications of the same row carry the same id, different rows carry different ids, so a broker or a consumer can
drop duplicates. The names of Spark's local properties are undocumented; only this module reads them.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import count
from typing import Final, NamedTuple

from pyspark import TaskContext

QUERY_PROPERTY: Final = "sql.streaming.queryId"
EPOCH_PROPERTY: Final = "streaming.sql.batchId"
_DIGEST_SIZE: Final = 16


class Task(NamedTuple):
    """The Spark task of this process. A batch job has neither query nor epoch."""

    partition: int
    attempt: int
    query: str | None
    epoch: int | None


class Writing(NamedTuple):
    """A write whose repetition must be recognised: `version` of the output of `app`."""

    app: str
    version: int


def current_task() -> Task:
    """Return the Spark task that runs in this process."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("not within a Spark task")
    epoch = context.getLocalProperty(EPOCH_PROPERTY)
    return Task(
        partition=context.partitionId(),
        attempt=context.attemptNumber(),
        query=context.getLocalProperty(QUERY_PROPERTY),
        epoch=int(epoch) if epoch is not None else None,
    )


def content_ids(
    writing: Writing, partition: int, seen: dict[bytes, int], messages: Iterable[tuple[bytes, bytes, bytes]]
) -> Iterator[bytes]:
    """Yield ids from the content (route, properties, body) and the number of equal earlier messages, `seen`.

    The ids do not depend on the order of rows, which varies after a shuffle. The partition is part of the id: equal
    rows of two partitions are two messages.
    """
    start = blake2b(f"{writing.app}\0{writing.version}\0{partition}\0".encode(), digest_size=_DIGEST_SIZE)
    for message in messages:
        digest = start.copy()
        digest.update(b"".join(message))  # routes and property lists delimit themselves
        key = digest.digest()
        number = seen.get(key, 0)
        seen[key] = number + 1
        yield b"%b#%d" % (key.hex().encode(), number)


def position_ids(writing: Writing, partition: int, first: int) -> Iterator[bytes]:
    """Yield ids from row numbers, starting at `first`; correct only if a repetition has the same row order."""
    stem = f"{writing.app}/{writing.version}/{partition}/".encode()
    return (b"%b%d" % (stem, row) for row in count(first))
