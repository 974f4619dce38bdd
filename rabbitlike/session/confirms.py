"""Publisher confirms of one channel: which publishes are safe, told in order and as few frames as can be.

Every publish gets the next number. It is accepted with the batch it must wait for (0: none) or refused. Answers go out
strictly in publish order: a number is answered when all before it are, so one ack with `multiple` covers a whole run,
and an ack is never merged across a nack.
"""

from collections import deque

from rabbitlike.protocol.constants import BASIC_ACK, BASIC_NACK
from rabbitlike.session.outlet import Outlet


class Run:
    """Numbers up to `last` with one fate: accepted with `batch`, or refused."""

    __slots__ = ("batch", "last", "refused")

    def __init__(self, last: int, batch: int, refused: bool) -> None:
        self.last = last
        self.batch = batch
        self.refused = refused


class Confirms:
    """The confirms of one channel in confirm mode."""

    __slots__ = ("_answered", "_awaited", "_runs", "_settled", "committed", "confirmed", "published")

    def __init__(self) -> None:
        #: Number of the last publish.
        self.published = 0
        #: How many were acked, rather than refused.
        self.confirmed = 0
        #: Highest batch known to be safe.
        self.committed = 0
        #: Everything up to here may be acked; everything up to `_answered` has been answered.
        self._settled = 0
        self._answered = 0
        #: The last batch that a publish waits for.
        self._awaited = 0
        #: What waits behind `_settled`, in order.
        self._runs: deque[Run] = deque()

    def accept(self, batch: int, count: int = 1) -> bool:
        """So many more publishes, safe once ``batch`` is committed. Is there an answer to send now?"""
        self.published += count
        if not self._runs and batch <= self.committed:
            self._settled = self.published
            return True
        self._add(batch, False)
        return False

    def refuse(self) -> bool:
        """One more publish, which a queue refused. Is there an answer to send now?"""
        self.published += 1
        self._add(0, True)
        return self._runs[0].batch <= self.committed

    def commit(self, batch: int) -> bool:
        """All up to ``batch`` is safe. Is there an answer to send now?"""
        self.committed = batch
        return bool(self._runs) and self._runs[0].batch <= batch

    def fail(self) -> bool:
        """No commit is to be counted on: refuse all that waits for one. Is there an answer to send now?"""
        for run in self._runs:
            run.refused = True
            run.batch = 0
        self._awaited = 0
        return bool(self._runs)

    @property
    def is_waiting(self) -> bool:
        """Does any publish wait for a commit? Not when its answer is only to be written yet."""
        return self._awaited > self.committed

    @property
    def unanswered(self) -> int:
        return self.published - self._answered

    def write(self, channel: int, out: Outlet) -> None:
        """Put every answer that is due."""
        while self._runs and self._runs[0].batch <= self.committed:
            run = self._runs.popleft()
            if run.refused:
                self._write(BASIC_ACK, channel, out)
                self._settled = run.last
                self._write(BASIC_NACK, channel, out)
            else:
                self._settled = run.last
        self._write(BASIC_ACK, channel, out)

    def _write(self, index: int, channel: int, out: Outlet) -> None:
        if self._settled > self._answered:
            if index == BASIC_ACK:
                self.confirmed += self._settled - self._answered
            multiple = 1 if self._settled - self._answered > 1 else 0
            out.put_settled(index, channel, self._settled, multiple)
            self._answered = self._settled

    def _add(self, batch: int, refused: bool) -> None:
        if batch > self._awaited:
            self._awaited = batch
        if self._runs:
            last = self._runs.pop()
            self._runs.append(last)
            if last.batch == batch and last.refused == refused:
                last.last = self.published
                return
        self._runs.append(Run(self.published, batch, refused))
