"""`x-delayed-message`: routes like the exchange type in its argument `x-delayed-type`.

This type does not implement the delay: the header `x-delay` works on every exchange (see broker/delays/delays.py). It
exists for programs written for RabbitMQ's plugin, and refuses the same arguments as the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.exchanges.exchange import Exchange
from rabbitlike.broker.exchanges.unknown import unknown_kind
from rabbitlike.protocol.errors import precondition_failed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.exchanges.exchange import Destination
    from rabbitlike.broker.message import Message
    from rabbitlike.protocol.properties import Properties

DELAYED_TYPE: Final = "x-delayed-type"


class DelayedMessageExchange(Exchange):
    __slots__ = ("_inner",)

    kind = "x-delayed-message"
    #: All other types by name, set in `exchanges/__init__.py`.
    inner_kinds: Mapping[str, type[Exchange]] = {}

    def _prepare(self) -> None:
        named = self.arguments.get(DELAYED_TYPE)
        if not isinstance(named, str):
            # parity: RabbitMQ's text, except for two misspelt words.
            raise precondition_failed(f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type")
        cls = self.inner_kinds.get(named)
        if cls is None:
            raise unknown_kind(named)
        self._inner = cls(
            self.name,
            self.vhost,
            durable=self.durable,
            auto_delete=self.auto_delete,
            internal=self.internal,
            arguments=self.arguments,
        )

    @property
    def every_key(self) -> bool:  # type: ignore[override]
        return self._inner.every_key

    @property
    def remembers(self) -> bool:  # type: ignore[override]
        return self._inner.remembers

    @property
    def cacheable(self) -> bool:
        return self._inner.cacheable

    def check_arguments(self) -> None:
        self._inner.check_arguments()

    def check_binding(self, binding: Binding) -> None:
        self._inner.check_binding(binding)

    def match(self, routing_key: str, properties: Properties) -> Collection[Destination]:
        before = self._inner.steps
        found = self._inner.match(routing_key, properties)
        self.steps += self._inner.steps - before
        return found

    def remember(self, message: Message, properties: Properties) -> None:
        self._inner.remember(message, properties)

    def bound(self, binding: Binding, deliver: Callable[[Destination, Message], None]) -> None:
        self._inner.bound(binding, deliver)

    def _index(self, binding: Binding) -> None:
        self._inner.add(binding)

    def _unindex(self, binding: Binding) -> None:
        self._inner.remove(binding)
