"""What ends a command early. Each is one line for standard error, and the exit code that goes with it."""

from typing import Final

REFUSED: Final = 1
FAULT: Final = 2


class Fault(Exception):
    """A command cannot go on; the text says what is wrong and, where it can, what to do."""

    code = FAULT


class Refused(Fault):
    """The broker was asked and said no."""

    code = REFUSED

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Unreachable(Fault):
    """There was nobody to ask."""
