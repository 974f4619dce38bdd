"""Delayed messages over HTTP: lists, one of them, cancelling, counts."""

import pytest

from rabbitlike.management.routes.messaging.delayed import _earliest
from tests.support.api import Api
from tests.support.crash_pair import SimulatedDisk
from tests.support.pair import Channel, Typed

DAY_MS = 86_400_000


@pytest.fixture
def ch(api: Api) -> Channel:
    channel = api.pair.connect().channel()
    channel.declare("q")
    return channel


def later(ch: Channel, body: bytes, delay_ms: int, exchange: str = "", **fields: object) -> None:
    ch.publish(body, exchange, "q", headers={"x-delay": Typed("l", delay_ms)}, **fields)


async def bodies(api: Api, query: str = "") -> list[int]:
    answer = await api.get(f"/api/delayed/%2F{query}")
    assert answer.status_code == 200, answer.text
    return [item["size"] for item in answer.json()["items"]]


async def test_list(api: Api, ch: Channel) -> None:
    """G10 list"""
    now_ms = api.pair.clock.now_ms()
    later(ch, b"second", 2000)
    later(ch, b"first", 1000, message_id="m-1")
    answer = (await api.get("/api/delayed/%2F")).json()
    first, second = answer.pop("items")
    assert answer == {
        "next": None, "item_count": 2, "filtered_count": 2, "total_count": 2, "page": 1, "page_size": 100,
        "page_count": 1,
    }  # fmt: skip
    assert first == {
        "id": f"{now_ms + 1000}-2",
        "state": "pending",
        "due": now_ms + 1000,
        "due_at": "2023-11-14T22:13:21.000+00:00",
        "exchange": "",
        "routing_key": "q",
        "message_id": "m-1",
        "size": 5,
        "persistent": False,
        "published_at": now_ms,
    }
    assert (second["id"], second["message_id"]) == (f"{now_ms + 2000}-1", None)


async def test_pages(api: Api, ch: Channel) -> None:
    for number in range(25):
        later(ch, bytes(number), 1000 * (25 - number))
    assert await bodies(api) == list(range(24, -1, -1))
    assert await bodies(api, "?page=2&page_size=10") == list(range(14, 4, -1))
    assert await bodies(api, "?page=3&page_size=10") == list(range(4, -1, -1))
    assert await bodies(api, "?page=9&page_size=10") == []
    seen: list[int] = []
    after = ""
    while True:
        answer = (await api.get(f"/api/delayed/%2F?page_size=7{after}")).json()
        seen += [item["size"] for item in answer["items"]]
        if answer["next"] is None:
            break
        after = f"&after={answer['next']}"
    assert seen == list(range(24, -1, -1))
    assert (await api.get("/api/delayed/%2F?page=101&page_size=100")).status_code == 400
    assert (await api.get("/api/delayed/%2F?after=nowhere")).status_code == 400


async def test_of_one_exchange(api: Api, ch: Channel) -> None:
    later(ch, b"1", 1000)
    later(ch, b"22", 1000, "amq.fanout")
    assert await bodies(api, "?exchange=amq.fanout") == [2]
    assert await bodies(api, "?exchange=amq.default") == [1]


async def test_one(api: Api, ch: Channel) -> None:
    later(ch, b"hello", 1000, message_id="one")
    (item,) = (await api.get("/api/delayed/%2F")).json()["items"]
    for name in (item["id"], "one"):
        view = (await api.get(f"/api/delayed/%2F/{name}")).json()
        assert view["payload"] == "hello"
        assert view["properties"]["headers"] == {"x-delay": -1000}
        assert view["id"] == item["id"]
    assert (await api.get("/api/delayed/%2F/1-1")).status_code == 404
    assert (await api.get("/api/delayed/nowhere/1-1")).status_code == 404


async def test_cancel(api: Api, ch: Channel) -> None:
    """G10 cancel by id and by message-id"""
    for body in (b"a", b"b", b"c", b"d"):
        later(ch, body, 1000, message_id="twice" if body in b"cd" else body.decode())
    items = (await api.get("/api/delayed/%2F")).json()["items"]
    assert (await api.delete(f"/api/delayed/%2F/{items[0]['id']}")).status_code == 204
    assert (await api.delete(f"/api/delayed/%2F/{items[0]['id']}")).status_code == 404
    assert (await api.delete("/api/delayed/%2F/twice")).status_code == 204
    api.pair.advance(1000)
    assert ch.drain() == [b"b"]
    assert (await api.delete("/api/delayed/%2F/b")).status_code == 404
    stats = (await api.get("/api/delayed/%2F/stats")).json()
    assert (stats["pending"], stats["delivered"], stats["cancelled"], stats["dropped"]) == (0, 1, 3, 0)


