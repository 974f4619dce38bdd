"""A turn: what one read, or one timer, sets in motion. The next begins when it is over, so it must be short.

Handlers only note what they touched. `finish` then pumps each touched queue and flushes each touched client once;
`serve` pumps them before that, for a command that must find them served. What must not run inside the pump that caused
it (dead letters, cancelled consumers) waits in `later`. Long work is given to
`run` and asks `is_spent` after each step; what the turn has no time for goes on in turns of its own, between which all
sockets are served and a commit may be taken: each step must leave what the store is given complete. While the store is
behind, later calls and the broker's own long work pause, but never what a client waits for (`poll`).
"""

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Protocol

from rabbitlike.broker.budget import (
    INPUT_NS,
    MOST_LATER,
    SHARE_NS,
    STEPS_PER_CALL,
    STORE_MS,
    STRIDE,
    TURN_NS,
    TURNS_MS,
    WORK_NS,
)
from rabbitlike.broker.ports import Pumped
from rabbitlike.clock import Clock, Timer

log = logging.getLogger(__name__)

FEW_NS = 1_000_000 * TURNS_MS[0]


class Flushable(Protocol):
    """A client whose answers stand in a buffer."""

    def flush(self) -> None: ...


class Turn:
    """The one turn of a broker. There is never more than one: the broker has a single thread."""

    __slots__ = (
        "_began_ns",
        "_begun",
        "_clients",
        "_clock",
        "_deadline_ns",
        "_is_scheduled",
        "_later",
        "_later_done",
        "_later_left",
        "_left_clients",
        "_left_later",
        "_left_queues",
        "_polls",
        "_queues",
        "_steps_left",
        "_ticks_ns",
        "_works",
        "alarmed",
        "congested",
        "counts",
        "generation",
        "is_store_behind",
        "longest_ns",
        "now_ms",
        "stride",
        "total_ns",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ticks_ns = clock.ticks_ns
        #: The time this turn began: one reading of the clock serves all messages of a read.
        self.now_ms = clock.now_ms()
        #: An alarm is on: whoever publishes now must be blocked.
        self.alarmed = False
        #: Grows whenever topology or permissions change: a route found in an earlier generation must be found anew.
        self.generation = 0
        #: Queues that were published to in this turn and have much waiting in memory, some of them more than once.
        self.congested: list[Pumped] = []
        self._queues: list[Pumped] = []
        self._clients: list[Flushable] = []
        self._later: list[Callable[[], None]] = []
        #: What earlier turns had no time for, and long work that is not done.
        self._left_queues: deque[Pumped] = deque()
        self._left_clients: deque[Flushable] = deque()
        self._left_later: deque[Callable[[], None]] = deque()
        self._works: deque[Callable[[], bool]] = deque()
        self._polls: deque[Callable[[], bool]] = deque()
        #: Works that this turn has begun.
        self._begun: list[Callable[[], bool]] = []
        #: Later calls that turns had no time for, ever, and how many of those are done.
        self._later_left = 0
        self._later_done = 0
        self._is_scheduled = False
        #: Says whether the store is behind. Later calls and works pause then, for dead letters are written, too.
        self.is_store_behind: Callable[[], bool] = _is_never
        #: When this turn began, 0 between turns; when its time is over; steps until the clock is read again.
        self._began_ns = 0
        self._deadline_ns = 0
        self._steps_left = STRIDE
        #: Steps of long work between two looks at the clock.
        self.stride = STRIDE
        #: All turns so far: how many by their length, how long together, and the longest since this was set to 0.
        self.counts = [0] * (len(TURNS_MS) + 1)
        self.total_ns = 0
        self.longest_ns = 0

    def begin(self) -> None:
        if self._begun:
            self._begun = []
        self.now_ms = self._clock.now_ms()
        self._began_ns = self._ticks_ns()
        self._deadline_ns = self._began_ns + INPUT_NS
        self._steps_left = self.stride
        if self.congested:
            self.congested = []

    def renew(self) -> None:
        """Topology or permissions changed."""
        self.generation += 1

    def touch(self, queue: Pumped) -> None:
        """This queue may have something to hand out."""
        if not queue.touched:
            queue.touched = True
            self._queues.append(queue)

    def note_congestion(self, queue: Pumped) -> None:
        """Something was published to this queue, which has much waiting already."""
        last = len(self.congested) - 1
        if last < 0 or self.congested[last] is not queue:
            self.congested.append(queue)

    def mark(self, client: Flushable) -> None:
        """This client has something in its buffer; it sees to it that it is marked once."""
        self._clients.append(client)

    def later(self, work: Callable[[], None]) -> None:
        """Do ``work`` at the end of this turn, or in one of the next if the time is over before that."""
        self._later.append(work)

    def at(self, delay_ms: int, work: Callable[[], None]) -> Timer:
        """Do ``work`` in a turn of its own, ``delay_ms`` from now."""

        def run() -> None:
            self.begin()
            self._guard(work)
            self.finish()

        return self._clock.call_later(max(0, delay_ms), run)

    # Long work

    def run(self, work: Callable[[], bool]) -> bool:
        """Do long work: ``work`` does as much as the turn has time for, one step at least, and says whether there is
        more; then it is called again in turns to come. Is it done already?"""
        if not work():
            return True
        self.go_on(work)
        return False

    def go_on(self, work: Callable[[], bool]) -> None:
        """Call ``work`` in turns to come until it says that nothing is left."""
        self._works.append(work)
        self._begun.append(work)
        self._schedule()

    def poll(self, work: Callable[[], bool]) -> None:
        """`go_on`, of work that a client waits for: it does not pause while the store is behind."""
        self._polls.append(work)
        self._schedule()

    def begun(self) -> list[Callable[[], bool]]:
        """Long work that this turn has begun and not done, since it was asked last."""
        begun = self._begun
        self._begun = []
        return begun

    def is_any_left(self, works: list[Callable[[], bool]]) -> bool:
        """Is any of this work not done yet?"""
        return any(work in self._works for work in works)

    def is_spent(self, steps: int = 1) -> bool:
        """Should long work pause, because the turn's time is over or because too many later calls wait? To be asked
        after each step of it, or after so many small ones."""
        self._steps_left -= steps
        if self._steps_left > 0:
            return False
        return len(self._later) + len(self._left_later) >= MOST_LATER or self.is_late(0)

    def is_late(self, steps: int = 1) -> bool:
        """Is the turn's time over? `is_spent`, of what clients ask for: later calls may wait for the store for seconds,
        and no client waits for those of others."""
        self._steps_left -= steps
        if self._steps_left > 0:
            return False
        if self._ticks_ns() >= self._deadline_ns:
            return True
        self._steps_left = self.stride
        return False

    def look(self) -> None:
        """The step at hand was a long one: the next `is_spent` reads the clock."""
        self._steps_left = 0

    def later_mark(self) -> int:
        """For `has_later`: what is left of later calls by now."""
        return self._later_left

    def has_later(self, mark: int) -> bool:
        """Are any of those calls not done yet, or so many others that there should not be more of them?"""
        return self._later_done < mark or 2 * len(self._left_later) > MOST_LATER

    @property
    def is_behind(self) -> bool:
        """Is there anything left for turns to come?"""
        return self._is_scheduled

    # In the middle

    def serve(self) -> bool:
        """Serve the queues touched so far, for a command that must find everything before it done. False: the time was
        over before; the rest is served by `finish` and by turns to come. Clients are flushed at the end only."""
        is_done = True
        while is_done and (self._later or self._queues):
            if self._later:
                is_done = self._do_later()
            else:
                self._pump()
            if self._steps_left <= 0:
                break
        is_done = is_done and not self._later and not self._queues
        if not is_done:
            self._schedule()
        return is_done

    def touched(self) -> list[Pumped]:
        """The queues that this turn has touched and not served yet."""
        return list(self._queues)

    def all_touched(self) -> list[Pumped]:
        """The same, and those that turns before had no time for."""
        return [*self._left_queues, *self._queues]

    # The end

    def finish(self) -> bool:
        """Serve all that was touched. False: the turn's time was over before, and later calls of it are left to do."""
        if self._began_ns == 0:
            self._began_ns = self._ticks_ns()  # a turn within this one has ended
        self._deadline_ns = self._began_ns + TURN_NS
        self._steps_left = self.stride
        is_done = True
        while self._later or self._queues or self._clients:
            if self._later:
                is_done = self._do_later()
            elif self._queues:
                self._pump()
            else:
                clients = self._clients
                self._clients = []
                done = 0
                for client in clients:
                    done += 1
                    self._guard(client.flush)
                    if self._is_over():
                        self._left_clients.extend(clients[done:])
                        break
            if self._steps_left <= 0:
                is_done = is_done and not self._later
                self._leave_rest()
                break
        self._note_end()
        return is_done

    def _pump(self) -> None:
        """Pump each touched queue, once. Those that there is no time for stay where they are."""
        queues = self._queues
        self._queues = []
        done = 0
        for queue in queues:
            done += 1
            queue.touched = False
            self._guard(queue.pump)
            if self._is_over():
                self._queues = queues[done:] + self._queues
                break

    def _do_later(self) -> bool:
        """Are they all done?"""
        works = self._later
        self._later = []
        done = 0
        if not self._left_later:
            for work in works:
                done += 1
                self._guard(work)
                if self._is_over():
                    break
        # Behind those of earlier turns: dead letters of one queue do not overtake each other.
        self._leave_later(works[done:])
        return done == len(works)

    def _is_over(self) -> bool:
        """`is_late`, of what a turn has at its end: each call there counts for several steps."""
        return self.is_late(STEPS_PER_CALL)

    def _leave_rest(self) -> None:
        """The time is over: what is left goes on in turns to come."""
        self._leave_later(self._later)
        self._left_queues.extend(self._queues)
        self._left_clients.extend(self._clients)
        self._later = []
        self._queues = []
        self._clients = []
        if self._left_later or self._left_queues or self._left_clients:
            self._schedule()

    def _leave_later(self, works: list[Callable[[], None]]) -> None:
        self._left_later.extend(works)
        self._later_left += len(works)

    def _note_end(self) -> None:
        took_ns = self._ticks_ns() - self._began_ns
        self._began_ns = 0
        self.total_ns += took_ns
        at = 0
        if took_ns > FEW_NS:
            at = bisect_left(TURNS_MS, took_ns / 1e6)
        self.counts[at] += 1
        if took_ns > self.longest_ns:
            self.longest_ns = took_ns
        self._steps_left = self.stride

    # What is left of turns before

    def _schedule(self, delay_ms: int = 0) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_later(delay_ms, self._catch_up)

    def _catch_up(self) -> None:
        """Some of each kind, so that none waits for the end of another; then whatever that touched."""
        self._is_scheduled = False
        self.begin()
        is_waiting = self.is_store_behind()
        self._allow(WORK_NS)
        while self._left_later and not is_waiting:
            self._later_done += 1
            self._guard(self._left_later.popleft())
            if self._is_over():
                break
        self._allow(SHARE_NS)
        while self._left_queues:
            queue = self._left_queues.popleft()
            queue.touched = False
            self._guard(queue.pump)
            if self._is_over():
                break
        self._allow(SHARE_NS)
        while self._left_clients:
            self._guard(self._left_clients.popleft().flush)
            if self._is_over():
                break
        self._do_some(self._polls, WORK_NS)
        if not is_waiting and len(self._left_later) < MOST_LATER:
            self._do_some(self._works, WORK_NS)
        self.finish()
        if self._left_queues or self._left_clients:
            self._schedule()
        elif self._works or self._left_later or self._polls:
            self._schedule(STORE_MS if is_waiting else 0)

    def _do_some(self, works: deque[Callable[[], bool]], time_ns: int) -> None:
        self._allow(time_ns)
        for _ in range(len(works)):
            work = works.popleft()
            if self._guard(work):
                works.append(work)
            if self.is_late(self.stride):
                break

    def _allow(self, time_ns: int) -> None:
        """So long for what comes now."""
        self._deadline_ns = self._ticks_ns() + time_ns
        self._steps_left = self.stride

    def _guard(self, work: Callable[[], object]) -> object:
        """One client's or queue's fault must not keep the others from being served."""
        try:
            return work()
        except Exception:
            log.exception("a turn's work failed: %r", work)
            return None


def _is_never() -> bool:
    return False
