"""Retries and deadlines of a real broker: killed while messages wait, on the real clock, over real sockets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess, running

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@contextmanager
def channel_of(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
    try:
        yield connection.channel()
    finally:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


def api_of(broker: BrokerProcess) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{broker.management_port}/api", auth=("guest", "guest"))


def kill(broker: BrokerProcess) -> None:
    broker.process.kill()
    broker.process.wait()


def delayed(api: httpx.Client) -> int:
    return int(api.get("/queues/%2F/q").json().get("messages_delayed", 0))


def test_killed_while_messages_wait(tmp_path: Path) -> None:
    """F5 F23 S14 kill -9 neither forgets nor shortens nor repeats a wait; the dead letter comes in the end."""
    flags = ["--no-memory", "--data-dir", str(tmp_path / "data")]
    arguments = {
        "x-retry-initial": 6000,
        "x-retry-multiplier": 1,
        "x-delivery-limit": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    with running(*flags) as broker, api_of(broker) as api, channel_of(broker) as ch:
        ch.confirm_delivery()
        ch.queue_declare("dead", durable=True)
        ch.queue_declare("q", durable=True, arguments=arguments)
        for body in (b"1", b"2"):
            ch.basic_publish("", "q", body, PERSISTENT)
        method, _, body = ch.basic_get("q")
        assert method is not None
        assert body == b"1"
        failed_at = time.time()
        ch.basic_nack(method.delivery_tag)
        # An answer that waits for a commit: what happened before it is on the disk.
        ch.basic_publish("", "q", b"3", PERSISTENT)
        assert delayed(api) == 1
        kill(broker)
    with running(*flags) as broker, api_of(broker) as api, channel_of(broker) as ch:
        is_early = time.time() - failed_at < 5.5  # a slow machine may need longer than that to start
        if is_early:
            assert delayed(api) == 1
            assert [ch.basic_get("q", auto_ack=True)[2] for _ in range(3)] == [b"2", b"3", None]
        properties = None
        while properties is None:
            method, properties, body = ch.basic_get("q")
            time.sleep(0.01)
        assert time.time() - failed_at >= 6.0
        assert method is not None
        assert (body, method.redelivered, properties.headers) == (b"1", True, {"x-delivery-count": 1})
        ch.basic_nack(method.delivery_tag)
        properties = None
        while properties is None:
            _, properties, body = ch.basic_get("dead")
        assert (body, properties.headers["x-first-death-reason"]) == (b"1", "delivery_limit")


def test_a_worker_that_hangs(tmp_path: Path) -> None:
    """F4 G5 S4 its message goes to another after the deadline, later if somebody extends it; its channel lives."""
    flags = ["--no-memory", "--data-dir", str(tmp_path / "data")]
    with running(*flags) as broker, api_of(broker) as api, channel_of(broker) as slow, channel_of(broker) as quick:
        slow.queue_declare("q", durable=True, arguments={"x-ack-timeout": 1000})
        slow.basic_publish("", "q", b"m", PERSISTENT)
        got, _, _ = slow.basic_get("q")
        assert got is not None
        held_at = time.time()
        (out,) = api.get("/queues/%2F/q/unacked").json()
        assert api.post(f"/messages/%2F/q/{out['position']}/extend", json={"ms": 2000}).status_code == 200
        method = None
        while method is None:
            method, _, _ = quick.basic_get("q")
            time.sleep(0.01)
        assert 1.9 < time.time() - held_at
        slow.basic_ack(got.delivery_tag)
        slow.queue_declare("q", passive=True)  # it lives
        assert api.post(f"/messages/%2F/q/{out['position']}/nack").json() == {"action": "requeued"}
        quick.basic_ack(method.delivery_tag)
        assert quick.queue_declare("q", passive=True).method.message_count == 1
