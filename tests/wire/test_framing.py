"""Frames as octets: types, sizes, end octets, the order of content frames, arguments of methods (items 1-15, 18-20)."""

import re

import pytest
from pamqp import base, commands

from tests.support import frames
from tests.support.frames import body_frame, encode_method, frame, header_frame, method_frame, octet, shortstr, table
from tests.support.pair import Channel, Client, Cut, Pair, bytewise, loose, random_cuts, whole

FRAME_ERROR = re.compile(r"FRAME_ERROR - .+")
CANNOT_DECODE = re.compile(r"FRAME_ERROR - cannot decode .+")
UNEXPECTED_FRAME = re.compile(r"UNEXPECTED_FRAME - .+")
NO_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"

PUBLISH = commands.Basic.Publish
CUTS = pytest.mark.parametrize(
    "cut", [whole, bytewise, random_cuts(1), random_cuts(2)], ids=["whole", "bytewise", "random 1", "random 2"]
)


def publish_frame(channel: int, key: str = "q") -> bytes:
    return encode_method(commands.Basic.Publish(routing_key=key), channel)


@pytest.fixture
def other(pair: Pair) -> Client:
    """A second connection, which nothing the first does may disturb."""
    return pair.connect()


# ------------------------------------------------------------------------------------------------ close frames


def test_reply_text_is_name_and_explanation(pair: Pair) -> None:
    """#1 #2 CODE_NAME - explanation, and the ids of the method that failed."""
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="nope", passive=True))
    close = ch.expect(commands.Channel.Close)
    assert close.reply_code == 404
    assert close.reply_text == "NOT_FOUND - no queue 'nope' in vhost '/'"
    assert (close.class_id, close.method_id) == (50, 10)


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127, "x" + "é" * 127, "\U0001f407" * 63])
def test_reply_text_is_cut_to_a_shortstr(pair: Pair, name: str) -> None:
    """#1 A text that does not fit 255 octets is cut, and never inside a character (pamqp would fail to read it)."""
    ch = pair.connect().channel()
    ch.send(loose(commands.Queue.Declare, queue=name, passive=True))
    text = ch.expect(commands.Channel.Close).reply_text
    whole_text = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    assert 250 <= len(text.encode()) <= 255
    assert text.endswith("...")
    assert text[:-3] == whole_text[: len(text) - 3]
    assert len(text) > 60


def test_ids_name_the_method_of_each_class(pair: Pair) -> None:
    """#2 The offending method is named, whichever it is."""
    client = pair.connect()
    for method in (
        commands.Queue.Bind(queue="nope", exchange="amq.direct"),
        commands.Queue.Purge(queue="nope"),
        commands.Basic.Consume(queue="nope"),
        commands.Basic.Get(queue="nope"),
        commands.Exchange.Bind(destination="nope", source="amq.direct"),
    ):
        ch = client.channel()
        ch.send(method)
        close = ch.expect(commands.Channel.Close)
        assert (close.class_id, close.method_id) == (method.index >> 16, method.index & 0xFFFF), method.name
        ch.send(commands.Channel.CloseOk())


def test_ids_are_zero_when_no_method_is_to_blame(pair: Pair) -> None:
    """#2 An operator's close blames nobody, whatever came last."""
    client = pair.connect()
    client.channel().declare("q")
    client.connection.shutdown(320, "Closed via management plugin")
    pair.settle()
    client.expect_close(320, "CONNECTION_FORCED - Closed via management plugin", None)


# ------------------------------------------------------------------------------------------------------ frames


@pytest.mark.parametrize("channel", [0, 1, 7], ids=["channel 0", "open channel", "channel never opened"])
@pytest.mark.parametrize("kind", [0, 4, 5, 6, 7, 9, 65, 255])
def test_unknown_frame_type(pair: Pair, other: Client, kind: int, channel: int) -> None:
    """#3 A frame type nobody knows is 501."""
    client = pair.connect()
    client.channel(1)
    client.feed(frame(kind, channel, b"abc"))
    client.expect_close(501, f'FRAME_ERROR - type {kind}, all octets = <<"abc">>: unknown_frame', None)
    other.expect_alive()


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"", "all octets = <<>>"),
        (b"0123456789abcdef", 'all octets = <<"0123456789abcdef">>'),
        (b"0123456789abcdefg", 'first 16 octets = <<"0123456789abcdef">>'),
        (b"\x00\xff", "all octets = <<0,255>>"),
    ],
)
def test_unknown_frames_are_shown(pair: Pair, payload: bytes, shown: str) -> None:
    """#3 The text shows how the frame begins, as Erlang prints octets."""
    client = pair.connect()
    client.feed(frame(4, 0, payload))
    client.expect_close(501, f"FRAME_ERROR - type 4, {shown}: unknown_frame", None)


