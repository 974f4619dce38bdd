"""Prometheus: names, types and labels of RabbitMQ, read by Prometheus' own parser."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import pytest
from pamqp import commands
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from rabbitlike.management.listing.lists import Slices
from rabbitlike.management.prometheus import groups, text
from tests.support import frames
from tests.support.api import Api

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

#: What RabbitMQ's dashboard "RabbitMQ-Overview" asks for.
DASHBOARD = """
rabbitmq_build_info rabbitmq_channels rabbitmq_channels_closed_total rabbitmq_channels_opened_total
rabbitmq_connections rabbitmq_connections_closed_total rabbitmq_connections_opened_total
rabbitmq_disk_space_available_bytes rabbitmq_disk_space_available_limit_bytes rabbitmq_erlang_uptime_seconds
rabbitmq_global_consumers rabbitmq_global_messages_acknowledged_total rabbitmq_global_messages_confirmed_total
rabbitmq_global_messages_delivered_consume_auto_ack_total rabbitmq_global_messages_delivered_consume_manual_ack_total
rabbitmq_global_messages_delivered_get_auto_ack_total rabbitmq_global_messages_delivered_get_manual_ack_total
rabbitmq_global_messages_delivered_total rabbitmq_global_messages_get_empty_total
rabbitmq_global_messages_received_confirm_total rabbitmq_global_messages_received_total
rabbitmq_global_messages_redelivered_total rabbitmq_global_messages_routed_total
rabbitmq_global_messages_unroutable_dropped_total rabbitmq_global_messages_unroutable_returned_total
rabbitmq_global_publishers rabbitmq_identity_info rabbitmq_process_max_fds rabbitmq_process_open_fds
rabbitmq_process_resident_memory_bytes rabbitmq_queue_messages_ready rabbitmq_queue_messages_unacked rabbitmq_queues
rabbitmq_queues_created_total rabbitmq_queues_declared_total rabbitmq_queues_deleted_total
rabbitmq_resident_memory_limit_bytes
""".split()


async def read(api: Api, path: str = "/metrics") -> dict[str, Metric]:
    answer = await api.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(answer.text))
    found = {family.name: family for family in families}
    assert len(found) == len(families), "no family is told of twice"
    return found


def samples(families: dict[str, Metric]) -> dict[str, float]:
    return {sample.name: sample.value for family in families.values() for sample in family.samples}


async def test_what_the_dashboard_asks_for(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("q")
    ch.publish(b"x", key="q")
    ch.publish(b"x", key="nowhere")
    ch.get("q", no_ack=False)
    found = samples(await read(api))
    assert [name for name in DASHBOARD if name not in found] == []
    assert found["rabbitmq_global_messages_received_total"] == 2
    assert found["rabbitmq_global_messages_routed_total"] == 1
    assert found["rabbitmq_global_messages_unroutable_dropped_total"] == 1
    assert found["rabbitmq_global_messages_delivered_get_manual_ack_total"] == 1
    assert found["rabbitmq_queue_messages_unacked"] == 1
    assert found["rabbitmq_queues"] == found["rabbitmq_connections"] == found["rabbitmq_channels"] == 1
    assert found["rabbitmq_global_publishers"] == 1
    assert found["rabbitmq_auth_attempts_succeeded_total"] >= 1


async def test_sizes_of_messages(api: Api) -> None:
    """Whichever way they came: one by one, many at a time, in a transaction, over HTTP; routed or not."""
    client = api.pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.publish(b"x" * 101, key="nowhere")
    head = frames.encode_method(commands.Basic.Publish(routing_key="q"), ch.number)
    bodies = [b"x" * size for size in (100, 101, 100, 1000, 1001, 5, 5, 5)]
    client.feed(
        b"".join(
            head + frames.header_frame(ch.number, len(body), frames.properties()) + frames.body_frame(ch.number, body)
            for body in bodies
        )
    )
    careful = client.channel()
    careful.call(commands.Tx.Select(), commands.Tx.SelectOk)
    careful.publish(b"x" * 10_001, key="q")
    await api.post(
        "/api/exchanges/%2F/amq.default/publish",
        json={"routing_key": "q", "properties": {}, "payload": "x" * 7, "payload_encoding": "string"},
    )
    for path in ("/metrics", "/metrics/per-object"):
        found = (await read(api, path))["rabbitmq_message_size_bytes"]
        assert found.type == "histogram"
        assert {each.labels["protocol"] for each in found.samples} == {"amqp091"}
        counts = {each.labels.get("le", each.name.rpartition("_")[2]): each.value for each in found.samples}
        assert counts.pop("sum") == 101 + sum(map(len, bodies)) + 10_001 + 7
        assert counts == {
            "100": 6,
            "1000": 9,
            "10000": 10,
            **dict.fromkeys(("100000", "1000000", "10000000", "50000000", "100000000", "+Inf", "count"), 11),
        }


async def test_types_and_identity(api: Api) -> None:
    families = await read(api)
    assert families["rabbitmq_queue_messages_ready"].type == "gauge"
    assert families["rabbitmq_global_messages_received"].type == "counter"
    [who] = families["rabbitmq_identity_info"].samples
    assert who.labels["rabbitmq_node"] == api.context.node
    assert who.labels["rabbitmq_cluster"] == api.context.cluster_name
    assert who.labels["rabbitmq_cluster_permanent_id"].startswith("rabbitmq-cluster-id-")
    assert who.labels["rabbitmq_endpoint"] == "aggregated"
    [received] = families["rabbitmq_global_messages_received"].samples
    assert received.labels == {"protocol": "amqp091"}


async def test_per_object(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare('od"d\\')
    ch.declare("q")
    ch.publish(b"abc", key="q")
    families = await read(api, "/metrics/per-object")
    ready = {sample.labels["queue"]: sample for sample in families["rabbitmq_queue_messages_ready"].samples}
    assert ready["q"].value == 1
    assert ready["q"].labels == {"vhost": "/", "queue": "q"}
    assert ready['od"d\\'].value == 0
    bytes_ready = {each.labels["queue"]: each.value for each in families["rabbitmq_queue_messages_ready_bytes"].samples}
    assert bytes_ready["q"] == 3
    [info] = [each for each in families["rabbitmq_queue_info"].samples if each.labels["queue"] == "q"]
    assert info.labels["queue_type"] == "rabbit_classic_queue"
    [channel] = families["rabbitmq_channel_messages_published"].samples
    assert channel.value == 1
    assert channel.labels["channel"].endswith("(1)")
    exchanges = {
        each.labels["exchange"]: each.value for each in families["rabbitmq_exchange_messages_published"].samples
    }
    assert exchanges[""] == 1


async def test_detailed_tells_what_is_asked_for_and_no_more(api: Api) -> None:
    api.pair.broker.add_vhost("other")
    api.pair.broker.vhosts["other"].declare_queue("there")
    api.pair.broker.vhosts["/"].declare_queue("here")
    assert set(await read(api, "/metrics/detailed")) == {"rabbitmq_build_info", "rabbitmq_identity_info"}
    families = await read(api, "/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count")
    assert "rabbitmq_detailed_queue_consumers" in families
    assert "rabbitmq_detailed_queue_messages_ram" not in families
    names = {each.labels["queue"] for each in families["rabbitmq_detailed_queue_messages"].samples}
    assert names == {"here", "there"}
    families = await read(api, "/metrics/detailed?family=queue_metrics&family=queue_consumer_count&vhost=other")
    [only] = families["rabbitmq_detailed_queue_consumers"].samples
    assert only.labels["queue"] == "there"
    families = await read(api, "/metrics/detailed?family=vhost_status&family=exchange_names&family=exchange_bindings")
    assert len(families["rabbitmq_cluster_vhost_status"].samples) == 2
    assert len(families["rabbitmq_cluster_exchange_name"].samples) == 14


async def test_dead_letters(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("q", arguments={"x-max-length": 1, "x-dead-letter-exchange": "amq.fanout"})
    for _ in range(4):
        ch.publish(b"x", key="q")
    families = await read(api)
    counts = {
        sample.labels["dead_letter_strategy"]: sample.value
        for sample in families["rabbitmq_global_messages_dead_lettered_maxlen"].samples
    }
    assert counts == {"disabled": 0, "at_most_once": 3, "at_least_once": 0}


async def test_dead_letters_that_are_kept(api: Api) -> None:
    ch = api.pair.connect().channel()
    strategy = {"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once"}
    ch.declare("q", durable=True, arguments={**strategy, "x-dead-letter-exchange": "dlx", "x-message-ttl": 0})
    ch.publish(b"x", key="q")

    async def counts() -> tuple[float, float, float]:
        families = await read(api)
        expired = families["rabbitmq_global_messages_dead_lettered_expired"].samples
        (died,) = (each.value for each in expired if each.labels["dead_letter_strategy"] == "at_least_once")
        (taken,) = families["rabbitmq_global_messages_dead_lettered_confirmed"].samples
        assert taken.labels == {"queue_type": "rabbit_quorum_queue", "dead_letter_strategy": "at_least_once"}
        (kept,) = families["rabbitlike_queue_held_letters"].samples
        return died, taken.value, kept.value

    assert await counts() == (1, 0, 1)
    view = (await api.get("/api/queues/%2F/q")).json()
    assert (view["messages"], view["messages_dlx"], view["message_bytes_dlx"]) == (1, 1, 1)
    assert view["x_stats"]["held_dead_letters"] == view["x_stats"]["total_messages"] == 1
    assert (await api.get("/api/overview")).json()["queue_totals"]["messages"] == 1
    assert (await api.get("/api/vhosts/%2F")).json()["messages"] == 1
    ch.declare_exchange("dlx", "fanout")
    ch.declare("dead")
    ch.bind("dead", "dlx")
    api.pair.advance(1000)
    assert await counts() == (1, 1, 0)


async def test_our_own(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("q")
    ch.publish(b"x", key="q")
    ch.publish(b"x", key="q")
    api.pair.advance(3000)
    message = ch.get("q", no_ack=False)
    assert message is not None
    api.pair.advance(500)
    ch.ack(message.tag)
    found = samples(await read(api))
    assert found["rabbitlike_queue_wait_seconds_count"] == 1
    assert found["rabbitlike_queue_wait_seconds_sum"] == 3.0
    assert found["rabbitlike_queue_processing_seconds_sum"] == 0.5
    assert found["rabbitlike_queue_oldest_message_age_seconds"] == 3.5
    families = await read(api)
    buckets = {
        sample.labels["le"]: sample.value
        for sample in families["rabbitlike_queue_wait_seconds"].samples
        if sample.name.endswith("_bucket")
    }
    assert buckets["2.048"] == 0
    assert buckets["4.096"] == buckets["+Inf"] == 1
    # What a queue measured outlives it: a histogram never shrinks.
    vhost = api.pair.broker.vhosts["/"]
    vhost.delete_queue(vhost.queues["q"])
    assert samples(await read(api))["rabbitlike_queue_wait_seconds_count"] == 1
    per_object = await read(api, "/metrics/per-object")
    assert per_object["rabbitlike_queue_wait_seconds"].samples == []


async def test_what_waits(api: Api) -> None:
    """G9 for its next try, in a queue; or for its time, in none."""
    ch = api.pair.connect().channel()
    ch.declare("tried", arguments={"x-retry-initial": 1000})
    ch.publish(b"x", key="tried")
    ch.consume("tried", "c")
    ch.nack(ch.deliveries()[0].tag)
    for _ in range(2):
        ch.publish(b"x", key="tried", headers={"x-delay": 5000})
    found = samples(await read(api))
    assert (found["rabbitlike_queue_delayed"], found["rabbitlike_messages_delayed"]) == (1, 2)
    (line,) = (await read(api, "/metrics/per-object"))["rabbitlike_queue_delayed"].samples
    assert (line.labels["queue"], line.value) == ("tried", 1)
    view = (await api.get("/api/overview")).json()
    assert view["messages_delayed"] == 2
    totals = view["queue_totals"]
    assert (totals["messages"], totals["messages_ready"], totals["messages_delayed"]) == (1, 0, 1)
    api.pair.advance(6000)
    found = samples(await read(api))
    assert (found["rabbitlike_queue_delayed"], found["rabbitlike_messages_delayed"]) == (0, 0)
    assert (await api.get("/api/overview")).json()["queue_totals"]["messages"] == 3


async def test_loop_lag_is_measured(api: Api) -> None:
    now_s = 0.0
    lag = api.context.lag
    lag._monotonic = lambda: now_s
    lag.start()
    now_s = 0.25
    api.pair.advance(250)
    now_s = 0.60
    api.pair.advance(250)
    lag.stop()
    assert lag.last_s == pytest.approx(0.1)
    assert samples(await read(api))["rabbitlike_event_loop_lag_seconds_count"] == 2


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object", "/metrics/detailed"])
async def test_for_monitors_only(api: Api, path: str) -> None:
    assert (await api.stranger().get(path)).status_code == 401
    assert (await api.user("bob").get(path)).status_code == 401
    assert (await api.user("eve", tags=["monitoring"]).get(path)).status_code == 200


async def test_many_queues_are_told_of_without_holding_the_loop(api: Api) -> None:
    vhost = api.pair.broker.vhosts["/"]
    for at in range(2000):
        vhost.declare_queue(f"q{at}")
    breaths = 0

    async def watch() -> None:
        nonlocal breaths
        while True:
            await asyncio.sleep(0)
            breaths += 1

    watching = asyncio.create_task(watch())
    answer = await api.get("/metrics/per-object")
    watching.cancel()
    assert answer.text.count("rabbitmq_queue_messages_ready{") == 2000
    assert breaths > 10, "others have their turn while it is written"


@pytest.mark.parametrize("endpoint", ["aggregated", "per-object", "detailed"])
async def test_the_text_is_made_in_small_steps(
    api: Api, monkeypatch: pytest.MonkeyPatch, endpoint: text.Endpoint
) -> None:
    """Thousands of queues must not hold the loop: between two breaths there are few lines, and few looks."""
    for number in range(1000):
        api.pair.broker.vhosts["/"].declare_queue(f"q{number}")
    looks = most = 0

    class AlwaysOver(Slices):
        """As if every step had taken a whole slice."""

        is_over = True

        async def pause(self) -> None:
            nonlocal looks
            looks = 0

    def looked(queue: Queue) -> groups.Row:
        nonlocal looks, most
        looks += 1
        most = max(most, looks)
        return read_queue(queue)

    read_queue = groups.QUEUE.read
    watched = dataclasses.replace(groups.QUEUE, read=looked)
    monkeypatch.setattr(text, "Slices", AlwaysOver)
    monkeypatch.setattr(text, "GROUPS", (watched,))
    monkeypatch.setattr(text, "BY_NAME", {watched.name: watched})
    asked = text.Selection(
        endpoint, frozenset(("queue_metrics", "exchange_names", "exchange_bindings", "vhost_status"))
    )
    pieces = [piece async for piece in text.exposition(api.context, asked)]
    assert max(piece.count(b"\n") for piece in pieces) <= text.STRIDE * text.BLOCK
    assert 0 < most <= text.STRIDE
