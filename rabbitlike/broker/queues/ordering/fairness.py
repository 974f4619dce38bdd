"""Shares: which level of a queue is served next when levels share (deficit round robin), and who has waited too long.

A round gives each level its weight in messages, the highest level first; one that has nothing ready forfeits the rest.
So in a round every level with a backlog gets its share, and none waits longer than one round. The guard lets the
message that waited longest go first once it waited too long, but at most every second time, so that shares still hold
where everything is late. Knows no messages: `Ready` asks and tells.
"""

from math import gcd

from rabbitlike.broker.turn import Turn

#: Nobody can have waited that long.
NEVER = 1 << 62


class Shares:
    """The round of one queue. Levels are told apart by their rank: 0 is the highest that was ever used."""

    __slots__ = ("_look_at_ms", "_turn", "_was_late", "credit", "max_wait_ms", "rank", "weights")

    def __init__(self, weights: tuple[int, ...] | None, max_wait_ms: int, turn: Turn) -> None:
        #: By level number; None: the highest level goes first, and only the guard is different.
        self.weights: list[int] | None = None
        if weights is not None:
            divisor = gcd(*weights)
            self.weights = [weight // divisor for weight in weights]
        #: 0: no guard.
        self.max_wait_ms = max_wait_ms
        #: Whose turn it is, and how many messages it may still have.
        self.rank = -1
        self.credit = 0
        self._turn = turn
        #: Nobody waits too long before that.
        self._look_at_ms = 0 if max_wait_ms else NEVER
        self._was_late = False

    def restart(self) -> None:
        """The levels are others than before: begin a new round."""
        self.rank = -1
        self.credit = 0

    def is_look_due(self) -> bool:
        """May somebody have waited too long, and is it not the turn of the others?"""
        if self._turn.now_ms < self._look_at_ms:
            return False
        self._was_late = not self._was_late
        return self._was_late

    def is_late(self, published_at_ms: int) -> bool:
        return self._turn.now_ms - published_at_ms >= self.max_wait_ms

    def look_again(self, oldest_at_ms: int) -> None:
        """Of those that wait, the oldest was published then; 0: nobody waits."""
        self._was_late = False
        self._look_at_ms = (oldest_at_ms or self._turn.now_ms) + self.max_wait_ms

    def returned(self, published_at_ms: int) -> None:
        """One that is older than those that wait may wait now."""
        if self.max_wait_ms and published_at_ms + self.max_wait_ms < self._look_at_ms:
            self._look_at_ms = published_at_ms + self.max_wait_ms


def read_shares(weights: tuple[int, ...] | None, max_wait_ms: int | None, turn: Turn) -> Shares | None:
    """What a queue's settings ask for; None: the highest level always goes first."""
    if weights is None and not max_wait_ms:
        return None
    return Shares(weights, max_wait_ms or 0, turn)
