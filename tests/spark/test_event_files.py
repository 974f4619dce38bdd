"""Files of events as the broker writes them, read by Spark."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rabbitlike.broker.tracing.event_columns import SCHEMA, columns
from rabbitlike.storage.columns import values
from rabbitlike.storage.event_files import EventFiles, Lot
from tests.support.pair import Pair

pytest.importorskip("pyarrow")
NAMES = [name for name, _, _ in SCHEMA]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[object, ...]]]:
    """A folder of events, with ids that come again and without, and its rows."""
    pair = Pair(event_log=True)
    ch, publisher = pair.connect().channel(), pair.connect().channel()
    for queue in ("a", "é"):
        ch.declare(queue)
        ch.consume(queue, f"of {queue}")
    for number in range(1200):
        pair.advance(number % 3)
        body, queue = b"x" * (number // 100), "aé"[number % 7 // 6]
        if number % 2:
            publisher.publish(body, key=queue, message_id=f"m-{number}")
        else:
            publisher.publish(body, key=queue)
    ch.ack(500, multiple=True)
    pair.advance(17)
    ch.ack(1200, multiple=True)
    (rows,) = pair.broker.events.blocks()
    folder = tmp_path_factory.mktemp("events")
    files = EventFiles(folder, "rabbit@host", SCHEMA, max_age_s=3600, max_bytes=1 << 30)
    files.write(Lot(rows.first_seq, pair.clock.now_ms(), partial(columns, rows, "rabbit@host")))
    return folder, list(zip(*(values(each, rows.count) for each in columns(rows, "rabbit@host").values()), strict=True))


@pytest.mark.parametrize("is_vectorized", ["true", "false"], ids=["in vectors", "row by row"])
def test_spark_reads_what_is_written(
    spark: SparkSession, written: tuple[Path, list[tuple[object, ...]]], is_vectorized: str
) -> None:
    """G18 with both of its readers."""
    folder, rows = written
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", is_vectorized)
    try:
        found = spark.read.parquet(str(folder)).selectExpr(*NAMES[:1], "unix_micros(ts) ts", *NAMES[2:]).collect()
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    assert len(rows) == 1200 * 4
    assert sorted(map(tuple, found)) == rows
