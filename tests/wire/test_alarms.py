"""Alarms: who is blocked, who hears of it, what goes on meanwhile (items 34, 39)."""

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.pair import CAPABILITIES, Client, Pair


def publish_octets(channel: int, body: bytes, key: str = "q") -> bytes:
    return (
        frames.encode_method(commands.Basic.Publish(routing_key=key), channel)
        + frames.header_frame(channel, len(body))
        + frames.body_frame(channel, body)
    )


def raise_alarm(pair: Pair, source: str = "memory") -> None:
    pair.broker.alarms.raise_(source)
    pair.settle()


def clear_alarm(pair: Pair, source: str = "memory") -> None:
    pair.broker.alarms.clear(source)
    pair.settle()


def expect_blocked(client: Client, reason: str) -> None:
    assert client.expect(commands.Connection.Blocked).reason == reason
    client.expect_nothing()
    assert not client.wire.is_reading


def expect_unblocked(client: Client) -> None:
    client.expect(commands.Connection.Unblocked)
    assert client.wire.is_reading


@pytest.mark.parametrize(("source", "reason"), [("memory", "low on memory"), ("disk", "low on disk")])
def test_publisher_is_blocked(pair: Pair, source: str, reason: str) -> None:
    """#39 A publish during the alarm gets connection.blocked, once, and its socket is not read until it is over."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.publish(b"before", key="q")
    raise_alarm(pair, source)
    client.expect_nothing()
    ch.publish(b"first", key="q")
    expect_blocked(client, reason)
    ch.publish(b"second", key="q")
    ch.publish(b"third", key="q")
    client.expect_nothing()
    clear_alarm(pair, source)
    expect_unblocked(client)
    client.expect_nothing()
    assert ch.drain("q") == [b"before", b"first", b"second", b"third"]


def test_one_read_full_of_publishes(pair: Pair) -> None:
    """#39 Many publishes in one read are one connection.blocked; none is lost and none counted twice."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.confirm()
    raise_alarm(pair)
    client.feed(b"".join(publish_octets(ch.number, b"%d" % number) for number in range(50)))
    assert client.expect(commands.Connection.Blocked).reason == "low on memory"
    clear_alarm(pair)
    client.expect(commands.Connection.Unblocked)
    confirmed: set[int] = set()
    for _, tag, multiple in ch.expect_confirms():
        confirmed |= set(range(1, tag + 1)) if multiple else {tag}
    assert confirmed == set(range(1, 51))
    client.expect_nothing()
    assert ch.drain("q") == [b"%d" % number for number in range(50)]


def test_consumers_never_hear_of_it(pair: Pair) -> None:
    """#39 Connections that do not publish go on as ever: consuming, declaring, acking."""
    publisher, consumer = pair.connect(), pair.connect()
    source, sink = publisher.channel(), consumer.channel()
    sink.declare("q")
    for number in range(4):
        source.publish(b"%d" % number, key="q")
    raise_alarm(pair)
    sink.qos(1)
    sink.consume("q")
    for number in range(4):
        message = sink.expect_message()
        assert message.body == b"%d" % number
        sink.ack(message.tag)
    sink.declare("another")
    consumer.expect_nothing()
    assert consumer.wire.is_reading
    clear_alarm(pair)
    consumer.expect_nothing()
    publisher.expect_nothing()


def test_blocked_client_is_still_delivered_to(pair: Pair) -> None:
    """#39 What stops is the client's publishing, not its consuming: memory must be able to drain."""
    client, other = pair.connect(), pair.connect()
    ch, theirs = client.channel(), other.channel()
    ch.declare("q")
    ch.declare("mine")
    ch.consume("mine", no_ack=True)
    theirs.publish(b"held", key="q")
    held = theirs.get("q", no_ack=False)
    assert held is not None
    raise_alarm(pair)
    ch.publish(b"x", key="mine")
    assert client.expect(commands.Connection.Blocked).reason == "low on memory"
    assert ch.bodies() == [b"x"]
    client.connection.send_heartbeat()
    assert client.take() is not None, "heartbeats go out to a blocked client"


def test_without_the_capability(pair: Pair) -> None:
    """#39 A client that did not say it understands connection.blocked is blocked without a word."""
    capabilities = [name for name in CAPABILITIES if name != "connection.blocked"]
    client = pair.connect(capabilities=capabilities)
    ch = client.channel()
    ch.declare("q")
    raise_alarm(pair)
    ch.publish(b"1", key="q")
    ch.publish(b"2", key="q")
    client.expect_nothing()
    assert not client.wire.is_reading
    clear_alarm(pair)
    client.expect_nothing()
    assert client.wire.is_reading
    assert ch.drain("q") == [b"1", b"2"]


