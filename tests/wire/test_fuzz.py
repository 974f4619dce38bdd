"""Fuzzing with hypothesis: whatever octets arrive, the broker answers with a close frame, drops the wire or waits.

Checked after every run: nothing came out of `receive`, nothing was logged as an error (an unexpected exception becomes
541 and a line in the log, so 541 is a failure here), another connection works as before, and what the fuzzed client
held is free again.
"""

import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pamqp import base, commands

from tests.support import frames
from tests.support.frames import PROTOCOL_HEADER, body_frame, encode_method, frame, header_frame, longstr
from tests.support.pair import Client, Pair, Typed, bytewise, loose, random_cuts, whole

#: What a broken byte stream may be answered with; 541 is never among them.
HARD = {402, 501, 502, 503, 504, 505, 506, 530, 540}
SOFT = {311, 312, 313, 403, 404, 405, 406}

FUZZ = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
CUTS = st.one_of(st.just(whole), st.just(bytewise), st.integers(0, 1000).map(random_cuts))


class Errors(logging.Handler):
    """Collects what the broker logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


@contextmanager
def no_errors() -> Iterator[None]:
    errors = Errors()
    log = logging.getLogger("rabbitlike")
    log.addHandler(errors)
    try:
        yield
    finally:
        log.removeHandler(errors)
    assert not errors.found, errors.found[0]


class Arena:
    """A broker with a bystander and the client that is fuzzed."""

    def __init__(self) -> None:
        self.pair = Pair()
        self.bystander = self.pair.connect()
        self.beside = self.bystander.channel(1)
        self.beside.declare("bystander")
        self.beside.consume("bystander", no_ack=True)
        self.beside.declare("q")
        self.beside.declare_exchange("x", "topic")
        self.beside.bind("q", "x", "#")

    def check(self, client: Client) -> None:
        self.pair.settle()
        self.check_answers(client)
        self.check_bystander()
        client.drop()
        self.pair.advance(60_000)
        self.check_bystander()
        assert client.wire.is_gone
        assert self.pair.broker.connections == {self.bystander.connection}
        for queue in self.pair.broker.vhosts["/"].queues.values():
            assert queue.owner is None, "an exclusive queue outlived its owner"
            assert queue.unacked_count == 0, "a message stayed with a client that is gone"
            assert queue.consumer_count == (1 if queue.name == "bystander" else 0)

    def check_answers(self, client: Client) -> None:
        """pamqp can read all of it; closes carry a code that RabbitMQ would use; nothing follows connection.close."""
        client.start_reading()
        closes = 0
        for item in client.take_all():
            if isinstance(item.frame, commands.Connection.Close):
                assert item.frame.reply_code in HARD | SOFT, item
                closes += 1
            elif closes:
                assert isinstance(item.frame, commands.Connection.CloseOk), f"{item!r} after connection.close"
            if isinstance(item.frame, commands.Channel.Close):
                assert item.frame.reply_code in SOFT, item
        assert closes <= 1

    def check_bystander(self) -> None:
        self.beside.publish(b"still here", key="bystander")
        message = self.beside.expect_message()
        assert message.body == b"still here"
        assert not self.bystander.wire.is_gone


# ------------------------------------------------------------------------------------------------ random octets


@FUZZ
@given(data=st.binary(max_size=400), cut=CUTS)
def test_random_octets_from_a_stranger(data: bytes, cut: object) -> None:
    """#21 Anything at all as the first octets."""
    arena = Arena()
    with no_errors():
        client = arena.pair.dial()
        client.feed(data, cut)  # type: ignore[arg-type]
        arena.check(client)


@FUZZ
@given(data=st.binary(max_size=400), cut=CUTS, step=st.sampled_from(["start", "tune", "open"]))
def test_random_octets_in_the_handshake(data: bytes, cut: object, step: str) -> None:
    """#26 Anything at all instead of start-ok, tune-ok or open."""
    arena = Arena()
    with no_errors():
        client = arena.pair.dial()
        client.feed(PROTOCOL_HEADER)
        if step != "start":
            client.start_ok()
        if step == "open":
            client.tune()
        client.take_all()
        client.feed(data, cut)  # type: ignore[arg-type]
        arena.check(client)


