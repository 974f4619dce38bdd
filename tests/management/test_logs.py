"""The log over HTTP: the last lines, and a stream."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from threading import Thread

import pytest

from rabbitlike.management.node import log_lines
from rabbitlike.management.node.log_lines import LogLines
from rabbitlike.management.routes.node import logs as routes
from tests.support.api import Api

log = logging.getLogger("rabbitlike.test")


@pytest.fixture
async def lines() -> AsyncIterator[LogLines]:
    found = LogLines()
    found.start()
    yield found
    found.close()


@pytest.fixture
async def logged(api: Api) -> AsyncIterator[Api]:
    logging.getLogger("rabbitlike").setLevel(logging.INFO)
    api.context.logs.start()
    yield api
    api.context.logs.close()
    logging.getLogger("rabbitlike").setLevel(logging.NOTSET)


async def test_the_last_lines(logged: Api) -> None:
    log.warning("bad luck: %d", 13)
    text = (await logged.get("/api/logs")).text
    assert text.endswith("[WARNING] bad luck: 13\n")
    assert (await logged.user("watch", ["monitoring"]).get("/api/logs")).status_code == 401


async def test_following(logged: Api) -> None:
    events = routes._events(logged.context.logs)
    assert await anext(events) == b": the log\n\n"
    log.error("it\nhappened")
    event, data = (await anext(events)).decode().split("\n")[1:3]
    assert event == "event: error"
    view = json.loads(data.removeprefix("data: "))
    assert (view["severity"], view["source"], view["message"]) == ("error", "rabbitlike.test", "it\nhappened")
    logged.context.logs.close()
    assert [each async for each in events] == []


async def test_who_may_follow(logged: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await logged.user("watch", ["monitoring"]).get("/api/livelog")).status_code == 401
    monkeypatch.setattr(log_lines, "MAX_LISTENERS", 0)
    assert (await logged.get("/api/livelog")).status_code == 503


async def test_a_stream_ends_with_the_log(logged: Api) -> None:
    task = asyncio.create_task(logged.get("/api/livelog"))
    while not logged.context.logs._listeners:  # noqa: ASYNC110
        await asyncio.sleep(0)
    logged.context.logs.close()
    answer = await task
    assert answer.headers["content-type"].startswith("text/event-stream")


async def test_a_slow_listener_loses_lines_not_memory(lines: LogLines, monkeypatch: pytest.MonkeyPatch) -> None:
    with lines.listen() as listener:
        for at in range(log_lines.WAITING + 7):
            log.warning("%d", at)
        taken, lost = await listener.take(1)
        assert (len(taken), lost, taken[0].message) == (log_lines.WAITING, 7, "7")
        assert await listener.take(0) == ([], 0)
    assert len(lines.kept) == log_lines.WAITING + 7
    for at in range(log_lines.KEPT):
        log.warning("%d", at)
    assert len(lines.kept) == log_lines.KEPT


async def test_lines_of_other_threads(lines: LogLines) -> None:
    with lines.listen() as listener:
        thread = Thread(target=log.warning, args=("from afar",))
        thread.start()
        thread.join()
        taken, _ = await listener.take(5)
    assert [line.message for line in taken] == ["from afar"]
