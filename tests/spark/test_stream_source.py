"""Queues as streams, as users meet them: names, lag, partitions and headers; what is wrong; a broker that restarts."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from rabbitlike.spark.address import Address
from rabbitlike.spark.wire import Connection, Delivery
from tests.spark.test_sink import numbers, save
from tests.spark.test_streams import PATIENCE_S
from tests.support.broker_process import running
from tests.unit.spark.reading import fill

pytestmark = pytest.mark.spark
Drain = Callable[[str], list[Delivery]]
TOO_LONG_MS = str(2000 * PATIENCE_S)
NOWHERE = "amqp://guest:guest@127.0.0.1:1/"


def test_a_query_with_a_name_shows_its_lag(
    spark: SparkSession, uri: str, queue: str, client: Connection, drain: Drain, tmp_path: Path
) -> None:
    """Three epochs of two partitions, with headers as Kafka has them."""
    target = f"{queue}-target"
    client.declare_queue(target)
    messages = numbers(spark, 50).coalesce(1)  # in their order
    save(messages.selectExpr("*", "array(struct('n' as key, body as value)) as headers"), uri, routingKey=queue)
    rows = (
        spark.readStream.format("amqp")
        .options(uri=uri, queue=queue, spoolLocation=str(tmp_path / "spool"))
        .options(maxOffsetsPerTrigger="20", minPartitions="2", includeHeaders="true")
        .load()
        .selectExpr("concat(spark_partition_id(), ':', headers[0].key, ':', cast(headers[0].value as string)) as body")
    )
    query = (
        rows.writeStream.format("amqp")
        .options(uri=uri, routingKey=target, checkpointLocation=str(tmp_path / "checkpoint"))
        .queryName("totals")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)
    reports = [json.loads(progress.sources[0].latestOffset) for progress in query.recentProgress]
    where = f"queue {queue} of amqp://guest@127.0.0.1:{client.address.port}"
    assert [(report["lag"], report["position"], report["source"]) for report in reports[:3]] == [
        (30, 50, where),
        (10, 50, where),
        (0, 50, where),
    ]
    found = [delivery.body.decode() for delivery in drain(target)]
    first_epoch = [f"{number // 10}:n:{number}" for number in range(20)]
    assert (sorted(found[:20]), len(found), query.name) == (sorted(first_epoch), 50, "totals")


@pytest.mark.parametrize(
    ("options", "schema", "why"),
    [
        ({"queue": "q"}, None, "ackMode=spool needs the option spoolLocation"),
        ({"queue": "q", "ackMode": "commit"}, "id int", r"leave .schema\(…\) out: 'id int'"),
        ({"queue": "q", "ackMode": "commit", "uri": NOWHERE}, None, r"no broker at amqp://guest@127\.0\.0\.1:1: "),
    ],
    ids=["no spool", "other columns", "no broker"],
)
def test_what_is_wrong_with_a_stream_is_told(
    spark: SparkSession, uri: str, checkpoint: str, options: dict[str, str], schema: str | None, why: str
) -> None:
    source = spark.readStream.format("amqp").options(**({"uri": uri} | options))
    frame = (source if schema is None else source.schema(schema)).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    with pytest.raises(StreamingQueryException, match=why) as failure:
        assert query.awaitTermination(PATIENCE_S)
    assert "UnboundLocalError" not in str(failure.value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"subscribe": "q"}, "no option 'subscribe': name the queue to read by the option queue"),
        ({"uri": "nonsense"}, "'nonsense' is no broker's URI"),
        ({"startingOffsets": "latest"}, "must be earliest: a queue has no offsets"),
    ],
)
def test_what_is_wrong_with_options_is_told_at_once(spark: SparkSession, options: dict[str, str], why: str) -> None:
    with pytest.raises(AnalysisException, match=why):
        spark.readStream.format("amqp").options(**options).load()


def test_a_batch_does_not_wait_for_a_broker_that_is_not_there(spark: SparkSession) -> None:
    """It would wait too long, and then another two times."""
    too_late = threading.Timer(PATIENCE_S, spark.sparkContext.cancelAllJobs)
    too_late.start()
    try:
        with pytest.raises(PySparkException, match=r"no broker at amqp://guest@127\.0\.0\.1:1: .*refused"):
            save(numbers(spark), NOWHERE, routingKey="q", confirmTimeoutMs=TOO_LONG_MS)
    finally:
        too_late.cancel()


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_first_epoch_does_not_wait_for_a_broker(spark: SparkSession, guarantee: str, tmp_path: Path) -> None:
    """It would wait too long."""
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.txt").write_text("line\n")
    query = (
        spark.readStream.text(str(tmp_path / "input"))
        .writeStream.format("amqp")
        .options(uri=NOWHERE, routingKey="q", guarantee=guarantee, confirmTimeoutMs=TOO_LONG_MS)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        with pytest.raises(StreamingQueryException, match="no broker at"):
            assert query.awaitTermination(PATIENCE_S), "it waits"
    finally:
        query.stop()


def test_without_a_spool_a_query_outlives_its_broker(spark: SparkSession, tmp_path: Path) -> None:
    """ackMode=commit, and a broker that restarts: what was not acknowledged comes again, nothing is missing."""
    flags = ("--no-memory", "--data-dir", str(tmp_path / "data"))
    found: set[bytes] = set()

    def keep(frame: DataFrame, _: int) -> None:
        found.update(row.body for row in frame.collect())

    with ExitStack() as brokers:
        broker = brokers.enter_context(running(*flags))
        port = broker.port
        with Connection(Address(port=port)) as client:
            client.declare_queue("q")
        query = (
            spark.readStream.format("amqp")
            .options(uri=f"amqp://guest:guest@127.0.0.1:{port}/", queue="q", ackMode="commit", maxRowsPerTrigger="20")
            .load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        brokers.callback(query.stop)
        for start in (0, 100):
            bodies = [b"%d" % each for each in range(start, start + 100)]
            with Connection(Address(port=port)) as client:
                fill(client, "q", *bodies)
            until_found(query, found, bodies)
            if start == 0:
                broker.stop()
                brokers.enter_context(running(*flags, "--port", str(port)))
        assert query.isActive
        assert query.exception() is None


def until_found(query: StreamingQuery, found: set[bytes], bodies: list[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not found.issuperset(bodies):
        failure = query.exception()
        assert failure is None, failure
        assert time.monotonic() < deadline, f"{len(found)} rows were read"
        time.sleep(0.05)
