"""The pipeline as it is run: batch and stream agree, a restart says nothing twice, the page holds the numbers."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from rabbitlike.protocol.properties import Properties
from rabbitlike.spark.address import parse
from rabbitlike.spark.events import DDL
from rabbitlike.spark.jobs import batch, follow, partials, session
from rabbitlike.spark.jobs.messages import messages
from rabbitlike.spark.jobs.plan import Plan
from rabbitlike.spark.jobs.report.gather import Story
from rabbitlike.spark.jobs.report.page import page
from rabbitlike.spark.jobs.results import TABLES, Settings, results
from rabbitlike.spark.wire import Connection, Delivery
from tests.support import made_events
from tests.support.made_events import SECOND_US, Event, oracle

WINDOW_US = 10 * SECOND_US
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return made_events.lives(600, seconds=150, seed=11)


@pytest.fixture
def exchange(client: Connection) -> str:
    """A topic exchange of the test's own, with a queue of the same name for all it gets."""
    name = f"metrics-{uuid4().hex[:12]}"
    client.declare_exchange(name)
    client.declare_queue(name)
    client.bind_queue(name, name, "metric.#")
    return name


@pytest.fixture
def taken(client: Connection) -> Callable[[str], dict[str, Delivery]]:
    """What came, by message-id; no id comes twice."""

    def take(queue: str) -> dict[str, Delivery]:
        found = client.get(queue, 1_000_000, no_ack=True)
        by_id = {str(Properties(delivery.properties).message_id): delivery for delivery in found}
        assert len(by_id) == len(found)
        return by_id

    return take


def quiet() -> Console:
    return Console(file=StringIO(), width=200)


@pytest.fixture(scope="module")
def story(
    spark: SparkSession, events: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Story, Plan, str]:
    """One run in batch mode, what it said and where it wrote."""
    folder = tmp_path_factory.mktemp("batch")
    session.register(spark)
    made_events.write(folder / "events", events, files=2)
    plan = Plan(
        place=str(folder / "events"),
        output=str(folder / "out"),
        report=folder / "page.html",
        window_us=WINDOW_US,
        job="t",
    )
    console = quiet()
    story = batch.run(plan, console, spark)
    assert isinstance(console.file, StringIO)
    return story, plan, console.file.getvalue()


def test_a_batch_says_what_it_found(story: tuple[Story, Plan, str], events: list[Event]) -> None:
    told, plan, printed = story
    assert told.events == len(events)
    for key, true in oracle(events, WINDOW_US, ("vhost", "queue")).items():
        if not key[1]:
            continue
        (queue,) = (queue for queue in told.queues if (queue.vhost, queue.queue) == key)
        assert queue.totals["delivered"] == true.counts["deliver"]
        assert sum(each or 0 for each in queue.series["dead_lettered"]) == true.counts["dead_letter"]
        assert f"{true.counts['deliver']:,}" in printed
    assert "Poison messages" in printed
    assert str(plan.output) in printed


def test_tables_are_written_for_others_to_read(
    spark: SparkSession, story: tuple[Story, Plan, str], events: list[Event]
) -> None:
    plan = story[1]
    for name in TABLES:
        table = spark.read.parquet(f"{plan.output}/{name}")
        assert {"window_start", "window_end", "vhost", "queue"} <= set(table.columns), name
    metrics = spark.read.parquet(f"{plan.output}/metrics")
    published = sum(row["event"] == "publish" for row in events)
    assert metrics.agg({"published": "sum"}).collect()[0][0] == published


class Page(HTMLParser):
    """Whether tags close, and what they hold."""

    VOID = ("meta", "link", "br", "img", "input", "hr")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text += data


def test_the_page_holds_the_numbers_and_fetches_nothing(story: tuple[Story, Plan, str]) -> None:
    told, plan, _ = story
    assert plan.report is not None
    text = plan.report.read_text("utf-8")
    parsed = Page()
    parsed.feed(text)
    assert parsed.open == []
    assert "{{" not in text
    assert parsed.references == ["#charts"]
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+\.\w+[^\s\"')]*", text)) - {"http://www.w3.org/2000/svg"}
    assert addresses == set(), "nothing is fetched"
    for queue in told.queues:
        assert queue.name in parsed.text
        assert f"{queue.totals['delivered']:,}" in parsed.text
    for finding in told.findings[:50]:
        assert finding.text in parsed.text
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert [queue["name"] for queue in data["queues"]] == [queue.name for queue in told.queues]
    assert len(data["windows"]) == len(told.windows) == len(data["queues"][0]["series"]["depth"])


def test_names_cannot_break_the_page(story: tuple[Story, Plan, str]) -> None:
    told, _, _ = story
    evil = "</script><script>alert(1)</script>&<b>"
    queues = [replace(told.queues[0], queue=evil), *told.queues[1:]]
    text = page(replace(told, queues=queues, place=evil))
    assert "<script>alert" not in text
    assert text.count("</script>") == 2


