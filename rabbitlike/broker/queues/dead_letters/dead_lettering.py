"""Dead-letter a message: send it to the dead-letter exchange or to the queue's own dead-letter queue, or drop it.

The dead letter is sent later in the same turn, never inside the pump or publish that dead-letters the message: a chain
of full queues that dead-letter into each other must not recurse. parity: without an exchange or a route, or in a cycle,
the message is dropped silently, unless the queue holds its dead letters (`held_dead_letters.py`, which uses `send` as
well).
"""

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rabbitlike.broker.message import Message, exchange_of, make_address, make_message, routing_key_of
from rabbitlike.broker.publishing.router import try_route
from rabbitlike.broker.queues.dead_letters.dead_letter_queue import dead_letter_queue_of, keeps_dead_letters
from rabbitlike.broker.queues.dead_letters.x_death import (
    DeadLetterOutcome,
    Reason,
    RetryHistory,
    in_cycle,
    original_keys,
    write_death,
)
from rabbitlike.broker.states import LOGGED
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue


class Sent(NamedTuple):
    """Where a dead letter went: the queues that took it and those that refused it because they are full."""

    has_exchange: bool
    taken: list["Queue"]
    refused: list["Queue"]


def dead_letter(
    queue: "Queue", message: Message, reason: Reason, *, is_held: bool = False, is_at_once: bool = False
) -> None:
    """Dead-letter ``message``, which is no longer ready or unacked. ``is_held``: the queue still owns it, and the store
    keeps it until its dead letter is sent, perhaps in a later turn. ``is_at_once``: it never was in the queue; send it
    now, because its publisher may get a confirm with the next commit."""
    is_sent = is_dead_lettering(queue)
    report_dead_letter(queue, message, reason, DeadLetterOutcome.AT_MOST_ONCE if is_sent else DeadLetterOutcome.DROPPED)
    if is_sent:
        has_exchange = queue.settings.dead_letter_exchange is not None
        if is_held and message.logged == LOGGED:
            queue.paging.leaving.add(message.position)
        send = partial(_send_dead_letter if has_exchange else _keep_dead_letter, queue, message, reason, is_held)
        if is_at_once:
            send()
        else:
            queue.turn.later(send)
    elif is_held:
        queue.forget(message)


def _forget(queue: "Queue", message: Message) -> None:
    queue.paging.leaving.discard(message.position)
    queue.forget(message)


def report_dead_letter(queue: "Queue", message: Message, reason: Reason, outcome: DeadLetterOutcome) -> None:
    """Count a dead-lettered message and notify the listeners."""
    broker = queue.vhost.broker
    broker.deaths[reason][outcome] += 1
    if queue.deaths is None:
        queue.deaths = {}
    queue.deaths[reason] = queue.deaths.get(reason, 0) + 1
    if queue.tracer is not None:
        queue.tracer.dead_lettered(message, reason, outcome is not DeadLetterOutcome.DROPPED)
    if broker.dead_letter_listeners:
        for listener in broker.dead_letter_listeners:
            listener(queue, message, reason)


def is_dead_lettering(queue: "Queue") -> bool:
    """Return whether the queue sends its dead letters anywhere."""
    settings = queue.settings
    return settings.dead_letter_exchange is not None or (settings.dead_letter_auto and keeps_dead_letters(queue))


def retries_of(message: Message, reason: Reason) -> int:
    """Return how often a dead-lettered message was redelivered."""
    # A rejected message was unacked; others had been returned, and no delivery followed the last return.
    return message.attempts if reason is Reason.REJECTED else max(0, message.attempts - 1)


def _send_dead_letter(queue: "Queue", message: Message, reason: Reason, is_held: bool) -> None:
    if is_held:
        _forget(queue, message)
    send(queue, message, reason, queue.turn.now_ms)


def send(
    queue: "Queue", message: Message, reason: Reason, dead_lettered_at_ms: int, besides: Collection[str] = ()
) -> Sent:
    """Send a dead letter through the dead-letter exchange, except to the queues ``besides``, which have it already."""
    vhost = queue.vhost
    name = queue.settings.dead_letter_exchange
    exchange = vhost.exchanges.get(name or "")
    if exchange is None or name is None:
        return Sent(False, [], [])
    properties = Properties(message.properties, True)
    keys = original_keys(routing_key_of(message.address), properties)
    override = queue.settings.dead_letter_routing_key
    dead_lettered = write_death(
        properties,
        queue=queue.name,
        exchange=exchange_of(message.address),
        routing_keys=keys,
        reason=reason,
        now_ms=dead_lettered_at_ms,
        # parity: an x-dead-letter-routing-key replaces all keys, so CC must not route the message again.
        keep_cc=override is None,
    )
    if override is not None:
        keys = [override]
    sent = _as_letter(make_address(name, keys[0]), dead_lettered, message, queue.turn.now_ms)
    targets = [
        target
        for target in try_route(exchange, keys, dead_lettered, vhost.exchanges, sent)
        if target.name not in besides and not in_cycle(dead_lettered, target.name)
    ]
    refused = vhost.deposit(targets, sent)
    return Sent(True, [target for target in targets if target not in refused], refused)


def _keep_dead_letter(queue: "Queue", message: Message, reason: Reason, is_held: bool) -> None:
    """Send a dead letter to the queue's own dead-letter queue, which is declared in the same commit if needed."""
    if is_held:
        _forget(queue, message)
    if queue.deleted:
        return
    target = dead_letter_queue_of(queue)
    properties = Properties(message.properties, True)
    now_ms = queue.turn.now_ms
    dead_lettered = write_death(
        properties,
        queue=queue.name,
        exchange=exchange_of(message.address),
        routing_keys=original_keys(routing_key_of(message.address), properties),
        reason=reason,
        now_ms=now_ms,
        retry_history=RetryHistory(retries_of(message, reason), message.published_at_ms, now_ms, message.position),
    )
    if not in_cycle(dead_lettered, target.name):
        queue.vhost.deposit([target], _as_letter(make_address("", target.name), dead_lettered, message, now_ms))


def _as_letter(address: bytes, properties: Properties, message: Message, now_ms: int) -> Message:
    return make_message(address, properties.raw, message.body, message.persistent, message.priority, now_ms)
