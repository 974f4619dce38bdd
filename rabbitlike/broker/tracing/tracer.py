"""A tracer: passes what happens to one queue's messages, or to publishes in one vhost, to event log and firehose.

Nearly all queues have none, which costs only the check of an empty slot. `Vhost.retrace` creates and removes tracers
when tracing changes, never while messages pass.
"""

from itertools import groupby
from typing import TYPE_CHECKING

from rabbitlike.broker.message import Message
from rabbitlike.broker.ports import Subscriber
from rabbitlike.broker.tracing.event_columns import (
    ACK,
    AUTO_ACK,
    DEAD_LETTER,
    DELAYED,
    DELIVER,
    DROP_OVERFLOW,
    ENQUEUE,
    EXPIRE,
    NACK,
    OTHER,
    PUBLISH,
    REASON_CODES,
    REJECT_PUBLISH,
    REQUEUE,
    RETRY,
    ROUTE_FAIL,
)
from rabbitlike.broker.tracing.events import Events, Place
from rabbitlike.broker.turn import Turn

if TYPE_CHECKING:
    from rabbitlike.broker.ports import ClientName
    from rabbitlike.broker.queues.dead_letters.x_death import Reason
    from rabbitlike.broker.tracing.firehose import Firehose


class Tracer(Place):
    """The tracer of one queue or, without a queue name, of a vhost's publishes."""

    __slots__ = ("_events", "_turn", "firehose", "is_logged")

    def __init__(
        self, vhost: str, queue: str, turn: Turn, events: Events | None, firehose: "Firehose | None" = None
    ) -> None:
        super().__init__(vhost, queue)
        self._turn = turn
        #: None: only the firehose is on.
        self._events = events
        self.is_logged = events is not None
        self.firehose = firehose

    # For a vhost

    def published(
        self, address: bytes, properties: bytes, priority: int, size: int, copies: int, is_delayed: bool
    ) -> None:
        """Record a publish that was routed to ``copies`` queues, or is delayed and will be routed later."""
        if self._events is None:
            return
        reason = DELAYED if is_delayed else 0
        self._events.add(PUBLISH, self, address, properties, 0, priority, size, 0, None, -1, reason)
        if copies == 0 and not is_delayed:
            self._events.add(ROUTE_FAIL, self, address, properties, 0, priority, size, 0, None, -1, 0)

    def published_run(self, messages: list[Message], queue: "Tracer | None") -> None:
        """Record publishes that differ only in their bodies and are in one queue; ``queue`` is that queue's tracer."""
        if self._events is not None:
            self._events.add_entries(self, queue if queue is not None and queue.is_logged else None, messages)

    def confirmed(
        self, address: bytes, properties: bytes, priority: int, size: int, number: int, accepted: bool
    ) -> None:
        """Record a confirm, which is sent when commit ``number`` is done; 0: now."""
        if self._events is not None:
            self._events.confirm(self, address, properties, priority, size, number, accepted, 1)

    def confirmed_run(self, messages: list[Message], number: int) -> None:
        """Record confirms of accepted publishes that differ only in their bodies."""
        if self._events is not None:
            like = messages[0]
            for size, alike in groupby([len(message.body) for message in messages]):
                count = len(list(alike))
                self._events.confirm(self, like.address, like.properties, like.priority, size, number, True, count)

    # For a queue

    def enqueued(self, message: Message) -> None:
        self._note(ENQUEUE, message, None, -1, 0)

    def refused(self, message: Message) -> None:
        """Record that the full queue rejected a message."""
        self._note(DROP_OVERFLOW, message, None, -1, REJECT_PUBLISH)

    def delivered(self, message: Message, consumer: Subscriber) -> None:
        """Record a delivery to a consumer."""
        if self._events is not None:
            wait_ms = self._turn.now_ms - message.published_at_ms if message.attempts == 0 else -1
            self._note(DELIVER, message, consumer.tag, wait_ms, AUTO_ACK if consumer.no_ack else 0)
        if self.firehose is not None:
            self.firehose.delivered(self.queue, message, consumer.client())

    def delivered_run(self, messages: list[Message], consumer: Subscriber) -> None:
        """Record several deliveries to a consumer."""
        if self._events is not None:
            self._events.add_run(DELIVER, self, messages, consumer.tag, -1, AUTO_ACK if consumer.no_ack else 0)
        if self.firehose is not None:
            for message in messages:
                self.firehose.delivered(self.queue, message, consumer.client())

    def fetched(self, message: Message, client: "ClientName", no_ack: bool) -> None:
        """Record that a client fetched a message."""
        if self._events is not None:
            wait_ms = self._turn.now_ms - message.published_at_ms if message.attempts == 0 else -1
            self._note(DELIVER, message, None, wait_ms, AUTO_ACK if no_ack else 0)
        if self.firehose is not None:
            self.firehose.delivered(self.queue, message, client)

    def acked(self, message: Message, delivered_at_ms: int) -> None:
        self._note(ACK, message, None, self._turn.now_ms - delivered_at_ms, 0)

    def acked_run(self, messages: list[Message], delivered_at_ms: int) -> None:
        if self._events is not None:
            self._events.add_run(ACK, self, messages, None, self._turn.now_ms - delivered_at_ms, 0)

    def nacked(self, message: Message, delivered_at_ms: int, consumer: Subscriber | None) -> None:
        """Record a nack or reject. What happens to the message is recorded separately."""
        tag = None if consumer is None else consumer.tag
        self._note(NACK, message, tag, self._turn.now_ms - delivered_at_ms, 0)

    def requeued(self, message: Message, is_waiting: bool) -> None:
        """Record that a message was requeued, or will be after the delay of its retry."""
        self._note(REQUEUE, message, None, -1, RETRY if is_waiting else 0)

    def dead_lettered(self, message: Message, reason: "Reason", is_dead_lettered: bool) -> None:
        """Record why the queue dead-lettered a message, and whether the dead letter is sent or held."""
        code = REASON_CODES.get(reason.value, OTHER)
        if reason.value == "maxlen":
            self._note(DROP_OVERFLOW, message, None, -1, code)
        elif reason.value != "rejected":
            self._note(EXPIRE, message, None, -1, code)
        if is_dead_lettered:
            self._note(DEAD_LETTER, message, None, -1, code)

    def _note(self, event: int, message: Message, tag: str | None, took_ms: int, reason: int) -> None:
        if self._events is not None:
            self._events.add_message(event, self, message, tag, took_ms, reason)
