"""What happens to clients that publish faster than the disk or the consumers take it, and to those beside them."""

from collections.abc import Iterator

import pytest
from pamqp import commands

from rabbitlike.broker import credit
from rabbitlike.broker.queues import admission
from rabbitlike.session.views import connection_state
from tests.support import frames
from tests.support.crash_pair import DurablePair, SimulatedDisk, SimulatedStore
from tests.support.pair import Channel, Client, Pair

MB = 1024 * 1024
KB = 1024
PERSISTENT = b"\x10\x00\x02"
PLAIN = b"\x00\x00"


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    disk = SimulatedDisk()
    yield disk
    disk.close()


def publish(ch: Channel, count: int, *, size: int = 10 * KB, key: str = "q", properties: bytes = PERSISTENT) -> None:
    """Publish without waiting for anything, as a client does that writes on and on."""
    body = bytes(size)
    head = frames.encode_method(commands.Basic.Publish(routing_key=key), ch.number)
    frame = head + frames.header_frame(ch.number, size, properties)
    pieces = [body[at : at + 100_000] for at in range(0, size, 100_000)]
    ch.client.feed((frame + b"".join(frames.body_frame(ch.number, piece) for piece in pieces)) * count)


def is_read(client: Client) -> bool:
    return client.wire.is_reading


def declare(pair: DurablePair, ch: Channel, name: str = "q") -> None:
    ch.send(commands.Queue.Declare(queue=name, durable=True))
    pair.commit_all()
    ch.expect(commands.Queue.DeclareOk)


class TestCredit:
    """Bytes that are to be written and are not committed are bounded, for each connection and for all."""

    def test_a_connection_is_not_read_beyond_its_credit(self, disk: SimulatedDisk) -> None:
        pair = disk.boot()
        ch = pair.connect().channel()
        declare(pair, ch)
        publish(ch, 6_000)
        assert not is_read(ch.client)
        assert connection_state(ch.client.connection) == "flow"
        assert pair.journal.pending_bytes < credit.CONNECTION_BYTES + 512 * KB
        for _ in range(20):
            pair.commit_all()
            assert pair.journal.pending_bytes < credit.CONNECTION_BYTES + 512 * KB
        assert is_read(ch.client)
        assert connection_state(ch.client.connection) == "running"
        assert pair.broker.vhosts["/"].queues["q"].message_count == 6_000

    def test_transient_messages_that_leave_memory_count_too(self, disk: SimulatedDisk) -> None:
        pair = disk.boot()
        ch = pair.connect().channel()
        ch.declare("q")
        publish(ch, 8_000, properties=PLAIN)
        assert not is_read(ch.client)
        queue = pair.broker.vhosts["/"].queues["q"]
        assert queue.ready.memory_bytes < pair.broker.settings.queue_window + credit.CONNECTION_BYTES + MB

    def test_headers_count_as_bodies_do(self, disk: SimulatedDisk) -> None:
        pair = disk.boot()
        ch = pair.connect().channel()
        declare(pair, ch)
        headers = frames.properties(headers={"h": "x" * 100_000}, delivery_mode=2)
        publish(ch, 500, size=1, properties=headers)
        assert not is_read(ch.client)
        assert pair.broker.vhosts["/"].queues["q"].message_count < 400

    def test_all_connections_together_are_bounded_and_served_in_turn(self, disk: SimulatedDisk) -> None:
        pair = disk.boot()
        channels = [pair.connect().channel() for _ in range(6)]
        declare(pair, channels[0])
        for ch in channels:
            publish(ch, 3_000)
        assert pair.journal.pending_bytes < credit.BROKER_BYTES + 6 * MB
        for _ in range(30):
            pair.commit_all()
        assert all(is_read(ch.client) for ch in channels)
        assert pair.broker.vhosts["/"].queues["q"].message_count == 18_000

    def test_those_who_publish_little_go_on(self, disk: SimulatedDisk) -> None:
        pair = disk.boot()
        floods = [pair.connect().channel() for _ in range(3)]
        little = pair.connect().channel()
        declare(pair, little)
        for ch in floods:
            publish(ch, 6_000)
        assert pair.broker.credit is not None
        assert pair.broker.credit.is_exhausted
        for _ in range(20):
            publish(little, 1, size=KB)
            assert is_read(little.client)

    def test_a_request_that_was_cut_in_two_is_answered_while_the_disk_is_busy(self, disk: SimulatedDisk) -> None:
        """What a client waits for does not wait for the store, unless it is durable itself."""
        pair = disk.boot()
        floods = [pair.connect().channel() for _ in range(3)]
        other = pair.connect().channel()
        declare(pair, other)
        other.declare("transient")
        for ch in floods:
            publish(ch, 6_000)
        publish(pair.connect().channel(), 1, size=credit.OWN_BYTES)
        assert pair.broker.credit is not None
        assert pair.broker.credit.is_behind()
        pair.clock.tick_ns = 10_000_000  # each look at the clock finds the turn's time over
        other.client.feed(frames.encode_method(commands.Basic.Get(queue="transient"), other.number) * 100)
        for _ in range(200):
            pair.clock.advance(1)
        for _ in range(100):
            other.expect(commands.Basic.GetEmpty)

    def test_messages_expire_while_publishers_are_stopped(self, disk: SimulatedDisk) -> None:
        """The broker's own work has more room than publishers, or a flood would put it off for as long as it lasts."""
        pair = disk.boot()
        floods = [pair.connect().channel() for _ in range(3)]
        other = pair.connect().channel()
        declare(pair, other)
        other.declare("expiring", arguments={"x-message-ttl": 1000})
        for number in range(200):
            other.publish(b"%d" % number, key="expiring")
        for ch in floods:
            publish(ch, 6_000)
        assert pair.broker.credit is not None
        assert pair.broker.credit.is_exhausted
        pair.clock.tick_ns = 10_000_000
        for _ in range(1500):
            pair.clock.advance(1)
        assert pair.broker.credit.is_exhausted
        assert pair.broker.vhosts["/"].queues["expiring"].message_count == 0

    def test_small_messages_count_by_their_number(self, disk: SimulatedDisk) -> None:
        """Before and after a commit each of its messages is looked at in one turn, small or large."""
        pair = disk.boot()
        ch = pair.connect().channel()
        declare(pair, ch)
        publish(ch, 40_000, size=1)
        assert not is_read(ch.client)
        assert pair.broker.vhosts["/"].queues["q"].message_count < 25_000

    def test_a_connection_that_ends_while_it_waits_is_forgotten(self, disk: SimulatedDisk) -> None:
        pair = disk.boot()
        ch, other = pair.connect().channel(), pair.connect().channel()
        declare(pair, ch)
        publish(ch, 6_000)
        ch.client.drop()
        publish(other, 6_000)
        for _ in range(20):
            pair.commit_all()
        assert is_read(other.client)

    def test_confirms_go_out_while_it_waits(self, disk: SimulatedDisk) -> None:
        pair = disk.boot()
        ch = pair.connect().channel()
        declare(pair, ch)
        ch.send(commands.Confirm.Select())
        ch.expect(commands.Confirm.SelectOk)
        publish(ch, 6_000)
        assert not is_read(ch.client)
        pair.commit_all()
        assert ch.expect(commands.Basic.Ack).delivery_tag > 1_000


