"""All conversations by name. Each is a function that is given a talk and says its steps."""

from collections.abc import Callable
from typing import Final, TypeVar

from interop.parity.talk import Talk

Conversation = Callable[[Talk], None]
F = TypeVar("F", bound=Conversation)

CONVERSATIONS: Final[dict[str, Conversation]] = {}


def conversation(function: F) -> F:
    """Register it under the function's name, after its file's: `queues.redeclare`."""
    add(f"{function.__module__.rsplit('.', 1)[1]}.{function.__name__}", function)
    return function


def add(name: str, function: Conversation) -> None:
    assert name not in CONVERSATIONS, name
    CONVERSATIONS[name] = function
