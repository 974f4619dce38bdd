"""What a policy may say: every key with its check, who may set it and how it joins with what else is said.

parity: keys, texts and rules are RabbitMQ's, of 3.x and 4.x together; keys about mirrors, members and other nodes are
taken and mean nothing on one node. Pure: nothing here touches a queue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from rabbitlike.broker.queues import weights
from rabbitlike.broker.queues.arguments import EXCHANGES_TOO
from rabbitlike.broker.queues.settings import DEFAULT_LEVELS, QueueSettings, levels_of, read_settings
from rabbitlike.broker.schemas import text_of
from rabbitlike.broker.terms import Json, pairs, term
from rabbitlike.broker.webhook_urls import is_web_address
from rabbitlike.protocol.tables import Table

if TYPE_CHECKING:
    from rabbitlike.broker.queues.settings import QueueType

#: Under these names policies are records, and parameters in definitions.
PolicyKind = Literal["policy", "operator_policy"]
POLICY: Final = "policy"
OPERATOR_POLICY: Final = "operator_policy"

#: Numbers beyond it mean the same and would not fit where the queue keeps them.
LARGEST: Final = 1 << 62

# A check says whether RabbitMQ takes the value.
Check = Callable[[Json], bool]


def _is_int(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _string(value: Json) -> bool:
    return isinstance(value, str)


def _boolean(value: Json) -> bool:
    return isinstance(value, bool)


def _factor(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= LARGEST


def _at_least(least: int, most: int | None = None) -> Check:
    def check(value: Json) -> bool:
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return least <= value and (most is None or value <= most)

    return check


def _one_of(*words: Json) -> Check:
    def check(value: Json) -> bool:
        return not isinstance(value, bool) and value in words

    return check


def _max_age(value: Json) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\d+[YMDhms]", value) is not None


def _any(_: Json) -> bool:
    return True


def _is_schema(value: Json) -> bool:
    try:
        return bool(text_of(value))
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Key:
    """One key: `refusal` is what is said behind the value that fails the check."""

    check: Check
    refusal: str
    #: Whether an operator policy may have it, too.
    operator: bool = False


_NOT_NEGATIVE: Final = _at_least(0)
_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")

KEYS: Final[Mapping[str, Key]] = {
    "ack-timeout": Key(_at_least(1), "is not a valid ack timeout", operator=True),
    "cache-size": Key(_at_least(1), "is not a valid cache size"),
    "cache-ttl": Key(_at_least(1), "is not a valid cache TTL"),
    "deduplication-by": Key(_one_of("header", "message-id"), "is not a valid deduplication key"),
    "schema": Key(_is_schema, "is not a valid JSON Schema"),
    "schema-action": Key(_one_of("nack", "close", "dead-letter"), "is not a valid schema action"),
    "message-deduplication": Key(lambda value: isinstance(value, bool), "is not a valid message deduplication"),
    "alternate-exchange": Key(_string, "is not a valid alternate exchange name"),
    "consumer-disconnected-timeout": Key(_NOT_NEGATIVE, "is not a valid consumer disconnected timeout"),
    "consumer-timeout": Key(_NOT_NEGATIVE, "is not a valid consumer timeout"),
    "dead-letter-auto": Key(_boolean, "is not a valid dead-letter-auto value. Must be true or false"),
    "dead-letter-exchange": Key(_string, "is not a valid dead letter exchange name"),
    "dead-letter-routing-key": Key(_string, "is not a valid dead letter routing key"),
    "dead-letter-strategy": Key(_one_of("at-most-once", "at-least-once"), "is not a valid dead letter strategy"),
    "dead-letter-webhook": Key(is_web_address, "is not a valid webhook URL"),
    "delayed-retry-max": Key(
        _at_least(1), "is not a valid delayed retry maximum delay. Must be a positive integer", operator=True
    ),
    "delayed-retry-min": Key(
        _at_least(1), "is not a valid delayed retry minimum delay. Must be a positive integer", operator=True
    ),
    "delayed-retry-type": Key(
        _one_of("all", "failed", "returned", "disabled"),
        "is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
        operator=True,
    ),
    "delivery-limit": Key(_is_int, "is not a valid delivery limit", operator=True),
    "dlq-webhook": Key(is_web_address, "is not a valid webhook URL"),
    "expires": Key(_at_least(1), "is not a valid queue expiry", operator=True),
    "federation-upstream": Key(_string, "is not a valid federation upstream"),
    "federation-upstream-pattern": Key(_string, "is not a valid federation upstream pattern"),
    "federation-upstream-set": Key(_string, "is not a valid federation upstream set"),
    "ha-mode": Key(_one_of("all", "exactly", "nodes"), "is not a valid ha-mode value"),
    "ha-params": Key(_any, "is not a valid ha-params value"),
    "ha-promote-on-failure": Key(_one_of("always", "when-synced"), "is not a valid ha-promote-on-failure value"),
    "ha-promote-on-shutdown": Key(_one_of("always", "when-synced"), "is not a valid ha-promote-on-shutdown value"),
    "ha-sync-batch-size": Key(_at_least(1), "is not a valid sync batch size"),
    "ha-sync-mode": Key(_one_of("automatic", "manual"), "is not a valid ha-sync-mode value"),
    "initial-cluster-size": Key(_NOT_NEGATIVE, "is not a valid cluster size"),
    "max-age": Key(_max_age, "is not a valid max age"),
    "max-in-memory-bytes": Key(_NOT_NEGATIVE, "is not a valid maximum memory in bytes", operator=True),
    "max-in-memory-length": Key(_NOT_NEGATIVE, "is not a valid maximum memory in bytes", operator=True),
    "max-length": Key(_NOT_NEGATIVE, "is not a valid maximum length", operator=True),
    "max-length-bytes": Key(_NOT_NEGATIVE, "is not a valid maximum length in bytes", operator=True),
    "max-message-size": Key(_NOT_NEGATIVE, "is not a valid maximum message size", operator=True),
    "member-placement-tag": Key(
        lambda value: isinstance(value, str) and value != "",
        "is not a valid member-placement-tag value. Must be a non-empty string",
        operator=True,
    ),
    "message-ttl": Key(_NOT_NEGATIVE, "is not a valid message TTL", operator=True),
    "overflow": Key(
        _one_of("drop-head", "reject-publish", "reject-publish-dlx"), "is not a valid overflow value", operator=True
    ),
    "priority-max-wait": Key(_at_least(1), "is not a valid maximum wait", operator=True),
    "priority-mode": Key(_one_of("strict", "weighted"), "is not a valid priority mode", operator=True),
    "priority-weights": Key(
        lambda value: weights.read(value) is not None,
        "is not a list of weights from 1 to 10000, the highest level's first",
        operator=True,
    ),
    "queue-leader-locator": Key(_one_of(*_LOCATORS), "is not a valid queue leader locator value"),
    "queue-master-locator": Key(
        _one_of("client-local", "min-masters", "random"), "invalid queue-master-locator value", operator=True
    ),
    "queue-mode": Key(_one_of("default", "lazy"), "is not a valid queue-mode value"),
    "queue-version": Key(_one_of(1, 2), "is not a valid queue-version value", operator=True),
    "retry-initial": Key(_at_least(1), "is not a valid retry delay", operator=True),
    "retry-max-delay": Key(_at_least(1), "is not a valid maximum retry delay", operator=True),
    "retry-multiplier": Key(_factor, "is not a valid retry multiplier", operator=True),
    "retry-timeout": Key(_is_int, "is not a valid retry timeout", operator=True),
    "stream-filter-size-bytes": Key(_at_least(16, 255), "is not a valid filter size. Valid range is 16-255"),
    "stream-max-segment-size-bytes": Key(_at_least(0, 3_000_000_000), "is not a valid segment size"),
    "target-group-size": Key(_at_least(1), "is not a valid qq target count value", operator=True),
    "trace": Key(_boolean, "is not a valid trace value. Must be true or false"),
}

_FEDERATION: Final = ("federation-upstream", "federation-upstream-set", "federation-upstream-pattern")
_STREAM: Final = frozenset(("max-age", "stream-max-segment-size-bytes", "initial-cluster-size"))
_QUORUM: Final = frozenset(("max-in-memory-length", "max-in-memory-bytes", "target-group-size"))
_MIRRORS: Final = frozenset(key for key in KEYS if key.startswith("ha-")) - {"ha-sync-batch-size"}

#: parity: a policy that says anything a queue's type does not know is not for that queue, whatever else it says.
FOREIGN: Final[Mapping[QueueType, frozenset[str]]] = {
    "classic": _STREAM | _QUORUM | {"delivery-limit", "dead-letter-strategy"},
    "quorum": _STREAM | _MIRRORS | {"queue-mode", "queue-master-locator"},
}
#: What classic queues obey here and not in RabbitMQ: a policy must name them (`classic_queues`) to mean them.
OFFERED: Final = frozenset(("delivery-limit",))
#: What RabbitMQ does not know: a policy that says any of it means what is offered, too.
OURS: Final = frozenset(
    (
        "ack-timeout",
        "dead-letter-auto",
        "dead-letter-webhook",
        "dlq-webhook",
        "max-message-size",
        "retry-initial",
        "retry-max-delay",
        "retry-multiplier",
        "retry-timeout",
    )
)


def unknown_keys(definition: Json) -> list[str]:
    """Keys of a policy's definition that mean nothing here."""
    return sorted(definition.keys() - KEYS.keys()) if isinstance(definition, dict) else []


