"""Streams into queues: what an epoch that is repeated does under each guarantee, and what would happen without it.

All queries run side by side, once up to the trouble and once after it: a query takes seconds, most of them waiting.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from rabbitlike.protocol.properties import Properties
from rabbitlike.spark import ledger
from rabbitlike.spark.wire import Connection, Delivery

pytestmark = pytest.mark.spark
Drain = Callable[[str], list[Delivery]]

PATIENCE_S = 240
ROWS = 100  # of each epoch, of which there are two


class Case(NamedTuple):
    """One query. What is repeated is epoch 1: after its commit record was deleted, or after the driver died."""

    guarantee: str
    dies: bool
    is_repeated: bool
    #: The broker knows ids, for effectively-once.
    knows_ids: bool = False
    #: Sabotage of exactly-once: somebody deletes the ledger.
    loses_ledger: bool = False


CASES = {
    "at least once, replayed": Case("at-least-once", dies=False, is_repeated=True),
    "at least once, driver dies": Case("at-least-once", dies=True, is_repeated=True),
    "effectively once, replayed": Case("effectively-once", dies=False, is_repeated=False, knows_ids=True),
    "effectively once, driver dies": Case("effectively-once", dies=True, is_repeated=False, knows_ids=True),
    "effectively once, sabotaged": Case("effectively-once", dies=False, is_repeated=True),
    "exactly once, replayed": Case("exactly-once", dies=False, is_repeated=False),
    "exactly once, driver dies": Case("exactly-once", dies=True, is_repeated=False),
    "exactly once, sabotaged": Case("exactly-once", dies=True, is_repeated=True, loses_ledger=True),
}


class Outcome(NamedTuple):
    deliveries: list[Delivery]
    query_id: str
    failure: str


def lines(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of text in two epochs."""
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


def forget_epoch(checkpoint: Path, epoch: int) -> None:
    """As if the driver had died after the sink's commit and before its own."""
    for name in (f"{epoch}", f".{epoch}.crc"):
        (checkpoint / "commits" / name).unlink()


class Run:
    """A case's query, twice."""

    def __init__(
        self, case: Case, number: int, spark: SparkSession, uri: str, client: Connection, folder: Path
    ) -> None:
        self.case = case
        self.queue = f"case-{number}-{folder.name}"
        self.checkpoint = folder / f"checkpoint-{number}"
        self.fuse = folder / f"fuse-{number}"
        client.declare_queue(self.queue, arguments={"x-message-deduplication": True} if case.knows_ids else None)
        if case.dies:
            self.fuse.touch()
        self.failure = ""
        self.query_id = ""
        self._writer = (
            lines(spark, folder / "input")
            .writeStream.format("amqp-saboteur" if case.dies else "amqp")
            .options(uri=uri, routingKey=self.queue, guarantee=case.guarantee)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
        )
        if case.dies:
            self._writer = self._writer.option("fuse", str(self.fuse))

    def start(self) -> StreamingQuery:
        return self._writer.start()

    def end(self, query: StreamingQuery) -> None:
        try:
            assert query.awaitTermination(PATIENCE_S)
        except StreamingQueryException as error:
            self.failure = str(error)
        finally:
            query.stop()
        self.query_id = query.id


@pytest.fixture(scope="module")
def outcomes(
    spark: SparkSession, uri: str, broker_client: Connection, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "input").mkdir()
    for epoch in range(2):
        text = "\n".join(f"{epoch}-{row}" for row in range(ROWS))
        (folder / "input" / f"{epoch}.txt").write_text(text)
    runs = {
        name: Run(case, number, spark, uri, broker_client, folder) for number, (name, case) in enumerate(CASES.items())
    }
    for run, query in [(run, run.start()) for run in runs.values()]:
        run.end(query)
    for run in runs.values():
        assert bool(run.failure) == run.case.dies, run.failure
        if not run.case.dies:
            forget_epoch(run.checkpoint, 1)
        if run.case.loses_ledger:
            broker_client.delete_queue(ledger.PREFIX + run.query_id)
        run.failure = ""
    for run, query in [(run, run.start()) for run in runs.values()]:
        run.end(query)
    return {
        name: Outcome(broker_client.get(run.queue, 10_000, no_ack=True), run.query_id, run.failure)
        for name, run in runs.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_an_epoch_that_is_repeated(outcomes: dict[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    assert outcome.failure == ""
    bodies = [delivery.body.decode() for delivery in outcome.deliveries]
    once = Counter(f"{epoch}-{row}" for epoch in range(2) for row in range(ROWS))
    assert set(bodies) == set(once), "nothing is ever lost"
    repeated = Counter(bodies) - once
    # Which file was which epoch is Spark's to choose.
    epoch = bodies[-1].partition("-")[0]
    expected = Counter(f"{epoch}-{row}" for row in range(ROWS)) if CASES[name].is_repeated else Counter()
    assert repeated == expected


def test_repeated_rows_have_the_same_ids(outcomes: dict[str, Outcome]) -> None:
    deliveries = outcomes["effectively once, sabotaged"].deliveries
    ids = {(Properties(delivery.properties).message_id, delivery.body) for delivery in deliveries}
    assert (len(deliveries), len(ids)) == (3 * ROWS, 2 * ROWS)


def test_tasks_know_their_query_and_epoch(
    spark: SparkSession, uri: str, queue: str, drain: Drain, checkpoint: str, tmp_path: Path
) -> None:
    """Spark's names for them are undocumented: this says when they change."""
    (tmp_path / "input").mkdir()
    for epoch in range(2):
        (tmp_path / "input" / f"{epoch}.txt").write_text("line\n")
    query = (
        lines(spark, tmp_path / "input")
        .writeStream.format("amqp")
        .options(uri=uri, routingKey=queue, idStrategy="position", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)
    ids = [Properties(delivery.properties).message_id for delivery in drain(queue)]
    assert ids == [f"{query.id}/0/0/0", f"{query.id}/1/0/0"]


def test_update_mode_needs_a_batch_writer(
    spark: SparkSession, uri: str, queue: str, drain: Drain, checkpoint: str, tmp_path: Path
) -> None:
    """Spark refuses it of such sources; within foreachBatch it works, and each write must have a name of its own."""
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.txt").write_text("a\nb\na\n")
    counts = lines(spark, tmp_path / "input").groupBy("value").count()
    messages = counts.selectExpr("concat(value, count) as body")
    refused = (
        messages.writeStream.format("amqp")
        .options(uri=uri, checkpointLocation=f"{checkpoint}-refused")
        .outputMode("update")
        .start()
    )
    with pytest.raises(StreamingQueryException, match="amqp does not support Update mode"):
        refused.awaitTermination(PATIENCE_S)
    refusals: list[str] = []

    def publish(frame: DataFrame, _: int) -> None:
        sink = frame.write.format("amqp").options(uri=uri, routingKey=queue, guarantee="exactly-once").mode("append")
        try:
            sink.save()
        except Exception as error:
            refusals.append(str(error))
        for _again in range(2):
            sink.option("txnAppId", queue).save()  # its version is the epoch

    query = (
        messages.writeStream.foreachBatch(publish)
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)
    assert ["needs the option txnAppId" in refusal for refusal in refusals] == [True]
    assert sorted(delivery.body for delivery in drain(queue)) == [b"a2", b"b1"]
