"""Browse a vhost's delayed messages: all of them or a single one, and the view of each.

Messages on disk are read a batch at a time and not kept. Callers pause between two portions; they may miss a message
that becomes due or moves to another bucket meanwhile.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.delays.log import level_of
from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.broker.states import READY
from rabbitlike.broker.views import instant, text
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rabbitlike.broker.delays.delays import Delays
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.views import View

#: How many messages in memory are handled without a pause.
PORTION: Final = 500
#: Widths of buckets, as powers of two milliseconds.
POWERS: Final = range(10, 46)
NEVER: Final = 1 << 62


def portions(delays: Delays, after_ms: int = 0) -> Iterator[tuple[int, Callable[[], list[Message]]]]:
    """Yield all delayed messages in portions: a time before which no message of this or a later portion is due, and a
    function that returns the portion.

    Portions whose messages are all due before `after_ms` are left out.
    """
    transient = list(delays.transient.values())
    for at in range(0, len(transient), PORTION):
        yield 0, partial(_ready, transient[at : at + PORTION])
    for bucket in sorted(delays.buckets.values(), key=lambda bucket: bucket.starts_at_ms):
        if bucket.ends_at_ms < after_ms:
            continue
        if bucket.fresh:
            yield bucket.starts_at_ms, partial(_ready, bucket.fresh)
        for batch in list(bucket.batches.values()):
            yield bucket.starts_at_ms, partial(delays.read, batch)


def _ready(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message.state == READY]


def find(delays: Delays, due_ms: int, position: int) -> Iterator[Message | None]:
    """Find the message with this number. Yields None as a pause. Use the message in the turn in which it was found."""
    transient = delays.transient.get(position)
    if transient is not None and transient.expires_at_ms == due_ms:
        yield transient
        return
    for source in range(len(delays.routes.by_number)):
        for power in POWERS:
            bucket = delays.buckets.get(level_of(source, power, due_ms))
            if bucket is None:
                continue
            for message in bucket.fresh:
                if message.position == position and message.state == READY:
                    yield message
                    return
            for batch in list(bucket.batches.values()):
                if batch.first_position <= position <= batch.last_position:
                    for message in delays.read(batch):
                        if message.position == position and message.expires_at_ms == due_ms:
                            yield message
                            return
                    yield None


def id_of(message: Message) -> str:
    """Return the id of a delayed message: its due time and its number."""
    return f"{message.expires_at_ms}-{message.position}"


def delayed(message: Message) -> View:
    properties = Properties(message.properties)
    message_id = properties.message_id
    return {
        "id": id_of(message),
        "state": "pending",
        "due": message.expires_at_ms,
        "due_at": instant(message.expires_at_ms),
        "exchange": text(exchange_of(message.address)),
        "routing_key": text(routing_key_of(message.address)),
        "message_id": None if message_id is None else text(message_id),
        "size": len(message.body),
        "persistent": message.persistent,
        "published_at": message.published_at_ms,
    }


def stats(delays: Delays) -> View:
    due_ms = delays.next_due_ms()
    return {
        "pending": delays.pending,
        "delivered": delays.delivered,
        "cancelled": delays.cancelled,
        "dropped": delays.dropped,
        "next_due": due_ms,
        "next_due_at": None if due_ms is None else instant(due_ms),
        "memory": delays.held_bytes,
    }
