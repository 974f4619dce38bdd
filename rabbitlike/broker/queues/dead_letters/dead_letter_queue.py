"""Find and retry a queue's dead letters: in the dead-letter queue kept for it and in those its exchange leads to.

A dead letter belongs to the queue that dead-lettered it last, whatever other messages are in the same queue. A retry
moves it within one turn and so in one commit: the message is always in exactly one of the two queues.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.exchanges.exchange import Exchange
from rabbitlike.broker.message import Message, make_address
from rabbitlike.broker.publishing.router import try_route
from rabbitlike.broker.queues.browse import find
from rabbitlike.broker.queues.dead_letters.x_death import Death, RetryHistory, deaths_of
from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Table

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

#: The name of a queue's dead-letter queue is the queue's name with this suffix.
SUFFIX: Final = ".dlq"
MAX_NAME: Final = 255


def keeps_dead_letters(queue: "Queue") -> bool:
    """Return whether a queue can have a dead-letter queue. A dead-letter queue has none: with a policy for all queues,
    messages that expire there would move from queue to queue. Nor has one whose name is too long for the suffix."""
    return (
        not queue.name.endswith(SUFFIX) and len(queue.name.encode("utf-8", "surrogateescape")) + len(SUFFIX) <= MAX_NAME
    )


def dead_letter_queue_of(queue: "Queue") -> "Queue":
    """Return the dead-letter queue of ``queue``; declare it if there is none. A client may have declared it with its
    own limits."""
    name = queue.name + SUFFIX
    return queue.vhost.queues.get(name) or queue.vhost.add_dead_letter_queue(name)


def declare_dead_letter_queue(queue: "Queue") -> None:
    """Declare the dead-letter queue together with its queue, so that clients can consume it from the beginning."""
    settings = queue.settings
    if settings.dead_letter_auto and settings.dead_letter_exchange is None and keeps_dead_letters(queue):
        dead_letter_queue_of(queue)


def dead_letter_queues(queue: "Queue") -> list["Queue"]:
    """Return the queues that may contain dead letters of ``queue``: its own, and those that its exchange leads to."""
    vhost = queue.vhost
    found: dict[Queue, None] = {}
    own = vhost.queues.get(queue.name + SUFFIX)
    if own is not None:
        found[own] = None
    name = queue.settings.dead_letter_exchange
    exchange = vhost.exchanges.get(name) if name is not None else None
    if exchange is not None:
        key = queue.settings.dead_letter_routing_key
        targets = _reachable(queue, exchange) if key is None else try_route(exchange, [key], _NONE, vhost.exchanges)
        for target in targets:
            if target is not queue:
                found[target] = None
    return list(found)


_NONE: Final = Properties.build()


def _reachable(queue: "Queue", exchange: Exchange) -> Iterator["Queue"]:
    """Yield all queues that an exchange can route to, whatever the keys and headers. None for the default exchange,
    which leads to every queue."""
    if exchange.name == "":
        return
    seen = {exchange.name}
    exchanges = [exchange]
    for source in exchanges:
        for binding in source.bindings:
            target = binding.destination
            if not isinstance(target, Exchange):
                yield target
            elif target.name not in seen:
                seen.add(target.name)
                exchanges.append(target)


def last_death(message: Message) -> Death | None:
    """Return the newest entry of x-death, or None."""
    deaths = deaths_of(Properties(message.properties))
    return deaths[0] if deaths else None


def was_dead_lettered_in(message: Message, queue_name: str) -> bool:
    death = last_death(message)
    return death is not None and death.queue == queue_name


def retry(queue: "Queue", source: "Queue", positions: Collection[int]) -> int:
    """Move dead letters of ``queue`` from ``source`` back to its end, as new, undelivered messages. Return how many.

    Other messages at these positions stay, and so do dead letters that the queue would reject because it is full. A
    moved message keeps its x-death; its address is the one it was published with.
    """
    moved = 0
    for seen in find(source, positions):
        message = seen.message
        death = last_death(message)
        if death is None or death.queue != queue.name:
            continue
        if not queue.has_room(1, len(message.body)):
            queue.make_room()  # consumers may take what is ready
            if not queue.has_room(1, len(message.body)):
                continue
        source.drop(message, seen.page)
        address = make_address(death.exchange, death.routing_keys[0] if death.routing_keys else queue.name)
        properties = _without_retry_history(Properties(message.properties))
        queue.enqueue(
            Message(address, properties, message.body, message.persistent, message.priority, queue.turn.now_ms)
        )
        moved += 1
    return moved


def _without_retry_history(properties: Properties) -> bytes:
    headers = properties.headers or Table()
    for name in RetryHistory.HEADERS:
        headers.pop(name, None)
    raw: bytes = properties.replace(headers=headers).raw
    return raw
