"""One timer for many deadlines: set for the earliest, and reset only when an earlier one is added."""

from rabbitlike.broker.turn import Turn
from rabbitlike.clock import Timer


class FirstDue:
    """Base class. Holds no reference to itself while no timer is set."""

    __slots__ = ("_due_at_ms", "_timer", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._timer: Timer | None = None
        self._due_at_ms = 0

    def on_due(self) -> None:
        """Handle the earliest deadline. No timer is set any more."""
        raise NotImplementedError

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self, due_at_ms: int) -> None:
        """Make sure that `on_due` is called at this time or before."""
        if self._timer is not None:
            if self._due_at_ms <= due_at_ms:
                return
            self._timer.cancel()
        self._due_at_ms = due_at_ms
        self._timer = self._turn.at(due_at_ms - self._turn.now_ms, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.on_due()
