"""What a row of the table says: the argument, the policy key and the field of QueueSettings that one setting is.

A setting is named as its policy key (`max-length`); its argument has the same name behind `x-`.
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

#: Looks at an argument that is present: why it is refused, as an Erlang term, or None.
ArgumentCheck = Callable[["Table", str], str | None]
#: Whether a policy may have this value.
PolicyCheck = Callable[["Json"], bool]
#: A field's value: given what is set, and the name of the setting.
Read = Callable[["Given", str], object]

NO_TYPE: Final[frozenset[QueueType]] = frozenset()
CLASSIC: Final[frozenset[QueueType]] = frozenset(("classic",))
QUORUM: Final[frozenset[QueueType]] = frozenset(("quorum",))
ANY_TYPE: Final = CLASSIC | QUORUM


class Origin(Enum):
    """Which RabbitMQ knows the setting."""

    #: 3.x, or 3.x and 4.x.
    RABBITMQ = auto()
    RABBITMQ_4 = auto()
    #: None.
    OURS = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """Which of two values applies. `text` is for the documentation."""

    text: str
    #: An argument's value and a policy's, or a policy's and an operator policy's.
    choose: Callable[[Any, Any], Any]


def lower_limit(one: int, other: int) -> int:
    """Of two delivery limits the stricter; below zero means none."""
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
    """What arguments and policies set for one queue, by the names of settings, and what its declaration fixed."""

    values: Mapping[str, object]
    queue_type: QueueType
    levels: int


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of QueueSettings. Several settings can be read into one."""

    name: str
    read: Read


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """One row."""

    name: str
    origin: Origin
    #: One line for the documentation; empty: it is accepted without effect.
    text: str = ""
    #: Types that have it in RabbitMQ; of our own, all.
    types: frozenset[QueueType] = ANY_TYPE
    #: Types that have it only here.
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
