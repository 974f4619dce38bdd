"""The complete table of settings, and reading the settings of one queue or exchange. Pure: touches no queue."""

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

#: Settings by argument name, in the order of checks.
ARGUMENTS: Final[Mapping[str, Setting]] = {each.key: each for each in SETTINGS if each.argument is not None}
#: Policies by key.
POLICIES: Final[Mapping[str, Policy]] = {each.name: each.policy for each in SETTINGS if each.policy is not None}
#: Settings that exchanges have too.
EXCHANGES: Final = tuple(each for each in SETTINGS if each.exchanges and each.argument is not None)
#: Each field with the setting name passed to its reader; a reader of several settings knows their names.
_FIELDS: Final[Mapping[Field, str]] = {each.field: each.name for each in SETTINGS if each.field is not None}


def values_of(
    arguments: Mapping[str, Value], definition: Mapping[str, Json], queue_type: QueueType | None
) -> dict[str, object]:
    """The values of settings from checked arguments and policies. `queue_type`: None for an exchange."""
    values: dict[str, Any] = {ARGUMENTS[key].name: value for key, value in arguments.items() if key in ARGUMENTS}
    for name, said in definition.items():
        policy = POLICIES[name]
        value = min(said, LARGEST) if isinstance(said, int) else said
        if name in values and queue_type not in policy.over_argument:
            value = policy.with_argument.choose(values[name], value)
        values[name] = value
    return values


def exchange_values(arguments: Table, definition: Mapping[str, Json], kind: str) -> dict[str, object]:
    """`values_of` for an exchange, limited to settings shared with queues; its other arguments are not checked."""
    values = values_of(
        {each.key: arguments[each.key] for each in EXCHANGES if each.key in arguments},
        {each.name: definition[each.name] for each in EXCHANGES if each.name in definition},
        None,
    )
    # An exchange type with the name of an argument has the same effect as the argument.
    return {**values, **{each.name: True for each in EXCHANGES if each.key == kind}}


def read_settings(values: Mapping[str, object], queue_type: QueueType, levels: int) -> QueueSettings:
    """The settings of a queue with this type and number of levels."""
    given = Given(values, queue_type, levels)
    fields: dict[str, Any] = {field.name: field.read(given, name) for field, name in _FIELDS.items()}
    return QueueSettings(**fields)


def levels_of(arguments: Table, default_levels: int = DEFAULT_LEVELS) -> int:
    """The number of levels of a declaration: from x-max-priority, else the number of weights."""
    highest = arguments.get("x-max-priority")
    if isinstance(highest, int):
        return highest + 1
    said = weights.read(arguments.get("x-priority-weights"))
    return default_levels if said is None else len(said)
