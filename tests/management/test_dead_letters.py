"""Dead letters over HTTP: listing those of one queue, putting them back, deleting them."""

from typing import Any

import pytest

from rabbitlike.broker.queues.browse import Walk
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.management import dead_letters
from tests.support.api import Api
from tests.support.pair import Channel

DLQ = "/api/queues/%2F/orders/dlq"


@pytest.fixture
def ch(api: Api) -> Channel:
    channel = api.pair.connect().channel()
    channel.declare("orders", arguments={"x-dead-letter-auto": True, "x-delivery-limit": 1})
    return channel


def kill(ch: Channel, *bodies: bytes, queue: str = "orders", **properties: object) -> None:
    for body in bodies:
        ch.publish(body, key=queue, **properties)
        message = ch.get(queue, no_ack=False)
        assert message is not None
        ch.reject(message.tag, requeue=False)


async def listed(api: Api, query: str = "", path: str = DLQ) -> list[dict[str, object]]:
    answer = await api.get(f"{path}?{query}")
    assert answer.status_code == 200, answer.text
    items: list[dict[str, object]] = answer.json()["items"]
    return items


def queue(api: Api, name: str) -> Queue:
    return api.pair.broker.vhosts["/"].queues[name]


async def test_list(api: Api, ch: Channel) -> None:
    """F11 S7 G8 what died in this queue, with what it died of and where it had come from."""
    assert await listed(api) == []
    ch.bind("orders", "amq.topic", "a.*")
    ch.publish(b"one", "amq.topic", "a.b", message_id="m1")
    message = ch.get("orders", no_ack=False)
    assert message is not None
    ch.reject(message.tag, requeue=True)
    again = ch.get("orders", no_ack=False)
    assert again is not None
    ch.reject(again.tag, requeue=True)
    (letter,) = await listed(api)
    expected = {
        "id": "1-orders.dlq", "dead_letter_queue": "orders.dlq", "reason": "delivery_limit", "message_id": "m1",
        "retry_count": 1, "deaths": 1, "exchange": "amq.topic", "routing_key": "a.b", "payload": "one", "position": 1,
        "moved_at": api.pair.clock.now_ms(),
    }  # fmt: skip
    assert expected.items() <= letter.items()


async def test_filters(api: Api, ch: Channel) -> None:
    kill(ch, b"first", headers={"tenant": "a"})
    kill(ch, b"second", headers={"tenant": "b"}, message_type="t")
    ch.publish(b"third", key="orders", expiration="10")
    api.pair.advance(11)
    assert [each["payload"] for each in await listed(api, "reason=rejected")] == ["first", "second"]
    assert [each["payload"] for each in await listed(api, "reason=expired")] == ["third"]
    assert [each["payload"] for each in await listed(api, "header.tenant=b")] == ["second"]
    assert [each["payload"] for each in await listed(api, "property.type=t")] == ["second"]
    assert [each["payload"] for each in await listed(api, "text=ir")] == ["first", "third"]
    assert [each["payload"] for each in await listed(api, "routing_key=orders&exchange=")] == [
        "first",
        "second",
        "third",
    ]
    assert await listed(api, "routing_key=other") == []


async def test_pages(api: Api, ch: Channel) -> None:
    kill(ch, *(b"%d" % number for number in range(5)))
    seen = []
    after = ""
    while True:
        answer = (await api.get(f"{DLQ}?limit=2{after}")).json()
        seen += [each["payload"] for each in answer["items"]]
        if answer["next"] is None:
            break
        after = f"&after={answer['next']}"
    assert seen == ["0", "1", "2", "3", "4"]


