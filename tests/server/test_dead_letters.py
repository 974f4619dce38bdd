"""Dead letters of a real broker: killed after deaths and after retries; a webhook that hangs; calls over HTTP."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess, running

PERSISTENT = pika.BasicProperties(delivery_mode=2)
AUTO = {"x-dead-letter-auto": True}


@contextmanager
def channel_of(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
    try:
        yield connection.channel()
    finally:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


def api_of(broker: BrokerProcess) -> httpx.Client:
    url = f"http://127.0.0.1:{broker.management_port}/api"
    return httpx.Client(base_url=url, auth=("guest", "guest"), timeout=30)


def reject(ch: BlockingChannel, queue: str = "q") -> None:
    method, _, _ = ch.basic_get(queue)
    assert method is not None
    ch.basic_reject(method.delivery_tag, requeue=False)


def wait_for(api: httpx.Client, queue: str, messages: int) -> None:
    ends_at = time.monotonic() + 10
    while True:
        answer = api.get(f"/queues/%2F/{queue}")
        if answer.is_success and answer.json()["messages"] == messages:
            return
        assert time.monotonic() < ends_at, answer.text
        time.sleep(0.02)


def test_killed_after_deaths_and_after_retries(tmp_path: Path) -> None:
    """F8 F11 S7 kill -9: dead letters and the queue that keeps them are there, and what was put back is in one
    place."""
    flags = ["--no-memory", "--data-dir", str(tmp_path / "data")]
    with running(*flags) as broker, api_of(broker) as api, channel_of(broker) as ch:
        ch.confirm_delivery()
        ch.queue_declare("q", durable=True, arguments=AUTO)
        for number in range(20):
            ch.basic_publish("", "q", str(number).encode(), PERSISTENT)
            reject(ch)
        # The last publish is confirmed only after the deaths before it were committed.
        ch.basic_publish("", "q", b"alive", PERSISTENT)
        broker.process.kill()
        broker.process.wait()
    with running(*flags) as broker, api_of(broker) as api:
        wait_for(api, "q.dlq", 20)
        wait_for(api, "q", 1)
        ids = [each["id"] for each in api.get("/queues/%2F/q/dlq").json()["items"]]
        assert api.post("/queues/%2F/q/dlq/retry", json={"ids": ids[:7]}).json()["retried"] == 7
        broker.process.kill()
        broker.process.wait()
    with running(*flags) as broker, api_of(broker) as api:
        wait_for(api, "q.dlq", 13)
        wait_for(api, "q", 8)
        assert api.delete("/queues/%2F/q/dlq").json() == {"deleted": 13}


def test_a_webhook_that_hangs() -> None:
    """F10 an address that takes connections and says nothing costs neither queues nor the API anything."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        running("--webhook-allow", "127.0.0.0/8", RABBITLIKE_WEBHOOK_SECRET="hidden") as broker,
        api_of(broker) as api,
        channel_of(broker) as ch,
    ):
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        definition = {"dead-letter-webhook": url, "message-ttl": 0}
        api.put("/policies/%2F/hook", json={"pattern": "^q$", "definition": definition}).raise_for_status()
        ch.queue_declare("q")
        ch.queue_declare("other")
        started = time.monotonic()
        for _ in range(2_000):
            ch.basic_publish("", "q", b"m")
        ch.confirm_delivery()
        for _ in range(50):
            ch.basic_publish("", "other", b"m")
        (target,) = api.get("/webhooks").json()
        assert time.monotonic() - started < 4, "shorter than the webhook's time to answer"
        assert target["queued"] + target["dropped"] == 2_000
        assert target["sent"] == 0
        assert "hidden" not in broker.log()


def test_a_call_over_http() -> None:
    """F17 a server on a socket of its own, and many that ask at once."""
    with running() as broker, api_of(broker) as api:
        ready = threading.Event()

        def serve() -> None:
            with channel_of(broker) as ch:
                ch.queue_declare("double")
                ready.set()
                for method, properties, body in ch.consume("double", auto_ack=True, inactivity_timeout=10):
                    if method is None or body == b"stop":
                        break
                    reply = pika.BasicProperties(correlation_id=properties.correlation_id)
                    ch.basic_publish("", properties.reply_to, body * 2, reply)
                ch.cancel()

        server = threading.Thread(target=serve)
        server.start()
        assert ready.wait(10)
        for word in ("a", "b", "c"):
            told = api.post("/rpc/%2F/amq.default/double", json={"payload": word}).json()
            assert told["payload"] == word * 2
        late = api.post("/rpc/%2F/amq.default/double?timeout=0.2", json={"payload": "stop"})
        assert late.status_code == 504
        server.join(10)


def test_killed_while_letters_are_kept(tmp_path: Path) -> None:
    """Kill -9: dead letters that cannot go are dead letters still, with their reasons, and go once each when they
    can."""
    flags = ["--no-memory", "--data-dir", str(tmp_path / "data")]
    arguments = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "dlx",
        "x-dead-letter-strategy": "at-least-once",
    }
    full = {"x-max-length": 5, "x-overflow": "reject-publish"}
    with running(*flags) as broker, api_of(broker) as api, channel_of(broker) as ch:
        ch.confirm_delivery()
        ch.exchange_declare("dlx", "fanout", durable=True)
        for queue, limits in (("open", {}), ("full", full)):
            ch.queue_declare(queue, durable=True, arguments=limits)
            ch.queue_bind(queue, "dlx")
        ch.queue_declare("q", durable=True, arguments=arguments)
        for number in range(20):
            ch.basic_publish("", "q", str(number).encode(), PERSISTENT)
        for _ in range(20):
            reject(ch)
        ch.basic_publish("", "q", b"ready", PERSISTENT)  # confirmed: what happened before it is on the disk
        shown = api.get("/queues/%2F/q").json()
        assert (shown["messages"], shown["messages_ready"], shown["messages_dlx"]) == (16, 1, 15)
        broker.process.kill()
        broker.process.wait()
    with running(*flags) as broker, api_of(broker) as api, channel_of(broker) as ch:
        wait_for(api, "q", 16)
        assert ch.basic_get("q", auto_ack=True)[2] == b"ready"
        assert ch.basic_get("q")[0] is None
        found = []
        for method, properties, body in ch.consume("full", auto_ack=True, inactivity_timeout=20):
            assert method is not None, found
            assert properties.headers["x-first-death-reason"] == "rejected"
            found.append(int(body))
            if len(found) == 20:
                break
        ch.cancel()
        assert found == list(range(20))
        wait_for(api, "q", 0)
        taken = [ch.basic_get("open", auto_ack=True)[2] for _ in range(21)]
        assert taken == [*(str(number).encode() for number in range(20)), None]
