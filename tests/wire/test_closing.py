"""How channels and connections end: who answers, what is discarded and what is given back (items 8, 9, 16, 17)."""

import re

import pytest
from pamqp import base, commands

from tests.support.frames import body_frame, encode_method, header_frame, method_frame
from tests.support.pair import Channel, Client, Pair


def break_channel(ch: Channel) -> None:
    """Make the server close the channel; its close is taken but not answered."""
    ch.send(commands.Queue.Declare(queue="nope", passive=True))
    assert ch.expect(commands.Channel.Close).reply_code == 404


def everything(channel: int) -> bytes:
    """Frames of every sort, which a closing channel has to discard."""
    return (
        encode_method(commands.Queue.Declare(queue="never"), channel)
        + encode_method(commands.Basic.Publish(routing_key="q"), channel)
        + header_frame(channel, 4)
        + body_frame(channel, b"lost")
        + encode_method(commands.Basic.Ack(99), channel)
        + encode_method(commands.Queue.Declare(queue="nope", passive=True), channel)
        + encode_method(commands.Channel.Open(), channel)
        + header_frame(channel, 0)
        + body_frame(channel, b"lonely")
    )


# -------------------------------------------------------------------------------------------------- channels


def test_closing_channel_discards(pair: Pair) -> None:
    """#8 After the server's channel.close everything on that channel is discarded until close-ok."""
    client = pair.connect()
    ch, other = client.channel(1), client.channel(2)
    other.declare("q")
    break_channel(ch)
    client.feed(everything(1))
    client.expect_nothing()
    assert other.drain("q") == []
    other.send(commands.Queue.Declare(queue="never", passive=True))
    other.expect_close(404, "NOT_FOUND - no queue 'never' in vhost '/'", commands.Queue.Declare)


