"""Publisher confirms of one channel, sent in order and in as few frames as possible.

Each publish gets the next number. It is accepted with the number of the commit that it must wait for (0: none) or
refused. Answers go out in publish order: a number is answered once all before it are, so one ack with `multiple` covers
a range, and an ack is never merged across a nack.
"""

from collections import deque

from rabbitlike.protocol.constants import BASIC_ACK, BASIC_NACK
from rabbitlike.session.outlet import Outlet


class ConfirmRange:
    """A range of publishes up to `last` with one answer: accepted with commit `commit_number`, or refused."""

    __slots__ = ("commit_number", "last", "refused")

    def __init__(self, last: int, commit_number: int, refused: bool) -> None:
        self.last = last
        self.commit_number = commit_number
        self.refused = refused


class Confirms:
    """The confirms of one channel in confirm mode."""

    __slots__ = ("_answered", "_awaited", "_ranges", "_settled", "committed", "confirmed", "published")

    def __init__(self) -> None:
        #: Number of the last publish.
        self.published = 0
        #: Publishes that were acked; refused ones do not count.
        self.confirmed = 0
        #: The highest commit that is done.
        self.committed = 0
        #: Publishes up to this number can be acked; those up to `_answered` have been answered.
        self._settled = 0
        self._answered = 0
        #: The highest commit that a publish waits for.
        self._awaited = 0
        #: Ranges after `_settled`, in order.
        self._ranges: deque[ConfirmRange] = deque()

    def accept(self, commit_number: int, count: int = 1) -> bool:
        """Accept ``count`` more publishes, safe once ``commit_number`` is committed. True if an answer is due now."""
        self.published += count
        if not self._ranges and commit_number <= self.committed:
            self._settled = self.published
            return True
        self._add(commit_number, False)
        return False

    def refuse(self) -> bool:
        """Refuse one more publish. True if an answer is due now."""
        self.published += 1
        self._add(0, True)
        return self._ranges[0].commit_number <= self.committed

    def commit(self, commit_number: int) -> bool:
        """Note that everything up to ``commit_number`` is committed. True if an answer is due now."""
        self.committed = commit_number
        return bool(self._ranges) and self._ranges[0].commit_number <= commit_number

    def fail(self) -> bool:
        """Refuse all publishes that wait for a commit, because commits fail. True if an answer is due now."""
        for pending in self._ranges:
            pending.refused = True
            pending.commit_number = 0
        self._awaited = 0
        return bool(self._ranges)

    @property
    def is_waiting(self) -> bool:
        """Whether a publish waits for a commit; False if only its answer has not been written yet."""
        return self._awaited > self.committed

    @property
    def unanswered(self) -> int:
        return self.published - self._answered

    def write(self, channel: int, out: Outlet) -> None:
        """Write all answers that are due."""
        while self._ranges and self._ranges[0].commit_number <= self.committed:
            pending = self._ranges.popleft()
            if pending.refused:
                self._write(BASIC_ACK, channel, out)
                self._settled = pending.last
                self._write(BASIC_NACK, channel, out)
            else:
                self._settled = pending.last
        self._write(BASIC_ACK, channel, out)

    def _write(self, index: int, channel: int, out: Outlet) -> None:
        if self._settled > self._answered:
            if index == BASIC_ACK:
                self.confirmed += self._settled - self._answered
            multiple = 1 if self._settled - self._answered > 1 else 0
            out.put_settled(index, channel, self._settled, multiple)
            self._answered = self._settled

    def _add(self, commit_number: int, refused: bool) -> None:
        if commit_number > self._awaited:
            self._awaited = commit_number
        if self._ranges:
            last = self._ranges.pop()
            self._ranges.append(last)
            if last.commit_number == commit_number and last.refused == refused:
                last.last = self.published
                return
        self._ranges.append(ConfirmRange(self.published, commit_number, refused))
