"""The same against a plain RabbitMQ: nothing here depends on the broker being ours."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks import brokers
from rabbitlike.protocol.properties import Properties
from rabbitlike.spark.address import Address
from rabbitlike.spark.wire import Connection
from tests.spark.test_sink import numbers, save
from tests.spark.test_streams import PATIENCE_S, forget_epoch

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    kind = brokers.rabbitmq()
    if kind is None:
        pytest.skip("needs RabbitMQ")
    with kind.running(brokers.Place.DISK) as node:
        yield node.address.port


@pytest.fixture
def rabbitmq(port: int) -> Iterator[Connection]:
    with Connection(Address(port=port)) as connection:
        yield connection


def test_written_and_read_with_every_guarantee(
    spark: SparkSession, port: int, rabbitmq: Connection, tmp_path: Path
) -> None:
    uri = f"amqp://127.0.0.1:{port}"
    for queue in ("effectively", "exactly", "target"):
        rabbitmq.declare_queue(queue)
    save(numbers(spark), uri, routingKey="effectively", kind="amqp-saboteur", guarantee="effectively-once")
    for _ in range(2):
        options = {"guarantee": "exactly-once", "txnAppId": "app", "txnVersion": "1"}
        save(numbers(spark), uri, routingKey="exactly", kind="amqp-saboteur", **options)
    for run in range(2):
        query = (
            spark.readStream.format("amqp")
            .options(uri=uri, queue="exactly", spoolLocation=str(tmp_path / "spool"), maxRowsPerTrigger="400")
            .load()
            .select("body")
            .writeStream.format("amqp")
            .options(uri=uri, routingKey="target", guarantee="exactly-once")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(PATIENCE_S)
        finally:
            query.stop()
        if run == 0:
            forget_epoch(tmp_path / "checkpoint", 1)
    found = {queue: rabbitmq.get(queue, 10_000, no_ack=True) for queue in ("effectively", "exactly", "target")}
    once = Counter(b"%d" % number for number in range(600))
    assert Counter(delivery.body for delivery in found["effectively"]) == once + once, "at least once, that is"
    ids = {(Properties(delivery.properties).message_id, delivery.body) for delivery in found["effectively"]}
    assert Counter(body for _, body in ids) == once, "what a consumer can drop duplicates by"
    assert found["exactly"] == []
    assert Counter(delivery.body for delivery in found["target"]) == once
