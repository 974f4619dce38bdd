"""The whole table, and what follows from it for one queue or exchange. Pure: nothing here touches a queue."""

from collections.abc import Mapping
from typing import Any, Final

from rabbitlike.broker.queue_settings import weights
from rabbitlike.broker.queue_settings.policy_checks import LARGEST
from rabbitlike.broker.queue_settings.policy_rows import POLICY_ONLY
from rabbitlike.broker.queue_settings.rows import DECLARED
from rabbitlike.broker.queue_settings.setting import Field, Given, Policy, Setting
from rabbitlike.broker.queue_settings.settings import DEFAULT_LEVELS, QueueSettings, QueueType
from rabbitlike.broker.terms import Json
from rabbitlike.protocol.tables import Table, Value

SETTINGS: Final[tuple[Setting, ...]] = (*DECLARED, *POLICY_ONLY)

#: By the names of arguments, in the order of their checks.
ARGUMENTS: Final[Mapping[str, Setting]] = {each.key: each for each in SETTINGS if each.argument is not None}
#: By the names of policy keys.
POLICIES: Final[Mapping[str, Policy]] = {each.name: each.policy for each in SETTINGS if each.policy is not None}
#: What exchanges share with queues.
EXCHANGES: Final = tuple(each for each in SETTINGS if each.exchanges and each.argument is not None)
#: With the name that the reader is given; a reader of several settings knows theirs.
_FIELDS: Final[Mapping[Field, str]] = {each.field: each.name for each in SETTINGS if each.field is not None}


def values_of(
    arguments: Mapping[str, Value], definition: Mapping[str, Json], queue_type: QueueType | None
) -> dict[str, object]:
    """The value of each setting that a checked argument or policy sets; an exchange has no type."""
    values: dict[str, Any] = {ARGUMENTS[key].name: value for key, value in arguments.items() if key in ARGUMENTS}
    for name, said in definition.items():
        policy = POLICIES[name]
        value = min(said, LARGEST) if isinstance(said, int) else said
        if name in values and queue_type not in policy.over_argument:
            value = policy.with_argument.choose(values[name], value)
        values[name] = value
    return values


def exchange_values(arguments: Table, definition: Mapping[str, Json], kind: str) -> dict[str, object]:
    """The same for an exchange, of the settings that it shares with queues; its other arguments are not checked."""
    values = values_of(
        {each.key: arguments[each.key] for each in EXCHANGES if each.key in arguments},
        {each.name: definition[each.name] for each in EXCHANGES if each.name in definition},
        None,
    )
    # A kind that has the name of an argument is as good as the argument.
    return {**values, **{each.name: True for each in EXCHANGES if each.key == kind}}


def read_settings(values: Mapping[str, object], queue_type: QueueType, levels: int) -> QueueSettings:
    """What a queue of this type, declared with so many levels, obeys."""
    given = Given(values, queue_type, levels)
    fields: dict[str, Any] = {field.name: field.read(given, name) for field, name in _FIELDS.items()}
    return QueueSettings(**fields)


def levels_of(arguments: Table, default_levels: int = DEFAULT_LEVELS) -> int:
    """How many levels a declaration asks for: as it says, or as many as it has weights for."""
    highest = arguments.get("x-max-priority")
    if isinstance(highest, int):
        return highest + 1
    said = weights.read(arguments.get("x-priority-weights"))
    return default_levels if said is None else len(said)
