"""Letting go of very many objects: freeing a million takes as long as making them, so it is done in slices."""

from typing import Any

from rabbitlike.broker.turn import Turn

#: Objects that are let go of in one step.
TOGETHER = 1024


class Disposal:
    """Lists that nobody else has, and what they hold."""

    __slots__ = ("_lists", "_turn")

    def __init__(self, turn: Turn, lists: list[list[Any]]) -> None:
        self._turn = turn
        self._lists = lists

    def dispose(self) -> bool:
        """As much as the turn has time for; True: there is more."""
        while self._lists:
            objects = self._lists[-1]
            while objects:
                del objects[-TOGETHER:]
                if self._turn.is_spent(TOGETHER):
                    return True
            self._lists.pop()
        return False


def dispose(turn: Turn, lists: list[list[Any]]) -> None:
    """Let go of what these lists hold; the caller must not use them any more."""
    turn.run(Disposal(turn, lists).dispose)
