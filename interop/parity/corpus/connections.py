"""Below the methods: handshakes, tunes, frames out of order, channels that are not open, and ends of all kinds."""

from functools import partial
from typing import Final

from pamqp import base, commands

from interop.parity.conversations import add, conversation
from interop.parity.line import CAPABILITIES, start_ok
from interop.parity.talk import Barrier, Client, Talk
from tests.support import frames
from tests.support.frames import Typed, loose

#: Nobody is to wait longer for an end than this; RabbitMQ waits 3 s after some mistakes.
LATE_S: Final = 8.0
GIVEN: Final = {"product": "parity", "capabilities": dict.fromkeys(CAPABILITIES, True)}


def raw(client: Client, step: str, data: bytes, *, patience_s: float = LATE_S) -> None:
    client.send(step, data, barrier=Barrier.NONE, patience_s=patience_s)


def method(cls: type[base.Frame], channel: int = 0, **fields: object) -> bytes:
    return frames.encode_method(loose(cls, **fields), channel)


# Handshakes.

HEADERS: Final = {
    "amqp_1_0": b"AMQP\x00\x01\x00\x00",
    "amqp_0_8": b"AMQP\x01\x01\x08\x00",
    "amqp_0_10": b"AMQP\x01\x01\x00\x0a",
    "sasl": b"AMQP\x03\x01\x00\x00",
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "zeros": bytes(8),
}


def greeted_wrongly(talk: Talk, data: bytes) -> None:
    raw(talk.dial(), repr(data), data)


for _name, _data in HEADERS.items():
    add(f"connections.greeted_by_{_name}", partial(greeted_wrongly, data=_data))


@conversation
def greeted_by_0_9(talk: Talk) -> None:
    """The header of AMQP 0-9 is taken, too."""
    client = talk.dial()
    raw(client, "AMQP 1 1 0 9", b"AMQP\x01\x01\x00\x09")
    raw(client, "start-ok", frames.encode_method(start_ok(GIVEN), 0))


@conversation
def a_handshake(talk: Talk) -> None:
    """Step by step, with what the broker says of itself and its limits."""
    client = talk.dial()
    raw(client, "AMQP 0 0 9 1", frames.PROTOCOL_HEADER)
    raw(client, "start-ok", frames.encode_method(start_ok(GIVEN), 0))
    raw(client, "tune-ok", method(commands.Connection.TuneOk, channel_max=10, frame_max=4096, heartbeat=0))
    raw(client, "open", method(commands.Connection.Open, virtual_host="/"))
    raw(client, "channel 10", method(commands.Channel.Open, 10))
    raw(client, "channel 11", method(commands.Channel.Open, 11))


LOGINS: Final[dict[str, tuple[str, bytes]]] = {
    "amqplain": ("AMQPLAIN", frames.table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]),
    "amqplain_extra": ("AMQPLAIN", frames.table({"x": 1, "PASSWORD": "guest", "LOGIN": "guest"})[4:]),
    "plain_wrong": ("PLAIN", b"\0guest\0wrong"),
    "plain_nobody": ("PLAIN", b"\0nobody\0guest"),
    "amqplain_wrong": ("AMQPLAIN", frames.table({"LOGIN": "guest", "PASSWORD": "wrong"})[4:]),
}


def logging_in(talk: Talk, mechanism: str, response: bytes) -> None:
    client = talk.dial()
    raw(client, "AMQP 0 0 9 1", frames.PROTOCOL_HEADER)
    raw(client, f"start-ok {mechanism} {response!r}", frames.encode_method(start_ok(GIVEN, mechanism, response), 0))


for _name, (_mechanism, _response) in LOGINS.items():
    add(f"connections.login_{_name}", partial(logging_in, mechanism=_mechanism, response=_response))


@conversation
def login_wrong_untold(talk: Talk) -> None:
    """Whoever does not know the close is hung up on."""
    client = talk.dial()
    raw(client, "AMQP 0 0 9 1", frames.PROTOCOL_HEADER)
    raw(client, "start-ok", frames.encode_method(start_ok({}, "PLAIN", b"\0guest\0wrong"), 0))


