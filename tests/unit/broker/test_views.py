"""What the management API is shown, against what RabbitMQ shows."""

from __future__ import annotations

import time

import orjson
import pytest
from pamqp import commands

from rabbitlike.broker import views
from rabbitlike.broker.broker import CONNECTION_FORCED
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.statistics import queue_metrics
from rabbitlike.protocol.tables import Array, Table, Timestamp
from tests.support.crash_pair import SimulatedDisk
from tests.support.pair import Channel, Pair

#: What RabbitMQ 3.10 shows of a classic queue that nothing happened to, rates and insides apart.
QUEUE_FIELDS = {
    "arguments", "auto_delete", "consumer_capacity", "consumer_utilisation", "consumers", "durable",
    "effective_policy_definition", "exclusive", "exclusive_consumer_tag", "garbage_collection",
    "head_message_timestamp", "memory", "message_bytes", "message_bytes_paged_out", "message_bytes_persistent",
    "message_bytes_ram", "message_bytes_ready", "message_bytes_unacknowledged", "messages", "messages_paged_out",
    "messages_persistent", "messages_ram", "messages_ready", "messages_ready_ram", "messages_unacknowledged",
    "messages_unacknowledged_ram", "name", "node", "operator_policy", "policy", "recoverable_slaves",
    "single_active_consumer_tag", "state", "type", "vhost",
}  # fmt: skip


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def ch(pair: Pair) -> Channel:
    return pair.connect().channel()


def queue_of(pair: Pair, name: str = "q") -> Queue:
    return pair.broker.vhosts["/"].queues[name]


def shown(view: object) -> dict[str, object]:
    """As it comes out of JSON: whatever cannot go in fails here."""
    parsed: dict[str, object] = orjson.loads(orjson.dumps(view))
    return parsed


# Queues


def test_a_new_queue(pair: Pair, ch: Channel) -> None:
    ch.declare("q", durable=True, arguments={"x-max-length": 10})
    view = shown(views.queue(queue_of(pair)))
    assert set(view) == QUEUE_FIELDS
    assert view["arguments"] == {"x-max-length": 10}
    assert view["type"] == "classic"
    assert view["state"] == "running"
    assert view["policy"] is None
    assert view["messages"] == 0
    assert view["consumer_utilisation"] == 0
    assert str(view["node"]).startswith("rabbitlike@")


def test_what_a_queue_holds(pair: Pair, ch: Channel) -> None:
    ch.declare("q", durable=True)
    ch.publish(b"12345", key="q", delivery_mode=2, timestamp=1_700_000_007)
    ch.publish(b"123", key="q")
    view = shown(views.queue(queue_of(pair)))
    assert view["messages"] == view["messages_ready"] == view["messages_ram"] == 2
    assert view["message_bytes"] == 8
    assert (view["messages_persistent"], view["message_bytes_persistent"]) == (1, 5)
    assert view["head_message_timestamp"] == 1_700_000_007
    ch.get("q", no_ack=False)
    view = shown(views.queue(queue_of(pair)))
    assert (view["messages"], view["messages_ready"], view["messages_unacknowledged"]) == (2, 1, 1)
    assert (view["message_bytes"], view["message_bytes_unacknowledged"]) == (8, 5)
    assert view["head_message_timestamp"] is None
    assert view["message_stats"] == {
        "ack": 0, "deliver": 0, "deliver_get": 1, "deliver_no_ack": 0, "get": 1, "get_empty": 0, "get_no_ack": 0,
        "publish": 2, "redeliver": 0,
    }  # fmt: skip


