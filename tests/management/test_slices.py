"""Routes let others work: however much they show or change, little of it happens between two turns of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType

import pytest

from rabbitlike.broker import views
from rabbitlike.broker.publishing import verbs
from rabbitlike.management import dead_letters
from rabbitlike.management.listing import lists
from rabbitlike.management.routes import v1
from rabbitlike.management.routes.messaging import messages
from rabbitlike.management.routes.topology import schemas
from tests.support.api import Api
from tests.support.pair import Channel

MANY = 200
#: What may be looked at between two looks at the time.
FEW = 20


@pytest.fixture
def ch(api: Api) -> Channel:
    channel = api.pair.connect().channel()
    channel.declare("q")
    return channel


class Watch:
    """Counts the calls of a function, and the most of them between two turns of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: ModuleType, name: str) -> None:
        self.most = self.count = self._since = 0
        function: Callable[..., object] = getattr(place, name)

        def counted(*args: object, **kwargs: object) -> object:
            self.count += 1
            self._since += 1
            self.most = max(self.most, self._since)
            return function(*args, **kwargs)

        monkeypatch.setattr(place, name, counted)
        # As if every step took as long as a slice may.
        monkeypatch.setattr(lists, "SLICE_S", 0)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        async def others() -> None:
            while True:
                self._since = 0
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        yield
        task.cancel()


@pytest.mark.parametrize(
    "path",
    [
        "/api/queues/%2F/q/bindings",
        "/api/bindings/%2F/e/amq.topic/q/q",
        f"/api/bindings/%2F/e/amq.topic/q/q/k.{MANY - 1}",
        "/api/bindings",
    ],
)
async def test_bindings(api: Api, ch: Channel, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    vhost = api.pair.broker.vhosts["/"]
    for number in range(MANY):
        vhost.bind("amq.topic", vhost.queues["q"], f"k.{number}", {})
    watch = Watch(monkeypatch, views, "binding")
    async with watch.watching():
        assert (await api.get(path)).status_code == 200
    assert watch.count == MANY
    assert watch.most <= FEW


async def test_looking(api: Api, ch: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(MANY):
        ch.publish(b"x", key="q")
    watch = Watch(monkeypatch, messages, "message_view")
    async with watch.watching():
        answer = await api.get(f"/api/queues/%2F/q/messages?limit={MANY}")
    assert len(answer.json()["items"]) == watch.count == MANY
    assert watch.most <= FEW


@pytest.mark.parametrize(("path", "name"), [("/api/queues/%2F/q/dlq", "items"), ("/api/v1/queues/q/dlq", "messages")])
async def test_dead_letters(api: Api, ch: Channel, monkeypatch: pytest.MonkeyPatch, path: str, name: str) -> None:
    ch.declare("q2", arguments={"x-dead-letter-auto": True})
    for _ in range(MANY):
        ch.publish(b"x", key="q2", expiration="1")
    api.pair.advance(2)
    watch = Watch(monkeypatch, dead_letters, "message_view")
    async with watch.watching():
        answer = await api.get(f"{path.replace('/q/', '/q2/')}?limit={MANY}")
    assert len(answer.json()[name]) == watch.count == MANY
    assert watch.most <= FEW


async def test_giving_back(api: Api, ch: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MANY):
        ch.publish(b"%d" % number, key="q")
    watch = Watch(monkeypatch, verbs, "settle")
    body = {"count": MANY, "ackmode": "ack_requeue_true", "encoding": "auto"}
    async with watch.watching():
        got = (await api.post("/api/queues/%2F/q/get", json=body)).json()
    assert [each["payload"] for each in got] == [str(number) for number in range(MANY)]
    assert watch.count == MANY // messages.STRIDE
    assert watch.most == 1
    again = (await api.post("/api/queues/%2F/q/get", json=body)).json()
    assert [each["payload"] for each in again] == [str(number) for number in range(MANY)]


async def test_what_was_got_by_somebody_who_is_cut_off_goes_back(
    api: Api, ch: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is got, and while it is given back."""
    for number in range(MANY):
        ch.publish(b"%d" % number, key="q")
    monkeypatch.setattr(lists, "SLICE_S", 0)
    queue = api.pair.broker.vhosts["/"].queues["q"]
    body = {"count": MANY, "ackmode": "reject_requeue_true", "encoding": "auto"}
    for is_enough in (lambda: queue.unacked_count == MANY // 2, lambda: queue.nacked > MANY // 2 + messages.STRIDE):
        task = asyncio.create_task(api.post("/api/queues/%2F/q/get", json=body))
        while not is_enough():  # noqa: ASYNC110
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (queue.message_count, queue.unacked_count) == (MANY, 0)


async def test_schemas(api: Api, ch: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MANY):
        ch.declare(f"s{number}", arguments={"x-schema": '{"type": "object"}'})
    watch = Watch(monkeypatch, schemas, "_view")
    async with watch.watching():
        assert len((await api.get("/api/schemas")).json()) == watch.count == MANY
    assert watch.most <= FEW


async def test_queues_of_v1(api: Api, ch: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of a page, only those are looked at that are on it."""
    for number in range(MANY):
        ch.declare(f"v{number:03}")
    watch = Watch(monkeypatch, v1, "_shown")
    async with watch.watching():
        assert len((await api.get("/api/v1/queues")).json()) == watch.count == MANY + 1
        assert watch.most <= FEW
        page = (await api.get("/api/v1/queues?page=2&page_size=3")).json()
    assert [each["name"] for each in page["items"]] == ["v002", "v003", "v004"]
    assert watch.count == MANY + 1 + 3
