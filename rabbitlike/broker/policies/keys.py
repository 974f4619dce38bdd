"""Definitions of policies: checks them, merges them with operator policies and combines them with arguments.

parity: texts and rules are RabbitMQ's, of 3.x and 4.x together. The table in broker/queue_settings/ has the keys and
their checks. Pure: nothing here touches a queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from rabbitlike.broker.queue_settings.policy_checks import above_zero, string
from rabbitlike.broker.queue_settings.policy_rows import FEDERATION, MIRRORS
from rabbitlike.broker.queue_settings.setting import Origin, Setting
from rabbitlike.broker.queue_settings.settings import DEFAULT_LEVELS, QUEUE_TYPES, QueueSettings, QueueType
from rabbitlike.broker.queue_settings.table import POLICIES, SETTINGS, levels_of, read_settings, values_of
from rabbitlike.broker.terms import Json, pairs, term
from rabbitlike.protocol.tables import Table

#: Names of policies as kinds of records, and as parameters in definitions.
PolicyKind = Literal["policy", "operator_policy"]
POLICY: Final = "policy"
OPERATOR_POLICY: Final = "operator_policy"

_FEDERATION: Final = frozenset(each.name for each in FEDERATION)
_MIRRORS: Final = frozenset(each.name for each in MIRRORS)


def queue_types(definition: Mapping[str, Json], *, offered: bool) -> set[QueueType]:
    """The queue types that a policy applies to.

    parity: a policy with a key that a queue type does not have does not apply to queues of that type at all. Keys that
    a type has here but not in RabbitMQ count if `offered`, or if the policy has a key that RabbitMQ does not have.
    """
    keys = [each for each in SETTINGS if each.name in definition]
    offered = offered or any(each.origin is Origin.OURS for each in keys)
    return {queue_type for queue_type in QUEUE_TYPES if all(_suits(each, queue_type, offered) for each in keys)}


def _suits(setting: Setting, queue_type: QueueType, offered: bool) -> bool:
    if setting.policy is not None and setting.policy.for_any_type:
        return True
    return queue_type in setting.types or (offered and queue_type in setting.offered)


def unknown_keys(definition: Json) -> list[str]:
    """Keys of a policy's definition that this broker does not know."""
    return sorted(definition.keys() - POLICIES.keys()) if isinstance(definition, dict) else []


def refusal(definition: Json, kind: PolicyKind) -> str | None:
    """Why a definition is refused, in RabbitMQ's words; None if it is accepted."""
    if not isinstance(definition, dict):
        return f"definition must be a dictionary: {term(definition)}"
    if not definition:
        return "no policy provided"
    known = {name: key for name, key in POLICIES.items() if kind == POLICY or key.operator}
    # parity: by name, and invalid keys before unknown keys
    for name in sorted(definition):
        if name in known and not known[name].check(definition[name]):
            return f"{term(definition[name])} {known[name].refusal}"
    if sum(key in definition for key in _FEDERATION) > 1:
        return "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together"
    if mirrors := _mirrors_refusal(definition):
        return mirrors
    unknown = {name: definition[name] for name in sorted(definition) if name not in known}
    return f"{pairs(unknown)} are not recognised policy settings" if unknown else None


def _mirrors_refusal(definition: dict[str, Json]) -> str | None:
    mode = definition.get("ha-mode")
    params = definition.get("ha-params")
    if mode is None:
        if not _MIRRORS.isdisjoint(definition):
            return "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
    elif mode == "all" and "ha-params" in definition:
        return f'ha-mode="all" does not take parameters, got {term(params)}'
    elif mode == "exactly" and not above_zero(params):
        return f'ha-mode="exactly" takes an integer, {_given(definition)}'
    elif mode == "nodes" and not (isinstance(params, list) and params and all(map(string, params))):
        return f'ha-mode="nodes" takes a list, {_given(definition)}'
    return None


def _given(definition: dict[str, Json]) -> str:
    return f"{term(definition['ha-params'])} given" if "ha-params" in definition else "none given"


def merge(definition: Mapping[str, Json], operator: Mapping[str, Json]) -> dict[str, Json]:
    """A policy's definition merged with an operator policy's."""
    merged = {**definition, **operator}
    for key in definition.keys() & operator.keys():
        merged[key] = POLICIES[key].with_operator.choose(definition[key], operator[key])
    return dict(sorted(merged.items()))


def join(
    arguments: Table, definition: Mapping[str, Json], queue_type: QueueType, levels: int = DEFAULT_LEVELS
) -> QueueSettings:
    """The settings of a queue with these arguments under this definition. `levels` applies if they set none."""
    return read_settings(values_of(arguments, definition, queue_type), queue_type, levels_of(arguments, levels))
