"""Request and response over HTTP, with a server that speaks AMQP."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.support.api import Api
from tests.support.pair import Channel

RPC = "/api/rpc/%2F/amq.default/squares"


@pytest.fixture
def server(api: Api) -> Channel:
    channel = api.pair.connect().channel()
    channel.declare("squares")
    return channel


async def asked(api: Api, path: str = RPC, **body: object) -> "asyncio.Task[httpx.Response]":
    """A request that waits for its reply."""
    pending = len(api.pair.broker.vhosts["/"].replies)
    task = asyncio.create_task(api.post(path, json=body))
    for _ in range(10_000):
        if len(api.pair.broker.vhosts["/"].replies) > pending or task.done():
            break
        await asyncio.sleep(0.001)  # the first one waits for a thread that makes the route
    return task


async def test_reply(api: Api, server: Channel) -> None:
    """F17 the reply is the answer, properties and all; nothing is left behind."""
    task = await asked(api, payload="7", properties={"type": "square", "headers": {"n": 1}})
    request = server.get("squares")
    assert request is not None
    assert (request.body, request.properties.message_type, request.headers["n"]) == (b"7", "square", 1)
    assert request.properties.correlation_id
    server.publish(
        b"49",
        key=str(request.properties.reply_to),
        correlation_id=request.properties.correlation_id,
        content_type="text/plain",
    )
    answer = await task
    assert answer.status_code == 200
    told = answer.json()
    assert (told["payload"], told["payload_encoding"]) == ("49", "string")
    assert told["properties"]["content_type"] == "text/plain"
    assert told["correlation_id"] == request.properties.correlation_id
    assert api.pair.broker.vhosts["/"].replies == {}


async def test_timeout(api: Api, server: Channel) -> None:
    """F17 504 when nobody replies: after 30 s, or as long as is asked for. The request goes with its asker."""
    for query, wait_ms in (("", 30_000), ("?timeout=0.25", 250)):
        task = await asked(api, RPC + query, payload="7")
        api.pair.advance(wait_ms - 1)
        await asyncio.sleep(0)
        assert not task.done()
        api.pair.advance(1)
        answer = await task
        assert (answer.status_code, answer.json()["error"]) == (504, "gateway_timeout")
        assert api.pair.broker.vhosts["/"].replies == {}
        assert server.get("squares") is None


async def test_a_late_reply_goes_nowhere(api: Api, server: Channel) -> None:
    task = await asked(api, RPC + "?timeout=1", payload="7", properties={"expiration": "60000"})
    api.pair.advance(1_000)
    assert (await task).status_code == 504
    request = server.get("squares")
    assert request is not None
    server.publish(b"49", key=str(request.properties.reply_to))
    server.client.expect_alive()


async def test_replies_to_others_do_not_count(api: Api, server: Channel) -> None:
    """F17 each gets its own reply, whatever the order; one with another's id is passed over."""
    tasks = [await asked(api, payload=str(number), properties={"correlation_id": f"c{number}"}) for number in range(3)]
    requests: list[Any] = [server.get("squares") for _ in tasks]
    server.publish(b"wrong", key=str(requests[0].properties.reply_to), correlation_id="c9")
    for request in reversed(requests):
        server.publish(b"to " + request.body, key=str(request.properties.reply_to))
    answers = [(await task).json() for task in tasks]
    assert [(each["payload"], each["correlation_id"]) for each in answers] == [
        ("to 0", "c0"),
        ("to 1", "c1"),
        ("to 2", "c2"),
    ]


async def test_key_in_the_body(api: Api, server: Channel) -> None:
    server.bind("squares", "amq.topic", "a.b")
    task = await asked(api, "/api/rpc/%2F/amq.topic", payload="x", routing_key="a.b")
    request = server.get("squares")
    assert request is not None
    server.publish(b"\xff\x00", key=str(request.properties.reply_to))
    assert (await task).json()["payload_encoding"] == "base64"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/rpc/%2F/amq.default/nowhere", {}, 404),
        ("/api/rpc/%2F/nope/key", {}, 404),
        ("/api/rpc/nope/amq.default/squares", {}, 404),
        (RPC + "?timeout=0", {}, 400),
        (RPC + "?timeout=4000", {}, 400),
        (RPC, {"properties": {"reply_to": "elsewhere"}}, 400),
        (RPC, {"payload": "?", "payload_encoding": "base64"}, 400),
        (RPC, {"properties": {"correlation_id": 1}}, 400),
    ],
)
async def test_refusals(api: Api, server: Channel, path: str, body: dict[str, object], status: int) -> None:
    answer = await api.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert api.pair.broker.vhosts["/"].replies == {}


async def test_who_may(api: Api, server: Channel) -> None:
    assert (await api.user("bob", write="^$x").post(RPC, json={})).status_code == 401
    assert (await api.stranger().post(RPC, json={})).status_code == 401


async def test_a_full_queue(api: Api, server: Channel) -> None:
    server.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    assert (await api.post("/api/rpc/%2F/amq.default/full", json={})).status_code == 503