def test_batches_are_bounded(disk: SimulatedDisk) -> None:
    """A page comes back in one turn: neither many messages nor much data is in one batch."""
    pair = disk.boot()
    ch = pair.connect().channel()
    declare(pair, ch)
    publish(ch, 2_000)
    publish(ch, 20_000, size=1)
    publish(ch, 2, size=6 * MB)
    for _ in range(20):
        pair.commit_all()
    assert isinstance(pair.store, SimulatedStore)
    batches = pair.store.batches.values()
    assert sum(batch.count for batch in batches) == 22_002
    assert max(batch.count for batch in batches) <= 16_384
    assert all(len(batch.data) < 1.1 * 4 * MB + 40 * batch.count for batch in batches if batch.count > 1)
    restarted = disk.boot(crash=True).connect().channel()
    bodies = restarted.drain("q")
    assert [len(body) for body in bodies] == [10 * KB] * 2_000 + [1] * 20_000 + [6 * MB] * 2


class TestWaiting:
    """Publishers wait for consumers that are fast, which is cheaper than a backlog on disk."""

    def congest(self, disk: SimulatedDisk, *, acks_each_ms: int = 100) -> tuple[DurablePair, Channel, Channel]:
        """A queue with 5 MB ready whose consumer takes so many messages in each millisecond."""
        pair = disk.boot()
        consumer, publisher = pair.connect().channel(), pair.connect().channel()
        consumer.declare("q")
        consumer.qos(acks_each_ms)
        consumer.consume("q")
        publish(publisher, 500 + acks_each_ms, properties=PLAIN)
        for _ in range(20):
            if is_read(publisher.client):
                self.ack(consumer)
                pair.advance(1)
                publish(publisher, acks_each_ms, properties=PLAIN)
        return pair, consumer, publisher

    def ack(self, consumer: Channel) -> None:
        deliveries = consumer.deliveries()
        if deliveries:
            consumer.ack(deliveries[-1].tag, multiple=True)

    def test_a_publisher_waits_for_fast_consumers(self, disk: SimulatedDisk) -> None:
        pair, consumer, publisher = self.congest(disk)
        queue = pair.broker.vhosts["/"].queues["q"]
        assert not is_read(publisher.client)
        assert connection_state(publisher.client.connection) == "flow"
        assert not queue.ready.is_spilling
        waited_ms = 0
        while not is_read(publisher.client):
            self.ack(consumer)
            pair.advance(1)
            waited_ms += 1
        assert queue.ready.memory_bytes < admission.CONGESTION_BYTES
        assert waited_ms < admission.PATIENCE_MS

    def test_nobody_waits_for_slow_consumers(self, disk: SimulatedDisk) -> None:
        pair, consumer, publisher = self.congest(disk, acks_each_ms=1)
        for _ in range(admission.SAMPLE_MS + admission.LOOK_MS):  # how slow they are is measured first
            self.ack(consumer)
            pair.advance(1)
        assert is_read(publisher.client)
        for _ in range(40):
            publish(publisher, 50, properties=PLAIN)
            assert is_read(publisher.client)
            self.ack(consumer)
            pair.advance(1)
        assert pair.broker.vhosts["/"].queues["q"].ready.is_spilling

    def test_nobody_waits_where_nobody_consumes(self, disk: SimulatedDisk) -> None:
        pair = disk.boot()
        ch = pair.connect().channel()
        ch.declare("q")
        for _ in range(100):
            publish(ch, 10, properties=PLAIN)
            pair.advance(1)
            assert is_read(ch.client)

    def test_consumers_that_stop_do_not_stop_publishers(self, disk: SimulatedDisk) -> None:
        pair, _, publisher = self.congest(disk)
        assert not is_read(publisher.client)
        pair.advance(admission.STOPPED_MS)
        assert is_read(publisher.client)

    def test_consumers_that_pause_have_not_stopped(self, disk: SimulatedDisk) -> None:
        """A consumer that waits for a processor for a while must not start a backlog on disk."""
        pair, consumer, publisher = self.congest(disk)
        for _ in range(20):
            self.ack(consumer)
            pair.advance(1)
            publish(publisher, 100, properties=PLAIN)
        assert not is_read(publisher.client)
        pair.advance(25)
        assert not is_read(publisher.client)

    def test_the_first_burst_waits_until_the_rate_is_known(self, disk: SimulatedDisk) -> None:
        pair = disk.boot()
        consumer, publisher = pair.connect().channel(), pair.connect().channel()
        consumer.declare("q")
        consumer.qos(100)
        consumer.consume("q")
        publish(publisher, 600, properties=PLAIN)
        assert not is_read(publisher.client)

    def test_paging_ends_when_consumers_are_fast_again(self, disk: SimulatedDisk) -> None:
        """Publishers that keep up with consumers would leave a queue on disk for ever, and it is slower there."""
        pair, consumer, publisher = self.congest(disk, acks_each_ms=20)
        queue = pair.broker.vhosts["/"].queues["q"]
        pair.advance(admission.STOPPED_MS)
        while not queue.ready.is_spilling:
            publish(publisher, 20, properties=PLAIN)
        for _ in range(1000):
            self.ack(consumer)
            pair.advance(1)
            pair.commit_all()
            if is_read(publisher.client):
                publish(publisher, 20, properties=PLAIN)
            if not queue.ready.is_spilling:
                break
        assert not queue.ready.is_spilling

    def test_a_queue_that_goes_lets_its_publishers_go(self, disk: SimulatedDisk) -> None:
        _pair, consumer, publisher = self.congest(disk)
        consumer.send(commands.Queue.Delete(queue="q"))
        assert is_read(publisher.client)
        publish(publisher, 10, properties=PLAIN)

    def test_those_who_publish_little_go_on(self, disk: SimulatedDisk) -> None:
        pair, _, publisher = self.congest(disk)
        little = pair.connect().channel()
        assert not is_read(publisher.client)
        for _ in range(3):
            publish(little, 1, properties=PLAIN)
            assert is_read(little.client)

    def test_a_connection_that_also_consumes_does_not_wait(self, disk: SimulatedDisk) -> None:
        """Its acks come by the same socket: it might wait for itself."""
        _pair, consumer, publisher = self.congest(disk)
        publish(consumer, 50, properties=PLAIN)
        assert not is_read(publisher.client)
        assert is_read(consumer.client)

    def test_those_who_wait_are_let_in_a_few_at_a_time(self, disk: SimulatedDisk) -> None:
        pair, consumer, _ = self.congest(disk)
        others = [pair.connect().channel() for _ in range(20)]
        for ch in others:
            publish(ch, 10, properties=PLAIN)
        assert not any(is_read(ch.client) for ch in others)
        let_in: list[int] = []
        while len(let_in) < len(others):
            self.ack(consumer)
            pair.advance(1)
            fresh = [n for n, ch in enumerate(others) if is_read(ch.client) and n not in let_in]
            assert len(fresh) <= admission.CONGESTION_BYTES // 2 // admission.READ_BYTES
            let_in += fresh
        assert let_in == sorted(let_in)