@CUTS
def test_heartbeat_is_silent(pair: Pair, cut: Cut) -> None:
    """#3 A proper heartbeat gets no answer and does no harm, also between content frames."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    beat = frames.HEARTBEAT_FRAME
    client.feed(
        beat + publish_frame(1) + beat + header_frame(1, 4) + beat + body_frame(1, b"ab") + beat + body_frame(1, b"cd"),
        cut,
    )
    client.expect_nothing()
    assert ch.drain("q") == [b"abcd"]


def test_heartbeat_with_payload(pair: Pair) -> None:
    """#3 A heartbeat that carries anything is 501."""
    client = pair.connect()
    client.feed(frame(frames.HEARTBEAT, 0, b"x"))
    client.expect_close(501, 'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame', None)


@pytest.mark.parametrize("channel", [1, 7], ids=["open", "never opened"])
def test_heartbeat_on_a_channel(pair: Pair, channel: int) -> None:
    """#3 A heartbeat belongs to channel 0: 505 elsewhere."""
    client = pair.connect()
    client.channel(1)
    client.feed(frame(frames.HEARTBEAT, channel))
    client.expect_close(505, "UNEXPECTED_FRAME - type 8, all octets = <<>>", None)


def expect_lost_sync(pair: Pair, client: Client, other: Client, text: str) -> None:
    client.expect_close(501, f"FRAME_ERROR - {text}", None, answer=False)
    assert not client.wire.is_gone, "the client may not have read the close yet"
    client.feed(encode_method(commands.Queue.Declare(queue="after"), 1) + encode_method(commands.Channel.Open(), 9))
    client.feed(b"garbage" * 20)
    client.expect_nothing()
    pair.advance(3_000)
    client.expect_gone()
    ch = other.channel()
    ch.send(commands.Queue.Declare(queue="after", passive=True))
    ch.expect_close(404, "NOT_FOUND - no queue 'after' in vhost '/'", commands.Queue.Declare)


@CUTS
@pytest.mark.parametrize("end", [0x00, 0xCD, 0xCF, 0xFF])
def test_wrong_end_octet(pair: Pair, other: Client, end: int, cut: Cut) -> None:
    """#4 A wrong frame-end octet is 501; nothing is accepted after it and the socket is dropped three seconds later."""
    client = pair.connect()
    client.channel(1)
    client.feed(frame(frames.METHOD, 1, b"\x00\x32\x00\x0a\x00\x00", end=end), cut)
    text = f"type 1, all octets = <<0,50,0,10,0,0>>: {{invalid_frame_end_marker,{end}}}"
    expect_lost_sync(pair, client, other, text)


@CUTS
def test_oversize_frame(pair: Pair, other: Client, cut: Cut) -> None:
    """#4 A frame that announces more than fits is 501 at its announcement: the payload is not waited for."""
    client = pair.connect(frame_max=4096)
    client.channel(1)
    client.feed(frame(frames.METHOD, 1, b"", size=4097)[:7], cut)
    expect_lost_sync(pair, client, other, "type 1, all octets = <<>>: {frame_too_large,4097,4088}")


@pytest.mark.parametrize("size", [4089, 4096])
@CUTS
def test_size_check_is_forgiving(pair: Pair, size: int, cut: Cut) -> None:
    """#5 A payload may be as long as frame-max itself, though the rule leaves 8 octets for the frame around it."""
    client = pair.connect(frame_max=4096)
    ch = client.channel(1)
    ch.declare("q")
    client.feed(publish_frame(1) + header_frame(1, size) + body_frame(1, b"x" * size), cut)
    assert ch.drain("q") == [b"x" * size]