def test_transient_queues_hold_nothing_persistent(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.publish(b"12345", key="q", delivery_mode=2)
    assert views.queue(queue_of(pair))["messages_persistent"] == 0


def test_an_idle_queue_says_since_when(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.publish(b"m", key="q")
    assert "idle_since" not in views.queue(queue_of(pair))
    since = views.instant(pair.clock.now_ms())
    pair.advance(views.IDLE_MS)
    assert views.queue(queue_of(pair))["idle_since"] == since
    ch.get("q")
    assert "idle_since" not in views.queue(queue_of(pair))


def test_instants_are_written_as_rabbitmq_does() -> None:
    assert views.instant(1_794_820_909_526) == "2026-11-16T09:21:49.526+00:00"
    assert views.instant(1_794_820_909_000) == "2026-11-16T09:21:49.000+00:00"


def test_an_exclusive_queue_names_its_owner(pair: Pair, ch: Channel) -> None:
    ch.declare("q", exclusive=True)
    view = views.queue(queue_of(pair))
    assert view["exclusive"] is True
    assert view["owner_pid_details"] == {
        "name": "127.0.0.1:50000 -> 127.0.0.1:5672",
        "peer_host": "127.0.0.1",
        "peer_port": 50000,
    }


def test_consumers_of_a_queue(pair: Pair, ch: Channel) -> None:
    ch.declare("single", arguments={"x-single-active-consumer": True})
    ch.declare("alone")
    ch.qos(3)
    ch.consume("single", "first")
    ch.consume("single", "second", no_ack=True, arguments={"x-priority": 2})
    ch.consume("alone", "excludes", exclusive=True)
    assert views.queue(queue_of(pair, "single"))["single_active_consumer_tag"] == "first"
    assert views.queue(queue_of(pair, "alone"))["exclusive_consumer_tag"] == "excludes"
    first, second = views.consumers_of(queue_of(pair, "single"))
    assert shown(first) == {
        "ack_required": True,
        "active": True,
        "activity_status": "single_active",
        "arguments": {},
        "channel_details": {
            "connection_name": "127.0.0.1:50000 -> 127.0.0.1:5672",
            "name": "127.0.0.1:50000 -> 127.0.0.1:5672 (1)",
            "node": views.node_name(pair.broker.settings),
            "number": 1,
            "peer_host": "127.0.0.1",
            "peer_port": 50000,
            "user": "guest",
        },
        "consumer_tag": "first",
        "exclusive": False,
        "prefetch_count": 3,
        "queue": {"name": "single", "vhost": "/"},
    }
    assert (second["active"], second["activity_status"]) == (False, "waiting")
    assert (second["ack_required"], second["arguments"]) == (False, {"x-priority": 2})
    (alone,) = views.consumers_of(queue_of(pair, "alone"))
    assert (alone["active"], alone["activity_status"], alone["exclusive"]) == (True, "up", True)


def test_utilisation_falls_while_consumers_are_full(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.qos(1)
    ch.consume("q")
    assert views.queue(queue_of(pair))["consumer_utilisation"] == 1.0
    for _ in range(2):
        ch.publish(b"m", key="q")
    pair.advance(500)
    half = views.queue(queue_of(pair))["consumer_utilisation"]
    assert isinstance(half, float)
    assert 0.5 < half < 0.7
    pair.advance(20_000)
    assert views.queue(queue_of(pair))["consumer_utilisation"] == pytest.approx(0.0, abs=1e-6)
    for _ in range(2):
        ch.ack(ch.expect_message().tag)
    pair.advance(20_000)
    assert views.queue(queue_of(pair))["consumer_utilisation"] == pytest.approx(1.0, abs=1e-6)


def test_the_oldest_message(pair: Pair, ch: Channel) -> None:
    ch.declare("q", arguments={"x-max-priority": 5})
    assert queue_metrics.oldest_message_age_ms(queue_of(pair)) is None
    ch.publish(b"old", key="q")
    pair.advance(50)
    ch.publish(b"urgent", key="q", priority=5)
    pair.advance(5)
    assert queue_metrics.oldest_message_age_ms(queue_of(pair)) == 55


def test_what_is_on_disk_is_not_read_for_a_view() -> None:
    disk = SimulatedDisk()
    pair = disk.boot(queue_window=65_536)
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", durable=True))
    while pair.begin_commit():
        pair.end_commit()
    ch.expect(commands.Queue.DeclareOk)
    for number in range(300):
        ch.publish(b"x" * 1000, key="q", delivery_mode=2, timestamp=1_700_000_000 + number)
        while pair.begin_commit():
            pair.end_commit()
    queue = queue_of(pair)
    view = views.queue(queue)
    out = view["messages_paged_out"]
    assert isinstance(out, int)
    assert 100 < out < 300
    assert view["messages_ram"] == 300 - out
    assert view["message_bytes_ram"] == (300 - out) * 1000
    assert view["messages_persistent"] == 300
    assert view["head_message_timestamp"] == 1_700_000_000
    assert queue.counters.disk_writes == 300
    assert queue.counters.disk_reads == 0
    for _ in range(300):
        ch.get("q")
    view = views.queue(queue)
    assert (view["messages_paged_out"], view["message_bytes_paged_out"], view["messages_persistent"]) == (0, 0, 0)
    assert queue.counters.disk_reads == out
    ch.publish(b"kept", key="q", delivery_mode=2)
    while pair.begin_commit():
        pair.end_commit()
    pair = disk.boot(crash=True, queue_window=65_536)
    queue = queue_of(pair)
    view = views.queue(queue)
    assert (view["messages"], view["messages_persistent"], view["messages_paged_out"]) == (1, 1, 1)
    assert view["head_message_timestamp"] is None
    assert queue_metrics.oldest_message_age_ms(queue) is None, "only the disk could tell"
    assert queue.counters.disk_reads == 0
    disk.close()


def test_ten_thousand_queues_are_cheap(pair: Pair, ch: Channel) -> None:
    for number in range(1000):
        ch.declare(f"q{number}")
    queues = list(pair.broker.vhosts["/"].queues.values())
    best_s = min(_time(lambda: [views.queue(queue) for queue in queues]) for _ in range(5))
    assert best_s / len(queues) < 200e-6, "it is to be about 10 µs; this catches a walk over something"


def _time(work: object) -> float:
    assert callable(work)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# Exchanges, bindings, vhosts


def test_exchanges(pair: Pair, ch: Channel) -> None:
    ch.declare_exchange("e", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
    ch.publish(b"m", exchange="e", key="k")
    assert shown(views.exchange(pair.broker.vhosts["/"].exchanges["e"])) == {
        "arguments": {"alternate-exchange": "amq.fanout"},
        "auto_delete": False,
        "durable": True,
        "internal": False,
        "message_stats": {"publish_in": 1},
        "name": "e",
        "type": "topic",
        "user_who_performed_action": "rmq-internal",
        "vhost": "/",
    }


def test_bindings(pair: Pair, ch: Channel) -> None:
    ch.declare("a queue/1")
    ch.bind("a queue/1", "amq.direct", "k", {"n": 1})
    vhost = pair.broker.vhosts["/"]
    (bound,) = vhost.exchanges["amq.direct"].bindings
    default, own = shown(views.default_binding(queue_of(pair, "a queue/1"))), shown(views.binding(vhost, bound))
    assert default == {
        "source": "",
        "vhost": "/",
        "destination": "a queue/1",
        "destination_type": "queue",
        "routing_key": "a queue/1",
        "arguments": {},
        "properties_key": "a+queue%2F1",
    }
    assert own["arguments"] == {"n": 1}
    assert str(own["properties_key"]).startswith("k~")


def test_vhosts(pair: Pair) -> None:
    vhost = pair.broker.vhosts["/"]
    assert "messages" not in views.vhost(vhost, queue_metrics.Sums()), "parity: nobody has used it yet"
    ch = pair.connect().channel()
    ch.declare("q")
    ch.publish(b"m", key="q")
    view = shown(views.vhost(vhost, queue_metrics.Sums(messages=1, messages_ready=1)))
    assert (view["messages"], view["messages_ready"], view["messages_unacknowledged"]) == (1, 1, 0)
    assert view["message_stats"] == {"publish": 1, "confirm": 0, "return_unroutable": 0, "drop_unroutable": 0}
    assert list(view["cluster_state"].values()) == ["running"]  # type: ignore[attr-defined]


# Connections and channels


def test_a_connection(pair: Pair) -> None:
    properties = {"product": "test", "connection_name": "mine"}
    client = pair.connect(heartbeat=30, client_properties=properties)
    client.channel()
    view = shown(client.connection.view())
    assert view["name"] == "127.0.0.1:50000 -> 127.0.0.1:5672"
    assert (view["state"], view["type"], view["protocol"]) == ("running", "network", "AMQP 0-9-1")
    assert (view["host"], view["port"], view["peer_host"], view["peer_port"]) == ("127.0.0.1", 5672, "127.0.0.1", 50000)
    assert (view["user"], view["vhost"], view["auth_mechanism"]) == ("guest", "/", "PLAIN")
    assert (view["channels"], view["channel_max"], view["frame_max"], view["timeout"]) == (1, 2047, 131072, 30)
    assert view["user_provided_name"] == "mine"
    assert view["connected_at"] == pair.clock.now_ms()
    assert (view["ssl"], view["ssl_protocol"], view["peer_cert_subject"]) == (False, "", "")
    assert view["send_pend"] == 0


def test_the_states_of_a_connection(pair: Pair) -> None:
    client = pair.dial()
    assert client.connection.view()["state"] == "starting"
    client.handshake()
    ch = client.channel()
    pair.broker.alarms.raise_("memory")
    assert client.connection.view()["state"] == "blocking"
    ch.publish(b"m", key="nobody")
    assert client.connection.view()["state"] == "blocked"
    pair.broker.alarms.clear("memory")
    assert client.connection.view()["state"] == "running"
    client.connection.shutdown(CONNECTION_FORCED, "bye")
    assert client.connection.view()["state"] == "closing"


def test_a_channel(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.confirm()
    ch.qos(7)
    ch.qos(9, is_global=True)
    ch.consume("q")
    ch.publish(b"m", key="q")
    (channel,) = ch.client.connection.open_channels()
    view = shown(channel.view())
    assert view["name"] == "127.0.0.1:50000 -> 127.0.0.1:5672 (1)"
    assert (view["number"], view["state"], view["confirm"], view["transactional"]) == (1, "running", True, False)
    assert (view["prefetch_count"], view["global_prefetch_count"], view["consumer_count"]) == (7, 9, 1)
    assert (view["messages_unacknowledged"], view["messages_unconfirmed"]) == (1, 0)
    assert "idle_since" not in view
    pair.advance(views.IDLE_MS)
    assert "idle_since" in channel.view()


def test_a_transactional_channel(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.publish(b"m", key="q")
    message = ch.get("q", no_ack=False)
    assert message is not None
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    ch.publish(b"m", key="q")
    ch.publish(b"m", key="q")
    ch.ack(message.tag)
    (channel,) = ch.client.connection.open_channels()
    view = channel.view()
    assert (view["transactional"], view["messages_uncommitted"], view["acks_uncommitted"]) == (True, 2, 1)


# Unacked messages


def test_unacked_messages_of_one_queue(pair: Pair, ch: Channel) -> None:
    for name in ("q", "other"):
        ch.declare(name)
        ch.consume(name, f"of-{name}")
    for name in ("q", "other", "q"):
        ch.publish(b"4", key=name)
    getter = pair.connect().channel()
    ch.nack(3)
    assert len(ch.deliveries()) == 4
    ch.call(commands.Basic.Cancel(consumer_tag="of-q"), commands.Basic.CancelOk)
    assert getter.get("q", no_ack=False) is None
    at_ms = pair.clock.now_ms()
    held = [each for channel in views.unacked_of(queue_of(pair)) for each in channel]
    assert [(each["position"], each["delivery_tag"], each["consumer_tag"]) for each in held] == [
        (1, 1, "of-q"),
        (2, 4, "of-q"),
    ]
    assert shown(held[1]) == {
        "position": 2,
        "delivery_tag": 4,
        "consumer_tag": "of-q",
        "delivered_at": at_ms,
        "redelivered": True,
        "message_bytes": 1,
        "channel_details": shown(held[1])["channel_details"],
    }


# Values


def test_values_of_every_kind_fit_into_json() -> None:
    table = Table({"f": 1.5, "n": None, "b": True, "bytes": b"\xff\xfeok", "text": "\udcff", "t": Timestamp(5)})
    table.put("wide", (1 << 64) - 1, "T")
    table["list"] = Array([1, "a", Table({"deep": b"x"})])
    assert shown(views.table(table)) == {
        "f": 1.5,
        "n": None,
        "b": True,
        "bytes": "\ufffd\ufffdok",
        "text": "\ufffd",
        "t": 5,
        "wide": (1 << 64) - 1,
        "list": [1, "a", {"deep": "x"}],
    }
