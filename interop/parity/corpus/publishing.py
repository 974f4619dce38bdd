"""Publishing: what is checked, in which order; returns, confirms, CC and BCC; what arrives is what was sent."""

from typing import Any, Final

from pamqp import commands

from interop.parity.conversations import conversation
from interop.parity.talk import Barrier, Talk, content_frames
from tests.support import frames
from tests.support.frames import Typed, loose

EVERYTHING: Final[dict[str, Any]] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"n": 1},
    "delivery_mode": 2,
    "priority": 0,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "60000",
    "message_id": "m",
    "timestamp": 1_700_000_000,
    "message_type": "t",
    "user_id": "guest",
    "app_id": "a",
    "cluster_id": "i",
}

ALL_TYPES: Final[dict[str, object]] = {
    "t": True,
    "f": False,
    "b": Typed("b", -5),
    "B": Typed("B", 250),
    "s": Typed("s", -300),
    "u": Typed("u", 60000),
    "I": Typed("I", -70000),
    "i": Typed("i", 4_000_000_000),
    "l": Typed("l", -(2**63)),
    "L": Typed("L", 2**62),
    "float": Typed("f", 1.5),
    "double": Typed("d", 1e300),
    "S": "Grüße",
    "empty": "",
    "octets in text": Typed("S", b"\xff\x00"),
    "x": Typed("x", b"\x00\xff"),
    "T": Typed("T", 2**40),
    "V": Typed("V", None),
    "A": [1, "two", [Typed("d", 3.0), {}], Typed("V", None)],
    "F": {"deep": {"deeper": [{"deepest": True}]}, "b": 1, "a": 2},
    "": "no key",
    "k" * 128: "long key",
}


@conversation
def properties(talk: Talk) -> None:
    """Each alone, and all together, through a queue and back by a return."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    for name, value in EVERYTHING.items():
        ch.publish(name.encode(), key=queue, **{name: value})
        ch.get(queue, no_ack=True)
    ch.publish(b"all", key=queue, **EVERYTHING)
    ch.get(queue, no_ack=True)
    ch.publish(b"returned", key=talk.name("absent"), mandatory=True, **EVERYTHING)
    ch.publish(b"empty", key=queue, content_type="", headers={}, message_id="", timestamp=0, app_id="")
    ch.get(queue, no_ack=True)
    for text in ("x" * 255, "\0", "Grüße"):
        ch.publish(b"", key=queue, message_id=text, message_type=text)
        ch.get(queue, no_ack=True)


@conversation
def delivery_modes(talk: Talk) -> None:
    """Those that mean nothing, too."""
    ch = talk.connect().channel()
    for mode in (1, 2, 0, 3, 255):
        with ch.refused():
            ch.publish(b"", key="nowhere", delivery_mode=mode)


@conversation
def tables(talk: Talk) -> None:
    """All types of values, in messages that are passed on, redelivered and returned."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    for name, value in ALL_TYPES.items():
        ch.publish(b"", key=queue, headers={name: value})
        ch.get(queue, no_ack=True)
    ch.publish(b"all", key=queue, headers=ALL_TYPES)
    ch.get(queue)
    ch.reject(1 + len(ALL_TYPES))
    ch.publish(b"all", key=talk.name("absent"), headers=ALL_TYPES, mandatory=True)