def test_stream_and_batch_agree_and_a_restart_says_nothing_twice(
    spark: SparkSession,
    uri: str,
    exchange: str,
    taken: Callable[[str], dict[str, Delivery]],
    events: list[Event],
    tmp_path: Path,
) -> None:
    half = len(events) // 2
    folder = tmp_path / "events"
    made_events.write(folder, events[:half], files=2)
    plan = Plan(
        place=str(folder), checkpoint=tmp_path / "checkpoint", window_us=WINDOW_US, uri=uri, exchange=exchange, job="t",
        once=True, guarantee="exactly-once", delay_us=1,
    )  # fmt: skip
    follow.follow(plan, quiet(), spark)
    first = taken(exchange)
    assert first
    # Killed after the sink was done and before Spark noted it: the epoch comes again.
    commits = tmp_path / "checkpoint" / "spark" / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    (commits / f"{last}").unlink()
    (commits / f".{last}.crc").unlink()
    follow.follow(plan, quiet(), spark)
    assert taken(exchange) == {}
    made_events.write(folder, events[half:], files=1)
    follow.follow(plan, quiet(), spark)
    second = taken(exchange)
    streamed = first | second
    assert len(streamed) == len(first) + len(second)

    batch_exchange = exchange + "-batch"
    with_all = replace(plan, exchange=batch_exchange, guarantee="at-least-once")
    with Connection(parse(uri)) as client:
        client.declare_exchange(batch_exchange)
        client.declare_queue(batch_exchange)
        client.bind_queue(batch_exchange, batch_exchange, "metric.#")
    batch.run(with_all, quiet(), spark)
    whole = taken(batch_exchange)
    # The last window is still open to a stream; of all others both say the same.
    ends = max(row["ts"] for row in events) // WINDOW_US * WINDOW_US
    finished = {name for name, each in whole.items() if _begins(each) + WINDOW_US < ends}
    assert finished
    assert finished <= streamed.keys()
    for name in finished:
        assert json.loads(streamed[name].body) == json.loads(whole[name].body), name
    check_shape(whole)


def _begins(delivery: Delivery) -> int:
    return round(datetime.fromisoformat(json.loads(delivery.body)["window_start"]).timestamp() * 1_000_000)


def check_shape(messages: dict[str, Delivery]) -> None:
    names = set()
    for name, delivery in messages.items():
        body = json.loads(delivery.body)
        names.add(body["metric"])
        queue = "" if body["metric"] == "publishing" else "." + body["queue"].replace(".", "%2E")
        assert delivery.routing_key == f"metric.{body['metric']}./{queue}"
        assert name.startswith(f"t/{body['metric']}///")
        assert body["schema"] == 1
        properties = Properties(delivery.properties)
        assert (properties.type, properties.content_type) == ("metric.v1", "application/json")
        if body["metric"] == "latency" and body["wait"].get("n"):
            assert sum(body["wait"]["histogram"].values()) == body["wait"]["n"]
    assert {"throughput", "latency", "failures", "publishing", "consumers", "poison"} <= names


def test_late_events_make_a_window_be_published_again(
    spark: SparkSession, uri: str, exchange: str, taken: Callable[[str], dict[str, Delivery]], tmp_path: Path
) -> None:
    made = made_events.numbered(made_events.event("enqueue", at * SECOND_US, queue="q") for at in range(40))
    folder = tmp_path / "events"
    made_events.write(folder, made)
    plan = Plan(
        place=str(folder), output=str(tmp_path / "out"), window_us=WINDOW_US, uri=uri, exchange=exchange, job="t",
        once=True, guarantee="exactly-once", delay_us=1,
    )  # fmt: skip
    follow.follow(plan, quiet(), spark)
    key = "t/throughput///q//2026-11-16T12:00:00.000Z/10s"
    assert json.loads(taken(exchange)[key].body)["enqueued"] == 10
    late = made_events.numbered([made_events.event("enqueue", 5, queue="q")])
    made_events.write(folder / "late", late)
    follow.follow(plan, quiet(), spark)
    again = taken(exchange)
    assert json.loads(again[f"{key}/r1"].body)["enqueued"] == 11
    assert Properties(again[f"{key}/r1"].properties).headers == {"x-revision": 1}
    assert {name.rpartition("/")[2] for name in again} == {"r1"}, "only that window"
    written = spark.read.parquet(str(tmp_path / "out" / "queues")).where("window_start = '2026-11-16 12:00:00'")
    assert sorted((row.epoch, row.enqueued) for row in written.collect()) == [(0, 10), (1, 11)]


def test_long_names_fit_into_messages(spark: SparkSession, tmp_path: Path) -> None:
    made = [made_events.event("enqueue", at, queue=name) for at, name in enumerate(("ü" * 127, "ü" * 126 + "a"))]
    folder = made_events.write(tmp_path, made_events.numbered(made))
    table = spark.read.schema(DDL).option("recursiveFileLookup", "true").parquet(str(folder))
    settings = Settings(WINDOW_US)
    rows = messages(results(partials.count(table, WINDOW_US), settings), "t", WINDOW_US).collect()
    assert len({row.message_id for row in rows}) == len(rows) > 0
    assert max(len(row[name].encode()) for row in rows for name in ("routing_key", "message_id")) <= 255
