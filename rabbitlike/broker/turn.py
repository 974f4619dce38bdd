"""A turn: everything that one read or one timer causes. One turn runs at a time, so it must be short.

Handlers only note which queues and clients they touched; `finish` then pumps and flushes each once. `serve` pumps
earlier, for a command that needs it. Work that must not run inside the pump that caused it (dead letters, cancelled
consumers) waits in `later`. Long work (`run`) checks `is_spent` after each step and continues in further turns, between
which sockets are served and a commit may be taken: each step must leave the journal consistent. While the store is
behind, later calls and the broker's own long work pause, but not work that a client waits for (`poll`).
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
    """A client with answers in a buffer."""

    def flush(self) -> None: ...


class Turn:
    """The turn of a broker. The broker has a single thread, so there is only one."""

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
        #: Start of this turn: the clock is read once for all messages of a read.
        self.now_ms = clock.now_ms()
        #: An alarm is raised: connections that publish now must be blocked.
        self.alarmed = False
        #: Incremented when topology or permissions change: a route of an earlier generation must be looked up again.
        self.generation = 0
        #: Queues with a large backlog in memory that were published to in this turn, some of them more than once.
        self.congested: list[Pumped] = []
        self._queues: list[Pumped] = []
        self._clients: list[Flushable] = []
        self._later: list[Callable[[], None]] = []
        #: Work left by earlier turns, and long work that is not done.
        self._left_queues: deque[Pumped] = deque()
        self._left_clients: deque[Flushable] = deque()
        self._left_later: deque[Callable[[], None]] = deque()
        self._works: deque[Callable[[], bool]] = deque()
        self._polls: deque[Callable[[], bool]] = deque()
        #: Long work that this turn has begun.
        self._begun: list[Callable[[], bool]] = []
        #: Total number of later calls that turns had no time for, and how many of those are done.
        self._later_left = 0
        self._later_done = 0
        self._is_scheduled = False
        #: Whether the store is behind. Later calls and long work pause then, because dead letters are stored too.
        self.is_store_behind: Callable[[], bool] = _is_never
        #: Start of this turn, 0 between turns; its deadline; steps until the clock is read again.
        self._began_ns = 0
        self._deadline_ns = 0
        self._steps_left = STRIDE
        #: Steps of long work between two reads of the clock.
        self.stride = STRIDE
        #: All turns so far: number by duration, total duration, and the longest since this was set to 0.
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
        """Invalidate cached routes after a change of topology or permissions."""
        self.generation += 1

    def touch(self, queue: Pumped) -> None:
        """Pump this queue at the end of the turn: it may have something to deliver."""
        if not queue.touched:
            queue.touched = True
            self._queues.append(queue)

    def note_congestion(self, queue: Pumped) -> None:
        """Note a publish to a queue that has a large backlog."""
        last = len(self.congested) - 1
        if last < 0 or self.congested[last] is not queue:
            self.congested.append(queue)

    def mark(self, client: Flushable) -> None:
        """Flush this client at the end of the turn. The client makes sure to call this once per turn."""
        self._clients.append(client)

    def later(self, work: Callable[[], None]) -> None:
        """Call ``work`` at the end of this turn, or in a later turn if the time is over before."""
        self._later.append(work)

    def at(self, delay_ms: int, work: Callable[[], None]) -> Timer:
        """Call ``work`` in its own turn, ``delay_ms`` from now."""

        def run() -> None:
            self.begin()
            self._guard(work)
            self.finish()

        return self._clock.call_later(max(0, delay_ms), run)

    # Long work

    def run(self, work: Callable[[], bool]) -> bool:
        """Start long work. ``work`` does as much as the turn has time for, at least one step, and returns whether there
        is more; then it is called again in later turns. True: it is done already."""
        if not work():
            return True
        self.go_on(work)
        return False

    def go_on(self, work: Callable[[], bool]) -> None:
        """Call ``work`` in later turns until it returns False."""
        self._works.append(work)
        self._begun.append(work)
        self._schedule()

    def poll(self, work: Callable[[], bool]) -> None:
        """`go_on` for work that a client waits for: it does not pause while the store is behind."""
        self._polls.append(work)
        self._schedule()

    def begun(self) -> list[Callable[[], bool]]:
        """Unfinished long work that this turn has begun since the last call of this method."""
        begun = self._begun
        self._begun = []
        return begun

    def is_any_left(self, works: list[Callable[[], bool]]) -> bool:
        """Whether any of this work is not done yet."""
        return any(work in self._works for work in works)

    def is_spent(self, steps: int = 1) -> bool:
        """Whether long work should pause, because the turn's time is over or too many later calls wait. Call it after
        each step of long work, or after ``steps`` small ones."""
        self._steps_left -= steps
        if self._steps_left > 0:
            return False
        return len(self._later) + len(self._left_later) >= MOST_LATER or self.is_late(0)

    def is_late(self, steps: int = 1) -> bool:
        """Whether the turn's time is over. Used instead of `is_spent` for clients' requests: later calls may wait
        seconds for the store, and a client must not wait for later calls of others."""
        self._steps_left -= steps
        if self._steps_left > 0:
            return False
        if self._ticks_ns() >= self._deadline_ns:
            return True
        self._steps_left = self.stride
        return False

    def look(self) -> None:
        """Make the next `is_spent` read the clock, after a long step."""
        self._steps_left = 0

    def later_mark(self) -> int:
        """A mark for `has_later`: all later calls left so far."""
        return self._later_left

    def has_later(self, mark: int) -> bool:
        """Whether any calls up to the mark are not done yet, or too many later calls wait in general."""
        return self._later_done < mark or 2 * len(self._left_later) > MOST_LATER

    @property
    def is_behind(self) -> bool:
        """Whether any work is left for later turns."""
        return self._is_scheduled

    # During a turn

    def serve(self) -> bool:
        """Serve the queues touched so far, for a command that requires all earlier work to be done. False: the time was
        over before; `finish` and later turns serve the rest. Clients are flushed at the end only."""
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
        """`touched` and the queues that earlier turns had no time for."""
        return [*self._left_queues, *self._queues]

    # The end

    def finish(self) -> bool:
        """Serve everything that was touched. False: the turn's time was over before, and some later calls are left."""
        if self._began_ns == 0:
            self._began_ns = self._ticks_ns()  # a nested turn has ended
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
        """Pump each touched queue once. Queues that there is no time for stay in the list."""
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
        """Make the later calls. True: all are done."""
        works = self._later
        self._later = []
        done = 0
        if not self._left_later:
            for work in works:
                done += 1
                self._guard(work)
                if self._is_over():
                    break
        # After those of earlier turns, so that dead letters of one queue do not overtake each other.
        self._leave_later(works[done:])
        return done == len(works)

    def _is_over(self) -> bool:
        """`is_late` for the end of a turn, where each call counts for several steps."""
        return self.is_late(STEPS_PER_CALL)

    def _leave_rest(self) -> None:
        """Leave the rest to later turns, because the time is over."""
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

    # Work left by earlier turns

    def _schedule(self, delay_ms: int = 0) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_later(delay_ms, self._catch_up)

    def _catch_up(self) -> None:
        """Do some work of each kind, so that no kind waits for another; then serve what that touched."""
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
        """Set the time for the next kind of work."""
        self._deadline_ns = self._ticks_ns() + time_ns
        self._steps_left = self.stride

    def _guard(self, work: Callable[[], object]) -> object:
        """Call ``work`` and log exceptions, so that a fault of one client or queue does not affect the others."""
        try:
            return work()
        except Exception:
            log.exception("a turn's work failed: %r", work)
            return None


def _is_never() -> bool:
    return False
