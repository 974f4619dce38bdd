"""Runs: publishes of one read that differ in their bodies alone are taken in, handed out and settled together.

Nothing of that may show: whatever holds for one message holds for each of a run.
"""

from collections import Counter

import pytest
from pamqp import commands

from rabbitlike.broker import broker
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.statistics.counters import NAMES, Counters
from rabbitlike.broker.tracing.event_columns import columns
from rabbitlike.broker.tracing.events import Rows
from rabbitlike.protocol.frames import DeliveryTemplate, OutBuffer
from rabbitlike.storage.columns import values
from tests.support import frames
from tests.support.pair import Channel, Client, Cut, Pair, bytewise, random_cuts, whole, whole_turns

#: More than are looked at together, and more than a ring begins with.
MANY = 300


def body(number: int) -> bytes:
    return b"%06d" % number


def bodies(first: int, count: int) -> list[bytes]:
    return [body(number) for number in range(first, first + count)]


def publish(channel: int, each: bytes, **fields: object) -> bytes:
    head = frames.encode_method(commands.Basic.Publish(routing_key="q"), channel)
    parts = [frames.body_frame(channel, each[at : at + 4088]) for at in range(0, len(each), 4088)]
    return head + frames.header_frame(channel, len(each), frames.properties(**fields)) + b"".join(parts)


def publishes(
    channel: int,
    first: int,
    count: int,
    *,
    key: str = "q",
    exchange: str = "",
    mandatory: bool = False,
    **fields: object,
) -> bytes:
    method = commands.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory)
    head = frames.encode_method(method, channel) + frames.header_frame(channel, 6, frames.properties(**fields))
    return b"".join(head + frames.body_frame(channel, each) for each in bodies(first, count))


def queue_of(pair: Pair, name: str = "q") -> Queue:
    queue = pair.broker.vhosts["/"].queues[name]
    assert isinstance(queue, Queue)
    return queue


def counted(counters: Counters) -> dict[str, int]:
    return {name: value for name in NAMES if (value := getattr(counters, name))}


def talk(*clients: Client) -> list[Channel]:
    return [client.channel() for client in clients]


# In


@pytest.mark.parametrize("cut", [whole, bytewise, random_cuts(1), random_cuts(2)])
def test_every_body_comes_through_in_order(cut: Cut) -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    ch.client.feed(publishes(1, 0, 60), cut)
    assert ch.drain() == bodies(0, 60)


def test_a_run_ends_where_something_else_stands() -> None:
    """Another size, other properties, another method, another channel: right where it was sent."""
    client = Pair().connect()
    ch, other = client.channel(), client.channel()
    ch.declare("q")
    longer = frames.encode_method(commands.Basic.Publish(routing_key="q"), 1) + frames.header_frame(1, 7, b"\x00\x00")
    client.feed(
        publishes(1, 0, 50)
        + longer
        + frames.body_frame(1, b"unequal")
        + publishes(1, 50, 50)
        + publishes(1, 100, 50, message_id="m")
        + publishes(2, 150, 50)
        + frames.encode_method(commands.Queue.Purge(queue="nothing"), other.number)
        + publishes(2, 0, 50)
        + publishes(1, 200, 50, message_id="m")
    )
    assert ch.drain() == [*bodies(0, 50), b"unequal", *bodies(50, 200)]
    assert other.expect(commands.Channel.Close).reply_code == 404


