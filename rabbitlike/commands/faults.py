"""Exceptions that end a command early. Each has one line for standard error and an exit code."""

from typing import Final

REFUSED: Final = 1
FAULT: Final = 2


class Fault(Exception):
    """The command cannot continue; the text says what is wrong and, if possible, what to do."""

    code = FAULT


class Refused(Fault):
    """The broker refused the request."""

    code = REFUSED

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Unreachable(Fault):
    """The broker could not be reached."""
