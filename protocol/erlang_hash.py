"""The hash that RabbitMQ's HTTP API makes of a binding's arguments: Erlang's `erlang:phash2/2` of its field table.

Erlang guarantees that this hash never changes, so URLs that contain it may be stored. RabbitMQ represents a table as a
list of tuples `{Name, Type, Value}` sorted by name, and an array as a list of `{Type, Value}`.
"""

from decimal import Decimal
from struct import Struct
from typing import Final

from rabbitlike.protocol.tables import Array, Table, Value, kind_name

_GOLDEN: Final = 0x9E3779B9
_MASK: Final = 0xFFFFFFFF
_DOUBLE: Final = Struct(">d")
_WORDS: Final = Struct(">II")
_BLOCK: Final = Struct("<III")
#: The hash of an empty list that is the whole term.
_EMPTY: Final = 3468870702


def _seed(number: int) -> int:
    return _GOLDEN * number & _MASK


_NIL, _ATOM, _TUPLE, _NEGATIVE, _LARGE, _FLOAT, _BINARY = map(_seed, (2, 3, 9, 10, 11, 12, 13))


def hash_table(table: Table) -> int:
    """`erlang:phash2(Table, 1 bsl 32)`."""
    names = sorted(table, key=_octets)
    hashing = _Hashing()
    hashing.add_table(table, names)
    return hashing.state


class _Hashing:
    """The hash state: Erlang walks a term from left to right and mixes each part into one state of 32 bits."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = 0

    def add_table(self, table: Table, names: list[str]) -> None:
        for name in names:
            self._mix(3, 0, _TUPLE)
            self._add_binary(_octets(name))
            self._add_typed(table.kind(name), table[name])
        self._end_list()

    def _add_array(self, array: Array) -> None:
        for index, item in enumerate(array):
            self._mix(2, 0, _TUPLE)
            self._add_typed(array.kind(index), item)
        self._end_list()

    def _add_typed(self, kind: str, value: Value) -> None:
        """Add the last two elements of a tuple: the type and the value."""
        self._add_atom(kind_name(kind))
        if value is None:
            self._add_atom("undefined")
        elif isinstance(value, bool):
            self._add_atom("true" if value else "false")
        elif isinstance(value, int):
            self._add_integer(value)
        elif isinstance(value, float):
            high, low = _WORDS.unpack(_DOUBLE.pack(value + 0.0))  # -0.0 hashes as 0.0
            self._mix(high, low, _FLOAT)
        elif isinstance(value, Decimal):
            _, digits, exponent = value.as_tuple()
            self._mix(2, 0, _TUPLE)
            self._add_integer(-int(exponent))
            self._add_integer(int("".join(map(str, digits))))
        elif isinstance(value, dict):
            self.add_table(value if isinstance(value, Table) else Table(value), list(value))
        elif isinstance(value, list):
            self._add_array(value if isinstance(value, Array) else Array(value))
        else:
            self._add_binary(_octets(value))

    def _add_atom(self, name: str) -> None:
        if self.state == 0:
            self.state = _hash_name(name)
        else:
            self._mix(_hash_name(name), 0, _ATOM)

    def _add_integer(self, value: int) -> None:
        if not -(1 << 27) <= value < 1 << 27:
            size = abs(value)
            self._mix(size & _MASK, size >> 32, _NEGATIVE if value < 0 else _LARGE)
            return
        if value < 0:
            self._mix(-value, 0, _GOLDEN)
        self._mix(value, 0, _GOLDEN)

    def _add_binary(self, octets: bytes) -> None:
        state = _BINARY + self.state & _MASK
        self.state = _hash_block(octets, state) if octets else state

    def _end_list(self) -> None:
        if self.state == 0:
            self.state = _EMPTY
        else:
            self._mix(2, 0, _NIL)

    def _mix(self, first: int, second: int, seed: int) -> None:
        self.state = _mix(first + seed, second + seed, self.state)[2]


def _octets(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _hash_name(name: str) -> int:
    """The hash of an atom's name: PJW's hash."""
    state = 0
    for octet in name.encode("ascii"):
        state = (state << 4) + octet
        if high := state & 0xF0000000:
            state ^= high >> 24
            state ^= high
    return state


def _hash_block(octets: bytes, state: int) -> int:
    """Bob Jenkins' hash of 1996."""
    a = b = _GOLDEN
    c = state
    whole = len(octets) - len(octets) % 12
    for first, second, third in _BLOCK.iter_unpack(octets[:whole]):
        a, b, c = _mix(a + first, b + second, c + third)
    # The lowest octet of the last word is for the length.
    tail = octets[whole:]
    first, second, third = _BLOCK.unpack((tail[:8].ljust(8, b"\0") + b"\0" + tail[8:]).ljust(12, b"\0"))
    return _mix(a + first, b + second, c + third + len(octets))[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Bob Jenkins' mix of three words."""
    a = (a - b - c ^ (c & _MASK) >> 13) & _MASK
    b = (b - c - a ^ a << 8) & _MASK
    c = (c - a - b ^ b >> 13) & _MASK
    a = (a - b - c ^ c >> 12) & _MASK
    b = (b - c - a ^ a << 16) & _MASK
    c = (c - a - b ^ b >> 5) & _MASK
    a = (a - b - c ^ c >> 3) & _MASK
    b = (b - c - a ^ a << 10) & _MASK
    c = (c - a - b ^ b >> 15) & _MASK
    return a, b, c
