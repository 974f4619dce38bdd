"""Stores durable topology as records and restores it at start.

Each change of a durable object writes or erases one record, in the same commit as the other changes of the turn. Keys
are JSON; arguments are field tables as received, which keep their types. Without a journal nothing is written.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rabbitlike.broker.accounts.permissions import Permission, TopicPermission
from rabbitlike.broker.policies.keys import OPERATOR_POLICY, POLICY, PolicyKind
from rabbitlike.broker.queue_settings.settings import DEFAULT_LEVELS
from rabbitlike.broker.schemas.schema import text_of
from rabbitlike.protocol import tables
from rabbitlike.storage.api import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rabbitlike.broker.accounts.users import User
    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.exchanges.exchange import Exchange
    from rabbitlike.broker.journal import Journal
    from rabbitlike.broker.policies.parameters import Parameter
    from rabbitlike.broker.policies.policies import Policy
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.terms import Json
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.protocol.tables import Table

log = logging.getLogger(__name__)

#: Kinds of records, in the order in which they must be restored.
VHOST: Final = "vhost"
USER: Final = "user"
PERMISSION: Final = "permission"
TOPIC_PERMISSION: Final = "topic_permission"
PARAMETER: Final = "parameter"
GLOBAL_PARAMETER: Final = "global_parameter"
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"
BINDING: Final = "binding"
DELAYS: Final = "delays"

_SCHEMA: Final = "x-schema"


class Topology:
    """Writes changes of durable objects to the journal."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal

    def add_vhost(self, vhost: Vhost) -> None:
        value = {
            "description": vhost.description,
            "tags": vhost.tags,
            "default_queue_type": vhost.default_queue_type,
            "is_protected": vhost.is_protected,
            "is_traced": vhost.is_traced,
        }
        self._write(VHOST, _key(vhost.name), value)

    def remove_vhost(self, name: str) -> None:
        self._erase(VHOST, _key(name))

    def add_user(self, user: User) -> None:
        value = {
            "hash": user.password_hash,
            "algorithm": user.hashing_algorithm,
            "tags": user.tags,
            "limits": user.limits,
        }
        self._write(USER, _key(user.name), value)

    def remove_user(self, name: str) -> None:
        self._erase(USER, _key(name))

    def set_permission(self, user: str, vhost: str, permission: Permission) -> None:
        value = {"configure": permission.configure, "write": permission.write, "read": permission.read}
        self._write(PERMISSION, _key(user, vhost), value)

    def clear_permission(self, user: str, vhost: str) -> None:
        self._erase(PERMISSION, _key(user, vhost))

    def set_topic_permission(self, user: str, vhost: str, exchange: str, permission: TopicPermission) -> None:
        value = {"write": permission.write, "read": permission.read}
        self._write(TOPIC_PERMISSION, _key(user, vhost, exchange), value)

    def clear_topic_permission(self, user: str, vhost: str, exchange: str) -> None:
        self._erase(TOPIC_PERMISSION, _key(user, vhost, exchange))

    def set_parameter(self, parameter: Parameter) -> None:
        vhost, component, name, value = parameter
        self._write(PARAMETER, _key(vhost, component, name), {"value": value})

    def clear_parameter(self, vhost: str, component: str, name: str) -> None:
        self._erase(PARAMETER, _key(vhost, component, name))

    def set_global_parameter(self, name: str, value: Json) -> None:
        self._write(GLOBAL_PARAMETER, _key(name), {"value": value})

    def clear_global_parameter(self, name: str) -> None:
        self._erase(GLOBAL_PARAMETER, _key(name))

    def set_policy(self, policy: Policy) -> None:
        self._write(policy.kind, _key(policy.vhost, policy.name), policy.value())

    def remove_policy(self, policy: Policy) -> None:
        self._erase(policy.kind, _key(policy.vhost, policy.name))

    def set_delays(self, vhost: str, queue_id: int, exchanges: Sequence[str]) -> None:
        """Write the queue number that stores a vhost's delayed messages, and the exchanges that their levels number."""
        self._write(DELAYS, _key(vhost), {"id": queue_id, "exchanges": exchanges})

    def remove_delays(self, vhost: str) -> None:
        self._erase(DELAYS, _key(vhost))

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
            if queue.is_paused:
                value["paused"] = True
            if queue.settings.levels != DEFAULT_LEVELS:
                value["levels"] = queue.settings.levels  # the option may differ at the next start
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
    """Restore everything in the records through the same methods that clients' declarations use. Invalid objects are
    skipped and logged."""
    found: dict[str, list[tuple[list[str], dict[str, Any]]]] = {}
    for record in records:
        found.setdefault(record.kind, []).append((json.loads(record.key), json.loads(record.value)))
    _restore_accounts(broker, found)
    _restore_policies(broker, found)
    for (vhost, name), value in found.get(EXCHANGE, ()):
        broker.vhosts[vhost].declare_exchange(
            name,
            value["kind"],
            durable=True,
            auto_delete=value["auto_delete"],
            internal=value["internal"],
            arguments=_arguments(f"exchange '{name}' in vhost '{vhost}'", value),
        )
    for (vhost, name), value in found.get(QUEUE, ()):
        broker.vhosts[vhost].restore_queue(
            name,
            value["auto_delete"],
            _arguments(f"queue '{name}' in vhost '{vhost}'", value),
            value["id"],
            levels=value.get("levels", DEFAULT_LEVELS),
            is_paused=value.get("paused", False),
        )
    for (vhost, source, kind, destination, routing_key, arguments), _ in found.get(BINDING, ()):
        home = broker.vhosts[vhost]
        if kind == "queue" and destination not in home.queues:
            # The queue was deleted, and the broker stopped before it had removed all its bindings.
            if broker.journal is not None:
                broker.journal.erase(BINDING, _key(vhost, source, kind, destination, routing_key, arguments))
            continue
        target = home.exchange(destination) if kind == "exchange" else home.queue(destination)
        home.bind(source, target, routing_key, _table(arguments))


