"""The firehose: what a queue bound to amq.rabbitmq.trace sees of its vhost."""

import pytest
from pamqp import commands

from rabbitlike.broker.views import node_name
from rabbitlike.protocol.properties import Properties
from tests.support.pair import Channel, Message, Pair

TRACE = "amq.rabbitmq.trace"


def trace(pair: Pair, is_traced: bool = True) -> None:
    pair.broker.turn.begin()
    pair.broker.set_vhost("/", is_traced=is_traced)
    pair.broker.turn.finish()
    pair.settle()


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def ch(pair: Pair) -> Channel:
    """The firehose is on, a queue `tap` sees all of it, and a queue `q` is there."""
    ch = pair.connect().channel()
    ch.declare("tap")
    ch.bind("tap", TRACE, "#")
    ch.declare("q")
    trace(pair)
    return ch


def taps(ch: Channel) -> list[Message]:
    found = []
    while (message := ch.get("tap")) is not None:
        found.append(message)
    return found


def keys(ch: Channel) -> list[str]:
    return [message.routing_key for message in taps(ch)]


def test_a_publish_is_copied_with_rabbitmqs_headers(pair: Pair, ch: Channel) -> None:
    """G18 the headers and their types are those of RabbitMQ's firehose."""
    ch.publish(b"body", key="q", content_type="text/plain", delivery_mode=2, headers={"n": 5}, message_id="m-1")
    (tap,) = taps(ch)
    assert (tap.exchange, tap.routing_key, tap.body) == (TRACE, "publish.", b"body")
    headers = Properties(tap.raw_properties).headers
    assert headers is not None
    connection = next(iter(pair.broker.connections))
    assert list(headers) == [
        "exchange_name", "routing_keys", "properties", "node", "vhost", "connection", "channel", "user",
        "routed_queues",
    ]  # fmt: skip
    assert headers["exchange_name"] == ""
    assert headers["routing_keys"] == ["q"]
    assert headers["properties"] == {
        "message_id": "m-1",
        "delivery_mode": 2,
        "headers": {"n": 5},
        "content_type": "text/plain",
    }
    assert headers["node"] == node_name(pair.broker.settings)
    assert (headers["vhost"], headers["user"], headers["channel"]) == ("/", "guest", ch.number)
    assert headers["connection"] == connection.name
    assert headers["routed_queues"] == ["q"]
    kinds = [headers.kind(name) for name in headers]
    assert kinds == ["S", "A", "F", "S", "S", "S", "I", "S", "A"]
    assert tap.properties.delivery_mode is None, "what is copied is not kept"


def test_a_delivery_is_copied_whoever_takes_it(ch: Channel) -> None:
    """G18 consumers and basic.get; redelivered is a number."""
    ch.publish(b"one", key="q")
    tag = ch.consume("q", "c")
    (first,) = ch.deliveries()
    ch.nack(first.tag)
    (second,) = ch.deliveries()
    ch.ack(second.tag)
    ch.send(commands.Basic.Cancel(consumer_tag=tag))
    ch.expect(commands.Basic.CancelOk)
    ch.publish(b"two", "amq.direct", "nobody")
    ch.publish(b"three", key="q")
    assert ch.get("q") is not None
    copies = taps(ch)
    assert [copy.routing_key for copy in copies] == [
        "publish.", "deliver.q", "deliver.q", "publish.amq.direct", "publish.", "deliver.q",
    ]  # fmt: skip
    assert [copy.headers.get("redelivered") for copy in copies] == [None, 0, 1, None, None, 0]
    assert copies[3].headers["routed_queues"] == []
    assert "routed_queues" not in copies[1].headers
    assert copies[1].headers["user"] == "guest"
    assert copies[1].body == b"one"


def test_the_firehose_does_not_copy_itself(ch: Channel) -> None:
    """Neither what stands in a queue of the firehose, nor that it is consumed."""
    ch.publish(b"x", key="q")
    ch.consume("tap", "t", no_ack=True)
    assert len(ch.deliveries()) == 1
    ch.publish(b"y", key="q")
    assert [copy.routing_key for copy in ch.deliveries()] == ["publish."]


def test_off_means_nothing_is_copied_and_on_means_at_once(pair: Pair, ch: Channel) -> None:
    """Also by publishers that remember their routes."""
    ch.publish(b"x", key="q")
    trace(pair, False)
    ch.publish(b"x", key="q")
    ch.drain("q")
    assert keys(ch) == ["publish."]
    trace(pair)
    ch.publish(b"x", key="q")
    ch.declare("later")
    ch.publish(b"x", key="later")
    ch.drain("later")
    assert keys(ch) == ["publish.", "publish.", "deliver.later"]


def test_only_the_keys_asked_for(ch: Channel) -> None:
    ch.unbind("tap", TRACE, "#")
    ch.bind("tap", TRACE, "deliver.q")
    ch.publish(b"x", key="q")
    ch.drain("q")
    assert keys(ch) == ["deliver.q"]


def test_copies_and_transactions(ch: Channel) -> None:
    """All keys are told; parity: a publish in a transaction is seen when it is sent, not when it is committed."""
    ch.declare("other")
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    ch.publish(b"x", key="q", headers={"CC": ["other"], "BCC": ["nobody"]})
    (copy,) = taps(ch)
    assert copy.headers["routing_keys"] == ["q", "other", "nobody"]
    assert copy.headers["routed_queues"] == ["q", "other"]
    assert copy.headers["properties"] == {"headers": {"CC": ["other"]}}


def test_long_names_are_cut_to_a_routing_key(ch: Channel) -> None:
    name = "q" * 255
    ch.declare(name)
    ch.publish(b"x", key=name)
    ch.drain(name)
    assert keys(ch) == ["publish.", "deliver." + "q" * 247]


def test_confirms_and_returns_are_as_ever(ch: Channel) -> None:
    ch.confirm()
    ch.publish(b"x", key="q")
    assert ch.expect_confirms() == [("ack", 1, False)]
    ch.publish(b"x", key="nobody", mandatory=True)
    assert ch.expect_message(commands.Basic.Return).body == b"x"
    assert ch.expect_confirms() == [("ack", 2, False)]
    assert keys(ch) == ["publish.", "publish."]
