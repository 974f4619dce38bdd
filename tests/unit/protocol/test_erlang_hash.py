"""The hash of a field table, against what Erlang/OTP 25 answers to `erlang:phash2(Table, 1 bsl 32)`."""

from decimal import Decimal

import pytest

from rabbitlike.protocol.erlang_hash import hash_table
from rabbitlike.protocol.tables import Array, Table, Value


def table(*rows: tuple[str, str, Value]) -> Table:
    made = Table()
    for name, kind, value in rows:
        made.put(name, value, kind)
    return made


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (table(), 3468870702),
        (table(("x-match", "S", "all")), 3739797118),
        (table(("a", "l", 1), ("b", "L", 2)), 4103455107),
        (
            table(
                ("n", "I", -1),
                ("o", "l", -134217729),
                ("p", "l", 134217727),
                ("q", "l", 9223372036854775807),
                ("r", "T", 18446744073709551615),
            ),
            3458592765,
        ),
        (table(("d", "D", Decimal("3.14")), ("f", "d", 1.5), ("z", "f", -0.0)), 3015396000),
        (table(("", "x", b""), ("t", "t", True), ("u", "t", False), ("v", "V", None)), 3716427839),
        (
            table(
                ("array", "A", Array(["twelve bytes", 7, Array()], "SIA")),
                ("table", "F", table(("b", "b", 1), ("a", "S", "more than twelve octets"))),
            ),
            2838775355,
        ),
    ],
    ids=["empty", "text", "long", "numbers", "fractions", "words", "nested"],
)
def test_erlangs_hash(arguments: Table, expected: int) -> None:
    assert hash_table(arguments) == expected


def test_names_are_sorted_by_their_octets() -> None:
    names = ("é", "z", "a", "\udcff")
    tables = [table(*((name, "l", 1) for name in order)) for order in (names, sorted(names), names[::-1])]
    assert len({hash_table(each) for each in tables}) == 1


def test_inner_tables_keep_their_order() -> None:
    """parity: RabbitMQ sorts the arguments of a binding, and not what is in them."""
    rows = [("a", "l", 1), ("b", "l", 2)]
    one, other = (table(("t", "F", table(*order))) for order in (rows, rows[::-1]))
    assert hash_table(one) != hash_table(other)
