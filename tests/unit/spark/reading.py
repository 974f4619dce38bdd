"""Readers asked as Spark asks, and a queue to ask about."""

import itertools

from pyspark.sql.streaming.datasource import ReadMaxRows

from rabbitlike.protocol.properties import Properties
from rabbitlike.spark.publisher import Publisher, route
from rabbitlike.spark.reader import Offset, QueueReader, SpooledReader
from rabbitlike.spark.wire import Connection

ALL = ReadMaxRows(1000)
NUMBERS = [b"%d" % number for number in range(50)]


def die(reader: QueueReader) -> None:
    """What is left when its process is gone: nothing of it but files."""
    reader.stop()
    if isinstance(reader, SpooledReader) and reader._opened is not None:
        reader._opened.close()
        reader._opened = None


def fill(client: Connection, queue: str, *bodies: bytes, ids: bool = False) -> None:
    lists = (
        [Properties.build(delivery_mode=2, message_id=body.decode()).raw for body in bodies]
        if ids
        else itertools.repeat(Properties.build(delivery_mode=2).raw)
    )
    publisher = Publisher(client, 1000)
    publisher.publish(itertools.repeat(route("", queue, mandatory=True)), lists, bodies)
    publisher.finish()


def rows(reader: QueueReader, start: Offset, end: Offset) -> list[bytes]:
    """What the tasks of an epoch would hand to Spark."""
    batches = [batch for partition in reader.partitions(start, end) for batch in reader.read(partition)]
    return [row["body"] for batch in batches for row in batch.to_pylist()]


def epochs(reader: QueueReader, start: Offset, limit: ReadMaxRows = ALL) -> tuple[list[bytes], Offset]:
    """Epoch after epoch until there is no more, committed as Spark does: one late, the last one never."""
    found: list[bytes] = []
    reader.prepareForTriggerAvailableNow()
    while True:
        end = reader.latestOffset(start, limit)
        if end == start:
            return found, end
        found += rows(reader, start, end)
        reader.commit(start)
        start = end


def depth(client: Connection, queue: str) -> int:
    return client.declare_queue(queue, passive=True).message_count
