"""Columns of packed rows, passed from the event log to the file writer; rows are not objects."""

from collections.abc import Sequence
from typing import Final, NamedTuple

#: Cells of a row, eight octets each: two are whole numbers, each of the other two holds two non-negative halves.
CELLS: Final = 4
LOW_BITS: Final = 0xFFFFFFFF


class Packed(NamedTuple):
    """One number of each row: fields 0 and 1 are whole cells, 2 to 5 the upper and lower halves of the others."""

    cells: memoryview
    field: int

    def all(self) -> list[int]:
        if self.field < 2:
            return self.cells[self.field :: CELLS].tolist()
        numbers = self.cells[1 + self.field // 2 :: CELLS].tolist()
        return [number & LOW_BITS if self.field % 2 else number >> 32 for number in numbers]


class Numbers(NamedTuple):
    """Whole numbers, given as a range or by the rows."""

    values: range | Packed


class Times(NamedTuple):
    """A step function of the row, times `scale`: the rows where the value changes, and the new values."""

    starts: Sequence[int]
    values: Sequence[int]
    scale: int


class Some(NamedTuple):
    """Numbers, times `scale`, of rows whose code is marked; negative ones are missing too."""

    values: Packed
    codes: Packed
    marks: Sequence[bool]
    scale: int


class Codes(NamedTuple):
    """Words, or a few different numbers, by their codes; without codes all rows have the first. None is missing."""

    codes: Packed | None
    words: Sequence[str | int | None]


class Texts(NamedTuple):
    """Texts in one run of octets, and the end of each; empty ones are missing. Octets after the last end are
    ignored."""

    ends: memoryview
    octets: bytearray


Column = Numbers | Times | Some | Codes | Texts


class Question(NamedTuple):
    """The filter of an event search; None does not filter."""

    vhost: str
    message_id: str | None = None
    queue: str | None = None
    event: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    #: Only this many of the newest events.
    limit: int = 1000


def values(column: Column, count: int) -> Sequence[object]:
    """The values one by one: for writers without Parquet, and for tests."""
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
