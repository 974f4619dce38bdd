"""Event loop lag: how much later than due a timer fires."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.statistics.commits import Histogram

if TYPE_CHECKING:
    from rabbitlike.clock import Clock, Timer

INTERVAL_MS: Final = 250
LATE_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class LoopLag:
    """Measures one loop, four times a second."""

    def __init__(self, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.late_s = Histogram(LATE_S)
        #: The last measurement.
        self.last_s = 0.0
        self._clock = clock
        self._monotonic = monotonic
        self._timer: Timer | None = None

    def start(self) -> None:
        self._due_s = self._monotonic() + INTERVAL_MS / 1000
        self._timer = self._clock.call_later(INTERVAL_MS, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self.last_s = max(0.0, self._monotonic() - self._due_s)
        self.late_s.add(self.last_s)
        self.start()
