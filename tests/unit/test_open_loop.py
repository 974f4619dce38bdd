"""The open-loop generator: it counts whole deliveries once, acknowledges all of them, and repeats no message."""

import socket
import struct
from collections.abc import Iterator
from typing import Self, cast

import pytest

from benchmarks import brokers, messages, openloop, wire
from benchmarks.brokers import Place, Running
from benchmarks.client import Client, Refused
from benchmarks.messages import CYCLE, ID_BYTES, Encode
from benchmarks.scenarios import scenarios, unpaced
from benchmarks.scenarios.scenario import Messages, Unit

QUEUE = "open"
PROPERTIES = messages.own_properties(200)
SIZES = messages.own_sizes()


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    with brokers.rabbitlike().running(Place.DISK) as running:
        yield running


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openloop, "WARM_UP_S", 0.05)


def run(broker: Running, encode: Encode, lanes: int, ack_every: int, most: int) -> openloop.Seen:
    publishers = [encode(QUEUE, publisher) for publisher in range(lanes)]
    load = openloop.Load(QUEUE, publishers, lanes, 2000 if ack_every else 0, ack_every, most=most, drain_s=30)
    with Client(broker.address) as client:
        client.open_channel()
        client.delete_queue(QUEUE)
        client.declare_queue(QUEUE)
        seen = openloop.run(broker, load, 0.2)
        assert client.declare_queue(QUEUE) == 0, "unacknowledged deliveries go back to the queue"
    return seen


@pytest.mark.parametrize("ack_every", [0, 1, 100])
@pytest.mark.parametrize(("encode", "lanes"), [(PROPERTIES, 1), (PROPERTIES, 4), (SIZES, 1), (SIZES, 4)])
def test_all_that_was_published_is_delivered_and_acknowledged(
    broker: Running, encode: Encode, lanes: int, ack_every: int
) -> None:
    most = CYCLE + 77  # beyond a whole cycle, and no multiple of the acks
    seen = run(broker, encode, lanes, ack_every, most)
    assert seen.total_published == seen.total_delivered == lanes * most
    assert seen.undelivered == 0
    assert seen.delivered <= seen.total_delivered
    assert 1 < seen.ids_seen <= min(seen.ids_checked, lanes * CYCLE)


def test_publishers_stop_at_a_whole_message(broker: Running) -> None:
    seen = run(broker, SIZES, 4, 100, most=0)
    assert seen.total_published == seen.total_delivered > 0
    assert 0 < seen.delivered < seen.total_delivered, "the warm-up is not counted"


@pytest.mark.parametrize("encode", [messages.own_bodies(1024), messages.own_properties(1024), SIZES])
def test_messages_of_a_run_are_all_different(encode: Encode) -> None:
    """Also from those of the other publishers. The ids stand where the consumer looks for them."""
    cycles = [encode(QUEUE, publisher) for publisher in range(4)]
    frames = [frame for cycle in cycles for frame in cycle]
    assert len(frames) == len(set(frames)) == 4 * CYCLE
    ids = {frame[body_offset(frame) :][:ID_BYTES] for frame in frames}
    assert len(ids) == 4 * CYCLE
    assert ids == {each.encode() for publisher in range(4) for each in messages.ids(publisher)}


def test_properties_are_those_of_an_application() -> None:
    from pamqp import commands, frame, header

    raw = messages.own_properties(100)("q", 0)[5]
    size, _, method = frame.unmarshal(raw)
    assert isinstance(method, commands.Basic.Publish)
    _, _, content = frame.unmarshal(raw[size:])
    assert isinstance(content, header.ContentHeader)
    props = content.properties
    assert props.message_id == messages.ids(0)[5]
    assert len(cast(str, props.correlation_id)) == ID_BYTES
    assert props.timestamp is not None
    assert sorted(props.headers or {}) == ["attempt", "is-replay", "schema-version", "tenant", "trace-id"]


