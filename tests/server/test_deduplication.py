"""Deduplication by a real broker that is killed without a word."""

from contextlib import suppress
from pathlib import Path

import pika
import pika.adapters.blocking_connection
import pika.exceptions

from tests.support.crash_process import DurableProcess

ON = {"x-message-deduplication": True}


def publish(channel: pika.adapters.blocking_connection.BlockingChannel, count: int, body: bytes) -> None:
    for number in range(count):
        properties = pika.BasicProperties(delivery_mode=2, headers={"x-deduplication-header": f"order {number}"})
        channel.basic_publish("", "orders", body, properties)


def test_a_publisher_that_sends_everything_again_after_a_kill_9(tmp_path: Path) -> None:
    """G20: what was confirmed before is confirmed and dropped; what is new is taken; nothing is lost or doubled."""
    process = DurableProcess(tmp_path)
    try:
        connection = pika.BlockingConnection(pika.ConnectionParameters(port=process.port))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True, arguments=ON)
        publish(channel, 200, b"first")
    finally:
        process.kill()
    with suppress(pika.exceptions.AMQPError):
        connection.close()
    process = DurableProcess(tmp_path)
    try:
        connection = pika.BlockingConnection(pika.ConnectionParameters(port=process.port))
        channel = connection.channel()
        channel.confirm_delivery()
        publish(channel, 210, b"second")
        bodies = []
        while (got := channel.basic_get("orders", auto_ack=True))[2] is not None:
            bodies.append(got[2])
        assert (bodies.count(b"first"), bodies.count(b"second")) == (200, 10)
        connection.close()
    finally:
        process.kill()
