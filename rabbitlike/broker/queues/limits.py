"""How much a queue holds ready at most, in messages and in octets of their bodies; parity: what is unacked is not
counted. What becomes of one too many, the queue decides.
"""

from rabbitlike.broker.queues.arguments import Overflow, QueueSettings
from rabbitlike.broker.queues.ready import Ready


class Limits:
    """The length limits of one queue; -1: none."""

    __slots__ = ("_max_bytes", "_max_length", "_ready", "are_set", "refuse")

    def __init__(self, ready: Ready) -> None:
        self._ready = ready
        self._max_length = -1
        self._max_bytes = -1
        self.are_set = False
        #: One too many is not taken in; otherwise others make room for it.
        self.refuse = False

    def apply(self, settings: QueueSettings) -> None:
        self._max_length = -1 if settings.max_length is None else settings.max_length
        self._max_bytes = -1 if settings.max_length_bytes is None else settings.max_length_bytes
        self.are_set = self._max_length >= 0 or self._max_bytes >= 0
        self.refuse = settings.overflow is not Overflow.DROP_HEAD

    def have_room(self, count: int, body_bytes: int) -> bool:
        """For so many more messages, of so many octets?"""
        ready = self._ready
        if 0 <= self._max_length < ready.count + count:
            return False
        return not 0 <= self._max_bytes < ready.body_bytes + body_bytes

    def are_exceeded(self) -> bool:
        """Must others make room?"""
        if self.refuse:
            return False
        ready = self._ready
        return (0 <= self._max_length < ready.count) or (0 <= self._max_bytes < ready.body_bytes)