def test_closing_channel_answers_a_close(pair: Pair) -> None:
    """#8 Both sides may close at once: the client's close is answered, the rest still discarded."""
    client = pair.connect()
    ch = client.channel(1)
    break_channel(ch)
    ch.call(commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
    client.feed(everything(1))
    client.expect_nothing()
    ch.send(commands.Channel.CloseOk())
    client.expect_nothing()
    ch.open()
    ch.declare("q")


def test_number_is_free_after_close_ok(pair: Pair) -> None:
    """#8 The number can be opened again after close-ok and not before."""
    client = pair.connect()
    ch = client.channel(1)
    break_channel(ch)
    ch.send(commands.Channel.Open())
    ch.expect_nothing()
    ch.send(commands.Channel.CloseOk())
    ch.expect_nothing()
    ch.open()
    ch.declare("q")


def test_closing_in_the_middle_of_a_read(pair: Pair) -> None:
    """#8 What follows the failing method in the same read is discarded too, other channels are served."""
    client = pair.connect()
    client.channel(1)
    other = client.channel(2)
    other.declare("q")
    client.feed(
        encode_method(commands.Queue.Declare(queue="nope", passive=True), 1)
        + everything(1)
        + encode_method(commands.Queue.Declare(queue="q", passive=True), 2)
        + encode_method(commands.Channel.CloseOk(), 1)
        + encode_method(commands.Channel.Open(), 1)
    )
    assert client.expect(commands.Channel.Close, 1).reply_code == 404
    assert other.expect(commands.Queue.DeclareOk).message_count == 0
    client.expect(commands.Channel.OpenOk, 1)
    client.expect_nothing()


def test_channel_state_does_not_survive(pair: Pair) -> None:
    """#8 A number opened again is a new channel: no confirms, no tx, tags from 1, no last queue, no half content."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    ch.confirm()
    ch.publish(b"1", key="q")
    assert ch.expect_confirms() == [("ack", 1, False)]
    ch.close()
    ch.open()
    ch.publish(b"2", key="q")
    ch.expect_nothing()
    ch.send(commands.Basic.Get(queue=""))
    ch.expect_close(404, "NOT_FOUND - no previously declared queue", commands.Basic.Get)
    ch.open()
    message = ch.get("q", no_ack=False)
    assert message is not None
    assert (message.body, message.tag, message.redelivered) == (b"1", 1, False)


def test_server_close_requeues(pair: Pair) -> None:
    """#8 What a channel held goes back when the server closes it, before any close-ok."""
    client = pair.connect()
    ch, other = client.channel(1), client.channel(2)
    ch.declare("q")
    ch.publish(b"m", key="q")
    assert ch.get("q", no_ack=False) is not None
    break_channel(ch)
    message = other.get("q")
    assert message is not None
    assert (message.body, message.redelivered) == (b"m", True)


@pytest.mark.parametrize(
    "settle",
    [commands.Basic.Ack(1), commands.Basic.Ack(0, True), commands.Basic.Nack(1), commands.Basic.Reject(1)],
    ids=lambda method: method.name,
)
def test_late_settles_are_ignored(pair: Pair, settle: base.Frame) -> None:
    """#9 An ack that crosses a close on the wire must not kill the connection."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    ch.publish(b"m", key="q")
    assert ch.get("q", no_ack=False) is not None
    ch.close()
    client.send(settle, 1)
    client.expect_nothing()
    message = client.channel(2).get("q")
    assert message is not None, "the late settle must not reach the message that went back"
    client.expect_alive()


@pytest.mark.parametrize("settle", [commands.Basic.Ack(1), commands.Basic.Nack(1), commands.Basic.Reject(1)])
def test_late_settles_after_a_server_close(pair: Pair, settle: base.Frame) -> None:
    """#9 The same after the server's close, before and after close-ok."""
    client = pair.connect()
    ch = client.channel(1)
    break_channel(ch)
    client.send(settle, 1)
    client.expect_nothing()
    ch.send(commands.Channel.CloseOk())
    client.send(settle, 1)
    client.expect_nothing()
    client.expect_alive()


def test_other_methods_on_a_closed_channel(pair: Pair) -> None:
    """#9 Only settles are forgiven: anything else needs channel.open first."""
    client = pair.connect()
    client.channel(1).close()
    client.send(commands.Queue.Declare(queue="q"), 1)
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", commands.Queue.Declare)


def test_client_close_during_content(pair: Pair) -> None:
    """#8 A channel broken while content was under way takes nothing of it along."""
    client = pair.connect()
    one, two = client.channel(1), client.channel(2)
    two.declare("q")
    client.feed(encode_method(commands.Basic.Publish(exchange="nope", routing_key="q"), 1) + header_frame(1, 10))
    client.feed(body_frame(1, b"12345"))
    client.expect_nothing()
    client.feed(body_frame(1, b"67890"))
    one.expect_close(404, "NOT_FOUND - no exchange 'nope' in vhost '/'", commands.Basic.Publish)
    one.open()
    one.publish(b"whole", key="q")
    assert two.drain("q") == [b"whole"]


# ----------------------------------------------------------------------------------------------- connections


def test_exclusive_queues_are_gone_before_close_ok(pair: Pair) -> None:
    """#16 The very moment close-ok is written the client's exclusive queues are gone and its messages are back."""
    client, other = pair.connect(), pair.connect()
    ch, theirs = client.channel(), other.channel()
    ch.declare("mine", exclusive=True)
    ch.declare("q")
    ch.publish(b"m", key="q")
    assert ch.get("q", no_ack=False) is not None
    queues = pair.broker.vhosts["/"].queues
    seen: list[tuple[bool, int]] = []
    write = client.wire.write

    def watched_write(data: bytes) -> None:
        seen.append(("mine" in queues, queues["q"].message_count))
        write(data)

    client.wire.write = watched_write  # type: ignore[method-assign]
    client.send(commands.Connection.Close(200, "bye", 0, 0))
    client.expect(commands.Connection.CloseOk)
    assert seen == [(False, 1)]
    assert theirs.declare("mine", exclusive=True).queue == "mine"


def test_frames_after_connection_close_are_ignored(pair: Pair) -> None:
    """#16 Once the client has said connection.close nothing else it says counts, not even in the same read."""
    client, other = pair.connect(), pair.connect()
    client.channel(1)
    ch = other.channel()
    ch.declare("q")
    late = (
        encode_method(commands.Queue.Declare(queue="late"), 1)
        + encode_method(commands.Basic.Publish(routing_key="q"), 1)
        + header_frame(1, 0)
        + encode_method(commands.Channel.Open(), 2)
        + method_frame(1, 77, 77)
    )
    client.feed(encode_method(commands.Connection.Close(200, "bye", 0, 0), 0) + late)
    client.expect(commands.Connection.CloseOk)
    client.feed(late)
    client.expect_nothing()
    assert ch.drain("q") == []
    ch.send(commands.Queue.Declare(queue="late", passive=True))
    ch.expect_close(404, "NOT_FOUND - no queue 'late' in vhost '/'", commands.Queue.Declare)


def test_close_ends_deliveries(pair: Pair) -> None:
    """#16 A client that has closed is delivered nothing, its consumers are gone at once."""
    client, other = pair.connect(), pair.connect()
    ch, theirs = client.channel(), other.channel()
    ch.declare("q")
    ch.consume("q")
    client.send(commands.Connection.Close(200, "bye", 0, 0))
    client.expect(commands.Connection.CloseOk)
    theirs.publish(b"m", key="q")
    client.expect_nothing()
    assert not client.wire.late
    ok = theirs.declare("q", passive=True)
    assert (ok.message_count, ok.consumer_count) == (1, 0)


def test_client_that_never_hangs_up_is_dropped(pair: Pair) -> None:
    """#16 After close-ok the socket is the server's to drop, if the client does not."""
    client = pair.connect()
    client.send(commands.Connection.Close(200, "bye", 0, 0))
    client.expect(commands.Connection.CloseOk)
    assert client.wire.is_left_to_client
    pair.advance(30_000)
    client.expect_gone()


@pytest.mark.parametrize(
    ("heartbeat", "patience_ms"), [(10, 10_000), (29, 29_000), (30, 30_000), (60, 30_000), (0, 30_000)]
)
def test_server_close_waits_for_close_ok(pair: Pair, heartbeat: int, patience_ms: int) -> None:
    """#17 The server waits for close-ok as long as a heartbeat, at most 30 s, and then drops the socket."""
    client = pair.connect(heartbeat=heartbeat)
    client.send(commands.Queue.Declare(queue="q"), 9)
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", commands.Queue.Declare, answer=False)
    pair.advance(patience_ms - 1)
    assert not client.wire.is_gone
    pair.advance(1)
    client.expect_gone()


def test_server_close_ends_at_close_ok(pair: Pair) -> None:
    """#17 close-ok ends it at once; no timer fires into the dead connection later."""
    client, other = pair.connect(), pair.connect()
    client.send(commands.Queue.Declare(queue="q"), 9)
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", commands.Queue.Declare)
    pair.advance(60_000)
    assert not client.wire.late
    other.expect_alive()


def test_server_close_discards_the_rest(pair: Pair) -> None:
    """#17 While it waits for close-ok the server ignores everything else, in the same read and later."""
    client, other = pair.connect(), pair.connect()
    client.channel(1)
    late = (
        encode_method(commands.Queue.Declare(queue="late"), 1)
        + encode_method(commands.Channel.Open(), 3)
        + encode_method(commands.Connection.Open(), 0)
    )
    client.feed(encode_method(commands.Queue.Declare(queue="q"), 9) + late)
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", commands.Queue.Declare, answer=False)
    client.feed(late)
    client.expect_nothing()
    ch = other.channel()
    ch.send(commands.Queue.Declare(queue="late", passive=True))
    ch.expect_close(404, "NOT_FOUND - no queue 'late' in vhost '/'", commands.Queue.Declare)
    client.send(commands.Connection.CloseOk())
    client.expect_gone()


def test_both_sides_close(pair: Pair) -> None:
    """#17 A client's connection.close that crosses the server's is answered."""
    client = pair.connect()
    client.send(commands.Queue.Declare(queue="q"), 9)
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", commands.Queue.Declare, answer=False)
    client.send(commands.Connection.Close(200, "bye", 0, 0))
    client.expect(commands.Connection.CloseOk)
    client.send(commands.Connection.CloseOk())
    client.expect_gone()


def test_server_close_gives_back_at_once(pair: Pair) -> None:
    """#17 What the client held is free as soon as the server has closed, not only after close-ok."""
    client, other = pair.connect(), pair.connect()
    ch, theirs = client.channel(), other.channel()
    ch.declare("mine", exclusive=True)
    ch.declare("q")
    ch.publish(b"m", key="q")
    assert ch.get("q", no_ack=False) is not None
    client.send(commands.Queue.Declare(queue="q"), 9)
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", commands.Queue.Declare, answer=False)
    theirs.declare("mine", exclusive=True)
    assert theirs.drain("q") == [b"m"]


def expect_forced(client: Client, text: str) -> None:
    client.expect_close(320, re.compile(re.escape(f"CONNECTION_FORCED - {text}")), None)


def test_broker_shutdown(pair: Pair) -> None:
    """#17 A broker that stops says 320 to everybody."""
    clients = [pair.connect() for _ in range(3)]
    pair.broker.close()
    pair.settle()
    for client in clients:
        expect_forced(client, "broker forced connection closure with reason 'shutdown'")


def test_lost_connection_gives_back(pair: Pair) -> None:
    """#16 A socket that dies gives back as much as a polite close."""
    client, other = pair.connect(), pair.connect()
    ch, theirs = client.channel(), other.channel()
    ch.declare("mine", exclusive=True)
    ch.declare("q")
    ch.publish(b"m", key="q")
    ch.consume("q")
    assert ch.bodies() == [b"m"]
    client.drop()
    theirs.declare("mine", exclusive=True)
    message = theirs.get("q")
    assert message is not None
    assert (message.body, message.redelivered) == (b"m", True)
    assert client.connection not in pair.broker.connections
