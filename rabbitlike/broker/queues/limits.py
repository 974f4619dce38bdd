"""How much a queue holds ready at most, in messages and in octets of their bodies, and what becomes of one too many.

It is refused, or those before it make room, as x-overflow says. parity: what is unacked is not counted; dead letters
that are kept back are.
"""

from typing import TYPE_CHECKING

from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.burial import bury
from rabbitlike.broker.queues.dead_letter import Reason
from rabbitlike.broker.queues.ready import Ready
from rabbitlike.broker.queues.settings import Overflow, QueueSettings

if TYPE_CHECKING:
    from rabbitlike.broker.queues.outbox import Outbox
    from rabbitlike.broker.queues.queue import Queue


class Limits:
    """The length limits of one queue; -1: none."""

    __slots__ = ("_max_bytes", "_max_length", "_overflow", "_queue", "_ready", "are_set", "outbox", "refuse")

    def __init__(self, queue: "Queue", ready: Ready) -> None:
        self._queue = queue
        self._ready = ready
        self._max_length = -1
        self._max_bytes = -1
        self._overflow = Overflow.DROP_HEAD
        #: The queue's, once it has one.
        self.outbox: Outbox | None = None
        self.are_set = False
        #: One too many is not taken in; otherwise others make room for it.
        self.refuse = False

    def apply(self, settings: QueueSettings) -> None:
        self._max_length = -1 if settings.max_length is None else settings.max_length
        self._max_bytes = -1 if settings.max_length_bytes is None else settings.max_length_bytes
        self._overflow = settings.overflow
        self.are_set = self._max_length >= 0 or self._max_bytes >= 0
        self.refuse = settings.overflow is not Overflow.DROP_HEAD

    def have_room(self, count: int, body_bytes: int) -> bool:
        """For so many more messages, of so many octets?"""
        ready = self._ready
        if self.outbox is not None:
            count += self.outbox.count
            body_bytes += self.outbox.body_bytes
        if 0 <= self._max_length < ready.count + count:
            return False
        return not 0 <= self._max_bytes < ready.body_bytes + body_bytes

    def are_exceeded(self) -> bool:
        """Must others make room?"""
        if self.refuse:
            return False
        ready = self._ready
        return (0 <= self._max_length < ready.count) or (0 <= self._max_bytes < ready.body_bytes)

    def turn_away(self, message: Message) -> bool:
        """Refuse a message if there is no room for it. Was it refused?"""
        if not self.refuse or self.have_room(1, len(message.body)):
            return False
        queue = self._queue
        # Somebody may take what is ready before this one, and make room.
        queue.pump()
        if self.have_room(1, len(message.body)):
            return False
        if self._overflow is Overflow.REJECT_PUBLISH_DLX:
            bury(queue, message, Reason.MAXLEN)
        elif queue.trail is not None:
            queue.trail.refused(message)
        return True

    def trim(self) -> None:
        """parity: what is over the limit goes from the head, whatever its priority."""
        while self.are_exceeded():
            dropped = self._ready.pop()
            if dropped is None:
                return
            self._queue.retire(dropped, Reason.MAXLEN)
