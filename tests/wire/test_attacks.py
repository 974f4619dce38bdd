"""Hand-made attacks: none may crash the broker, grow its memory without bound or disturb another connection.

Each ends with RabbitMQ's reply code, a dropped wire or a quiet life, and with `bystander`, who must not have noticed.
"""

import itertools
import struct

import pytest
from pamqp import commands

from rabbitlike.broker.exchanges import headers, topic
from tests.support import frames
from tests.support.bystander import MIB, Bystander, bounded_memory
from tests.support.frames import (
    PROTOCOL_HEADER,
    body_frame,
    encode_method,
    frame,
    header_frame,
    longstr,
    method_frame,
    octet,
    publish_frame,
    shortstr,
)
from tests.support.pair import HIGH_WATER, Channel, Pair, bytewise, loose

# --------------------------------------------------------------------------------------------- announced sizes


@pytest.mark.parametrize("size", [128 * MIB, 512 * MIB])
def test_announced_bodies_cost_nothing(pair: Pair, bystander: Bystander, size: int) -> None:
    """#14 A header that announces a huge body allocates nothing, on many channels either."""
    client = pair.connect()
    for number in range(1, 201):
        client.feed(encode_method(commands.Channel.Open(), number))
    client.take_all()
    with bounded_memory(4 * MIB):
        for number in range(1, 201):
            client.feed(publish_frame(number) + header_frame(number, size) + body_frame(number, b"first octets"))
    client.expect_nothing()
    bystander.expect_unharmed()
    client.drop()
    bystander.expect_unharmed()


def test_body_over_the_limit_is_not_kept() -> None:
    """#14 A body over max-message-size is read to its end, since the channel lives on, but not gathered."""
    pair = Pair(max_message_size=1000)
    bystander = Bystander(pair)
    client = pair.connect()
    ch = client.channel(1)
    part = body_frame(1, b"x" * 100_000)
    client.feed(publish_frame(1) + header_frame(1, 20_000_000))
    with bounded_memory(2 * MIB):
        for _ in range(199):
            client.feed(part)
    client.expect_nothing()
    client.feed(part)
    assert ch.expect(commands.Channel.Close).reply_code == 406
    bystander.expect_unharmed()


