"""CC and BCC: more routing keys in the headers (item 64; each queue once: item 50)."""

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.pair import Channel, Pair, Typed

KINDS = ["", "amq.direct", "amq.topic"]


def queues(ch: Channel, exchange: str, *names: str) -> None:
    for name in names:
        ch.declare(name)
        if exchange:
            ch.bind(name, exchange, name)


@pytest.mark.parametrize("exchange", KINDS)
@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies_are_routed(pair: Pair, exchange: str, header: str) -> None:
    """#64 They apply to every exchange that looks at keys, the default one too."""
    ch = pair.connect().channel()
    queues(ch, exchange, "to", "copy", "more", "none")
    ch.publish(b"m", exchange, "to", headers={header: ["copy", "more"]})
    assert [ch.drain(name) for name in ("to", "copy", "more", "none")] == [[b"m"], [b"m"], [b"m"], []]


def test_copies_with_other_kinds(pair: Pair) -> None:
    """#64 Fanout and headers exchanges have no use for keys: one copy each, and no harm."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.declare("cc")
    ch.bind("q", "amq.fanout")
    ch.bind("q", "amq.headers", "", {"a": 1})
    for exchange in ("amq.fanout", "amq.headers"):
        ch.publish(b"m", exchange, "k", headers={"a": 1, "CC": ["cc"], "BCC": ["cc"]})
        assert ch.drain("q") == [b"m"]
    assert ch.drain("cc") == []


def test_what_the_consumer_sees(pair: Pair) -> None:
    """#64 The routing key is the publish's own, CC stays, BCC is gone, all else is as it was."""
    ch = pair.connect().channel()
    queues(ch, "amq.direct", "to", "cc", "bcc")
    headers = {"x": Typed("l", 7), "CC": ["cc"], "BCC": ["bcc"], "y": {"z": [1, "a"]}}
    ch.publish(b"m", "amq.direct", "to", headers=headers, content_type="text/plain", message_id="1", delivery_mode=2)
    for name in ("to", "cc", "bcc"):
        message = ch.get(name)
        assert message is not None
        assert (message.exchange, message.routing_key) == ("amq.direct", "to")
        assert message.headers == {"x": 7, "CC": ["cc"], "y": {"z": [1, "a"]}}
        assert message.raw_properties == frames.properties(
            headers={"x": Typed("l", 7), "CC": ["cc"], "y": {"z": [1, "a"]}},
            content_type="text/plain",
            message_id="1",
            delivery_mode=2,
        )


def test_bcc_every_time(pair: Pair) -> None:
    """#64 The same publish again and again, as a client in a loop does, goes everywhere every time."""
    ch = pair.connect().channel()
    queues(ch, "", "to", "cc", "bcc")
    for number in range(5):
        ch.publish(b"%d" % number, key="to", headers={"CC": ["cc"], "BCC": ["bcc"]})
    expected = [b"%d" % number for number in range(5)]
    assert [ch.drain(name) for name in ("to", "cc", "bcc")] == [expected] * 3


def test_bcc_as_only_header(pair: Pair) -> None:
    """#64 Nothing of BCC is left when it was the only header."""
    ch = pair.connect().channel()
    queues(ch, "", "to", "bcc")
    ch.publish(b"m", key="to", headers={"BCC": ["bcc"]})
    message = ch.get("bcc")
    assert message is not None
    assert not message.headers
    assert b"BCC" not in message.raw_properties


@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("to", "longstr"),
        (None, "void"),
        (True, "bool"),
        (Typed("I", 5), "signedint"),
        (Typed("l", 5), "long"),
        ({"a": ["to"]}, "table"),
    ],
)
def test_not_an_array(pair: Pair, name: str, value: object, kind: str) -> None:
    """#64 406 on the channel; nothing is routed, not even by the publish's own key."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("to")
    ch.publish(b"m", key="to", headers={name: value})
    ch.expect_close(
        406,
        f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}',
        commands.Basic.Publish,
    )
    assert client.channel().drain("to") == []


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_what_is_no_string_is_skipped(pair: Pair, name: str) -> None:
    """#64 parity: in the array RabbitMQ uses the long strings and skips the rest."""
    ch = pair.connect().channel()
    queues(ch, "", "to", "copy")
    ch.publish(b"m", key="to", headers={name: [1, "copy", None, ["to"], {"a": "to"}, Typed("l", 1)]})
    ch.expect_nothing()
    assert [ch.drain(queue) for queue in ("to", "copy")] == [[b"m"], [b"m"]]


