"""Exchanges: declared, declared again, deleted, bound to each other, with every alternate; and what is refused."""

from typing import Any, Final

from pamqp import commands

from interop.parity.conversations import conversation
from interop.parity.talk import Talk
from tests.support.frames import Typed

KINDS: Final = ("direct", "fanout", "topic", "headers")


@conversation
def declared_again(talk: Talk) -> None:
    """Type and flags must be the same, and of the arguments the alternate."""
    ch = talk.connect().channel()
    for number, kind in enumerate(KINDS):
        name = talk.name(f"x{number}")
        usual: dict[str, Any] = {"kind": kind, "durable": True}
        ch.exchange(name, **usual)
        others: tuple[dict[str, object], ...] = (
            {},
            {"kind": KINDS[number - 1]},
            {"durable": False},
            {"auto_delete": True},
            {"internal": True},
            {"arguments": {"alternate-exchange": "a"}},
            {"arguments": {"unheard-of": 1}},
            {"kind": KINDS[number - 1], "durable": False, "auto_delete": True},
        )
        for other in others:
            with ch.refused():
                ch.exchange(name, **{**usual, **other})
        ch.say(commands.Exchange.Delete, exchange=name)


@conversation
def alternates(talk: Talk) -> None:
    ch = talk.connect().channel()
    name = talk.name("x")
    for value in ("a", "", 1, True, Typed("V", None), Typed("x", b"a"), ["a"], {"a": "b"}, Typed("d", 1.0)):
        with ch.refused():
            ch.exchange(name, arguments={"alternate-exchange": value})
        ch.say(commands.Exchange.Delete, exchange=name)
    ch.exchange(name, arguments={"alternate-exchange": "a"})
    for value in ("a", "b", 1, Typed("x", b"a")):
        with ch.refused():
            ch.exchange(name, arguments={"alternate-exchange": value})
    with ch.refused():
        ch.exchange(name)


@conversation
def unknown_types(talk: Talk) -> None:
    client = talk.connect()
    for kind in ("text", "", "Direct", "x-text", "none", "invalid"):
        client.channel().exchange(talk.name("x"), kind)


@conversation
def reserved_names(talk: Talk) -> None:
    ch = talk.connect().channel()
    for name, kind, fields in (
        ("amq.text", "direct", {}),
        ("amq.direct", "direct", {"durable": True}),
        ("amq.direct", "direct", {}),
        ("amq.direct", "fanout", {"durable": True}),
        ("amq.match", "headers", {"durable": True}),
        ("amq.rabbitmq.trace", "topic", {"durable": True, "internal": True}),
        ("amq.rabbitmq.trace", "topic", {"durable": True}),
        ("amq.", "direct", {}),
        ("amq.text", "direct", {"passive": True}),
        ("amq.direct", "nonsense", {"passive": True}),
        ("amq", "direct", {}),
        ("AMQ.text", "direct", {}),
    ):
        with ch.refused():
            ch.exchange(name, kind, **fields)
    for name in ("amq.direct", "amq.text", "amq.rabbitmq.trace", "amq", "AMQ.text"):
        for fields in ({}, {"if_unused": True}):
            with ch.refused():
                ch.say(commands.Exchange.Delete, exchange=name, **fields)


@conversation
def the_default_exchange(talk: Talk) -> None:
    ch = talk.connect().channel()
    queue, exchange = talk.name("q"), talk.name("x")
    ch.declare(queue)
    ch.exchange(exchange)
    flags: tuple[dict[str, Any], ...] = ({}, {"passive": True}, {"durable": True})
    for fields in flags:
        with ch.refused():
            ch.exchange("", **fields)
    with ch.refused():
        ch.say(commands.Exchange.Delete, exchange="")
    with ch.refused():
        ch.bind(queue, "", "key")
    with ch.refused():
        ch.unbind(queue, "", "key")
    with ch.refused():
        ch.unbind(queue, "", queue)
    for source, destination in (("", exchange), (exchange, "")):
        with ch.refused():
            ch.bind_exchange(destination, source)
        with ch.refused():
            ch.say(commands.Exchange.Unbind, destination=destination, source=source, routing_key="", arguments={})


@conversation
def passive(talk: Talk) -> None:
    ch = talk.connect().channel()
    name = talk.name("x")
    with ch.refused():
        ch.exchange(name, passive=True)
    ch.exchange(name, "topic", durable=True)
    ch.exchange(name, "fanout", passive=True)
    ch.exchange(name, "nonsense", passive=True, durable=False, auto_delete=True, internal=True)
    ch.exchange(name, "", passive=True, arguments={"alternate-exchange": 5})


@conversation
def nowait(talk: Talk) -> None:
    """No answer but to a mistake."""
    ch = talk.connect().channel()
    name, other = talk.name("x"), talk.name("y")
    ch.exchange(name, nowait=True)
    ch.exchange(name, passive=True, nowait=True)
    ch.exchange(other, "fanout", nowait=True)
    ch.say(commands.Exchange.Bind, destination=name, source=other, routing_key="", arguments={}, nowait=True)
    ch.say(commands.Exchange.Unbind, destination=name, source=other, routing_key="", arguments={}, nowait=True)
    with ch.refused():
        ch.exchange(name, "fanout", nowait=True)
    with ch.refused():
        ch.exchange(talk.name("absent"), passive=True, nowait=True)
    ch.say(commands.Exchange.Delete, exchange=name, nowait=True)
    ch.say(commands.Exchange.Delete, exchange=name, nowait=True)


