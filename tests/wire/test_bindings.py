"""Binding and unbinding queues and exchanges (items 50-55)."""

import re

import pytest
from pamqp import base, commands

from tests.support.pair import Channel, Client, Pair, Typed, loose

BIND, UNBIND = commands.Queue.Bind, commands.Queue.Unbind
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the original declaration."
)
NO_LAST = "NOT_FOUND - no previously declared queue"


def unbind_exchange(ch: Channel, destination: str, source: str, key: str = "") -> None:
    method = loose(commands.Exchange.Unbind, destination=destination, source=source, routing_key=key)
    ch.call(method, commands.Exchange.UnbindOk)


# -------------------------------------------------------------------------------------------------- at most once


def test_once_however_many_bindings_match(pair: Pair) -> None:
    """#50 Several matching bindings to one queue are one delivery."""
    ch = pair.connect().channel()
    ch.declare("q")
    for key in ("a.*", "a.#", "#", "*.b", "a.b"):
        ch.bind("q", "amq.topic", key)
    ch.publish(b"m", "amq.topic", "a.b")
    assert ch.drain("q") == [b"m"]


def test_once_across_exchanges(pair: Pair) -> None:
    """#50 Two ways through other exchanges, and a direct one, are one delivery."""
    ch = pair.connect().channel()
    ch.declare("q")
    for name in ("x", "left", "right"):
        ch.declare_exchange(name, "fanout")
    for name in ("left", "right"):
        ch.bind_exchange(name, "x")
        ch.bind("q", name)
    ch.bind("q", "x")
    ch.publish(b"m", "x")
    assert ch.drain("q") == [b"m"]


def test_once_with_copies(pair: Pair) -> None:
    """#50 CC keys that lead to the same queue add nothing."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.declare("r")
    ch.bind("q", "amq.direct", "1")
    ch.bind("q", "amq.direct", "2")
    ch.bind("r", "amq.direct", "2")
    ch.publish(b"m", "amq.direct", "1", headers={"CC": ["1", "2", "2"], "BCC": ["1"]})
    assert ch.drain("q") == [b"m"]
    assert ch.drain("r") == [b"m"]


def test_exchange_loops_end(pair: Pair) -> None:
    """#50 Exchanges bound in a ring, and to themselves, deliver once and come to an end."""
    ch = pair.connect().channel()
    ch.declare("q")
    for name in ("a", "b", "c"):
        ch.declare_exchange(name, "fanout")
    for source, destination in (("a", "b"), ("b", "c"), ("c", "a"), ("a", "a")):
        ch.bind_exchange(destination, source)
    ch.bind("q", "c")
    ch.publish(b"m", "a")
    assert ch.drain("q") == [b"m"]


# ------------------------------------------------------------------------------------------------------ identity


def test_duplicate_bindings(pair: Pair) -> None:
    """#51 The same binding twice is one; one unbind ends it."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.direct", "k", {"a": 1, "b": "x"})
    ch.bind("q", "amq.direct", "k", {"b": "x", "a": 1})
    ch.publish(b"1", "amq.direct", "k")
    assert ch.drain("q") == [b"1"]
    ch.unbind("q", "amq.direct", "k", {"b": "x", "a": 1})
    ch.publish(b"2", "amq.direct", "k")
    assert ch.drain("q") == []


@pytest.mark.parametrize(
    ("key", "arguments"),
    [("other", {"a": 1}), ("k", {}), ("k", {"a": 2}), ("k", {"a": 1, "b": 1}), ("k", {"a": "1"})],
)
def test_bindings_differ_by_key_and_arguments(pair: Pair, key: str, arguments: dict[str, object]) -> None:
    """#51 Another key or other arguments is another binding: removing it leaves the first in place."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.direct", "k", {"a": 1})
    ch.unbind("q", "amq.direct", key, arguments)
    ch.publish(b"1", "amq.direct", "k")
    assert ch.drain("q") == [b"1"]
    ch.bind("q", "amq.direct", key, arguments)
    ch.unbind("q", "amq.direct", "k", {"a": 1})
    ch.publish(b"2", "amq.direct", key)
    assert ch.drain("q") == [b"2"]


