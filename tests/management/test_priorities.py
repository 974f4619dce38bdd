"""What the API tells of each level of a queue."""

from __future__ import annotations

from tests.support.api import Api


async def test_priorities_of_a_queue(api: Api) -> None:
    """G13: ready, in_flight, totals, rates and last_served of every level, by two ways."""
    context = api.context
    context.rates.start()
    api.pair.advance(context.rates.interval_ms + 1000)
    ch = api.pair.connect().channel()
    ch.declare("q", arguments={"x-priority-mode": "weighted", "x-priority-weights": "4,2,1"})
    for priority in (0, 1, 2):
        for _ in range(10):
            ch.publish(b"m", key="q", priority=priority)
    held = [ch.get("q", no_ack=False) for _ in range(7)]
    assert all(held)
    api.pair.advance(context.rates.interval_ms)
    priorities = (await api.get("/api/queues/%2F/q")).json()["priorities"]
    seen = [(row["priority"], row["weight"], row["ready"], row["in_flight"], row["enqueued"]) for row in priorities]
    assert seen == [(2, 4, 6, 4, 10), (1, 2, 8, 2, 10), (0, 1, 9, 1, 10)]
    assert [row["dequeued"] for row in priorities] == [4, 2, 1]
    assert [row["enqueue_rate"] for row in priorities] == [2.0, 2.0, 2.0]
    assert [round(row["dequeue_rate"], 3) for row in priorities] == [0.8, 0.4, 0.2]
    assert all(row["last_served"] for row in priorities)
    for message in held:
        assert message is not None
        ch.ack(message.tag)
    ch.publish(b"m", key="q", priority=2)
    stats = (await api.get("/api/queues/%2F/q/priority/stats")).json()
    assert (stats["mode"], stats["max_wait"]) == ("weighted", 30_000)
    assert [row["in_flight"] for row in stats["priorities"]] == [0, 0, 0]
    assert [row["ready"] for row in stats["priorities"]] == [7, 8, 9]
    assert "priorities" not in (await api.get("/api/queues/%2F")).json()[0]


async def test_a_plain_queue_has_one_level(api: Api) -> None:
    """G13"""
    ch = api.pair.connect().channel()
    ch.declare("q")
    ch.publish(b"m", key="q")
    stats = (await api.get("/api/queues/%2F/q/priority/stats")).json()
    assert (stats["mode"], stats["max_wait"]) == ("strict", None)
    (row,) = stats["priorities"]
    assert (row["priority"], row["weight"], row["ready"], row["enqueued"], row["last_served"]) == (0, None, 1, 1, None)
    ch.get("q", no_ack=True)
    (row,) = (await api.get("/api/queues/%2F/q")).json()["priorities"]
    assert (row["ready"], row["in_flight"], row["dequeued"]) == (0, 0, 1)
    assert row["last_served"] is not None


async def test_purging_keeps_what_was_counted(api: Api) -> None:
    """G13"""
    ch = api.pair.connect().channel()
    ch.declare("q")
    for priority in (5, 5, 0):
        ch.publish(b"m", key="q", priority=priority)
    ch.get("q", no_ack=False)
    assert (await api.delete("/api/queues/%2F/q/contents")).status_code == 204
    rows = (await api.get("/api/queues/%2F/q/priority/stats")).json()["priorities"]
    assert [(row["ready"], row["in_flight"], row["enqueued"]) for row in rows] == [(0, 1, 2), (0, 0, 1)]
    assert (await api.get("/api/queues/%2F/none/priority/stats")).status_code == 404
