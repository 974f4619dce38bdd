"""The history of an object's numbers: a ring of packed rows, one for each sample that differs from the previous one.

Most objects are idle, and most numbers of active ones stay 0. So a history stores only the columns that ever changed,
in as few octets as they need, and nothing for an idle object. A sample is identified by its tick, the number of
sampling intervals since the epoch; a row is valid until the next one.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cache
from struct import Struct, error
from typing import Final, Literal

Values = tuple[int, ...]


@cache
def _struct(code: str, columns: int) -> Struct:
    return Struct("=I" + code * columns)


class Shape:
    """The numbers kept for one kind of object: first lengths, which rise and fall, then counts, which only grow."""

    __slots__ = ("_bits", "code", "counts", "lengths", "names", "width", "wraps")

    def __init__(self, lengths: Sequence[str], counts: Sequence[str], code: Literal["I", "Q"] = "I") -> None:
        self.lengths = tuple(lengths)
        self.counts = tuple(counts)
        self.names = self.lengths + self.counts
        self.code = code
        self.width = len(self.names)
        #: Counts may exceed four octets and wrap to 0; within ten minutes none grows by 2^32.
        self.wraps = code == "I"
        self._bits = 8 * Struct("=" + code).size

    def pack(self, values: Values) -> bytes:
        """All values packed, for comparison."""
        whole = _struct(self.code, self.width)
        try:
            return whole.pack(0, *values)
        except error:
            return whole.pack(0, *self.fit(values))

    def fit(self, values: Values) -> Values:
        most = (1 << self._bits) - 1
        lengths = len(self.lengths)
        return (
            *(min(max(value, 0), most) for value in values[:lengths]),
            *(value & most for value in values[lengths:]),
        )

    def unfit(self, column: int, kept: int, now: int) -> int:
        """The value that was stored as `kept`, given the current value `now`."""
        return now - self.change(column, kept, now)

    def change(self, column: int, before: int, after: int) -> int:
        change = after - before
        return change if column < len(self.lengths) else change & ((1 << self._bits) - 1)


class History:
    """The changes of one object in the last `capacity` ticks, and its values before them."""

    __slots__ = ("_base", "_columns", "_last", "_next", "_rows", "capacity", "shape")

    def __init__(self, shape: Shape, values: Values, capacity: int) -> None:
        self.shape = shape
        #: Number of ticks with complete history.
        self.capacity = capacity
        #: Values before the first row.
        self._base = shape.fit(values)
        self._last = shape.pack(values)
        self._columns: tuple[int, ...] = ()
        self._rows = bytearray()
        #: Offset of the next row once the ring is full: that of the oldest.
        self._next = 0

    def add(self, tick: int, values: Values) -> None:
        """Add the values at a tick later than all before. Costs almost nothing if they equal the last ones."""
        packed = self.shape.pack(values)
        if packed == self._last:
            if self._rows:
                self._rest(tick)
            return
        self._last = packed
        fitting = _struct(self.shape.code, self.shape.width).unpack(packed)[1:]
        if len(self._columns) < self.shape.width:
            self._widen(fitting)
        row = self._struct.pack(tick, *[fitting[column] for column in self._columns])
        if len(self._rows) <= self.capacity * len(row):
            self._rows += row
        else:
            self._rows[self._next : self._next + len(row)] = row
            self._next = (self._next + len(row)) % len(self._rows)

    @property
    def _struct(self) -> Struct:
        return _struct(self.shape.code, len(self._columns))

    def _widen(self, fitting: Values) -> None:
        """Add columns that change for the first time to all rows, with their values in the base."""
        base = self._base
        known = self._columns
        new = [at for at in range(self.shape.width) if at not in known and fitting[at] != base[at]]
        if not new:
            return
        rows = self._in_order()
        self._columns = (*known, *new)
        tail = [base[at] for at in new]
        pack = self._struct.pack
        self._rows = bytearray(b"".join(pack(*row, *tail) for row in rows))
        self._next = 0

    def _in_order(self) -> list[Values]:
        """The rows, oldest first, each preceded by its tick."""
        rows = list(self._struct.iter_unpack(self._rows))
        first = self._next // self._struct.size
        return rows[first:] + rows[:first]

    def _newest(self) -> int:
        """Offset of the newest row."""
        return (self._next or len(self._rows)) - self._struct.size

    def _rest(self, tick: int) -> None:
        """Drop the history of an object that has not changed within it."""
        newest = self._struct.unpack_from(self._rows, self._newest())[0]
        if tick - newest >= self.capacity:
            self._base = _struct(self.shape.code, self.shape.width).unpack(self._last)[1:]
            self._columns = ()
            self._rows = bytearray()
            self._next = 0

    def step(self, ticks: Container[int]) -> tuple[int, Values] | None:
        """The change in the newest row, if its tick is one of `ticks`: the tick, and the change of each number."""
        if not self._rows:
            return None
        newest = self._newest()
        row = self._struct.unpack_from(self._rows, newest)
        if row[0] not in ticks:
            return None
        size = self._struct.size
        if len(self._rows) == size:
            before: Values = (0, *(self._base[column] for column in self._columns))
        else:
            before = self._struct.unpack_from(self._rows, (newest or len(self._rows)) - size)
        change = [0] * self.shape.width
        for at, column in enumerate(self._columns, 1):
            change[column] = self.shape.change(column, before[at], row[at])
        return row[0], tuple(change)

    def samples(self, ticks: Sequence[int], now: Values) -> list[Values]:
        """The values at each of the ascending `ticks`. `now` are the current values, from which wrapped counts are
        restored."""
        rows = self._in_order() if self._rows else []
        whole = list(self._base)
        found: list[Values] = []
        at = 0
        if len(rows) > self.capacity:
            # Nothing older is known; the oldest row stands for it.
            ticks = [max(tick, rows[0][0]) for tick in ticks]
        for tick in ticks:
            while at < len(rows) and rows[at][0] <= tick:
                for column, kept in zip(self._columns, rows[at][1:], strict=True):
                    whole[column] = kept
                at += 1
            found.append(tuple(whole))
        if not self.shape.wraps:
            return found
        unfit, lengths = self.shape.unfit, len(self.shape.lengths)
        return [
            (*row[:lengths], *(unfit(column, row[column], now[column]) for column in range(lengths, len(row))))
            for row in found
        ]


#: Levels of history: maximum age and interval between samples, in seconds.
#: parity: RabbitMQ's sample_retention_policies.
RETENTION: Final = ((605, 5), (3660, 60), (29_400, 600), (86_400, 1800))
DETAIL_ROWS: Final = 121


class LongHistory:
    """History of one day for the broker, the node and vhosts; older samples are farther apart."""

    __slots__ = ("_last", "_levels")

    def __init__(self, shape: Shape, values: Values, interval_ms: int) -> None:
        #: For each level, the ticks between two samples, and the samples.
        self._levels = [(1, History(shape, values, DETAIL_ROWS))]
        for age_s, every_s in RETENTION[1:]:
            self._levels.append((max(1, every_s * 1000 // interval_ms), History(shape, values, age_s // every_s)))
        self._last = 0

    def add(self, tick: int, values: Values) -> None:
        for every, history in self._levels:
            if tick // every != self._last // every:
                history.add(tick // every, values)
        self._last = tick

    def step(self, ticks: Container[int]) -> tuple[int, Values] | None:
        return self._levels[0][1].step(ticks)

    def samples(self, ticks: Sequence[int], now: Values) -> list[Values]:
        """The values from the finest level that reaches back to the first of `ticks`."""
        span = ticks[-1] - ticks[0]
        for every, history in self._levels:
            if span <= every * history.capacity:
                break
        return history.samples([tick // every for tick in ticks], now)