ANY_FRAME = st.builds(
    frame,
    st.sampled_from([1, 1, 1, 1, 2, 3, 8, 0, 5, 255]),
    st.sampled_from([0, 1, 1, 1, 2, 3, 65535]),
    st.one_of(
        st.binary(max_size=60),
        st.builds(
            lambda ids, rest: struct.pack(">I", ids) + rest,
            st.sampled_from(sorted(commands.INDEX_MAPPING)),
            st.binary(max_size=60),
        ),
    ),
)


@FUZZ
@given(pieces=st.lists(st.one_of(ANY_FRAME, ANY_FRAME, ANY_FRAME, st.binary(max_size=20)), max_size=12), cut=CUTS)
def test_random_frames(pieces: list[bytes], cut: object) -> None:
    """#3 #6 #10 Well-framed nonsense: any type, any channel, any method with any arguments."""
    arena = Arena()
    with no_errors():
        client = arena.pair.connect()
        client.channel(1)
        client.feed(b"".join(pieces), cut)  # type: ignore[arg-type]
        arena.check(client)


# -------------------------------------------------------------------------------------------- mutated streams


def valid_session() -> list[bytes]:
    """The frames of an honest client that uses a bit of everything."""
    headers = {"n": Typed("l", 5), "list": [1, "two", None, {"deep": [True]}], "CC": ["q"], "t": Typed("T", 5)}
    rich = frames.properties(
        content_type="text/plain", headers=headers, delivery_mode=2, priority=3, expiration="60000", message_id="id"
    )
    methods: list[base.Frame | bytes] = [
        commands.Channel.Open(),
        commands.Basic.Qos(prefetch_count=10),
        commands.Exchange.Declare(exchange="y", exchange_type="headers", arguments={"alternate-exchange": "x"}),
        commands.Queue.Declare(queue="r", arguments={"x-max-length": 5, "x-dead-letter-exchange": "x"}),
        commands.Queue.Declare(queue="", exclusive=True),
        commands.Queue.Bind(queue="r", exchange="y", arguments={"x-match": "any", "n": 5}),
        commands.Exchange.Bind(destination="y", source="amq.fanout"),
        commands.Confirm.Select(),
        commands.Basic.Publish(exchange="amq.fanout", routing_key="k", mandatory=True),
        header_frame(1, 10, rich),
        body_frame(1, b"01234"),
        body_frame(1, b"56789"),
        commands.Basic.Publish(exchange="", routing_key="nowhere", mandatory=True),
        header_frame(1, 0),
        commands.Basic.Publish(exchange="x", routing_key="a.b"),
        header_frame(1, 1),
        body_frame(1, b"x"),
        commands.Basic.Get(queue="q"),
        commands.Basic.Get(queue="r"),
        commands.Basic.Consume(queue="r", consumer_tag="tag"),
        commands.Basic.Ack(1),
        commands.Basic.Nack(2, multiple=True, requeue=True),
        commands.Basic.Recover(requeue=True),
        commands.Basic.Cancel("tag"),
        commands.Queue.Purge(queue="q"),
        commands.Queue.Unbind(queue="r", exchange="y", arguments={"x-match": "any", "n": 5}),
        commands.Queue.Delete(queue="r"),
        commands.Channel.Close(200, "bye", 0, 0),
        commands.Channel.Open(),
        commands.Tx.Select(),
        commands.Basic.Publish(routing_key="q"),
        header_frame(1, 1),
        body_frame(1, b"x"),
        commands.Tx.Commit(),
        commands.Channel.Flow(True),
    ]
    return [item if isinstance(item, bytes) else encode_method(item, 1) for item in methods]


SESSION = valid_session()
OPENING = [
    PROTOCOL_HEADER,
    encode_method(
        loose(
            commands.Connection.StartOk,
            client_properties={"capabilities": {"basic.nack": True, "connection.blocked": True}},
            response=longstr("\0guest\0guest"),
        ),
        0,
    ),
    encode_method(commands.Connection.TuneOk(channel_max=5, frame_max=4096, heartbeat=0), 0),
    encode_method(commands.Connection.Open(), 0),
]