@conversation
def deleted(talk: Talk) -> None:
    """Absent ones too; in use is what has a binding that leaves it."""
    ch = talk.connect().channel()
    source, middle, queue = talk.name("source"), talk.name("middle"), talk.name("q")
    ch.say(commands.Exchange.Delete, exchange=source)
    ch.say(commands.Exchange.Delete, exchange=source, if_unused=True)
    ch.exchange(source, "fanout")
    ch.exchange(middle, "fanout")
    ch.declare(queue)
    ch.bind_exchange(middle, source)
    with ch.refused():
        ch.say(commands.Exchange.Delete, exchange=source, if_unused=True)
    ch.say(commands.Exchange.Delete, exchange=middle, if_unused=True)
    ch.say(commands.Exchange.Delete, exchange=source, if_unused=True)
    ch.exchange(source, "fanout")
    ch.bind(queue, source)
    with ch.refused():
        ch.say(commands.Exchange.Delete, exchange=source, if_unused=True)
    ch.say(commands.Exchange.Delete, exchange=source)
    ch.publish(b"", key=queue)
    with ch.refused():
        ch.publish(b"", source)


@conversation
def auto_delete(talk: Talk) -> None:
    """With its last binding, however that goes, down a chain."""
    ch = talk.connect().channel()
    names = [talk.name(f"x{number}") for number in range(3)]
    queue = talk.name("q")
    ch.declare(queue)
    for name in names:
        ch.exchange(name, "fanout", auto_delete=True)
    ch.bind_exchange(names[1], names[0])
    ch.bind_exchange(names[2], names[1])
    ch.bind(queue, names[2])
    ch.unbind(queue, names[2])
    for name in names:
        with ch.refused():
            ch.exchange(name, passive=True)
    for name in names:
        ch.exchange(name, "fanout", auto_delete=True)
    ch.bind_exchange(names[1], names[0])
    ch.bind(queue, names[1])
    ch.bind(queue, names[2])
    ch.delete(queue)
    for name in names:
        with ch.refused():
            ch.exchange(name, passive=True)
    for name in names:
        ch.exchange(name, "fanout", auto_delete=True)
    ch.bind_exchange(names[1], names[0])
    ch.say(commands.Exchange.Delete, exchange=names[1])
    for name in names:
        with ch.refused():
            ch.exchange(name, passive=True)


@conversation
def names(talk: Talk) -> None:
    """Line ends are taken out of names; other signs stay."""
    ch = talk.connect().channel()
    name = talk.name("x")
    ch.exchange(f"\r{name}\n")
    ch.exchange(name, passive=True)
    ch.exchange(f"{name}\n", passive=True)
    ch.declare(f"\r{name}\n\n")
    ch.declare(name, passive=True)
    ch.bind(f"{name}\r", f"\n{name}", "a\nb")
    ch.publish(b"1", name, "a\nb", mandatory=True)
    ch.publish(b"1", name, "ab", mandatory=True)
    with ch.refused():
        ch.publish(b"1", f"{name}\n", "ab", mandatory=True)
    ch.get(name)
    with ch.refused():
        ch.get(f"{name}\n")
    with ch.refused():
        ch.consume(f"{name}\n", "c")
    ch.say(commands.Queue.Purge, queue=f"{name}\n")
    ch.delete(f"{name}\r\n")
    ch.say(commands.Exchange.Delete, exchange=f"{name}\r\n")
    for odd in ("Grüße", "a b", "x" * 200, "'quoted'", "%7e~p", "{}"):
        ch.exchange(talk.name(odd))
        with ch.refused():
            ch.exchange(talk.name(odd), "fanout")
        ch.declare(talk.name(odd))
        with ch.refused():
            ch.declare(talk.name(odd), durable=True)
    with ch.refused():
        ch.exchange("y" * 255, passive=True)
    with ch.refused():
        ch.declare("y" * 255, passive=True)


@conversation
def alternate_routes(talk: Talk) -> None:
    """Through alternates, to a loop of them, to an absent one; mandatory sees where it ends."""
    ch = talk.connect().channel(confirms=True)
    first, second, third, queue = (talk.name(word) for word in ("first", "second", "third", "q"))
    ch.exchange(first, arguments={"alternate-exchange": second})
    ch.exchange(second, "topic", arguments={"alternate-exchange": third})
    ch.exchange(third, "direct", arguments={"alternate-exchange": first})
    ch.declare(queue)
    ch.publish(b"no way", first, "key", mandatory=True)
    ch.bind(queue, third, "key")
    ch.publish(b"third", first, "key", mandatory=True)
    ch.publish(b"none", first, "other", mandatory=True)
    ch.bind(queue, first, "key")
    ch.publish(b"first", first, "key", mandatory=True)
    ch.drain(queue, 2)
    ch.say(commands.Exchange.Delete, exchange=second)
    ch.publish(b"absent", first, "other", mandatory=True)


@conversation
def internal(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    name, outer, queue = talk.name("x"), talk.name("outer"), talk.name("q")
    ch.exchange(name, "fanout", internal=True)
    ch.exchange(outer, "fanout")
    ch.declare(queue)
    ch.bind_exchange(name, outer)
    ch.bind(queue, name)
    ch.publish(b"through", outer)
    ch.drain(queue, 1)
    with ch.refused():
        ch.publish(b"refused", name)