def test_size_check_ends(pair: Pair) -> None:
    """#5 One octet more than frame-max is too much, in a body frame as well."""
    client = pair.connect(frame_max=4096)
    ch = client.channel(1)
    ch.declare("q")
    client.feed(publish_frame(1) + header_frame(1, 4097) + body_frame(1, b"x" * 4097))
    client.expect_close(501, FRAME_ERROR, None, answer=False)


# ----------------------------------------------------------------------------------------------------- methods


@pytest.mark.parametrize(
    ("ids", "arguments"),
    [
        ((50, 10), b"\x00\x00\xff"),  # shortstr longer than the payload
        ((50, 10), b""),
        ((50, 10), b"\x00\x00\x01q\x00\x00\x00\x00\x09"),  # table longer than the payload
        ((50, 10), b"\x00\x00\x01q\x00" + frames.longstr(b"\x01aZ")),  # unknown type in a table
        ((50, 10), b"\x00\x00\x01q\x00" + frames.longstr(b"\xff")),  # table key longer than the table
        ((60, 80), b"\x00\x00"),  # the hot ones, too
        ((60, 120), b"\x00\x00\x00"),
        ((60, 90), b"\x00"),
        ((60, 40), b"\x00\x00"),
        ((60, 40), b"\x00\x00\x05ab"),
        ((60, 40), b"\x00\x00\x01x\x01k"),  # the bits are missing
        ((20, 40), b"\x00\xc8\x05ab"),
    ],
)
def test_undecodable_arguments(pair: Pair, other: Client, ids: tuple[int, int], arguments: bytes) -> None:
    """#6 Arguments that cannot be read are 501, and the method is named."""
    client = pair.connect()
    client.channel(1)
    client.feed(method_frame(1, *ids, arguments))
    client.expect_close(501, CANNOT_DECODE, ids)
    other.expect_alive()


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00\x32\x00"])
@pytest.mark.parametrize("channel", [0, 1, 7])
def test_method_frame_without_ids(pair: Pair, payload: bytes, channel: int) -> None:
    """#6 A method frame too short to say which method is 501."""
    client = pair.connect()
    client.channel(1)
    client.feed(frame(frames.METHOD, channel, payload))
    client.expect_close(501, FRAME_ERROR, None)


@pytest.mark.parametrize(
    "method",
    [
        commands.Queue.DeclareOk("q", 0, 0),
        commands.Basic.ConsumeOk("tag"),
        commands.Channel.OpenOk(),
        commands.Confirm.SelectOk(),
        commands.Connection.StartOk(),
        commands.Connection.Open(),
    ],
    ids=lambda method: method.name,
)
def test_method_that_makes_no_sense(pair: Pair, method: base.Frame) -> None:
    """#6 A known method that no client says on a channel is 503."""
    client = pair.connect()
    client.channel(1)
    client.send(method, 1)
    client.expect_close(503, "COMMAND_INVALID - unimplemented method", type(method))


@pytest.mark.parametrize("ids", [(77, 10), (50, 99), (60, 0), (0, 0), (65535, 65535)])
@pytest.mark.parametrize("channel", [0, 1])
def test_unknown_method(pair: Pair, other: Client, ids: tuple[int, int], channel: int) -> None:
    """#6 An id that no class knows is 540."""
    client = pair.connect()
    client.channel(1)
    client.feed(method_frame(channel, *ids, b"whatever"))
    client.expect_close(540, re.compile("NOT_IMPLEMENTED - .+"), ids)
    other.expect_alive()


@pytest.mark.parametrize(
    "method",
    [commands.Queue.Declare(queue="q"), commands.Channel.Open(), commands.Connection.StartOk()],
    ids=lambda method: method.name,
)
def test_channel_methods_on_channel_zero(pair: Pair, method: base.Frame) -> None:
    """#6 Channel 0 is the connection's own: 504 for what has no place there."""
    client = pair.connect()
    client.send(method, 0)
    client.expect_close(504, "CHANNEL_ERROR - unexpected method in connection state running", type(method))


@pytest.mark.parametrize(
    "method",
    [
        commands.Queue.Declare(queue="q"),
        commands.Basic.Ack(1),
        commands.Channel.Close(200, "", 0, 0),
        commands.Tx.Select(),
    ],
    ids=lambda method: method.name,
)
def test_channel_never_opened(pair: Pair, method: base.Frame) -> None:
    """#7 A method on a channel that was never opened."""
    client = pair.connect()
    client.channel(1)
    client.send(method, 2)
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", type(method))


