"""The ack deadline: a message that is not settled in time goes back to its queue, alone; its channel lives.

One timer per channel, set only where there are deadlines, looks at what is outstanding when the first of it is due.
What the client says later of a delivery that was taken back means nothing, and is no error.
"""

from collections.abc import Callable
from typing import Final

from rabbitlike.broker.first_due import FirstDue
from rabbitlike.broker.turn import Turn
from rabbitlike.session.unacked import Delivery, Unacked

#: With many outstanding, a look may be late by a millisecond for so many of them: looking must not become the work.
LOOKED_AT_PER_MS: Final = 100
#: Deliveries that are looked at in one step.
TOGETHER: Final = 512
#: Tags that are remembered one by one.
MOST_REVOKED: Final = 10_000


class Deadlines(FirstDue):
    """The timer of one channel."""

    __slots__ = ("_is_looking", "_looked_to", "_on_late", "_soonest_ms", "_timed", "_unacked")

    def __init__(self, unacked: Unacked, turn: Turn, on_late: Callable[[list[Delivery]], None]) -> None:
        super().__init__(turn)
        self._unacked = unacked
        self._on_late = on_late
        #: A look that takes several turns: the tag it has come to, how many deadlines it saw, and the next of them.
        self._is_looking = False
        self._looked_to = 0
        self._timed = 0
        self._soonest_ms = 0

    def end(self) -> None:
        """The channel is closed: nothing leads back to it."""
        self.stop()
        self._on_late = _ignore

    def watch(self, delivery: Delivery, timeout_ms: int) -> None:
        """It is to be settled within ``timeout_ms`` from now."""
        delivery.due_at_ms = self._turn.now_ms + timeout_ms
        self._watch(delivery.due_at_ms)

    def look_again(self) -> None:
        """Deliveries are outstanding again that were not for a while."""
        self._watch(self._turn.now_ms)

    def on_due(self) -> None:
        if not self._is_looking:
            self._looked_to = self._timed = self._soonest_ms = 0
            self._turn.run(self._look_on)

    def _look_on(self) -> bool:
        """Look at what is outstanding, as far as the turn has time; True: there is more."""
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
    """Tags of deliveries that were taken from the client: late, or settled by somebody else."""

    __slots__ = ("_all_to", "_tags")

    def __init__(self) -> None:
        self._tags: set[int] = set()
        #: When too many were never heard of again, all tags up to here pass for revoked.
        self._all_to = 0

    def add(self, tag: int) -> None:
        self._tags.add(tag)
        if len(self._tags) > MOST_REVOKED:
            oldest = sorted(self._tags)[: MOST_REVOKED // 2]
            self._tags.difference_update(oldest)
            self._all_to = oldest[-1]

    def take(self, tag: int) -> bool:
        """Was it taken from the client? Said once."""
        if tag in self._tags:
            self._tags.remove(tag)
            return True
        return 0 < tag <= self._all_to

    def forget_up_to(self, tag: int) -> None:
        """The client has spoken for all of them."""
        self._tags = {each for each in self._tags if each > tag}


def _ignore(late: list[Delivery]) -> None: ...
