"""Getting over HTTP with patience: waiting for a message, holding it until a deadline, settling it by its position."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest
from pamqp import commands

from rabbitlike.broker.queues.queue import Queue
from tests.support.api import Api
from tests.support.pair import Channel

MANUAL = {"ackmode": "manual", "count": 1, "encoding": "auto"}
AT_ONCE = {"ackmode": "ack_requeue_false", "count": 1, "encoding": "auto"}
GET = "/api/queues/%2F/q/get"


def queue(api: Api) -> Queue:
    return api.pair.broker.vhosts["/"].queues["q"]


def client(api: Api, **arguments: object) -> Channel:
    ch = api.pair.connect().channel()
    ch.declare("q", arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
    return ch


def bodies(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["payload"] for each in answer.json()]


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("waited in vain")


async def polling(api: Api, wait: int = 10, body: dict[str, object] | None = None) -> asyncio.Task[httpx.Response]:
    """A request that has found the queue empty."""
    empty = queue(api).counters.get_empty
    task = asyncio.create_task(api.post(f"{GET}?wait={wait}", json=body or AT_ONCE))
    await until(lambda: queue(api).counters.get_empty > empty)
    await asyncio.sleep(0)
    return task


# Waiting


async def test_a_message_ends_the_wait(api: Api) -> None:
    """S3 whoever waits is answered as soon as there is one."""
    ch = client(api)
    task = await polling(api)
    assert not task.done()
    ch.publish(b"m", key="q")
    assert bodies(await task) == ["m"]
    assert queue(api).ready.count == 0


async def test_time_ends_the_wait(api: Api) -> None:
    """S3 with an empty list, when the time is over and not before; nothing is left of it."""
    ch = client(api)
    task = await polling(api)
    api.pair.advance(9_999)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    api.pair.advance(1)
    assert bodies(await task) == []
    ch.publish(b"m", key="q")
    assert queue(api).ready.count == 1


async def test_what_is_there_is_not_waited_for(api: Api) -> None:
    """S3 no wait when there is something, even less than asked for; nor when none is wanted."""
    client(api).publish(b"m", key="q")
    assert bodies(await api.post(f"{GET}?wait=100", json=AT_ONCE | {"count": 5})) == ["m"]
    assert bodies(await api.post(GET, json=AT_ONCE)) == []
    assert bodies(await api.post(f"{GET}?wait=0", json=AT_ONCE)) == []


async def test_consumers_go_first(api: Api) -> None:
    """S3 one that waits gets what no consumer takes."""
    client(api)
    consumer = api.pair.connect().channel()
    consumer.qos(1)
    consumer.consume("q")
    task = await polling(api)
    consumer.publish(b"one", key="q")
    consumer.publish(b"two", key="q")
    assert bodies(await task) == ["two"]
    assert consumer.bodies() == [b"one"]


async def test_each_message_ends_one_wait(api: Api) -> None:
    """S3 of several that wait, each gets one; whoever comes too late waits on."""
    ch = client(api)
    tasks = [await polling(api) for _ in range(3)]
    ch.publish(b"1", key="q")
    ch.publish(b"2", key="q")
    await until(lambda: sum(task.done() for task in tasks) == 2)
    assert not tasks[2].done()
    ch.publish(b"3", key="q")
    assert [bodies(await task) for task in tasks] == [["1"], ["2"], ["3"]]


async def test_a_message_taken_meanwhile(api: Api) -> None:
    """S3 told of a message that somebody else was quicker to get, it waits on."""
    ch = client(api)
    task = await polling(api)
    ch.publish(b"1", key="q")
    assert ch.drain("q") == [b"1"]
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    ch.publish(b"2", key="q")
    assert bodies(await task) == ["2"]


async def test_the_queue_goes(api: Api) -> None:
    """S3 404 when there is nothing left to wait for."""
    ch = client(api)
    task = await polling(api)
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    assert (await task).status_code == 404


async def test_who_stops_waiting_leaves_nothing(api: Api) -> None:
    """S3 a request that was given up takes no message."""
    ch = client(api)
    task = await polling(api)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    other = await polling(api)
    ch.publish(b"m", key="q")
    assert bodies(await other) == ["m"]


@pytest.mark.parametrize("query", ["wait=-1", "wait=x", "wait=3601", "ack_deadline=0", "ack_deadline=-5"])
async def test_bad_times(api: Api, query: str) -> None:
    client(api)
    assert (await api.post(f"{GET}?{query}", json=MANUAL)).status_code == 400


# Holding


async def test_held_and_acked(api: Api) -> None:
    """S3 S4 it counts as unacked, stands among what is held, and is gone when it is acked."""
    client(api).publish(b"m", key="q")
    (got,) = (await api.post(f"{GET}?ack_deadline=60", json=MANUAL)).json()
    assert (got["payload"], got["position"], got["redelivered"]) == ("m", 1, False)
    assert (queue(api).ready.count, queue(api).unacked_count) == (0, 1)
    (held,) = (await api.get("/api/queues/%2F/q/unacked")).json()
    assert (held["position"], held["message_bytes"]) == (1, 1)
    assert (await api.post("/api/messages/%2F/q/1/ack")).json() == {"action": "acked"}
    assert queue(api).unacked_count == 0
    assert (await api.post("/api/messages/%2F/q/1/ack")).status_code == 404
    api.pair.advance(60_000)
    assert queue(api).ready.count == 0


async def test_not_settled_in_time(api: Api) -> None:
    """S3 S5 after the deadline it is somebody else's, as a failed try; thirty seconds if nothing is said."""
    ch = client(api)
    ch.publish(b"m", key="q")
    await api.post(GET, json=MANUAL)
    api.pair.advance(29_999)
    assert ch.get("q") is None
    api.pair.advance(1)
    message = ch.get("q", no_ack=False)
    assert message is not None
    assert (message.redelivered, message.headers["x-delivery-count"]) == (True, 1)
    assert (await api.post("/api/messages/%2F/q/1/nack")).json() == {"action": "requeued"}