@pytest.mark.parametrize("cut", [whole, bytewise, random_cuts(3), random_cuts(4)])
@pytest.mark.parametrize("no_ack", [True, False])
def test_bodies_of_all_sizes(cut: Cut, no_ack: bool) -> None:
    """None at all, and more than fit in a frame, among them."""
    pair = Pair(cut=cut)
    publisher, ch = talk(pair.connect(frame_max=4096), pair.connect(frame_max=4096))
    ch.declare("q")
    ch.consume("q", no_ack=no_ack)
    sizes = [3, 3, 3, 3, 4, 5, 5, 700, 0, 1, 2, 4088, 4089, 4087, 9000, 1, 1, 0, 0, 6, 7, 7, 7, 8]
    sent = [bytes((n + 1,)) * size for n, size in enumerate(sizes)]
    publisher.feed(b"".join(publish(1, each) for each in sent))
    got = ch.deliveries()
    assert [(message.tag, message.body) for message in got] == list(enumerate(sent, 1))
    channel = ch.client.connection.channels[1]
    held = (queue_of(pair).unacked_bytes, channel.unacked.count)
    assert held == ((0, 0) if no_ack else (sum(sizes), len(sizes)))


def test_sizes_that_do_not_agree_end_a_run() -> None:
    """A body that is announced larger than its frame goes on in the next one."""
    ch = Pair().connect().channel()
    ch.declare("q")
    parted = publish(1, b"parts")[: -len(frames.body_frame(1, b"parts"))]
    parted += frames.body_frame(1, b"pa") + frames.body_frame(1, b"rts")
    ch.feed(publishes(1, 0, 9) + parted + publishes(1, 9, 9))
    assert ch.drain() == [*bodies(0, 9), b"parts", *bodies(9, 9)]


def test_an_empty_body_has_no_frame_also_in_a_run() -> None:
    pair = Pair()
    ch, watcher = talk(pair.connect(), pair.connect())
    ch.declare("q")
    ch.feed(publishes(1, 0, 9) + publish(1, b"") + frames.body_frame(1, b"") + publishes(1, 9, 9))
    assert ch.client.expect(commands.Connection.Close).reply_code == 505
    assert watcher.drain() == [*bodies(0, 9), b""]


def test_a_body_too_large_amid_a_run() -> None:
    pair = Pair(max_message_size=100)
    ch, watcher = talk(pair.connect(), pair.connect())
    ch.declare("q")
    ch.feed(publishes(1, 0, 9) + publish(1, b"x" * 101) + publishes(1, 9, 9))
    assert ch.expect(commands.Channel.Close).reply_code == 406
    assert watcher.drain() == bodies(0, 9)


def test_a_wrong_end_amid_a_run() -> None:
    """What stands before it has been taken, nothing behind it is."""
    pair = Pair()
    ch, watcher = talk(pair.connect(), pair.connect())
    ch.declare("q")
    data = bytearray(publishes(1, 0, 100))
    step = len(data) // 100
    data[step * 60 - 1] = 0xCD
    ch.feed(bytes(data))
    assert ch.client.expect(commands.Connection.Close).reply_code == 501
    assert watcher.drain() == bodies(0, 59)


