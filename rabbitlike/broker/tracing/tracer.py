"""A tracer: who is told of what happens to the messages of one queue, or to publishes in one vhost.

A queue without one, as nearly all are, pays a look at an empty slot. Whether there is one is decided where tracing
changes (`Vhost.retrace`), never where messages pass.
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
    """That of one queue or, with no queue's name, of the publishes of a vhost."""

    __slots__ = ("_events", "_turn", "firehose", "is_logged")

    def __init__(
        self, vhost: str, queue: str, turn: Turn, events: Events | None, firehose: "Firehose | None" = None
    ) -> None:
        super().__init__(vhost, queue)
        self._turn = turn
        #: None: only the firehose is told.
        self._events = events
        self.is_logged = events is not None
        self.firehose = firehose

    # A vhost's

    def published(
        self, address: bytes, properties: bytes, priority: int, size: int, copies: int, is_delayed: bool
    ) -> None:
        """A publish has found so many queues, or is to look for them later."""
        if self._events is None:
            return
        reason = DELAYED if is_delayed else 0
        self._events.add(PUBLISH, self, address, properties, 0, priority, size, 0, None, -1, reason)
        if copies == 0 and not is_delayed:
            self._events.add(ROUTE_FAIL, self, address, properties, 0, priority, size, 0, None, -1, 0)

    def published_run(self, messages: list[Message], queue: "Tracer | None") -> None:
        """Publishes that differ in their bodies alone are in one queue, whose tracer this is."""
        if self._events is not None:
            self._events.add_entries(self, queue if queue is not None and queue.is_logged else None, messages)

    def confirmed(
        self, address: bytes, properties: bytes, priority: int, size: int, number: int, accepted: bool
    ) -> None:
        """Its publisher hears so when commit ``number`` is done; 0: now."""
        if self._events is not None:
            self._events.confirm(self, address, properties, priority, size, number, accepted, 1)

    def confirmed_run(self, messages: list[Message], number: int) -> None:
        """The same for several that were accepted and differ in their bodies alone."""
        if self._events is not None:
            like = messages[0]
            for size, alike in groupby([len(message.body) for message in messages]):
                count = len(list(alike))
                self._events.confirm(self, like.address, like.properties, like.priority, size, number, True, count)

    # A queue's

    def enqueued(self, message: Message) -> None:
        self._note(ENQUEUE, message, None, -1, 0)

    def refused(self, message: Message) -> None:
        """The queue is full."""
        self._note(DROP_OVERFLOW, message, None, -1, REJECT_PUBLISH)

    def delivered(self, message: Message, consumer: Subscriber) -> None:
        """A consumer was given a message."""
        if self._events is not None:
            wait_ms = self._turn.now_ms - message.published_at_ms if message.attempts == 0 else -1
            self._note(DELIVER, message, consumer.tag, wait_ms, AUTO_ACK if consumer.no_ack else 0)
        if self.firehose is not None:
            self.firehose.delivered(self.queue, message, consumer.client())

    def delivered_run(self, messages: list[Message], consumer: Subscriber) -> None:
        """A consumer was given several."""
        if self._events is not None:
            self._events.add_run(DELIVER, self, messages, consumer.tag, -1, AUTO_ACK if consumer.no_ack else 0)
        if self.firehose is not None:
            for message in messages:
                self.firehose.delivered(self.queue, message, consumer.client())

    def fetched(self, message: Message, client: "ClientName", no_ack: bool) -> None:
        """Somebody who asked for one was given a message."""
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
        """Given back or rejected; what becomes of it is told besides."""
        tag = None if consumer is None else consumer.tag
        self._note(NACK, message, tag, self._turn.now_ms - delivered_at_ms, 0)

    def requeued(self, message: Message, is_waiting: bool) -> None:
        """It is in its place again, or will be when its next try is due."""
        self._note(REQUEUE, message, None, -1, RETRY if is_waiting else 0)

    def dead_lettered(self, message: Message, reason: "Reason", is_dead_lettered: bool) -> None:
        """The queue has given it up; does it go anywhere as a dead letter?"""
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
