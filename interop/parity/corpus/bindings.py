"""Bindings of queues and exchanges, topics and headers in all corners, and where messages go by them."""

from typing import Final

from pamqp import commands

from interop.parity.conversations import conversation
from interop.parity.talk import Talk
from tests.support.frames import Typed

TOPICS: Final = (
    *(
        "",
        "#",
        "*",
        "a",
        "a.*",
        "*.a",
        "a.#",
        "#.a",
        "#.a.#",
        "a.#.b",
        "*.#",
        "#.*",
        "#.#",
        "*.*",
        "..",
        ".",
        "a.",
        ".a",
    ),
    *("a..b", "*a", "a*", "##", "A", "a.b.c", "a.*.c", "#.b.#.c", "*.b.*"),
)
KEYS: Final = (
    *(
        "",
        "a",
        "a.b",
        "a.b.c",
        "b.a",
        ".",
        "..",
        "a.",
        ".a",
        "a..b",
        "A",
        "#",
        "*",
        "a.#",
        "a.b.b.c",
        "x.y",
        "a*",
        "##",
    ),
    *("a.a", "b"),
)


@conversation
def absent_ends(talk: Talk) -> None:
    ch = talk.connect().channel()
    queue, exchange, absent = talk.name("q"), talk.name("x"), talk.name("absent")
    ch.declare(queue)
    ch.exchange(exchange)
    for ends in ((queue, absent), (absent, exchange), (absent, absent)):
        with ch.refused():
            ch.bind(*ends, "key")
        with ch.refused():
            ch.unbind(*ends, "key")
    for ends in ((exchange, absent), (absent, exchange), (absent, absent)):
        with ch.refused():
            ch.bind_exchange(*ends, "key")
        with ch.refused():
            ch.say(commands.Exchange.Unbind, destination=ends[0], source=ends[1], routing_key="key", arguments={})
    ch.unbind(queue, exchange, "never bound")
    ch.say(commands.Exchange.Unbind, destination=exchange, source="amq.topic", routing_key="never", arguments={})


@conversation
def the_last_queue(talk: Talk) -> None:
    """An empty name is the queue declared last on the channel, and an empty key then its name."""
    client = talk.connect()
    ch = client.channel(confirms=True)
    queue, exchange = talk.name("q"), talk.name("x")
    for cls, fields in (
        (commands.Queue.Bind, {"queue": "", "exchange": "amq.direct", "routing_key": ""}),
        (commands.Queue.Unbind, {"queue": "", "exchange": "amq.direct", "routing_key": ""}),
        (commands.Queue.Purge, {"queue": ""}),
        (commands.Queue.Delete, {"queue": ""}),
        (commands.Basic.Get, {"queue": ""}),
        (commands.Basic.Consume, {"queue": "", "consumer_tag": "c"}),
        (commands.Queue.Declare, {"queue": "", "passive": True}),
    ):
        with ch.refused():
            ch.say(cls, **fields)
    ch.reopen()
    ch.say(commands.Confirm.Select)
    ch.exchange(exchange)
    ch.declare(queue)
    ch.bind("", exchange)
    ch.publish(b"by name", exchange, queue, mandatory=True)
    ch.publish(b"by nothing", exchange, "", mandatory=True)
    ch.get("", no_ack=True)
    ch.bind("", exchange, "key")
    ch.publish(b"by key", exchange, "key", mandatory=True)
    ch.say(commands.Queue.Purge, queue="")
    ch.unbind("", exchange)
    ch.publish(b"unbound", exchange, queue, mandatory=True)
    ch.unbind("", exchange, "key")
    ch.publish(b"unbound", exchange, "key", mandatory=True)
    ch.bind(queue, exchange, "")
    ch.publish(b"by nothing", exchange, "", mandatory=True)
    ch.consume("", "c", no_ack=True)
    ch.cancel("c")
    ch.delete("")
    with ch.refused():
        ch.get("")
    with ch.refused():
        ch.declare("", passive=True)
    other = client.channel(2)
    with other.refused():
        other.get("")


