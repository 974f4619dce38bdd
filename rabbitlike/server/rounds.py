"""Shares the loop's time among connections: a client that sends little does not wait for busy ones.

In one round the loop reads every socket that has input. With twenty busy clients of some milliseconds each, a client
with a single message would wait a tenth of a second. So a connection whose read took long waits in line if others had
long reads in the same round, and each round reads as many from the line as time permits. Connections with short reads
never wait, as in packet schedulers that serve sparse flows first.
"""

from collections import deque
from typing import Final, Protocol

from rabbitlike.clock import Clock

#: A shorter read counts as short.
SHORT_NS: Final = 100_000
#: Approximate total of all long reads in one round; one of them may take as long as a turn.
ROUND_NS: Final = 2_000_000


class Reader(Protocol):
    """A connection that is not read while it waits."""

    def read_on(self) -> None: ...


class Rounds:
    """The rounds of one loop."""

    __slots__ = ("_clock", "_is_begun", "_line", "_used_ns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Waiting connections, each with the duration of its last read.
        self._line: deque[tuple[Reader, int]] = deque()
        self._is_begun = False
        #: Duration of this round's long reads.
        self._used_ns = 0

    def must_wait(self, reader: Reader, took_ns: int) -> bool:
        """Whether this connection must wait after a read of ``took_ns``; `read_on` is called when the wait ends."""
        if took_ns < SHORT_NS:
            return False
        if not self._is_begun:
            self._begin()
        is_first = self._used_ns == 0
        self._used_ns += took_ns
        if not self._line and (is_first or self._used_ns < ROUND_NS):
            return False
        self._line.append((reader, took_ns))
        return True

    def _begin(self) -> None:
        self._is_begun = True
        self._clock.call_later(0, self._end)

    def _end(self) -> None:
        """End the round: read the first connections in line when the loop begins its next round."""
        self._is_begun = False
        self._used_ns = 0
        expected_ns = 0
        while self._line and expected_ns < ROUND_NS:
            reader, took_ns = self._line.popleft()
            expected_ns += took_ns
            reader.read_on()
        if self._line:
            self._begin()
