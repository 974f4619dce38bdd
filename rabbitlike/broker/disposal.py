"""Frees very many objects in slices: freeing a million takes as long as creating them."""

from typing import Any

from rabbitlike.broker.turn import Turn

#: Objects freed in one step.
TOGETHER = 1024


class Disposal:
    """Lists to be freed, which nothing else refers to."""

    __slots__ = ("_lists", "_turn")

    def __init__(self, turn: Turn, lists: list[list[Any]]) -> None:
        self._turn = turn
        self._lists = lists

    def dispose(self) -> bool:
        """Free as much as the turn has time for. True: there is more."""
        while self._lists:
            objects = self._lists[-1]
            while objects:
                del objects[-TOGETHER:]
                if self._turn.is_spent(TOGETHER):
                    return True
            self._lists.pop()
        return False


def dispose(turn: Turn, lists: list[list[Any]]) -> None:
    """Free the contents of these lists; the caller must not use them any more."""
    turn.run(Disposal(turn, lists).dispose)