def test_publish_on_a_channel_never_opened(pair: Pair) -> None:
    """#7 Whether it is refused at the method or once its content has come, it is refused."""
    client = pair.connect()
    client.feed(publish_frame(2) + header_frame(2, 0))
    client.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", PUBLISH)


def test_channel_opened_twice(pair: Pair) -> None:
    """#7 The second channel.open."""
    client = pair.connect()
    client.channel(1)
    client.send(commands.Channel.Open(), 1)
    client.expect_close(504, "CHANNEL_ERROR - second 'channel.open' seen", commands.Channel.Open)


# ----------------------------------------------------------------------------------------------------- content


@pytest.mark.parametrize(
    "instead",
    [publish_frame(1), body_frame(1, b"a"), encode_method(commands.Channel.Close(200, "", 0, 0), 1)],
    ids=["method", "body", "channel.close"],
)
def test_content_header_must_follow(pair: Pair, other: Client, instead: bytes) -> None:
    """#10 Anything but the header after a publish, on the same channel, is 505."""
    client = pair.connect()
    client.channel(1)
    client.feed(publish_frame(1) + instead)
    client.expect_close(505, NO_HEADER, PUBLISH)
    other.expect_alive()


@pytest.mark.parametrize("instead", [publish_frame(1), header_frame(1, 5)], ids=["method", "header"])
def test_content_body_must_follow(pair: Pair, instead: bytes) -> None:
    """#10 Anything but a body frame while octets of the body are due is 505."""
    client = pair.connect()
    client.channel(1)
    client.feed(publish_frame(1) + header_frame(1, 5) + body_frame(1, b"abc") + instead)
    client.expect_close(505, NO_BODY, PUBLISH)


@pytest.mark.parametrize("lonely", [header_frame(1, 0), body_frame(1, b"a"), header_frame(7, 0), body_frame(7, b"a")])
def test_content_without_a_method(pair: Pair, lonely: bytes) -> None:
    """#10 Content that no method announced is 505, on an open channel and on none."""
    client = pair.connect()
    client.channel(1)
    client.feed(lonely)
    client.expect_close(505, NO_METHOD, None)


@pytest.mark.parametrize("content", [header_frame(0, 0), body_frame(0, b"a")], ids=["header", "body"])
def test_content_on_channel_zero(pair: Pair, content: bytes) -> None:
    """#10 Channel 0 carries no content."""
    client = pair.connect()
    client.feed(content)
    client.expect_close(505, re.compile(r"UNEXPECTED_FRAME - type [23], all octets = <<.*>>"), None)


@CUTS
def test_channels_interleave(pair: Pair, cut: Cut) -> None:
    """#10 Other channels may speak between the frames of one content."""
    client = pair.connect()
    one, two, three = client.channel(1), client.channel(2), client.channel(3)
    one.declare("q")
    two.declare("r")
    client.feed(
        publish_frame(1, "q")
        + publish_frame(2, "r")
        + header_frame(2, 3)
        + header_frame(1, 6)
        + body_frame(1, b"one")
        + body_frame(2, b"two")
        + encode_method(commands.Queue.Declare(queue="s"), 3)
        + body_frame(1, b"ONE"),
        cut,
    )
    three.expect(commands.Queue.DeclareOk)
    client.expect_nothing()
    assert one.drain("q") == [b"oneONE"]
    assert two.drain("r") == [b"two"]


def test_header_weight(pair: Pair) -> None:
    """#11 The weight of a content header must be 0."""
    client = pair.connect()
    client.channel(1)
    client.feed(publish_frame(1) + header_frame(1, 1, weight=1))
    text = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
    client.expect_close(505, text, PUBLISH)


@pytest.mark.parametrize("class_id", [0, 50, 61, 65535])
def test_header_class(pair: Pair, class_id: int) -> None:
    """#11 The class of a content header must be the method's."""
    client = pair.connect()
    client.channel(1)
    client.feed(publish_frame(1) + header_frame(1, 1, class_id=class_id))
    text = f"UNEXPECTED_FRAME - expected content header for class 60, got one for class {class_id} instead"
    client.expect_close(505, text, PUBLISH)


