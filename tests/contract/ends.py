"""Stand-ins for the two ends of a binding: queues that are names only, and exchanges made in one short call."""

from typing import cast

from rabbitlike.broker.bindings import Binding
from rabbitlike.broker.exchanges import KINDS, Exchange
from rabbitlike.broker.exchanges.exchange import Destination
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.protocol.properties import EMPTY, Properties
from rabbitlike.protocol.tables import Table, Value


class NamedQueue:
    """A queue as exchanges see it: something with a name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.deleted = False

    def __repr__(self) -> str:
        return self.name


def make_queue(name: str) -> Queue:
    return cast(Queue, NamedQueue(name))


def make_exchange(
    kind: str, name: str = "x", arguments: dict[str, Value] | None = None, *, auto_delete: bool = False
) -> Exchange:
    given = Table(arguments or {})
    if kind == "x-delayed-message":
        given["x-delayed-type"] = "direct"
    exchange = KINDS[kind](name, "/", durable=False, auto_delete=auto_delete, internal=False, arguments=given)
    exchange.check_arguments()
    return exchange


def make_binding(
    exchange: Exchange, destination: Destination, key: str, arguments: dict[str, Value] | None = None
) -> Binding:
    return Binding(exchange.name, destination, key, Table(arguments or {}))


def bind(
    exchange: Exchange, destination: Destination, key: str = "", arguments: dict[str, Value] | None = None
) -> Binding:
    binding = make_binding(exchange, destination, key, arguments)
    exchange.check_binding(binding)
    exchange.add(binding)
    return binding


def matched(exchange: Exchange, key: str = "", properties: Properties = EMPTY) -> set[str]:
    return {destination.name for destination in exchange.match(key, properties)}


def with_headers(headers: dict[str, Value]) -> Properties:
    return Properties.build(headers=headers)
