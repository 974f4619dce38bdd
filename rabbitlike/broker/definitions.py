"""Definitions: taking in a document of all that is to be declared.

parity: RabbitMQ's format, of 3.x and 4.x. Reading one does what clients would do, by the same verbs, in an order in
which everything finds what it needs; what is there already stays as it is, accounts and policies are brought up to
date. `exports.py` writes one.
Nothing here waits: whoever reads or writes a long document takes it entry by entry and breathes between them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.entries import DefinitionsError, Entry, check_document
from rabbitlike.broker.limits import MAX_QUEUES
from rabbitlike.broker.permissions import EVERYTHING, Permission, TopicPermission
from rabbitlike.broker.policies import make_policy
from rabbitlike.broker.policy_keys import OPERATOR_POLICY, POLICY
from rabbitlike.broker.queues.arguments import queue_type_named, with_queue_type
from rabbitlike.broker.vhost import RESERVED
from rabbitlike.protocol.errors import AmqpError

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.terms import Json
    from rabbitlike.broker.vhost import Vhost

log = logging.getLogger(__name__)

#: Components of RabbitMQ's plugins that have no counterpart here: told of in the log, and passed over.
ELSEWHERE: Final = frozenset(("federation-upstream", "federation-upstream-set", "shovel"))
_POLICY_FIELDS: Final = frozenset(("pattern", "definition", "priority", "apply-to"))


def read(
    broker: Broker, document: Json, *, vhost: str | None = None, importer: str | None = None
) -> Iterator[tuple[str, int, int]]:
    """Take a document in, one entry with each step: where it stands then, as category, number and how many there are.

    With `vhost` it is one vhost's: no accounts, and no entry need name it. `importer` may do everything in vhosts that
    are new. Raises DefinitionsError, which names the entry; what came before it is done.
    """
    if vhost is not None and vhost not in broker.vhosts:
        raise DefinitionsError("vhost_not_found")
    categories = check_document(document, is_whole=vhost is None)
    reader = _Reader(broker, importer)
    for category, take in reader.order(is_whole=vhost is None):
        entries = categories.get(category, [])
        if category == "queues":
            reader.check_queue_limits(entries, vhost)
        for number, values in enumerate(entries, 1):
            entry = Entry(category, values, str(values.get("vhost", "")) if vhost is None else vhost)
            try:
                take(entry)
            except AmqpError as error:
                raise entry.fault(error.text) from None
            except ValueError as error:
                raise entry.fault(str(error)) from None
            yield category, number, len(entries)


class _Reader:
    """One reading: a verb for each category."""

    def __init__(self, broker: Broker, importer: str | None) -> None:
        self._broker = broker
        self._importer = importer

    def order(self, *, is_whole: bool) -> list[tuple[str, Callable[[Entry], None]]]:
        """parity: RabbitMQ's; policies before the queues they are for."""
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
        """parity: rather nothing than the first queues of too many."""
        limited = {name: vhost for name, vhost in self._broker.vhosts.items() if MAX_QUEUES in vhost.limits}
        if not limited:
            return
        places = [(str(entry.get("vhost")) if only is None else only, str(entry.get("name"))) for entry in entries]
        added = Counter(name for name, queue in places if name in limited and queue not in limited[name].queues)
        for name, count in added.items():
            vhost = limited[name]
            most = vhost.limits.get(MAX_QUEUES, -1)
            if 0 <= most < len(vhost.queues) + count:
                raise DefinitionsError(
                    f'Adding {count} queue(s) to virtual host "{name}" would exceed the limit of {most} queue(s).\n\n'
                    f"This virtual host currently has {len(vhost.queues)} queue(s) defined.\n\nImport aborted!"
                )

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
        is_new = self._broker.set_vhost(
            name,
            description=metadata.optional_text("description"),
            tags=metadata.tags() if "tags" in metadata else None,
            default_queue_type=None if queue_type in (None, "undefined") else queue_type,
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
        if component in ELSEWHERE:
            log.warning("%s is not taken over: there is no such component here", entry)
        elif component != OPERATOR_POLICY:
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
            raise ValueError("its value is to be an object of pattern, definition, priority and apply-to")

    def _policy(self, entry: Entry) -> None:
        home = self._home(entry)
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
            log.warning("%s is not taken over: its name is reserved", entry)
        elif name not in home.exchanges:
            home.declare_exchange(
                name,
                entry.text("type"),
                durable=entry.flag("durable", default=True),
                auto_delete=entry.flag("auto_delete", default=False),
                internal=entry.flag("internal", default=False),
                arguments=entry.arguments(),
            )

    def _queue(self, entry: Entry) -> None:
        home, name = self._home(entry), entry.text("name")
        if name.startswith(RESERVED):
            log.warning("%s is not taken over: its name is reserved", entry)
        if not name or name in home.queues or name.startswith(RESERVED):
            return
        arguments = entry.arguments()
        said = entry.optional_text("type")
        if said is not None and "x-queue-type" not in arguments:
            queue_type = queue_type_named(said)
            # As it was, whatever queues are in this vhost when nothing is said.
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
            raise ValueError("its destination_type is to be queue or exchange")
        if not source or (kind == "queue" and destination.startswith(RESERVED)):
            return  # as queues are: the default exchange's come with them, those of reserved names are passed over
        target = home.exchange(destination) if kind == "exchange" else home.queue(destination)
        home.bind(source, target, entry.text("routing_key"), entry.arguments())
