"""`x-consistent-hash`: each message goes to one destination, chosen by its hash; the binding key is a weight.

Each binding has points on a ring, many per unit of weight; a message goes to the first point after its hash. Points
depend only on the binding, so a new binding moves keys only to itself, and routes are stable across restarts. The
number of points is bounded.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.exchanges.exchange import Exchange
from rabbitlike.broker.exchanges.hashing import hash_octets
from rabbitlike.broker.exchanges.values import comparable, shown
from rabbitlike.protocol.errors import precondition_failed

if TYPE_CHECKING:
    from collections.abc import Collection

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.exchanges.exchange import Destination
    from rabbitlike.protocol.properties import Properties
    from rabbitlike.protocol.tables import Value

HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")

# Enough points that the shares of equal bindings differ by only a few per cent.
POINTS_PER_WEIGHT: Final = 256
# Weights come from clients: beyond this many points the shares are scaled down instead.
POINTS_LIMIT: Final = 1 << 16

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DIGEST: Final = struct.Struct(">8Q")


class ConsistentHashExchange(Exchange):
    __slots__ = ("_header", "_owners", "_points", "_property", "_stale")

    kind = "x-consistent-hash"
    # parity: only the routing key is hashed, not the keys of CC and BCC.
    every_key = False

    def _prepare(self) -> None:
        self._header = self.arguments.get(HASH_HEADER)
        self._property = self.arguments.get(HASH_PROPERTY)
        #: The ring: sorted points, and the destination of each. The first message after a change rebuilds it.
        self._points: list[int] = []
        self._owners: list[Destination] = []
        self._stale = False

    @property
    def cacheable(self) -> bool:
        return self._header is None and self._property is None

    def check_arguments(self) -> None:
        if self._header is not None and self._property is not None:
            raise precondition_failed(f"{HASH_HEADER} and {HASH_PROPERTY} are mutually exclusive")
        if self._header is not None and not isinstance(self._header, str):
            raise precondition_failed(f"Unsupported header: {shown(self._header)}")
        if self._property is not None and self._property not in PROPERTIES:
            raise precondition_failed(f"Unsupported property: {shown(self._property)}")

    def check_binding(self, binding: Binding) -> None:
        if not _INTEGER.fullmatch(binding.routing_key):
            raise precondition_failed(f'The binding key must be an integer: <<"{binding.routing_key}">>')
        if int(binding.routing_key) < 1:
            raise precondition_failed("The binding key must be greater than 0")

    def match(self, routing_key: str, properties: Properties) -> Collection[Destination]:
        if self._stale:
            self._build_ring()
        if not self._points:
            return ()
        place = bisect_right(self._points, hash_octets(self._hashed(routing_key, properties)))
        return (self._owners[place if place < len(self._owners) else 0],)

    def _hashed(self, routing_key: str, properties: Properties) -> bytes:
        """The octets of a message to hash. All messages without the header or property have the same hash."""
        value: Value
        if self._header is not None:
            headers = properties.headers
            value = headers.get(str(self._header)) if headers else None
        elif self._property is not None:
            value = getattr(properties, str(self._property))
        else:
            value = routing_key
        if isinstance(value, str):
            return value.encode("utf-8", "surrogateescape")
        return b"" if value is None else str(comparable(value)).encode("utf-8", "surrogateescape")

    def _build_ring(self) -> None:
        weights = {binding: int(binding.routing_key) for binding in self.bindings}
        total = sum(weights.values())
        ring: list[tuple[int, int, Destination]] = []
        for order, (binding, weight) in enumerate(weights.items()):
            count = min(weight * POINTS_PER_WEIGHT, max(1, weight * POINTS_LIMIT // total))
            ring += [(point, order, binding.destination) for point in _points(binding, count)]
        ring.sort(key=lambda entry: entry[:2])
        self._points = [point for point, _, _ in ring]
        self._owners = [destination for _, _, destination in ring]
        self._stale = False

    def _index(self, binding: Binding) -> None:
        self._stale = True
        self._points = []
        self._owners = []

    _unindex = _index


def _points(binding: Binding, count: int) -> list[int]:
    """The first `count` points of a binding. A lower count gives a prefix of the same list, so scaling moves few keys.

    Points do not depend on the weight, so changing the weight moves few keys too. Of two bindings to one destination
    the one with the higher weight counts.
    """
    seed = f"{binding.destination_type}:{binding.destination.name}".encode("utf-8", "surrogateescape")
    points: list[int] = []
    for block in range((count + 7) // 8):
        points += _DIGEST.unpack(blake2b(seed, salt=block.to_bytes(16, "big")).digest())
    return points[:count]
