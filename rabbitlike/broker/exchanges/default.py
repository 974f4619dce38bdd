"""The default exchange: every queue is bound to it by its own name; it has no other bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rabbitlike.broker.exchanges.exchange import Exchange
from rabbitlike.protocol.tables import Table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.exchanges.exchange import Destination
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.terms import Json
    from rabbitlike.protocol.properties import Properties


class DefaultExchange(Exchange):
    """Looks up the vhost's queues directly, so that declaring a queue needs no binding."""

    __slots__ = ("_queues",)

    # parity: to clients and the HTTP API it is a direct exchange.
    kind = "direct"

    def __init__(self, vhost: str, queues: Mapping[str, Queue]) -> None:
        super().__init__("", vhost, durable=True, auto_delete=False, internal=False, arguments=Table())
        self._queues = queues

    def match(self, routing_key: str, properties: Properties) -> Collection[Destination]:
        queue = self._queues.get(routing_key)
        return () if queue is None else (queue,)

    def obey(self, definition: Mapping[str, Json]) -> None:
        """Ignore policies. parity: the default exchange may have a policy, but no alternate exchange."""

    def _index(self, binding: Binding) -> None:
        raise AssertionError("nothing can be bound to the default exchange")

    _unindex = _index
