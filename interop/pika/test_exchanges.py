"""Exchanges and bindings with pika: every method, and where messages go."""

from collections.abc import Callable

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from pika.exchange_type import ExchangeType
from pika.spec import Exchange, Queue

from interop.pika.blocking import drain, temporary_queue

Unique = Callable[[str], str]


@pytest.mark.parametrize("kind", list(ExchangeType), ids=lambda kind: kind.name)
def test_declare_and_delete(channel: BlockingChannel, unique: Unique, kind: ExchangeType) -> None:
    name = unique("x")
    for _ in range(2):
        assert isinstance(channel.exchange_declare(name, kind, durable=True).method, Exchange.DeclareOk)
    assert isinstance(channel.exchange_declare(name, passive=True).method, Exchange.DeclareOk)
    assert isinstance(channel.exchange_delete(name).method, Exchange.DeleteOk)
    assert isinstance(channel.exchange_delete(name).method, Exchange.DeleteOk)
    with pytest.raises(ChannelClosedByBroker):
        channel.exchange_declare(name, passive=True)


@pytest.mark.parametrize("name", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"])
def test_those_that_are_always_there(channel: BlockingChannel, name: str) -> None:
    kind = "headers" if name == "amq.match" else name.removeprefix("amq.")
    channel.exchange_declare(name, kind, durable=True)
    channel.exchange_declare(name, passive=True)


@pytest.mark.parametrize(
    ("kind", "bindings", "key", "expected"),
    [
        ("direct", ["red", "blue"], "red", 1),
        ("direct", ["red"], "Red", 0),
        ("fanout", ["", "whatever"], "no matter", 2),
        ("topic", ["*.orange.*"], "quick.orange.rabbit", 1),
        ("topic", ["lazy.#"], "lazy", 1),
        ("topic", ["lazy.#"], "lazy.orange.male.rabbit", 1),
        ("topic", ["#.b.#", "*.*", "#"], "a.b", 3),
        ("topic", ["*.*.rabbit"], "orange.rabbit", 0),
        ("topic", ["*", "#"], "", 1),
    ],
)
def test_routes(
    channel: BlockingChannel, unique: Unique, kind: str, bindings: list[str], key: str, expected: int
) -> None:
    name = unique("x")
    channel.exchange_declare(name, kind, auto_delete=True)
    queues = [temporary_queue(channel) for _ in bindings]
    for queue, binding in zip(queues, bindings, strict=True):
        assert isinstance(channel.queue_bind(queue, name, binding).method, Queue.BindOk)
    channel.basic_publish(name, key, b"x")
    assert sum(len(drain(channel, queue)) for queue in queues) == expected


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"x-match": "all", "a": 1, "b": "two"}, {"a": 1, "b": "two", "c": None}, True),
        ({"x-match": "all", "a": 1, "b": "two"}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": "two"}, {"b": "two"}, True),
        ({"x-match": "any", "a": 1}, {"a": 2}, False),
        ({"a": None}, {"a": "whatever"}, True),
        ({"a": True}, None, False),
        ({}, {"a": 1}, True),
        ({"x-match": "any-with-x", "x-a": "1"}, {"x-a": "1"}, True),
        ({"x-match": "all-with-x", "x-a": "1", "b": 2}, {"b": 2}, False),
        ({"x-match": "all", "x-a": "1", "b": 2}, {"b": 2}, True),
    ],
)
def test_headers(
    channel: BlockingChannel,
    unique: Unique,
    arguments: dict[str, object],
    headers: dict[str, object] | None,
    matches: bool,
) -> None:
    name = unique("x")
    channel.exchange_declare(name, "headers", auto_delete=True)
    queue = temporary_queue(channel)
    channel.queue_bind(queue, name, arguments=arguments)
    channel.basic_publish(name, "", b"x", BasicProperties(headers=headers))
    assert bool(drain(channel, queue)) is matches