def mutate(stream: list[bytes], how: str, at: int, value: int) -> list[bytes]:
    """One fault in a row of frames; frame borders themselves may be the fault."""
    place = at % len(stream)
    octets = bytearray(stream[place]) or bytearray(b"?")
    offset = value % len(octets)
    if how == "flip":
        octets[offset] ^= 1 << (at % 8)
    elif how == "set":
        octets[offset] = (value >> 8) & 0xFF
    elif how == "insert":
        octets.insert(offset, (value >> 8) & 0xFF)
    elif how == "remove":
        del octets[offset]
    elif how == "payload" and len(octets) > 8:
        octets[7 + value % (len(octets) - 8)] = (value >> 8) & 0xFF
    elif how == "channel" and len(octets) > 8:
        octets[1:3] = struct.pack(">H", value % 4)
    elif how == "size" and len(octets) > 8:
        octets[3:7] = struct.pack(">I", value % 5000)
    elif how == "truncate":
        return [*stream[:place], bytes(octets[:offset])]
    elif how == "drop":
        return stream[:place] + stream[place + 1 :]
    elif how == "double":
        return [*stream[:place], bytes(octets), *stream[place:]]
    elif how == "swap":
        other = value % len(stream)
        stream = list(stream)
        stream[place], stream[other] = stream[other], stream[place]
        return stream
    return [*stream[:place], bytes(octets), *stream[place + 1 :]]


MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "flip",
                "set",
                "insert",
                "remove",
                "payload",
                "payload",
                "channel",
                "size",
                "truncate",
                "drop",
                "double",
                "swap",
            ]
        ),
        st.integers(0, 1000),
        st.integers(0, 2**20),
    ),
    min_size=1,
    max_size=4,
)


def test_the_valid_session_is_valid() -> None:
    """What is mutated below is a session without a fault, however it is cut."""
    for cut in (whole, bytewise, random_cuts(5)):
        arena = Arena()
        with no_errors():
            client = arena.pair.dial()
            client.feed(b"".join(OPENING + SESSION), cut)
            answers = [item.frame for item in client.received()]
            assert not any(isinstance(item, (commands.Channel.Close, commands.Connection.Close)) for item in answers)
            assert isinstance(answers[-1], commands.Channel.FlowOk)
            arena.check(client)


@FUZZ
@given(mutations=MUTATIONS, cut=CUTS)
def test_mutated_session(mutations: list[tuple[str, int, int]], cut: object) -> None:
    """#4 #6 #10 An honest session with a few faults in it."""
    stream = SESSION
    for how, at, value in mutations:
        stream = mutate(stream, how, at, value) or [b"\x00"]
    arena = Arena()
    with no_errors():
        client = arena.pair.connect(frame_max=4096)
        client.feed(b"".join(stream), cut)  # type: ignore[arg-type]
        arena.check(client)


@FUZZ
@given(mutations=MUTATIONS, cut=CUTS)
def test_mutated_opening(mutations: list[tuple[str, int, int]], cut: object) -> None:
    """#21 #26 An honest opening with a few faults in it, and the session after it."""
    stream = OPENING
    for how, at, value in mutations:
        stream = mutate(stream, how, at, value) or [b"\x00"]
    arena = Arena()
    with no_errors():
        client = arena.pair.dial()
        client.feed(b"".join(stream + SESSION), cut)  # type: ignore[arg-type]
        arena.check(client)


# ------------------------------------------------------------------------------------------ random conversations

NAMES = st.sampled_from(["", "q", "r", "s", "amq.direct", "amq.x", "nope"])
EXCHANGES = st.sampled_from(["", "x", "y", "amq.topic", "amq.headers", "amq.fanout", "amq.nope", "nope"])
KEYS = st.sampled_from(["", "q", "r", "a.b", "#", "*", "amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.g1"])
TAGS = st.sampled_from(["", "c1", "c2"])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([2**31, -(2**40), Typed("b", -1), Typed("l", 1), Typed("d", 1.5), Typed("x", b"\xff")]),
    st.sampled_from(["", "x", "y", "any", "all", "drop-head", "reject-publish", "quorum", "classic", "stream", "5"]),
    st.lists(st.sampled_from(["q", "r", 1]), max_size=2),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 2), max_size=2),
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        [
            "x-message-ttl",
            "x-expires",
            "x-max-length",
            "x-max-length-bytes",
            "x-overflow",
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
            "x-dead-letter-strategy",
            "x-max-priority",
            "x-queue-type",
            "x-single-active-consumer",
            "x-delivery-limit",
            "x-consumer-timeout",
            "x-match",
            "x-priority",
            "alternate-exchange",
            "n",
        ]
    ),
    VALUES,
    max_size=3,
)
HEADERS = st.dictionaries(
    st.sampled_from(["n", "CC", "BCC", "x-death", "x-delivery-count", "x-match"]), VALUES, max_size=3
)
FLAG = st.booleans()
DELIVERY_TAGS = st.integers(0, 6)


