"""Columns of packed rows, as whoever packs them hands them to whoever writes them: no row is an object."""

from collections.abc import Sequence
from typing import Final, NamedTuple

#: Cells of a row, each of eight octets: two whole numbers, and two times two of half the size that are never negative.
CELLS: Final = 4
LOW_BITS: Final = 0xFFFFFFFF


class Packed(NamedTuple):
    """A number of each row: 0 and 1 are whole cells, 2 to 5 the upper and lower halves of the others."""

    cells: memoryview
    field: int

    def all(self) -> list[int]:
        if self.field < 2:
            return self.cells[self.field :: CELLS].tolist()
        numbers = self.cells[1 + self.field // 2 :: CELLS].tolist()
        return [number & LOW_BITS if self.field % 2 else number >> 32 for number in numbers]


class Numbers(NamedTuple):
    """Whole numbers, that a range or the rows say."""

    values: range | Packed


class Times(NamedTuple):
    """Numbers that grow now and then, each times `scale`: where they do, and what they are from there on."""

    starts: Sequence[int]
    values: Sequence[int]
    scale: int


class Some(NamedTuple):
    """Numbers, each times `scale`, of rows whose code has a mark; those below zero are missing too."""

    values: Packed
    codes: Packed
    marks: Sequence[bool]
    scale: int


class Codes(NamedTuple):
    """Words, or numbers that are few, by their codes; no codes: all are the first. None is missing."""

    codes: Packed | None
    words: Sequence[str | int | None]


class Texts(NamedTuple):
    """Texts in a run of octets, and where each ends; the empty ones are missing. There may be more behind the last."""

    ends: memoryview
    octets: bytearray


Column = Numbers | Times | Some | Codes | Texts


class Question(NamedTuple):
    """Which events are looked for; None asks for nothing."""

    vhost: str
    message_id: str | None = None
    queue: str | None = None
    event: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    #: The newest so many.
    limit: int = 1000


def values(column: Column, count: int) -> Sequence[object]:
    """One by one: for those who have no better way, and for tests."""
    if isinstance(column, Numbers):
        return column.values if isinstance(column.values, range) else column.values.all()
    if isinstance(column, Times):
        ends = [*column.starts[1:], count]
        runs = zip(column.starts, ends, column.values, strict=True)
        return [value * column.scale for start, end, value in runs for _ in range(start, end)]
    if isinstance(column, Some):
        both = zip(column.values.all(), column.codes.all(), strict=True)
        return [value * column.scale if column.marks[code] and value >= 0 else None for value, code in both]
    if isinstance(column, Codes):
        return [column.words[code] for code in (column.codes.all() if column.codes is not None else [0] * count)]
    starts = [0, *column.ends[:-1]]
    octets = [column.octets[start:end] for start, end in zip(starts, column.ends, strict=True)]
    return [each.decode("utf-8", "replace") or None for each in octets]
