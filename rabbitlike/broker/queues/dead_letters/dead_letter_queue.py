"""Where a queue's dead letters are, and back from there: the queue it keeps for them, those its exchange leads to, and
the retry of single dead letters.

A dead letter belongs to the queue that dead-lettered it last, whatever else stands beside it. Putting one back happens
within one turn and so in one commit: it is in one place or the other.
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

#: What a queue's own dead-letter queue is called, behind the queue's name.
SUFFIX: Final = ".dlq"
MAX_NAME: Final = 255


def keeps_dead_letters(queue: "Queue") -> bool:
    """Whether a queue that is to keep its dead letters can. One that is kept itself does not: a policy for all queues
    would else dead-letter what expires there in queue after queue. Nor does one whose name leaves no room."""
    return (
        not queue.name.endswith(SUFFIX) and len(queue.name.encode("utf-8", "surrogateescape")) + len(SUFFIX) <= MAX_NAME
    )


def dead_letter_queue_of(queue: "Queue") -> "Queue":
    """The queue that is kept for the dead letters of ``queue``; made if there is none. Somebody may have declared it,
    with limits of their own."""
    name = queue.name + SUFFIX
    return queue.vhost.queues.get(name) or queue.vhost.add_dead_letter_queue(name)


def declare_dead_letter_queue(queue: "Queue") -> None:
    """A declaration asks for a dead-letter queue: have it now, so that it can be consumed before any message dies."""
    settings = queue.settings
    if settings.dead_letter_auto and settings.dead_letter_exchange is None and keeps_dead_letters(queue):
        dead_letter_queue_of(queue)


def dead_letter_queues(queue: "Queue") -> list["Queue"]:
    """The queues in which dead letters of ``queue`` may be: its own, and those that its exchange leads to."""
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
    """All queues that a message could get to through an exchange, whatever its keys and headers. Of the default
    exchange, which leads to every queue, only one is likely."""
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
    """The newest entry of its x-death; None: there is none."""
    deaths = deaths_of(Properties(message.properties))
    return deaths[0] if deaths else None


def was_dead_lettered_in(message: Message, queue_name: str) -> bool:
    death = last_death(message)
    return death is not None and death.queue == queue_name


def retry(queue: "Queue", source: "Queue", positions: Collection[int]) -> int:
    """Put dead letters of ``queue`` that stand in ``source`` back, as new: at the end of the line, never delivered. How
    many went.

    What else stands at these positions stays, and so does a dead letter that the queue has no room for. Its history
    stays with it; its address is again that by which it had come.
    """
    moved = 0
    for seen in find(source, positions):
        message = seen.message
        death = last_death(message)
        if death is None or death.queue != queue.name:
            continue
        if not queue.has_room(1, len(message.body)):
            queue.make_room()  # somebody may take what is ready there, and make room
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
