"""A binding: from a source exchange to a queue or another exchange.

Two bindings are equal if source, destination, key and arguments are equal, types included; the order of the arguments
does not matter. A binding is immutable. The vhost removes the bindings of a deleted queue or exchange.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote_plus

from rabbitlike.broker.exchanges.exchange import Exchange
from rabbitlike.broker.exchanges.values import comparable_table
from rabbitlike.protocol.erlang_hash import hash_table
from rabbitlike.protocol.tables import Table

if TYPE_CHECKING:
    from collections.abc import Hashable

    from rabbitlike.broker.exchanges.exchange import Destination

    #: Source name, destination, routing key, arguments. The destination object includes its kind and name.
    Identity: TypeAlias = tuple[str, Destination, str, tuple[tuple[str, str, Hashable], ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    source: str
    destination: Destination
    routing_key: str
    arguments: Table = field(default_factory=Table)
    identity: Identity = field(init=False, repr=False)

    def __post_init__(self) -> None:
        identity = (self.source, self.destination, self.routing_key, comparable_table(self.arguments))
        object.__setattr__(self, "identity", identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binding) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def destination_type(self) -> str:
        return "exchange" if isinstance(self.destination, Exchange) else "queue"

    @property
    def properties_key(self) -> str:
        """The binding's key among those with the same source and destination, as in URLs of the HTTP API.

        parity: identical octet by octet, because tools store these URLs.
        """
        if not self.arguments:
            return properties_key_of(self.routing_key)
        digest = urlsafe_b64encode(hash_table(self.arguments).to_bytes(4, "big"))
        return f"{_quote(self.routing_key)}~{digest.rstrip(b'=').decode()}"


def properties_key_of(routing_key: str) -> str:
    """`Binding.properties_key` of a binding without arguments."""
    return _quote(routing_key) or "~"


def _quote(text: str) -> str:
    return quote_plus(text, safe="", errors="surrogateescape").replace("~", "%7E")
