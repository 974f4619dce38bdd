"""The ack deadline: a message that is not settled in time returns to its queue; its channel stays open.

Each channel with deadlines has one timer, which checks outstanding deliveries when the first of them is due. A late ack
of a revoked delivery is ignored and is no error.
"""

from collections.abc import Callable
from typing import Final

from rabbitlike.broker.first_due import FirstDue
from rabbitlike.broker.turn import Turn
from rabbitlike.session.unacked import Delivery, Unacked

#: With many outstanding deliveries, a check may be late by 1 ms per this many, to limit the time spent on checks.
LOOKED_AT_PER_MS: Final = 100
#: Deliveries checked in one step.
TOGETHER: Final = 512
#: Revoked tags remembered individually.
MOST_REVOKED: Final = 10_000


class Deadlines(FirstDue):
    """The deadline timer of one channel."""

    __slots__ = ("_is_looking", "_looked_to", "_on_late", "_soonest_ms", "_timed", "_unacked")

    def __init__(self, unacked: Unacked, turn: Turn, on_late: Callable[[list[Delivery]], None]) -> None:
        super().__init__(turn)
        self._unacked = unacked
        self._on_late = on_late
        #: A check that takes several turns: the last tag checked, the number of deadlines seen, and the earliest of
        #: them.
        self._is_looking = False
        self._looked_to = 0
        self._timed = 0
        self._soonest_ms = 0

    def end(self) -> None:
        """Stop and drop references to the closed channel."""
        self.stop()
        self._on_late = _ignore

    def watch(self, delivery: Delivery, timeout_ms: int) -> None:
        """Set a delivery's deadline to ``timeout_ms`` from now."""
        delivery.due_at_ms = self._turn.now_ms + timeout_ms
        self._watch(delivery.due_at_ms)

    def look_again(self) -> None:
        """Check again, because deliveries of a transaction are outstanding again."""
        self._watch(self._turn.now_ms)

    def on_due(self) -> None:
        if not self._is_looking:
            self._looked_to = self._timed = self._soonest_ms = 0
            self._turn.run(self._look_on)

    def _look_on(self) -> bool:
        """Check outstanding deliveries while the turn has time; True if some are left."""
        self._is_looking = False
        now_ms = self._turn.now_ms
        while deliveries := self._unacked.after(self._looked_to, TOGETHER):
            self._looked_to = deliveries[-1].tag
            timed = [delivery for delivery in deliveries if delivery.due_at_ms]
            self._timed += len(timed)
            due = [delivery.due_at_ms for delivery in timed if delivery.due_at_ms > now_ms]
            if due:
                self._soonest_ms = min(self._soonest_ms or due[0], *due)
            if len(due) < len(timed):
                self._on_late([delivery for delivery in timed if delivery.due_at_ms <= now_ms])
            if len(deliveries) == TOGETHER and self._turn.is_spent(TOGETHER):
                self._is_looking = True
                return True
        if self._soonest_ms:
            self._watch(max(self._soonest_ms, now_ms + self._timed // LOOKED_AT_PER_MS))
        return False


class RevokedTags:
    """Tags of deliveries revoked from the client: late, or settled through the API."""

    __slots__ = ("_all_to", "_tags")

    def __init__(self) -> None:
        self._tags: set[int] = set()
        #: After too many unanswered tags, all tags up to this one count as revoked.
        self._all_to = 0

    def add(self, tag: int) -> None:
        self._tags.add(tag)
        if len(self._tags) > MOST_REVOKED:
            oldest = sorted(self._tags)[: MOST_REVOKED // 2]
            self._tags.difference_update(oldest)
            self._all_to = oldest[-1]

    def take(self, tag: int) -> bool:
        """Whether the tag was revoked; forgets it."""
        if tag in self._tags:
            self._tags.remove(tag)
            return True
        return 0 < tag <= self._all_to

    def forget_up_to(self, tag: int) -> None:
        """Forget all tags up to this one, because the client has settled them."""
        self._tags = {each for each in self._tags if each > tag}


def _ignore(late: list[Delivery]) -> None: ...
