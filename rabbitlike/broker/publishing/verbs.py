"""Publishing and fetching without a channel, for the management API, through the same code as for channels.

Call these functions within a turn. After something durable was published or settled, the answer must wait for the
commit. Errors are the same that would close a channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.leases import Leases
from rabbitlike.broker.message import make_address, with_delivery_count
from rabbitlike.broker.publishing.publication import Origin, check, find_target
from rabbitlike.broker.settle import Settle
from rabbitlike.broker.states import LOOKED
from rabbitlike.broker.statistics.counters import Counters
from rabbitlike.protocol.errors import precondition_failed, resource_locked

if TYPE_CHECKING:
    from rabbitlike.broker.accounts.users import User
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.protocol.properties import Properties

#: Replaces the name of a connection where there is none.
NO_CHANNEL: Final = "HTTP API"


@dataclass(frozen=True, slots=True)
class Published:
    """The result of a publish."""

    is_routed: bool
    #: False: a queue is full and refused it.
    is_accepted: bool
    #: It is safe only after the next commit.
    is_stored: bool


def publish(
    vhost: Vhost, exchange_name: str, routing_key: str, properties: Properties, body: bytes, user: User
) -> Published:
    """Publish as `user`, mandatory. parity: the same checks in the same order as on a channel."""
    broker = vhost.broker
    if len(body) > broker.settings.max_message_size:
        raise precondition_failed(
            f"message size {len(body)} is larger than configured max size {broker.settings.max_message_size}"
        )
    broker.sizes.add(len(body))
    address = make_address(exchange_name, routing_key)
    origin = Origin(vhost, user, (NO_CHANNEL, 1, user.name), Counters(broker.turn.now_ms))
    target = find_target(origin, address, properties)
    publication = check(origin, target, address, properties, body, True, None)
    is_stored = publication.is_stored()
    is_accepted = publication.deposit(origin, False)
    return Published(not publication.is_unroutable(), is_accepted, is_stored)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetched message, unacked until `settle`."""

    message: Message
    #: As a client would get them, with x-delivery-count if the queue counts deliveries.
    properties: bytes
    redelivered: bool
    #: Number of ready messages left after it.
    message_count: int


def fetch(queue: Queue, count: int, user: User, *, no_ack: bool) -> list[Fetched]:
    """Fetch up to `count` messages, as basic.get does. With `no_ack` they are settled; else `settle` must follow."""
    vhost = queue.vhost
    vhost.broker.permissions.check(user.name, vhost.name, "read", "queue", queue.name)
    check_fetch(queue)
    found: list[Fetched] = []
    while len(found) < count:
        message = queue.fetch()
        if message is None:
            if not found:
                _count_empty(queue)
            break
        properties = with_delivery_count(message) if message.attempts or queue.counts_deliveries else message.properties
        found.append(Fetched(message, properties, message.attempts > 0, queue.message_count))
        count_fetch(queue, message, vhost.counters, no_ack=no_ack)
        if queue.tracer is not None:
            queue.tracer.fetched(message, (NO_CHANNEL, 1, user.name), no_ack)
        if no_ack:
            queue.settle(message)
    return found


def settle(queue: Queue, fetched: list[Fetched], how: Settle) -> None:
    """Settle fetched messages. Requeued messages return to their positions."""
    for each in fetched:
        if how is not Settle.ACK and queue.tracer is not None:
            queue.tracer.nacked(each.message, queue.turn.now_ms, None)
        if how is Settle.ACK:
            queue.vhost.counters.ack += 1
            queue.ack(each.message, queue.turn.now_ms)
        elif how is Settle.REQUEUE:
            queue.requeue(each.message)
        elif how is Settle.RETURN:
            queue.requeue(each.message, LOOKED)  # looking at a message is not a failed attempt
        else:
            queue.reject(each.message)


def lease(queue: Queue, fetched: list[Fetched], ms: int) -> int:
    """Lease fetched messages for ``ms`` and return the deadline; they are settled by position."""
    if queue.leases is None:
        queue.leases = Leases(queue)
    for each in fetched:
        queue.leases.lease(each.message, ms)
    return queue.turn.now_ms + ms


def check_fetch(queue: Queue) -> None:
    """Raise 405 for a quorum queue with single active consumer."""
    if queue.settings.queue_type == "quorum" and queue.settings.single_active_consumer:
        raise resource_locked(
            f"cannot obtain access to locked queue '{queue.name}' in vhost '{queue.vhost.name}'. "
            "basic.get operations are not supported by quorum queues with single active consumer"
        )


def count_fetch(queue: Queue, message: Message, *others: Counters, no_ack: bool) -> None:
    """Count a fetched message, for its queue and for `others`: the vhost, and the channel if there is one."""
    for counters in (queue.counters, *others):
        counters.active_at_ms = queue.turn.now_ms
        if no_ack:
            counters.get_no_ack += 1
        else:
            counters.get += 1
    if message.attempts > 0:  # the queue has counted the redelivery already
        for counters in others:
            counters.redeliver += 1


def _count_empty(queue: Queue) -> None:
    queue.counters.get_empty += 1
    queue.vhost.counters.get_empty += 1