def _arguments(place: str, value: dict[str, Any]) -> Table:
    """The arguments as declared, without a schema that is invalid now: the queue's messages matter more."""
    arguments = _table(value["arguments"])
    if _SCHEMA in arguments:
        try:
            text_of(arguments[_SCHEMA])
        except ValueError as error:
            log.error("%s: ignoring its schema: %s", place, error)
            del arguments[_SCHEMA]
    return arguments


def delays_of(records: Iterable[Record]) -> dict[str, tuple[int, list[str]]]:
    """The values that `set_delays` wrote, by vhost."""
    found: dict[str, tuple[int, list[str]]] = {}
    for record in records:
        if record.kind == DELAYS:
            (vhost,), value = json.loads(record.key), json.loads(record.value)
            found[vhost] = (value["id"], value["exchanges"])
    return found


def _restore_accounts(broker: Broker, found: dict[str, list[tuple[list[str], dict[str, Any]]]]) -> None:
    for (name,), value in found.get(VHOST, ()):
        vhost = broker.restore_vhost(name)
        vhost.description = value.get("description", "")
        vhost.tags = tuple(value.get("tags", ()))
        vhost.default_queue_type = value.get("default_queue_type")
        vhost.is_protected = value.get("is_protected", False)
        vhost.is_traced = value.get("is_traced", False)
        vhost.retrace()
    for (name,), value in found.get(USER, ()):
        broker.users.add_hashed(
            name, value["hash"], algorithm=value["algorithm"], tags=value["tags"], limits=value.get("limits", {})
        )
    for (user, place), value in found.get(PERMISSION, ()):
        with _saying(f"permissions of user '{user}' in vhost '{place}'"):
            broker.permissions.set(user, place, Permission(value["configure"], value["write"], value["read"]))
    for (user, place, exchange), value in found.get(TOPIC_PERMISSION, ()):
        with _saying(f"topic permissions of user '{user}' in vhost '{place}'"):
            broker.permissions.set_topic(user, place, exchange, TopicPermission(value["write"], value["read"]))
    for (place, component, name), value in found.get(PARAMETER, ()):
        broker.parameters.set(place, component, name, value["value"])
    for (name,), value in found.get(GLOBAL_PARAMETER, ()):
        broker.parameters.globals[name] = value["value"]


def _restore_policies(broker: Broker, found: dict[str, list[tuple[list[str], dict[str, Any]]]]) -> None:
    from rabbitlike.broker.policies.policies import make_policy
    from rabbitlike.broker.policies.webhook_urls import without_broken

    kinds: tuple[PolicyKind, ...] = (POLICY, OPERATOR_POLICY)
    for kind in kinds:
        for (vhost, name), value in found.get(kind, ()):
            with _saying(f"policy '{name}' in vhost '{vhost}'"):
                policy = make_policy(
                    vhost,
                    name,
                    kind,
                    pattern=value["pattern"],
                    definition=without_broken(value["definition"]),
                    priority=value["priority"],
                    apply_to=value["apply-to"],
                )
                broker.vhosts[vhost].policies.restore(policy)


@contextmanager
def _saying(what: str) -> Iterator[None]:
    """Log a ValueError: an object that an earlier version accepted and this one refuses must not prevent a start."""
    try:
        yield
    except ValueError as error:
        log.error("%s cannot be restored and must be set again: %s", what, error)
