"""Policies: settings applied by the name of a queue or exchange, which can change while it is in use.

parity: patterns are searched, not anchored; of the policies that match, the one with the highest priority applies,
together with one operator policy. A queue's settings are computed when a policy or the queue is added, changed or
removed, never per message.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol, get_args

from rabbitlike.broker.exchanges.exchange import Exchange
from rabbitlike.broker.patterns import Pattern, PatternError
from rabbitlike.broker.policies.keys import OPERATOR_POLICY, POLICY, PolicyKind, join, merge, queue_types, refusal
from rabbitlike.broker.policies.webhook_urls import masked_definition
from rabbitlike.broker.queue_settings.settings import QueueSettings, QueueType, bounded
from rabbitlike.broker.terms import Json, term

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.clock import Timer
    from rabbitlike.protocol.tables import Table

log = logging.getLogger(__name__)

ApplyTo = Literal["all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams"]
Target = Literal["exchange", "classic", "quorum"]

_APPLIES: Final[Mapping[str, frozenset[Target]]] = {
    "all": frozenset(("exchange", "classic", "quorum")),
    "exchanges": frozenset(("exchange",)),
    "queues": frozenset(("classic", "quorum")),
    "classic_queues": frozenset(("classic",)),
    "quorum_queues": frozenset(("quorum",)),
    "streams": frozenset(),
}
#: Maximum number of queues updated in one turn, about one millisecond of work; and the maximum time for it.
SLICE: Final = 200
SLICE_MS: Final = 5
_KIND_NAMES: Final[Mapping[PolicyKind, str]] = {POLICY: "policy", OPERATOR_POLICY: "operator policy"}


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """One checked policy, created by `make_policy`."""

    vhost: str
    name: str
    kind: PolicyKind
    pattern: str
    definition: dict[str, Json]
    priority: int | float
    apply_to: str
    _search: Pattern = field(repr=False)
    _targets: frozenset[Target] = field(repr=False)

    def is_for(self, target: Target, name: str) -> bool:
        return target in self._targets and self._search.is_in(name)

    def view(self) -> dict[str, Json]:
        """The complete policy, for definitions."""
        return {"vhost": self.vhost, "name": self.name, **self.value()}

    def shown(self) -> dict[str, Json]:
        """The policy for the HTTP API, without credentials."""
        return {**self.view(), "definition": dict(masked_definition(self.definition))}

    def value(self) -> dict[str, Json]:
        """The policy without its names, as the value of a parameter."""
        return {
            "pattern": self.pattern,
            "apply-to": self.apply_to,
            "definition": self.definition,
            "priority": self.priority,
        }


def make_policy(
    vhost: str,
    name: str,
    kind: PolicyKind,
    *,
    pattern: Json,
    definition: Json,
    priority: Json = 0,
    apply_to: Json = "all",
) -> Policy:
    """Create a checked policy. Raises ValueError with all faults in RabbitMQ's words."""
    # parity: RabbitMQ reports faults in the reverse order of its checks
    faults = [
        refusal(definition, kind),
        None
        if apply_to in get_args(ApplyTo)
        else f"apply-to '{apply_to if isinstance(apply_to, str) else term(apply_to)}' unrecognised; should be one of: "
        "'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'",
        _pattern_fault(pattern),
        None
        if isinstance(priority, int | float) and not isinstance(priority, bool)
        else f"priority should be a number, actually was {term(priority)}",
    ]
    if said := [fault for fault in faults if fault is not None]:
        raise ValueError("Validation failed\n\n" + "".join(f"{fault}\n" for fault in said))
    assert isinstance(pattern, str)
    assert isinstance(definition, dict)
    assert isinstance(apply_to, str)
    assert isinstance(priority, int | float)
    ordered = dict(sorted(definition.items()))
    return Policy(
        vhost, name, kind, pattern, ordered, priority, apply_to, Pattern(pattern), _targets(apply_to, definition)
    )


def _pattern_fault(pattern: Json) -> str | None:
    if not isinstance(pattern, str):
        return f"pattern should be a binary but was {term(pattern)}"
    try:
        Pattern(pattern)
    except PatternError as error:
        return f'pattern should be regular expression but is invalid: {{"{error.said}",{error.at}}}'
    return None


def _targets(apply_to: str, definition: Mapping[str, Json]) -> frozenset[Target]:
    """The kinds of objects that a policy can apply to."""
    return _APPLIES[apply_to] & {"exchange", *queue_types(definition, offered=apply_to == "classic_queues")}


class PolicyTarget(Protocol):
    """A queue or exchange, to which policies may apply."""

    policy: Policy | None
    operator_policy: Policy | None


def effective_definition(governed: PolicyTarget) -> Mapping[str, Json]:
    """The merged definition of the policies of a queue or exchange, without its arguments."""
    return _merged(governed.policy, governed.operator_policy)


def _merged(policy: Policy | None, operator_policy: Policy | None) -> Mapping[str, Json]:
    if policy is None:
        return {} if operator_policy is None else operator_policy.definition
    return policy.definition if operator_policy is None else merge(policy.definition, operator_policy.definition)


