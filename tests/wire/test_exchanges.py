"""Declaring, comparing and deleting exchanges; alternates, auto-delete, the default exchange (items 41-46, 61-63)."""

import pytest
from pamqp import base, commands

from tests.support.pair import Channel, Client, Pair, Typed, loose

DECLARE, DELETE = commands.Exchange.Declare, commands.Exchange.Delete
NO_DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"
KINDS = ["direct", "fanout", "topic", "headers"]


def declare(exchange: str, kind: str = "direct", **fields: object) -> commands.Exchange.Declare:
    return loose(DECLARE, exchange=exchange, exchange_type=kind, **fields)


def exists(client: Client, exchange: str) -> bool:
    ch = client.channel()
    ch.send(declare(exchange, passive=True))
    item = client.take(ch.number)
    assert item is not None
    if isinstance(item.frame, commands.Exchange.DeclareOk):
        ch.close()
        return True
    assert isinstance(item.frame, commands.Channel.Close)
    assert item.frame.reply_text == f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"
    ch.send(commands.Channel.CloseOk())
    return False


# ------------------------------------------------------------------------------------------------------ declare


@pytest.mark.parametrize("kind", ["none", "", "invalid", "queue"])
def test_invalid_type(pair: Pair, kind: str) -> None:
    """#41 a word that RabbitMQ knows, but not as a type of exchange, is "invalid"."""
    client = pair.connect()
    ch = client.channel()
    ch.send(declare("x", kind))
    ch.expect_close(406, f"PRECONDITION_FAILED - invalid exchange type '{kind}'", DECLARE)
    assert not exists(client, "x")


@pytest.mark.parametrize("kind", ["foo", "x-foo", "Direct", "direct "])
def test_unknown_type(pair: Pair, kind: str) -> None:
    """#41 406 on the channel; the exchange is not there."""
    client = pair.connect()
    ch = client.channel()
    ch.send(declare("x", kind))
    ch.expect_close(406, f"PRECONDITION_FAILED - unknown exchange type '{kind}'", DECLARE)
    assert not exists(client, "x")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_predeclared(pair: Pair, name: str, kind: str) -> None:
    """#42 The amq.* exchanges are there, durable, and may be declared again as they are."""
    client = pair.connect()
    client.channel().declare_exchange(name, kind, durable=True)
    wrong = client.channel()
    wrong.send(declare(name, kind))
    wrong.expect_close(
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for exchange '{name}' in vhost '/': "
        "received 'false' but current is 'true'",
        DECLARE,
    )


@pytest.mark.parametrize("name", ["amq.x", "amq.", "amq.gen-x"])
def test_reserved_prefix(pair: Pair, name: str) -> None:
    """#42 New names may not start with amq. ; asking passively is asking."""
    client = pair.connect()
    ch = client.channel()
    ch.send(declare(name))
    ch.expect_close(403, f"ACCESS_REFUSED - exchange name '{name}' contains reserved prefix 'amq.*'", DECLARE)
    assert not exists(client, name)


@pytest.mark.parametrize("name", ["amq", "amqx", "AMQ.x", "x.amq."])
def test_names_that_only_look_reserved(pair: Pair, name: str) -> None:
    """#42 The prefix is amq and a dot."""
    client = pair.connect()
    client.channel().declare_exchange(name)
    assert exists(client, name)


@pytest.mark.parametrize("name", ["amq.direct", "amq.topic", "amq.nope"])
def test_reserved_names_are_not_deleted(pair: Pair, name: str) -> None:
    """#42 Deleting one is 403, whether it exists or not."""
    client = pair.connect()
    for if_unused in (False, True):
        ch = client.channel()
        ch.send(loose(DELETE, exchange=name, if_unused=if_unused))
        ch.expect_close(403, f"ACCESS_REFUSED - deletion of system exchange '{name}' in vhost '/' not allowed", DELETE)
    client.channel().bind_exchange("amq.fanout", "amq.direct", "k")


