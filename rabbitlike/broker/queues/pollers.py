"""Clients that wait for a message of a queue without consuming from it.

Each is notified once, when a message is ready that no consumer takes, or when the queue is deleted; it may fetch then.
No message is reserved for it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue


class Pollers:
    """The waiting clients of one queue, by the callback that notifies them."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        #: In order of arrival.
        self._calls: dict[Callable[[], None], None] = {}

    def add(self, notify: Callable[[], None]) -> None:
        self._calls[notify] = None

    def remove(self, notify: Callable[[], None]) -> bool:
        """Remove a callback. Return False if it was called already."""
        if notify not in self._calls:
            return False
        del self._calls[notify]
        return True

    def notify(self, count: int) -> None:
        """Notify at most ``count`` clients, because that many messages are ready."""
        for notify in list(self._calls)[:count]:
            del self._calls[notify]
            notify()

    def notify_all(self) -> None:
        self.notify(len(self._calls))


def pollers_of(queue: "Queue") -> Pollers:
    """Return the queue's pollers; create them on first use, because most queues never have any."""
    if queue.pollers is None:
        queue.pollers = Pollers()
    return queue.pollers
