"""Checks of argument values: one per kind of value, with refusals in RabbitMQ's words.

parity: a refusal is an Erlang term, as in the text of RabbitMQ's 406. Where RabbitMQ's versions differ, a value that
any version accepts is accepted.
"""

from math import inf
from typing import Final

from rabbitlike.broker.queue_settings import weights
from rabbitlike.broker.queue_settings.setting import ArgumentCheck
from rabbitlike.broker.queue_settings.settings import TEN_YEARS_MS
from rabbitlike.broker.schemas.schema import text_of
from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.protocol.tables import Table, kind_name

MAX_PRIORITY: Final = 255

_INTEGER_KINDS: Final = frozenset("bBsuIilL")


def _quoted(text: str) -> str:
    """A string as Erlang's pretty printer shows it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def type_name(arguments: Table, key: str) -> str:
    return kind_name(arguments.kind(key))


def _int_of(arguments: Table, key: str) -> int:
    value = arguments[key]
    assert isinstance(value, int)
    return value


def _unacceptable(arguments: Table, key: str) -> str:
    return f"{{unacceptable_type,{type_name(arguments, key)}}}"


def any_integer(arguments: Table, key: str) -> str | None:
    if arguments.kind(key) in _INTEGER_KINDS:
        return None
    return _quoted(f"expected integer, got {type_name(arguments, key)}")


def not_negative(arguments: Table, key: str) -> str | None:
    refusal = any_integer(arguments, key)
    if refusal is None and _int_of(arguments, key) < 0:
        return f"{{value_negative,{_int_of(arguments, key)}}}"
    return refusal


def above_zero(arguments: Table, key: str) -> str | None:
    refusal = not_negative(arguments, key)
    if refusal is None and arguments[key] == 0:
        return "{value_zero,0}"
    return refusal


def duration(arguments: Table, key: str) -> str | None:
    refusal = not_negative(arguments, key)
    if refusal is None and _int_of(arguments, key) > TEN_YEARS_MS:
        return f"{{value_too_large,{_int_of(arguments, key)}}}"
    return refusal


def duration_above_zero(arguments: Table, key: str) -> str | None:
    return above_zero(arguments, key) or duration(arguments, key)


def highest_priority(arguments: Table, key: str) -> str | None:
    refusal = not_negative(arguments, key)
    if refusal is None and _int_of(arguments, key) > MAX_PRIORITY:
        return f"{{max_value_exceeded,{_int_of(arguments, key)}}}"
    return refusal


def boolean(arguments: Table, key: str) -> str | None:
    return None if arguments.kind(key) == "t" else _unacceptable(arguments, key)


def string(arguments: Table, key: str) -> str | None:
    return None if arguments.kind(key) == "S" else _unacceptable(arguments, key)


def one_of(words: tuple[str, ...], refusal: str) -> ArgumentCheck:
    """A check for one of several strings; {} in `refusal` is replaced by the refused value."""

    def check(arguments: Table, key: str) -> str | None:
        wrong_type = string(arguments, key)
        if wrong_type is None and arguments[key] not in words:
            return refusal.replace("{}", _quoted(str(arguments[key]))[1:-1])
        return wrong_type

    return check


def factor(arguments: Table, key: str) -> str | None:
    value = arguments[key]
    if arguments.kind(key) not in _INTEGER_KINDS and arguments.kind(key) not in "fd":
        return _quoted(f"expected number, got {type_name(arguments, key)}")
    assert isinstance(value, int | float)
    # NaN fails this comparison too.
    return None if value >= 1 and value != inf else f"{{value_too_{'large' if value == inf else 'small'},{value}}}"


def dead_letter_routing_key(arguments: Table, key: str) -> str | None:
    refusal = string(arguments, key)
    if refusal is None and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"
    return refusal


def priority_weights(arguments: Table, key: str) -> str | None:
    if arguments.kind(key) not in "SA":
        return _unacceptable(arguments, key)
    said = weights.read(arguments[key])
    if said is None:
        return _quoted(f"expected weights from 1 to {weights.LARGEST_WEIGHT}, the highest level's first")
    highest = arguments.get("x-max-priority")
    if isinstance(highest, int) and len(said) > highest + 1:
        return _quoted(f"{len(said)} weights for {highest + 1} levels")
    return None


def schema(arguments: Table, key: str) -> str | None:
    if arguments.kind(key) not in "SF":
        return _unacceptable(arguments, key)
    try:
        text_of(arguments[key])
    except ValueError as error:
        return _quoted(f"invalid schema: {error}")
    return None


def queue_version(arguments: Table, key: str) -> str | None:
    refusal = not_negative(arguments, key)
    if refusal is None and arguments[key] not in (1, 2):
        return _quoted(f"unsupported queue version '{_int_of(arguments, key)}'")
    return refusal


#: Checks that accept only integers.
INTEGERS: Final = frozenset((any_integer, not_negative, above_zero, duration, duration_above_zero, highest_priority))


def require(arguments: Table, key: str, place: str, check: ArgumentCheck) -> None:
    """Raise 406 if the argument is present and does not pass its check."""
    if key in arguments:
        refusal = check(arguments, key)
        if refusal is not None:
            raise precondition_failed(f"invalid arg '{key}' for {place}: {refusal}")
