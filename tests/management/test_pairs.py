"""What pages say of two objects together: a channel and an exchange, an exchange and a queue, a queue and a channel."""

from typing import Any

import pytest
from pamqp import commands

from rabbitlike.management.statistics.kinds import PAIR_ROWS
from tests.support.api import Api
from tests.support.pair import Channel


@pytest.fixture
def ch(api: Api) -> Channel:
    ch = api.pair.connect().channel()
    ch.declare("q")
    ch.declare("other")
    return ch


async def page(api: Api, path: str, query: str = "") -> dict[str, Any]:
    answer = await api.get(f"/api/{path}?{query}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def counts(entry: dict[str, Any]) -> dict[str, int]:
    """Those that are not 0, without rates."""
    return {name: value for name, value in entry["stats"].items() if isinstance(value, int) and value}


async def test_nothing_happened(api: Api, ch: Channel) -> None:
    ch.consume("q")
    queue = await page(api, "queues/%2F/q")
    assert (queue["incoming"], queue["deliveries"]) == ([], [])
    exchange = await page(api, "exchanges/%2F/amq.direct")
    assert (exchange["incoming"], exchange["outgoing"]) == ([], [])
    (channel,) = (await api.get("/api/channels")).json()
    channel = await page(api, f"channels/{channel['name']}")
    assert (channel["publishes"], channel["deliveries"]) == ([], [])


async def test_from_channel_to_exchange_to_queue(api: Api, ch: Channel) -> None:
    ch.bind("q", "amq.direct", "k")
    ch.bind("other", "amq.direct", "k")
    for _ in range(3):
        ch.publish(b"m", exchange="amq.direct", key="k")
    ch.publish(b"m", key="q")
    ch.publish(b"m", exchange="amq.direct", key="nowhere")
    name = f"{ch.client.connection.name} (1)"
    exchange = await page(api, "exchanges/%2F/amq.direct")
    (incoming,) = exchange["incoming"]
    assert counts(incoming) == {"publish": 4, "drop_unroutable": 1}
    assert incoming["channel_details"] == {
        "name": name,
        "number": 1,
        "node": incoming["channel_details"]["node"],
        "user": "guest",
        "connection_name": ch.client.connection.name,
        "peer_host": "127.0.0.1",
        "peer_port": 50000,
    }
    assert sorted((entry["queue"]["name"], counts(entry)["publish"]) for entry in exchange["outgoing"]) == [
        ("other", 3),
        ("q", 3),
    ]
    queue = await page(api, "queues/%2F/q")
    assert [(entry["exchange"], counts(entry)) for entry in queue["incoming"]] == [
        ({"name": "amq.direct", "vhost": "/"}, {"publish": 3}),
        ({"name": "", "vhost": "/"}, {"publish": 1}),
    ]
    assert queue["incoming"][0]["stats"] == {"publish": 3, "publish_details": {"rate": 0.0}}
    channel = await page(api, f"channels/{name}")
    assert [(entry["exchange"]["name"], counts(entry)["publish"]) for entry in channel["publishes"]] == [
        ("amq.direct", 4),
        ("", 1),
    ]
    assert set(channel["publishes"][0]["stats"]) == {
        *("publish", "confirm", "return_unroutable", "drop_unroutable"),
        *("publish_details", "confirm_details", "return_unroutable_details", "drop_unroutable_details"),
    }


async def test_whatever_way_a_publish_takes(api: Api, ch: Channel) -> None:
    """Properties that need care, headers exchanges, transactions, HTTP, and what comes later."""
    ch.bind("q", "amq.headers", "", arguments={"x-match": "any", "a": 1})
    ch.publish(b"m", exchange="amq.headers", headers={"a": 1})
    ch.publish(b"m", key="q", expiration="60000")
    ch.publish(b"m", key="q", headers={"x-delay": 1000})
    body = {"properties": {}, "routing_key": "q", "payload": "m", "payload_encoding": "string"}
    assert (await api.post("/api/exchanges/%2F/amq.default/publish", json=body)).json() == {"routed": True}
    tx = ch.client.channel()
    tx.call(commands.Tx.Select(), commands.Tx.SelectOk)
    tx.publish(b"m", key="q")
    tx.call(commands.Tx.Commit(), commands.Tx.CommitOk)
    api.pair.advance(1000)
    queue = await page(api, "queues/%2F/q")
    assert {entry["exchange"]["name"]: counts(entry)["publish"] for entry in queue["incoming"]} == {
        "amq.headers": 1,
        "": 4,
    }
    default = await page(api, "exchanges/%2F/amq.default")
    assert sorted(counts(entry)["publish"] for entry in default["incoming"]) == [1, 2]


async def test_confirms_and_returns(api: Api, ch: Channel) -> None:
    ch.confirm()
    ch.publish(b"m", key="q")
    ch.publish(b"m", key="nowhere", mandatory=True)
    (entry,) = (await page(api, "exchanges/%2F/amq.default"))["incoming"]
    assert counts(entry) == {"publish": 2, "confirm": 2, "return_unroutable": 1}


async def test_deliveries(api: Api, ch: Channel) -> None:
    for _ in range(4):
        ch.publish(b"m", key="q")
    taker = api.pair.connect().channel()
    taker.get("q", no_ack=True)
    first = taker.get("q", no_ack=False)
    assert first is not None
    taker.ack(first.tag)
    tag = taker.consume("q")
    one, two = taker.deliveries()
    taker.ack(one.tag)
    taker.reject(two.tag, requeue=True)
    taker.deliveries()
    taker.get("other")
    queue = await page(api, "queues/%2F/q")
    (entry,) = queue["deliveries"]
    wanted = {"get_no_ack": 1, "get": 1, "deliver": 3, "ack": 2, "redeliver": 1, "deliver_get": 5}
    assert counts(entry) == wanted
    assert entry["channel_details"]["peer_port"] == taker.client.connection.peer.port
    taker.call(commands.Basic.Cancel(consumer_tag=tag), commands.Basic.CancelOk)
    channel = await page(api, f"channels/{entry['channel_details']['name']}")
    assert {each["queue"]["name"]: counts(each) for each in channel["deliveries"]} == {
        "q": wanted,
        "other": {"get_empty": 1},
    }


async def test_without_acks(api: Api, ch: Channel) -> None:
    ch.consume("q", no_ack=True)
    ch.publish(b"m", key="q")
    (entry,) = (await page(api, "queues/%2F/q"))["deliveries"]
    assert counts(entry) == {"deliver_no_ack": 1, "deliver_get": 1}


async def test_rates(api: Api, ch: Channel) -> None:
    api.context.rates.start()
    ch.consume("q", no_ack=True)
    # A look is taken in slices; on a busy machine it takes more of them, each a little later.
    api.pair.advance(6000)
    for _ in range(10):
        ch.publish(b"m", key="q")
    api.pair.advance(5000)
    queue = await page(api, "queues/%2F/q", "msg_rates_age=60&msg_rates_incr=5")
    exchange = await page(api, "exchanges/%2F/amq.default")
    api.context.rates.stop()
    assert exchange["incoming"][0]["stats"]["publish_details"] == {"rate": 2.0}
    assert exchange["outgoing"][0]["stats"]["publish_details"] == {"rate": 2.0}
    details = queue["incoming"][0]["stats"]["publish_details"]
    assert (details["rate"], len(details["samples"])) == (2.0, PAIR_ROWS)
    assert queue["deliveries"][0]["stats"]["deliver_no_ack_details"]["rate"] == 2.0


async def test_what_is_gone_is_not_shown_and_not_kept(api: Api, ch: Channel) -> None:
    for number in range(100):
        ch.declare(f"temporary.{number}")
        ch.declare_exchange(f"temporary.{number}")
        ch.bind("q", f"temporary.{number}", "k")
        ch.publish(b"m", exchange=f"temporary.{number}", key="k")
        ch.publish(b"m", key=f"temporary.{number}")
        ch.get(f"temporary.{number}", no_ack=True)
        ch.call(commands.Queue.Delete(queue=f"temporary.{number}"), commands.Queue.DeleteOk)
        ch.call(commands.Exchange.Delete(exchange=f"temporary.{number}"), commands.Exchange.DeleteOk)
    queue = await page(api, "queues/%2F/q")
    assert queue["incoming"] == []
    (channel,) = (await api.get("/api/channels")).json()
    channel = await page(api, f"channels/{channel['name']}")
    assert [entry["exchange"]["name"] for entry in channel["publishes"]] == [""]
    assert channel["deliveries"] == []
    session = ch.client.connection.channels[1]
    assert max(len(session.publishes), len(session.deliveries)) <= 9
    assert len(api.pair.broker.vhosts["/"].queues["q"].incoming or {}) <= 9
