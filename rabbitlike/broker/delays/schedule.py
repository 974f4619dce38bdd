"""The schedule of delayed messages, ordered by due time and then by publishing.

Cancelled messages stay in the schedule until they are due and are skipped then.
"""

from collections import deque
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

from rabbitlike.broker.message import Message
from rabbitlike.broker.states import READY

NEVER: Final = 1 << 62
_POSITION: Final = attrgetter("position")


class Schedule:
    """The schedule of one vhost."""

    __slots__ = ("_messages", "_mixed", "_times")

    def __init__(self) -> None:
        #: Messages by due time; a heap of these times; and the times whose messages were not added in order of
        #: publishing.
        self._messages: dict[int, deque[Message]] = {}
        self._times: list[int] = []
        self._mixed: set[int] = set()

    def __len__(self) -> int:
        return sum(map(len, self._messages.values()))

    def put(self, message: Message) -> None:
        due_ms = message.expires_at_ms
        others = self._messages.get(due_ms)
        if others is None:
            self._messages[due_ms] = deque((message,))
            heappush(self._times, due_ms)
            return
        last = others[len(others) - 1]
        if last.position > message.position:
            self._mixed.add(due_ms)
        others.append(message)

    def first_ms(self) -> int:
        """Return the first due time; NEVER if there is none."""
        return self._times[0] if self._times else NEVER

    def first_live_ms(self) -> int:
        """Return the first due time of a message that was not cancelled; NEVER if there is none."""
        while self._times and not any(message.state == READY for message in self._messages[self._times[0]]):
            self._forget_first()
        return self.first_ms()

    def take_first(self, due: list[Message], stride: int, last_position: int) -> bool:
        """Move messages of the first due time to ``due``, up to a position and until ``due`` has ``stride`` messages.
        Return whether these were all."""
        due_ms = self._times[0]
        messages = self._messages[due_ms]
        if due_ms in self._mixed:
            self._mixed.discard(due_ms)
            messages = self._messages[due_ms] = deque(sorted(messages, key=_POSITION))
        while messages:
            message = messages[0]
            if len(due) >= stride or message.position > last_position:
                return False
            messages.popleft()
            if message.state == READY:
                due.append(message)
        self._forget_first()
        return True

    def clear(self) -> None:
        self._messages.clear()
        self._times.clear()
        self._mixed.clear()

    def _forget_first(self) -> None:
        """Remove the first due time, which has no messages any more."""
        due_ms = heappop(self._times)
        del self._messages[due_ms]
        self._mixed.discard(due_ms)
