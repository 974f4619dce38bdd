"""DataFrames to queues, as a batch."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Bodies = Callable[[str], list[str]]


def test_batch_is_written(spark: SparkSession, uri: str, queue: str, bodies: Bodies) -> None:
    rows = spark.range(0, 1000, numPartitions=3).selectExpr("cast(id as string) as body")
    rows.write.format("amqp").option("uri", uri).option("routingKey", queue).mode("append").save()
    assert sorted(map(int, bodies(queue))) == list(range(1000))
