"""The last step of every way into queues: published, delayed, dead-lettered, moved and traced messages all end here."""

from typing import TYPE_CHECKING

from rabbitlike.broker.message import Message, make_message
from rabbitlike.broker.statistics.counters import Counters

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
    refused: "list[Queue] | None",
    is_promised: bool = False,
) -> bool:
    """Give each queue a message of its own around these octets. False: some refused it, and are added to `refused`.

    `inlets` counts what the exchange gave each of these queues; None if that is not counted. `is_promised`: they keep
    room for it.
    """
    accepted = True
    for at, queue in enumerate(queues):
        message = make_message(address, properties, body, persistent, priority, now_ms)
        message.expires_at_ms = expires_at_ms
        if not (queue.admit(message) if is_promised else queue.enqueue(message)):
            accepted = False
            if refused is not None:
                refused.append(queue)
        if inlets is not None:
            inlet = inlets[at]
            inlet.publish += 1
    return accepted


def deposit_copies(queues: "list[Queue]", message: Message) -> "list[Queue]":
    """The same around the octets of a message, which itself goes nowhere. The queues that refused it."""
    refused: list[Queue] = []
    deposit(
        queues,
        None,
        message.address,
        message.properties,
        message.body,
        message.persistent,
        message.priority,
        message.published_at_ms,
        message.expires_at_ms,
        refused,
    )
    return refused


def inlets_of(queues: "list[Queue]", exchange: "Exchange") -> list[Counters]:
    """Where each of these queues counts what it gets from this exchange."""
    return [queue.inlet(exchange) for queue in queues]
