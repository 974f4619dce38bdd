"""Length limits: how many ready messages and body bytes a queue may have, and what happens above that.

x-overflow decides whether the queue rejects the new message or drops the oldest ones. parity: unacked messages do not
count, held dead letters do.
"""

from typing import TYPE_CHECKING

from rabbitlike.broker.message import Message
from rabbitlike.broker.queue_settings.settings import Overflow, QueueSettings
from rabbitlike.broker.queues.dead_letters.dead_lettering import dead_letter
from rabbitlike.broker.queues.dead_letters.x_death import Reason
from rabbitlike.broker.queues.ordering.ready import Ready

if TYPE_CHECKING:
    from rabbitlike.broker.queues.dead_letters.held_dead_letters import HeldDeadLetters
    from rabbitlike.broker.queues.queue import Queue


class Limits:
    """The length limits of one queue; -1: none."""

    __slots__ = (
        "_is_trimming",
        "_max_bytes",
        "_max_length",
        "_overflow",
        "_promised_bytes",
        "_promised_count",
        "_queue",
        "_ready",
        "are_set",
        "held_dead_letters",
        "is_admitting",
        "refuse",
    )

    def __init__(self, queue: "Queue", ready: Ready) -> None:
        self._queue = queue
        self._ready = ready
        self._max_length = -1
        self._max_bytes = -1
        self._overflow = Overflow.DROP_HEAD
        #: The queue's held dead letters, once it has any.
        self.held_dead_letters: HeldDeadLetters | None = None
        self.are_set = False
        #: The limit was lowered, and coming turns drop the messages above it.
        self._is_trimming = False
        #: Space reserved for messages to come, and whether the current message is one of them.
        self._promised_count = 0
        self._promised_bytes = 0
        self.is_admitting = False
        #: A message above the limit is rejected; otherwise the oldest ones are dropped.
        self.refuse = False

    def apply(self, settings: QueueSettings) -> None:
        self._max_length = -1 if settings.max_length is None else settings.max_length
        self._max_bytes = -1 if settings.max_length_bytes is None else settings.max_length_bytes
        self._overflow = settings.overflow
        self.are_set = self._max_length >= 0 or self._max_bytes >= 0
        self.refuse = settings.overflow is not Overflow.DROP_HEAD

    def detach(self) -> None:
        """Drop the references of the deleted queue, so that reference counting frees it."""
        self.held_dead_letters = None
        self._queue = None  # type: ignore[assignment]

    def have_room(self, count: int, body_bytes: int) -> bool:
        """Return whether this many more messages, with bodies of this size in total, are within the limits."""
        ready = self._ready
        count += self._promised_count
        body_bytes += self._promised_bytes
        if self.held_dead_letters is not None:
            count += self.held_dead_letters.count
            body_bytes += self.held_dead_letters.body_bytes
        if 0 <= self._max_length < ready.count + count:
            return False
        return not 0 <= self._max_bytes < ready.body_bytes + body_bytes

    def promise(self, count: int, body_bytes: int) -> None:
        """Reserve space for messages to come; with negative numbers, release it."""
        self._promised_count += count
        self._promised_bytes += body_bytes

    def are_exceeded(self) -> bool:
        """Return whether messages must be dropped."""
        if self.refuse:
            return False
        ready = self._ready
        return (0 <= self._max_length < ready.count) or (0 <= self._max_bytes < ready.body_bytes)

    def turn_away(self, message: Message) -> bool:
        """Return True if the queue rejects the message because it is full."""
        if not self.refuse or self.is_admitting or self.have_room(1, len(message.body)):
            return False
        queue = self._queue
        # Consumers may take what is ready, which makes space for the message.
        queue.make_room()
        if self.have_room(1, len(message.body)):
            return False
        if self._overflow is Overflow.REJECT_PUBLISH_DLX:
            dead_letter(queue, message, Reason.MAXLEN)
        elif queue.tracer is not None:
            queue.tracer.refused(message)
        return True

    def trim(self) -> None:
        """Drop messages above the limit. parity: from the head, whatever their priority. Very many are dropped in
        several turns; each message that arrives meanwhile drops one more, so that the queue does not grow."""
        if not self.are_exceeded():
            return
        if self._is_trimming:
            self._drop_first()
        else:
            self._queue.turn.run(self._trim_some)

    def _trim_some(self) -> bool:
        """Drop as much as the turn has time for. Return True if there is more."""
        self._is_trimming = False
        while self.are_exceeded() and self._drop_first():
            if self._queue.turn.is_spent() and self.are_exceeded():
                self._is_trimming = True
                return True
        return False

    def _drop_first(self) -> bool:
        dropped = self._ready.pop()
        if dropped is not None:
            self._queue.dead_letter_ready(dropped, Reason.MAXLEN)
        return dropped is not None
