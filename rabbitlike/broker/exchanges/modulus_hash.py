"""`x-modulus-hash`: the hash of the routing key, modulo the number of bindings, selects the destination.

Destinations are ordered by name, so the same bindings give the same routes, in whatever order they were created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rabbitlike.broker.exchanges.exchange import Exchange
from rabbitlike.broker.exchanges.hashing import hash_octets

if TYPE_CHECKING:
    from collections.abc import Collection

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.exchanges.exchange import Destination
    from rabbitlike.protocol.properties import Properties


class ModulusHashExchange(Exchange):
    __slots__ = ("_slots",)

    kind = "x-modulus-hash"
    every_key = False

    def _prepare(self) -> None:
        #: One entry per binding; cleared by a change and filled by the next message.
        self._slots: list[Destination] = []

    def match(self, routing_key: str, properties: Properties) -> Collection[Destination]:
        if not self._slots:
            self._slots = [binding.destination for binding in sorted(self.bindings, key=_order)]
            if not self._slots:
                return ()
        return (self._slots[hash_octets(routing_key.encode("utf-8", "surrogateescape")) % len(self._slots)],)

    def _index(self, binding: Binding) -> None:
        self._slots.clear()

    _unindex = _index


def _order(binding: Binding) -> tuple[str, str, str, str]:
    return binding.destination.name, binding.destination_type, binding.routing_key, binding.properties_key