TUNES: Final = {
    "usual": (2047, 131072, 60),
    "small": (1, 4096, 0),
    "long heartbeat": (2047, 131072, 65535),
    "no channel_max": (0, 131072, 0),
    "no frame_max": (2047, 0, 0),
    "too many channels": (2048, 131072, 0),
    "too large frames": (2047, 131073, 0),
    "too small frames": (2047, 4095, 0),
    "tiny frames": (2047, 1, 0),
}


REFUSED: Final = tuple(TUNES)[3:]


@conversation
def tuned(talk: Talk) -> None:
    """Many connections, each with other limits; all at once, as who is refused waits for seconds."""
    for name in TUNES:
        client = talk.dial(name)
        raw(client, "AMQP 0 0 9 1", frames.PROTOCOL_HEADER)
        raw(client, "start-ok", frames.encode_method(start_ok(GIVEN), 0))
    for name, (channel_max, frame_max, heartbeat) in TUNES.items():
        fields = {"channel_max": channel_max, "frame_max": frame_max, "heartbeat": heartbeat}
        tune = method(commands.Connection.TuneOk, **fields)
        for line in talk.clients[name].lines:
            line.send(tune + method(commands.Connection.Open, virtual_host="/"))
    for name, client in talk.clients.items():
        for line in client.lines:
            line.await_end(LATE_S if name in REFUSED else 0.05)
    talk.settle("tune-ok and open")


def start_ok_of(size: int) -> bytes:
    """A start-ok with a payload of so many octets."""
    fixed = len(frames.encode_method(start_ok({"token": ""}), 0)) - len(frames.frame(1, 0, b""))
    return frames.encode_method(start_ok({"token": "x" * (size - fixed)}), 0)


def start_ok_sized(talk: Talk, size: int) -> None:
    client = talk.dial()
    raw(client, "AMQP 0 0 9 1", frames.PROTOCOL_HEADER)
    for line in client.lines:
        line.send(start_ok_of(size))
    for line in client.lines:
        line.await_end(LATE_S if size > 4096 else 0.05)
    talk.settle(f"start-ok of {size} octets")


add("connections.start_ok_as_large_as_can_be", partial(start_ok_sized, size=4096))
add("connections.start_ok_too_large", partial(start_ok_sized, size=4097))


def opened(talk: Talk, vhost: str) -> None:
    client = talk.dial()
    raw(client, "AMQP 0 0 9 1", frames.PROTOCOL_HEADER)
    raw(client, "start-ok", frames.encode_method(start_ok(GIVEN), 0))
    tune = method(commands.Connection.TuneOk, channel_max=2047, frame_max=131072, heartbeat=0)
    raw(client, f"open {vhost!r}", tune + method(commands.Connection.Open, virtual_host=vhost))


for _name, _vhost in {"absent": "absent", "nothing": "", "two": "//", "odd": "Grüße"}.items():
    add(f"connections.vhost_{_name}", partial(opened, vhost=_vhost))


# Frames that are wrong, each of which ends its connection.

PUBLISH: Final = method(commands.Basic.Publish, 1, exchange="", routing_key="nowhere")