def test_unbinding(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.queue_bind(queue, "amq.topic", "a.#")
    channel.queue_bind(queue, "amq.topic", "a.#", arguments={"x": 1})
    assert isinstance(channel.queue_unbind(queue, "amq.topic", "a.#").method, Queue.UnbindOk)
    channel.basic_publish("amq.topic", "a.b", b"one binding is left")
    channel.queue_unbind(queue, "amq.topic", "a.#", arguments={"x": 1})
    channel.basic_publish("amq.topic", "a.b", b"none is left")
    channel.queue_unbind(queue, "amq.topic", "never bound")
    assert drain(channel, queue) == [b"one binding is left"]


def test_exchange_to_exchange(channel: BlockingChannel, unique: Unique) -> None:
    entry, exit_ = unique("entry"), unique("exit")
    channel.exchange_declare(entry, "topic", auto_delete=True)
    channel.exchange_declare(exit_, "fanout", internal=True)
    queue = temporary_queue(channel)
    channel.queue_bind(queue, exit_)
    channel.queue_bind(queue, entry, "both.ways")
    assert isinstance(channel.exchange_bind(exit_, entry, "both.#").method, Exchange.BindOk)
    channel.basic_publish(entry, "both.ways", b"once")
    assert drain(channel, queue) == [b"once"]
    assert isinstance(channel.exchange_unbind(exit_, entry, "both.#").method, Exchange.UnbindOk)
    channel.basic_publish(entry, "both.other", b"lost")
    assert drain(channel, queue) == []
    channel.exchange_delete(exit_)


def test_an_alternate_exchange_takes_the_rest(channel: BlockingChannel, unique: Unique) -> None:
    name, alternate = unique("x"), unique("rest")
    channel.exchange_declare(alternate, "fanout", auto_delete=True)
    channel.exchange_declare(name, "direct", auto_delete=True, arguments={"alternate-exchange": alternate})
    known, rest = temporary_queue(channel), temporary_queue(channel)
    channel.queue_bind(known, name, "known")
    channel.queue_bind(rest, alternate)
    channel.basic_publish(name, "known", b"1")
    channel.basic_publish(name, "unknown", b"2")
    assert (drain(channel, known), drain(channel, rest)) == ([b"1"], [b"2"])


def test_auto_delete_goes_with_the_last_binding(channel: BlockingChannel, unique: Unique) -> None:
    name = unique("x")
    channel.exchange_declare(name, auto_delete=True)
    first, second = temporary_queue(channel), temporary_queue(channel)
    channel.queue_bind(first, name, "a")
    channel.queue_bind(second, name, "a")
    channel.queue_unbind(first, name, "a")
    channel.exchange_declare(name, passive=True)
    channel.queue_delete(second)
    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
        channel.exchange_declare(name, passive=True)


def test_a_used_exchange_is_kept(channel: BlockingChannel, unique: Unique) -> None:
    name = unique("x")
    channel.exchange_declare(name, auto_delete=True)
    queue = temporary_queue(channel)
    channel.queue_bind(queue, name, "a")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.exchange_delete(name, if_unused=True)
    assert caught.value.reply_text == f"PRECONDITION_FAILED - exchange '{name}' in vhost '/' in use"
    again = channel.connection.channel()
    again.queue_unbind(queue, name, "a")
    again.exchange_delete(name, if_unused=True)


def test_carbon_copies(channel: BlockingChannel) -> None:
    to, cc, bcc = (temporary_queue(channel) for _ in range(3))
    channel.basic_publish("", to, b"x", BasicProperties(headers={"CC": [cc], "BCC": [bcc], "other": 1}))
    for queue in (to, cc, bcc):
        method, properties, _ = channel.basic_get(queue, auto_ack=True)
        assert method.routing_key == to
        assert properties.headers == {"CC": [cc], "other": 1}


@pytest.mark.parametrize("name", ["Grüße", "日本語.キュー", "🐇", "with spaces / and ? #", "x" * 255])
def test_unicode_names(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "topic", auto_delete=True)
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, name, name)
    channel.basic_publish(name, name, name.encode(), BasicProperties(headers={name: name}))
    method, properties, body = channel.basic_get(name, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == (name, name, name.encode())
    assert properties.headers == {name: name}
