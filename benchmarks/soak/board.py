"""State shared by the processes of a soak: whether it is over, and the progress of each load."""

import mmap


class Board:
    """Integers in shared memory. Each cell has one writer."""

    def __init__(self, loads: int) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        cells = memoryview(self._memory).cast("q")
        self._state = cells[:1]
        self.rounds = cells[1 : 1 + loads]
        self.refusals = cells[1 + loads : 1 + 2 * loads]

    @property
    def is_over(self) -> bool:
        return self._state[0] != 0

    def end(self) -> None:
        self._state[0] = 1