class Policies:
    """The policies of one vhost; applies them to its queues and exchanges."""

    __slots__ = ("_behind", "_named", "_ranked", "_settings", "_timer", "_vhost")

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self._named: dict[PolicyKind, dict[str, Policy]] = {POLICY: {}, OPERATOR_POLICY: {}}
        #: The same, highest priority first.
        self._ranked: dict[PolicyKind, list[Policy]] = {POLICY: [], OPERATOR_POLICY: []}
        #: Settings of queues without arguments, by type, levels and policies: shared by thousands of queues.
        self._settings: dict[tuple[QueueType, int, Policy | None, Policy | None], QueueSettings] = {}
        #: Exchanges and queues not updated since the last change, and the timer that continues.
        self._behind: list[Queue | Exchange] = []
        self._timer: Timer | None = None

    # Changing

    def set(self, policy: Policy) -> bool:
        """Add or replace a policy and apply it. True: its name is new."""
        is_new = self.restore(policy)
        self._vhost.broker.topology.set_policy(policy)
        log.info("set %s '%s' in vhost '%s'", _KIND_NAMES[policy.kind], policy.name, policy.vhost)
        return is_new

    def clear(self, kind: PolicyKind, name: str) -> bool:
        """Remove a policy and return whether it existed. Its queues and exchanges get the next policy that matches."""
        policy = self._named[kind].pop(name, None)
        if policy is None:
            return False
        self._vhost.broker.topology.remove_policy(policy)
        self._rank(kind)
        self._apply()
        log.info("cleared %s '%s' in vhost '%s'", _KIND_NAMES[kind], name, policy.vhost)
        return True

    def restore(self, policy: Policy) -> bool:
        """`set` for a policy that is stored already, after a restart."""
        named = self._named[policy.kind]
        is_new = policy.name not in named
        named[policy.name] = policy
        self._rank(policy.kind)
        self._apply()
        return is_new

    def forget(self) -> None:
        """Remove all policies of a deleted vhost."""
        self._behind.clear()
        for policy in self:
            self._vhost.broker.topology.remove_policy(policy)
        self._vhost = None  # type: ignore[assignment]  # so that reference counting frees both

    def _rank(self, kind: PolicyKind) -> None:
        # Equal priorities are ordered by name: arbitrary, but the same after a restart or an import.
        self._ranked[kind] = sorted(self._named[kind].values(), key=lambda policy: (-policy.priority, policy.name))
        self._settings.clear()

    # Looking up

    def get(self, kind: PolicyKind, name: str) -> Policy | None:
        return self._named[kind].get(name)

    def all(self, kind: PolicyKind) -> Iterable[Policy]:
        """All policies of a kind, ordered by name."""
        return [policy for _, policy in sorted(self._named[kind].items())]

    def __iter__(self) -> Iterator[Policy]:
        for named in self._named.values():
            yield from named.values()

    def match(self, target: Target, name: str) -> tuple[Policy | None, Policy | None]:
        """The policy and the operator policy of an object with this name."""
        return _first(self._ranked[POLICY], target, name), _first(self._ranked[OPERATOR_POLICY], target, name)

    # Applying

    def settings(
        self,
        arguments: Table,
        queue_type: QueueType,
        levels: int,
        policy: Policy | None,
        operator_policy: Policy | None,
    ) -> QueueSettings:
        """The settings of a queue with these arguments and levels under these policies."""
        if arguments or (policy is None and operator_policy is None):
            return join(arguments, _merged(policy, operator_policy), queue_type, levels)
        key = (queue_type, levels, policy, operator_policy)
        found = self._settings.get(key)
        if found is None:
            found = self._settings[key] = join(arguments, _merged(policy, operator_policy), queue_type, levels)
        return found

    def apply_to_exchange(self, exchange: Exchange) -> bool:
        """Apply the matching policies and return whether they changed."""
        matched = self.match("exchange", exchange.name)
        if matched == (exchange.policy, exchange.operator_policy):
            return False
        exchange.policy, exchange.operator_policy = matched
        exchange.obey(_merged(*matched))
        return True

    def _apply_to_queue(self, queue: Queue) -> None:
        queue_type = queue.settings.queue_type
        policy, operator_policy = self.match(queue_type, queue.name)
        if policy is not queue.policy or operator_policy is not queue.operator_policy:
            queue.policy, queue.operator_policy = policy, operator_policy
            settings = self.settings(queue.arguments, queue_type, queue.settings.levels, policy, operator_policy)
            queue.change(bounded(settings, queue.arguments, self._vhost.broker.settings.default_max_length))

    def _apply(self) -> None:
        vhost = self._vhost
        # Newest first: they are taken from the end, in the order of their declaration.
        self._behind = [*reversed(vhost.queues.values()), *reversed(vhost.exchanges.values())]
        self.catch_up()

    @property
    def is_behind(self) -> bool:
        """Whether any exchange or queue is not updated since the last change."""
        return bool(self._behind)

    def catch_up(self) -> None:
        """Update the next slice of queues and exchanges: updating ten thousand in one turn would block all clients, and
        a slow expression may take some milliseconds for each name."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        broker = self._vhost.broker
        began_ms = broker.clock.now_ms()
        left = SLICE
        while self._behind and left and broker.clock.now_ms() - began_ms <= SLICE_MS:
            next_one = self._behind.pop()
            if isinstance(next_one, Exchange):
                self._tell_exchange(next_one)
            else:
                left -= 1
                if not next_one.deleted:
                    self._apply_to_queue(next_one)
        if self._behind:
            self._timer = broker.turn.at(0, self.catch_up)

    def _tell_exchange(self, exchange: Exchange) -> None:
        vhost = self._vhost
        if vhost.exchanges.get(exchange.name) is exchange and self.apply_to_exchange(exchange):
            vhost.equip_exchange(exchange)
            vhost.renew_routes()


def _first(ranked: list[Policy], target: Target, name: str) -> Policy | None:
    for policy in ranked:
        if policy.is_for(target, name):
            return policy
    return None