@whole_turns
def test_a_refusal_amid_a_run() -> None:
    """A queue that is full refuses each by itself, and says so in order."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 30, "x-overflow": "reject-publish"})
    ch.confirm()
    ch.feed(publishes(1, 0, 50))
    assert ch.expect_confirms() == [("ack", 30, True), ("nack", 50, True)]
    assert ch.drain() == bodies(0, 30)


def test_a_limit_drops_from_the_head() -> None:
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 30})
    ch.feed(publishes(1, 0, 50))
    assert ch.drain() == bodies(20, 30)


@whole_turns
def test_each_that_goes_nowhere_comes_back() -> None:
    ch = Pair().connect().channel()
    ch.confirm()
    ch.feed(publishes(1, 0, 20, key="nowhere", mandatory=True))
    assert [ch.expect_message(commands.Basic.Return).body for _ in range(20)] == bodies(0, 20)
    assert ch.expect_confirms() == [("ack", 20, True)]


def test_a_run_in_a_transaction_waits_for_its_commit() -> None:
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    ch.feed(publishes(1, 0, 20))
    assert ch.get() is None
    ch.call(commands.Tx.Commit(), commands.Tx.CommitOk)
    assert ch.drain() == bodies(0, 20)


def test_a_run_that_may_not_be_published_closes_the_channel_once() -> None:
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.feed(publishes(1, 0, 20, user_id="somebody else"))
    assert ch.expect(commands.Channel.Close).reply_code == 406
    ch.expect_nothing()


@whole_turns
def test_each_of_a_run_is_confirmed_and_counted() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    for queue in ("q", "r"):
        ch.declare(queue)
        ch.bind(queue, "amq.fanout")
    ch.confirm()
    ch.feed(publishes(1, 0, MANY, exchange="amq.fanout", delivery_mode=2))
    assert ch.expect_confirms() == [("ack", MANY, True)]
    vhost = pair.broker.vhosts["/"]
    exchange = vhost.exchanges["amq.fanout"]
    channel = ch.client.connection.channels[1]
    assert counted(channel.counters) == {"publish": MANY, "confirm": MANY}
    assert counted(vhost.counters) == {"publish": MANY, "confirm": MANY}
    assert counted(exchange.counters) == {"publish_in": MANY, "publish_out": 2 * MANY}
    assert counted(channel.publishes[exchange]) == {"publish": MANY, "confirm": MANY}
    for name in ("q", "r"):
        queue = queue_of(pair, name)
        assert counted(queue.counters) == {"publish": MANY}
        assert counted(queue.inlet(exchange)) == {"publish": MANY}
        assert (queue.ready.count, queue.ready.body_bytes) == (MANY, 6 * MANY)
        assert (queue.persistent_count, queue.persistent_bytes) == (MANY, 6 * MANY)
        assert queue.last_position == MANY
        assert ch.drain(name) == bodies(0, MANY)
        assert queue.ready.memory_bytes == 0


def test_an_exchange_that_minds_duplicates_drops_all_but_one() -> None:
    ch = Pair().connect().channel()
    ch.declare_exchange("x", arguments={"x-message-deduplication": True})
    ch.declare("q")
    ch.bind("q", "x", "q")
    ch.feed(publishes(1, 0, 20, exchange="x", headers={"x-deduplication-header": "the same"}))
    assert ch.drain() == bodies(0, 1)


@pytest.mark.parametrize("rows_at_once", [1, 7, 100_000])
@pytest.mark.parametrize("fields", [{}, {"message_id": "m-1", "priority": 3}], ids=["plain", "with an id"])
@pytest.mark.parametrize("trace", [None, False], ids=["told of", "left out"])
def test_the_event_log_tells_of_each_of_a_run(
    rows_at_once: int, fields: dict[str, object], trace: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row by row what it tells of messages that come one by one, wherever its rows are full."""
    monkeypatch.setattr(broker, "EVENTS_AT_ONCE", rows_at_once)
    arguments = {} if trace is None else {"x-trace": trace}
    as_run, one_by_one = (told_of(cut, fields, arguments) for cut in (whole, bytewise))
    # When a publish is confirmed in the course of others is left open.
    for is_confirm in (True, False):
        told, expected = (
            [row for row in each if (row["event"] == "confirm") is is_confirm] for each in (as_run, one_by_one)
        )
        assert told == expected
    each = ("publish", "enqueue", "confirm", "deliver", "ack") if trace is None else ("publish", "confirm")
    assert Counter(row["event"] for row in as_run) == dict.fromkeys(each, 60)


