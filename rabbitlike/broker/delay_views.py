"""Looking at a vhost's delayed messages: all of them, one of them, and what is shown of each.

What is on disk is read a batch at a time and not kept. Whoever walks takes a breath between two portions; a message
that is due, or moved to another bucket, meanwhile may be missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.delay_log import DelayBatch, level_of
from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.broker.states import READY
from rabbitlike.broker.views import instant, text
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rabbitlike.broker.delays import Delays
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.views import View

#: Messages in memory that are looked at without a breath.
PORTION: Final = 500
#: Widths of buckets, as powers of two milliseconds.
POWERS: Final = range(10, 46)


def portions(delays: Delays, after_ms: int = 0) -> Iterator[list[Message]]:
    """All that waits, in portions: those of earlier buckets first, else in no order. None that is due before."""
    transient = list(delays.transient.values())
    for at in range(0, len(transient), PORTION):
        yield [message for message in transient[at : at + PORTION] if message.state == READY]
    for bucket in sorted(delays.buckets.values(), key=lambda bucket: bucket.starts_at_ms):
        if bucket.ends_at_ms < after_ms:
            continue
        yield [message for message in bucket.fresh if message.state == READY]
        for batch in list(bucket.batches.values()):
            yield delays.read(batch)


def find(delays: Delays, due_ms: int, position: int) -> Iterator[Message | None]:
    """The message of this number; None means: take a breath. Use it in the turn in which it was found."""
    transient = delays.transient.get(position)
    if transient is not None:
        yield transient
        return
    for source in range(len(delays.ways.by_number)):
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
                        if message.position == position:
                            yield message
                            return
                    yield None


def is_current(message: Message) -> bool:
    """Whether a message found in an earlier turn still is what stands for it: it may be in memory by now, or gone."""
    batch = message.batch
    if not isinstance(batch, DelayBatch):
        return message.state == READY
    if batch.live == 0 or batch.is_settled(message.index):
        return False
    return message.state == READY and (batch.messages is None or message in batch.messages)


def id_of(message: Message) -> str:
    """What names a delayed message: when it is due, and its number."""
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