@pytest.mark.parametrize(
    "method",
    [
        declare(""),
        declare("", passive=True),
        declare("", "fanout", durable=True),
        loose(DELETE, exchange=""),
        loose(commands.Queue.Bind, queue="q", exchange="", routing_key="k"),
        loose(commands.Queue.Unbind, queue="q", exchange="", routing_key="q"),
        loose(commands.Exchange.Bind, destination="amq.fanout", source="", routing_key="k"),
        loose(commands.Exchange.Bind, destination="", source="amq.fanout", routing_key="k"),
        loose(commands.Exchange.Unbind, destination="amq.fanout", source="", routing_key="k"),
        loose(commands.Exchange.Unbind, destination="", source="amq.fanout", routing_key="k"),
    ],
    ids=lambda method: method.name,
)
def test_default_exchange_is_untouchable(pair: Pair, method: base.Frame) -> None:
    """#43 Declare, delete, bind and unbind of the default exchange."""
    client = pair.connect()
    client.channel().declare("q")
    ch = client.channel()
    ch.send(method)
    ch.expect_close(403, NO_DEFAULT, type(method))


def test_default_exchange_routes_by_queue_name(pair: Pair) -> None:
    """#43 Publishing to it is always allowed, with the right to write to amq.default."""
    pair.connect().channel().declare("q")
    pair.add_user("writer", "pw", configure="^$", write="^amq\\.default$", read="^$")
    pair.add_user("reader", "pw", configure="^$", write="^q$", read=".*")
    pair.connect("writer", "pw").channel().publish(b"m", key="q")
    assert pair.connect().channel().drain("q") == [b"m"]
    refused = pair.connect("reader", "pw").channel()
    refused.publish(b"m", key="q")
    close = refused.expect(commands.Channel.Close)
    assert close.reply_code == 403
    assert close.reply_text.endswith("access to exchange 'amq.default' in vhost '/' refused for user 'reader'")
    assert (close.class_id, close.method_id) == (60, 40)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("durable", [False, True])
def test_redeclare_equal(pair: Pair, kind: str, durable: bool) -> None:
    """#44 Declaring the same again is fine; arguments unknown to the type may differ."""
    client = pair.connect()
    ch = client.channel()
    flags = {"durable": durable, "auto_delete": not durable, "internal": durable}
    ch.declare_exchange("x", kind, **flags, arguments={"alternate-exchange": "ae", "note": "a"})
    ch.declare_exchange("x", kind, **flags, arguments={"note": Typed("l", 5), "alternate-exchange": "ae"})


@pytest.mark.parametrize(
    ("arg", "received", "current", "again"),
    [
        ("type", "'fanout'", "'direct'", {"kind": "fanout"}),
        ("durable", "'true'", "'false'", {"durable": True}),
        ("auto_delete", "'true'", "'false'", {"auto_delete": True}),
        ("internal", "'true'", "'false'", {"internal": True}),
        (
            "alternate-exchange",
            "the value 'ae' of type 'longstr'",
            "none",
            {"arguments": {"alternate-exchange": "ae"}},
        ),
    ],
)
def test_redeclare_unequal(pair: Pair, arg: str, received: str, current: str, again: dict[str, object]) -> None:
    """#44 A difference is 406, and named."""
    client = pair.connect()
    client.channel().declare_exchange("x")
    ch = client.channel()
    ch.send(declare("x", **again))  # type: ignore[arg-type]
    ch.expect_close(
        406,
        f"PRECONDITION_FAILED - inequivalent arg '{arg}' for exchange 'x' in vhost '/': "
        f"received {received} but current is {current}",
        DECLARE,
    )


@pytest.mark.parametrize(
    ("arguments", "received", "current"),
    [
        ({}, "none", "the value 'ae' of type 'longstr'"),
        ({"alternate-exchange": "other"}, "'other'", "'ae'"),
    ],
)
def test_redeclare_with_another_alternate(
    pair: Pair, arguments: dict[str, object], received: str, current: str
) -> None:
    """#44 The alternate exchange is compared both ways."""
    client = pair.connect()
    client.channel().declare_exchange("x", arguments={"alternate-exchange": "ae"})
    ch = client.channel()
    ch.send(declare("x", arguments=arguments))
    ch.expect_close(
        406,
        "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': "
        f"received {received} but current is {current}",
        DECLARE,
    )


