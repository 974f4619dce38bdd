"""Webhooks: who is told of a dead letter, what they are told, and what happens when they do not listen."""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rabbitlike.management.webhooks import webhooks
from tests.support.api import Api, make_api
from tests.support.pair import Channel

SECRET = "s3cret & long"


class Receiver:
    """An HTTP server that answers with the statuses it is given, the last one over and over; 0 is no answer at all."""

    def __init__(self) -> None:
        self.statuses = [200]
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.url = ""
        self._arrived = asyncio.Event()
        self._hung: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/alerts"

    async def stop(self) -> None:
        for writer in self._hung:
            writer.close()
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._hung.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:]) if value
                }
                body = await reader.readexactly(int(headers["content-length"]))
                self.requests.append((headers, body))
                self._arrived.set()
                status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
                if status:
                    writer.write(b"HTTP/1.1 %d Said\r\nContent-Length: 0\r\n\r\n" % status)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def wait(self, count: int) -> None:
        await until(lambda: len(self.requests) >= count)

    def said(self) -> list[dict[str, object]]:
        return [json.loads(body) for _, body in self.requests]


async def until(is_so: Callable[[], object], within_s: float = 10) -> None:
    ends_at = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < ends_at, "it never came to that"
        await asyncio.sleep(0.005)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.start()
    yield receiver
    await receiver.stop()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with make_api(webhook_secret=SECRET, webhook_allow=("127.0.0.1",)) as client:
        client.context.webhooks._timeout_s = 0.2
        client.context.webhooks.start()
        yield client
        await client.context.webhooks.close()


Watch = Callable[..., Awaitable[Channel]]


@pytest.fixture
def watch(api: Api, receiver: Receiver) -> Watch:
    """Has the receiver, or another address, told of what dies in q."""

    async def set_up(url: str | None = None, key: str = "dead-letter-webhook") -> Channel:
        definition = {key: url or receiver.url, "dead-letter-auto": True}
        answer = await api.put("/api/policies/%2F/alert", json={"pattern": "^q", "definition": definition})
        assert answer.status_code == 201
        ch = api.pair.connect().channel()
        ch.declare("q")
        return ch

    return set_up


def kill(ch: Channel, body: bytes = b"m", **properties: object) -> None:
    ch.publish(body, key="q", **properties)
    message = ch.get("q", no_ack=False)
    assert message is not None
    ch.reject(message.tag, requeue=False)


async def state(api: Api) -> dict[str, object]:
    (target,) = (await api.get("/api/webhooks")).json()
    found: dict[str, object] = target
    return found


@pytest.mark.parametrize("key", ["dead-letter-webhook", "dlq-webhook"])
async def test_what_is_told(api: Api, receiver: Receiver, watch: Watch, key: str) -> None:
    """F10 queue, message id, reason, retries and time, in JSON."""
    ch = await watch(key=key)
    api.pair.advance(1_500)
    kill(ch, b"12345", message_id="m1")
    await receiver.wait(1)
    ((headers, _),) = receiver.requests
    assert headers["content-type"] == "application/json"
    assert receiver.said() == [
        {
            "event": "dead_letter", "vhost": "/", "queue": "q", "message_id": "m1", "failure_reason": "rejected",
            "retry_count": 0, "moved_at": receiver.said()[0]["moved_at"], "exchange": "", "routing_key": "q",
            "payload_bytes": 5,
        }
    ]  # fmt: skip
    assert str(receiver.said()[0]["moved_at"]).endswith(".500Z")
    await until(lambda: api.context.webhooks.targets()[0].is_idle)
    told = await state(api)
    assert (told["state"], told["sent"], told["failed"], told["last_status"]) == ("idle", 1, 0, 200)


async def test_signature(api: Api, receiver: Receiver, watch: Watch) -> None:
    """F10 whoever has the secret can tell that the body is ours; the secret itself is nowhere."""
    kill(await watch())
    await receiver.wait(1)
    ((headers, body),) = receiver.requests
    wanted = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers["x-rabbitlike-signature"] == f"sha256={wanted}"
    for path in ("webhooks", "policies", "overview", "definitions", "nodes"):
        assert SECRET not in (await api.get(f"/api/{path}")).text
    assert SECRET not in repr(api.context.settings)


