"""Counts and timings, as clients bring them about."""

from __future__ import annotations

from pamqp import commands

from rabbitlike.broker import views
from rabbitlike.broker.statistics.counters import BOUNDS_MS, NAMES, SIZES, Churn, Counters, Sizes, Timing
from tests.support.pair import Pair


def counted(counters: Counters) -> dict[str, int]:
    return {name: value for name in NAMES if (value := getattr(counters, name))}


# Timing


def test_a_timing_sorts_by_powers_of_two() -> None:
    timing = Timing()
    for took_ms in (0, 1, 2, 3, 4, BOUNDS_MS[-1] - 1, BOUNDS_MS[-1], 1 << 40):
        timing.add(took_ms)
    buckets = timing.buckets()
    assert len(buckets) == len(BOUNDS_MS) + 1
    assert buckets[:4] == [1, 1, 2, 1]
    assert buckets[-2:] == [1, 2]
    assert timing.count == 8
    assert timing.total_ms == sum((0, 1, 2, 3, 4, 2 * BOUNDS_MS[-1] - 1, 1 << 40))


def test_every_bound_is_the_first_that_does_not_fit() -> None:
    for at, bound_ms in enumerate(BOUNDS_MS):
        timing = Timing()
        timing.add(bound_ms - 1)
        timing.add(bound_ms)
        assert timing.buckets()[at : at + 2] == [1, 1]


def test_a_clock_set_back_does_no_harm() -> None:
    timing = Timing()
    timing.add(-5)
    assert timing.buckets()[0] == 1


def test_timings_add_up() -> None:
    one, other = Timing(), Timing()
    one.add(5)
    other.add(5)
    other.add(100)
    one.take_over(other)
    assert one.count == 3
    assert one.total_ms == 110
    assert sum(one.buckets()) == 3


def test_a_size_goes_where_it_is_not_too_large() -> None:
    for at, bound in enumerate(SIZES):
        sizes = Sizes()
        sizes.add(bound)
        sizes.add(bound + 1)
        assert sizes.buckets()[at : at + 2] == [1, 1]
        assert sum(sizes.buckets()) == 2
        assert sizes.total == 2 * bound + 1
    assert Sizes().buckets() == [0] * (len(SIZES) + 1)


def test_waiting_ends_with_the_first_delivery_and_processing_with_the_ack() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    queue = pair.broker.vhosts["/"].queues["q"]
    ch.publish(b"m", key="q")
    pair.advance(10)
    message = ch.get("q", no_ack=False)
    assert message is not None
    pair.advance(20)
    ch.nack(message.tag)
    pair.advance(40)
    message = ch.get("q", no_ack=False)
    assert message is not None
    pair.advance(80)
    ch.ack(message.tag)
    assert (queue.wait_time.count, queue.wait_time.total_ms) == (1, 10), "a redelivery does not count"
    assert (queue.processing_time.count, queue.processing_time.total_ms) == (1, 80), "from the delivery that was acked"
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    assert pair.broker.vhosts["/"].wait_time.total_ms == 10, "of queues that are gone, the vhost knows"


# Counters


def test_consuming_is_counted_in_queue_channel_and_vhost() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    vhost = pair.broker.vhosts["/"]
    ch.declare("q")
    queue = vhost.queues["q"]
    (channel,) = ch.client.connection.open_channels()
    ch.consume("q", "acks")
    for _ in range(3):
        ch.publish(b"m", key="q")
    first, second, third = ch.deliveries()
    ch.ack(first.tag)
    ch.nack(second.tag)
    ch.reject(third.tag, requeue=False)
    assert counted(queue.counters) == {"publish": 3, "deliver": 4, "redeliver": 1, "ack": 1}
    assert counted(channel.counters) == {
        "publish": 3,
        "deliver": 4,
        "redeliver": 1,
        "ack": 1,
    }
    ch.client.drop()
    assert counted(vhost.counters) == {"publish": 3, "deliver": 4, "redeliver": 1, "ack": 1}


def test_no_ack_is_no_ack() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    ch.consume("q", no_ack=True)
    ch.publish(b"m", key="q")
    queue = pair.broker.vhosts["/"].queues["q"]
    assert counted(queue.counters) == {"publish": 1, "deliver_no_ack": 1}
    assert queue.processing_time.count == 0
    assert queue.unacked_count == 0


