"""The life of messages over HTTP, out of memory and out of files."""

from functools import partial
from pathlib import Path

import pytest

from rabbitlike.broker.tracing.event_columns import SCHEMA, columns
from rabbitlike.broker.tracing.event_search import Question, search
from rabbitlike.storage import event_files
from rabbitlike.storage.event_files import EventFiles, Lot
from rabbitlike.storage.event_search import search as search_files
from tests.support.api import Api, make_api
from tests.support.pair import Channel, Pair


@pytest.fixture
def api() -> Api:
    return make_api(Pair(event_log=True))


@pytest.fixture
def ch(api: Api) -> Channel:
    ch = api.pair.connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    return ch


def live(ch: Channel, message_id: str, *, is_rejected: bool = False) -> None:
    """Publish a message and settle it."""
    ch.publish(b"x", key="q", message_id=message_id)
    got = ch.get("q", no_ack=False)
    assert got is not None
    if is_rejected:
        ch.reject(got.tag, requeue=False)
    else:
        ch.ack(got.tag)


def seal_to_files(api: Api, folder: Path) -> EventFiles:
    """What was logged goes to files, and memory forgets it."""
    files = EventFiles(folder, "n", SCHEMA, max_age_s=3600, max_bytes=1 << 30)
    events = api.pair.broker.events

    def export(rows: object) -> bool:
        for block in events.blocks():
            files.write(Lot(block.first_seq, block.hour_end_ms - 1, partial(columns, block, "n")))
        return True

    events.export = export
    events.seal()
    events.recent.clear()
    api.context.search_event_files = partial(search_files, folder)
    return files


async def test_the_life_of_a_message(api: Api, ch: Channel) -> None:
    """G18 published to acked, by message-id."""
    live(ch, "other")
    live(ch, "m 1/ü")
    live(ch, "m 1/ü2")
    found = (await api.get("/api/traces/%2F/m%201%2F%C3%BC")).json()
    assert (found["vhost"], found["message_id"]) == ("/", "m 1/ü")
    assert [row["event"] for row in found["events"]] == ["publish", "enqueue", "deliver", "ack"]
    assert list(found["events"][0]) == [name for name, _, _ in SCHEMA]
    assert {row["message_id"] for row in found["events"]} == {"m 1/ü"}
    assert found["events"][3]["proc_us"] == 0


async def test_a_life_goes_on_after_death(api: Api, ch: Channel) -> None:
    """G18 the letter has the same id: one chain over both queues."""
    live(ch, "m", is_rejected=True)
    ch.get("dead")
    found = (await api.get("/api/traces/%2F/m")).json()["events"]
    assert [(row["event"], row["queue"]) for row in found] == [
        ("publish", ""), ("enqueue", "q"), ("deliver", "q"), ("nack", "q"), ("dead_letter", "q"), ("enqueue", "dead"),
        ("deliver", "dead"),
    ]  # fmt: skip


async def test_what_is_not_known(api: Api, ch: Channel) -> None:
    live(ch, "mm")
    assert (await api.get("/api/traces/%2F/m")).status_code == 404, "a part of an id is not the id"
    assert (await api.get("/api/traces/nowhere/mm")).status_code in (401, 404)
    assert (await api.get("/api/trace-events/%2F?event=nonsense")).status_code == 400
    assert (await api.user("eve").get("/api/traces/%2F/mm")).status_code == 401, "for those who monitor"


async def test_search_by_queue_event_and_time(api: Api, ch: Channel) -> None:
    """G18"""
    live(ch, "one")
    api.pair.advance(1000)
    now_ms = api.pair.clock.now_ms()
    live(ch, "two", is_rejected=True)

    async def ids(query: str) -> list[str]:
        return [row["message_id"] for row in (await api.get(f"/api/trace-events/%2F?{query}")).json()]

    assert await ids("event=deliver") == ["one", "two"]
    assert await ids("event=deliver&limit=1") == ["two"]
    assert await ids("queue=dead") == ["two"]
    assert await ids(f"event=publish&since={now_ms}") == ["two"]
    assert await ids(f"event=publish&until={now_ms - 1}") == ["one"]
    assert len(await ids("limit=10000")) == 4 + 6


@pytest.mark.parametrize("is_parquet", [True, False])
async def test_files_are_searched_when_asked(
    api: Api, ch: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_parquet: bool
) -> None:
    """G18 the same answer, wherever the events are."""
    if is_parquet:
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(event_files, "pyarrow", lambda: None)
    live(ch, "m")
    live(ch, "other")
    before = (await api.get("/api/traces/%2F/m")).json()["events"]
    seal_to_files(api, tmp_path)
    live(ch, "m")
    node = before[0]["node"]
    recent = (await api.get("/api/traces/%2F/m")).json()["events"]
    assert len(recent) == 4
    found = (await api.get("/api/traces/%2F/m?files=true")).json()["events"]
    assert [{**row, "node": node} for row in found] == before + recent
    now_ms = api.pair.clock.now_ms()
    assert len((await api.get(f"/api/trace-events/%2F?queue=q&event=ack&files=true&until={now_ms}")).json()) == 3
    assert (await api.get(f"/api/traces/%2F/m?files=true&since={now_ms + 7_200_000}")).status_code == 404
    assert len((await api.get("/api/trace-events/%2F?files=true&limit=5")).json()) == 5


def test_many_ids_are_looked_through_in_steps(ch: Channel) -> None:
    pair = ch.client.pair
    for number in range(12_000):
        ch.publish(b"", key="q", message_id=f"{number:036}")
    question = Question("/", f"{7:036}")
    answers = list(search(pair.broker.events, question, "n"))
    assert [row["event"] for row in answers if row is not None] == ["enqueue", "publish"]
    assert answers.count(None) >= 2
    assert [row for row in search(pair.broker.events, Question("/", "0" * 20), "n") if row is not None] == []
