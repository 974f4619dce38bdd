"""Who waits for a message of a queue without consuming from it.

Each is told once, when something is ready that no consumer takes, or when the queue is deleted: it may come and fetch
then. Nothing is kept for it meanwhile.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue


class Pollers:
    """Those of one queue, by the call that tells them."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        #: Those that wait longest first.
        self._calls: dict[Callable[[], None], None] = {}

    def add(self, notify: Callable[[], None]) -> None:
        self._calls[notify] = None

    def remove(self, notify: Callable[[], None]) -> bool:
        """It will not be called any more. Was it not called yet?"""
        if notify not in self._calls:
            return False
        del self._calls[notify]
        return True

    def notify(self, count: int) -> None:
        """So many messages are ready, so many are told."""
        for notify in list(self._calls)[:count]:
            del self._calls[notify]
            notify()

    def notify_all(self) -> None:
        self.notify(len(self._calls))


def pollers_of(queue: "Queue") -> Pollers:
    """Most queues have none, ever."""
    if queue.pollers is None:
        queue.pollers = Pollers()
    return queue.pollers
