"""Consuming with pika: push and get, settling, prefetch, cancelling, request and reply."""

from collections.abc import Callable

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.spec import Basic

from interop.pika.blocking import count, drain, get, temporary_queue
from interop.pika.conftest import Connect

Unique = Callable[[str], str]


class Seen:
    """A consumer's callback that keeps what it is given."""

    def __init__(self, channel: BlockingChannel) -> None:
        self.connection = channel.connection
        self.deliveries: list[tuple[Basic.Deliver, BasicProperties, bytes]] = []

    def __call__(self, _: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        self.deliveries.append((method, properties, body))

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.deliveries]

    @property
    def tags(self) -> list[int]:
        return [method.delivery_tag for method, _, _ in self.deliveries]

    def wait(self, number: int) -> None:
        while len(self.deliveries) < number:
            self.connection.process_data_events(1)

    def stays(self, number: int) -> None:
        """Exactly so many, and no more in spite of time to come."""
        self.wait(number)
        self.connection.process_data_events(0)
        self.connection.sleep(0.05)
        assert len(self.deliveries) == number


def fill(channel: BlockingChannel, queue: str, number: int) -> None:
    for each in range(number):
        channel.basic_publish("", queue, b"%d" % each)


def test_get(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    assert channel.basic_get(queue) == (None, None, None)
    fill(channel, queue, 2)
    first, second = get(channel, queue, auto_ack=False), get(channel, queue)
    assert first is not None
    assert second is not None
    assert (first.body, first.message_count, first.redelivered, first.delivery_tag) == (b"0", 1, False, 1)
    assert (second.body, second.message_count, second.redelivered, second.delivery_tag) == (b"1", 0, False, 2)
    assert (first.exchange, first.routing_key) == ("", queue)
    channel.basic_ack(first.delivery_tag)


def test_consume_and_ack(connection: BlockingConnection) -> None:
    channel = connection.channel()
    queue = temporary_queue(channel)
    fill(channel, queue, 10)
    seen = Seen(channel)
    tag = channel.basic_consume(queue, seen)
    seen.wait(10)
    assert seen.bodies == [b"%d" % each for each in range(10)]
    assert seen.tags == list(range(1, 11))
    assert {method.consumer_tag for method, _, _ in seen.deliveries} == {tag}
    for one in seen.tags[:3]:
        channel.basic_ack(one)
    channel.basic_ack(8, multiple=True)
    channel.close()
    assert drain(connection.channel(), queue) == [b"8", b"9"]


def test_ack_everything(connection: BlockingConnection) -> None:
    channel = connection.channel()
    queue = temporary_queue(channel)
    fill(channel, queue, 5)
    seen = Seen(channel)
    channel.basic_consume(queue, seen)
    seen.wait(5)
    channel.basic_ack(0, multiple=True)
    channel.close()
    assert count(connection.channel(), queue) == 0


@pytest.mark.parametrize("requeue", [True, False])
def test_nack_and_reject(channel: BlockingChannel, requeue: bool) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 4)
    for _ in range(4):
        channel.basic_get(queue)
    channel.basic_reject(1, requeue=requeue)
    channel.basic_nack(3, multiple=True, requeue=requeue)
    assert drain(channel, queue) == ([b"0", b"1", b"2"] if requeue else [])
    channel.basic_nack(0, multiple=True, requeue=requeue)
    assert drain(channel, queue) == ([b"3"] if requeue else [])


def test_requeued_messages_return_to_their_place(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 6)
    for _ in range(4):
        channel.basic_get(queue)
    channel.basic_nack(3)
    channel.basic_nack(1)
    got = [get(channel, queue) for _ in range(4)]
    assert [(each.body, each.redelivered) for each in got if each] == [
        (b"0", True),
        (b"2", True),
        (b"4", False),
        (b"5", False),
    ]


def test_recover(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 3)
    seen = Seen(channel)
    channel.basic_consume(queue, seen)
    seen.wait(3)
    channel.basic_recover(requeue=True)
    seen.wait(6)
    assert seen.bodies == [b"0", b"1", b"2"] * 2
    assert [method.redelivered for method, _, _ in seen.deliveries] == [False] * 3 + [True] * 3
    assert seen.tags == [1, 2, 3, 4, 5, 6]


def test_prefetch(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=3)
    seen = Seen(channel)
    channel.basic_consume(queue, seen)
    seen.stays(3)
    channel.basic_ack(2)
    seen.stays(4)
    channel.basic_ack(4, multiple=True)
    seen.stays(7)