WRONG: Final[dict[str, bytes]] = {
    "unknown_type": frames.frame(4, 1, b""),
    "type_0": frames.frame(0, 0, b""),
    "wrong_end": frames.frame(1, 1, frames.long(0x0014000A) + b"\0", end=0xCD),
    "too_large": frames.frame(3, 1, b"x" * 140000),
    "heartbeat_with_payload": frames.frame(8, 0, b"x"),
    "heartbeat_on_a_channel": frames.frame(8, 1, b""),
    "header_without_publish": frames.header_frame(1, 0),
    "body_without_publish": frames.body_frame(1, b"x"),
    "body_instead_of_header": PUBLISH + frames.body_frame(1, b"x"),
    "method_instead_of_header": PUBLISH + method(commands.Basic.Qos, 1),
    "method_instead_of_body": PUBLISH + frames.header_frame(1, 5) + method(commands.Basic.Qos, 1),
    "header_instead_of_body": PUBLISH + frames.header_frame(1, 5) + frames.header_frame(1, 5),
    "header_of_another_class": PUBLISH + frames.header_frame(1, 0, class_id=50),
    "weight": PUBLISH + frames.header_frame(1, 0, weight=1),
    "channel_0_open": method(commands.Channel.Open, 0),
    "channel_0_declare": method(commands.Queue.Declare, 0, queue="q"),
    "channel_0_header": frames.header_frame(0, 0),
    "channel_not_open": method(commands.Queue.Declare, 7, queue="q"),
    "channel_not_open_publish": method(commands.Basic.Publish, 7, exchange="", routing_key="q")
    + frames.header_frame(7, 0),
    "channel_not_open_close": method(commands.Channel.Close, 7, reply_code=200, reply_text="", class_id=0, method_id=0),
    "channel_too_high": method(commands.Channel.Open, 2048),
    "opened_twice": method(commands.Channel.Open, 1),
    "connection_method_on_a_channel": method(commands.Connection.Open, 1, virtual_host="/"),
    "start_ok_again": frames.encode_method(start_ok(GIVEN), 0),
    "open_again": method(commands.Connection.Open, 0, virtual_host="/"),
    "tune_ok_again": method(commands.Connection.TuneOk, 0, channel_max=1, frame_max=4096, heartbeat=0),
    "answers_from_the_client": method(commands.Queue.DeclareOk, 1, queue="q", message_count=0, consumer_count=0),
    "deliver_from_the_client": method(
        commands.Basic.Deliver, 1, consumer_tag="c", delivery_tag=1, redelivered=False, exchange="", routing_key=""
    )
    + frames.header_frame(1, 0),
    "flow_off": method(commands.Channel.Flow, 1, active=False),
    "cut_short": frames.method_frame(1, 50, 10, frames.short(0)),
    "left_over": frames.method_frame(1, 20, 20, b"\1", b"more"),
    "bad_table": frames.method_frame(1, 50, 10, frames.short(0), frames.shortstr("q"), b"\0", frames.longstr(b"\1aZ")),
    "bad_properties": PUBLISH + frames.header_frame(1, 0, b"\x80\x00"),
    "properties_left_over": PUBLISH + frames.header_frame(1, 0, b"\x00\x00more"),
    "connection_close_ok": method(commands.Connection.CloseOk, 0),
    "blocked_from_the_client": method(commands.Connection.Blocked, 0, reason="tired"),
}


def saying_wrong(talk: Talk, data: bytes) -> None:
    client = talk.connect()
    client.channel()
    client.is_mid_content = True
    raw(client, repr(data[:60]), data)


for _name, _data in WRONG.items():
    add(f"connections.wrong_{_name}", partial(saying_wrong, data=_data))


@conversation
def too_long_a_body(talk: Talk) -> None:
    client = talk.connect()
    client.channel()
    client.is_mid_content = True
    data = PUBLISH + frames.header_frame(1, 5) + frames.body_frame(1, b"123456")
    raw(client, "a body of 6 octets announced as 5", data, patience_s=0.3)


@conversation
def harmless(talk: Talk) -> None:
    """What is odd and taken all the same."""
    client = talk.connect()
    ch = client.channel()
    client.send("heartbeats", frames.HEARTBEAT_FRAME * 3, 1)
    client.send("close-ok for a channel that is open", method(commands.Channel.CloseOk, 1), 0)
    ch.reopen()
    # Its answer looks like a barrier's.
    client.send("flow", method(commands.Channel.Flow, 1, active=True), 1, barrier=Barrier.AFTER)
    client.send("flow-ok", method(commands.Channel.FlowOk, 1, active=True), 1)
    client.send("close-ok for a channel that never was", method(commands.Channel.CloseOk, 9), 1)
    client.channel(1).count("amq.absent")