def test_two_alarms(pair: Pair) -> None:
    """#39 With two alarms there is still one blocked and one unblocked, the latter when both are over."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    raise_alarm(pair, "memory")
    raise_alarm(pair, "disk")
    ch.publish(b"1", key="q")
    expect_blocked(client, "low on memory & disk")
    clear_alarm(pair, "memory")
    client.expect_nothing()
    assert not client.wire.is_reading
    raise_alarm(pair, "memory")
    clear_alarm(pair, "disk")
    client.expect_nothing()
    clear_alarm(pair, "memory")
    expect_unblocked(client)
    client.expect_nothing()


def test_again_and_again(pair: Pair) -> None:
    """#39 The next alarm starts anew: only whoever publishes during it."""
    client, other = pair.connect(), pair.connect()
    ch, theirs = client.channel(), other.channel()
    ch.declare("q")
    raise_alarm(pair)
    ch.publish(b"1", key="q")
    expect_blocked(client, "low on memory")
    clear_alarm(pair)
    expect_unblocked(client)
    raise_alarm(pair)
    client.expect_nothing()
    ch.send(commands.Queue.Declare(queue="q", passive=True))
    ch.expect(commands.Queue.DeclareOk)
    theirs.publish(b"2", key="q")
    expect_blocked(other, "low on memory")
    client.expect_nothing()
    ch.publish(b"3", key="q")
    expect_blocked(client, "low on memory")
    clear_alarm(pair)
    expect_unblocked(client)
    expect_unblocked(other)


def test_connections_made_during_the_alarm(pair: Pair) -> None:
    """#39 New clients may connect and consume; their first publish blocks them."""
    raise_alarm(pair)
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    client.expect_nothing()
    ch.publish(b"1", key="q")
    expect_blocked(client, "low on memory")


@pytest.mark.parametrize("kind", ["unroutable", "mandatory", "transaction"])
def test_every_publish_counts(pair: Pair, kind: str) -> None:
    """#39 Whatever becomes of the message: the client has tried to publish."""
    client = pair.connect()
    ch = client.channel()
    if kind == "transaction":
        ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    raise_alarm(pair)
    ch.publish(b"1", key="nowhere", mandatory=kind == "mandatory")
    assert client.expect(commands.Connection.Blocked).reason == "low on memory"
    if kind == "mandatory":
        assert ch.expect_message(commands.Basic.Return).body == b"1"
    assert not client.wire.is_reading


def test_blocked_client_that_goes(pair: Pair) -> None:
    """#34 A socket that dies while blocked is cleaned up, and nothing is written to it later."""
    client, other = pair.connect(), pair.connect()
    ch = client.channel()
    ch.declare("mine", exclusive=True)
    raise_alarm(pair)
    ch.publish(b"1", key="mine")
    expect_blocked(client, "low on memory")
    client.drop()
    clear_alarm(pair)
    assert not client.wire.late
    other.channel().declare("mine", exclusive=True)


def test_blocked_client_can_be_closed(pair: Pair) -> None:
    """#34 The broker can say goodbye to a blocked client, which must be able to answer."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    raise_alarm(pair)
    ch.publish(b"1", key="q")
    expect_blocked(client, "low on memory")
    client.connection.shutdown(320, "because")
    pair.settle()
    client.expect_close(320, "CONNECTION_FORCED - because", None)


def test_reading_is_paused_and_resumed_through_the_wire(pair: Pair) -> None:
    """#34 The socket is not read while blocked: the transport pauses its heartbeat check with it (pause_reading)."""
    client = pair.connect(heartbeat=10)
    ch = client.channel()
    ch.declare("q")
    calls: list[str] = []
    pause, resume = client.wire.pause_reading, client.wire.resume_reading
    client.wire.pause_reading = lambda: (calls.append("pause"), pause())[1]  # type: ignore[method-assign, func-returns-value]
    client.wire.resume_reading = lambda: (calls.append("resume"), resume())[1]  # type: ignore[method-assign, func-returns-value]
    raise_alarm(pair)
    client.feed(publish_octets(ch.number, b"1") + publish_octets(ch.number, b"2"))
    pair.advance(120_000)
    assert calls == ["pause"]
    assert not client.wire.is_gone
    clear_alarm(pair)
    assert calls == ["pause", "resume"]


def test_half_a_message_is_blocked(pair: Pair) -> None:
    """#39 A body that comes in many frames is stopped before its end: what is gathered takes memory, too."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    octets = frames.encode_method(commands.Basic.Publish(routing_key="q"), ch.number) + frames.header_frame(
        ch.number, 30
    )
    client.feed(octets + frames.body_frame(ch.number, b"first part"))
    raise_alarm(pair)
    client.expect_nothing()
    client.feed(frames.body_frame(ch.number, b" and next "))
    expect_blocked(client, "low on memory")
    client.feed(frames.body_frame(ch.number, b" and last "))
    clear_alarm(pair)
    expect_unblocked(client)
    assert ch.drain("q") == [b"first part and next  and last "]


def test_half_a_message_at_the_gate(pair: Pair) -> None:
    """#34 Octets of a frame left over when reading stopped are there when it goes on."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    raise_alarm(pair)
    octets = publish_octets(ch.number, b"whole") + publish_octets(ch.number, b"half")
    client.feed(octets[:-10])
    client.feed(octets[-10:])
    client.expect(commands.Connection.Blocked)
    clear_alarm(pair)
    expect_unblocked(client)
    assert ch.drain("q") == [b"whole", b"half"]
