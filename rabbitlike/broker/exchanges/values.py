"""When two field values count as equal in a binding or a headers match, and how error texts show one.

`comparable` gives a hashable stand-in: equal stand-ins, equal values. A header's own value is compared without its
type: integers of any width and timestamps by value, `S` and `x` octets interchange, a boolean is no number. Within
tables and arrays types count, and so does order; and so do the types of the arguments that tell two bindings apart.
"""

from collections.abc import Hashable
from decimal import Decimal

from rabbitlike.protocol import erlang
from rabbitlike.protocol.tables import Array, Table, Value, kind_name


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
        table = value if isinstance(value, Table) else Table(value)
        return ("F", tuple((key, _type(table.kind(key)), comparable(item)) for key, item in table.items()))
    if isinstance(value, list):
        array = value if isinstance(value, Array) else Array(value)
        return ("A", tuple((_type(array.kind(index)), comparable(item)) for index, item in enumerate(array)))
    if isinstance(value, Decimal):
        return ("D", value)
    return value


def comparable_table(table: Table) -> tuple[tuple[str, str, Hashable], ...]:
    """The same for the arguments of a binding, with their types, whatever the order of their keys."""
    if not table:
        return ()
    return tuple((key, _type(table.kind(key)), comparable(table[key])) for key in sorted(table))


def _type(letter: str) -> str:
    """parity: both letters for numbers of 64 bits are one type."""
    return "l" if letter == "L" else letter


def shown(value: Value) -> str:
    """A value as RabbitMQ's texts show it."""
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