async def test_late_too_often(api: Api) -> None:
    """S5 S6 each deadline missed is a try; with the limit it is a dead letter."""
    ch = client(api, delivery_limit=1, dead_letter_auto=True)
    ch.publish(b"m", key="q")
    for _ in range(2):
        assert len((await api.post(f"{GET}?ack_deadline=1", json=MANUAL)).json()) == 1
        api.pair.advance(1000)
    assert ch.drain("q.dlq") == [b"m"]


async def test_longer(api: Api) -> None:
    """G5 S3 whoever needs longer says so; the old deadline means nothing then."""
    ch = client(api)
    ch.publish(b"m", key="q")
    await api.post(f"{GET}?ack_deadline=10", json=MANUAL)
    api.pair.advance(9_000)
    answer = await api.post("/api/messages/%2F/q/1/extend", json={"ms": 20_000})
    assert answer.json()["due_at_ms"] == api.pair.clock.now_ms() + 20_000
    api.pair.advance(19_999)
    assert ch.get("q") is None
    api.pair.advance(1)
    assert ch.drain("q") == [b"m"]


async def test_given_back_or_up(api: Api) -> None:
    """S4 nack says what came of it; letters that the queue keeps are letters."""
    ch = client(api, dead_letter_auto=True)
    ch.publish(b"m", key="q")
    await api.post(GET, json=MANUAL)
    assert (await api.post("/api/messages/%2F/q/1/nack")).json() == {"action": "requeued"}
    await api.post(GET, json=MANUAL)
    answer = await api.post("/api/messages/%2F/q/1/nack", json={"requeue": False})
    assert answer.json() == {"action": "dead_lettered", "reason": "rejected"}
    assert ch.drain("q.dlq") == [b"m"]


async def test_a_wait_for_what_is_held(api: Api) -> None:
    """S3 waiting and holding go together: what one gives back by being late, another who waits is given."""
    client(api).publish(b"m", key="q")
    await api.post(f"{GET}?ack_deadline=1", json=MANUAL)
    task = await polling(api, body=MANUAL)
    api.pair.advance(1000)
    assert [each["redelivered"] for each in (await task).json()] == [True]


async def test_the_queue_of_what_is_held_goes(api: Api) -> None:
    """S4 nothing is left to settle, and no deadline comes."""
    ch = client(api)
    ch.publish(b"m", key="q")
    await api.post(GET, json=MANUAL)
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    assert (await api.post("/api/messages/%2F/q/1/ack")).status_code == 404
    api.pair.advance(30_000)


async def test_a_deadline_needs_holding(api: Api) -> None:
    """S3 other ways to get settle at once, so a deadline is a mistake."""
    client(api)
    assert (await api.post(f"{GET}?ack_deadline=5", json=AT_ONCE)).status_code == 400
