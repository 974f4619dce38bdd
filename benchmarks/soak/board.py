"""What the processes of a soak share: whether it is over, and how far each load has come."""

import mmap


class Board:
    """Integers in shared memory. Each cell is written by one process."""

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