def test_endless_empty_body_frames(pair: Pair, bystander: Bystander) -> None:
    """#13 Empty body frames are legal filler; filling for ever must not fill memory."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    client.feed(publish_frame(1) + header_frame(1, 1))
    filler = body_frame(1, b"") * 10_000
    with bounded_memory(MIB // 4):
        for _ in range(8):
            client.feed(filler)
    client.expect_nothing()
    client.feed(body_frame(1, b"x"))
    assert ch.drain("q") == [b"x"]
    bystander.expect_unharmed()


def test_body_in_crumbs(pair: Pair, bystander: Bystander) -> None:
    """#13 A body sent in the smallest frames takes about its own size, not many times as much."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    size = 100_000
    client.feed(publish_frame(1) + header_frame(1, size))
    crumbs = body_frame(1, b"ab") * 5_000
    with bounded_memory(6 * size):
        for _ in range(size // 10_000):
            client.feed(crumbs)
    assert ch.drain("q") == [b"ab" * (size // 2)]
    bystander.expect_unharmed()


@pytest.mark.parametrize("size", [131_073, 2**31 - 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("kind", [1, 2, 3, 8, 77])
def test_oversize_frames(pair: Pair, bystander: Bystander, kind: int, size: int) -> None:
    """#4 Whatever the frame, a size beyond frame-max is answered at once and nothing of it is kept."""
    client = pair.connect()
    client.channel(1)
    with bounded_memory(1 * MIB):
        client.feed(struct.pack(">BHI", kind, 1, size))
        for _ in range(20):
            client.feed(b"x" * 100_000)
    assert client.expect(commands.Connection.Close).reply_code == 501
    client.expect_nothing()
    pair.advance(3_000)
    client.expect_gone()
    bystander.expect_unharmed()


@pytest.mark.parametrize("size", [4_097, 131_072, 2**32 - 1])
def test_oversize_frames_before_login(pair: Pair, bystander: Bystander, size: int) -> None:
    """#35 4096 octets before login, not more."""
    client = pair.dial()
    client.feed(PROTOCOL_HEADER)
    with bounded_memory(1 * MIB):
        client.feed(struct.pack(">BHI", 1, 0, size))
        for _ in range(20):
            client.feed(b"x" * 100_000)
    pair.advance(5_000)
    assert client.wire.is_gone
    bystander.expect_unharmed()


def test_stalled_frames_are_bounded(pair: Pair, bystander: Bystander) -> None:
    """#5 What a client that stalls in the middle of a frame leaves behind is less than a frame."""
    client = pair.connect()
    client.channel(1)
    client.feed(publish_frame(1) + header_frame(1, 131_000) + body_frame(1, b"x" * 131_000)[:-1])
    assert len(client.connection.leftover) < 131_072 + 8
    bystander.expect_unharmed()


# --------------------------------------------------------------------------------------------------- channels


def test_all_channels() -> None:
    """#7 65535 channels of one client, when the setting allows them, and all of them given back."""
    pair = Pair(channel_max=65_535)
    bystander = Bystander(pair)
    client = pair.connect()
    client.feed(b"".join(encode_method(commands.Channel.Open(), number) for number in range(1, 65_536)))
    opened = client.take_all()
    assert len(opened) == 65_535
    assert all(isinstance(item.frame, commands.Channel.OpenOk) for item in opened)
    bystander.expect_unharmed()
    last = Channel(client, 65_535)
    last.declare("q")
    last.publish(b"m", key="q")
    assert last.drain("q") == [b"m"]
    client.drop()
    bystander.expect_unharmed()


def test_more_channels_than_agreed(pair: Pair, bystander: Bystander) -> None:
    """#7 Channel 2048 of 2047 closes the connection."""
    client = pair.connect()
    client.feed(b"".join(encode_method(commands.Channel.Open(), number) for number in range(1, 2049)))
    for number in range(1, 2048):
        client.expect(commands.Channel.OpenOk, number)
    client.expect_close(
        530, "NOT_ALLOWED - number of channels opened (2047) has reached the negotiated channel_max (2047)", None
    )
    bystander.expect_unharmed()


def test_channel_churn(pair: Pair, bystander: Bystander) -> None:
    """#8 Channels opened and closed without end leave nothing behind."""
    client = pair.connect()
    churn = b"".join(
        encode_method(commands.Channel.Open(), number) + encode_method(commands.Channel.Close(200, "", 0, 0), number)
        for number in range(1, 101)
    )
    client.feed(churn)
    client.take_all()
    with bounded_memory(1 * MIB):
        for _ in range(30):
            client.feed(churn)
            assert len(client.take_all()) == 200
            client.raw.clear()
    bystander.expect_unharmed()


def test_broken_channels_without_close_ok(pair: Pair, bystander: Bystander) -> None:
    """#8 Channels that the client never lets go of count against its limit like any other."""
    client = pair.connect(channel_max=10)
    for number in range(1, 11):
        client.channel(number).send(commands.Queue.Declare(queue="nope", passive=True))
        assert client.expect(commands.Channel.Close, number).reply_code == 404
    client.send(commands.Channel.Open(), 11)
    assert client.expect(commands.Connection.Close).reply_code == 530
    bystander.expect_unharmed()


# ---------------------------------------------------------------------------------------------------- tables


def nested(depth: int, letter: bytes) -> bytes:
    """A table (with length) that holds a table that holds …, or arrays of arrays."""
    inner = b""
    for _ in range(depth):
        inner = letter + longstr(b"\x00" + inner if letter == b"F" and inner else inner)
    return longstr(shortstr("k") + inner)


WIDE = longstr(b"\x00V" * 40_000)
BOMBS = {
    "deep tables": nested(10_000, b"F"),
    "deep arrays": nested(20_000, b"A"),
    "100 deep": nested(100, b"F"),
    "table that lies": longstr(b"\x01kF" + struct.pack(">I", 2**32 - 1)),
    "array that lies": longstr(b"\x01kA" + struct.pack(">I", 2**31)),
    "string that lies": longstr(b"\x01kS" + struct.pack(">I", 2**32 - 1) + b"x"),
    "key that lies": longstr(b"\xffk"),
    "table shorter than its entry": struct.pack(">I", 3) + b"\x01kS\x00\x00\x00\x01x",
    "unknown type": longstr(b"\x01k?\x00"),
    "type U": longstr(b"\x01kU\x00\x00"),
    "cut decimal": longstr(b"\x01kD\x02\x00"),
    "cut double": longstr(b"\x01kd\x00\x00"),
    "no type": longstr(b"\x01k"),
}
BROKEN = [name for name in BOMBS if name != "100 deep"]


@pytest.mark.parametrize("name", BROKEN)
def test_table_bombs_in_arguments(pair: Pair, bystander: Bystander, name: str) -> None:
    """#6 Tables too deep, too long for their frame or of unknown types are 501, in little memory."""
    client = pair.connect()
    client.channel(1)
    attack = method_frame(1, 50, 10, b"\x00\x00", shortstr("q"), octet(0), BOMBS[name])
    with bounded_memory(8 * MIB):
        client.feed(attack)
    close = client.expect(commands.Connection.Close)
    assert (close.reply_code, close.class_id, close.method_id) == (501, 50, 10)
    bystander.expect_unharmed()


@pytest.mark.parametrize("name", BROKEN)
def test_table_bombs_in_headers(pair: Pair, bystander: Bystander, name: str) -> None:
    """#13 Headers that cannot be read are refused at the publish: no consumer shall choke on them."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    client.feed(publish_frame(1) + header_frame(1, 0, b"\x20\x00" + BOMBS[name]))
    assert client.expect(commands.Connection.Close).reply_code == 501
    assert pair.connect().channel().drain("q") == []
    bystander.expect_unharmed()


@pytest.mark.parametrize("name", [name for name in BROKEN if len(BOMBS[name]) < 8000])
def test_table_bombs_in_start_ok(pair: Pair, bystander: Bystander, name: str) -> None:
    """#35 A stranger's client properties, too."""
    client = pair.dial()
    client.feed(PROTOCOL_HEADER)
    client.expect(commands.Connection.Start)
    client.feed(method_frame(0, 10, 11, BOMBS[name], shortstr("PLAIN"), longstr("\0guest\0guest"), shortstr("en_US")))
    pair.advance(30_000)
    assert client.wire.is_gone
    for item in client.take_all():
        assert isinstance(item.frame, commands.Connection.Close)
        assert item.frame.reply_code == 501
    bystander.expect_unharmed()


def test_wide_tables(pair: Pair, bystander: Bystander) -> None:
    """#145 A frame full of the smallest entries is a table like any other."""
    client = pair.connect()
    ch = client.channel(1)
    with bounded_memory(16 * MIB):
        client.feed(method_frame(1, 50, 10, b"\x00\x00", shortstr("q"), octet(0), WIDE))
        ch.expect(commands.Queue.DeclareOk)
        client.feed(publish_frame(1) + header_frame(1, 0, b"\x20\x00" + WIDE))
    assert ch.declare("q", passive=True).message_count == 1
    bystander.expect_unharmed()


@pytest.mark.parametrize(
    "properties",
    [
        b"",
        b"\x00",
        b"\x80\x00",
        b"\x80\x00\xffshort",
        b"\x00\x01",  # flags go on, and do not
        b"\x00\x01" * 1000,
        b"\x00\x01\xff\xff\xff\xfe",
        b"\x00\x02",  # a flag that no property has
        b"\xff\xff",
        b"\xff\xfc",
        b"\x00\x00trailing",
        b"\x10\x00",
        b"\x00\x40\x00\x00\x00",
    ],
)
def test_broken_properties(pair: Pair, bystander: Bystander, properties: bytes) -> None:
    """#103 Property lists that do not add up are 501; nothing of them reaches a queue."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    client.feed(publish_frame(1) + header_frame(1, 0, properties))
    assert client.expect(commands.Connection.Close).reply_code == 501
    assert pair.connect().channel().drain("q") == []
    bystander.expect_unharmed()


# --------------------------------------------------------------------------------------------- who never reads


def test_consumer_that_never_reads(pair: Pair, bystander: Bystander) -> None:
    """#15 Deliveries to a client that does not read stop; the rest stays in the queue and others can have it."""
    lazy, source = pair.connect(), pair.connect()
    ch, out = lazy.channel(), source.channel()
    ch.declare("q")
    ch.consume("q", no_ack=True)
    lazy.stop_reading()
    body = b"x" * 100_000
    for _ in range(200):
        out.publish(body, key="q")
        pair.clock.advance(1)  # publishers wait some milliseconds for consumers that have stopped, but no longer
    unread = len(lazy.wire.outbox)
    limit = pair.broker.settings.out_buffer_limit
    assert HIGH_WATER < unread <= HIGH_WATER + limit + 2 * len(body)
    left = out.declare("q", passive=True).message_count or 0
    assert left >= 150
    bystander.expect_unharmed()
    assert out.get("q") is not None
    lazy.start_reading()
    assert len(ch.deliveries()) == 199


def test_consumer_that_never_reads_small_messages(pair: Pair, bystander: Bystander) -> None:
    """#15 The same in one read full of small messages, with a second consumer that does read."""
    lazy, source, eager = pair.connect(), pair.connect(), pair.connect()
    ch, out, busy = lazy.channel(), source.channel(1), eager.channel()
    ch.declare("q")
    ch.consume("q", no_ack=True)
    busy.consume("q", no_ack=True)
    lazy.stop_reading()
    one = publish_frame(1) + header_frame(1, 200) + body_frame(1, b"y" * 200)
    got = 0
    for _ in range(20):
        source.feed(one * 1000)
        got += len(busy.deliveries())
    out.expect_nothing()
    limit = pair.broker.settings.out_buffer_limit
    assert len(lazy.wire.outbox) <= HIGH_WATER + limit + 1000 * 300
    bystander.expect_unharmed()
    lazy.start_reading()
    got += len(ch.deliveries()) + len(busy.deliveries())
    assert got == 20_000


def test_acks_still_work_for_one_who_does_not_read(pair: Pair) -> None:
    """#15 A client under back-pressure may still settle, and gets its credit when it reads again."""
    client, source = pair.connect(), pair.connect()
    ch, out = client.channel(), source.channel()
    ch.declare("q")
    ch.qos(10)
    ch.consume("q")
    client.stop_reading()
    for _ in range(30):
        out.publish(b"x" * 50_000, key="q")
    ch.ack(1)
    client.start_reading()
    assert len(ch.deliveries()) == 11
    ch.ack(11, multiple=True)
    assert len(ch.deliveries()) == 10


@pytest.mark.parametrize("is_sliced", [False, True], ids=["whole", "sliced"])
def test_asker_that_never_reads(pair: Pair, bystander: Bystander, is_sliced: bool) -> None:
    """#15 A client that asks and asks but reads no answer is not read for ever, either, on a busy broker as well."""
    if is_sliced:
        pair.slice()
    client = pair.connect()
    ch = client.channel(1)
    name = "q" * 250
    ch.declare(name)
    client.stop_reading()
    question = encode_method(loose(commands.Queue.Declare, queue=name, passive=True), 1) * 500
    for _ in range(60):
        client.feed(question)
    assert not client.wire.is_reading
    assert len(client.wire.outbox) < 6 * MIB
    bystander.expect_unharmed()
    client.start_reading()
    assert len(client.take_all()) == 60 * 500, "every question is answered in the end"
    client.expect_alive()


def test_getter_that_never_reads(pair: Pair, bystander: Bystander) -> None:
    """#15 A few octets that ask for a big message again and again cannot make the broker hold it a thousand times."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    ch.publish(b"x" * MIB, key="q")
    client.stop_reading()
    again = b"".join(
        encode_method(commands.Basic.Get(queue="q"), 1) + encode_method(commands.Basic.Reject(tag, True), 1)
        for tag in range(1, 65)
    )
    with bounded_memory(48 * MIB):
        client.feed(again)
    bystander.expect_unharmed()
    client.start_reading()
    for tag in range(1, 65):
        assert ch.expect_message(commands.Basic.GetOk).tag == tag
    client.expect_alive()


def test_closed_for_one_who_never_reads(pair: Pair, bystander: Bystander) -> None:
    """#17 A client that never reads its connection.close is dropped in time, with what was unread."""
    client = pair.connect()
    client.stop_reading()
    client.send(commands.Queue.Declare(queue="q"), 9)
    pair.advance(30_000)
    assert client.wire.is_gone
    assert client.connection not in pair.broker.connections
    bystander.expect_unharmed()


# ------------------------------------------------------------------------------------------- garbage and order


@pytest.mark.parametrize("end", ["client close", "server close", "lost sync", "refused login", "bad header"])
def test_garbage_after_the_end(pair: Pair, bystander: Bystander, end: str) -> None:
    """#16 #17 Whatever comes after the end is thrown away and costs nothing."""
    client = pair.dial() if end in ("refused login", "bad header") else pair.connect()
    if end == "client close":
        client.send(commands.Connection.Close(200, "", 0, 0))
    elif end == "server close":
        client.send(commands.Queue.Declare(queue="q"), 9)
    elif end == "lost sync":
        client.feed(frame(1, 0, b"xxxx", end=0))
    elif end == "bad header":
        client.feed(b"GARBAGE!")
    else:
        client.feed(PROTOCOL_HEADER)
        client.start_ok(response="\0guest\0wrong")
    client.take_all()
    with bounded_memory(1 * MIB):
        for _ in range(10):
            client.feed(b"\x01\x00\x01\x00\x00\x00\x05garbage" * 1000)
            client.feed(bytes(range(256)) * 100)
    # Two closes never cross our own: at most the first garbage is answered.
    for item in client.take_all():
        assert isinstance(item.frame, commands.Connection.Close)
        assert item.frame.reply_code == 501
    pair.advance(60_000)
    assert client.wire.is_gone
    assert client.connection not in pair.broker.connections
    bystander.expect_unharmed()


def test_content_frames_out_of_order(pair: Pair, bystander: Bystander) -> None:
    """#10 Every order of method, header and body but the right one ends the connection with 505 or 501."""
    parts = {"method": publish_frame(1), "header": header_frame(1, 2), "body": body_frame(1, b"ab")}
    for order in itertools.product(parts, repeat=3):
        client = pair.connect()
        ch = client.channel(1)
        ch.declare("order")
        client.feed(b"".join(parts[name] for name in order), bytewise)
        if order == ("method", "header", "body"):
            client.expect_nothing()
            client.close()
            continue
        assert client.expect(commands.Connection.Close).reply_code in (501, 505), order
    bystander.expect_unharmed()


def test_tags_out_of_range(pair: Pair, bystander: Bystander) -> None:
    """#109 Delivery tags of any size are just unknown."""
    client = pair.connect()
    for tag in (0, 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1):
        for ids in ((60, 80), (60, 90), (60, 120)):
            ch = client.channel()
            ch.feed(method_frame(ch.number, *ids, struct.pack(">Q", tag), b"\x00"))
            ch.expect_close(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", ids)
    bystander.expect_unharmed()


# ------------------------------------------------------------------------------------------------ what is kept


@pytest.mark.parametrize("exchange", ["", "amq.topic", "amq.headers"])
def test_routes_remembered_are_bounded(
    pair: Pair, bystander: Bystander, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """#60 Keys and headers that never come twice do not pile up in any cache."""
    monkeypatch.setattr(topic, "CACHE_LIMIT", 4096)  # smaller than they are, to see them full in a short test
    monkeypatch.setattr(headers, "CACHE_LIMIT", 1 << 18)
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("sink", arguments={"x-max-length": 1})
    if exchange:
        ch.bind("sink", exchange, "#.rare", {"rare": 1})
    empty = header_frame(1, 0)

    def flood(start: int) -> None:
        if exchange == "amq.headers":
            client.feed(
                b"".join(
                    publish_frame(1, "k", exchange) + header_frame(1, 0, frames.properties(headers={f"h{n}": "v" * 80}))
                    for n in range(start, start + 1000)
                )
            )
        else:
            client.feed(
                b"".join(publish_frame(1, f"{n}.{'k' * 80}", exchange) + empty for n in range(start, start + 1000))
            )

    for start in range(0, 5_000, 1000):
        flood(start)
    with bounded_memory(11 * MIB // 4):
        for start in range(5_000, 18_000, 1000):
            flood(start)
    client.expect_nothing()
    bystander.expect_unharmed()


def test_long_chain_of_exchanges(pair: Pair, bystander: Bystander) -> None:
    """#50 A message may travel through thousands of exchanges; that is a loop, not a recursion."""
    ch = pair.connect().channel()
    ch.declare("q")
    for number in range(3000):
        ch.declare_exchange(f"x{number}", "fanout", auto_delete=True)
        if number:
            ch.bind_exchange(f"x{number}", f"x{number - 1}")
    ch.bind("q", "x2999")
    ch.publish(b"m", "x0", mandatory=True)
    ch.expect_nothing()
    assert ch.drain("q") == [b"m"]
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    ch.send(commands.Exchange.Declare(exchange="x0", passive=True))
    assert ch.expect(commands.Channel.Close).reply_code == 404, "auto-delete cascades all the way"
    bystander.expect_unharmed()


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 0},
        {"x-max-length": 0},
        {"x-max-length-bytes": 0},
        {"x-max-length": 0, "x-overflow": "reject-publish-dlx"},
    ],
)
def test_dead_letters_in_a_circle(pair: Pair, bystander: Bystander, arguments: dict[str, object]) -> None:
    """#136 Queues that bury in each other, or in themselves, come to rest."""
    ch = pair.connect().channel()
    for name, to in (("self", "self"), ("a", "b"), ("b", "a")):
        ch.declare(name, arguments={**arguments, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": to})
    for name in ("self", "a", "b"):
        for _ in range(20):
            ch.publish(b"m", key=name)
    pair.advance(1000)
    ch.expect_nothing()
    assert pair.clock.pending < 100
    bystander.expect_unharmed()


def test_requeue_for_ever(pair: Pair, bystander: Bystander) -> None:
    """#123 A consumer that requeues everything at once spins itself, within its reads, and nobody else."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    ch.publish(b"m", key="q")
    ch.consume("q")
    for _ in range(200):
        message = ch.expect_message()
        assert message.body == b"m"
        ch.nack(message.tag)
    bystander.expect_unharmed()


def test_many_strangers(pair: Pair, bystander: Bystander) -> None:
    """#26 Thousands of sockets that say half a word cost little and disturb nobody."""
    with bounded_memory(40 * MIB):
        strangers = [pair.dial() for _ in range(2000)]
        for stranger in strangers:
            stranger.wire.inbox.append(PROTOCOL_HEADER[:5])
        pair.settle()
    bystander.expect_unharmed()
    for stranger in strangers:
        stranger.wire.lose()
    bystander.expect_unharmed()
    assert len(pair.broker.connections) == 1


def test_lost_in_the_middle(pair: Pair, bystander: Bystander) -> None:
    """#16 A socket may die at any octet of any frame."""
    octets = (
        encode_method(commands.Channel.Open(), 1)
        + encode_method(commands.Queue.Declare(queue="mine", exclusive=True), 1)
        + encode_method(commands.Basic.Consume(queue="mine"), 1)
        + publish_frame(1, "mine")
        + header_frame(1, 5)
        + body_frame(1, b"12345")
    )
    for cut in range(len(octets)):
        client = pair.connect()
        client.feed(octets[:cut])
        client.drop()
    assert not [name for name in pair.broker.vhosts["/"].queues if name == "mine"]
    assert pair.broker.connections == {bystander.client.connection}
    bystander.expect_unharmed()