class TestUnacked:
    """What a connection holds unacknowledged stays in memory, and is bounded."""

    def test_deliveries_pause_at_the_limit_and_go_on_after_acks(self) -> None:
        pair = Pair(unacked_limit=MB)
        ch, publisher = pair.connect().channel(), pair.connect().channel()
        ch.declare("q")
        ch.consume("q")
        publish(publisher, 400, properties=PLAIN)
        queue = pair.broker.vhosts["/"].queues["q"]
        deliveries = ch.deliveries()
        assert 90 < len(deliveries) < 180
        assert queue.unacked_count == len(deliveries)
        ch.ack(deliveries[9].tag, multiple=True)
        assert ch.deliveries() == []
        ch.ack(deliveries[-1].tag, multiple=True)
        assert len(ch.deliveries()) > 90

    def test_all_channels_of_a_connection_share_it(self) -> None:
        pair = Pair(unacked_limit=MB)
        client, publisher = pair.connect(), pair.connect().channel()
        channels = [client.channel() for _ in range(4)]
        for n, ch in enumerate(channels):
            ch.declare(f"q{n}")
            ch.consume(f"q{n}")
            publish(publisher, 100, key=f"q{n}", properties=PLAIN)
        held = [ch.deliveries() for ch in channels]
        assert 90 < sum(map(len, held)) < 180
        assert not held[3]
        channels[0].close()
        assert any(ch.deliveries() for ch in channels[1:])

    def test_those_that_need_not_ack_and_other_connections_go_on(self) -> None:
        pair = Pair(unacked_limit=MB)
        ch, publisher, other = (pair.connect().channel() for _ in range(3))
        for name in ("q", "unacked", "others"):
            publisher.declare(name)
        ch.consume("unacked")
        publish(publisher, 200, key="unacked", properties=PLAIN)
        assert 90 < len(ch.deliveries()) < 180
        ch.consume("q", no_ack=True)
        publish(publisher, 200, key="q", properties=PLAIN)
        assert len(ch.deliveries()) == 200
        other.consume("unacked")
        assert other.deliveries()

    def test_fetching_beyond_the_limit_is_refused(self) -> None:
        pair = Pair(unacked_limit=MB)
        ch = pair.connect().channel()
        ch.declare("q")
        publish(ch, 200, properties=PLAIN)
        for _ in range(MB // (10 * KB + 302) + 1):
            assert ch.get("q", no_ack=False) is not None
        ch.send(commands.Basic.Get(queue="q"))
        ch.expect_close(
            406,
            f"PRECONDITION_FAILED - connection holds more than {MB} bytes unacknowledged (unacked_limit)",
            commands.Basic.Get,
        )
        assert pair.broker.vhosts["/"].queues["q"].message_count == 200

    def test_nothing_is_left_when_all_is_settled(self) -> None:
        """Whatever way a delivery ends, its memory is given back."""
        pair = Pair(unacked_limit=MB)
        ch = pair.connect().channel()
        ch.declare("q")
        ch.consume("q")
        publish(ch, 60, properties=PLAIN)
        tags = [delivery.tag for delivery in ch.deliveries()]
        ch.ack(tags[0])
        ch.ack(tags[9], multiple=True)
        ch.nack(tags[19], multiple=True, requeue=False)
        ch.reject(tags[20], requeue=False)
        ch.nack(tags[30], multiple=True)
        ch.reject(tags[31])
        ch.deliveries()
        ch.send(commands.Tx.Select())
        ch.expect(commands.Tx.SelectOk)
        ch.ack(tags[40], multiple=True)
        ch.call(commands.Tx.Commit(), commands.Tx.CommitOk)
        ch.call(commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
        assert ch.deliveries()
        ch.ack(0, multiple=True)
        ch.call(commands.Tx.Commit(), commands.Tx.CommitOk)
        outlet = ch.client.connection.outlet
        assert pair.broker.vhosts["/"].queues["q"].unacked_count == 0
        assert outlet.unacked_bytes == 0


class TestTransactions:
    def test_one_that_is_too_large_is_refused_and_leaves_nothing(self) -> None:
        pair = Pair(max_transaction_size=MB)
        ch = pair.connect().channel()
        ch.declare("q")
        ch.send(commands.Tx.Select())
        ch.expect(commands.Tx.SelectOk)
        publish(ch, 90, properties=PLAIN)
        ch.send(commands.Tx.Commit())
        ch.expect(commands.Tx.CommitOk)
        publish(ch, 110, properties=PLAIN)
        size = 100 * (300 + 2 + 10 * KB)
        ch.expect_close(
            406,
            f"PRECONDITION_FAILED - transaction size {size} is larger than configured max size {MB}",
            commands.Basic.Publish,
        )
        assert pair.broker.vhosts["/"].queues["q"].message_count == 90
