"""Rows per second that Spark writes to a broker, by guarantee: 200 octets each, persistent, to a durable queue.

These scenarios run only if named (`--scenario 'spark-*'`): they need Java and PySpark, and a JVM starts slowly. Each
sample is taken beside Spark's null sinks, which shows the cost of Spark itself: `null` passes rows to Python and drops
them there, `noop` is Spark's own and never leaves the JVM.
"""

import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from benchmarks import brokers
from benchmarks.brokers import Place, Running
from benchmarks.client import Client
from benchmarks.scenarios.scenario import Messages, Sample, Scenario, Unit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PREFIX = "spark-"
QUEUE = "bench-spark"
ROWS = 200_000
SIZE = 200
BAR = 5.0


@cache
def session() -> "SparkSession":
    """Return one session for all samples. Every sink is used once before it is measured."""
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
    from pyspark.sql.types import StructType

    from rabbitlike.spark import AmqpDataSource
    from rabbitlike.spark.java import require

    class NullWriter(DataSourceArrowWriter):
        def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
            for batch in iterator:
                batch.column(0).to_pylist()
            return WriterCommitMessage()

    class NullDataSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "null"

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
            return NullWriter()

    require()
    os.environ.update(
        SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(brokers.ROOT), PYTHONWARNINGS="ignore"
    )
    builder = SparkSession.builder.master("local[2]").appName("benchmarks")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(AmqpDataSource)
    spark.dataSource.register(NullDataSource)
    for _ in range(2):
        seconds_to_save(rows(spark), "null")
        seconds_to_save(rows(spark), "noop")
    return spark


def rows(spark: "SparkSession") -> "DataFrame":
    text = f"rpad(cast(id as string), {SIZE}, 'x')"
    return spark.range(0, ROWS, numPartitions=2).selectExpr(f"{text} as body")


def seconds_to_save(frame: "DataFrame", kind: str, **options: str) -> float:
    began = time.perf_counter()
    frame.write.format(kind).options(**options).mode("append" if kind != "noop" else "overwrite").save()
    return time.perf_counter() - began


def sample(guarantee: str, broker: Running) -> Sample:
    spark = session()
    with Client(broker.address) as client:
        client.open_channel()
        client.declare_queue(QUEUE, durable=True)
        took_s = seconds_to_save(
            rows(spark),
            "amqp",
            uri=f"amqp://guest:guest@{broker.address.host}:{broker.address.port}/",
            routingKey=QUEUE,
            guarantee=guarantee,
            maxAtomicBytes="1g",
            confirmTimeoutMs="120000",
        )
        written = client.declare_queue(QUEUE, durable=True)
        client.delete_queue(QUEUE)
    if written != ROWS:
        raise RuntimeError(f"{ROWS} rows were written, {written} messages are in the queue")
    null_s, noop_s = seconds_to_save(rows(spark), "null"), seconds_to_save(rows(spark), "noop")
    return Sample(
        ROWS / took_s,
        {"null_rows_per_s": ROWS / null_s, "noop_rows_per_s": ROWS / noop_s, "share_of_null": null_s / took_s},
    )


def _scenario(guarantee: str, bar: float | None) -> Scenario:
    return Scenario(
        f"{PREFIX}{guarantee}",
        f"rows of {SIZE} B through Spark, {guarantee}",
        Unit.RATE,
        lambda broker, _: sample(guarantee, broker),
        bar=bar,
        place=Place.DISK,
        messages=Messages.BODIES,
    )


SCENARIOS = (
    _scenario("at-least-once", BAR),
    _scenario("effectively-once", None),
    _scenario("exactly-once", None),
)
