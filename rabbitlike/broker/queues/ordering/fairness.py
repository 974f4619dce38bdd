"""Fairness between a queue's levels: which level is next (deficit round robin), and which message has waited too long.

A round gives each level its weight in messages, the highest level first; a level without ready messages forfeits the
rest. So in a round every level with a backlog gets its share, and none waits longer than one round. The guard delivers
the oldest message first once it has waited too long, but at most every second time, so that shares still hold where all
messages are late. This module knows no messages: `Ready` calls it.
"""

from math import gcd

from rabbitlike.broker.turn import Turn

#: No message can have waited this long.
NEVER = 1 << 62


class Shares:
    """The round of one queue. Levels are identified by rank: 0 is the highest that was ever used."""

    __slots__ = ("_look_at_ms", "_turn", "_was_late", "credit", "max_wait_ms", "rank", "weights")

    def __init__(self, weights: tuple[int, ...] | None, max_wait_ms: int, turn: Turn) -> None:
        #: By level number; None: the highest level goes first, and only the guard changes that.
        self.weights: list[int] | None = None
        if weights is not None:
            divisor = gcd(*weights)
            self.weights = [weight // divisor for weight in weights]
        #: 0: no guard.
        self.max_wait_ms = max_wait_ms
        #: The rank of the current level, and how many messages it may still deliver.
        self.rank = -1
        self.credit = 0
        self._turn = turn
        #: Before this time no message has waited too long.
        self._look_at_ms = 0 if max_wait_ms else NEVER
        self._was_late = False

    def restart(self) -> None:
        """Begin a new round, because the levels have changed."""
        self.rank = -1
        self.credit = 0

    def is_look_due(self) -> bool:
        """Return whether a message may have waited too long, unless the last message was already a late one."""
        if self._turn.now_ms < self._look_at_ms:
            return False
        self._was_late = not self._was_late
        return self._was_late

    def is_late(self, published_at_ms: int) -> bool:
        return self._turn.now_ms - published_at_ms >= self.max_wait_ms

    def look_again(self, oldest_at_ms: int) -> None:
        """Set the time of the next check. ``oldest_at_ms``: when the oldest ready message was published; 0: none."""
        self._was_late = False
        self._look_at_ms = (oldest_at_ms or self._turn.now_ms) + self.max_wait_ms

    def returned(self, published_at_ms: int) -> None:
        """Check earlier if a returned message is older than the other ready messages."""
        if self.max_wait_ms and published_at_ms + self.max_wait_ms < self._look_at_ms:
            self._look_at_ms = published_at_ms + self.max_wait_ms


def read_shares(weights: tuple[int, ...] | None, max_wait_ms: int | None, turn: Turn) -> Shares | None:
    """Create shares from a queue's settings; None: the highest level always goes first."""
    if weights is None and not max_wait_ms:
        return None
    return Shares(weights, max_wait_ms or 0, turn)
