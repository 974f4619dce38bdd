"""`x-recent-history`: a fanout that keeps its last messages and delivers them to each new binding."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, TypeGuard

from rabbitlike.broker.exchanges.fanout import FanoutExchange
from rabbitlike.protocol.errors import precondition_failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.exchanges.exchange import Destination
    from rabbitlike.broker.message import Message
    from rabbitlike.protocol.properties import Properties
    from rabbitlike.protocol.tables import Value

LENGTH: Final = "x-recent-history-length"
NO_STORE: Final = "x-recent-history-no-store"
DEFAULT_LENGTH: Final = 20
# Upper bound for the length of a deque, which no machine reaches.
LENGTH_MAX: Final = 1 << 31


class RecentHistoryExchange(FanoutExchange):
    __slots__ = ("_history",)

    kind = "x-recent-history"
    remembers = True

    def _prepare(self) -> None:
        super()._prepare()
        length = self.arguments.get(LENGTH, DEFAULT_LENGTH)
        # check_arguments refuses a length that is not a positive integer.
        self._history: deque[Message] = deque(maxlen=min(length, LENGTH_MAX) if _is_length(length) else 0)

    @property
    def cacheable(self) -> bool:
        # With a cached route, messages would bypass the exchange and its history.
        return False

    def check_arguments(self) -> None:
        length = self.arguments.get(LENGTH, DEFAULT_LENGTH)
        if not _is_length(length):
            shown = f'<<"{length}">>' if isinstance(length, str) else str(length)
            raise precondition_failed(f"Invalid argument {shown}, '{LENGTH}' must be a positive integer")

    def remember(self, message: Message, properties: Properties) -> None:
        if properties.mentions(NO_STORE.encode()):
            headers = properties.headers
            if headers and headers.get(NO_STORE) is True:
                return
        self._history.append(message)

    def bound(self, binding: Binding, deliver: Callable[[Destination, Message], None]) -> None:
        for message in tuple(self._history):
            deliver(binding.destination, message)


def _is_length(value: Value) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
