"""Admission control: publishers wait for a queue's consumers where that is cheaper than writing a backlog to disk.

A queue is congested when more than `CONGESTION_BYTES` are ready in memory. Its publishers wait only if its consumers
would empty it within `PATIENCE_MS` at their present rate, and while that rate is being measured, which takes less time
than paging. With slower consumers the backlog goes to disk and no publisher waits. A queue that pages already holds its
publishers for longer (`RECOVERY_MS`): its consumers have become slower, and paging would never end by itself.
Publishers go on in order of arrival, a few at a time, once half of that is consumed, or when consumers stop.
"""

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.ports import Publishing

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.clock import Timer

CONGESTION_BYTES: Final = 4 * 1024 * 1024
PATIENCE_MS: Final = 50
#: The same for a queue that already pages.
RECOVERY_MS: Final = 250
#: The consumers' rate is measured over at least this time. The better of the last two samples counts, because a
#: consumer that waits for a CPU has not stopped.
SAMPLE_MS: Final = 20
#: How often waiting publishers are checked.
LOOK_MS: Final = 5
#: The maximum time that publishers wait for consumers that have stopped.
STOPPED_MS: Final = 3 * SAMPLE_MS + LOOK_MS
#: About how much one publisher may add with its next read.
READ_BYTES: Final = 256 * 1024


class AdmissionControl:
    """The admission control of a queue, created when it is congested for the first time."""

    __slots__ = (
        "_admitted_at_ms",
        "_counted",
        "_former_rate",
        "_is_measured",
        "_queue",
        "_rate",
        "_room_bytes",
        "_sampled_at_ms",
        "_timer",
        "_waiters",
    )

    def __init__(self, queue: "Queue", congestion_bytes: int) -> None:
        self._queue = queue
        #: Publishers are admitted again when at most this much is left.
        self._room_bytes = congestion_bytes // 2
        self._waiters: dict[Publishing, None] = {}
        self._timer: Timer | None = None
        #: When publishers were admitted last.
        self._admitted_at_ms = 0
        #: Messages delivered per millisecond in the last two samples since the queue became congested, if there are
        #: any.
        self._rate = 0.0
        self._former_rate = 0.0
        self._is_measured = False
        #: When the current sample began, and how many messages had been delivered by then. 0: there is none.
        self._sampled_at_ms = 0
        self._counted = 0

    def wait(self, publisher: Publishing) -> bool:
        """Return whether this publisher must wait. If so, `resume_publishing` is called later."""
        self._sample()
        if self._has_room() or not self._is_soon_empty():
            return False
        self._waiters[publisher] = None
        if self._timer is None:
            self._timer = self._queue.turn.at(LOOK_MS, self._look)
        return True

    def leave(self, publisher: Publishing) -> None:
        """Remove a publisher whose connection has closed."""
        self._waiters.pop(publisher, None)

    def drained(self) -> None:
        """Admit publishers after deliveries, if enough was consumed."""
        if not self._has_room():
            return
        if not self._waiters:
            self._sampled_at_ms = 0
            self._is_measured = False
            self._rate = 0.0
        elif (now_ms := self._queue.turn.now_ms) != self._admitted_at_ms:
            # Once a millisecond, because those admitted just now have not been read yet.
            self._admitted_at_ms = now_ms
            self._admit(max(1, self._room_bytes // READ_BYTES))

    def stop(self) -> None:
        """Admit all publishers, because the queue is deleted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._admit(len(self._waiters))

    def _look(self) -> None:
        self._timer = None
        self._sample()
        if not self._is_soon_empty():
            self._admit(len(self._waiters))
        self.drained()
        if self._waiters:
            self._timer = self._queue.turn.at(LOOK_MS, self._look)

    def _admit(self, count: int) -> None:
        for publisher in list(self._waiters)[:count]:
            del self._waiters[publisher]
            publisher.resume_publishing()

    def _has_room(self) -> bool:
        ready = self._queue.ready
        # An empty queue notices only with its next message that it need not page any more.
        return ready.memory_bytes <= self._room_bytes and (not ready.is_spilling or ready.count == 0)

    def _is_soon_empty(self) -> bool:
        if not self._is_measured:
            return True
        ready = self._queue.ready
        limit_ms = RECOVERY_MS if ready.is_spilling else PATIENCE_MS
        return ready.count <= max(self._rate, self._former_rate) * limit_ms

    def _sample(self) -> None:
        queue = self._queue
        elapsed_ms = queue.turn.now_ms - self._sampled_at_ms
        if self._sampled_at_ms != 0 and elapsed_ms < SAMPLE_MS:
            return
        # Messages that arrived and are not ready any more were delivered or removed. Returned messages lower the
        # number, which only admits publishers earlier.
        counted = queue.last_position - queue.ready.count
        if self._sampled_at_ms != 0:
            self._former_rate = self._rate
            self._rate = (counted - self._counted) / elapsed_ms
            self._is_measured = True
        self._sampled_at_ms = queue.turn.now_ms
        self._counted = counted
