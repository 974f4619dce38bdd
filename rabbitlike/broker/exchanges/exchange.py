"""The base class of all exchange types.

A type indexes its bindings so that `match` does not scan all of them. `match` may return duplicates and may return its
live index: the caller copies what it keeps. An exchange does not know the vhost's other exchanges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, TypeVar

from rabbitlike.broker.exchanges.values import shown
from rabbitlike.broker.statistics.counters import Counters
from rabbitlike.protocol.errors import AmqpError, precondition_failed
from rabbitlike.protocol.tables import kind_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from rabbitlike.broker.bindings import Binding, Identity
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.policies.policies import Policy
    from rabbitlike.broker.publishing.deduplication import Deduplication
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.schemas.schema import Schema
    from rabbitlike.broker.terms import Json
    from rabbitlike.protocol.properties import Properties
    from rabbitlike.protocol.tables import Table

Destination: TypeAlias = "Queue | Exchange"
#: Destinations in binding order, each with the number of bindings that lead to it.
Counts: TypeAlias = "dict[Destination, int]"
D = TypeVar("D")

#: The argument that names the alternate exchange: RabbitMQ's spelling, then LavinMQ's.
ALTERNATE: Final = ("alternate-exchange", "x-alternate-exchange")
#: Maximum number of steps to route a message, some milliseconds, during which the broker does nothing else.
MOST_STEPS: Final = 100_000


class Exchange:
    """Base class of all types: identity, bindings from it, and default implementations."""

    __slots__ = (
        "_bindings",
        "alternate",
        "arguments",
        "auto_delete",
        "counters",
        "deduplication",
        "downstream",
        "durable",
        "internal",
        "name",
        "operator_policy",
        "policy",
        "schema",
        "steps",
        "vhost",
        "violations",
    )

    kind: ClassVar[str]
    #: Whether the keys of CC and BCC are matched as well. False if one match is enough, whatever the keys.
    every_key: ClassVar[bool] = True
    #: Whether `remember` must be called for each message that passes.
    remembers: ClassVar[bool] = False

    def __init__(
        self, name: str, vhost: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        self.name = name
        self.vhost = vhost
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.alternate = self._alternate()
        self.counters = Counters(0)
        #: Policies that apply to it.
        self.policy: Policy | None = None
        self.operator_policy: Policy | None = None
        #: Keys of messages published to it; None: no deduplication.
        self.deduplication: Deduplication | None = None
        #: Publishes to it must conform to this schema; the number that did not.
        self.schema: Schema | None = None
        self.violations = 0
        #: Total steps of `match` beyond a lookup: nodes and fields compared.
        self.steps = 0
        self._bindings: dict[Identity, Binding] = {}
        #: Destinations that are exchanges, with the number of bindings to each.
        self.downstream: dict[Exchange, int] = {}
        self._prepare()

    def __repr__(self) -> str:
        return f"<{self.kind} exchange {self.name!r} in vhost {self.vhost!r}>"

    def __str__(self) -> str:
        """The exchange as RabbitMQ's error texts name it."""
        return f"exchange '{self.name}' in vhost '{self.vhost}'"

    def _alternate(self) -> str | None:
        for argument in ALTERNATE:
            if argument in self.arguments:
                name = self.arguments[argument]
                if not isinstance(name, str):
                    kind = kind_name(self.arguments.kind(argument))
                    raise precondition_failed(f"invalid type '{kind}' for arg '{argument}' in {self}")
                return name
        return None

    def obey(self, definition: Mapping[str, Json]) -> None:
        """Apply the definition of policies. The declaration takes precedence."""
        by_policy = definition.get("alternate-exchange")
        self.alternate = self._alternate() or (by_policy if isinstance(by_policy, str) else None)

    @property
    def cacheable(self) -> bool:
        """Whether the routing key alone decides where a message goes."""
        return True

    @property
    def bindings(self) -> Collection[Binding]:
        """All bindings from this exchange, oldest first."""
        return self._bindings.values()

    @property
    def is_used(self) -> bool:
        """Whether there is any binding from this exchange."""
        return bool(self._bindings)

    def check_equivalent(
        self, *, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        """Raise 406 if a redeclare differs from the declaration."""
        self._check_same("type", kind, self.kind)
        self._check_same("durable", _flag(durable), _flag(self.durable))
        self._check_same("auto_delete", _flag(auto_delete), _flag(self.auto_delete))
        self._check_same("internal", _flag(internal), _flag(self.internal))
        # parity: the alternate exchange is the only argument that is compared.
        for argument in ALTERNATE:
            if argument in arguments and argument in self.arguments:
                self._check_same(argument, shown(arguments[argument]), shown(self.arguments[argument]))
            elif argument in arguments or argument in self.arguments:
                raise self._inequivalent(argument, _told(arguments, argument), _told(self.arguments, argument))

    def _check_same(self, what: str, received: str, current: str) -> None:
        if received != current:
            raise self._inequivalent(what, f"'{received}'", f"'{current}'")

    def _inequivalent(self, what: str, received: str, current: str) -> AmqpError:
        return precondition_failed(
            f"inequivalent arg '{what}' for {self}: received {received} but current is {current}"
        )

    def check_arguments(self) -> None:
        """Raise 406 for invalid arguments of this type."""

    def check_binding(self, binding: Binding) -> None:
        """Raise 406 for an invalid binding of this type."""

    def add(self, binding: Binding) -> bool:
        """Add a binding. False: it exists already."""
        if binding.identity in self._bindings:
            return False
        self._bindings[binding.identity] = binding
        if isinstance(binding.destination, Exchange):
            include(self.downstream, binding.destination)
        self._index(binding)
        return True

    def has(self, binding: Binding) -> bool:
        """Whether there is an equal binding from this exchange."""
        return binding.identity in self._bindings

    def remove(self, binding: Binding) -> Binding | None:
        """Remove and return the binding equal to this one; None if there is none."""
        known = self._bindings.pop(binding.identity, None)
        if known is not None:
            if isinstance(known.destination, Exchange):
                exclude(self.downstream, known.destination)
            self._unindex(known)
        return known

    def match(self, routing_key: str, properties: Properties) -> Collection[Destination]:
        """The destinations of a message with this key and these properties. Raises 406 if matching takes more than
        `MOST_STEPS`."""
        raise NotImplementedError

    def remember(self, message: Message, properties: Properties) -> None:
        """Keep a message that passes the exchange. Called only if `remembers` is true."""

    def bound(self, binding: Binding, deliver: Callable[[Destination, Message], None]) -> None:
        """Handle a new binding: pass messages that its destination must get at once to `deliver`."""

    def _prepare(self) -> None:
        """Create the empty index; called once, at the end of `__init__`."""

    def _index(self, binding: Binding) -> None:
        """Add a new binding to the index of `match`."""
        raise NotImplementedError

    def _unindex(self, binding: Binding) -> None:
        """Remove a binding from the index of `match`."""
        raise NotImplementedError


def include(counts: dict[D, int], destination: D) -> None:
    """Count one more binding to `destination`."""
    counts[destination] = counts.get(destination, 0) + 1


def exclude(counts: dict[D, int], destination: D) -> None:
    """Count one binding less to `destination`."""
    left = counts[destination] - 1
    if left:
        counts[destination] = left
    else:
        del counts[destination]


def too_many_steps(exchange: Exchange) -> AmqpError:
    return precondition_failed(
        f"routing takes too long: {exchange} has too many bindings with wildcards or headers for this message"
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _told(arguments: Table, key: str) -> str:
    if key not in arguments:
        return "none"
    return f"the value '{shown(arguments[key])}' of type '{kind_name(arguments.kind(key))}'"
