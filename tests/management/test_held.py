"""Settling and extending messages that clients hold, over HTTP."""

from __future__ import annotations

import pytest
from pamqp import commands

from tests.support.api import Api
from tests.support.pair import Channel


async def held(api: Api, **arguments: object) -> Channel:
    """A channel that holds the one message of q, at position 1."""
    ch = api.pair.connect().channel()
    ch.declare("q", arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
    ch.declare("dead")
    ch.publish(b"m", key="q")
    ch.consume("q")
    ch.expect_message()
    return ch


def counts(api: Api) -> tuple[int, int, int]:
    queue = api.pair.broker.vhosts["/"].queues["q"]
    return queue.ready.count, queue.unacked_count, queue.awaiting_retry_count


async def test_extending(api: Api) -> None:
    """G5 whoever works on it longer says so, and it is not given to anybody else; when that is over, it is."""
    ch = await held(api, ack_timeout=1000)
    api.pair.advance(900)
    answer = await api.post("/api/messages/%2F/q/1/extend", json={"ms": 5000})
    assert answer.status_code == 200
    assert answer.json()["due_at_ms"] == api.pair.clock.now_ms() + 5000
    api.pair.advance(4999)
    ch.expect_nothing()
    api.pair.advance(1)
    assert ch.expect_message().redelivered


async def test_shortening(api: Api) -> None:
    """G5 an extension counts from now: one of nothing gives the message back."""
    ch = await held(api, ack_timeout=10_000)
    assert (await api.post("/api/messages/%2F/q/1/extend", json={"ms": 0})).status_code == 200
    api.pair.advance(0)
    assert ch.expect_message().redelivered


async def test_nothing_to_extend(api: Api) -> None:
    """G5 without a deadline there is none to move."""
    await held(api)
    answer = await api.post("/api/messages/%2F/q/1/extend", json={"ms": 10})
    assert (answer.status_code, answer.json()["error"]) == (409, "conflict")
    assert (await api.post("/api/messages/%2F/q/1/extend", json={"ms": -1})).status_code == 400
    assert (await api.post("/api/messages/%2F/q/1/extend", json={})).status_code == 400


async def test_ack(api: Api) -> None:
    """S4 done over HTTP; the client's own ack later means nothing."""
    ch = await held(api)
    answer = await api.post("/api/messages/%2F/q/1/ack")
    assert (answer.status_code, answer.json()) == (200, {"action": "acked"})
    assert counts(api) == (0, 0, 0)
    ch.ack(1)
    ch.expect_nothing()
    ch.ack(1)
    ch.expect_close(406, "PRECONDITION_FAILED - unknown delivery tag 1", commands.Basic.Ack)


async def test_nack_requeues(api: Api) -> None:
    """S4 the answer says so; without retry it is delivered again at once."""
    ch = await held(api)
    answer = await api.post("/api/messages/%2F/q/1/nack", json={"requeue": True})
    assert answer.json() == {"action": "requeued"}
    assert ch.expect_message().headers["x-delivery-count"] == 1


async def test_nack_waits(api: Api) -> None:
    """S4 with retry it waits, and is shown as delayed, not as ready."""
    await held(api, retry_initial=1000)
    assert (await api.post("/api/messages/%2F/q/1/nack")).json() == {"action": "requeued"}
    view = (await api.get("/api/queues/%2F/q")).json()
    assert [view[key] for key in ("messages", "messages_ready", "messages_unacknowledged", "messages_delayed")] == [
        1,
        0,
        0,
        1,
    ]
    assert view["message_bytes"] == 1
    assert (await api.get("/api/queues/%2F/q/messages")).json()["items"] == []


@pytest.mark.parametrize(
    ("arguments", "body", "reason"),
    [({}, {"requeue": False}, "rejected"), ({"delivery_limit": 0}, {"requeue": True}, "delivery_limit")],
)
async def test_nack_buries(api: Api, arguments: dict[str, object], body: dict[str, object], reason: str) -> None:
    """S4 S6 `dead_lettered` with the reason, also when the limit of tries made it so."""
    dlx = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    ch = await held(api, **dlx, **arguments)
    answer = await api.post("/api/messages/%2F/q/1/nack", json=body)
    assert answer.json() == {"action": "dead_lettered", "reason": reason}
    dead = ch.get("dead")
    assert dead is not None
    assert dead.headers["x-first-death-reason"] == reason


async def test_nack_drops(api: Api) -> None:
    """S4 without a dead-letter exchange the answer does not promise one."""
    await held(api)
    answer = await api.post("/api/messages/%2F/q/1/nack", json={"requeue": False})
    assert answer.json() == {"action": "dropped", "reason": "rejected"}


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
async def test_nobody_holds_it(api: Api, verb: str) -> None:
    """S4 404 for what is not there, 409 for what is there and not out."""
    ch = api.pair.connect().channel()
    ch.declare("q", arguments={"x-retry-initial": 1000})
    ch.publish(b"ready", key="q")
    body = {"ms": 1}
    assert (await api.post(f"/api/messages/%2F/q/1/{verb}", json=body)).status_code == 409
    message = ch.get("q", no_ack=False)
    assert message is not None
    ch.nack(message.tag)
    assert (await api.post(f"/api/messages/%2F/q/1/{verb}", json=body)).status_code == 409
    assert (await api.post(f"/api/messages/%2F/q/2/{verb}", json=body)).status_code == 404
    assert (await api.post(f"/api/messages/%2F/nowhere/1/{verb}", json=body)).status_code == 404
    assert (await api.post(f"/api/messages/%2F/q/x/{verb}", json=body)).status_code == 400


async def test_permission_to_read(api: Api) -> None:
    """S4 who may not read the queue may not settle its messages."""
    await held(api)
    bob = api.user("bob", read="^$")
    assert (await bob.post("/api/messages/%2F/q/1/ack")).status_code in (401, 403)
    assert counts(api)[1] == 1


async def test_looking_is_no_failure(api: Api) -> None:
    """S9 a get that gives messages back over HTTP puts nothing off."""
    ch = api.pair.connect().channel()
    ch.declare("q", arguments={"x-retry-initial": 1000})
    ch.publish(b"m", key="q")
    body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    assert len((await api.post("/api/queues/%2F/q/get", json=body)).json()) == 1
    assert counts(api) == (1, 0, 0)
    assert len((await api.post("/api/queues/%2F/q/get", json=body | {"ackmode": "reject_requeue_true"})).json()) == 1
    assert counts(api) == (0, 0, 1)


async def test_a_queue_counts_delayed_messages_only_while_it_has_some(api: Api) -> None:
    """RabbitMQ's management UI marks whatever has the field, as an exchange for delayed messages has."""
    ch = api.pair.connect().channel()
    ch.declare("q", arguments={"x-retry-initial": 1000, "x-retry-multiplier": 2})
    for path in ("/api/queues/%2F/q", "/api/queues?disable_stats=false"):
        view = (await api.get(path)).json()
        assert "messages_delayed" not in (view if isinstance(view, dict) else view[0])
    ch.publish(b"", key="q")
    ch.get("q", no_ack=False)
    ch.nack()
    assert (await api.get("/api/queues/%2F/q")).json()["messages_delayed"] == 1
    assert [each["messages_delayed"] for each in (await api.get("/api/queues?sort=messages_delayed")).json()] == [1]
