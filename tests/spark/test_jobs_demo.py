"""The demonstration in small: a real broker, traffic that goes wrong, its files of events, the pipeline over them."""

from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from rabbitlike.spark.jobs import batch, demo, session, traffic
from rabbitlike.spark.jobs.plan import Plan

pytestmark = pytest.mark.spark
pytest.importorskip("pika", reason="needs pika")


def test_what_goes_wrong_is_found_and_told(spark: SparkSession, tmp_path: Path) -> None:
    session.register(spark)
    console = Console(file=StringIO(), width=200)
    with demo.broker(tmp_path) as uri:
        sent = traffic.make_traffic(uri, 8)
        demo.wait_for_files(tmp_path / "events")
        demo.watch(uri)
        plan = Plan(place=str(tmp_path / "events"), report=tmp_path / "page.html", uri=uri, job="demo")
        story = batch.run(plan, console, spark)
        keys = demo.seen(uri)
    published = sum(exchange.totals["published"] for exchange in story.exchanges)
    # The pipeline's own messages and the watcher's queue come after the files were read.
    assert published == sent > 200
    by_name = {queue.queue: queue.totals for queue in story.queues}
    assert set(traffic.ARGUMENTS) == set(by_name)
    assert by_name["telemetry"]["auto_acked"] == by_name["telemetry"]["delivered"] > 0
    assert by_name["telemetry"]["acked"] == 0
    assert by_name["emails"]["redelivered"] > 0
    assert set(by_name["emails"]["dead_letters"]) == {"delivery_limit"}
    assert by_name["thumbnails"]["dead_letters"]["maxlen"] > 0
    assert by_name["reports"]["dead_letters"]["expired"] > 0
    dead = sum(by_name[name]["dead_lettered"] for name in ("emails", "reports", "thumbnails"))
    assert by_name["graveyard"]["enqueued"] == dead
    assert story.poison[0]["message_id"] == traffic.POISON
    assert story.poison[0]["fate"] == "dead-lettered"
    assert {"poison", "publishing"} <= {finding.kind for finding in story.findings}
    assert len(keys) == story.published > 0
    assert {key.split(".")[1] for key in keys} >= {"throughput", "latency", "failures", "publishing", "poison"}
    assert traffic.POISON in (tmp_path / "page.html").read_text()