def test_sizes_vary_around_a_kilobyte() -> None:
    sizes = [len(frame) - 1 - body_offset(frame) for frame in SIZES(QUEUE, 0)]
    assert min(sizes) >= messages.SMALLEST
    assert max(sizes) <= messages.LARGEST
    assert len(set(sizes)) > 500
    assert 600 < sum(sizes) / len(sizes) < 1400


def body_offset(publish: bytes) -> int:
    method = struct.unpack_from(">I", publish, 3)[0] + 8
    return int(method + struct.unpack_from(">I", publish, method + 3)[0] + 8 + 7)


# What a consumer must not accept. The deliveries come from a socket pair, not from a broker.


def delivery(tag: int, message: bytes, *, redelivered: bool = False) -> bytes:
    size = struct.unpack_from(">I", message, 3)[0] + 8
    address = wire.shortstr("c") + struct.pack(">QB", tag, redelivered) + wire.shortstr("") + wire.shortstr(QUEUE)
    return wire.method(1, wire.DELIVER, address) + message[size:]


class Wire:
    """A consumer, and the broker's end of its socket."""

    def __init__(self, encode: Encode, ack_every: int = 0) -> None:
        self.cycle = encode(QUEUE, 0)
        client = Client.__new__(Client)
        client.sock, self.end = socket.socketpair()
        is_uniform = openloop.Load(QUEUE, [self.cycle]).is_uniform
        self.drain = openloop.Drain(client, ack_every, is_uniform)

    def __enter__(self) -> Self:
        """The first two deliveries have come: the first is read frame by frame."""
        self.feed(delivery(1, self.cycle[0]))
        self.feed(delivery(2, self.cycle[1]))
        assert self.drain.count == 2
        return self

    def __exit__(self, *_: object) -> None:
        self.drain.client.sock.close()
        self.end.close()

    def feed(self, raw: bytes) -> bool:
        self.end.sendall(raw)
        return self.drain.read()


@pytest.mark.parametrize("encode", [PROPERTIES, SIZES])
def test_half_a_delivery_is_not_counted(encode: Encode) -> None:
    with Wire(encode) as peer:
        third = delivery(3, peer.cycle[2])
        for octet in range(len(third) - 1):
            assert not peer.feed(third[octet : octet + 1])
        assert peer.drain.count == 2
        assert peer.feed(third[-1:] + delivery(4, peer.cycle[3])[:-1])
        assert peer.drain.count == 3


@pytest.mark.parametrize("encode", [PROPERTIES, SIZES])
def test_a_delivery_that_comes_twice_is_refused(encode: Encode) -> None:
    with Wire(encode) as peer, pytest.raises(Refused, match="delivery tag 2 where 3 was due"):
        peer.feed(delivery(2, peer.cycle[1]))
    with Wire(encode) as peer, pytest.raises(Refused, match="the same message"):
        peer.feed(delivery(3, peer.cycle[2]) + delivery(4, peer.cycle[2]))
    with Wire(encode) as peer, pytest.raises(Refused, match="redelivery"):
        peer.feed(delivery(3, peer.cycle[2], redelivered=True))


def test_acks_come_one_for_a_hundred_and_one_for_the_rest() -> None:
    with Wire(PROPERTIES, ack_every=100) as peer:
        peer.feed(b"".join(delivery(tag, peer.cycle[tag]) for tag in range(3, 251)))
        assert peer.drain.count == 250
        peer.drain.finish()
        acks = wire.ack(100, multiple=True) + wire.ack(200, multiple=True) + wire.ack(250, multiple=True)
        assert peer.end.recv(4096) == acks
        assert peer.end.recv(4096) == b""


def test_rows_of_the_table_say_whether_they_repeat_one_message() -> None:
    rows = scenarios(1000)
    assert [row.name for row in rows[: len(unpaced.SCENARIOS)]] == [row.name for row in unpaced.SCENARIOS]
    for row in rows:
        moves_messages = row.unit is Unit.RATE and not row.name.endswith("-churn")
        assert not moves_messages or row.messages is not Messages.NONE, row.name
        assert not row.name.startswith("open-") or row.messages is not Messages.ONE
