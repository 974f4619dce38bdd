"""Dead letters that cannot go, with x-dead-letter-strategy: at-least-once: the same on RabbitMQ and here.

RabbitMQ tries again after three minutes, unless the queue's policy changes: that is how letters are let go here.
"""

from collections.abc import Iterator
from typing import Final

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from interop.management.doors import Doors
from interop.patience import eventually

AT_LEAST_ONCE: Final = {
    "dead-letter-strategy": "at-least-once",
    "dead-letter-exchange": "dlx",
    "overflow": "reject-publish",
}
PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(params=["theirs", "ours"])
def broker(request: pytest.FixtureRequest) -> Doors:
    doors: Doors = request.getfixturevalue(request.param)
    return doors


@pytest.fixture
def channel(broker: Doors) -> Iterator[BlockingChannel]:
    """Of a vhost of its own, with the quorum queue q."""
    broker.do("PUT", "/vhosts/letters")
    broker.do("PUT", "/permissions/letters/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    connection = broker.connect(vhost="letters")
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    yield channel
    connection.close()
    broker.do("DELETE", "/vhosts/letters")


def obey(broker: Doors, **definition: object) -> None:
    said = AT_LEAST_ONCE | {key.replace("_", "-"): value for key, value in definition.items()}
    broker.do("PUT", "/policies/letters/p", {"pattern": "^q$", "apply-to": "queues", "definition": said})


def kill(channel: BlockingChannel, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", "q", body, PERSISTENT)
        method, _, _ = channel.basic_get("q")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)


def await_counts(broker: Doors, *, ready: int, kept: int, octets: int) -> None:
    """RabbitMQ counts every five seconds."""
    wanted = (ready + kept, ready, kept, octets)
    names = ("messages", "messages_ready", "messages_dlx", "message_bytes_dlx")

    def is_so() -> bool:
        view = broker.get("/queues/letters/q")
        assert isinstance(view, dict)
        return tuple(view.get(name) for name in names) == wanted

    eventually(is_so, f"{names} are {wanted}")


def drain(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    """So many, and no more."""
    found: list[bytes] = []
    for method, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=10):
        assert method is not None, found
        assert properties.headers["x-first-death-reason"] == "rejected"
        found.append(body)
        if len(found) == count:
            break
    channel.cancel()
    assert channel.queue_declare(queue, passive=True).method.message_count == 0
    return found


def test_letters_without_an_exchange_are_kept(broker: Doors, channel: BlockingChannel) -> None:
    """Neither ready nor lost; another exchange lets them go."""
    obey(broker)
    kill(channel, b"12", b"345")
    channel.basic_publish("", "q", b"ready", PERSISTENT)
    await_counts(broker, ready=1, kept=2, octets=5)
    assert channel.basic_get("q", auto_ack=True)[2] == b"ready"
    assert channel.basic_get("q")[0] is None
    channel.queue_declare("dead", durable=True)
    obey(broker, dead_letter_exchange="", dead_letter_routing_key="dead")
    assert sorted(drain(channel, "dead", 2)) == [b"12", b"345"]


def test_letters_that_are_refused_are_kept(broker: Doors, channel: BlockingChannel) -> None:
    """One of two queues is full: the other has them all the same."""
    channel.exchange_declare("dlx", "fanout", durable=True)
    for name in ("full", "open"):
        limits = {"x-max-length": 1, "x-overflow": "reject-publish"} if name == "full" else {}
        channel.queue_declare(name, durable=True, arguments=limits)
        channel.queue_bind(name, "dlx")
    obey(broker)
    kill(channel, b"1", b"2", b"3")
    await_counts(broker, ready=0, kept=2, octets=2)
    assert drain(channel, "open", 3) == [b"1", b"2", b"3"]


def test_letters_count_for_the_limit(broker: Doors, channel: BlockingChannel) -> None:
    """Publishers are refused, sooner or later, when nothing is ready."""
    obey(broker, max_length=2)
    kill(channel, b"1", b"2")

    def is_refused() -> bool:
        try:
            channel.basic_publish("", "q", b"more", PERSISTENT)
        except pika.exceptions.NackError:
            return True
        return False

    eventually(is_refused, "a publish is refused")


def test_another_strategy_deletes_letters(broker: Doors, channel: BlockingChannel) -> None:
    obey(broker)
    kill(channel, b"1", b"2")
    await_counts(broker, ready=0, kept=2, octets=2)
    obey(broker, overflow="drop-head")
    await_counts(broker, ready=0, kept=0, octets=0)
    channel.queue_declare("dead", durable=True)
    obey(broker, dead_letter_exchange="", dead_letter_routing_key="dead")
    kill(channel, b"3")
    assert drain(channel, "dead", 1) == [b"3"]


def test_deleting_counts_what_was_ready(broker: Doors, channel: BlockingChannel) -> None:
    obey(broker)
    kill(channel, b"1", b"2")
    channel.basic_publish("", "q", b"ready", PERSISTENT)
    assert channel.queue_delete("q").method.message_count == 1