async def test_retries(api: Api, receiver: Receiver, watch: Watch) -> None:
    """F10 400 and above is a failure: the same alert comes again, after a second, then two, with the same number."""
    receiver.statuses = [500, 404, 204]
    kill(await watch())
    await receiver.wait(1)
    await until(lambda: api.context.webhooks.targets()[0].state == "waiting")
    assert (await state(api))["last_error"] == "answered 500"
    api.pair.advance(999)
    await asyncio.sleep(0.02)
    assert len(receiver.requests) == 1
    api.pair.advance(1)
    await receiver.wait(2)
    await until(lambda: api.context.webhooks.targets()[0].state == "waiting")
    api.pair.advance(2_000)
    await receiver.wait(3)
    await until(lambda: api.context.webhooks.targets()[0].is_idle)
    assert len({headers["x-rabbitlike-delivery"] for headers, _ in receiver.requests}) == 1
    assert len({body for _, body in receiver.requests}) == 1
    told = await state(api)
    assert (told["sent"], told["retried"], told["failed"]) == (1, 2, 0)


async def test_breaker(api: Api, receiver: Receiver, watch: Watch, caplog: pytest.LogCaptureFixture) -> None:
    """F10 an address that fails and fails is left alone for a while, tried once, and believed when it answers."""
    receiver.statuses = [503]
    ch = await watch()
    for _ in range(3):
        kill(ch)
    target = api.context.webhooks.targets()[0]
    for count in range(1, webhooks.BREAK_AFTER + 1):
        await receiver.wait(count)
        await until(lambda: target.state in ("waiting", "broken"))
        if count < webhooks.BREAK_AFTER:
            api.pair.advance(60_000)
            await until(lambda: target.state != "waiting" or len(receiver.requests) > count)  # noqa: B023
    assert target.state == "broken"
    api.pair.advance(webhooks.BREAK_MS - 1)
    await asyncio.sleep(0.02)
    assert len(receiver.requests) == webhooks.BREAK_AFTER
    receiver.statuses = [200]
    api.pair.advance(1)
    await until(lambda: target.is_idle)
    assert (target.sent, target.failed, target.state) == (3, 0, "idle")
    assert caplog.text.count("is broken") == 1


async def test_an_alert_is_given_up_in_the_end(api: Api, receiver: Receiver, watch: Watch) -> None:
    receiver.statuses = [500]
    kill(await watch())
    target = api.context.webhooks.targets()[0]
    for count in range(1, webhooks.ATTEMPTS + 1):
        await receiver.wait(count)
        await until(lambda: target.next_attempt_at_ms is not None)
        api.pair.advance(webhooks.LONGEST_PAUSE_MS)
    await until(lambda: target.is_idle)
    assert (target.sent, target.failed) == (0, 1)


async def test_one_that_hangs_slows_nothing(
    api: Api, receiver: Receiver, watch: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F10 a server that takes the request and never answers: queues go on, its line fills up and others are dropped."""
    monkeypatch.setattr(webhooks, "MOST_QUEUED", 10)
    receiver.statuses = [0]
    ch = await watch()
    kill(ch)
    await receiver.wait(1)
    for _ in range(50):
        kill(ch)
    assert len(ch.drain("q.dlq")) == 51
    target = api.context.webhooks.targets()[0]
    assert (target.dropped, (await state(api))["queued"]) == (41, 10)
    await until(lambda: target.last_error is not None)
    assert str(target.last_error).startswith("no answer within")
    assert caplog.text.count("dropping further ones") == 1
    # Another address has a line of its own.
    other = Receiver()
    await other.start()
    await api.put("/api/policies/%2F/alert", json={"pattern": "^q$", "definition": {"dead-letter-webhook": other.url}})
    kill(ch)
    await other.wait(1)
    await other.stop()


async def test_one_that_is_not_there(api: Api, watch: Watch) -> None:
    ch = await watch("http://user:hidden@127.0.0.1:1/x")
    kill(ch)
    target = api.context.webhooks.targets()[0]
    await until(lambda: target.last_error is not None)
    told = await state(api)
    assert (told["state"], told["url"]) == ("waiting", "http://…@127.0.0.1:1/x")
    assert "hidden" not in json.dumps(told)
    assert (await api.user("bob").get("/api/webhooks")).status_code == 401


async def test_nobody_is_told_without_a_policy(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("q", arguments={"x-dead-letter-webhook": "http://127.0.0.1:1/"})
    kill(ch)
    assert (await api.get("/api/webhooks")).json() == []
