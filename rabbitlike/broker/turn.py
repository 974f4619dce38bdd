"""A turn: all that one read, or one timer, sets in motion, finished before the next begins.

While a turn runs, handlers only note what they touched. `finish` then pumps each touched queue once and flushes each
touched client once. Work that must not run inside the pump that caused it (dead letters, cancelled consumers) waits in
`later`.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from rabbitlike.broker.ports import Pumped
from rabbitlike.clock import Clock, Timer

log = logging.getLogger(__name__)


class Flushable(Protocol):
    """A client whose answers stand in a buffer."""

    def flush(self) -> None: ...


class Turn:
    """The one turn of a broker. There is never more than one: the broker has a single thread."""

    __slots__ = ("_clients", "_clock", "_later", "_queues", "alarmed", "generation", "now_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: The time this turn began: one reading of the clock serves all messages of a read.
        self.now_ms = clock.now_ms()
        #: An alarm is on: whoever publishes now must be blocked.
        self.alarmed = False
        #: Grows whenever topology or permissions change: a route found in an earlier generation must be found anew.
        self.generation = 0
        self._queues: list[Pumped] = []
        self._clients: list[Flushable] = []
        self._later: list[Callable[[], None]] = []

    def begin(self) -> None:
        self.now_ms = self._clock.now_ms()

    def renew(self) -> None:
        """Topology or permissions changed."""
        self.generation += 1

    def touch(self, queue: Pumped) -> None:
        """This queue may have something to hand out."""
        if not queue.touched:
            queue.touched = True
            self._queues.append(queue)

    def mark(self, client: Flushable) -> None:
        """This client has something in its buffer; it sees to it that it is marked once."""
        self._clients.append(client)

    def later(self, work: Callable[[], None]) -> None:
        self._later.append(work)

    def at(self, delay_ms: int, work: Callable[[], None]) -> Timer:
        """Do ``work`` in a turn of its own, ``delay_ms`` from now."""

        def run() -> None:
            self.begin()
            self._guard(work)
            self.finish()

        return self._clock.call_later(max(0, delay_ms), run)

    def finish(self) -> None:
        while True:
            if self._later:
                works = self._later
                self._later = []
                for work in works:
                    self._guard(work)
            elif self._queues:
                queues = self._queues
                self._queues = []
                for queue in queues:
                    queue.touched = False
                    self._guard(queue.pump)
            elif self._clients:
                clients = self._clients
                self._clients = []
                for client in clients:
                    self._guard(client.flush)
            else:
                return

    def _guard(self, work: Callable[[], None]) -> None:
        """One client's or queue's fault must not keep the others from being served."""
        try:
            work()
        except Exception:
            log.exception("a turn's work failed: %r", work)