def refusal(definition: Json, kind: PolicyKind) -> str | None:
    """Why a definition is refused, in RabbitMQ's words; None when it is not."""
    if not isinstance(definition, dict):
        return f"definition must be a dictionary: {term(definition)}"
    if not definition:
        return "no policy provided"
    known = {name: key for name, key in KEYS.items() if kind == POLICY or key.operator}
    # parity: by name, and what is wrong goes before what is unknown
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
    elif mode == "exactly" and not _at_least(1)(params):
        return f'ha-mode="exactly" takes an integer, {_given(definition)}'
    elif mode == "nodes" and not (isinstance(params, list) and params and all(map(_string, params))):
        return f'ha-mode="nodes" takes a list, {_given(definition)}'
    return None


def _given(definition: dict[str, Json]) -> str:
    return f"{term(definition['ha-params'])} given" if "ha-params" in definition else "none given"


# Joining

_LESSER: Final = frozenset(
    (
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "max-message-size",
        "message-ttl",
        "delayed-retry-max",
        "delayed-retry-min",
    )
)


def merge(definition: Mapping[str, Json], operator: Mapping[str, Json]) -> dict[str, Json]:
    """A policy's definition with an operator's over it."""
    merged = {**definition, **operator}
    for key in definition.keys() & operator.keys():
        merged[key] = _stricter(key, definition[key], operator[key])
    return dict(sorted(merged.items()))


