"""Direct reply-to: replies to a requester's channel without a queue."""

import re
import struct
from base64 import b64decode

import pytest
from pamqp import commands

from tests.support.pair import Channel, Client, Pair, loose

REPLY_TO = "amq.rabbitmq.reply-to"


def requester(client: Client) -> Channel:
    """A channel that consumes direct replies, and the queue `rpc` for requests."""
    ch = client.channel()
    ch.declare("rpc")
    ch.consume(REPLY_TO, "replies", no_ack=True)
    return ch


def ask(ch: Channel) -> str:
    """Publish a request; the reply address its receiver sees."""
    ch.publish(b"request", key="rpc", reply_to=REPLY_TO, correlation_id="c1")
    responder = ch.client.channel()
    request = responder.get("rpc")
    responder.close()
    assert request is not None
    assert request.properties.correlation_id == "c1"
    return str(request.properties.reply_to)


def not_found(name: str) -> str:
    return f"NOT_FOUND - no queue '{name}' in vhost '/'"


def test_request_and_reply() -> None:
    """#142 #143 from another connection: the reply comes as basic.deliver of the reply consumer."""
    pair = Pair()
    ch = requester(pair.connect())
    address = ask(ch)
    assert address.startswith(REPLY_TO + ".")
    assert len(address) > len(REPLY_TO) + 1
    pair.connect().channel().publish(b"reply", key=address, correlation_id="c1", headers={"h": "v"})
    reply = ch.expect_message()
    assert isinstance(reply.method, commands.Basic.Deliver)
    assert (reply.method.consumer_tag, reply.tag, reply.redelivered) == ("replies", 1, False)
    assert (reply.exchange, reply.routing_key) == ("", address)
    assert (reply.body, reply.properties.correlation_id, reply.headers) == (b"reply", "c1", {"h": "v"})
    ch.expect_nothing()


def test_addresses_have_the_shape_of_rabbitmq() -> None:
    """#142 the prefix, an Erlang process id and a secret of 16 octets, the latter two in base64."""
    pair = Pair()
    addresses = [ask(requester(pair.connect())) for _ in range(3)]
    assert len(set(addresses)) == 3
    for address in addresses:
        assert len(address) < 256
        process_id, key = address.removeprefix(REPLY_TO + ".").split(".")
        assert len(b64decode(key, validate=True)) == 16
        term = b64decode(process_id, validate=True)
        version, kind, atom, size = struct.unpack_from(">BBBH", term)
        assert (version, kind, atom) == (131, 88, 118)  # term_to_binary, NEW_PID_EXT, ATOM_UTF8_EXT
        assert re.fullmatch(rb"reply@\d+", term[5 : 5 + size])
        assert len(term) == 5 + size + 12


def test_replies_take_delivery_tags() -> None:
    """#143 #108 from the one row of the channel."""
    client = Pair().connect()
    ch = requester(client)
    address = ask(ch)
    responder = client.channel()
    responder.publish(b"1", key=address)
    responder.publish(b"2", key=address)
    assert [message.tag for message in ch.deliveries()] == [1, 2]
    ch.publish(b"m", key="rpc")
    got = ch.get("rpc")
    assert got is not None
    assert got.tag == 3


def test_large_reply_is_cut_to_frames() -> None:
    """#143 #15 as the requester negotiated."""
    pair = Pair()
    ch = requester(pair.connect(frame_max=4096))
    address = ask(ch)
    body = bytes(range(256)) * 40
    pair.connect().channel().publish(body, key=address)
    reply = ch.expect_message()
    assert (reply.body, reply.bodies) == (body, 3)


