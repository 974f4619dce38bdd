"""What becomes of a message that a queue gives up: to the dead-letter exchange, to the queue kept for it, or nowhere.

The letter goes out later in the same turn, never inside the pump or publish that killed the message: a chain of full
queues that dead-letter into each other must not recurse. parity: no exchange, no route or a cycle means that the
message is dropped, silently.
"""

from functools import partial
from typing import TYPE_CHECKING

from rabbitlike.broker.message import Message, exchange_of, make_address, routing_key_of
from rabbitlike.broker.queues.dead_letter import Attempt, Reason, in_cycle, original_keys
from rabbitlike.broker.queues.dead_letter import bury as write_death
from rabbitlike.broker.queues.dead_letter_queue import keeps_letters, own_queue
from rabbitlike.broker.router import route
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue


def bury(queue: "Queue", message: Message, reason: Reason) -> None:
    """``message`` is out of ``queue`` already."""
    broker = queue.vhost.broker
    has_exchange = queue.settings.dead_letter_exchange is not None
    is_kept = not has_exchange and leaves_letters(queue)
    broker.deaths[reason][has_exchange or is_kept] += 1
    if queue.deaths is None:
        queue.deaths = {}
    queue.deaths[reason] = queue.deaths.get(reason, 0) + 1
    if queue.trail is not None:
        queue.trail.died(message, reason, has_exchange or is_kept)
    if has_exchange:
        queue.turn.later(partial(_send_letter, queue, message, reason))
    elif is_kept:
        queue.turn.later(partial(_keep_letter, queue, message, reason))
    if broker.mourners:
        for mourner in broker.mourners:
            mourner(queue, message, reason)


def leaves_letters(queue: "Queue") -> bool:
    """Do those it gives up go anywhere?"""
    settings = queue.settings
    return settings.dead_letter_exchange is not None or (settings.dead_letter_auto and keeps_letters(queue))


def retries_of(message: Message, reason: Reason) -> int:
    """How often a message that came to this end was handed out again, after the first time."""
    # A rejected one was in its consumer's hands; others had come back, and the last time was not followed by another.
    return message.attempts if reason is Reason.REJECTED else max(0, message.attempts - 1)


def _send_letter(queue: "Queue", message: Message, reason: Reason) -> None:
    vhost = queue.vhost
    name = queue.settings.dead_letter_exchange
    exchange = vhost.exchanges.get(name or "")
    if exchange is None or name is None:
        return
    properties = Properties(message.properties)
    keys = original_keys(routing_key_of(message.address), properties)
    override = queue.settings.dead_letter_routing_key
    letter = write_death(
        properties,
        queue=queue.name,
        exchange=exchange_of(message.address),
        routing_keys=keys,
        reason=reason,
        now_ms=queue.turn.now_ms,
        # parity: an x-dead-letter-routing-key replaces all keys, so CC must not be routed by again.
        keep_cc=override is None,
    )
    if override is not None:
        keys = [override]
    address = make_address(name, keys[0])
    for target in route(exchange, keys, letter, vhost.exchanges):
        if not in_cycle(letter, target.name):
            _enqueue(target, address, letter, message)


def _keep_letter(queue: "Queue", message: Message, reason: Reason) -> None:
    """To the queue's own dead-letter queue, which is declared in the same commit if need be."""
    if queue.deleted:
        return
    target = own_queue(queue)
    properties = Properties(message.properties)
    now_ms = queue.turn.now_ms
    letter = write_death(
        properties,
        queue=queue.name,
        exchange=exchange_of(message.address),
        routing_keys=original_keys(routing_key_of(message.address), properties),
        reason=reason,
        now_ms=now_ms,
        attempt=Attempt(retries_of(message, reason), message.published_at_ms, now_ms, message.position),
    )
    if not in_cycle(letter, target.name):
        _enqueue(target, make_address("", target.name), letter, message)


def _enqueue(target: "Queue", address: bytes, letter: Properties, message: Message) -> None:
    target.enqueue(Message(address, letter.raw, message.body, message.persistent, message.priority, target.turn.now_ms))
