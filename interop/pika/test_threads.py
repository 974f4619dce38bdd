"""Threads: a connection each, as pika asks for, and work handed back to the connection's own thread."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pika
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.spec import Basic

from interop.conftest import Address
from interop.pika.blocking import count
from interop.pika.conftest import Connect

THREADS = 4
EACH = 250


def test_publishers_and_consumers_in_threads(
    address: Address, connection: BlockingConnection, unique: Callable[[str], str]
) -> None:
    """Nothing is lost, nothing comes twice, and what one publisher sends stays in order for one consumer."""
    queue = unique("q")
    channel = connection.channel()
    channel.queue_declare(queue)
    parameters = pika.ConnectionParameters(address.host, address.port)
    total = THREADS * EACH
    lock = threading.Lock()
    seen: Counter[bytes] = Counter()

    def publish(thread: int) -> None:
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for number in range(EACH):
                channel.basic_publish("", queue, b"%d/%d" % (thread, number), mandatory=True)

    def consume() -> bool:
        last: dict[bytes, int] = {}
        is_ordered = True
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=10)
            for method, _, body in channel.consume(queue, inactivity_timeout=0.05):
                if method is not None:
                    thread, _, number = body.partition(b"/")
                    is_ordered &= last.get(thread, -1) < int(number)
                    last[thread] = int(number)
                    channel.basic_ack(method.delivery_tag)
                    with lock:
                        seen[body] += 1
                with lock:
                    if seen.total() >= total:
                        break
            channel.cancel()
        return is_ordered

    with ThreadPoolExecutor(2 * THREADS) as pool:
        consumers = [pool.submit(consume) for _ in range(THREADS)]
        publishers = [pool.submit(publish, thread) for thread in range(THREADS)]
        for publisher in publishers:
            publisher.result()
        assert all(consumer.result() for consumer in consumers)
    assert set(seen.values()) == {1}
    assert len(seen) == total
    assert channel.queue_delete(queue).method.message_count == 0


def test_work_in_threads_acked_from_the_connections_own(connect: Connect) -> None:
    """The example of pika's documentation: a pool works, add_callback_threadsafe brings the acks home."""
    connection = connect(heartbeat=5)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for number in range(20):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_qos(prefetch_count=5)
    done: list[bytes] = []

    def acknowledge(tag: int, body: bytes) -> None:
        channel.basic_ack(tag)
        done.append(body)
        if len(done) == 20:
            channel.stop_consuming()

    with ThreadPoolExecutor(3) as pool:

        def on_message(_: BlockingChannel, method: Basic.Deliver, __: BasicProperties, body: bytes) -> None:
            tag = method.delivery_tag
            pool.submit(lambda: connection.add_callback_threadsafe(lambda: acknowledge(tag, body)))

        channel.basic_consume(queue, on_message)
        channel.start_consuming()
    assert sorted(done, key=int) == [b"%d" % number for number in range(20)]
    assert count(channel, queue) == 0


def test_a_publisher_kept_alive_by_a_thread(connect: Connect) -> None:
    """pika's other example: one thread owns the connection and its heartbeats, others publish through it."""
    connection = connect(heartbeat=2)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    is_running = True

    def own() -> None:
        while is_running:
            connection.process_data_events(time_limit=0.02)

    owner = threading.Thread(target=own)
    owner.start()
    for number in range(50):
        body = b"%d" % number
        connection.add_callback_threadsafe(lambda body=body: channel.basic_publish("", queue, body))
    is_running = False
    owner.join()
    connection.process_data_events()
    assert count(channel, queue) == 50
