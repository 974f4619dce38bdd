"""Rates and history as the API tells them; time is moved by hand."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from rabbitlike.management.statistics.ages import NO_AGES, Ages, Span
from rabbitlike.management.statistics.details import View
from rabbitlike.management.statistics.kinds import CHANNEL, CONNECTION, EXCHANGE, QUEUE, VHOST, Kind
from rabbitlike.management.statistics.rates import Rates
from tests.support.api import Api
from tests.support.pair import Pair

INTERVAL_MS = 5000
LAST_MINUTE = Span(60_000, 5000)


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def rates(pair: Pair) -> Rates:
    rates = Rates(pair.broker, pair.clock, INTERVAL_MS)
    rates.start()
    # Passes begin in the middle of what the tests let pass, and have time to end.
    pair.clock.advance(INTERVAL_MS + 1000)
    return rates


def details(rates: Rates, kind: Kind, key: object, name: str, ages: Ages = NO_AGES) -> View:
    view: View = {"message_stats": {name: 0}, name: 0}
    rates.annotate(kind, key, view, ages)
    stats = view["message_stats"]
    assert isinstance(stats, dict)
    found = view.get(f"{name}_details") or stats[f"{name}_details"]
    assert isinstance(found, dict)
    return found


def test_a_message_that_waits_for_a_retry_stays_in_the_history_of_its_queue(pair: Pair, rates: Rates) -> None:
    """Samples count what the number itself counts."""
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-retry-initial": 60_000})
    for _ in range(10):
        ch.publish(b"x", key="q")
    pair.clock.advance(INTERVAL_MS)
    ch.consume("q")
    for delivery in ch.deliveries():
        ch.nack(delivery.tag)
    pair.clock.advance(INTERVAL_MS)
    vhost = pair.broker.vhosts["/"]
    queue = vhost.queues["q"]
    assert queue.awaiting_retry_count == 10
    for kind, key in ((QUEUE, queue), (VHOST, vhost)):
        assert details(rates, kind, key, "messages")["rate"] == 0
        assert details(rates, kind, key, "messages_ready")["rate"] == -2
        samples = details(rates, kind, key, "messages", Ages(lengths=LAST_MINUTE))["samples"]
        assert isinstance(samples, list)
        assert samples[0]["sample"] == 10


def test_rate_after_a_burst_and_when_it_is_over(pair: Pair, rates: Rates) -> None:
    ch = pair.connect().channel()
    ch.declare("q")
    for _ in range(100):
        ch.publish(b"x", key="q")
    queue = pair.broker.vhosts["/"].queues["q"]
    assert details(rates, QUEUE, queue, "publish") == {"rate": 0.0}
    pair.clock.advance(INTERVAL_MS)
    assert details(rates, QUEUE, queue, "publish") == {"rate": 20.0}
    assert details(rates, QUEUE, queue, "messages") == {"rate": 20.0}
    assert details(rates, QUEUE, queue, "messages_ready") == {"rate": 20.0}
    pair.clock.advance(INTERVAL_MS)
    assert details(rates, QUEUE, queue, "publish") == {"rate": 0.0}
    assert details(rates, QUEUE, queue, "messages") == {"rate": 0.0}
    for _ in range(50):
        ch.get("q", no_ack=True)
    pair.clock.advance(INTERVAL_MS)
    assert details(rates, QUEUE, queue, "messages_ready") == {"rate": -10.0}
    assert details(rates, QUEUE, queue, "deliver_get") == {"rate": 10.0}


def test_every_level_has_its_rate(pair: Pair, rates: Rates) -> None:
    connection = pair.connect()
    ch = connection.channel()
    ch.declare("q")
    for _ in range(10):
        ch.publish(b"x", key="q")
    vhost = pair.broker.vhosts["/"]
    client = next(iter(pair.broker.connections))
    channel = next(client.open_channels())
    pair.clock.advance(INTERVAL_MS)
    assert details(rates, EXCHANGE, vhost.exchanges[""], "publish_in") == {"rate": 2.0}
    assert details(rates, CHANNEL, channel, "publish") == {"rate": 2.0}
    assert details(rates, VHOST, vhost, "publish") == {"rate": 2.0}
    assert details(rates, VHOST, vhost, "messages") == {"rate": 2.0}
    rate = details(rates, CONNECTION, client, "recv_oct")["rate"]
    assert isinstance(rate, float)
    assert rate > 0


def test_samples_of_the_last_minute(pair: Pair, rates: Rates) -> None:
    ch = pair.connect().channel()
    ch.declare("q")
    queue = pair.broker.vhosts["/"].queues["q"]
    for _ in range(4):
        ch.publish(b"x", key="q")
        pair.clock.advance(INTERVAL_MS)
    found = details(rates, QUEUE, queue, "publish", Ages(msg_rates=LAST_MINUTE))
    samples = found["samples"]
    assert isinstance(samples, list)
    assert [sample["sample"] for sample in samples] == [4, 3, 2, 1, *[0] * 9]
    newest = pair.clock.now_ms() // INTERVAL_MS * INTERVAL_MS
    assert [sample["timestamp"] for sample in samples] == [newest - INTERVAL_MS * step for step in range(13)]
    assert found["rate"] == 0.2
    assert found["avg"] == 10 / 13
    assert found["avg_rate"] == 4 / 60


def test_samples_reach_back_a_day_for_vhosts_and_ten_minutes_for_queues(pair: Pair, rates: Rates) -> None:
    ch = pair.connect().channel()
    ch.declare("q")
    ch.publish(b"x", key="q")
    vhost = pair.broker.vhosts["/"]
    pair.clock.advance(12 * 3_600_000)
    found = details(rates, VHOST, vhost, "publish", Ages(msg_rates=Span(86_400_000, 1_800_000)))["samples"]
    assert isinstance(found, list)
    assert len(found) == 49
    assert found[0]["sample"] == 1
    assert found[-1]["sample"] == 0
    recent = details(rates, QUEUE, vhost.queues["q"], "publish", Ages(msg_rates=Span(600_000, 5000)))["samples"]
    assert isinstance(recent, list)
    assert {sample["sample"] for sample in recent} == {1}


def test_what_is_gone_leaves_no_history(pair: Pair, rates: Rates) -> None:
    before = rates.track_count
    connection = pair.connect()
    ch = connection.channel()
    for at in range(20):
        ch.declare(f"q{at}")
        ch.publish(b"x", key=f"q{at}")
    pair.clock.advance(INTERVAL_MS)
    assert rates.track_count >= before + 22
    vhost = pair.broker.vhosts["/"]
    for queue in list(vhost.queues.values()):
        vhost.delete_queue(queue)
    connection.drop()
    pair.clock.advance(INTERVAL_MS)
    # The vhost, its default exchange and the churn have one now.
    assert rates.track_count <= before + 3


def test_reset_forgets_samples_and_keeps_totals(pair: Pair, rates: Rates) -> None:
    ch = pair.connect().channel()
    ch.declare("q")
    ch.publish(b"x", key="q")
    pair.clock.advance(INTERVAL_MS)
    queue = pair.broker.vhosts["/"].queues["q"]
    rates.reset()
    assert details(rates, QUEUE, queue, "publish") == {"rate": 0.0}
    pair.clock.advance(INTERVAL_MS)
    assert details(rates, QUEUE, queue, "publish") == {"rate": 0.0}, "what was there before is no burst"
    assert queue.counters.publish == 1
    ch.publish(b"x", key="q")
    pair.clock.advance(INTERVAL_MS)
    assert details(rates, QUEUE, queue, "publish") == {"rate": 0.2}


def test_a_late_pass_says_the_rate_of_the_time_that_really_passed(pair: Pair) -> None:
    rates = Rates(pair.broker, pair.clock, INTERVAL_MS)
    pair.clock.advance(INTERVAL_MS - pair.clock.now_ms() % INTERVAL_MS)
    rates.start()
    pair.clock.advance(1000)
    rates.stop()
    ch = pair.connect().channel()
    ch.declare("q")
    for _ in range(30):
        ch.publish(b"x", key="q")
    pair.clock.advance(14_000)
    rates.start()
    pair.clock.advance(1000)
    queue = pair.broker.vhosts["/"].queues["q"]
    assert details(rates, QUEUE, queue, "publish") == {"rate": 2.0}


def test_nothing_runs_after_stop(pair: Pair) -> None:
    pending = pair.clock.pending
    rates = Rates(pair.broker, pair.clock, INTERVAL_MS)
    rates.start()
    assert pair.clock.pending == pending + 1
    rates.stop()
    assert pair.clock.pending == pending


def test_ten_thousand_queues_are_sampled_in_short_slices(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    ch = pair.connect().channel()
    for at in range(10_000):
        ch.declare(f"q{at}")
    rates = Rates(pair.broker, pair.clock, INTERVAL_MS)
    slices = 0
    plain = rates._slice

    def counted() -> None:
        nonlocal slices
        slices += 1
        plain()

    monkeypatch.setattr(rates, "_slice", counted)
    rates.start()
    pair.clock.advance(INTERVAL_MS)
    assert slices > 5
    assert rates.track_count < 10, "idle queues have no history"


@pytest.mark.parametrize("busy", [False, True])
def test_memory_of_many_queues(pair: Pair, busy: bool) -> None:
    """Less than 60 MB for 10,000 that are busy all the time, next to nothing for those that rest."""
    count = 300
    ch = pair.connect().channel()
    for at in range(count):
        ch.declare(f"q{at}")
    queues = list(pair.broker.vhosts["/"].queues.values())
    rates = Rates(pair.broker, pair.clock, INTERVAL_MS)
    rates.start()
    tracemalloc.start()
    for at in range(130):
        if busy:
            for queue in queues:
                counters = queue.counters
                counters.publish += 1000 + at
                counters.deliver += 1000 + at
                counters.ack += 900
                counters.redeliver += 1
                counters.disk_writes += 2
        pair.clock.advance(INTERVAL_MS)
    gc.collect()  # what others have left behind is not ours
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < (6000 if busy else 200)


async def test_lists_and_pages_of_objects_tell_their_rates(api: Api) -> None:
    api.context.start()
    api.pair.advance(6000)
    ch = api.pair.connect().channel()
    ch.declare("busy")
    ch.declare("idle")
    for _ in range(20):
        ch.publish(b"x", key="busy")
    api.pair.advance(5000)
    busy, idle = (await api.get("/api/queues")).json()
    assert busy["message_stats"]["publish_details"] == {"rate": 4.0}
    assert busy["messages_ready_details"] == {"rate": 4.0}
    assert idle["messages_details"] == {"rate": 0.0}
    assert "message_stats" not in idle
    one = (await api.get("/api/queues/%2F/busy?lengths_age=60&lengths_incr=5")).json()
    assert [each["sample"] for each in one["messages_details"]["samples"]] == [20, *[0] * 12]
    [connection] = (await api.get("/api/connections")).json()
    assert connection["recv_oct_details"]["rate"] > 0
    [channel] = (await api.get("/api/channels")).json()
    assert channel["message_stats"]["publish_details"] == {"rate": 4.0}
    exchange = (await api.get("/api/exchanges/%2F/amq.default")).json()
    assert exchange["message_stats"]["publish_in_details"] == {"rate": 4.0}
    [vhost] = (await api.get("/api/vhosts")).json()
    assert vhost["message_stats"]["publish_details"] == {"rate": 4.0}
    assert vhost["messages_details"] == {"rate": 4.0}
    assert vhost["recv_oct_details"]["rate"] > 0
    api.pair.advance(5000)
    [busy] = (await api.get("/api/queues?name=busy&page=1")).json()["items"]
    assert busy["message_stats"]["publish_details"] == {"rate": 0.0}
    api.context.stop()
