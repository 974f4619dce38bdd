"""Queues to DataFrames, and from there to other queues."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rabbitlike.spark.wire import Connection, Delivery
from tests.spark.test_sink import numbers, save
from tests.spark.test_streams import PATIENCE_S, forget_epoch

pytestmark = pytest.mark.spark
Drain = Callable[[str], list[Delivery]]


def read(spark: SparkSession, uri: str, queue: str, **options: str) -> DataFrame:
    return spark.read.format("amqp").options(uri=uri, queue=queue, **options).load()


def test_a_batch_is_looked_at_or_taken(spark: SparkSession, uri: str, queue: str, client: Connection) -> None:
    save(numbers(spark).selectExpr("*", "map('n', body) as headers", "3 as priority"), uri, routingKey=queue)
    with pytest.raises(PySparkException, match=r"destructive=true.*browse=true"):
        read(spark, uri, queue).count()
    seen = read(spark, uri, queue, browse="true").where("headers['n'] = '7'").collect()
    assert [(row.body, row.priority, row.routing_key, row.queue) for row in seen] == [(b"7", 3, queue, queue)]
    taken = read(spark, uri, queue, destructive="true", numPartitions="2").selectExpr("cast(body as string)").collect()
    assert Counter(row.body for row in taken) == Counter(str(number) for number in range(600))
    assert client.declare_queue(queue, passive=True).message_count == 0


def test_stream_queues_are_not_there_yet(spark: SparkSession, uri: str) -> None:
    with pytest.raises(PySparkException, match="stream queues are not there yet"):
        read(spark, uri, "q", queueType="stream", browse="true").count()


def test_from_queue_to_queue_exactly_once(
    spark: SparkSession, uri: str, queue: str, client: Connection, drain: Drain, tmp_path: Path
) -> None:
    """Spool on one side, ledger on the other; an epoch is replayed in between, and more arrives."""
    target = f"{queue}-target"
    client.declare_queue(target)
    save(numbers(spark), uri, routingKey=queue)
    source = spark.readStream.format("amqp").options(
        uri=uri, queue=queue, spoolLocation=str(tmp_path / "spool"), maxRowsPerTrigger="250", numPartitions="2"
    )
    for run in range(2):
        query = (
            source.load()
            .select("body")
            .writeStream.format("amqp")
            .options(uri=uri, routingKey=target, guarantee="exactly-once")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(PATIENCE_S)
        finally:
            query.stop()
        if run == 0:
            assert query.lastProgress is not None
            assert query.lastProgress["batchId"] == 2
            forget_epoch(tmp_path / "checkpoint", 2)
            save(spark.sql("select 'more' as body"), uri, routingKey=queue)
    found = Counter(delivery.body for delivery in drain(target))
    assert found == Counter([*(b"%d" % number for number in range(600)), b"more"])


def test_without_a_spool_the_last_epoch_comes_again(spark: SparkSession, uri: str, queue: str, tmp_path: Path) -> None:
    """ackMode=commit: Spark reports an epoch done while it builds the next, and the last has none."""
    save(numbers(spark), uri, routingKey=queue)
    found: list[bytes] = []
    for _ in range(2):
        query = (
            spark.readStream.format("amqp")
            .options(uri=uri, queue=queue, ackMode="commit", maxRowsPerTrigger="250")
            .load()
            .writeStream.foreachBatch(lambda frame, _: found.extend(row.body for row in frame.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(PATIENCE_S)
        finally:
            query.stop()
    assert set(found) == {b"%d" % number for number in range(600)}, "nothing is lost"
    assert len(found) == 700, "600, and the last hundred again"
