"""Search the events still in memory: the current rows and those sealed last.

A message id is searched in the octets of all ids, whatever the number of rows; anything else row by row. Both yield
None now and then, so that the caller can let the broker work.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.broker.tracing.event_columns import (
    ACK,
    ADDRESS_SIZE,
    DELIVER,
    EVENTS,
    NACK,
    POSITION,
    REASONS,
    STEP_TAG,
    TOOK_MS,
    Step,
    plain,
    read_step,
)
from rabbitlike.storage.columns import CELLS, LOW_BITS, Question
from rabbitlike.storage.event_files import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rabbitlike.broker.tracing.events import Events, Rows

__all__ = ["Question", "search"]

Row = dict[str, object]
#: How many rows, or octets of ids, are searched in one step.
STEP: Final = 500
STEP_OCTETS: Final = 1 << 18


def search(events: Events, question: Question, node: str) -> Iterator[Row | None]:
    """Yield the newest matching rows, newest first; None is a pause."""
    found = 0
    for rows in reversed(events.blocks()):
        unpack = Unpack(rows, node)
        for at in _by_id(rows, question.message_id) if question.message_id is not None else _backwards(rows):
            if at is None or not unpack.answers(at, question):
                if at is None:
                    yield None
                continue
            yield unpack.row(at)
            found += 1
            if found == question.limit:
                return


def _backwards(rows: Rows) -> Iterator[int | None]:
    first_seq = rows.first_seq
    for at in range(rows.count - 1, -1, -1):
        yield at
        if at % STEP == 0:
            yield None
        if rows.first_seq != first_seq:
            return  # the block was reused for newer rows meanwhile


def _by_id(rows: Rows, message_id: str) -> Iterator[int | None]:
    """Yield the rows with this message id, the last first; None is a pause."""
    wanted = message_id.encode("utf-8", "surrogateescape")
    if not wanted:
        return
    ends = rows.id_ends()
    count = rows.count
    stop = ends[count - 1] if count else 0
    first_seq = rows.first_seq
    while stop >= len(wanted) and rows.first_seq == first_seq:
        start = max(0, stop - STEP_OCTETS)
        place = rows.ids.rfind(wanted, start, stop)
        if place < 0:
            if start == 0:
                return
            stop = start + len(wanted) - 1  # the id may begin before the part just searched
            yield None
            continue
        # The first row whose id ends after this place; rows without an id end where the previous row ends.
        at = bisect_right(ends, place, 0, count)
        yield at if rows.id_of(at) == wanted else None
        # An id fills its row's octets: the rest of this row cannot contain another.
        stop = ends[at - 1] if at else 0


class Unpack:
    """Unpacks single rows."""

    __slots__ = ("_addresses", "_node", "_rows", "_steps", "_tags")

    def __init__(self, rows: Rows, node: str) -> None:
        self._rows = rows
        self._node = node
        self._addresses = list(rows.addresses)
        self._steps = list(rows.steps)
        self._tags = list(rows.tags)

    def answers(self, at: int, question: Question) -> bool:
        step = self._step(at)
        vhost, queue = self._rows.places[step.place]
        at_ms = self._time(at)
        return (
            vhost == question.vhost
            and (question.queue is None or queue == question.queue)
            and (question.event is None or EVENTS[step.event] == question.event)
            and (question.since_ms is None or at_ms >= question.since_ms)
            and (question.until_ms is None or at_ms <= question.until_ms)
        )

    def row(self, at: int) -> Row:
        """Return one row as event files contain it."""
        cells = self._rows.cells[at * CELLS : (at + 1) * CELLS]
        step = self._step(at)
        vhost, queue = self._rows.places[step.place]
        address = self._address(cells[ADDRESS_SIZE] >> 32)
        tag = cells[STEP_TAG] & LOW_BITS
        took_us = cells[TOOK_MS] * 1000 if cells[TOOK_MS] >= 0 else None
        return {
            "seq": self._rows.first_seq + at,
            "ts": shown("timestamp", self._time(at) * 1000),
            "node": self._node,
            "vhost": plain(vhost),
            "event": EVENTS[step.event],
            "queue": plain(queue),
            "exchange": plain(exchange_of(address)),
            "routing_key": plain(routing_key_of(address)),
            "msg_seq": cells[POSITION],
            "message_id": self._rows.id_of(at).decode("utf-8", "replace") or None,
            "priority": step.priority,
            "consumer_tag": plain(self._tag(tag)) if tag else None,
            "consumer_group": None,
            "size": cells[ADDRESS_SIZE] & LOW_BITS,
            "delivery_count": step.attempts,
            "redelivered": step.attempts > 0,
            "wait_us": took_us if step.event == DELIVER else None,
            "proc_us": took_us if step.event in (ACK, NACK) else None,
            "reason": REASONS[step.reason],
        }

    def _time(self, at: int) -> int:
        return self._rows.times_ms[bisect_right(self._rows.time_starts, at) - 1]

    # The rows may have grown since the constructor copied the lists.

    def _step(self, at: int) -> Step:
        code = self._rows.cells[at * CELLS + STEP_TAG] >> 32
        if code >= len(self._steps):
            self._steps = list(self._rows.steps)
        return read_step(self._steps[code])

    def _address(self, code: int) -> bytes:
        if code >= len(self._addresses):
            self._addresses = list(self._rows.addresses)
        return self._addresses[code]

    def _tag(self, code: int) -> str:
        if code > len(self._tags):
            self._tags = list(self._rows.tags)
        return self._tags[code - 1]
