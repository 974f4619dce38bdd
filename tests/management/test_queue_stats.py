"""The numbers of one queue after a script: in its own object, and for Prometheus."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import Api
from tests.support.pair import Channel


@pytest.fixture
def script(api: Api) -> Channel:
    """6 in: 2 acked after 1 s of waiting and 500 ms of work, 1 given back, 1 rejected, 1 unacked; 2 are left."""
    ch = api.pair.connect().channel()
    ch.declare("q", arguments={"x-dead-letter-auto": True})
    for number in range(6):
        ch.publish(b"%d" % number, key="q")
    api.pair.advance(1_000)
    held = [ch.get("q", no_ack=False) for _ in range(5)]
    tags = [message.tag for message in held if message is not None]
    api.pair.advance(500)
    ch.ack(tags[0])
    ch.ack(tags[1])
    ch.reject(tags[2], requeue=True)
    ch.reject(tags[3], requeue=False)
    return ch


async def test_stats(api: Api, script: Channel) -> None:
    """F21 S10 totals, what is in flight, mean times, the oldest age."""
    api.pair.advance(500)
    stats = (await api.get("/api/queues/%2F/q")).json()["x_stats"]
    expected = {
        "queue": "q", "depth": 2, "total_messages": 3, "inflight_messages": 1, "dlq_messages": 1, "consumers": 0,
        "published_total": 6, "consumed_total": 5, "acked_total": 2, "nacked_total": 2, "dead_lettered_total": 1,
        "dead_lettered": {"rejected": 1}, "retry_count": 0, "avg_wait_time_ms": 1000.0,
        "avg_delivery_latency_ms": 1000.0, "avg_process_latency_ms": 500.0, "oldest_message_age_secs": 2.0,
    }  # fmt: skip
    assert expected.items() <= stats.items()
    assert {"enqueue_rate", "dequeue_rate", "ack_rate", "partitions_assigned"} <= stats.keys()


async def test_rates_are_those_of_the_queue(api: Api) -> None:
    """F21 S10 rates."""
    ch = api.pair.connect().channel()
    ch.declare("q")
    api.context.rates.start()
    api.pair.advance(5_000)
    for _ in range(10):
        ch.publish(b"m", key="q")
    api.pair.advance(5_000)
    api.pair.advance(100)  # on a busy machine a sample takes several slices
    api.context.rates.stop()
    stats = (await api.get("/api/queues/%2F/q")).json()["x_stats"]
    assert stats["enqueue_rate"] == 2.0
    assert stats["dequeue_rate"] == 0.0


async def test_metrics(api: Api, script: Channel) -> None:
    """F20 the documented names, by queue; and by reason what died."""
    families = text_string_to_metric_families((await api.get("/metrics/per-object")).text)
    found = {
        (sample.name.removeprefix("rabbitlike_queue_"), sample.labels.get("reason")): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("queue") == "q" and sample.name.startswith("rabbitlike_queue_")
    }
    expected = {
        ("depth", None): 2,
        ("enqueue_total", None): 6,
        ("dequeue_total", None): 5,
        ("ack_total", None): 2,
        ("nack_total", None): 2,
        ("active_consumers", None): 0,
        ("dlq_total", "rejected"): 1,
    }
    assert expected.items() <= found.items()


async def test_sums(api: Api, script: Channel) -> None:
    """F20 without names of queues: the latency of all, and nothing that would shrink when a queue goes."""
    text = (await api.get("/metrics")).text
    assert "rabbitlike_queue_depth 3\n" in text
    assert 'rabbitlike_queue_dlq_total{reason="rejected"} 1\n' in text
    assert "rabbitlike_queue_delivery_latency_seconds_count 5\n" in text
    assert "rabbitlike_queue_ack_total" not in text
