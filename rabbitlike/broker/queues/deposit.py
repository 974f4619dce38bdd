"""The last step of every way into queues: for published, delayed, dead-lettered, moved and traced messages."""

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
    """Give each queue its own message with these contents. Return False if some reject it; `refused` collects those.

    `inlets` counts what each queue gets from the exchange; None if that is not counted. `is_promised`: the queues have
    reserved space for it.
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
    """Give each queue a copy of a message. Return the queues that rejected it."""
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
    """Return the counters of each queue for messages from this exchange."""
    return [queue.inlet(exchange) for queue in queues]
