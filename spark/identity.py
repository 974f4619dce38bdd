"""Who writes: which query or job, which epoch of it, which partition; and the ids that messages get from that.

Two publications of the same row carry the same id, different rows carry different ones: then a broker or a consumer can
drop what it has seen. The names of Spark's local properties are undocumented; they are read here alone.
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
    """Where in Spark's work this process is. A batch job has neither query nor epoch."""

    partition: int
    attempt: int
    query: str | None
    epoch: int | None


class Writing(NamedTuple):
    """The unit whose repetition is to be recognised: `version` of what `app` writes."""

    app: str
    version: int


def current_task() -> Task:
    """Of the process that this is called in, which is a task's."""
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
    """Ids by what a message says (route, properties, body) and how many equal ones the partition had before: `seen`.

    They do not depend on the order of rows, which is an accident after a shuffle. The partition is part of them: equal
    rows of two partitions are two messages.
    """
    start = blake2b(f"{writing.app}\0{writing.version}\0{partition}\0".encode(), digest_size=_DIGEST_SIZE)
    for message in messages:
        digest = start.copy()
        digest.update(b"".join(message))  # a route and a property list tell where they end
        key = digest.digest()
        number = seen.get(key, 0)
        seen[key] = number + 1
        yield b"%b#%d" % (key.hex().encode(), number)


def position_ids(writing: Writing, partition: int, first: int) -> Iterator[bytes]:
    """Ids by place, from row `first` on: right only where a repetition gives the same rows in the same order."""
    stem = f"{writing.app}/{writing.version}/{partition}/".encode()
    return (b"%b%d" % (stem, row) for row in count(first))
