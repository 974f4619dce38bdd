"""Makes a method wait when its turn had no time to serve all queues touched before it.

The wait always ends: each queue must deliver as many messages as were ready when the wait began, or have nothing left
to deliver, regardless of later publishes.
"""

from collections.abc import Iterable

from rabbitlike.broker.ports import Pumped
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.turn import Turn


class Unserved:
    """Queues that one client's commands touched and that have not been served yet."""

    __slots__ = ("_goals", "_is_after_later", "_mark", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        #: By queue: the total number of deliveries at which the wait ends.
        self._goals: dict[Queue, int] = {}
        #: Which later calls must be done first, because dead letters touch further queues only then.
        self._mark = -1
        self._is_after_later = False
        self._add(turn.touched())

    def is_left(self) -> bool:
        """Whether a queue has not been served yet."""
        if self._mark < 0:
            self._mark = self._turn.later_mark()
        if self._turn.has_later(self._mark):
            self._is_after_later = True
            return True
        if self._is_after_later:
            self._is_after_later = False
            self._add(self._turn.all_touched())
        return any(queue.touched and _handed_out(queue) < goal for queue, goal in self._goals.items())

    def _add(self, queues: Iterable[Pumped]) -> None:
        for queue in queues:
            assert isinstance(queue, Queue)
            self._goals[queue] = _handed_out(queue) + queue.message_count


def _handed_out(queue: Queue) -> int:
    return queue.counters.deliver + queue.counters.deliver_no_ack
