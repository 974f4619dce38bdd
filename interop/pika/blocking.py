"""Short ways to say what most tests with a blocking channel do."""

from typing import NamedTuple

from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel

from interop.patience import eventually


class Got(NamedTuple):
    """What basic.get brought, flattened."""

    body: bytes
    properties: BasicProperties
    exchange: str
    routing_key: str
    redelivered: bool
    delivery_tag: int
    message_count: int


def get(channel: BlockingChannel, queue: str, *, auto_ack: bool = True) -> Got | None:
    """The next message, or None."""
    method, properties, body = channel.basic_get(queue, auto_ack=auto_ack)
    if method is None:
        return None
    return Got(
        body,
        properties,
        method.exchange,
        method.routing_key,
        method.redelivered,
        method.delivery_tag,
        method.message_count,
    )


def await_message(channel: BlockingChannel, queue: str) -> Got:
    """The next message, as soon as there is one: without confirms a publish may still be on its way."""
    found: list[Got] = []

    def look() -> bool:
        got = get(channel, queue)
        if got is not None:
            found.append(got)
        return got is not None

    eventually(look, f"a message in {queue}")
    return found[0]


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Bodies of all that is ready, oldest first."""
    bodies = []
    while (got := get(channel, queue)) is not None:
        bodies.append(got.body)
    return bodies


def count(channel: BlockingChannel, queue: str) -> int:
    """How many messages are ready."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def temporary_queue(channel: BlockingChannel, **options: object) -> str:
    """A server-named queue that dies with the connection."""
    return str(channel.queue_declare("", exclusive=True, **options).method.queue)
