"""Direct exchange: the routing key must equal the binding key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rabbitlike.broker.exchanges.exchange import Exchange, exclude, include

if TYPE_CHECKING:
    from collections.abc import Collection

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.exchanges.exchange import Counts, Destination
    from rabbitlike.protocol.properties import Properties


class DirectExchange(Exchange):
    __slots__ = ("_routes",)

    kind = "direct"

    def _prepare(self) -> None:
        self._routes: dict[str, Counts] = {}

    def match(self, routing_key: str, properties: Properties) -> Collection[Destination]:
        return self._routes.get(routing_key, ())

    def _index(self, binding: Binding) -> None:
        include(self._routes.setdefault(binding.routing_key, {}), binding.destination)

    def _unindex(self, binding: Binding) -> None:
        counts = self._routes[binding.routing_key]
        exclude(counts, binding.destination)
        if not counts:
            del self._routes[binding.routing_key]
