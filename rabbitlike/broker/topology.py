"""Durable topology as records, and back: what outlives a restart beside messages.

Every change of something durable writes or erases one record, in the same commit as whatever else the turn did. Names
are JSON, arguments the field table as it came, so that types survive. With no journal nothing is written.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final

from rabbitlike.broker.permissions import Permission
from rabbitlike.protocol import tables
from rabbitlike.storage.api import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.exchanges.exchange import Exchange
    from rabbitlike.broker.journal import Journal
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.users import User
    from rabbitlike.protocol.tables import Table

#: Kinds in the order in which they must come back.
VHOST: Final = "vhost"
USER: Final = "user"
PERMISSION: Final = "permission"
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"
BINDING: Final = "binding"


class Topology:
    """Tells the journal what is durable and changed."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal

    def add_vhost(self, name: str) -> None:
        self._write(VHOST, _key(name), {})

    def remove_vhost(self, name: str) -> None:
        self._erase(VHOST, _key(name))

    def add_user(self, user: User) -> None:
        value = {"hash": user.password_hash, "algorithm": user.hashing_algorithm, "tags": sorted(user.tags)}
        self._write(USER, _key(user.name), value)

    def remove_user(self, name: str) -> None:
        self._erase(USER, _key(name))

    def set_permission(self, user: str, vhost: str, permission: Permission) -> None:
        value = {"configure": permission.configure, "write": permission.write, "read": permission.read}
        self._write(PERMISSION, _key(user, vhost), value)

    def clear_permission(self, user: str, vhost: str) -> None:
        self._erase(PERMISSION, _key(user, vhost))

    def add_exchange(self, exchange: Exchange) -> None:
        if exchange.durable:
            value = {
                "kind": exchange.kind,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": _text(exchange.arguments),
            }
            self._write(EXCHANGE, _key(exchange.vhost, exchange.name), value)

    def remove_exchange(self, exchange: Exchange) -> None:
        if exchange.durable:
            self._erase(EXCHANGE, _key(exchange.vhost, exchange.name))

    def add_queue(self, queue: Queue) -> None:
        if queue.durable and queue.log is not None:
            value = {
                "id": queue.log.queue_id,
                "auto_delete": queue.auto_delete,
                "arguments": _text(queue.arguments),
            }
            self._write(QUEUE, _key(queue.vhost.name, queue.name), value)

    def remove_queue(self, queue: Queue) -> None:
        if queue.durable:
            self._erase(QUEUE, _key(queue.vhost.name, queue.name))

    def add_binding(self, vhost: str, source: Exchange, binding: Binding) -> None:
        if source.durable and binding.destination.durable:
            self._write(BINDING, _binding_key(vhost, binding), {})

    def remove_binding(self, vhost: str, source: Exchange, binding: Binding) -> None:
        if source.durable and binding.destination.durable:
            self._erase(BINDING, _binding_key(vhost, binding))

    def _write(self, kind: str, key: str, value: dict[str, Any]) -> None:
        if self._journal is not None:
            self._journal.write(Record(kind, key, json.dumps(value)))

    def _erase(self, kind: str, key: str) -> None:
        if self._journal is not None:
            self._journal.erase(kind, key)


def _key(*names: str) -> str:
    return json.dumps(names)


def _text(table: Table) -> str:
    return b64encode(tables.encode(table)).decode("ascii")


def _table(text: str) -> Table:
    return tables.decode(b64decode(text))[0]


def _binding_key(vhost: str, binding: Binding) -> str:
    from rabbitlike.broker.exchanges.exchange import Exchange

    kind = "exchange" if isinstance(binding.destination, Exchange) else "queue"
    return _key(vhost, binding.source, kind, binding.destination.name, binding.routing_key, _text(binding.arguments))


def restore(broker: Broker, records: Iterable[Record]) -> None:
    """Bring back everything the records speak of, through the same doors it came in by; what is broken is skipped
    and said."""
    found: dict[str, list[tuple[list[str], dict[str, Any]]]] = {}
    for record in records:
        found.setdefault(record.kind, []).append((json.loads(record.key), json.loads(record.value)))
    for (name,), _ in found.get(VHOST, ()):
        broker.restore_vhost(name)
    for (name,), value in found.get(USER, ()):
        broker.users.add_hashed(name, value["hash"], algorithm=value["algorithm"], tags=value["tags"])
    for (user, vhost), value in found.get(PERMISSION, ()):
        broker.permissions.set(user, vhost, Permission(value["configure"], value["write"], value["read"]))
    for (vhost, name), value in found.get(EXCHANGE, ()):
        broker.vhosts[vhost].declare_exchange(
            name,
            value["kind"],
            durable=True,
            auto_delete=value["auto_delete"],
            internal=value["internal"],
            arguments=_table(value["arguments"]),
        )
    for (vhost, name), value in found.get(QUEUE, ()):
        broker.vhosts[vhost].restore_queue(name, value["auto_delete"], _table(value["arguments"]), value["id"])
    for (vhost, source, kind, destination, routing_key, arguments), _ in found.get(BINDING, ()):
        home = broker.vhosts[vhost]
        target = home.exchange(destination) if kind == "exchange" else home.queue(destination)
        home.bind(source, target, routing_key, _table(arguments))
