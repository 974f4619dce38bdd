"""Publishing with pika: bodies and properties come out as they went in, confirms, returns, nacks, transactions."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pika import BasicProperties, DeliveryMode
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import NackError, UnroutableError
from pika.spec import Basic

from interop.pika.blocking import await_message, count, drain, temporary_queue

#: Every property with a value of its own.
ALL = BasicProperties(
    content_type="application/json",
    content_encoding="utf-8",
    headers={"a": 1},
    delivery_mode=DeliveryMode.Persistent.value,
    priority=7,
    correlation_id="correlation",
    reply_to="reply",
    expiration="60000",
    message_id="message",
    timestamp=1_700_000_000,
    type="kind",
    user_id="guest",
    app_id="app",
    cluster_id="cluster",
)

HEADERS: dict[str, object] = {
    "true": True,
    "false": False,
    "zero": 0,
    "negative": -1,
    "int": 2**31 - 1,
    "long": 2**63 - 1,
    "longest": -(2**63),
    "text": "Grüße, 日本語 🐇",
    "empty": "",
    "long text": "x" * 70_000,
    "octets": bytes(range(256)),
    "decimal": Decimal("3.1415"),
    "time": datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC),
    "nothing": None,
    "list": [1, "two", None, [3, {"four": 5}]],
    "table": {"deeper": {"and deeper": {"list": [{}, []]}}},
    "empty table": {},
    "empty list": [],
}


@pytest.mark.parametrize(
    "size", [0, 1, 4088, 131_063, 131_064, 131_065, 131_072, 262_128, 262_129, 1_000_003, 16 * 1024 * 1024]
)
def test_bodies(channel: BlockingChannel, size: int) -> None:
    """Around the borders of frames, and far beyond."""
    queue = temporary_queue(channel)
    body = random.Random(size).randbytes(size)
    channel.confirm_delivery()
    channel.basic_publish("", queue, body)
    assert channel.basic_get(queue, auto_ack=True)[2] == body


def test_bodies_of_all_sizes_in_turn(connection: BlockingConnection) -> None:
    """What one message leaves over must not get into the next."""
    channel, other = connection.channel(), connection.channel()
    queue = temporary_queue(channel)
    sizes = [0, 300_000, 1, 0, 131_064, 5, 131_065, 0, 0, 2]
    for number, size in enumerate(sizes):
        (channel, other)[number % 2].basic_publish("", queue, bytes([number]) * size)
    seen = [next(channel.consume(queue, auto_ack=True))[2] for _ in sizes]
    assert sorted(seen) == sorted(bytes([number]) * size for number, size in enumerate(sizes))


def test_messages_alike_and_not(connection: BlockingConnection) -> None:
    """Runs of messages that are alike but for one thing: a broker that remembers the last one must notice which."""
    dice = random.Random(7)
    channels = [connection.channel() for _ in range(2)]
    queue = temporary_queue(channels[0])
    keys = ("k", "l", "long.key")
    for key in keys:
        channels[0].queue_bind(queue, "amq.topic", key)
    kinds = (BasicProperties(), BasicProperties(type="x"), BasicProperties(type="y"), BasicProperties(headers={"a": 1}))
    expected: list[list[tuple[str, bytes, BasicProperties]]] = [[], []]
    seen: list[list[tuple[str, bytes, BasicProperties]]] = [[], []]

    def on_message(_: object, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        seen[body[0]].append((method.routing_key, body, properties))

    channels[1].basic_consume(queue, on_message, auto_ack=True)
    key, size, kind = keys[0], 1, kinds[0]
    for number in range(2000):
        match dice.randrange(8):
            case 0:
                key = dice.choice(keys)
            case 1:
                size = dice.choice((1, 2, 3, 200))
            case 2:
                kind = dice.choice(kinds)
        lane = dice.choice((0, 0, 0, 1))
        body = bytes((lane, number % 256)) * size
        channels[lane]._impl.basic_publish("amq.topic", key, body, kind)
        expected[lane].append((key, body, kind))
        if dice.random() < 0.05:
            connection.process_data_events()
    while sum(map(len, seen)) < 2000:
        connection.process_data_events(1)
    assert seen == expected


def test_all_properties(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.basic_publish("", queue, b"x", ALL)
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    assert properties == ALL


@pytest.mark.parametrize("name", sorted(vars(ALL)))
def test_one_property_alone(channel: BlockingChannel, name: str) -> None:
    queue = temporary_queue(channel)
    alone = BasicProperties(**{name: getattr(ALL, name)})
    channel.basic_publish("", queue, b"x", alone)
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    assert properties == alone


def test_no_properties(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.basic_publish("", queue, b"x")
    assert channel.basic_get(queue, auto_ack=True)[1] == BasicProperties()


def test_headers_of_every_type(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.basic_publish("", queue, b"x", BasicProperties(headers=HEADERS))
    headers = channel.basic_get(queue, auto_ack=True)[1].headers
    assert headers is not None
    assert list(headers) == list(HEADERS), "their order is kept"
    time = headers.pop("time")
    assert time.replace(tzinfo=UTC) == HEADERS["time"]
    assert headers == {key: value for key, value in HEADERS.items() if key != "time"}


def test_confirms(channel: BlockingChannel) -> None:
    """Each publish returns when the broker has answered for it."""
    queue = temporary_queue(channel)
    channel.confirm_delivery()
    for number in range(100):
        channel.basic_publish("", queue, b"%d" % number, mandatory=True)
    assert count(channel, queue) == 100


def test_unroutable_in_confirm_mode(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", "nobody", b"confirmed and dropped")
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", "nobody", b"returned", ALL, mandatory=True)
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("", "nobody")
    assert (returned.properties, returned.body) == (ALL, b"returned")
    assert channel.is_open


def test_a_full_queue_nacks(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"first")
    for _ in range(3):
        with pytest.raises(NackError):
            channel.basic_publish("", queue, b"refused")
    assert drain(channel, queue) == [b"first"]
    channel.basic_publish("", queue, b"room again")
    assert drain(channel, queue) == [b"room again"]


def test_returns_without_confirms(channel: BlockingChannel) -> None:
    returned: list[tuple[int, bytes, str | None]] = []

    def on_return(_: BlockingChannel, method: Basic.Return, properties: BasicProperties, body: bytes) -> None:
        returned.append((method.reply_code, body, properties.message_id))

    channel.add_on_return_callback(on_return)
    channel.basic_publish("amq.direct", "nobody", b"a" * 200_000, BasicProperties(message_id="1"), mandatory=True)
    channel.basic_publish("amq.direct", "nobody", b"", BasicProperties(message_id="2"), mandatory=True)
    channel.basic_publish("amq.direct", "nobody", b"silently dropped")
    while len(returned) < 2:
        channel.connection.process_data_events(1)
    assert returned == [(312, b"a" * 200_000, "1"), (312, b"", "2")]


def test_a_missing_answer_is_never_invented(channel: BlockingChannel) -> None:
    """Many confirms in flight: each tag once, in spite of returns and nacks between them."""
    full = temporary_queue(channel, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    roomy = temporary_queue(channel)
    impl = channel._impl
    acked: list[int] = []
    nacked: list[int] = []
    returned: list[bytes] = []
    settled_at = 0

    def on_confirm(frame: object) -> None:
        nonlocal settled_at
        method = frame.method  # type: ignore[attr-defined]
        tags = range(settled_at + 1, method.delivery_tag + 1) if method.multiple else [method.delivery_tag]
        into = acked if isinstance(method, Basic.Ack) else nacked
        into.extend(tag for tag in tags if tag not in acked and tag not in nacked)
        while settled_at + 1 in acked or settled_at + 1 in nacked:
            settled_at += 1

    selected: list[object] = []
    impl.confirm_delivery(on_confirm, callback=selected.append)
    impl.add_on_return_callback(lambda *parts: returned.append(parts[3]))
    while not selected:
        channel.connection.process_data_events(0.01)
    for number in range(300):
        where = (roomy, full, "nobody")[number % 3]
        impl.basic_publish("", where, b"%d" % number, mandatory=True)
    while settled_at < 300:
        channel.connection.process_data_events(0.01)
    assert nacked == list(range(2, 301, 3))
    assert sorted(acked) == sorted(set(range(1, 301)) - set(nacked))
    assert [int(body) for body in returned] == list(range(2, 300, 3))
    assert count(channel, roomy) == 100


def test_transactions(connection: BlockingConnection) -> None:
    channel, watcher = connection.channel(), connection.channel()
    queue = temporary_queue(channel)
    channel.tx_select()
    channel.basic_publish("", queue, b"rolled back")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"one")
    channel.basic_publish("", queue, b"two")
    assert count(watcher, queue) == 0
    channel.tx_commit()
    assert count(watcher, queue) == 2
    method, _, _ = channel.basic_get(queue)
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.close()
    assert drain(watcher, queue) == [b"two"]


def test_a_transaction_that_is_never_committed(connection: BlockingConnection) -> None:
    watcher = connection.channel()
    queue = temporary_queue(watcher)
    watcher.basic_publish("", queue, b"acked in vain")
    with connection.channel() as channel:
        channel.tx_select()
        method, _, _ = channel.basic_get(queue)
        channel.basic_ack(method.delivery_tag)
        channel.basic_publish("", queue, b"never")
    assert drain(watcher, queue) == [b"acked in vain"]


def test_properties_survive_a_requeue(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.basic_publish("", queue, b"x", ALL)
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=True)
    got = await_message(channel, queue)
    assert got.properties.headers.pop("x-delivery-count", 1) == 1  # which RabbitMQ adds for quorum queues alone
    assert (got.redelivered, got.properties) == (True, ALL)


def test_ten_thousand_messages_keep_their_order(connection: BlockingConnection, unique: Callable[[str], str]) -> None:
    channel = connection.channel()
    queue = temporary_queue(channel)
    for number in range(10_000):
        channel._impl.basic_publish("", queue, number.to_bytes(4, "big"))
    seen: list[bytes] = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: seen.append(body), auto_ack=True)
    while len(seen) < 10_000:
        connection.process_data_events(1)
    assert seen == [number.to_bytes(4, "big") for number in range(10_000)]