def test_differences_are_found_in_order(pair: Pair) -> None:
    """#44 type, durable, auto_delete, internal, arguments: the first that differs speaks."""
    client = pair.connect()
    client.channel().declare_exchange("x")
    wrong = {
        "kind": "topic",
        "durable": True,
        "auto_delete": True,
        "internal": True,
        "arguments": {"alternate-exchange": "ae"},
    }
    for first in ("type", "durable", "auto_delete", "internal", "alternate-exchange"):
        ch = client.channel()
        ch.send(declare("x", **wrong))  # type: ignore[arg-type]
        text = ch.expect(commands.Channel.Close).reply_text
        assert text.startswith(f"PRECONDITION_FAILED - inequivalent arg '{first}' for exchange 'x'")
        ch.send(commands.Channel.CloseOk())
        wrong.pop("kind" if first == "type" else first, None)


def test_alternate_must_be_a_string(pair: Pair) -> None:
    """#44 The one argument every type knows has a type itself."""
    ch = pair.connect().channel()
    ch.send(declare("x", arguments={"alternate-exchange": Typed("I", 5)}))
    ch.expect_close(
        406,
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
        DECLARE,
    )


# ------------------------------------------------------------------------------------------------------- delete


def test_delete_missing(pair: Pair) -> None:
    """#45 Deleting what is not there is fine."""
    ch = pair.connect().channel()
    for if_unused in (False, True):
        ch.call(loose(DELETE, exchange="nope", if_unused=if_unused), commands.Exchange.DeleteOk)


def test_delete_if_unused(pair: Pair) -> None:
    """#45 In use are bindings where it is the source: to queues and to exchanges."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    for name in ("x", "y", "z"):
        ch.declare_exchange(name)
    ch.bind("q", "x", "k")
    ch.bind_exchange("z", "y", "k")
    for used in ("x", "y"):
        refused = client.channel()
        refused.send(loose(DELETE, exchange=used, if_unused=True))
        refused.expect_close(406, f"PRECONDITION_FAILED - exchange '{used}' in vhost '/' in use", DELETE)
    ch.call(loose(DELETE, exchange="z", if_unused=True), commands.Exchange.DeleteOk)
    ch.call(loose(DELETE, exchange="y", if_unused=True), commands.Exchange.DeleteOk)
    ch.unbind("q", "x", "k")
    ch.call(loose(DELETE, exchange="x", if_unused=True), commands.Exchange.DeleteOk)
    assert not any(exists(client, name) for name in ("x", "y", "z"))


def test_delete_takes_the_bindings_along(pair: Pair) -> None:
    """#45 Without if-unused it goes, bindings and all; a new one of that name starts empty."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.declare_exchange("x")
    ch.bind("q", "x", "k")
    ch.call(loose(DELETE, exchange="x"), commands.Exchange.DeleteOk)
    ch.declare_exchange("x")
    ch.publish(b"m", "x", "k", mandatory=True)
    assert ch.expect_message(commands.Basic.Return).body == b"m"
    assert ch.drain("q") == []


def test_nowait(pair: Pair) -> None:
    """#45 #46 Nothing is said in reply to nowait, and it happens all the same; errors are said."""
    client = pair.connect()
    ch = client.channel()
    ch.send(declare("x", nowait=True))
    ch.expect_nothing()
    assert exists(client, "x")
    ch.send(loose(DELETE, exchange="x", nowait=True))
    ch.expect_nothing()
    assert not exists(client, "x")
    ch.send(declare("x", passive=True, nowait=True))
    ch.expect_close(404, "NOT_FOUND - no exchange 'x' in vhost '/'", DECLARE)


# ------------------------------------------------------------------------------------------------------ passive


def test_passive_missing(pair: Pair) -> None:
    """#46 404."""
    ch = pair.connect().channel()
    ch.send(declare("x", passive=True))
    ch.expect_close(404, "NOT_FOUND - no exchange 'x' in vhost '/'", DECLARE)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "topic"},
        {"kind": "no such type"},
        {"durable": True, "auto_delete": True, "internal": True},
        {"arguments": {"alternate-exchange": "ae"}},
    ],
)
def test_passive_asks_for_the_name_alone(pair: Pair, fields: dict[str, object]) -> None:
    """#46 Type, flags and arguments are not looked at."""
    ch = pair.connect().channel()
    ch.declare_exchange("x")
    ch.declare_exchange("x", passive=True, **fields)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------- alternates


def alternate(ch: Channel, name: str, kind: str, to: str) -> None:
    ch.declare_exchange(name, kind, arguments={"alternate-exchange": to})