async def test_stats(api: Api, ch: Channel) -> None:
    """G10 stats"""
    now_ms = api.pair.clock.now_ms()
    later(ch, b"m", 3000)
    later(ch, b"m", 2000)
    later(ch, b"m", 1000, "amq.fanout")
    stats = (await api.get("/api/delayed/%2F/stats")).json()
    assert stats == {
        "pending": 3, "delivered": 0, "cancelled": 0, "dropped": 0, "next_due": now_ms + 1000,
        "next_due_at": "2023-11-14T22:13:21.000+00:00", "memory": 0,
    }  # fmt: skip
    api.pair.advance(2000)
    stats = (await api.get("/api/delay/stats")).json()
    assert (stats["pending"], stats["delivered"], stats["dropped"], stats["next_due"]) == (1, 1, 1, now_ms + 3000)
    assert [view["vhost"] for view in stats["vhosts"]] == ["/"]


async def test_views_say_how_many_wait(api: Api, ch: Channel) -> None:
    ch.declare_exchange("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    assert (await api.get("/api/exchanges/%2F/later")).json()["messages_delayed"] == 0
    assert "messages_delayed" not in (await api.get("/api/exchanges/%2F/amq.topic")).json()
    assert "messages_delayed" not in (await api.get("/api/vhosts/%2F")).json()
    later(ch, b"m", 1000, "later")
    later(ch, b"m", 1000, "amq.topic")
    assert (await api.get("/api/exchanges/%2F/later")).json()["messages_delayed"] == 1
    assert (await api.get("/api/exchanges/%2F/amq.topic")).json()["messages_delayed"] == 1
    assert (await api.get("/api/vhosts/%2F")).json()["messages_delayed"] == 2


async def test_publishing_over_http(api: Api, ch: Channel) -> None:
    def publication(key: str, delay: object) -> dict[str, object]:
        headers = {"headers": {"x-delay": delay}}
        return {"properties": headers, "routing_key": key, "payload": "m", "payload_encoding": "string"}

    path = "/api/exchanges/%2F/amq.default/publish"
    assert (await api.post(path, json=publication("q", 500))).json() == {"routed": True}
    assert (await api.post(path, json=publication("nowhere", 500))).json() == {"routed": False}
    assert (await api.post(path, json=publication("q", "soon"))).status_code == 400
    assert ch.get() is None
    api.pair.advance(500)
    assert ch.drain() == [b"m"]


async def test_who_may(api: Api, ch: Channel) -> None:
    later(ch, b"m", 1000, "amq.fanout", message_id="m")
    reader = api.user("reader", write="^$")
    writer = api.user("writer", read="^$")
    stranger = api.user("stranger", vhost=None)
    assert (await stranger.get("/api/delayed/%2F")).status_code == 401
    assert (await stranger.get("/api/delay/stats")).json()["vhosts"] == []
    assert (await reader.get("/api/delayed/%2F/m")).status_code == 200
    assert (await reader.delete("/api/delayed/%2F/m")).status_code in (401, 403)
    assert (await writer.get("/api/delayed/%2F/m")).status_code in (401, 403)
    assert (await writer.delete("/api/delayed/%2F/m")).status_code == 204


def test_what_is_on_disk_is_listed_too() -> None:
    disk = SimulatedDisk()
    pair = disk.boot()
    delays = pair.broker.vhosts["/"].delays
    for number in range(3000):
        due_ms = pair.clock.now_ms() + 60_000 + (number * 7_919_000) % DAY_MS
        delays.add(b"\x00\x01q", b"\x00\x00", b"m", True, -1, due_ms)
        if number % 100 == 0:
            pair.begin_commit()
            pair.end_commit()
    pair.begin_commit()
    pair.end_commit()
    assert delays.pending == 3000
    place, seen = (0, 0), 0
    while rows := disk.run(_earliest(delays, place, 251, delays.routes.names)):
        assert rows == sorted(rows, key=lambda row: row[:2])
        assert rows[0][:2] > place
        seen += len(rows)
        place = rows[-1][:2]
    assert seen == 3000
    disk.close()


async def test_the_list_shows_what_the_caller_may_read(api: Api, ch: Channel) -> None:
    ch.bind("q", "amq.direct", "q")
    for exchange in ("", "amq.direct", "amq.direct"):
        later(ch, b"secret", 1000, exchange, message_id="m")
    bob = api.user("bob", read="^bob$|^amq.default$")
    answer = (await bob.get("/api/delayed/%2F")).json()
    assert [item["exchange"] for item in answer["items"]] == [""]
    assert (answer["filtered_count"], answer["total_count"], answer["page_count"]) == (1, 1, 1)
    assert (await bob.get("/api/delayed/%2F?exchange=amq.direct")).status_code == 401
    answer = (await api.get("/api/delayed/%2F?exchange=amq.direct")).json()
    assert (answer["item_count"], answer["filtered_count"], answer["total_count"]) == (2, 2, 3)