def test_bindings_of_queue_and_exchange_of_one_name(pair: Pair) -> None:
    """#51 A queue and an exchange may share a name; their bindings are two."""
    ch = pair.connect().channel()
    ch.declare("same")
    ch.declare("behind")
    ch.declare_exchange("same", "fanout")
    ch.bind("behind", "same")
    ch.bind("same", "amq.direct", "k")
    ch.bind_exchange("same", "amq.direct", "k")
    ch.unbind("same", "amq.direct", "k")
    ch.publish(b"m", "amq.direct", "k")
    assert ch.drain("same") == []
    assert ch.drain("behind") == [b"m"]


@pytest.mark.parametrize(
    "method",
    [
        loose(UNBIND, queue="q", exchange="amq.direct", routing_key="nope"),
        loose(UNBIND, queue="nope", exchange="amq.direct", routing_key="k"),
        loose(UNBIND, queue="q", exchange="nope", routing_key="k"),
        loose(UNBIND, queue="nope", exchange="nope", routing_key="k"),
    ],
)
def test_unbinding_what_is_not_there(pair: Pair, method: base.Frame) -> None:
    """#51 unbind-ok, whether the binding or its ends are missing; what is bound stays bound."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.direct", "k")
    ch.call(method, commands.Queue.UnbindOk)
    ch.publish(b"m", "amq.direct", "k")
    assert ch.drain("q") == [b"m"]


def test_unbinding_exchanges_that_are_not_there(pair: Pair) -> None:
    """#51 exchange.unbind is as forgiving."""
    ch = pair.connect().channel()
    for destination, source in (("nope", "amq.direct"), ("amq.direct", "nope"), ("nope", "nope")):
        unbind_exchange(ch, destination, source, "k")
    unbind_exchange(ch, "amq.fanout", "amq.direct", "never bound")


def test_bindings_of_exchanges_are_idempotent(pair: Pair) -> None:
    """#51 exchange.bind twice, exchange.unbind once."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.fanout")
    ch.bind_exchange("amq.fanout", "amq.direct", "k", {"a": 1})
    ch.bind_exchange("amq.fanout", "amq.direct", "k", {"a": 1})
    ch.publish(b"1", "amq.direct", "k")
    assert ch.drain("q") == [b"1"]
    method = loose(
        commands.Exchange.Unbind,
        destination="amq.fanout",
        source="amq.direct",
        routing_key="k",
        arguments={"a": Typed("b", 1)},
    )
    ch.call(method, commands.Exchange.UnbindOk)
    ch.publish(b"2", "amq.direct", "k")
    assert ch.drain("q") == []


def test_nowait(pair: Pair) -> None:
    """#51 Binds with nowait are silent and done."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.declare_exchange("x", "fanout")
    ch.send(loose(BIND, queue="q", exchange="x", nowait=True))
    ch.send(loose(commands.Exchange.Bind, destination="x", source="amq.fanout", nowait=True))
    ch.expect_nothing()
    ch.publish(b"1", "amq.fanout")
    assert ch.drain("q") == [b"1"]
    ch.send(loose(commands.Exchange.Unbind, destination="x", source="amq.fanout", nowait=True))
    ch.expect_nothing()
    ch.publish(b"2", "amq.fanout")
    assert ch.drain("q") == []


# -------------------------------------------------------------------------------------------------- missing ends


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (loose(BIND, queue="nope", exchange="amq.direct"), "no queue 'nope' in vhost '/'"),
        (loose(BIND, queue="q", exchange="nope"), "no exchange 'nope' in vhost '/'"),
        (loose(BIND, queue="nope", exchange="nope"), "no exchange 'nope' in vhost '/'"),
        (loose(commands.Exchange.Bind, destination="amq.direct", source="nope"), "no exchange 'nope' in vhost '/'"),
        (loose(commands.Exchange.Bind, destination="nope", source="amq.direct"), "no exchange 'nope' in vhost '/'"),
    ],
)
def test_binding_what_is_not_there(pair: Pair, method: base.Frame, text: str) -> None:
    """#52 404 on the channel."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.send(method)
    ch.expect_close(404, f"NOT_FOUND - {text}", type(method))


def test_binding_an_exclusive_queue_of_another(pair: Pair) -> None:
    """#52 405."""
    pair.connect().channel().declare("q", exclusive=True)
    ch = pair.connect().channel()
    ch.send(loose(BIND, queue="q", exchange="amq.direct", routing_key="k"))
    ch.expect_close(405, LOCKED, BIND)


# ---------------------------------------------------------------------------------------------- the last queue


