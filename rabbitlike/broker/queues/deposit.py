"""The last step of every way into queues: published, delayed, dead-lettered, moved and traced messages all end here."""

from typing import TYPE_CHECKING

from rabbitlike.broker.counters import Counters
from rabbitlike.broker.message import Message, make_message

if TYPE_CHECKING:
    from rabbitlike.broker.exchanges.exchange import Exchange
    from rabbitlike.broker.queues.queue import Queue


def deposit(
    queues: "list[Queue]",
    inlets: list[Counters] | None,
    address: bytes,
    properties: bytes,
    body: bytes,
    persistent: bool,
    priority: int,
    now_ms: int,
    expires_at_ms: int,
) -> "list[Queue] | None":
    """Give each queue a message of its own around these octets. The queues that refused it, None if none did.

    `inlets` counts what the exchange gave each of these queues; None if that is not counted.
    """
    refused: list[Queue] | None = None
    for queue in queues:
        message = make_message(address, properties, body, persistent, priority, now_ms)
        message.expires_at_ms = expires_at_ms
        if not queue.enqueue(message):
            if refused is None:
                refused = []
            refused.append(queue)
    if inlets is not None:
        for inlet in inlets:
            inlet.publish += 1
    return refused


def deposit_copies(queues: "list[Queue]", inlets: list[Counters] | None, message: Message) -> "list[Queue] | None":
    """The same around the octets of a message, which itself goes nowhere."""
    return deposit(
        queues,
        inlets,
        message.address,
        message.properties,
        message.body,
        message.persistent,
        message.priority,
        message.published_at_ms,
        message.expires_at_ms,
    )


def inlets_of(queues: "list[Queue]", exchange: "Exchange") -> list[Counters]:
    """Where each of these queues counts what it gets from this exchange."""
    return [queue.inlet(exchange) for queue in queues]
