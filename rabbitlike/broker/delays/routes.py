"""Where delayed messages come from and go to: how many wait for each exchange, and routes remembered per address.

An exchange has a number, which is part of where its messages are on disk, so that a restart can tell how many wait for
which exchange without reading them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.message import exchange_of, routing_key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.statistics.counters import Counters

#: Addresses whose ways are remembered.
ROUTES_KEPT: Final = 4096
#: Exchanges beyond this many take over the numbers of those without a message.
SOURCES_KEPT: Final = 64


class Source:
    """An exchange with delayed messages."""

    __slots__ = ("count", "name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        #: How many wait for it.
        self.count = 0


class Route:
    """Where messages of one address go, remembered while topology stands."""

    __slots__ = ("generation", "inlets", "queues", "routing_key", "source")

    def __init__(self, source: Source, routing_key: str) -> None:
        self.source = source
        self.routing_key = routing_key
        self.generation = -1
        #: None: each message must be asked.
        self.queues: list[Queue] | None = None
        #: What each of them counts of it.
        self.inlets: list[Counters] = []


class Routes:
    """All ways and sources of one vhost's delays. `renamed` hears when the names by number have changed."""

    __slots__ = ("_renamed", "_routes", "by_name", "by_number", "generation")

    def __init__(self, renamed: Callable[[], None]) -> None:
        self._renamed = renamed
        self._routes: dict[bytes, Route] = {}
        #: The turn's, when a route was found last.
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
        """Topology has changed: every route must be found anew, and no deleted queue is held by an old one."""
        self.generation = generation
        self._routes.clear()

    def detach(self) -> None:
        """The vhost is deleted: nothing leads back to its delays."""
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
    """Who hears of names once the vhost is deleted."""
