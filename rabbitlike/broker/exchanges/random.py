"""`x-random`: each message goes to one bound destination, chosen at random; routing keys are ignored."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from rabbitlike.broker.exchanges.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Collection

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.exchanges.exchange import Destination
    from rabbitlike.protocol.properties import Properties


class RandomExchange(Exchange):
    __slots__ = ("_pool",)

    kind = "x-random"
    every_key = False

    def _prepare(self) -> None:
        #: One entry per binding; cleared by a change and filled by the next message.
        self._pool: list[Destination] = []

    @property
    def cacheable(self) -> bool:
        return False

    def match(self, routing_key: str, properties: Properties) -> Collection[Destination]:
        if not self._pool:
            self._pool = [binding.destination for binding in self.bindings]
            if not self._pool:
                return ()
        return (random.choice(self._pool),)

    def _index(self, binding: Binding) -> None:
        self._pool.clear()

    _unindex = _index
