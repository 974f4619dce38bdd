"""Equality of field values in bindings and header matches, and their form in error texts.

`comparable` returns a hashable key: equal keys mean equal values. A header's own value is compared without its type:
integers of any width and timestamps by value, `S` and `x` octets are equal, a boolean never equals a number. Within
tables and arrays, types and order count. Types also count in the arguments that distinguish two bindings.
"""

from collections.abc import Hashable
from decimal import Decimal

from rabbitlike.protocol import erlang
from rabbitlike.protocol.tables import Array, Table, Value, kind_name


def comparable(value: Value) -> Hashable:
    """A hashable key for `value`."""
    # The common types first: this runs once per header of a message.
    kind = type(value)
    if kind is str or kind is int:
        return value  # type: ignore[return-value]  # both are hashable as they are
    if isinstance(value, bool):
        # In Python True == 1, but in AMQP a boolean and a number are never equal.
        return ("t", value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        table = value if isinstance(value, Table) else Table(value)
        return ("F", tuple((key, _type(table.kind(key)), comparable(item)) for key, item in table.items()))
    if isinstance(value, list):
        array = value if isinstance(value, Array) else Array(value)
        return ("A", tuple((_type(array.kind(index)), comparable(item)) for index, item in enumerate(array)))
    if isinstance(value, Decimal):
        return ("D", value)
    return value


def comparable_table(table: Table) -> tuple[tuple[str, str, Hashable], ...]:
    """A hashable key for the arguments of a binding, with their types and independent of the order of keys."""
    if not table:
        return ()
    return tuple((key, _type(table.kind(key)), comparable(table[key])) for key in sorted(table))


def _type(letter: str) -> str:
    """The type to compare. parity: both letters for 64-bit numbers are one type."""
    return "l" if letter == "L" else letter


def shown(value: Value) -> str:
    """A value as in RabbitMQ's error texts."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def term(value: Value) -> str:
    """A value as Erlang prints it."""
    if isinstance(value, Table):
        fields = ",".join(f"{{{term(key)},{kind_name(value.kind(key))},{term(item)}}}" for key, item in value.items())
        return f"[{fields}]"
    if isinstance(value, Array):
        items = ",".join(f"{{{kind_name(value.kind(index))},{term(item)}}}" for index, item in enumerate(value))
        return f"[{items}]"
    if isinstance(value, str | bytes):
        return erlang.octets(value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value)
    return shown(value)