@pytest.mark.parametrize("payload", [b"", b"\x00\x3c\x00\x00", b"\x00\x3c\x00\x00" + bytes(8)])
def test_header_too_short(pair: Pair, other: Client, payload: bytes) -> None:
    """#11 A content header that ends before its fields do is 501."""
    client = pair.connect()
    client.channel(1)
    client.feed(publish_frame(1) + frame(frames.HEADER, 1, payload))
    assert client.expect(commands.Connection.Close).reply_code == 501
    other.expect_alive()


@CUTS
def test_empty_body_is_complete_at_the_header(pair: Pair, cut: Cut) -> None:
    """#12 No body frame is awaited, and none is sent."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    ch.consume("q", no_ack=True)
    client.feed(publish_frame(1) + header_frame(1, 0), cut)
    message = ch.expect_message()
    assert (message.body, message.bodies) == (b"", 0)
    client.feed(publish_frame(1) + header_frame(1, 1) + body_frame(1, b"x"), cut)
    assert ch.expect_message().body == b"x"
    client.expect_nothing()


def test_empty_body_got(pair: Pair) -> None:
    """#12 basic.get and basic.return send no body frame for an empty body either."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.publish(b"", key="q")
    message = ch.get("q")
    assert message is not None
    assert (message.body, message.bodies) == (b"", 0)
    ch.publish(b"", key="nowhere", mandatory=True)
    assert ch.expect_message(commands.Basic.Return).bodies == 0
    ch.expect_nothing()


@pytest.mark.parametrize("bodies", [[b"abc"], [b"a", b"bc"], [b"", b"abc"]])
def test_body_beyond_the_announced_size(pair: Pair, other: Client, bodies: list[bytes]) -> None:
    """#13 More octets than announced are 501; nothing is published by halves."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    client.feed(publish_frame(1) + header_frame(1, 2) + b"".join(body_frame(1, part) for part in bodies))
    client.expect_close(501, FRAME_ERROR, PUBLISH)
    assert other.channel().drain("q") == []


@CUTS
def test_empty_body_frames_are_filler(pair: Pair, cut: Cut) -> None:
    """#13 Empty body frames mean nothing, at the start, in the middle and before the last octet."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    parts = (b"", b"", b"a", b"", b"b", b"", b"c")
    client.feed(publish_frame(1) + header_frame(1, 3) + b"".join(body_frame(1, part) for part in parts), cut)
    assert ch.drain("q") == [b"abc"]


