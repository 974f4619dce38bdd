"""Duration of turns in tests: the longest of a test, in CPU time, which a busy machine does not lengthen."""

import gc
import time
from collections.abc import Callable

from rabbitlike.testing import FakeClock, FakeTimer


class Recorder:
    """Runs turns and records the time of the longest."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        #: Called after each turn.
        self.on_turn: Callable[[], None] | None = None

    def run(self, turn: Callable[[], None]) -> None:
        # Without the cycle collector: it visits what all tests before have left.
        gc.disable()
        began_s = time.thread_time()
        try:
            turn()
        finally:
            self.longest_s = max(self.longest_s, time.thread_time() - began_s)
            gc.enable()
        if self.on_turn is not None:
            self.on_turn()


#: The recorder of the current test.
recorder = Recorder()


class TurnClock(FakeClock):
    """A FakeClock whose timers run as recorded turns."""

    def call_later(self, delay_ms: int, fn: Callable[[], None]) -> FakeTimer:
        return super().call_later(delay_ms, lambda: recorder.run(fn))
