"""How much a queue holds ready at most, in messages and in octets of their bodies, and what becomes of one too many.

It is refused, or those before it make room, as x-overflow says. parity: what is unacked is not counted; dead letters
that are kept back are.
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
        #: The queue's, once it has one.
        self.held_dead_letters: HeldDeadLetters | None = None
        self.are_set = False
        #: The limit was lowered, and those over it go in turns to come.
        self._is_trimming = False
        #: Room that is kept for messages to come, and whether the one at hand is one of these.
        self._promised_count = 0
        self._promised_bytes = 0
        self.is_admitting = False
        #: One too many is not taken in; otherwise others make room for it.
        self.refuse = False

    def apply(self, settings: QueueSettings) -> None:
        self._max_length = -1 if settings.max_length is None else settings.max_length
        self._max_bytes = -1 if settings.max_length_bytes is None else settings.max_length_bytes
        self._overflow = settings.overflow
        self.are_set = self._max_length >= 0 or self._max_bytes >= 0
        self.refuse = settings.overflow is not Overflow.DROP_HEAD

    def detach(self) -> None:
        """The queue is deleted: hold it no longer, so that reference counting frees both."""
        self.held_dead_letters = None
        self._queue = None  # type: ignore[assignment]

    def have_room(self, count: int, body_bytes: int) -> bool:
        """For so many more messages, of so many octets?"""
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
        """Keep room for so many messages to come; less than none: for so many less."""
        self._promised_count += count
        self._promised_bytes += body_bytes

    def are_exceeded(self) -> bool:
        """Must others make room?"""
        if self.refuse:
            return False
        ready = self._ready
        return (0 <= self._max_length < ready.count) or (0 <= self._max_bytes < ready.body_bytes)

    def turn_away(self, message: Message) -> bool:
        """Refuse a message if there is no room for it. Was it refused?"""
        if not self.refuse or self.is_admitting or self.have_room(1, len(message.body)):
            return False
        queue = self._queue
        # Somebody may take what is ready before this one, and make room.
        queue.make_room()
        if self.have_room(1, len(message.body)):
            return False
        if self._overflow is Overflow.REJECT_PUBLISH_DLX:
            dead_letter(queue, message, Reason.MAXLEN)
        elif queue.tracer is not None:
            queue.tracer.refused(message)
        return True

    def trim(self) -> None:
        """parity: what is over the limit goes from the head, whatever its priority. Very many go in turns to come; what
        arrives meanwhile makes one more go, so that it does not get longer."""
        if not self.are_exceeded():
            return
        if self._is_trimming:
            self._drop_first()
        else:
            self._queue.turn.run(self._trim_some)

    def _trim_some(self) -> bool:
        """As much as the turn has time for; True: there is more."""
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
