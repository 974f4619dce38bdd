"""Settles or extends unacked messages on behalf of the client that holds them, for an operator or an HTTP worker.

The broker ignores a later settlement by the client that held the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from rabbitlike.broker.queues import browse
from rabbitlike.broker.queues.dead_letters.dead_lettering import is_dead_lettering
from rabbitlike.broker.queues.dead_letters.x_death import Reason
from rabbitlike.broker.settle import Settle
from rabbitlike.broker.states import FAILED, RETURNED
from rabbitlike.broker.views import clients_of

if TYPE_CHECKING:
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.queues.queue import Queue


class Action(Enum):
    """What happened to a settled message."""

    ACKED = "acked"
    REQUEUED = "requeued"
    DEAD_LETTERED = "dead_lettered"
    #: Removed without a dead-letter exchange.
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Settled:
    action: Action
    #: Why the queue removed it; None if it did not.
    reason: Reason | None = None


class NotHeldError(Exception):
    """No client holds a message at that position. ``is_here``: the message is in the queue."""

    def __init__(self, is_here: bool) -> None:
        super().__init__("ready or waiting for its next try" if is_here else "not there")
        self.is_here = is_here


def decide(queue: Queue, message: Message, delivered_at_ms: int, how: Settle) -> Settled:
    """Settle a message that was delivered at ``delivered_at_ms``, and return the outcome."""
    if how is Settle.ACK:
        queue.ack(message, delivered_at_ms)
        return Settled(Action.ACKED)
    reason: Reason | None = Reason.REJECTED
    if how is Settle.REJECT:
        queue.reject(message)
    else:
        reason = queue.requeue(message, RETURNED if how is Settle.RETURN else FAILED)
        if reason is None:
            return Settled(Action.REQUEUED)
    return Settled(Action.DEAD_LETTERED if is_dead_lettering(queue) else Action.DROPPED, reason)


def settle(queue: Queue, position: int, how: Settle) -> Settled:
    """Settle a message instead of the client that holds it. Raises NotHeldError."""
    if queue.leases is not None and (settled := queue.leases.settle(position, how)) is not None:
        return settled
    for client in clients_of(queue.vhost):
        for channel in client.open_channels():
            settled = channel.settle_held(queue, position, how)
            if settled is not None:
                return settled
    raise _not_held(queue, position)


def extend(queue: Queue, position: int, more_ms: int) -> int | None:
    """Move the deadline of a held message to ``more_ms`` from now and return it; None if it has no deadline.

    Raises NotHeldError."""
    if queue.leases is not None and (leased_until_ms := queue.leases.extend(position, more_ms)) is not None:
        return leased_until_ms
    for client in clients_of(queue.vhost):
        for channel in client.open_channels():
            due_at_ms = channel.extend_held(queue, position, more_ms)
            if due_at_ms is not None:
                return due_at_ms or None
    raise _not_held(queue, position)


def _not_held(queue: Queue, position: int) -> NotHeldError:
    is_waiting = queue.retries is not None and queue.retries.has(position)
    return NotHeldError(is_waiting or bool(browse.find(queue, [position])))