@conversation
def server_named(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    ch.declare("", exclusive=True)
    ch.bind("", "amq.direct")
    ch.publish(b"1", "amq.direct", lambda given: given[0], mandatory=True)
    ch.publish(b"2", "", lambda given: given[0], mandatory=True)
    ch.get("", no_ack=True)
    ch.get("", no_ack=True)
    ch.declare("", durable=True, auto_delete=True)
    ch.delete("")
    ch.declare("", arguments={"x-queue-type": "classic"}, exclusive=True)
    with ch.refused():
        ch.declare("amq.gen-text")
    with ch.refused():
        ch.declare("amq.text", passive=True)


@conversation
def topics(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    exchange = talk.name("x")
    ch.exchange(exchange, "topic")
    queues = [talk.name(f"q{number}") for number in range(len(TOPICS))]
    for queue, pattern in zip(queues, TOPICS, strict=True):
        ch.declare(queue)
        ch.bind(queue, exchange, pattern)
    for key in KEYS:
        ch.publish(key.encode(), exchange, key, mandatory=True)
    for queue in queues:
        ch.count(queue)
    for queue, pattern in zip(queues[::2], TOPICS[::2], strict=True):
        ch.unbind(queue, exchange, pattern)
    for key in KEYS:
        ch.publish(key.encode(), exchange, key, mandatory=True)
    for queue in queues:
        ch.count(queue)


HEADER_BINDINGS: Final[tuple[dict[str, object], ...]] = (
    {},
    {"x-match": "all"},
    {"x-match": "any"},
    {"x-match": "all", "a": 1},
    {"x-match": "any", "a": 1, "b": "2"},
    {"a": 1, "b": "2"},
    {"a": Typed("V", None)},
    {"x-match": "any", "a": Typed("V", None), "b": "none"},
    {"x-match": "all", "x-a": 1, "a": 1},
    {"x-match": "any", "x-a": 1},
    {"x-match": "all-with-x", "x-a": 1},
    {"x-match": "any-with-x", "x-a": 1, "a": 7},
    {"a": Typed("l", 1)},
    {"a": Typed("d", 1.0)},
    {"a": True},
    {"b": Typed("x", b"2")},
    {"t": {"x": 1}},
    {"t": [1, 2]},
    {"t": {"x": 1, "y": 2}},
    {"T": Typed("T", 5)},
    {"a": "1"},
)
HEADERS: Final[tuple[dict[str, object] | None, ...]] = (
    None,
    {},
    {"a": 1},
    {"a": Typed("b", 1)},
    {"a": Typed("d", 1.0)},
    {"a": Typed("f", 1.0)},
    {"a": "1"},
    {"a": True},
    {"a": Typed("V", None)},
    {"b": "2"},
    {"b": Typed("x", b"2")},
    {"a": 1, "b": "2"},
    {"a": 2, "b": "2"},
    {"x-a": 1},
    {"x-a": 1, "a": 1},
    {"t": {"x": 1}},
    {"t": {"x": Typed("l", 1)}},
    {"t": [1, 2]},
    {"t": [Typed("l", 1), 2]},
    {"t": {"x": 1, "y": 2}},
    {"t": {"y": 2, "x": 1}},
    {"T": Typed("T", 5)},
    {"T": Typed("l", 5)},
    {"x-match": "all"},
)


@conversation
def headers(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    exchange = talk.name("x")
    ch.exchange(exchange, "headers")
    for number, arguments in enumerate(HEADER_BINDINGS):
        ch.declare(talk.name(f"q{number}"))
        ch.bind(talk.name(f"q{number}"), exchange, "", arguments)
    for sent in HEADERS:
        ch.publish(repr(sent).encode(), exchange, "any", headers=sent)
        for number in range(len(HEADER_BINDINGS)):
            ch.say(commands.Queue.Purge, queue=talk.name(f"q{number}"))


@conversation
def header_bindings(talk: Talk) -> None:
    """What cannot be bound."""
    ch = talk.connect().channel()
    queue, exchange = talk.name("q"), talk.name("x")
    ch.declare(queue)
    ch.exchange(exchange, "headers")
    for value in ("text", "", "ALL", 1, True, Typed("V", None), ["all"], {"all": 1}, Typed("x", b"all")):
        with ch.refused():
            ch.bind(queue, exchange, "", {"x-match": value})
        with ch.refused():
            ch.bind_exchange("amq.fanout", exchange, "", {"x-match": value})
        with ch.refused():
            ch.unbind(queue, exchange, "", {"x-match": value})
        with ch.refused():
            ch.bind(queue, "amq.direct", "", {"x-match": value})


@conversation
def identity(talk: Talk) -> None:
    """Which bindings are one: unbinding takes what is equal, whatever the order."""
    ch = talk.connect().channel(confirms=True)
    queue, exchange = talk.name("q"), talk.name("x")
    ch.declare(queue)
    ch.exchange(exchange)
    pairs: tuple[tuple[dict[str, object], dict[str, object]], ...] = (
        ({}, {}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {}),
        ({"a": 1}, {"a": Typed("l", 1)}),
        ({"a": "1"}, {"a": Typed("x", b"1")}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": Typed("d", 1.0)}, {"a": Typed("f", 1.0)}),
        ({"a": Typed("d", 1.0)}, {"a": 1}),
        ({"a": True}, {"a": 1}),
    )
    for first, second in pairs:
        ch.bind(queue, exchange, "key", first)
        ch.bind(queue, exchange, "key", first)
        ch.unbind(queue, exchange, "key", second)
        ch.publish(repr((first, second)).encode(), exchange, "key")
        ch.count(queue)
        ch.unbind(queue, exchange, "key", first)
        ch.publish(b"unbound", exchange, "key")
        ch.count(queue)
        ch.say(commands.Queue.Purge, queue=queue)


@conversation
def exchanges_to_exchanges(talk: Talk) -> None:
    """Round in circles and by two ways, and each queue has it once."""
    ch = talk.connect().channel(confirms=True)
    a, b, c, queue, other = (talk.name(word) for word in ("a", "b", "c", "q", "other"))
    ch.exchange(a, "topic")
    ch.exchange(b, "fanout")
    ch.exchange(c, "direct")
    ch.declare(queue)
    ch.declare(other)
    for destination, source, key in ((b, a, "to.#"), (c, a, "to.c"), (a, b, ""), (c, b, ""), (b, b, "")):
        ch.bind_exchange(destination, source, key)
    ch.bind(queue, b)
    ch.bind(queue, c, "to.c")
    ch.bind(queue, a, "#")
    ch.bind(other, c, "to.c")
    for key in ("to.c", "to.b", "from", ""):
        for exchange in (a, b, c):
            ch.publish(f"{exchange} {key}".encode(), exchange, key, mandatory=True)
    ch.count(queue)
    ch.count(other)
    ch.drain(other, 3)
    ch.say(commands.Exchange.Unbind, destination=b, source=a, routing_key="to.#", arguments={})
    ch.say(commands.Exchange.Delete, exchange=c)
    ch.say(commands.Queue.Purge, queue=queue)
    ch.publish(b"left", a, "to.c", mandatory=True)
    ch.drain(queue, 1)
    ch.count(other)


@conversation
def exclusive_to_another(talk: Talk) -> None:
    """What another connection may do with an exclusive queue."""
    owner = talk.connect("owner").channel()
    ch = talk.connect("other").channel(confirms=True)
    queue = talk.name("q")
    owner.declare(queue, exclusive=True)
    owner.bind(queue, "amq.direct", queue)
    with owner.refused():
        owner.declare(queue)
    for cls, fields in (
        (commands.Queue.Declare, {"exclusive": True}),
        (commands.Queue.Declare, {}),
        (commands.Queue.Declare, {"passive": True}),
        (commands.Queue.Declare, {"durable": True}),
        (commands.Queue.Bind, {"exchange": "amq.direct", "routing_key": "", "arguments": {}}),
        (commands.Queue.Unbind, {"exchange": "amq.direct", "routing_key": "", "arguments": {}}),
        (commands.Queue.Purge, {}),
        (commands.Queue.Delete, {}),
        (commands.Basic.Get, {}),
        (commands.Basic.Consume, {}),
    ):
        with ch.refused():
            ch.say(cls, queue=queue, **fields)
    ch.say(commands.Confirm.Select)
    ch.publish(b"taken", "amq.direct", queue, mandatory=True)
    owner.drain(queue, 1)
    owner.client.close()
    with ch.refused():
        ch.say(commands.Queue.Declare, queue=queue, passive=True)
    ch.declare(queue, exclusive=True)