def test_empty_name_is_the_last_queue(pair: Pair) -> None:
    """#53 bind and unbind without a name mean the queue declared last on this channel."""
    ch = pair.connect().channel()
    ch.declare("first")
    ch.declare("last")
    ch.bind("", "amq.direct", "k")
    ch.publish(b"1", "amq.direct", "k")
    assert ch.drain("first") == []
    assert ch.drain("last") == [b"1"]
    ch.unbind("", "amq.direct", "k")
    ch.publish(b"2", "amq.direct", "k")
    assert ch.drain("last") == []


def test_empty_name_and_key(pair: Pair) -> None:
    """#53 When the key is empty too it becomes the queue's name; a name given keeps an empty key empty."""
    ch = pair.connect().channel()
    name = ch.declare("").queue or ""
    ch.bind("", "amq.direct", "")
    ch.publish(b"1", "amq.direct", name)
    ch.publish(b"2", "amq.direct", "")
    assert ch.drain(name) == [b"1"]
    ch.unbind("", "amq.direct", "")
    ch.publish(b"3", "amq.direct", name)
    assert ch.drain(name) == []
    ch.bind(name, "amq.direct", "")
    ch.publish(b"4", "amq.direct", name)
    ch.publish(b"5", "amq.direct", "")
    assert ch.drain(name) == [b"5"]


def test_passive_declare_counts_as_declaring(pair: Pair) -> None:
    """#53 #54 A passive declare names the last queue as well; another channel's declares do not."""
    client = pair.connect()
    client.channel().declare("q")
    ch = client.channel()
    ch.declare("q", passive=True)
    client.channel().declare("elsewhere")
    ch.bind("", "amq.direct", "k")
    ch.publish(b"m", "amq.direct", "k")
    assert ch.drain("") == [b"m"]


@pytest.mark.parametrize(
    "method",
    [
        loose(BIND, exchange="amq.direct", routing_key="k"),
        loose(BIND, exchange="amq.direct"),
        loose(UNBIND, exchange="amq.direct", routing_key="k"),
        loose(commands.Basic.Consume),
        loose(commands.Basic.Get),
        loose(commands.Queue.Purge),
        loose(commands.Queue.Delete),
    ],
    ids=lambda method: method.name,
)
def test_no_last_queue(pair: Pair, method: base.Frame) -> None:
    """#53 #54 404 when none was declared on this channel, even if one was on another."""
    client = pair.connect()
    client.channel().declare("q")
    ch = client.channel()
    ch.send(method)
    ch.expect_close(404, NO_LAST, type(method))


def test_shortcut_of_other_methods(pair: Pair) -> None:
    """#54 consume, get, purge and delete know it too."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.publish(b"1", key="q")
    message = ch.get("")
    assert message is not None
    assert message.body == b"1"
    ch.publish(b"2", key="q")
    assert ch.call(loose(commands.Queue.Purge), commands.Queue.PurgeOk).message_count == 1
    tag = ch.consume("")
    ch.publish(b"3", key="q")
    assert ch.bodies() == [b"3"]
    ch.call(commands.Basic.Cancel(tag), commands.Basic.CancelOk)
    ch.call(loose(commands.Queue.Delete), commands.Queue.DeleteOk)
    ch.send(commands.Queue.Declare(queue="q", passive=True))
    ch.expect_close(404, "NOT_FOUND - no queue 'q' in vhost '/'", commands.Queue.Declare)


def test_last_queue_that_has_gone(pair: Pair) -> None:
    """#54 The shortcut is a name: once the queue is gone it names nothing that exists."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    client.channel().call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    ch.send(loose(commands.Basic.Get))
    ch.expect_close(404, "NOT_FOUND - no queue 'q' in vhost '/'", commands.Basic.Get)


# ---------------------------------------------------------------------------------------------------- permission


def limited(pair: Pair, *, write: str, read: str) -> Client:
    owner = pair.connect().channel()
    owner.declare("q")
    owner.declare_exchange("src", "topic")
    owner.declare_exchange("dst", "fanout")
    pair.add_user("bob", "pw", configure="", write=write, read=read)
    return pair.connect("bob", "pw")