async def test_a_page_that_is_full_when_its_queue_goes(api: Api, ch: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next dead-letter queue is left to the next page."""
    ch.declare("in", arguments={"x-dead-letter-exchange": "amq.fanout"})
    for name in ("dead-a", "dead-b"):
        ch.declare(name)
        ch.bind(name, "amq.fanout")
    kill(ch, b"one", b"two", queue="in")
    scan = dead_letters.scan

    async def scan_and_delete(walk: Walk, source: Queue, *more: Any) -> object:
        found = await scan(walk, source, *more)
        if source.name == "dead-a":
            source.vhost.delete_queue(source)
        return found

    monkeypatch.setattr(dead_letters, "scan", scan_and_delete)
    path = "/api/queues/%2F/in/dlq?limit=2"
    full = (await api.get(path)).json()
    assert [each["id"] for each in full["items"]] == ["1-dead-a", "2-dead-a"]
    rest = (await api.get(f"{path}&after={full['next']}")).json()
    assert [each["id"] for each in rest["items"]] == ["1-dead-b", "2-dead-b"]


async def test_only_its_own(api: Api, ch: Channel) -> None:
    """A dead-letter queue that others share, or that clients publish to: only what died in the queue is shown."""
    ch.declare_exchange("dlx", "topic")
    ch.declare_exchange("further", "fanout")
    for name in ("dead-a", "dead-b"):
        ch.declare(name)
    ch.bind_exchange("further", "dlx", "#")
    ch.bind("dead-a", "dlx", "in-1")
    ch.bind("dead-b", "further")
    for name in ("in-1", "in-2"):
        ch.declare(name, arguments={"x-dead-letter-exchange": "dlx"})
        kill(ch, name.encode(), queue=name)
    ch.publish(b"stray", key="dead-a")
    path = "/api/queues/%2F/in-1/dlq"
    letters = await listed(api, path=path)
    assert sorted((each["dead_letter_queue"], each["payload"]) for each in letters) == [
        ("dead-a", "in-1"),
        ("dead-b", "in-1"),
    ]
    first = (await api.get(f"{path}?limit=1")).json()
    second = (await api.get(f"{path}?limit=1&after={first['next']}")).json()
    assert {first["items"][0]["id"], second["items"][0]["id"]} == {each["id"] for each in letters}
    assert (await api.post(f"{path}/1/retry")).status_code == 400  # in which of them?
    assert (await api.delete(path)).json() == {"deleted": 2}
    assert (ch.drain("dead-a"), ch.drain("dead-b")) == ([b"stray"], [b"in-2"])


async def test_retry_one(api: Api, ch: Channel) -> None:
    """F11 S7 back in the queue it died in, with its old address and a new count; and gone from where it was."""
    ch.bind("orders", "amq.topic", "a.*")
    ch.publish(b"m", "amq.topic", "a.b", headers={"mine": 1})
    for _ in range(2):
        message = ch.get("orders", no_ack=False)
        assert message is not None
        ch.reject(message.tag, requeue=True)
    (letter,) = await listed(api)
    assert (await api.post(f"{DLQ}/{letter['id']}/retry")).json() == {"retried": 1}
    assert await listed(api) == []
    message = ch.get("orders")
    assert message is not None
    assert (message.exchange, message.routing_key, message.redelivered) == ("amq.topic", "a.b", False)
    assert "x-delivery-count" not in message.headers
    assert "x-retry-count" not in message.headers
    assert message.headers["mine"] == 1
    assert message.headers["x-death"][0]["count"] == 1  # type: ignore[index]
    assert (await api.post(f"{DLQ}/{letter['id']}/retry")).status_code == 404
    assert (await api.post(f"{DLQ}/nonsense/retry")).status_code == 404


async def test_retry_some(api: Api, ch: Channel) -> None:
    """S7 by ids, by a filter, or all."""
    kill(ch, b"0", b"1", b"2", b"3", b"4")
    kill(ch, b"5", headers={"tenant": "a"})
    body = {"ids": ["1-orders.dlq", 3, "99"]}
    assert (await api.post(f"{DLQ}/retry", json=body)).json() == {"retried": 2, "matched": 3}
    body = {"filter": {"reason": "rejected", "headers": {"tenant": "a"}}}
    assert (await api.post(f"{DLQ}/retry", json=body)).json() == {"retried": 1, "matched": 1}
    assert (await api.post(f"{DLQ}/retry", json={"all": True, "count": 1})).json()["retried"] == 1
    assert (await api.post(f"{DLQ}/retry", json={"all": True})).json()["retried"] == 2
    assert ch.drain("orders") == [b"0", b"2", b"5", b"1", b"3", b"4"]
    for wrong in ({}, {"all": True, "ids": []}, {"filter": {"colour": "red"}}, {"ids": ["1-other"]}):
        assert (await api.post(f"{DLQ}/retry", json=wrong)).status_code in (400, 404)


async def test_retry_of_what_dies_at_once_ends(api: Api, ch: Channel) -> None:
    kill(ch, *(b"%d" % number for number in range(120)))
    await api.put("/api/policies/%2F/now", json={"pattern": "^orders$", "definition": {"message-ttl": 0}})
    assert (await api.post(f"{DLQ}/retry", json={"all": True})).json() == {"retried": 120, "matched": 120}
    assert (await listed(api, "limit=1"))[0]["reason"] == "expired"
    assert queue(api, "orders.dlq").message_count == 120


async def test_a_full_queue_keeps_letters_where_they_are(api: Api, ch: Channel) -> None:
    kill(ch, b"0", b"1")
    definition = {"max-length": 1, "overflow": "reject-publish"}
    await api.put("/api/policies/%2F/full", json={"pattern": "^orders$", "definition": definition})
    assert (await api.post(f"{DLQ}/retry", json={"all": True})).json() == {"retried": 1, "matched": 2}
    refused = await api.post(f"{DLQ}/2/retry")
    assert (refused.status_code, refused.json()["reason"]) == (400, "the queue is full")
    assert queue(api, "orders.dlq").message_count == 1


async def test_delete(api: Api, ch: Channel) -> None:
    """S7 one, those that match, or all; what is no dead letter of the queue stays."""
    kill(ch, b"0", b"1")
    kill(ch, b"2", headers={"tenant": "a"})
    ch.publish(b"stray", key="orders.dlq")
    assert (await api.delete(f"{DLQ}/1-orders.dlq")).status_code == 204
    assert (await api.delete(f"{DLQ}/1-orders.dlq")).status_code == 404
    assert (await api.delete(f"{DLQ}/4-orders.dlq")).status_code == 404
    assert (await api.delete(f"{DLQ}?header.tenant=a")).json() == {"deleted": 1}
    assert (await api.delete(DLQ)).json() == {"deleted": 1}
    assert ch.drain("orders.dlq") == [b"stray"]


async def test_who_may(api: Api, ch: Channel) -> None:
    kill(ch, b"0")
    assert (await api.get("/api/queues/%2F/nope/dlq")).status_code == 404
    blind = api.user("blind", read="^orders$")
    assert (await blind.get(DLQ)).status_code == 401
    mute = api.user("mute", write="^$x")
    assert (await mute.get(DLQ)).status_code == 200
    assert (await mute.post(f"{DLQ}/retry", json={"all": True})).status_code == 401
    assert (await mute.post(f"{DLQ}/1/retry")).status_code == 401
    assert (await api.get(f"{DLQ}?after=x")).status_code == 400