def made(cls: type[base.Frame], **fields: st.SearchStrategy[object]) -> st.SearchStrategy[base.Frame]:
    return st.fixed_dictionaries(fields).map(lambda given: loose(cls, **given))


def content(key: str, exchange: str, props: dict[str, object], body: bytes, flags: tuple[bool, bool]) -> list[object]:
    method = loose(
        commands.Basic.Publish,
        exchange=exchange,
        routing_key=key,
        mandatory=flags[0],
        immediate=flags[1] and key == "#",
    )
    return [method, ("header", len(body), frames.properties(**props)), *([("body", body)] if body else [])]


PUBLISH = st.builds(
    content,
    KEYS,
    EXCHANGES,
    st.fixed_dictionaries(
        {},
        optional={
            "headers": HEADERS,
            "delivery_mode": st.integers(0, 255),
            "priority": st.integers(0, 255),
            "expiration": st.sampled_from(["0", "1", "1000", "x", "-1", ""]),
            "reply_to": KEYS,
            "user_id": st.sampled_from(["guest", "other"]),
            "timestamp": st.integers(0, 2**64 - 1),
        },
    ),
    st.sampled_from([b"", b"a", b"b" * 5000]),
    st.tuples(FLAG, FLAG),
)

METHODS = st.one_of(
    made(
        commands.Queue.Declare,
        queue=NAMES,
        passive=FLAG,
        durable=FLAG,
        exclusive=FLAG,
        auto_delete=FLAG,
        nowait=FLAG,
        arguments=ARGUMENTS,
    ),
    made(commands.Queue.Bind, queue=NAMES, exchange=EXCHANGES, routing_key=KEYS, arguments=ARGUMENTS),
    made(commands.Queue.Unbind, queue=NAMES, exchange=EXCHANGES, routing_key=KEYS, arguments=ARGUMENTS),
    made(commands.Queue.Purge, queue=NAMES),
    made(commands.Queue.Delete, queue=NAMES, if_unused=FLAG, if_empty=FLAG),
    made(
        commands.Exchange.Declare,
        exchange=EXCHANGES,
        exchange_type=st.sampled_from(
            ["direct", "topic", "headers", "fanout", "x-consistent-hash", "x-random", "x-recent-history", "no"]
        ),
        auto_delete=FLAG,
        internal=FLAG,
        arguments=ARGUMENTS,
    ),
    made(commands.Exchange.Delete, exchange=EXCHANGES, if_unused=FLAG),
    made(commands.Exchange.Bind, destination=EXCHANGES, source=EXCHANGES, routing_key=KEYS, arguments=ARGUMENTS),
    made(commands.Exchange.Unbind, destination=EXCHANGES, source=EXCHANGES, routing_key=KEYS, arguments=ARGUMENTS),
    made(
        commands.Basic.Consume,
        queue=st.one_of(NAMES, KEYS),
        consumer_tag=TAGS,
        no_ack=FLAG,
        exclusive=FLAG,
        nowait=FLAG,
        arguments=ARGUMENTS,
    ),
    made(commands.Basic.Cancel, consumer_tag=TAGS),
    made(commands.Basic.Get, queue=NAMES, no_ack=FLAG),
    made(commands.Basic.Ack, delivery_tag=DELIVERY_TAGS, multiple=FLAG),
    made(commands.Basic.Nack, delivery_tag=DELIVERY_TAGS, multiple=FLAG, requeue=FLAG),
    made(commands.Basic.Reject, delivery_tag=DELIVERY_TAGS, requeue=FLAG),
    made(commands.Basic.Recover, requeue=FLAG),
    made(commands.Basic.RecoverAsync, requeue=FLAG),
    made(commands.Basic.Qos, prefetch_count=st.integers(0, 3), global_=FLAG),
    made(commands.Confirm.Select, nowait=FLAG),
    made(commands.Tx.Select),
    made(commands.Tx.Commit),
    made(commands.Tx.Rollback),
    made(commands.Channel.Open),
    made(commands.Channel.Flow, active=st.just(True)),
    st.just(commands.Channel.Close(200, "", 0, 0)),
    st.just(commands.Channel.CloseOk()),
)