@pytest.mark.parametrize("size", [512 * 1024 * 1024 + 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_announced_size_over_the_hard_cap(pair: Pair, other: Client, size: int) -> None:
    """#14 Beyond 512 MiB the header itself is 501."""
    client = pair.connect()
    client.channel(1)
    client.feed(publish_frame(1) + header_frame(1, size))
    client.expect_close(501, FRAME_ERROR, PUBLISH)
    other.expect_alive()


def test_message_over_the_configured_size() -> None:
    """#14 Over max-message-size the channel is closed, but only after the body was read: the connection lives on."""
    pair = Pair(max_message_size=100)
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    client.feed(publish_frame(1) + header_frame(1, 101) + body_frame(1, b"x" * 100))
    client.expect_nothing()
    client.feed(body_frame(1, b"x"))
    ch.expect_close(
        406, "PRECONDITION_FAILED - message size 101 is larger than configured max size 100", commands.Basic.Publish
    )
    again = client.channel(1)
    again.publish(b"x" * 100, key="q")
    assert again.drain("q") == [b"x" * 100]


@pytest.mark.parametrize(("size", "count"), [(4088, 1), (4089, 2), (8176, 2), (8177, 3), (20_000, 5)])
def test_delivery_is_split(pair: Pair, size: int, count: int) -> None:
    """#15 Each frame of a delivery fits frame-max with its 8 octets around it, and none is wasted."""
    body = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
    pair.connect().channel().declare("q")
    small = pair.connect(frame_max=4096).channel()
    small.consume("q", no_ack=True)
    pair.connect().channel().publish(body, key="q")
    message = small.expect_message()
    assert (message.body, message.bodies) == (body, count)


def test_get_and_return_are_split(pair: Pair) -> None:
    """#15 The same holds for basic.get-ok and basic.return."""
    ch = pair.connect(frame_max=4096).channel()
    ch.declare("q")
    ch.publish(b"x" * 9000, key="q")
    ch.publish(b"y" * 9000, key="nowhere", mandatory=True)
    assert ch.expect_message(commands.Basic.Return).bodies == 3
    message = ch.get("q")
    assert message is not None
    assert (message.body, message.bodies) == (b"x" * 9000, 3)


# ------------------------------------------------------------------------------------------- arguments of methods


def declare_queue(ch: Channel, name: str, bits: int) -> None:
    ch.feed(method_frame(ch.number, 50, 10, b"\x00\x00", shortstr(name), octet(bits), table({})))


@pytest.mark.parametrize("bits", range(0, 32, 2))
def test_bits_of_queue_declare(pair: Pair, other: Client, bits: int) -> None:
    """#18 passive, durable, exclusive, auto_delete and nowait share one octet, lowest bit first."""
    durable, exclusive, auto_delete, nowait = bool(bits & 2), bool(bits & 4), bool(bits & 8), bool(bits & 16)
    client = pair.connect()
    ch = client.channel()
    declare_queue(ch, "q", bits)
    if nowait:
        ch.expect_nothing()
    else:
        ch.expect(commands.Queue.DeclareOk)
    ch.declare("q", durable=durable, exclusive=exclusive, auto_delete=auto_delete)
    if exclusive:
        theirs = other.channel()
        theirs.send(commands.Queue.Declare(queue="q", passive=True))
        assert theirs.expect(commands.Channel.Close).reply_code == 405
        return
    for name, value in (("durable", durable), ("auto_delete", auto_delete)):
        wrong = client.channel()
        flags = {"durable": durable, "auto_delete": auto_delete, name: not value}
        wrong.send(loose(commands.Queue.Declare, queue="q", **flags))
        wrong.expect_close(
            406,
            f"PRECONDITION_FAILED - inequivalent arg '{name}' for queue 'q' in vhost '/': "
            f"received '{str(not value).lower()}' but current is '{str(value).lower()}'",
            commands.Queue.Declare,
        )


def test_passive_bit_of_queue_declare(pair: Pair) -> None:
    """#18 The lowest bit is passive, whatever the others say."""
    client = pair.connect()
    for bits in (1, 1 | 2, 1 | 8, 1 | 2 | 4 | 8):
        ch = client.channel()
        declare_queue(ch, "nope", bits)
        ch.expect_close(404, "NOT_FOUND - no queue 'nope' in vhost '/'", commands.Queue.Declare)


@pytest.mark.parametrize("bits", range(0, 32, 2))
def test_bits_of_exchange_declare(pair: Pair, bits: int) -> None:
    """#18 passive, durable, auto_delete, internal and nowait of exchange.declare."""
    durable, auto_delete, internal, nowait = bool(bits & 2), bool(bits & 4), bool(bits & 8), bool(bits & 16)
    client = pair.connect()
    ch = client.channel()
    ch.feed(method_frame(ch.number, 40, 10, b"\x00\x00", shortstr("x"), shortstr("direct"), octet(bits), table({})))
    if nowait:
        ch.expect_nothing()
    else:
        ch.expect(commands.Exchange.DeclareOk)
    flags = {"durable": durable, "auto_delete": auto_delete, "internal": internal}
    ch.declare_exchange("x", "direct", **flags)
    for name, value in flags.items():
        wrong = client.channel()
        wrong.send(loose(commands.Exchange.Declare, exchange="x", **{**flags, name: not value}))
        wrong.expect_close(
            406,
            f"PRECONDITION_FAILED - inequivalent arg '{name}' for exchange 'x' in vhost '/': "
            f"received '{str(not value).lower()}' but current is '{str(value).lower()}'",
            commands.Exchange.Declare,
        )


def test_bits_of_basic_consume(pair: Pair) -> None:
    """#18 no_local, no_ack, exclusive and nowait of basic.consume."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.publish(b"m", key="q")
    consume = (b"\x00\x00", shortstr("q"), shortstr("tag"))
    ch.feed(method_frame(ch.number, 60, 20, *consume, octet(0b1111), table({})))
    message = ch.expect_message()  # nowait: no consume-ok before it
    assert message.body == b"m"
    ch.ack(message.tag)  # no_ack: there is nothing to settle
    ch.expect_close(406, "PRECONDITION_FAILED - unknown delivery tag 1", commands.Basic.Ack)
    first, second = client.channel(), client.channel()
    first.feed(method_frame(first.number, 60, 20, *consume, octet(0b0100), table({})))
    first.expect(commands.Basic.ConsumeOk)
    second.send(commands.Basic.Consume(queue="q"))
    second.expect_close(403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use", commands.Basic.Consume)


def test_bits_of_basic_publish(pair: Pair) -> None:
    """#18 mandatory is the lower bit of basic.publish, immediate the higher."""
    client = pair.connect()
    ch = client.channel()
    address = (b"\x00\x00", shortstr(""), shortstr("nowhere"))
    ch.feed(method_frame(ch.number, 60, 40, *address, octet(0)) + header_frame(ch.number, 0))
    ch.expect_nothing()
    ch.feed(method_frame(ch.number, 60, 40, *address, octet(1)) + header_frame(ch.number, 0))
    ch.expect_message(commands.Basic.Return)
    ch.feed(method_frame(ch.number, 60, 40, *address, octet(2)) + header_frame(ch.number, 0))
    client.expect_close(540, "NOT_IMPLEMENTED - immediate=true", commands.Basic.Publish)


@pytest.mark.parametrize("ticket", [1, 101, 0xFFFF])
def test_ticket_is_ignored(pair: Pair, ticket: int) -> None:
    """#19 The ticket before most arguments is whatever the client likes."""
    ch = pair.connect().channel()
    ch.call(loose(commands.Queue.Declare, ticket=ticket, queue="q"), commands.Queue.DeclareOk)
    ch.call(loose(commands.Exchange.Declare, ticket=ticket, exchange="x"), commands.Exchange.DeclareOk)
    bind = loose(commands.Queue.Bind, ticket=ticket, queue="q", exchange="x", routing_key="k")
    ch.call(bind, commands.Queue.BindOk)
    ch.send_content(loose(commands.Basic.Publish, ticket=ticket, exchange="x", routing_key="k"), b"m")
    ch.send(loose(commands.Basic.Get, ticket=ticket, queue="q", no_ack=True))
    assert ch.expect_message(commands.Basic.GetOk).body == b"m"
    ch.call(loose(commands.Basic.Consume, ticket=ticket, queue="q", consumer_tag="t"), commands.Basic.ConsumeOk)
    ch.call(commands.Basic.Cancel("t"), commands.Basic.CancelOk)
    ch.call(loose(commands.Queue.Purge, ticket=ticket, queue="q"), commands.Queue.PurgeOk)
    unbind = loose(commands.Queue.Unbind, ticket=ticket, queue="q", exchange="x", routing_key="k")
    ch.call(unbind, commands.Queue.UnbindOk)
    ch.call(loose(commands.Queue.Delete, ticket=ticket, queue="q"), commands.Queue.DeleteOk)
    ch.call(loose(commands.Exchange.Delete, ticket=ticket, exchange="x"), commands.Exchange.DeleteOk)


def test_line_ends_in_names_are_stripped(pair: Pair) -> None:
    """#20 CR and LF vanish from queue and exchange names in declare, bind and delete."""
    client = pair.connect()
    ch = client.channel()
    assert ch.declare("a\r\nb").queue == "ab"
    assert ch.declare("ab", passive=True).queue == "ab"
    ch.declare_exchange("x\r\ny", "fanout")
    ch.declare_exchange("xy", "fanout", passive=True)
    ch.bind("a\nb", "x\ry")
    ch.declare_exchange("to", "fanout")
    ch.bind_exchange("t\no", "xy\r\n")
    ch.publish(b"m", "xy")
    assert ch.drain("ab") == [b"m"]
    ch.unbind("ab\n", "\rxy")
    ch.publish(b"m", "xy")
    assert ch.drain("ab") == []
    assert ch.call(loose(commands.Queue.Delete, queue="a\rb\n"), commands.Queue.DeleteOk).message_count == 0
    ch.call(loose(commands.Exchange.Delete, exchange="x\ny"), commands.Exchange.DeleteOk)
    for method in (
        commands.Queue.Declare(queue="ab", passive=True),
        commands.Exchange.Declare(exchange="xy", passive=True),
    ):
        gone = client.channel()
        gone.send(method)
        assert gone.expect(commands.Channel.Close).reply_code == 404
        gone.send(commands.Channel.CloseOk())