def test_alternate(pair: Pair) -> None:
    """#61 What the own bindings do not match goes to the alternate, and counts as routed."""
    ch = pair.connect().channel()
    ch.declare("own")
    ch.declare("rest")
    alternate(ch, "x", "direct", "ae")
    ch.declare_exchange("ae", "fanout")
    ch.bind("own", "x", "k")
    ch.bind("rest", "ae")
    ch.publish(b"1", "x", "k", mandatory=True)
    ch.publish(b"2", "x", "other", mandatory=True)
    ch.expect_nothing()
    assert ch.drain("own") == [b"1"]
    message = ch.get("rest")
    assert message is not None
    assert (message.body, message.exchange, message.routing_key) == (b"2", "x", "other")
    assert ch.drain("rest") == []


def test_alternate_chain(pair: Pair) -> None:
    """#61 Alternates of alternates are asked until one has a match."""
    ch = pair.connect().channel()
    ch.declare("q")
    for number in range(50):
        alternate(ch, f"x{number}", "direct", f"x{number + 1}")
    ch.declare_exchange("x50", "fanout")
    ch.bind("q", "x50")
    ch.publish(b"m", "x0", "k", mandatory=True)
    ch.expect_nothing()
    assert ch.drain("q") == [b"m"]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_alternate_loop(pair: Pair, length: int) -> None:
    """#61 A loop ends, and the message comes back when it is mandatory."""
    ch = pair.connect().channel()
    for number in range(length):
        alternate(ch, f"x{number}", "direct", f"x{(number + 1) % length}")
    ch.publish(b"lost", "x0", "k")
    ch.expect_nothing()
    ch.publish(b"m", "x0", "k", mandatory=True)
    returned = ch.expect_message(commands.Basic.Return)
    assert isinstance(returned.method, commands.Basic.Return)
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.body, returned.exchange, returned.routing_key) == (b"m", "x0", "k")
    ch.expect_nothing()


def test_alternate_missing(pair: Pair) -> None:
    """#61 An alternate that does not exist is no route; made later, it is one."""
    ch = pair.connect().channel()
    ch.declare("q")
    alternate(ch, "x", "fanout", "ae")
    ch.publish(b"1", "x", mandatory=True)
    assert ch.expect_message(commands.Basic.Return).body == b"1"
    ch.declare_exchange("ae", "fanout")
    ch.publish(b"2", "x", mandatory=True)
    assert ch.expect_message(commands.Basic.Return).body == b"2"
    ch.bind("q", "ae")
    ch.publish(b"3", "x", mandatory=True)
    ch.expect_nothing()
    assert ch.drain("q") == [b"3"]


def test_alternate_of_a_bound_exchange(pair: Pair) -> None:
    """#61 An exchange reached by a binding asks its own alternate when it has no match itself."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.declare_exchange("x", "fanout")
    alternate(ch, "y", "direct", "ae")
    ch.declare_exchange("ae", "fanout")
    ch.bind_exchange("y", "x")
    ch.bind("q", "ae")
    ch.publish(b"m", "x", "k", mandatory=True)
    ch.expect_nothing()
    assert ch.drain("q") == [b"m"]


# -------------------------------------------------------------------------------------------------- auto-delete


def test_auto_delete_at_the_last_unbind(pair: Pair) -> None:
    """#62 It goes with its last outgoing binding, and stays before it ever had one."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.declare_exchange("x", "direct", auto_delete=True)
    ch.bind("q", "x", "1")
    ch.bind("q", "x", "2")
    ch.unbind("q", "x", "nope")
    ch.unbind("q", "x", "1")
    assert exists(client, "x")
    ch.unbind("q", "x", "2")
    assert not exists(client, "x")
    ch.declare_exchange("x", "direct", auto_delete=True)
    ch.unbind("q", "x", "nope")
    assert exists(client, "x"), "it never had a binding"


