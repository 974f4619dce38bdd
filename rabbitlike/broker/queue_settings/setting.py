"""A row of the table: the argument, policy key and field of QueueSettings of one setting.

A setting has the name of its policy key (`max-length`); its argument has the same name with the prefix `x-`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rabbitlike.broker.queue_settings.settings import QueueType
    from rabbitlike.broker.terms import Json
    from rabbitlike.protocol.tables import Table

#: Checks a present argument and returns why it is refused, as an Erlang term, or None.
ArgumentCheck = Callable[["Table", str], str | None]
#: Returns whether a policy may have this value.
PolicyCheck = Callable[["Json"], bool]
#: Returns a field's value, from the values that are set and the name of the setting.
Read = Callable[["Given", str], object]

NO_TYPE: Final[frozenset[QueueType]] = frozenset()
CLASSIC: Final[frozenset[QueueType]] = frozenset(("classic",))
QUORUM: Final[frozenset[QueueType]] = frozenset(("quorum",))
ANY_TYPE: Final = CLASSIC | QUORUM


class Origin(Enum):
    """The versions of RabbitMQ that have the setting."""

    #: 3.x, or 3.x and 4.x.
    RABBITMQ = auto()
    RABBITMQ_4 = auto()
    #: No version.
    OURS = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """The rule that chooses between two values. `text` is for the documentation."""

    text: str
    #: An argument's value and a policy's, or a policy's and an operator policy's.
    choose: Callable[[Any, Any], Any]


def lower_limit(one: int, other: int) -> int:
    """The stricter of two delivery limits; a negative limit means none."""
    return max(one, other) if one < 0 or other < 0 else min(one, other)


SMALLER: Final = Rule("the smaller", min)
LARGER: Final = Rule("the larger", max)
LOWER_LIMIT: Final = Rule("the smaller; below 0 means no limit", lower_limit)
ARGUMENT: Final = Rule("the argument", lambda argument, _: argument)
OPERATOR: Final = Rule("the operator policy", lambda _, operators: operators)


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """The setting as an argument of a declaration."""

    #: None: any value is accepted.
    check: ArgumentCheck | None = None
    #: Whether a redeclare with another value is refused.
    is_compared: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Policy:
    """The setting as a key of policies."""

    check: PolicyCheck
    #: The error text, after the value that fails the check.
    refusal: str
    #: Whether operator policies may have it too.
    operator: bool = False
    with_operator: Rule = OPERATOR
    with_argument: Rule = ARGUMENT
    #: Types whose queues take the policy's value over the argument's.
    over_argument: frozenset[QueueType] = NO_TYPE
    #: Whether a policy with this key applies to queues of types that do not have the setting.
    for_any_type: bool = False
    #: For docs/policies.md: what a change does to a queue in use.
    change: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Values from a queue's arguments and policies, by setting, and its fixed type and number of levels."""

    values: Mapping[str, object]
    queue_type: QueueType
    levels: int


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of QueueSettings, read from one or several settings."""

    name: str
    read: Read


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """One row of the table."""

    name: str
    origin: Origin
    #: One line for the documentation; empty: accepted without effect.
    text: str = ""
    #: Queue types that have it in RabbitMQ; for our own settings, all types.
    types: frozenset[QueueType] = ANY_TYPE
    #: Queue types that have it only here.
    offered: frozenset[QueueType] = NO_TYPE
    #: Whether exchanges have it too.
    exchanges: bool = False
    argument: Argument | None = None
    policy: Policy | None = None
    field: Field | None = None

    @property
    def key(self) -> str:
        """The name of the argument."""
        return f"x-{self.name}"

    def is_for(self, queue_type: QueueType) -> bool:
        return queue_type in self.types or queue_type in self.offered
