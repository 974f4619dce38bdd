"""Queues with pika: every method and the arguments people use."""

from collections.abc import Callable

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker
from pika.spec import Queue

from interop.patience import eventually
from interop.pika.blocking import await_message, count, drain, temporary_queue
from interop.pika.conftest import Connect

Unique = Callable[[str], str]


def test_declare(channel: BlockingChannel, unique: Unique) -> None:
    name = unique("q")
    for _ in range(2):
        method = channel.queue_declare(name, durable=True, arguments={"x-expires": 60_000}).method
        assert isinstance(method, Queue.DeclareOk)
        assert (method.queue, method.message_count, method.consumer_count) == (name, 0, 0)
    channel.queue_delete(name)


def test_passive_counts(connect: Connect, unique: Unique) -> None:
    name = unique("q")
    channel, other = connect().channel(), connect().channel()
    channel.confirm_delivery()
    channel.queue_declare(name)
    for _ in range(3):
        channel.basic_publish("", name, b"x")
    other.basic_qos(prefetch_count=1)
    other.basic_consume(name, lambda *_: None)
    eventually(lambda: count(channel, name) == 2, "one message is with the consumer")
    assert channel.queue_declare(name, passive=True).method.consumer_count == 1
    other.close()
    assert channel.queue_delete(name).method.message_count == 3


def test_server_named(channel: BlockingChannel) -> None:
    names = {temporary_queue(channel) for _ in range(20)}
    assert len(names) == 20
    for name in names:
        assert name.startswith("amq.gen-")
        assert len(name) == len("amq.gen-") + 22
        assert channel.queue_declare(name, passive=True).method.queue == name