def test_reply_consumer_cannot_ack() -> None:
    """#141 consume without no-ack is 406."""
    ch = Pair().connect().channel()
    ch.send(loose(commands.Basic.Consume, queue=REPLY_TO, no_ack=False))
    ch.expect_close(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge", commands.Basic.Consume)


@pytest.mark.parametrize("no_ack", [True, False])
def test_one_reply_consumer_per_channel(no_ack: bool) -> None:
    """#141 a second one is 406, whatever else is wrong with it."""
    ch = requester(Pair().connect())
    ch.send(loose(commands.Basic.Consume, queue=REPLY_TO, consumer_tag="other", no_ack=no_ack))
    ch.expect_close(406, "PRECONDITION_FAILED - reply consumer already set", commands.Basic.Consume)


def test_each_channel_has_its_own_address() -> None:
    """#141 #142 another channel may have one too, with another address; replies go to the right one."""
    client = Pair().connect()
    one, two = requester(client), requester(client)
    first, second = ask(one), ask(two)
    assert first != second
    client.channel().publish(b"for two", key=second)
    assert two.bodies() == [b"for two"]
    one.expect_nothing()


def test_consume_with_nowait_and_server_tag() -> None:
    """#141 no consume-ok when not wanted; an empty tag is filled in."""
    client = Pair().connect()
    silent, named = client.channel(), client.channel()
    silent.declare("rpc")
    silent.send(loose(commands.Basic.Consume, queue=REPLY_TO, consumer_tag="t", no_ack=True, nowait=True))
    silent.expect_nothing()
    assert ask(silent).startswith(REPLY_TO + ".")
    assert named.consume(REPLY_TO, no_ack=True).startswith("amq.ctag-")


def test_request_without_reply_consumer() -> None:
    """#142 406, also when another channel of the connection has one."""
    client = Pair().connect()
    requester(client)
    ch = client.channel()
    ch.publish(b"request", key="rpc", reply_to=REPLY_TO)
    ch.expect_close(406, "PRECONDITION_FAILED - fast reply consumer does not exist", commands.Basic.Publish)
    assert client.channel().drain("rpc") == []


def test_cancelled_reply_consumer() -> None:
    """#142 after cancel requests are 406 and earlier addresses lead nowhere."""
    client = Pair().connect()
    ch = requester(client)
    address = ask(ch)
    ch.call(commands.Basic.Cancel(consumer_tag="replies"), commands.Basic.CancelOk)
    responder = client.channel()
    responder.publish(b"late", key=address, mandatory=True)
    assert responder.expect_message(commands.Basic.Return).body == b"late"
    ch.expect_nothing()
    ch.publish(b"request", key="rpc", reply_to=REPLY_TO)
    ch.expect_close(406, "PRECONDITION_FAILED - fast reply consumer does not exist", commands.Basic.Publish)


def test_other_reply_to_is_left_alone() -> None:
    """#142 only that very name is replaced."""
    ch = requester(Pair().connect())
    for reply_to in ("my.queue", REPLY_TO + ".made-up", REPLY_TO.upper()):
        ch.publish(b"m", key="rpc", reply_to=reply_to)
        message = ch.get("rpc")
        assert message is not None
        assert message.properties.reply_to == reply_to


def test_rewriting_leaves_the_other_properties() -> None:
    """#142 #104 everything else of the request is untouched."""
    ch = requester(Pair().connect())
    ch.publish(
        b"m", key="rpc", reply_to=REPLY_TO, headers={"n": 5}, message_id="id", expiration="60000", delivery_mode=2
    )
    message = ch.get("rpc")
    assert message is not None
    properties = message.properties
    assert (properties.headers, properties.message_id, properties.expiration, properties.delivery_mode) == (
        {"n": 5},
        "id",
        "60000",
        2,
    )


@pytest.mark.parametrize("ending", ["channel", "close", "drop"])
def test_requester_gone(ending: str) -> None:
    """#143 a reply to nobody is unroutable: returned when mandatory, confirmed all the same."""
    pair = Pair()
    client = pair.connect()
    ch = requester(client)
    address = ask(ch)
    if ending == "channel":
        ch.close()
    elif ending == "close":
        client.close()
    else:
        client.drop()
    responder = pair.connect().channel()
    responder.confirm()
    responder.publish(b"late", key=address, mandatory=True)
    returned = responder.expect_message(commands.Basic.Return)
    assert isinstance(returned.method, commands.Basic.Return)
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert responder.expect_confirms() == [("ack", 1, False)]


def test_requester_that_does_not_read() -> None:
    """#143 replies that nobody reads do not pile up: beyond 64 MiB they are unroutable, until they are read."""
    pair = Pair()
    client = pair.connect()
    ch = requester(client)
    address = ask(ch)
    client.stop_reading()
    responder = pair.connect().channel()
    large = b"x" * (8 << 20)
    for _ in range(12):
        responder.publish(large, key=address)
    assert len(client.wire.outbox) < 65 << 20
    responder.publish(b"one too many", key=address, mandatory=True)
    assert responder.expect_message(commands.Basic.Return).body == b"one too many"
    client.start_reading()
    assert len(ch.deliveries()) == 8
    responder.publish(b"again", key=address, mandatory=True)
    responder.expect_nothing()
    assert ch.bodies() == [b"again"]


def test_reply_is_confirmed_and_not_returned() -> None:
    """#143 a live requester is a route: mandatory returns nothing."""
    client = Pair().connect()
    ch = requester(client)
    address = ask(ch)
    responder = client.channel()
    responder.confirm()
    responder.publish(b"reply", key=address, mandatory=True)
    assert responder.expect_confirms() == [("ack", 1, False)]
    responder.expect_nothing()
    assert ch.bodies() == [b"reply"]


def test_made_up_address_is_unroutable() -> None:
    """#143 an address cannot be guessed from the outside."""
    ch = requester(Pair().connect())
    address = ask(ch)
    for guess in (REPLY_TO, REPLY_TO + ".", address + "x", address[:-1]):
        ch.publish(b"m", key=guess, mandatory=True)
        assert ch.expect_message(commands.Basic.Return).routing_key == guess
    ch.expect_nothing()


@pytest.mark.parametrize("passive", [True, False])
def test_declaring_an_address(passive: bool) -> None:
    """#143 a responder may ask whether its requester still waits: no messages, one consumer; 404 when gone."""
    client = Pair().connect()
    ch = requester(client)
    address = ask(ch)
    responder = client.channel()
    ok = responder.declare(address, passive=passive)
    assert (ok.queue, ok.message_count, ok.consumer_count) == (address, 0, 1)
    ch.close()
    responder.send(loose(commands.Queue.Declare, queue=address, passive=passive))
    responder.expect_close(404, not_found(address), commands.Queue.Declare)


def test_the_tag_of_a_reply_consumer_is_free_for_others() -> None:
    """#115 #141 it is not among the consumers' tags; where both have one, cancelling means the reply consumer."""
    ch = requester(Pair().connect())
    ch.consume("rpc", "replies", no_ack=True)
    ch.call(commands.Basic.Cancel(consumer_tag="replies"), commands.Basic.CancelOk)
    ch.publish(b"m", key="rpc")
    assert ch.bodies() == [b"m"]
    ch.send(loose(commands.Basic.Consume, queue=REPLY_TO, consumer_tag="replies", no_ack=True))
    ch.client.expect_close(530, "NOT_ALLOWED - attempt to reuse consumer tag 'replies'", commands.Basic.Consume)


def test_a_second_reply_consumer_with_the_tag_of_the_first() -> None:
    """#141 it is the second that matters, not its tag."""
    ch = requester(Pair().connect())
    ch.send(loose(commands.Basic.Consume, queue=REPLY_TO, consumer_tag="replies", no_ack=True))
    ch.expect_close(406, "PRECONDITION_FAILED - reply consumer already set", commands.Basic.Consume)


def test_an_address_works_in_its_own_vhost_alone() -> None:
    """Replies from another vhost would get around its permissions: there the address is unknown."""
    pair = Pair()
    ch = requester(pair.connect())
    address = ask(ch)
    pair.broker.set_vhost("other")
    pair.add_user("bob", "pw", vhost="other")
    bob = pair.connect("bob", "pw", "other")
    outside = bob.channel()
    outside.publish(b"forged", key=address, mandatory=True)
    assert outside.expect(commands.Basic.Return).reply_code == 312
    ch.expect_nothing()
    outside = bob.channel()
    outside.send(loose(commands.Queue.Declare, queue=address, passive=True))
    outside.expect_close(404, f"NOT_FOUND - no queue '{address}' in vhost 'other'", commands.Queue.Declare)
    pair.connect().channel().publish(b"reply", key=address)
    assert ch.expect_message().body == b"reply"
