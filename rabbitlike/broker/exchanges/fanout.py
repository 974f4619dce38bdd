"""Fanout exchange: every destination gets every message; routing keys are ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rabbitlike.broker.exchanges.exchange import Exchange, exclude, include

if TYPE_CHECKING:
    from collections.abc import Collection

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.exchanges.exchange import Counts, Destination
    from rabbitlike.protocol.properties import Properties


class FanoutExchange(Exchange):
    __slots__ = ("_destinations",)

    kind = "fanout"
    every_key = False

    def _prepare(self) -> None:
        self._destinations: Counts = {}

    def match(self, routing_key: str, properties: Properties) -> Collection[Destination]:
        return self._destinations

    def _index(self, binding: Binding) -> None:
        include(self._destinations, binding.destination)

    def _unindex(self, binding: Binding) -> None:
        exclude(self._destinations, binding.destination)