@conversation
def access(talk: Talk) -> None:
    """The old access.request, and tickets that mean nothing."""
    client = talk.connect()
    client.channel()
    client.send("access.request", frames.method_frame(1, 30, 10, frames.shortstr("/data"), b"\x1f"), 1)
    client.send("queue.declare with a ticket", method(commands.Queue.Declare, 1, ticket=7, queue=talk.name("q")), 1)


@conversation
def secrets(talk: Talk) -> None:
    client = talk.connect()
    ch = client.channel()
    client.say(commands.Connection.UpdateSecret, new_secret="guest", reason="because")
    ch.declare(talk.name("q"))


@conversation
def while_closing(talk: Talk) -> None:
    """A channel that was closed hears nothing until it is answered; then it can be opened again."""
    client = talk.connect()
    ch, other = client.channel(), client.channel(2)
    for line in client.lines:
        line.answers_closes = False
    ch.publish(b"", talk.name("absent"))
    raw(client, "a method that is too late", method(commands.Queue.Declare, 1, queue=talk.name("q")))
    raw(client, "a publish that is too late", PUBLISH + frames.header_frame(1, 0))
    other.count("amq.absent")
    close = method(commands.Channel.Close, 1, reply_code=200, reply_text="", class_id=0, method_id=0)
    raw(client, "close meets close", close)
    raw(client, "the answer", method(commands.Channel.CloseOk, 1))
    client.say(commands.Channel.Open, 1)
    client.say(commands.Queue.Declare, 1, queue=talk.name("q"), passive=True)


@conversation
def channels_closed(talk: Talk) -> None:
    """By the client, with whatever it says; and the number is free again."""
    client = talk.connect()
    for code, text, class_id, method_id in ((200, "", 0, 0), (0, "x" * 255, 1, 2), (65535, "\r\n", 65535, 65535)):
        client.channel()
        fields = {"reply_code": code, "reply_text": text, "class_id": class_id, "method_id": method_id}
        client.say(commands.Channel.Close, 1, **fields)
    client.say(commands.Channel.Open, 2047)
    client.say(commands.Channel.Open, 1)


@conversation
def connections_closed(talk: Talk) -> None:
    """Exclusive queues are gone when that is answered, and what was unacked is back."""
    client, other = talk.connect(), talk.connect("other")
    ch, there = client.channel(confirms=True), other.channel()
    queue, mine = talk.name("q"), talk.name("mine")
    ch.declare(queue)
    ch.declare(mine, exclusive=True)
    ch.publish(b"1", key=queue)
    ch.get(queue)
    client.close()
    with there.refused():
        there.declare(mine, passive=True)
    there.count(queue)
    there.get(queue)


@conversation
def dropped(talk: Talk) -> None:
    """The same without a word."""
    client, other = talk.connect(), talk.connect("other")
    ch, there = client.channel(confirms=True), other.channel()
    queue = talk.name("q")
    ch.declare(queue)
    ch.publish(b"1", key=queue)
    ch.consume(queue, "c")
    client.drop()
    there.count(queue)
    there.get(queue)


@conversation
def interleaved(talk: Talk) -> None:
    """Two channels publish at once, frame by frame."""
    client = talk.connect()
    client.channel(1, confirms=True)
    client.channel(2, confirms=True)
    queues = {1: talk.name("first"), 2: talk.name("second")}
    parts = []
    for channel, queue in queues.items():
        client.channel(1).declare(queue)
        publish = method(commands.Basic.Publish, channel, exchange="", routing_key=queue, mandatory=True)
        bodies = [frames.body_frame(channel, b"%d" % channel * 3) for _ in range(3)]
        parts.append([publish, frames.header_frame(channel, 9), *bodies])
    data = b"".join(frame for pair in zip(*parts, strict=True) for frame in pair)
    client.send("two messages at once", data, 2)
    for queue in queues.values():
        client.channel(1).drain(queue, 1)


@conversation
def client_properties(talk: Talk) -> None:
    """Whatever they say."""
    everything = {"a": [1, {"b": Typed("V", None)}], "connection_name": "Grüße", "version": 5}
    talk.connect("odd", {**everything, "capabilities": "text"}).channel()