def test_auto_delete_with_the_queue(pair: Pair) -> None:
    """#62 Deleting the queue takes its bindings along, in every way a queue can go."""
    client, owner = pair.connect(), pair.connect()
    ch, theirs = client.channel(), owner.channel()
    ch.declare("plain")
    theirs.declare("mine", exclusive=True)
    ch.declare("auto", auto_delete=True)
    ch.declare("brief", arguments={"x-expires": 1000})
    for queue in ("plain", "auto", "brief"):
        ch.declare_exchange(f"x-{queue}", "fanout", auto_delete=True)
        ch.bind(queue, f"x-{queue}")
    ch.declare_exchange("x-mine", "fanout", auto_delete=True)
    theirs.bind("mine", "x-mine")
    ch.call(commands.Queue.Delete(queue="plain"), commands.Queue.DeleteOk)
    assert not exists(client, "x-plain")
    tag = ch.consume("auto")
    ch.call(commands.Basic.Cancel(tag), commands.Basic.CancelOk)
    assert not exists(client, "x-auto")
    owner.close()
    assert not exists(client, "x-mine")
    pair.advance(1000)
    assert not exists(client, "x-brief")


def test_auto_delete_waits_for_the_last_queue(pair: Pair) -> None:
    """#62 A queue that goes leaves an exchange alone that has others."""
    client = pair.connect()
    ch = client.channel()
    ch.declare_exchange("x", "fanout", auto_delete=True)
    for queue in ("q", "r"):
        ch.declare(queue)
        ch.bind(queue, "x")
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    assert exists(client, "x")
    ch.call(commands.Queue.Delete(queue="r"), commands.Queue.DeleteOk)
    assert not exists(client, "x")


def test_auto_delete_cascades(pair: Pair) -> None:
    """#62 An exchange that goes takes its incoming bindings along, which may be the last of another."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    for name in ("a", "b", "c"):
        ch.declare_exchange(name, "fanout", auto_delete=True)
    ch.declare_exchange("stays", "fanout")
    ch.bind_exchange("b", "a")
    ch.bind_exchange("c", "b")
    ch.bind_exchange("a", "stays")
    ch.bind("q", "c")
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    assert [name for name in ("a", "b", "c", "stays") if exists(client, name)] == ["stays"]
    ch.publish(b"m", "stays", mandatory=True)
    assert ch.expect_message(commands.Basic.Return).body == b"m"


def test_auto_delete_counts_outgoing_only(pair: Pair) -> None:
    """#62 Bindings that lead to it keep nothing alive and end nothing."""
    client = pair.connect()
    ch = client.channel()
    ch.declare_exchange("x", "fanout", auto_delete=True)
    ch.bind_exchange("x", "amq.fanout")
    unbind = loose(commands.Exchange.Unbind, destination="x", source="amq.fanout")
    ch.call(unbind, commands.Exchange.UnbindOk)
    assert exists(client, "x")


def test_auto_delete_cycle(pair: Pair) -> None:
    """#62 Exchanges bound in a ring: removing one ends in peace."""
    client = pair.connect()
    ch = client.channel()
    for name in ("a", "b"):
        ch.declare_exchange(name, "fanout", auto_delete=True)
    ch.bind_exchange("b", "a")
    ch.bind_exchange("a", "b")
    ch.call(loose(DELETE, exchange="a"), commands.Exchange.DeleteOk)
    assert not exists(client, "a")
    assert not exists(client, "b")


# ---------------------------------------------------------------------------------------------- default exchange


def test_default_exchange_has_no_alternate(pair: Pair) -> None:
    """#63 What it cannot route is unroutable, whatever else exists."""
    ch = pair.connect().channel()
    ch.declare("amq-default-rest")
    ch.bind("amq-default-rest", "amq.fanout")
    ch.publish(b"m", "", "nowhere", mandatory=True)
    returned = ch.expect_message(commands.Basic.Return)
    assert (returned.body, returned.exchange, returned.routing_key) == (b"m", "", "nowhere")
    assert ch.drain("amq-default-rest") == []


def test_implicit_bindings_come_and_go(pair: Pair) -> None:
    """#63 Every queue is bound to the default exchange under its name, as long as it lives."""
    ch = pair.connect().channel()
    name = ch.declare("").queue or ""
    ch.publish(b"1", key=name, mandatory=True)
    ch.expect_nothing()
    assert ch.drain(name) == [b"1"]
    ch.call(loose(commands.Queue.Delete, queue=name), commands.Queue.DeleteOk)
    ch.publish(b"2", key=name, mandatory=True)
    assert ch.expect_message(commands.Basic.Return).body == b"2"