def told_of(cut: Cut, fields: dict[str, object], arguments: dict[str, object]) -> list[dict[str, object]]:
    """What the log tells of publishes in two reads, deliveries later, with some room for them, and acks of many."""
    found: list[dict[str, object]] = []

    def export(rows: Rows) -> bool:
        named = {name: values(column, rows.count) for name, column in columns(rows, "n").items() if name != "seq"}
        found.extend(dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=True))
        return True

    pair = Pair(event_log=True)
    pair.broker.events.export = export
    ch = pair.connect().channel()
    ch.declare("q", arguments=arguments)
    ch.confirm()
    ch.client.feed(publishes(1, 0, 20, **fields), cut)
    pair.advance(5)
    ch.client.feed(b"".join(publish(1, b"x" * (n // 3 + 1), **fields) for n in range(40)), cut)
    pair.advance(7)
    ch.expect_confirms()
    ch.qos(50)
    ch.consume("q", "c")
    pair.advance(11)
    ch.ack(30, multiple=True)
    pair.advance(13)
    ch.ack(60, multiple=True)
    pair.broker.events.seal()
    return found


def test_a_run_gets_its_share_and_no_more() -> None:
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-priority-mode": "weighted", "x-priority-weights": "2,1"})
    ch.feed(publishes(1, 0, 20, priority=0) + publishes(1, 20, 20, priority=1))
    ch.consume("q", no_ack=True)
    assert ch.bodies()[:9] == [body(n) for n in (20, 21, 0, 22, 23, 1, 24, 25, 2)]


def test_a_run_keeps_to_its_priority() -> None:
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-priority": 5})
    ch.feed(publishes(1, 0, 40) + publishes(1, 40, 40, priority=3))
    ch.consume("q", no_ack=True)
    assert ch.bodies() == [*bodies(40, 40), *bodies(0, 40)]


def test_a_ring_takes_runs_wherever_it_stands() -> None:
    """In and out by odd numbers: runs go over its end, and it grows amid them."""
    ch = Pair().connect().channel()
    ch.declare("q")
    sent = got = 0
    for size in (3, 11, 2, 13, 30, 1, 64, 5, 200, 16, 17):
        ch.feed(publishes(1, sent, size))
        sent += size
        for _ in range(size * 2 // 3):
            message = ch.get()
            assert message is not None
            assert message.body == body(got)
            got += 1
    assert ch.drain() == bodies(got, sent - got)


# Out


@pytest.mark.parametrize("no_ack", [True, False])
@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_run_is_delivered_whole(no_ack: bool, is_waiting: bool) -> None:
    pair = Pair()
    publisher, ch = talk(pair.connect(), pair.connect())
    ch.declare("q")
    if not is_waiting:
        ch.consume("q", "c", no_ack=no_ack)
    publisher.feed(publishes(1, 0, MANY, delivery_mode=2, content_type="text/plain"))
    if is_waiting:
        pair.advance(9)
        publisher.feed(publishes(1, MANY, 5, delivery_mode=2, content_type="text/plain"))
        ch.consume("q", "c", no_ack=no_ack)
    count = MANY + 5 if is_waiting else MANY
    got = ch.deliveries()
    assert [(message.tag, message.body) for message in got] == [(n + 1, body(n)) for n in range(count)]
    assert {message.properties.content_type for message in got} == {"text/plain"}
    assert not any(message.redelivered for message in got)
    queue = queue_of(pair)
    channel = ch.client.connection.channels[1]
    held = 0 if no_ack else count
    name = "deliver_no_ack" if no_ack else "deliver"
    assert counted(queue.counters) == {"publish": count, name: count}
    assert counted(channel.counters) == counted(channel.deliveries[queue]) == {name: count}
    assert (queue.ready.count, queue.ready.body_bytes, queue.ready.memory_bytes) == (0, 0, 0)
    assert (queue.unacked_count, queue.unacked_bytes) == (held, 6 * held)
    assert (queue.unacked_persistent_count, queue.unacked_persistent_bytes) == (held, 6 * held)
    assert (queue.persistent_count, queue.persistent_bytes) == (held, 6 * held)
    assert (channel.unacked.count, channel.unacked.held) == (held, held)
    assert queue.wait_time.count == count
    assert queue.wait_time.total_ms == (9 * MANY if is_waiting else 0)


def test_a_prefetch_is_kept_to() -> None:
    pair = Pair()
    publisher, ch = talk(pair.connect(), pair.connect())
    ch.declare("q")
    ch.qos(25)
    ch.consume("q")
    publisher.feed(publishes(1, 0, 100))
    assert ch.bodies() == bodies(0, 25)
    ch.ack(20, multiple=True)
    assert ch.bodies() == bodies(25, 20)
    ch.ack(21)
    assert ch.bodies() == bodies(45, 1)


def test_a_prefetch_of_the_channel_is_kept_to() -> None:
    pair = Pair()
    publisher, ch = talk(pair.connect(), pair.connect())
    for queue in ("q", "r"):
        ch.declare(queue)
    ch.qos(25, is_global=True)
    ch.consume("q", "of q")
    ch.consume("r", "of r")
    publisher.feed(publishes(1, 0, 10, key="r"))
    publisher.feed(publishes(1, 10, 100))
    assert ch.bodies() == bodies(0, 25)
    ch.ack(10, multiple=True)
    assert ch.bodies() == bodies(25, 10)


def test_two_consumers_take_turns() -> None:
    pair = Pair()
    publisher, one, two = talk(pair.connect(), pair.connect(), pair.connect())
    one.declare("q")
    one.consume("q", no_ack=True)
    two.consume("q", no_ack=True)
    publisher.feed(publishes(1, 0, 100))
    assert one.bodies() == bodies(0, 100)[::2]
    assert two.bodies() == bodies(0, 100)[1::2]


def test_the_lesser_consumer_gets_what_the_other_cannot_take() -> None:
    pair = Pair()
    publisher, first, second = talk(pair.connect(), pair.connect(), pair.connect())
    first.declare("q")
    first.qos(30)
    first.consume("q", arguments={"x-priority": 10})
    second.consume("q", no_ack=True)
    publisher.feed(publishes(1, 0, 100))
    assert first.bodies() == bodies(0, 30)
    assert second.bodies() == bodies(30, 70)


def test_a_way_out_that_is_full_ends_a_run() -> None:
    """No more than the limit and one message more, then nothing until the client has read."""
    pair = Pair(out_buffer_limit=5000)
    publisher, ch = talk(pair.connect(), pair.connect())
    ch.declare("q")
    ch.consume("q", "c", no_ack=True)
    ch.client.stop_reading()
    written: list[int] = []
    write = ch.client.wire.write

    def watch(data: bytes) -> None:
        written.append(len(data))
        write(data)

    ch.client.wire.write = watch  # type: ignore[method-assign]
    publisher.feed(publishes(1, 0, 4000))
    assert 0 < queue_of(pair).ready.count < 4000
    assert 5000 <= max(written) <= 5000 + 100
    ch.client.start_reading()
    assert ch.bodies() == bodies(0, 4000)


def test_what_came_back_or_expires_stands_out_of_a_run() -> None:
    pair = Pair()
    publisher, ch, holder = talk(pair.connect(), pair.connect(), pair.connect())
    ch.declare("q")
    publisher.feed(publishes(1, 0, 5))
    taken = [holder.get(no_ack=False) for _ in range(3)]
    publisher.feed(publishes(1, 5, 20) + publishes(1, 25, 10, expiration="50") + publishes(1, 35, 20))
    holder.nack(taken[1].tag if taken[1] else 0)
    pair.advance(60)
    ch.consume("q")
    got = ch.deliveries()
    assert [message.body for message in got] == [body(1), *bodies(3, 22), *bodies(35, 20)]
    assert [message.redelivered for message in got] == [True] + [False] * 42


def test_a_backlog_of_several_kinds() -> None:
    """Each goes out with its own properties and address, those of the same size too."""
    pair = Pair()
    publisher, ch = talk(pair.connect(), pair.connect())
    ch.declare("q")
    ch.bind("q", "amq.topic", "#")
    for first, key, message_id in ((0, "a", "1"), (20, "a", "2"), (40, "b", "2"), (60, "a", "1")):
        publisher.feed(publishes(1, first, 20, exchange="amq.topic", key=key, message_id=message_id))
    ch.consume("q", no_ack=True)
    told = [(message.body, message.routing_key, message.properties.message_id) for message in ch.deliveries()]
    assert told == [
        (body(n), key, message_id)
        for first, key, message_id in ((0, "a", "1"), (20, "a", "2"), (40, "b", "2"), (60, "a", "1"))
        for n in range(first, first + 20)
    ]


@pytest.mark.parametrize("first_tag", [1, 250, 65_500, 2**32 - 3, 2**63 - 400])
def test_a_run_has_the_octets_of_its_deliveries(first_tag: int) -> None:
    made = [b"x" * (n % 70 + 1) for n in range(300)]
    properties = frames.properties(message_id="m", headers={"a": 1})

    def deliver(out: OutBuffer, tag: int, each: bytes) -> None:
        out.put_deliver(3, b"\x01c", tag, False, b"\x00\x01q", properties, each, 4088)

    sample = OutBuffer()
    deliver(sample, 1, b"sample")
    like = DeliveryTemplate(sample.take(), 11 + 2, len(properties), 6)
    together, one_by_one, apart = OutBuffer(), OutBuffer(), OutBuffer()
    for out in (together, one_by_one, apart):
        out.put(b"before")
    together.put_run(like, first_tag, made, sum(map(len, made)))
    for tag, each in enumerate(made, first_tag):
        one_by_one.put_like(like, tag, each)
        deliver(apart, tag, each)
    assert together.take() == one_by_one.take() == apart.take()


# Settled


@whole_turns
def test_an_ack_of_many() -> None:
    """Deliveries of two times, two queues, a consumer and basic.get, in one ack, each counted where it belongs."""
    pair = Pair()
    publisher, ch = talk(pair.connect(), pair.connect())
    for queue in ("q", "r"):
        ch.declare(queue)
        ch.consume(queue)
    ch.declare("s")
    publisher.feed(publishes(1, 0, 30, delivery_mode=2))
    pair.advance(4)
    publisher.feed(publishes(1, 30, 10) + publishes(1, 0, 20, key="r") + publishes(1, 0, 5, key="s"))
    ch.deliveries()
    assert ch.get("s", no_ack=False) is not None
    pair.advance(2)
    ch.ack(35, multiple=True)
    queue = queue_of(pair)
    channel = ch.client.connection.channels[1]
    assert (queue.unacked_count, queue.unacked_bytes, queue.persistent_count) == (5, 30, 0)
    assert (queue.processing_time.count, queue.processing_time.total_ms) == (35, 30 * 6 + 5 * 2)
    assert (channel.unacked.count, channel.unacked.held) == (26, 25)
    ch.ack(0, multiple=True)
    assert counted(channel.counters)["ack"] == 61
    for name, acks in (("q", 40), ("r", 20), ("s", 1)):
        queue = queue_of(pair, name)
        assert (queue.unacked_count, queue.unacked_bytes) == (0, 0)
        assert queue.counters.ack == channel.deliveries[queue].ack == acks
        assert queue.processing_time.count == acks
    assert (channel.unacked.count, channel.unacked.held) == (0, 0)
    assert [consumer.held for consumer in channel.consumers.values()] == [0, 0]


def test_an_ack_of_what_several_were_given_at_once() -> None:
    pair = Pair()
    publisher, ch = talk(pair.connect(), pair.connect())
    for queue in ("q", "r", "s"):
        ch.declare(queue)
    ch.consume("q", "one")
    ch.consume("q", "two")
    publisher.feed(publishes(1, 0, 20) + publishes(1, 0, 5, key="r") + publishes(1, 0, 5, key="s"))
    ch.deliveries()
    for queue in ("r", "s", "s"):
        ch.get(queue, no_ack=False)
    channel = ch.client.connection.channels[1]
    assert [consumer.held for consumer in channel.consumers.values()] == [10, 10]
    ch.ack(0, multiple=True)
    assert [consumer.held for consumer in channel.consumers.values()] == [0, 0]
    assert [queue_of(pair, name).counters.ack for name in ("q", "r", "s")] == [20, 1, 2]
    assert [queue_of(pair, name).unacked_count for name in ("q", "r", "s")] == [0, 0, 0]
