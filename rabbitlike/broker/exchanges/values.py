"""When two field values count as equal in a binding or a headers match, and how error texts show one.

`comparable` gives a hashable stand-in: equal stand-ins, equal values. Integers of any width and timestamps are compared
by value, `S` and `x` octets interchange, a boolean is no number. Tables ignore the order of their keys.
"""

from collections.abc import Hashable, Mapping
from decimal import Decimal

from rabbitlike.protocol.tables import Value


def comparable(value: Value) -> Hashable:
    """A hashable stand-in for `value`."""
    # The common types first: this runs once per header of a message.
    kind = type(value)
    if kind is str or kind is int:
        return value  # type: ignore[return-value]  # both are hashable as they are
    if isinstance(value, bool):
        # Python's True == 1, but on the wire a flag and a number never match.
        return ("t", value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return ("F", comparable_table(value))
    if isinstance(value, list):
        return ("A", tuple(comparable(item) for item in value))
    if isinstance(value, Decimal):
        return ("D", value)
    return value


def comparable_table(table: Mapping[str, Value]) -> tuple[tuple[str, Hashable], ...]:
    """The same for a whole table, whatever the order of its keys."""
    if not table:
        return ()
    return tuple((key, comparable(table[key])) for key in sorted(table))


def shown(value: Value) -> str:
    """A value as RabbitMQ's texts show it."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