def test_the_last_queue_declared_needs_no_name(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.queue_bind("", "amq.direct")
    channel.basic_publish("amq.direct", queue, b"bound under its own name")
    assert channel.basic_get("", auto_ack=True)[2] == b"bound under its own name"
    channel.basic_publish("", queue, b"x")
    assert channel.queue_purge("").method.message_count == 1


def test_purge(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    for _ in range(10):
        channel.basic_publish("", queue, b"x")
    method, _, _ = channel.basic_get(queue)
    purged = channel.queue_purge(queue).method
    assert isinstance(purged, Queue.PurgeOk)
    assert purged.message_count == 9
    channel.basic_nack(method.delivery_tag)
    assert drain(channel, queue) == [b"x"]


def test_delete(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.basic_publish("", queue, b"x")
    deleted = channel.queue_delete(queue).method
    assert isinstance(deleted, Queue.DeleteOk)
    assert deleted.message_count == 1
    assert channel.queue_delete(queue).method.message_count == 0


def test_delete_if_empty_and_if_unused(connection: BlockingConnection) -> None:
    channel = connection.channel()
    queue = temporary_queue(channel)
    channel.basic_publish("", queue, b"x")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_delete(queue, if_empty=True)
    assert caught.value.reply_text == f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"
    channel = connection.channel()
    channel.basic_consume(queue, lambda *_: None)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_delete(queue, if_unused=True)
    assert caught.value.reply_text == f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"
    channel = connection.channel()
    assert channel.queue_purge(queue).method.message_count == 1
    channel.queue_delete(queue, if_empty=True, if_unused=True)


def test_auto_delete_goes_with_the_last_consumer(channel: BlockingChannel, unique: Unique) -> None:
    name = unique("q")
    channel.queue_declare(name, auto_delete=True)
    first = channel.basic_consume(name, lambda *_: None)
    second = channel.basic_consume(name, lambda *_: None)
    channel.basic_cancel(first)
    assert channel.queue_declare(name, passive=True).method.consumer_count == 1
    channel.basic_cancel(second)
    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
        channel.queue_declare(name, passive=True)


def test_exclusive_is_for_one_connection(connect: Connect, unique: Unique) -> None:
    name = unique("q")
    connection = connect()
    connection.channel().queue_declare(name, exclusive=True)
    connection.channel().queue_declare(name, exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        connect().channel().queue_declare(name, passive=True)
    assert caught.value.reply_code == 405
    assert caught.value.reply_text.startswith(
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'."
    )


def test_expires(channel: BlockingChannel, unique: Unique) -> None:
    name = unique("q")
    channel.queue_declare(name, arguments={"x-expires": 50})

    def is_gone() -> bool:
        """Looking renews the lease, so look seldom."""
        channel.connection.sleep(0.2)
        probe = channel.connection.channel()
        try:
            probe.queue_declare(name, passive=True)
        except ChannelClosedByBroker as error:
            return bool(error.reply_code == 404)
        return False

    eventually(is_gone, "the queue is gone")


def test_message_ttl(channel: BlockingChannel) -> None:
    by_queue = temporary_queue(channel, arguments={"x-message-ttl": 20})
    by_message = temporary_queue(channel)
    channel.basic_publish("", by_queue, b"x")
    channel.basic_publish("", by_message, b"x", BasicProperties(expiration="20"))
    channel.basic_publish("", by_message, b"stays")
    eventually(lambda: count(channel, by_queue) == 0, "expired by the queue's argument")
    eventually(lambda: count(channel, by_message) == 1, "expired by its own property")
    assert drain(channel, by_message) == [b"stays"]


def test_dead_letters(channel: BlockingChannel) -> None:
    """All four ways to die, with the history pika's users read."""
    morgue = temporary_queue(channel)
    to_morgue = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": morgue}
    expiring = temporary_queue(channel, arguments=to_morgue)
    channel.basic_publish("", expiring, b"expired", BasicProperties(expiration="1", headers={"mine": 1}))
    got = await_message(channel, morgue)
    assert (got.body, got.exchange, got.routing_key) == (b"expired", "", morgue)
    assert got.properties.expiration is None
    assert got.properties.headers is not None
    assert got.properties.headers["mine"] == 1
    (death,) = got.properties.headers["x-death"]
    assert {key: value for key, value in death.items() if key != "time"} == {
        "count": 1,
        "reason": "expired",
        "queue": expiring,
        "exchange": "",
        "routing-keys": [expiring],
        "original-expiration": "1",
    }
    assert got.properties.headers["x-first-death-reason"] == "expired"
    assert got.properties.headers["x-first-death-queue"] == expiring

    rejecting = temporary_queue(channel, arguments=to_morgue)
    channel.basic_publish("", rejecting, b"rejected")
    channel.basic_reject(channel.basic_get(rejecting)[0].delivery_tag, requeue=False)
    got = await_message(channel, morgue)
    assert (got.properties.headers or {})["x-death"][0]["reason"] == "rejected"

    short = temporary_queue(channel, arguments=to_morgue | {"x-max-length": 1})
    channel.basic_publish("", short, b"oldest")
    channel.basic_publish("", short, b"newest")
    got = await_message(channel, morgue)
    assert (got.body, (got.properties.headers or {})["x-death"][0]["reason"]) == (b"oldest", "maxlen")


def test_dead_letters_come_round_again(channel: BlockingChannel) -> None:
    """The retry loop people build: work queue and waiting room, each the other's dead letter queue."""
    work = temporary_queue(channel)
    wait = temporary_queue(
        channel, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": work, "x-message-ttl": 10}
    )
    channel.basic_publish("", wait, b"x")
    for attempt in range(1, 4):
        got = await_message(channel, work)
        assert got.properties.headers is not None
        (death,) = got.properties.headers["x-death"]
        assert (death["count"], death["reason"], death["queue"]) == (attempt, "expired", wait)
        channel.basic_publish("", wait, got.body, got.properties)
    channel.queue_delete(wait)


def test_max_length(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, arguments={"x-max-length": 3})
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
    assert drain(channel, queue) == [b"7", b"8", b"9"]


def test_max_length_bytes(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, arguments={"x-max-length-bytes": 250})
    for number in range(5):
        channel.basic_publish("", queue, b"%d" % number * 100)
    assert drain(channel, queue) == [b"3" * 100, b"4" * 100]


def test_priorities(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, arguments={"x-max-priority": 5})
    for priority in (0, 3, 1, 5, 3, 200, None):
        channel.basic_publish("", queue, str(priority).encode(), BasicProperties(priority=priority))
    assert drain(channel, queue) == [b"5", b"200", b"3", b"3", b"1", b"0", b"None"]


def test_quorum(channel: BlockingChannel, unique: Unique) -> None:
    """A delivery limit, and each redelivery counted."""
    name, morgue = unique("q"), temporary_queue(channel)
    channel.queue_declare(
        name,
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-delivery-limit": 2,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": morgue,
        },
    )
    channel.confirm_delivery()
    channel.basic_publish("", name, b"poison")
    counts = []
    for method, properties, _ in channel.consume(name, inactivity_timeout=1.0):
        if method is None:
            break
        counts.append((properties.headers or {}).get("x-delivery-count"))
        channel.basic_nack(method.delivery_tag)
        if len(counts) == 3:
            break
    assert counts == [None, 1, 2]
    assert (await_message(channel, morgue).properties.headers or {})["x-death"][0]["reason"] == "delivery_limit"
    channel.cancel()
    channel.queue_delete(name)


def test_single_active_consumer(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, arguments={"x-single-active-consumer": True})
    seen: list[str] = []
    first = channel.basic_consume(queue, lambda *_: seen.append("first"), auto_ack=True)
    channel.basic_consume(queue, lambda *_: seen.append("second"), auto_ack=True)
    for _ in range(3):
        channel.basic_publish("", queue, b"x")
    while len(seen) < 3:
        channel.connection.process_data_events(1)
    assert seen == ["first"] * 3
    channel.basic_cancel(first)
    channel.basic_publish("", queue, b"x")
    while len(seen) < 4:
        channel.connection.process_data_events(1)
    assert seen[3] == "second"