def test_prefetch_of_the_whole_channel(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    seen = Seen(channel)
    channel.basic_consume(queue, seen)
    channel.basic_consume(queue, seen)
    seen.stays(3)
    channel.basic_qos(prefetch_count=5, global_qos=True)
    seen.stays(5)
    channel.basic_ack(0, multiple=True)
    seen.stays(10)


def test_prefetch_does_not_bind_those_who_never_ack(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=1)
    seen = Seen(channel)
    channel.basic_consume(queue, seen, auto_ack=True)
    seen.wait(10)


def test_work_is_shared(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.basic_qos(prefetch_count=1)
    workers = [Seen(channel) for _ in range(3)]
    for worker in workers:
        channel.basic_consume(queue, worker)
    fill(channel, queue, 9)
    while sum(len(worker.bodies) for worker in workers) < 3:
        channel.connection.process_data_events(1)
    assert [worker.bodies for worker in workers] == [[b"0"], [b"1"], [b"2"]]


def test_consumer_priorities(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.basic_qos(prefetch_count=2)
    low, high = Seen(channel), Seen(channel)
    channel.basic_consume(queue, low, arguments={"x-priority": -1})
    channel.basic_consume(queue, high, arguments={"x-priority": 10})
    fill(channel, queue, 4)
    high.wait(2)
    low.wait(2)
    assert (high.bodies, low.bodies) == ([b"0", b"1"], [b"2", b"3"])


def test_cancel(channel: BlockingChannel) -> None:
    """Nothing is delivered after cancel-ok, and what was delivered can still be acked."""
    queue = temporary_queue(channel)
    seen = Seen(channel)
    tag = channel.basic_consume(queue, seen)
    fill(channel, queue, 1)
    seen.wait(1)
    channel.basic_cancel(tag)
    fill(channel, queue, 1)
    seen.stays(1)
    channel.basic_ack(1)
    assert count(channel, queue) == 1
    assert channel.consumer_tags == []


def test_the_broker_cancels(connect: Connect, unique: Unique) -> None:
    """The queue is deleted by somebody else: pika is told by basic.cancel."""
    queue = unique("q")
    channel = connect().channel()
    channel.queue_declare(queue)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, Seen(channel))
    connect().channel().queue_delete(queue)
    while not cancelled:
        channel.connection.process_data_events(1)
    assert cancelled == [tag]
    assert channel.consumer_tags == []
    assert temporary_queue(channel)


def test_the_broker_cancels_a_generator(connect: Connect, unique: Unique) -> None:
    queue = unique("q")
    channel, other = connect().channel(), connect().channel()
    channel.queue_declare(queue)
    channel.basic_publish("", queue, b"x")
    deliveries = channel.consume(queue, auto_ack=True)
    next(deliveries)
    other.queue_delete(queue)
    assert list(deliveries) == [], "it ends; without the notice it would wait for ever"


def test_the_consumer_generator(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 5)
    bodies = []
    for method, _, body in channel.consume(queue, inactivity_timeout=0.2):
        if method is None:
            break
        bodies.append(body)
        if len(bodies) < 5:
            channel.basic_ack(method.delivery_tag)
    assert bodies == [b"0", b"1", b"2", b"3", b"4"]
    assert channel.cancel() == 0
    got = get(channel, queue, auto_ack=False)
    assert got is None, "the unacked one stays with the channel"


def test_start_and_stop_consuming(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 3)
    bodies: list[bytes] = []

    def on_message(_: BlockingChannel, method: Basic.Deliver, __: BasicProperties, body: bytes) -> None:
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == 3:
            channel.stop_consuming()

    channel.basic_consume(queue, on_message)
    channel.start_consuming()
    assert bodies == [b"0", b"1", b"2"]
    assert count(channel, queue) == 0


def test_request_and_reply(connect: Connect, unique: Unique) -> None:
    """pika's direct reply-to example, over two connections."""
    client, server = connect().channel(), connect().channel()
    requests = unique("requests")
    server.queue_declare(requests, exclusive=True)

    def serve(channel: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        assert properties.reply_to is not None
        assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
        reply = BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, body.upper(), reply, mandatory=True)
        channel.basic_ack(method.delivery_tag)

    server.basic_consume(requests, serve)
    replies = Seen(client)
    client.basic_consume("amq.rabbitmq.reply-to", replies, auto_ack=True)
    for number in range(3):
        ask = BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=str(number))
        client.basic_publish("", requests, b"question %d" % number, ask)
    while len(replies.bodies) < 3:
        server.connection.process_data_events(0.05)
        client.connection.process_data_events(0.05)
    assert replies.bodies == [b"QUESTION 0", b"QUESTION 1", b"QUESTION 2"]
    assert [properties.correlation_id for _, properties, _ in replies.deliveries] == ["0", "1", "2"]
    assert {method.exchange for method, _, _ in replies.deliveries} == {""}


def test_many_consumers_on_one_channel(channel: BlockingChannel) -> None:
    queues = [temporary_queue(channel) for _ in range(50)]
    seen = Seen(channel)
    tags = [channel.basic_consume(queue, seen, auto_ack=True, consumer_tag=f"tag {queue}") for queue in queues]
    for queue in queues:
        channel.basic_publish("", queue, queue.encode())
    seen.wait(50)
    assert {(method.consumer_tag, body.decode()) for method, _, body in seen.deliveries} == {
        (f"tag {queue}", queue) for queue in queues
    }
    assert sorted(channel.consumer_tags) == sorted(tags)