def _stricter(key: str, value: Json, operators: Json) -> Json:
    if not isinstance(value, int) or not isinstance(operators, int):
        return operators
    if key in _LESSER:
        return min(value, operators)
    if key == "delivery-limit":
        return lower_limit(value, operators)
    return max(value, operators) if key == "target-group-size" else operators


def lower_limit(one: int, other: int) -> int:
    """Of two delivery limits the stricter; below zero means none."""
    return max(one, other) if one < 0 or other < 0 else min(one, other)


# What a queue obeys, of all it could: which of argument and policy wins where both speak.
_LOWER_WINS: Final = (
    "expires",
    "max-length",
    "max-length-bytes",
    "max-message-size",
    "message-ttl",
    "consumer-timeout",
    "ack-timeout",
    "priority-max-wait",
)
_ARGUMENT_WINS: Final = (
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "dead-letter-strategy",
    "overflow",
    "retry-initial",
    "retry-max-delay",
    "retry-multiplier",
    "retry-timeout",
    "delayed-retry-max",
    "delayed-retry-min",
    "delayed-retry-type",
    "priority-mode",
    "schema-action",
    "message-deduplication",
    "cache-size",
    "cache-ttl",
    "deduplication-by",
)


def exchange_arguments(arguments: Table, definition: Mapping[str, Json], kind: str) -> Mapping[str, object]:
    """What an exchange of these arguments obeys under this definition, of what queues can be told as well."""
    said = {f"x-{key}": value for key, value in definition.items() if f"x-{key}" in EXCHANGES_TOO}
    # A kind that has the name of an argument is as good as the argument.
    return {**said, **arguments, **({kind: True} if kind in EXCHANGES_TOO else {})}


def join(
    arguments: Table, definition: Mapping[str, Json], queue_type: QueueType, levels: int = DEFAULT_LEVELS
) -> QueueSettings:
    """What a queue of these arguments, and of so many levels unless they say, obeys under this definition."""
    joined = arguments.copy()
    for key in _LOWER_WINS:
        limit = definition.get(key)
        if isinstance(limit, int):
            argument = arguments.get(f"x-{key}")
            joined[f"x-{key}"] = min(limit, argument if isinstance(argument, int) else LARGEST, LARGEST)
    for key in _ARGUMENT_WINS:
        word = definition.get(key)
        # parity: quorum queues take the policy's overflow over the argument's
        if isinstance(word, str | int | float) and (
            f"x-{key}" not in arguments or (key == "overflow" and queue_type == "quorum")
        ):
            joined[f"x-{key}"] = word
    for key in ("dead-letter-auto", "trace"):
        switch = definition.get(key)
        if isinstance(switch, bool) and f"x-{key}" not in arguments:
            joined[f"x-{key}"] = switch
    if "schema" in definition and "x-schema" not in arguments:
        joined["x-schema"] = text_of(definition["schema"])
    said = weights.read(definition.get("priority-weights"))
    if said is not None and "x-priority-weights" not in arguments:
        # How many levels a queue has is settled when it is declared.
        joined["x-max-priority"] = levels_of(arguments, levels) - 1
        joined["x-priority-weights"] = list(said)
    limit = definition.get("delivery-limit")
    if isinstance(limit, int):
        argument = arguments.get("x-delivery-limit")
        joined["x-delivery-limit"] = min(lower_limit(limit, argument) if isinstance(argument, int) else limit, LARGEST)
    settings = read_settings(joined, queue_type, levels)
    webhook = definition.get("dead-letter-webhook", definition.get("dlq-webhook"))
    return replace(settings, dead_letter_webhook=webhook) if isinstance(webhook, str) else settings