@pytest.mark.parametrize("method", [BIND, UNBIND])
def test_permission_to_bind_a_queue(pair: Pair, method: type[base.Frame]) -> None:
    """#55 Write on the queue and read on the exchange; nothing to configure."""
    ok = commands.Queue.BindOk if method is BIND else commands.Queue.UnbindOk
    limited(pair, write="^q$", read="^src$").channel().call(loose(method, queue="q", exchange="src"), ok)
    for write, read, text in (
        ("^$", "^src$", r"ACCESS_REFUSED - (write )?access to queue 'q' in vhost '/' refused for user 'bob'"),
        ("^q$", "^$", r"ACCESS_REFUSED - (read )?access to exchange 'src' in vhost '/' refused for user 'bob'"),
    ):
        ch = limited(pair, write=write, read=read).channel()
        ch.send(loose(method, queue="q", exchange="src"))
        ch.expect_close(403, re.compile(text), method)


@pytest.mark.parametrize("method", [commands.Exchange.Bind, commands.Exchange.Unbind])
def test_permission_to_bind_an_exchange(pair: Pair, method: type[base.Frame]) -> None:
    """#55 Write on the destination and read on the source."""
    ok = commands.Exchange.BindOk if method is commands.Exchange.Bind else commands.Exchange.UnbindOk
    fields = {"destination": "dst", "source": "src"}
    limited(pair, write="^dst$", read="^src$").channel().call(loose(method, **fields), ok)
    for write, read, text in (
        ("^src$", "^src$", r"ACCESS_REFUSED - (write )?access to exchange 'dst' in vhost '/' refused for user 'bob'"),
        ("^dst$", "^dst$", r"ACCESS_REFUSED - (read )?access to exchange 'src' in vhost '/' refused for user 'bob'"),
    ):
        ch = limited(pair, write=write, read=read).channel()
        ch.send(loose(method, **fields))
        ch.expect_close(403, re.compile(text), method)


def test_topic_permission_to_bind(pair: Pair) -> None:
    """#55 A topic exchange also asks whether this routing key may be read."""
    client = limited(pair, write=".*", read=".*")
    pair.set_topic_permission("bob", "src", write=".*", read="^public\\.")
    client.channel().bind("q", "src", "public.news")
    ch = client.channel()
    ch.send(loose(BIND, queue="q", exchange="src", routing_key="secret.news"))
    ch.expect_close(
        403,
        re.compile(
            r"ACCESS_REFUSED - (read )?access to topic 'secret\.news' in exchange 'src' "
            r"in vhost '/' refused for user 'bob'"
        ),
        BIND,
    )
    other = client.channel()
    other.bind_exchange("dst", "src", "public.#")
    other.bind("q", "amq.direct", "secret.news")


def test_missing_exchange_hides_nothing(pair: Pair) -> None:
    """#52 #55 Permission is asked before existence: without it a missing exchange is 403, not 404."""
    client = limited(pair, write="^q$", read="^src$")
    ch = client.channel()
    ch.send(loose(BIND, queue="q", exchange="nope"))
    assert ch.expect(commands.Channel.Close).reply_code == 403


def test_unbinding_nothing_from_a_locked_queue() -> None:
    """#51 #69 what is not bound is as good as unbound, whoever owns the queue; what is bound is locked."""
    pair = Pair()
    owner, ch = pair.connect().channel(), pair.connect().channel()
    owner.declare("q", exclusive=True)
    owner.bind("q", "amq.direct", "key")
    ch.unbind("q", "amq.direct", "other")
    ch.unbind("q", "absent", "key")
    ch.send(loose(UNBIND, queue="q", exchange="amq.direct", routing_key="key"))
    ch.expect_close(405, LOCKED, UNBIND)


@pytest.mark.parametrize(
    ("bound", "unbound", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": Typed("l", 1)}, {"a": Typed("L", 1)}, True),
        ({"a": Typed("b", 1)}, {"a": Typed("l", 1)}, False),
        ({"a": "x"}, {"a": Typed("x", b"x")}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, False),
        ({"a": [Typed("b", 1)]}, {"a": [Typed("l", 1)]}, False),
    ],
)
def test_types_of_arguments_tell_bindings_apart(
    bound: dict[str, object], unbound: dict[str, object], same: bool
) -> None:
    """#51 whatever the order of the arguments, but not of what is in them."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.direct", "key", bound)
    ch.unbind("q", "amq.direct", "key", unbound)
    ch.publish(b"m", "amq.direct", "key")
    assert ch.drain("q") == ([] if same else [b"m"])