#: One thing to do: a method or a whole publish on a channel, or time.
STEPS = st.one_of(
    st.tuples(st.integers(1, 3), METHODS.map(lambda method: [method])),
    st.tuples(st.integers(1, 3), METHODS.map(lambda method: [method])),
    st.tuples(st.integers(1, 3), PUBLISH),
    st.tuples(st.just(0), st.sampled_from([1, 1000, 5000])),
)


def octets_of(item: object, channel: int) -> bytes:
    if isinstance(item, base.Frame):
        return encode_method(item, channel)
    assert isinstance(item, tuple)
    if item[0] == "header":
        return header_frame(channel, item[1], item[2])
    return b"".join(body_frame(channel, item[1][at : at + 4000]) for at in range(0, len(item[1]), 4000))


@settings(FUZZ, max_examples=250)
@given(steps=st.lists(STEPS, max_size=40))
def test_random_conversation(steps: list[tuple[int, object]]) -> None:
    """#2 #8 #17 Methods in any order with any arguments, channels opened again after each close, and time passing."""
    arena = Arena()
    with no_errors():
        client = arena.pair.connect(frame_max=4096)
        for number in (1, 2, 3):
            client.channel(number)
        for channel, what in steps:
            if channel == 0:
                assert isinstance(what, int)
                arena.pair.advance(what)
                continue
            assert isinstance(what, list)
            client.feed(b"".join(octets_of(item, channel) for item in what))
            if client.wire.is_gone or any(
                isinstance(item.frame, commands.Connection.Close) for item in client.received()
            ):
                break
            for item in client.received():
                if isinstance(item.frame, commands.Channel.Close):
                    assert item.frame.reply_code in SOFT, item
                    client.feed(
                        encode_method(commands.Channel.CloseOk(), item.channel)
                        + encode_method(commands.Channel.Open(), item.channel)
                    )
            client.take_all()
        arena.check(client)


#: Methods whose answers do not depend on where one read ends and the next begins.
PLAIN = st.one_of(
    made(commands.Queue.Declare, queue=st.sampled_from(["q", "r", "nope"]), passive=FLAG, auto_delete=FLAG),
    made(commands.Queue.Bind, queue=NAMES, exchange=EXCHANGES, routing_key=KEYS),
    made(commands.Queue.Purge, queue=NAMES),
    made(commands.Queue.Delete, queue=st.sampled_from(["q", "r", "nope"]), if_empty=FLAG),
    made(commands.Basic.Get, queue=NAMES, no_ack=FLAG),
    made(commands.Basic.Ack, delivery_tag=DELIVERY_TAGS, multiple=FLAG),
    made(commands.Basic.Reject, delivery_tag=DELIVERY_TAGS, requeue=FLAG),
    st.just(commands.Channel.CloseOk()),
    made(commands.Channel.Open),
)


@FUZZ
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 2), st.one_of(PLAIN.map(lambda method: [method]), PUBLISH, PUBLISH)), max_size=25
    ),
    seed=st.integers(0, 1000),
    tail=st.binary(max_size=10),
)
def test_cuts_do_not_matter(steps: list[tuple[int, list[object]]], seed: int, tail: bytes) -> None:
    """#4 #10 The same octets get the same answer, whole, octet by octet or cut at random."""
    data = b"".join(octets_of(item, channel) for channel, items in steps for item in items) + tail
    answers = []
    for cut in (whole, bytewise, random_cuts(seed)):
        arena = Arena()
        with no_errors():
            client = arena.pair.connect(frame_max=4096)
            client.channel(1)
            client.channel(2)
            client.raw.clear()
            client.feed(data, cut)
            client.received()
            answers.append(bytes(client.raw))
            arena.check(client)
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]
