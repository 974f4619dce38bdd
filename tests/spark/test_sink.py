"""DataFrames to queues, as a batch: what arrives, what is refused, and what a broken task or broker does to it."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from rabbitlike.protocol.properties import Properties
from rabbitlike.spark.address import Address
from rabbitlike.spark.wire import Connection, Delivery
from tests.support.broker_process import running

pytestmark = pytest.mark.spark
Drain = Callable[[str], list[Delivery]]
PATIENCE_S = 240


def numbers(spark: SparkSession, count: int = 600) -> DataFrame:
    return spark.range(0, count, numPartitions=2).selectExpr("cast(id as string) as body")


def save(frame: DataFrame, uri: str, *, kind: str = "amqp", mode: str = "append", **options: str) -> None:
    frame.write.format(kind).option("uri", uri).options(**options).mode(mode).save()


def test_columns_arrive_as_properties(spark: SparkSession, uri: str, queue: str, drain: Drain) -> None:
    frame = spark.sql(
        f"""select 'text' as value, '{queue}' as key, map('a', 1, 'b', 2) as headers, 7 as priority,
        timestamp '2026-01-02 03:04:05' as timestamp, 'id' as message_id, cast(null as string) as reply_to"""
    )
    save(frame, uri)
    (delivery,) = drain(queue)
    assert delivery.body == b"text"
    assert Properties(delivery.properties) == Properties.build(
        headers={"a": 1, "b": 2}, delivery_mode=2, priority=7, message_id="id", timestamp=1767323045
    )


def test_other_columns_become_json(spark: SparkSession, uri: str, queue: str, drain: Drain) -> None:
    frame = spark.sql(
        f"select '{queue}' as routing_key, 'orders' as queue, 3L as published, named_struct('p99', 1.5D) as wait"
    )
    save(frame, uri, format="json")
    assert [delivery.body for delivery in drain(queue)] == [b'{"queue":"orders","published":3,"wait":{"p99":1.5}}']


# Refused


def test_unroutable_rows_fail_the_job(spark: SparkSession, uri: str, queue: str, drain: Drain) -> None:
    with pytest.raises(PySparkException, match="as unroutable, the first from exchange '' with routing key 'nowhere'"):
        save(numbers(spark), uri, routingKey="nowhere")
    save(numbers(spark), uri, routingKey="nowhere", mandatory="false")


def test_a_missing_exchange_fails_the_job(spark: SparkSession, uri: str) -> None:
    with pytest.raises(PySparkException, match="404 NOT_FOUND - no exchange 'nix' in vhost '/'"):
        save(numbers(spark), uri, exchange="nix")


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_modes_that_make_no_sense(spark: SparkSession, uri: str, queue: str, mode: str) -> None:
    with pytest.raises(AnalysisException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        save(numbers(spark), uri, routingKey=queue, mode=mode)


def test_overwriting_must_be_meant(spark: SparkSession, uri: str, queue: str, drain: Drain) -> None:
    save(numbers(spark, 3), uri, routingKey=queue)
    with pytest.raises(PySparkException, match="overwriteAction=purge"):
        save(numbers(spark, 2), uri, routingKey=queue, mode="overwrite")
    save(numbers(spark, 2), uri, routingKey=queue, mode="overwrite", overwriteAction="purge")
    assert len(drain(queue)) == 2


def test_typos_are_told(spark: SparkSession, uri: str) -> None:
    with pytest.raises(PySparkException, match="amqp has no option 'routing': did you mean 'routingKey'"):
        save(numbers(spark), uri, routing="q")
    with pytest.raises(PySparkException, match="no column 'boddy': did you mean 'body'"):
        save(numbers(spark).withColumnRenamed("body", "boddy"), uri)


# Tasks that fail after they have written


@pytest.mark.parametrize(
    ("guarantee", "drops", "copies"),
    [
        ("at-least-once", False, 2),
        ("effectively-once", True, 1),
        ("effectively-once", False, 2),  # sabotaged: the queue does not know ids
        ("exactly-once", False, 1),
    ],
)
def test_a_task_that_fails_writes_again(
    spark: SparkSession,
    uri: str,
    client: Connection,
    queue: str,
    drain: Drain,
    guarantee: str,
    drops: bool,
    copies: int,
) -> None:
    if drops:
        queue += "-knows-ids"
        client.declare_queue(queue, arguments={"x-message-deduplication": True})
    save(numbers(spark), uri, kind="amqp-saboteur", routingKey=queue, guarantee=guarantee)
    found = drain(queue)
    assert Counter(delivery.body for delivery in found) == {b"%d" % number: copies for number in range(600)}
    if guarantee == "effectively-once":
        ids = {Properties(delivery.properties).message_id: delivery.body for delivery in found}
        assert len(ids) == 600, "each row has an id of its own, and the same one each time"


def test_a_version_is_written_once(spark: SparkSession, uri: str, queue: str, drain: Drain) -> None:
    for version in ("1", "1", "2"):
        options = {"guarantee": "exactly-once", "txnAppId": queue, "txnVersion": version}
        save(numbers(spark), uri, routingKey=queue, **options)
    assert len(drain(queue)) == 1200
    with pytest.raises(PySparkException, match="maxAtomicBytes is 1024: raise it, or use effectively-once"):
        save(numbers(spark), uri, routingKey=queue, guarantee="exactly-once", maxAtomicBytes="1k")


def test_a_broker_that_is_killed_while_rows_are_written(spark: SparkSession, tmp_path: Path) -> None:
    """The task fails, tries again, waits until the broker is back, and nothing is lost."""
    gate = tmp_path / "gate"
    flags = ("--no-memory", "--data-dir", str(tmp_path / "data"))
    frame = spark.range(0, 4000, numPartitions=1).selectExpr("cast(id as string) as body")
    with ExitStack() as brokers:
        broker = brokers.enter_context(running(*flags))
        port = broker.port
        with Connection(Address(port=port)) as client:
            client.declare_queue("q")

        def kill_half_way() -> None:
            until_some(port)
            time.sleep(1.0)  # they have arrived; now they are committed as well
            broker.process.kill()
            broker.process.wait()
            brokers.enter_context(running(*flags, "--port", str(port)))
            gate.touch()

        killing = threading.Thread(target=kill_half_way)
        killing.start()
        uri = f"amqp://guest:guest@127.0.0.1:{port}/"
        save(frame, uri, kind="amqp-saboteur", routingKey="q", gate=str(gate), confirmTimeoutMs="60000")
        killing.join(PATIENCE_S)
        with Connection(Address(port=port)) as client:
            found = [delivery.body for delivery in client.get("q", 100_000)]
    assert set(found) == {b"%d" % number for number in range(4000)}
    assert len(found) > 4000, "what the first attempt wrote is there as well: it was killed half way"


def until_some(port: int) -> None:
    """Wait until rows have arrived."""
    deadline = time.monotonic() + PATIENCE_S
    with Connection(Address(port=port)) as client:
        while client.declare_queue("q", passive=True).message_count < 1000:
            assert time.monotonic() < deadline, "nothing is being written"
            time.sleep(0.05)
