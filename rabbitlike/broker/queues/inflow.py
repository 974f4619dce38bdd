"""Publishers that wait for the consumers of one queue, because that is cheaper than writing a backlog to disk.

A queue is crowded when more than `CROWDED_BYTES` are ready in memory. Its publishers wait only if its consumers would
empty it within `PATIENCE_MS` at their present rate; consumers that are slower get a backlog, which is paged to disk,
and nobody waits for them. Publishers are let in again in the order they came, a few at a time, once half of the crowd
has gone. A timer looks after those that wait: consumers that stop must not stop publishers.
"""

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.ports import Publishing

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.clock import Timer

CROWDED_BYTES: Final = 4 * 1024 * 1024
PATIENCE_MS: Final = 50
#: The rate of the consumers is measured over this long, at least.
SAMPLE_MS: Final = 5
#: What one publisher may bring with its next read, about.
READ_BYTES: Final = 256 * 1024


class Inflow:
    """Made for a queue when it is crowded for the first time."""

    __slots__ = (
        "_admitted_at_ms",
        "_counted",
        "_queue",
        "_rate",
        "_room_bytes",
        "_sampled_at_ms",
        "_timer",
        "_waiting",
    )

    def __init__(self, queue: "Queue", crowded_bytes: int) -> None:
        self._queue = queue
        #: Publishers are let in again when this much, or less, is left.
        self._room_bytes = crowded_bytes // 2
        self._waiting: dict[Publishing, None] = {}
        self._timer: Timer | None = None
        #: When publishers were let in last.
        self._admitted_at_ms = 0
        #: Messages handed out per millisecond, and how many it were when that was last measured.
        self._rate = 0.0
        self._sampled_at_ms = 0
        self._counted = 0

    def wait(self, publisher: Publishing) -> bool:
        """Must this publisher wait? It is told when it may go on."""
        self._sample()
        if self._queue.ready.memory_bytes <= self._room_bytes or not self._is_soon_empty():
            return False
        self._waiting[publisher] = None
        if self._timer is None:
            self._timer = self._queue.turn.at(SAMPLE_MS, self._look)
        return True

    def leave(self, publisher: Publishing) -> None:
        """This publisher is gone."""
        self._waiting.pop(publisher, None)

    def drained(self) -> None:
        """Messages were handed out."""
        now_ms = self._queue.turn.now_ms
        # Once a millisecond: those let in just now have not been read yet.
        if self._waiting and now_ms != self._admitted_at_ms and self._queue.ready.memory_bytes <= self._room_bytes:
            self._admitted_at_ms = now_ms
            self._admit(max(1, self._room_bytes // READ_BYTES))

    def stop(self) -> None:
        """The queue is gone: nobody need wait for it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._admit(len(self._waiting))

    def _look(self) -> None:
        self._timer = None
        self._sample()
        if not self._is_soon_empty():
            self._admit(len(self._waiting))
        self.drained()
        if self._waiting:
            self._timer = self._queue.turn.at(SAMPLE_MS, self._look)

    def _admit(self, count: int) -> None:
        for publisher in list(self._waiting)[:count]:
            del self._waiting[publisher]
            publisher.resume_publishing()

    def _is_soon_empty(self) -> bool:
        return self._queue.ready.count <= self._rate * PATIENCE_MS

    def _sample(self) -> None:
        queue = self._queue
        elapsed_ms = queue.turn.now_ms - self._sampled_at_ms
        if elapsed_ms < SAMPLE_MS:
            return
        # What came in and is not ready any more has been handed out, or is gone otherwise. Returned messages make it
        # less, which only lets publishers in.
        counted = queue.last_position - queue.ready.count
        rate = (counted - self._counted) / elapsed_ms
        # Consumers take and ack in bursts: half of the former rate evens them out.
        self._rate = max(0.0, (self._rate + rate) / 2)
        self._sampled_at_ms = queue.turn.now_ms
        self._counted = counted