def test_getting_is_counted_by_kind() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    for _ in range(2):
        ch.publish(b"m", key="q")
    ch.get("q", no_ack=True)
    message = ch.get("q", no_ack=False)
    assert message is not None
    ch.nack(message.tag)
    assert ch.get("q", no_ack=False) is not None
    assert ch.get("q") is None
    vhost = pair.broker.vhosts["/"]
    expected = {"publish": 2, "get": 2, "get_no_ack": 1, "get_empty": 1, "redeliver": 1}
    assert counted(vhost.queues["q"].counters) == expected
    assert counted(vhost.counters) == expected
    assert views.queue_stats(vhost.queues["q"].counters)["deliver_get"] == 3


def test_exchanges_count_what_comes_in_and_what_goes_out() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    for name in ("a", "b"):
        ch.declare(name)
        ch.bind(name, "amq.fanout")
    ch.publish(b"m", exchange="amq.fanout")
    ch.publish(b"m", exchange="amq.fanout", expiration="1000")
    ch.publish(b"m", exchange="amq.direct", key="nobody")
    exchanges = pair.broker.vhosts["/"].exchanges
    assert counted(exchanges["amq.fanout"].counters) == {"publish_in": 2, "publish_out": 4}
    assert counted(exchanges["amq.direct"].counters) == {"publish_in": 1}


def test_unroutable_messages_are_counted_as_returned_or_dropped() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.publish(b"m", key="nobody")
    ch.publish(b"m", key="nobody", mandatory=True)
    ch.publish(b"m", key="nobody", expiration="1000")
    assert counted(pair.broker.vhosts["/"].counters) == {
        "publish": 3,
        "return_unroutable": 1,
        "drop_unroutable": 2,
    }


def test_confirms_are_counted_without_refusals() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    ch.confirm()
    for _ in range(3):
        ch.publish(b"m", key="q")
    (channel,) = ch.client.connection.open_channels()
    assert channel.counters.confirm == 2
    assert pair.broker.vhosts["/"].counters.confirm == 2


def test_a_transaction_counts_when_it_is_committed() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    ch.publish(b"m", key="q")
    counters = pair.broker.vhosts["/"].counters
    assert counters.publish == 0
    ch.call(commands.Tx.Commit(), commands.Tx.CommitOk)
    assert counters.publish == 1


# Persistent messages


def test_persistent_messages_are_known_through_all_their_ways() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", durable=True)
    queue = pair.broker.vhosts["/"].queues["q"]

    def known() -> tuple[int, int]:
        return queue.persistent_count, queue.persistent_bytes

    for mode in (1, 2, 2, 2):
        ch.publish(b"12345", key="q", delivery_mode=mode)
    ch.publish(b"12345", key="q", delivery_mode=2, expiration="10")
    assert known() == (4, 20)
    pair.advance(11)
    assert known() == (3, 15), "one has expired"
    ch.get("q", no_ack=True)
    held = [message for _ in range(3) if (message := ch.get("q", no_ack=False))]
    assert known() == (3, 15)
    ch.ack(held[0].tag)
    ch.nack(held[1].tag)
    ch.reject(held[2].tag, requeue=False)
    assert known() == (1, 5)
    held = [message for _ in range(1) if (message := ch.get("q", no_ack=False))]
    ch.publish(b"12345", key="q", delivery_mode=2)
    queue.purge()
    assert known() == (1, 5), "the one that is out was not purged"
    ch.ack(held[0].tag)
    assert known() == (0, 0)


# Coming and going


def test_churn() -> None:
    pair = Pair()
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.declare("q")
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    ch.close()
    other = client.channel()
    other.send(commands.Basic.Get(queue="absent"))
    other.expect_close(404, "NOT_FOUND - no queue 'absent' in vhost '/'", commands.Basic.Get)
    client.close()
    pair.dial().drop()
    assert pair.broker.churn == Churn(
        connections_created=1,
        connections_closed=1,
        channels_created=2,
        channels_closed=2,
        queues_declared=2,
        queues_created=1,
        queues_deleted=1,
    )


def test_octets_are_counted_both_ways() -> None:
    pair = Pair()
    client = pair.connect()
    connection = client.connection
    before = (connection.recv_oct, connection.recv_cnt, connection.send_oct, connection.send_cnt)
    assert connection.send_oct == len(client.raw) + len(client.wire.outbox)
    client.feed(b"\x08\x00\x00")
    client.feed(b"\x00\x00\x00\x00\xce")
    connection.send_heartbeat()
    after = (connection.recv_oct, connection.recv_cnt, connection.send_oct, connection.send_cnt)
    assert [now - then for now, then in zip(after, before, strict=True)] == [8, 2, 8, 1]
    vhost = pair.broker.vhosts["/"]
    assert vhost.recv_oct >= 8
    assert vhost.send_oct >= 8