@pytest.mark.parametrize("name", ["cc", "bcc", "Cc", "XCC", "CC-list"])
def test_other_names_are_just_headers(pair: Pair, name: str) -> None:
    """#64 The names are CC and BCC, in capitals; others are passed on untouched, whatever they hold."""
    ch = pair.connect().channel()
    queues(ch, "", "to", "copy")
    ch.publish(b"m", key="to", headers={name: "copy", "note": "CC BCC"})
    message = ch.get("to")
    assert message is not None
    assert message.headers == {name: "copy", "note": "CC BCC"}
    assert ch.drain("copy") == []


def test_empty_array(pair: Pair) -> None:
    """#64 No keys are no copies."""
    ch = pair.connect().channel()
    ch.declare("to")
    ch.publish(b"m", key="to", headers={"CC": [], "BCC": []})
    message = ch.get("to")
    assert message is not None
    assert message.headers == {"CC": []}


def test_only_a_copy_is_routed(pair: Pair) -> None:
    """#64 A message whose own key leads nowhere is routed by its copies: nothing is returned."""
    ch = pair.connect().channel()
    ch.declare("copy")
    ch.publish(b"m", key="nowhere", mandatory=True, headers={"BCC": ["copy"]})
    ch.expect_nothing()
    message = ch.get("copy")
    assert message is not None
    assert message.routing_key == "nowhere"


def test_no_copy_is_routed(pair: Pair) -> None:
    """#64 Only when no key leads anywhere does a mandatory message come back."""
    ch = pair.connect().channel()
    ch.publish(b"m", key="nowhere", mandatory=True, headers={"CC": ["neither"]})
    returned = ch.expect_message(commands.Basic.Return)
    assert (returned.body, returned.routing_key) == (b"m", "nowhere")
    assert returned.headers == {"CC": ["neither"]}


def test_copies_through_exchanges(pair: Pair) -> None:
    """#64 The further keys travel along bindings between exchanges and to an alternate."""
    ch = pair.connect().channel()
    queues(ch, "amq.direct", "copy")
    ch.declare_exchange("x", "fanout", arguments={"alternate-exchange": "amq.direct"})
    ch.publish(b"1", "x", "nowhere", headers={"CC": ["copy"]})
    assert ch.drain("copy") == [b"1"]
    ch.declare_exchange("y", "topic")
    ch.bind_exchange("amq.direct", "y", "co*")
    ch.bind_exchange("amq.direct", "y", "copy")
    ch.publish(b"2", "y", "other", headers={"BCC": ["copy"]})
    assert ch.drain("copy") == [b"2"]


def test_copies_are_confirmed_once(pair: Pair) -> None:
    """#64 However many queues, one publish is one confirm."""
    ch = pair.connect().channel()
    queues(ch, "", "to", "cc", "bcc")
    ch.confirm()
    ch.publish(b"m", key="to", headers={"CC": ["cc"], "BCC": ["bcc"]})
    assert ch.expect_confirms() == [("ack", 1, False)]
    ch.expect_nothing()


def test_copies_in_a_transaction(pair: Pair) -> None:
    """#64 The same at commit."""
    ch = pair.connect().channel()
    queues(ch, "", "to", "bcc")
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    ch.publish(b"m", key="to", headers={"BCC": ["bcc"]})
    assert (ch.drain("to"), ch.drain("bcc")) == ([], [])
    ch.call(commands.Tx.Commit(), commands.Tx.CommitOk)
    assert (ch.drain("to"), ch.drain("bcc")) == ([b"m"], [b"m"])


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("delay", [{}, {"x-delay": Typed("l", 1000)}], ids=["now", "delayed"])
def test_topic_permissions_apply_to_copies(pair: Pair, header: str, delay: dict[str, object]) -> None:
    """parity: RabbitMQ 4.0.3 and later check every key, not only the publish's own."""
    pair.add_user("bob", "pw")
    pair.set_topic_permission("bob", "amq.topic", write=r"^bob\.", read="")
    guest = pair.connect().channel()
    queues(guest, "amq.topic", "bob.a", "bob.b", "payroll")
    bob = pair.connect("bob", "pw")
    ch = bob.channel()
    ch.publish(b"fine", "amq.topic", "bob.a", headers={header: ["bob.b"]})
    ch.publish(b"forged", "amq.topic", "bob.a", headers={header: ["bob.b", "payroll"], **delay})
    text = "write access to topic 'payroll' in exchange 'amq.topic' in vhost '/' refused for user 'bob'"
    ch.expect_close(403, f"ACCESS_REFUSED - {text}", commands.Basic.Publish)
    pair.advance(1000)
    assert [guest.drain(name) for name in ("bob.a", "bob.b", "payroll")] == [[b"fine"], [b"fine"], []]
