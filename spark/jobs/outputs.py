"""Output of results: Parquet files, and messages through the sink."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from rabbitlike.spark.jobs.messages import EXCHANGE
from rabbitlike.spark.jobs.metrics import with_times
from rabbitlike.spark.jobs.results import TABLES, Results, settled

REVISION: Final = "x-revision"


@dataclass(frozen=True, slots=True)
class Broker:
    """Where to publish messages, and with which guarantee."""

    uri: str | None
    guarantee: str
    exchange: str = EXCHANGE


def write(results: Results, folder: str, window_us: int, epoch: int | None = None) -> None:
    """Write each table to a folder of its name, by day; replace what the folder, or the epoch's folder, contains."""
    place = "" if epoch is None else f"/epoch={epoch}"
    for name in TABLES:
        table = with_times(getattr(results, name), window_us)
        writer = table.repartition(1).write.mode("overwrite").option("partitionOverwriteMode", "static")
        writer.option("compression", "zstd").partitionBy("date").parquet(f"{folder.rstrip('/')}/{name}{place}")


def publish(messages: DataFrame, broker: Broker, app: str | None = None, version: int | None = None) -> int:
    """Publish and return the number of messages. `app` and `version` prevent publishing the same version twice."""
    found = settled(messages.drop("window_us").repartition(1))
    count = found.count()
    writer = found.write.format("amqp").option("exchange", broker.exchange).option("guarantee", broker.guarantee)
    # Consumers of results bind a queue; an unroutable result is not an error.
    writer = writer.option("declare", "create").option("mandatory", "false")
    if broker.guarantee == "effectively-once":
        writer = writer.option("idStrategy", "column")
    if broker.uri is not None:
        writer = writer.option("uri", broker.uri)
    if app is not None and version is not None:
        writer = writer.option("txnAppId", app).option("txnVersion", version)
    writer.mode("append").save()
    return count


def revised(messages: DataFrame, revisions: dict[int, int]) -> DataFrame:
    """Mark messages of windows that were published before with their revision, in a header and in their ids."""
    again = {window: number for window, number in revisions.items() if number > 0}
    if not again:
        return messages
    number: Column = f.element_at(
        f.create_map(*(f.lit(each) for pair in again.items() for each in pair)), f.col("window_us")
    )
    return messages.withColumn(
        "message_id",
        f.when(number.isNotNull(), f.concat(f.col("message_id"), f.lit("/r"), number)).otherwise(f.col("message_id")),
    ).withColumn("headers", f.when(number.isNotNull(), f.create_map(f.lit(REVISION), number)))
