"""Applies entries of definitions to a broker.

parity: RabbitMQ's format, of 3.x and 4.x. Each entry is applied by the same methods that clients use. Existing queues,
exchanges and bindings stay as they are; accounts and policies are updated. Features that this broker lacks raise
Unsupported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.accounts.permissions import EVERYTHING, Permission, TopicPermission
from rabbitlike.broker.definitions.entries import Entry
from rabbitlike.broker.exchanges import KINDS, Exchange
from rabbitlike.broker.policies.keys import OPERATOR_POLICY, POLICY, unknown_keys
from rabbitlike.broker.policies.policies import make_policy
from rabbitlike.broker.queue_settings.arguments import is_queue_type, queue_type_named, with_queue_type
from rabbitlike.broker.vhost import RESERVED
from rabbitlike.protocol.errors import AmqpError

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.terms import Json
    from rabbitlike.broker.vhost import Vhost

log = logging.getLogger(__name__)

#: Maximum number of skipped entries that are logged.
MOST_LOGGED: Final = 100
_POLICY_FIELDS: Final = frozenset(("pattern", "definition", "priority", "apply-to"))


class Unsupported(ValueError):
    """The entry needs a feature that this broker does not have: it is skipped."""


class Reader:
    """One import or dry run, with a method for each category."""

    def __init__(self, broker: Broker, importer: str | None) -> None:
        self._broker = broker
        self._importer = importer
        #: Reasons for skipped entries, in order.
        self.skipped: list[str] = []
        #: Skipped queues and exchanges: their bindings are skipped as well.
        self._missing: set[tuple[str, str, str]] = set()

    def take(self, take: Callable[[Entry], None], entry: Entry) -> None:
        """Apply one entry. Raises DefinitionsError, which names it."""
        try:
            take(entry)
        except Unsupported as problem:
            self._skip(f"{entry} is not taken over: {problem}")
        except AmqpError as error:
            raise entry.fault(error.text) from None
        except ValueError as error:
            raise entry.fault(str(error)) from None

    def _skip(self, said: str) -> None:
        self.skipped.append(said)
        if len(self.skipped) <= MOST_LOGGED:
            self._warn(said)

    def _warn(self, said: str) -> None:
        log.warning("definitions: %s", said)

    def order(self, *, is_whole: bool) -> list[tuple[str, Callable[[Entry], None]]]:
        """Categories and their methods in the order of import. parity: RabbitMQ's; policies before their queues."""
        whole: list[tuple[str, Callable[[Entry], None]]] = [
            ("users", self._user),
            ("vhosts", self._vhost),
            ("permissions", self._permission),
            ("exchanges", self._exchange),
            ("topic_permissions", self._topic_permission),
            ("global_parameters", self._global_parameter),
            ("policies", self._policy),
            ("parameters", self._parameter),
            ("queues", self._queue),
            ("bindings", self._binding),
        ]
        of_vhost = ("exchanges", "policies", "parameters", "queues", "bindings")
        return whole if is_whole else [each for each in whole if each[0] in of_vhost]

    def check_queue_limits(self, entries: Sequence[Mapping[str, Json]], only: str | None) -> None:
        """Refuse queues beyond the limits of their vhosts. Only the dry run implements this."""

    def _home(self, entry: Entry) -> Vhost:
        vhost = self._broker.vhosts.get(entry.vhost)
        if vhost is None:
            raise ValueError(f'Please create virtual host "{entry.vhost}" prior to importing definitions.')
        return vhost

    # Accounts

    def _user(self, entry: Entry) -> None:
        self._broker.set_user(
            entry.text("name"),
            password=entry.optional_text("password"),
            password_hash=entry.optional_text("password_hash"),
            hashing_algorithm=entry.optional_text("hashing_algorithm"),
            tags=entry.tags(),
            limits=entry.limits(),
        )

    def _vhost(self, entry: Entry) -> None:
        name = entry.text("name")
        metadata = Entry("vhosts", {**entry.table("metadata"), **entry.said("description", "tags"), "name": name})
        queue_type = metadata.optional_text("default_queue_type") or entry.optional_text("default_queue_type")
        if queue_type is not None and not is_queue_type(queue_type):
            if queue_type != "undefined":
                self._skip(f"the default queue type of {entry} is not taken over: there is no type '{queue_type}' here")
            queue_type = None
        is_new = self._broker.set_vhost(
            name,
            description=metadata.optional_text("description"),
            tags=metadata.tags() if "tags" in metadata else None,
            default_queue_type=queue_type,
            is_protected=metadata.flag("protected_from_deletion", default=False) or None,
            is_traced=entry.flag("tracing", default=False) or None,
        )
        if is_new and self._importer is not None and self._importer in self._broker.users:
            self._broker.set_permission(self._importer, name, EVERYTHING)
        if limits := entry.limits():
            self._broker.set_vhost_limits(name, {**self._broker.vhosts[name].limits, **limits})

    def _permission(self, entry: Entry) -> None:
        self._home(entry)
        permission = Permission(entry.text("configure"), entry.text("write"), entry.text("read"))
        self._broker.set_permission(self._known_user(entry), entry.vhost, permission)

    def _topic_permission(self, entry: Entry) -> None:
        self._home(entry)
        permission = TopicPermission(entry.text("write"), entry.text("read"))
        self._broker.set_topic_permission(self._known_user(entry), entry.vhost, entry.text("exchange"), permission)

    def _known_user(self, entry: Entry) -> str:
        name = entry.text("user")
        if name not in self._broker.users:
            raise ValueError("there is no such user")
        return name

    # Parameters and policies

    def _global_parameter(self, entry: Entry) -> None:
        self._broker.set_global_parameter(entry.text("name"), entry["value"])

    def _parameter(self, entry: Entry) -> None:
        component, name, value = entry.text("component"), entry.text("name"), entry["value"]
        home = self._home(entry)
        if component not in (POLICY, OPERATOR_POLICY) and not self._broker.parameters.has(component):
            raise Unsupported(f"there is no component '{component}' here")
        if component != OPERATOR_POLICY:
            self._broker.set_parameter(entry.vhost, component, name, value)
        elif isinstance(value, Mapping) and value.keys() <= _POLICY_FIELDS:
            home.policies.set(
                make_policy(
                    entry.vhost,
                    name,
                    OPERATOR_POLICY,
                    pattern=value.get("pattern"),
                    definition=value.get("definition"),
                    priority=value.get("priority", 0),
                    apply_to=value.get("apply-to", "all"),
                )
            )
        else:
            raise ValueError("its value must be an object with pattern, definition, priority and apply-to")

    def _policy(self, entry: Entry) -> None:
        home = self._home(entry)
        if unknown := unknown_keys(entry.get("definition")):
            raise Unsupported(f"there is no policy key {', '.join(map(repr, unknown))} here")
        policy = make_policy(
            entry.vhost,
            entry.text("name"),
            POLICY,
            pattern=entry.get("pattern"),
            definition=entry.get("definition"),
            priority=entry.get("priority", 0),
            apply_to=entry.get("apply-to", "all"),
        )
        home.policies.set(policy)

    # Exchanges, queues, bindings

    def _exchange(self, entry: Entry) -> None:
        home, name = self._home(entry), entry.text("name")
        if not name or name.startswith(RESERVED):
            self._warn(f"{entry} is not taken over: its name is reserved")
        elif not self._has_exchange(home, name):
            kind = entry.text("type")
            if kind not in KINDS:
                self._missing.add((home.name, "exchange", name))
                raise Unsupported(f"there is no exchange type '{kind}' here")
            home.declare_exchange(
                name,
                kind,
                durable=entry.flag("durable", default=True),
                auto_delete=entry.flag("auto_delete", default=False),
                internal=entry.flag("internal", default=False),
                arguments=entry.arguments(),
            )

    def _queue(self, entry: Entry) -> None:
        home, name = self._home(entry), entry.text("name")
        if name.startswith(RESERVED):
            self._warn(f"{entry} is not taken over: its name is reserved")
        if not name or name.startswith(RESERVED) or self._has_queue(home, name):
            return
        arguments = entry.arguments()
        said = entry.optional_text("type")
        for wanted in (said, arguments.get("x-queue-type")):
            if isinstance(wanted, str) and not is_queue_type(wanted):
                self._missing.add((home.name, "queue", name))
                raise Unsupported(f"there is no queue type '{wanted}' here")
        if said is not None and "x-queue-type" not in arguments:
            queue_type = queue_type_named(said)
            # Keep the exported type, whatever the default type of this vhost.
            if queue_type != (home.default_queue_type or "classic"):
                arguments = with_queue_type(arguments, queue_type)
        home.declare_queue(
            name,
            durable=entry.flag("durable", default=True),
            auto_delete=entry.flag("auto_delete", default=False),
            arguments=arguments,
        )

    def _binding(self, entry: Entry) -> None:
        home = self._home(entry)
        source, destination, kind = entry.text("source"), entry.text("destination"), entry.text("destination_type")
        if kind not in ("queue", "exchange"):
            raise ValueError("its destination_type must be queue or exchange")
        if not source or (kind == "queue" and destination.startswith(RESERVED)):
            return  # queues are bound to the default exchange already; queues with reserved names are skipped
        for end in (("exchange", source), (kind, destination)):
            if (home.name, *end) in self._missing:
                raise Unsupported(f"neither is its {end[0]} '{end[1]}'")
        target = self._find_exchange(home, destination) if kind == "exchange" else self._find_queue(home, destination)
        self._find_exchange(home, source)
        home.bind(source, target, entry.text("routing_key"), entry.arguments())

    # Existing objects

    def _has_exchange(self, home: Vhost, name: str) -> bool:
        return name in home.exchanges

    def _has_queue(self, home: Vhost, name: str) -> bool:
        return name in home.queues

    def _find_exchange(self, home: Vhost, name: str) -> Exchange:
        return home.exchange(name)

    def _find_queue(self, home: Vhost, name: str) -> Queue:
        return home.queue(name)
