"""Exchanges and routes of delayed messages: how many messages each exchange has, and a cache of routes by address.

Each exchange has a number, which is part of the level of its messages on disk, so that a restart can count the messages
of each exchange without reading them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.message import exchange_of, routing_key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.statistics.counters import Counters

#: How many addresses the cache of routes has.
ROUTES_KEPT: Final = 4096
#: Above this many exchanges, new ones take over the numbers of those without a message.
SOURCES_KEPT: Final = 64


class Source:
    """An exchange with delayed messages."""

    __slots__ = ("count", "name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        #: How many messages are delayed for it.
        self.count = 0


class Route:
    """The route of one address, cached until topology changes."""

    __slots__ = ("generation", "inlets", "queues", "routing_key", "source")

    def __init__(self, source: Source, routing_key: str) -> None:
        self.source = source
        self.routing_key = routing_key
        self.generation = -1
        #: None: each message must be routed on its own.
        self.queues: list[Queue] | None = None
        #: The counters of these queues for messages from the exchange.
        self.inlets: list[Counters] = []


class Routes:
    """All routes and sources of one vhost's delays. `renamed` is called when the names by number have changed."""

    __slots__ = ("_renamed", "_routes", "by_name", "by_number", "generation")

    def __init__(self, renamed: Callable[[], None]) -> None:
        self._renamed = renamed
        self._routes: dict[bytes, Route] = {}
        #: The turn's generation when a route was last found.
        self.generation = -1
        self.by_name: dict[str, Source] = {}
        self.by_number: list[Source] = []

    @property
    def names(self) -> list[str]:
        return [source.name for source in self.by_number]

    def recover(self, names: Sequence[str]) -> None:
        for number, name in enumerate(names):
            source = self.by_name[name] = Source(name, number)
            self.by_number.append(source)

    def of(self, address: bytes) -> Route:
        route = self._routes.get(address)
        if route is None:
            if len(self._routes) >= ROUTES_KEPT:
                self._routes.clear()
            route = Route(self._source(exchange_of(address)), routing_key_of(address))
            self._routes[address] = route
        return route

    def forget(self, generation: int) -> None:
        """Clear the cache after a change of topology, also so that no route holds a deleted queue."""
        self.generation = generation
        self._routes.clear()

    def detach(self) -> None:
        """Break the references to the delays of a deleted vhost."""
        self._routes.clear()
        self._renamed = _ignore

    def _source(self, name: str) -> Source:
        source = self.by_name.get(name)
        if source is None:
            source = self._reuse(name) if len(self.by_number) >= SOURCES_KEPT else None
            if source is None:
                source = Source(name, len(self.by_number))
                self.by_number.append(source)
            self.by_name[name] = source
            self._renamed()
        return source

    def _reuse(self, name: str) -> Source | None:
        for idle in self.by_number:
            if idle.count == 0:
                del self.by_name[idle.name]
                self._routes.clear()
                source = self.by_number[idle.number] = Source(name, idle.number)
                return source
        return None


def _ignore() -> None:
    """Do nothing: the callback for renames after the vhost is deleted."""
