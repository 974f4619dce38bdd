"""Delayed messages in line: by when they are due, and then by when they were published.

Those that were cancelled meanwhile stand here until their time comes, and are passed over then.
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
    """That of one vhost."""

    __slots__ = ("_messages", "_mixed", "_times")

    def __init__(self) -> None:
        #: By when they are due; these times, a heap; and those of them whose messages came in another order than that
        #: of publishing.
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
        """When the first is due; NEVER when there is none."""
        return self._times[0] if self._times else NEVER

    def first_live_ms(self) -> int:
        """The same, of those that are not gone."""
        while self._times and not any(message.state == READY for message in self._messages[self._times[0]]):
            self._forget_first()
        return self.first_ms()

    def take_first(self, due: list[Message], stride: int, last_position: int) -> bool:
        """Move those that are due first to ``due``, up to a position and until that holds a stride. Were they all?"""
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
        """Nobody is due at the first of the times any more."""
        due_ms = heappop(self._times)
        del self._messages[due_ms]
        self._mixed.discard(due_ms)