@conversation
def written_anew(talk: Talk) -> None:
    """Tables that the broker has to write again: after a dead letter, and without BCC."""
    ch = talk.connect().channel(confirms=True)
    queue, dead = talk.name("q"), talk.name("dead")
    ch.declare(dead)
    ch.declare(queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    for headers in (ALL_TYPES, {**ALL_TYPES, "BCC": []}):
        ch.publish(b"all", key=queue, headers=headers)
        ch.get(queue)
        ch.reject(1 if headers is ALL_TYPES else 3, requeue=False)
        ch.count(dead)
        ch.get(dead)


@conversation
def bodies(talk: Talk) -> None:
    """None, one frame's fill and a little more, in frames as odd as may be."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    for size in (0, 1, 131064, 131065, 262128, 300000):
        ch.publish(bytes(range(256)) * (size // 256) + b"x" * (size % 256), key=queue)
        ch.get(queue, no_ack=True)
    method = loose(commands.Basic.Publish, exchange="", routing_key=queue)
    odd = (
        frames.encode_method(method, 1)
        + frames.header_frame(1, 6)
        + frames.body_frame(1, b"")
        + frames.body_frame(1, b"abc")
        + frames.body_frame(1, b"")
        + frames.body_frame(1, b"def")
    )
    client.send("a body in four frames, two of them empty", odd, 1)
    ch.get(queue, no_ack=True)


@conversation
def refused(talk: Talk) -> None:
    """Each check by itself, and together with those that come later."""
    client = talk.connect()
    ch = client.channel()
    queue, absent = talk.name("q"), talk.name("absent")
    ch.declare(queue)
    refused_fields: tuple[dict[str, Any], ...] = (
        {"exchange": absent},
        {"exchange": absent, "expiration": "text", "user_id": "somebody"},
        {"exchange": "amq.rabbitmq.trace"},
        {"expiration": "text", "user_id": "somebody"},
        {"expiration": ""},
        {"expiration": "-1"},
        {"expiration": "+1"},
        {"expiration": "1.5"},
        {"expiration": "10ms"},
        {"expiration": " 10"},
        {"expiration": "10 "},
        {"expiration": "0x10"},
        {"expiration": "00010000"},
        {"expiration": "315360000000"},
        {"expiration": "315360000001"},
        {"expiration": "Grüße"},
        {"user_id": "somebody"},
        {"user_id": ""},
        {"user_id": "Guest"},
        {"user_id": "guest"},
        {"headers": {"CC": "text"}},
        {"headers": {"CC": 1}},
        {"headers": {"CC": [1]}},
        {"headers": {"CC": ["a", 1]}},
        {"headers": {"CC": Typed("V", None)}},
        {"headers": {"BCC": "text"}},
        {"headers": {"BCC": {"a": 1}}},
        {"headers": {"CC": 1, "BCC": 2}},
        {"headers": {"CC": 1}, "expiration": "text"},
        {"headers": {"CC": 1}, "user_id": "somebody"},
        {"headers": {"CC": [Typed("x", b"octets")]}},
        {"headers": {"CC": []}},
        {"headers": {"cc": 1}},
        {"reply_to": "amq.rabbitmq.reply-to"},
        {"reply_to": "amq.rabbitmq.reply-to", "expiration": "text"},
        {"reply_to": "amq.rabbitmq.reply-to.nonsense"},
    )
    for fields in refused_fields:
        with ch.refused():
            ch.publish(b"refused", **{"key": queue, **fields})
    with ch.refused():
        ch.publish(b"", "", queue, mandatory=True, user_id="somebody")
    for exchange in ("", "amq.direct", absent):
        method = loose(commands.Basic.Publish, exchange=exchange, routing_key=queue, immediate=True)
        client.send(f"publish immediate to {exchange!r}", content_frames(method, 1, b"", b"\0\0"), 1)
        client.channel()


@conversation
def in_confirm_mode(talk: Talk) -> None:
    """What is refused is not confirmed; what was published before is; tags begin anew on a channel opened again."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue, absent = talk.name("q"), talk.name("absent")
    ch.declare(queue)
    ch.publish(b"1", key=queue)
    ch.publish(b"2", key=absent)
    ch.publish(b"3", key=absent, mandatory=True)
    ch.say(commands.Confirm.Select)
    ch.say(commands.Confirm.Select, nowait=True)
    ch.publish(b"4", "amq.fanout", mandatory=True)
    with ch.refused():
        ch.say(commands.Tx.Select)
    ch.publish(b"not counted", key=queue)
    ch.say(commands.Confirm.Select, nowait=True)
    ch.publish(b"5", key=queue, delivery_mode=2)
    with ch.refused():
        ch.publish(b"6", absent, queue)
    ch.drain(queue, 3)


@conversation
def many_at_once(talk: Talk) -> None:
    """A hundred in one write: each is confirmed, each comes back."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    parts = []
    for number in range(100):
        key = queue if number % 3 else talk.name("absent")
        method = loose(commands.Basic.Publish, exchange="", routing_key=key, mandatory=number % 2 == 0)
        parts.append(content_frames(method, 1, b"%d" % number, frames.properties(message_id=str(number))))
    client.send("a hundred messages", b"".join(parts), 1)
    ch.count(queue)
    ch.consume(queue, "c", no_ack=True)


@conversation
def returned(talk: Talk) -> None:
    """Every kind of exchange, with and without mandatory."""
    ch = talk.connect().channel(confirms=True)
    for kind in ("direct", "fanout", "topic", "headers"):
        ch.publish(kind.encode(), f"amq.{kind}", "nowhere", mandatory=True, headers={"a": 1})
        ch.publish(kind.encode(), f"amq.{kind}", "nowhere")
    ch.publish(b"", "amq.match", "x" * 255, mandatory=True)
    ch.publish(b"", "", "", mandatory=True)
    ch.publish(b"x" * 200000, "", "nowhere", mandatory=True)


@conversation
def copies(talk: Talk) -> None:
    """CC and BCC: where to, once to each, and what is left of them in the message."""
    ch = talk.connect().channel(confirms=True)
    queues = [talk.name(f"q{number}") for number in range(4)]
    for queue in queues:
        ch.declare(queue)
    a, b, c, d = queues
    exchange, topic = talk.name("x"), talk.name("topic")
    ch.exchange(exchange)
    ch.exchange(topic, "topic")
    for queue in queues:
        ch.bind(queue, exchange, queue)
    ch.bind(a, topic, "a.*")
    ch.bind(b, topic, "b.#")
    copies: tuple[dict[str, object], ...] = (
        {"CC": [b]},
        {"BCC": [b]},
        {"CC": [b, c, a], "BCC": [d, a]},
        {"CC": [b, b], "other": 1},
        {"BCC": [b], "other": 1},
        {"CC": []},
        {"BCC": []},
    )
    for target in ("", exchange):
        for headers in copies:
            ch.publish(repr(headers).encode(), target, a, headers=headers)
            for queue in queues:
                ch.get(queue, no_ack=True)
    ch.publish(b"nowhere but by copies", "", "absent", headers={"CC": [b]}, mandatory=True)
    ch.get(b, no_ack=True)
    ch.publish(b"nowhere at all", "", "absent", headers={"CC": ["absent"], "BCC": ["absent"]}, mandatory=True)
    ch.publish(b"topics", topic, "a.1", headers={"CC": ["b", "b.2", "a.2"], "BCC": ["c"]})
    ch.get(a, no_ack=True)
    ch.get(b, no_ack=True)
    ch.publish(b"by headers", "amq.headers", "", headers={"CC": [b]}, mandatory=True)


@conversation
def half_a_message(talk: Talk) -> None:
    """A channel that is closed between the frames of a message."""
    client = talk.connect()
    client.channel()
    method = frames.encode_method(loose(commands.Basic.Publish, exchange="", routing_key=talk.name("q")), 1)
    client.is_mid_content = True
    client.send("only the method", method, 1, barrier=Barrier.NONE)
    close = loose(commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    client.send("channel.close", frames.encode_method(close, 1), 1, barrier=Barrier.NONE)
