"""One timer for many times: it is set for the first of them, and set anew only when an earlier one comes."""

from rabbitlike.broker.turn import Turn
from rabbitlike.clock import Timer


class FirstDue:
    """To be derived from. Holds no reference to itself while no timer is set."""

    __slots__ = ("_due_at_ms", "_timer", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._timer: Timer | None = None
        self._due_at_ms = 0

    def on_due(self) -> None:
        """The first is due, and no timer is set any more."""
        raise NotImplementedError

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self, due_at_ms: int) -> None:
        """See to it that `on_due` is called then, or before."""
        if self._timer is not None:
            if self._due_at_ms <= due_at_ms:
                return
            self._timer.cancel()
        self._due_at_ms = due_at_ms
        self._timer = self._turn.at(due_at_ms - self._turn.now_ms, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.on_due()
