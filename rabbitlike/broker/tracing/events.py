"""The event log in memory: one packed row for every event of traced messages.

No object is created per event: numbers go into an array, names become small numbers, and message ids go into one
buffer. Rows are sealed when they are full, old enough or at the end of an hour, and handed to the exporter; a few
sealed blocks stay here for searches. Rows not exported in time are lost and counted: the log neither blocks the broker
nor grows.
"""

from array import array
from collections import deque
from collections.abc import Callable
from mmap import mmap
from struct import calcsize
from typing import Literal

from rabbitlike.broker.message import Message
from rabbitlike.broker.tracing.event_columns import CONFIRM, DELIVER, ENQUEUE, MOST_ATTEMPTS, PUBLISH, REFUSED
from rabbitlike.broker.turn import Turn
from rabbitlike.clock import Timer
from rabbitlike.protocol import octets
from rabbitlike.protocol.properties import message_id_at
from rabbitlike.storage.columns import CELLS

HOUR_MS = 3_600_000
#: How many sealed blocks of rows stay for searches.
RECENT = 2
#: When the buffer for ids is full, it doubles and grows by this many octets more.
MORE_IDS = 65536
#: Size of the cache of steps; a power of two.
REMEMBERED = 256


class Rows:
    """A block of events, the oldest first."""

    __slots__ = (
        "_cells",
        "_id_ends",
        "_id_rows",
        "_ids_end",
        "_now_ms",
        "addresses",
        "capacity",
        "cells",
        "count",
        "first_seq",
        "hour_end_ms",
        "ids",
        "is_busy",
        "places",
        "steps",
        "tags",
        "time_starts",
        "times_ms",
    )

    def __init__(self, capacity: int, first_seq: int, now_ms: int) -> None:
        self.capacity = capacity
        self.begin(first_seq, now_ms)
        #: Public for unpacking.
        self.cells = _zeros("q", capacity * CELLS)
        self._cells = self.cells
        #: Message ids without separators, with spare space at the end, and where the id of each row ends.
        self.ids = bytearray()
        self._id_ends = _zeros("i", capacity)

    def begin(self, first_seq: int, now_ms: int) -> None:
        """Start over with the same buffers: creating new ones costs more than writing all rows."""
        self.first_seq = first_seq
        self.count = 0
        #: The exporter still reads them.
        self.is_busy = False
        #: All rows are of one hour.
        self.hour_end_ms = now_ms - now_ms % HOUR_MS + HOUR_MS
        #: Vhost and queue, by their number.
        self.places: list[tuple[str, str]] = []
        #: Numbers of steps, by their keys.
        self.steps: dict[int, int] = {}
        #: Numbers of addresses (exchange and routing key as in messages); numbers of consumer tags, which begin at 1.
        self.addresses: dict[bytes, int] = {}
        self.tags: dict[str, int] = {}
        #: Rows with which a new time begins, and these times.
        self.time_starts: list[int] = []
        self.times_ms: list[int] = []
        self._now_ms = -1
        #: How many octets of ids are used, and for how many rows `_id_ends` is filled in.
        self._ids_end = 0
        self._id_rows = 0

    def release(self) -> None:
        """Mark the rows as exported. The exporter calls this, on any thread."""
        self.is_busy = False

    def add_id(self, at: int, properties: bytes, place: int) -> None:
        """Add the id of a row, which is in its properties after a length octet."""
        self._fill_ids(at)
        size = properties[place]
        if self._ids_end + size > len(self.ids):
            self.ids += bytes(len(self.ids) + MORE_IDS)
        p = self.ids
        octets.put_part(p, self._ids_end, properties, place + 1, size)
        self._ids_end += size
        self._id_ends[at] = self._ids_end
        self._id_rows = at + 1

    def _fill_ids(self, count: int) -> None:
        """Set the ends of rows without an id to the end of the previous one."""
        for at in range(self._id_rows, count):
            self._id_ends[at] = self._ids_end
        self._id_rows = count

    def id_ends(self) -> memoryview:
        """Return where the id of each row ends."""
        self._fill_ids(self.count)
        return memoryview(self._id_ends)[: self.count]

    def id_of(self, at: int) -> bytes:
        """Return the message id of a row; empty if there is none."""
        ends = self.id_ends()
        return bytes(self.ids[ends[at - 1] if at > 0 else 0 : ends[at]])


def _zeros(kind: Literal["i", "q"], count: int) -> memoryview:
    """Return ``count`` zeros, which take no memory until they are written."""
    return memoryview(mmap(-1, count * calcsize(kind))).cast(kind)


class Place:
    """Where events happen: a queue or, with an empty name, a vhost's exchanges. Caches its number in the current
    rows."""

    __slots__ = ("_code", "_first_seq", "queue", "vhost")

    def __init__(self, vhost: str, queue: str) -> None:
        self.vhost = vhost
        self.queue = queue
        #: The first sequence number of those rows.
        self._first_seq = -1
        self._code = 0


class Unconfirmed:
    """Consecutive publishes that are alike and wait for the same commit."""

    __slots__ = ("address", "count", "number", "place", "priority", "properties", "size")

    number: int
    place: Place
    address: bytes
    properties: bytes
    priority: int
    size: int
    count: int


class Events:
    """The one event log of a broker."""

    __slots__ = (
        "_awaiting",
        "_capacity",
        "_interval_ms",
        "_keys",
        "_last_address",
        "_last_address_code",
        "_last_id_at",
        "_last_properties",
        "_last_tag",
        "_last_tag_code",
        "_newest",
        "_next_seq",
        "_rows",
        "_spare",
        "_steps",
        "_timer",
        "_turn",
        "export",
        "lost",
        "recent",
    )

    def __init__(self, turn: Turn, capacity: int, interval_ms: int) -> None:
        self._turn = turn
        self._capacity = capacity
        self._interval_ms = interval_ms
        #: Starts at the time in microseconds, so that numbers grow from one run to the next without being stored.
        self._next_seq = turn.now_ms * 1000
        self._rows: Rows | None = None
        self._timer: Timer | None = None
        # Consecutive messages share what their publisher repeats: cache the last lookups.
        self._last_properties = b"\0\0"
        self._last_id_at = message_id_at(self._last_properties)
        self._last_address: bytes | None = None
        self._last_address_code = 0
        self._last_tag: str | None = None
        self._last_tag_code = 0
        # Cached keys of steps, and their numbers.
        self._keys = array("q", (-1,)) * REMEMBERED
        self._steps = array("q", (0,)) * REMEMBERED
        #: Confirms that wait for commits, and the newest of them.
        self._awaiting: deque[Unconfirmed] = deque()
        self._newest: Unconfirmed | None = None
        #: Takes sealed rows; returns False if it cannot.
        self.export: Callable[[Rows], bool] | None = None
        #: How many events were not exported.
        self.lost = 0
        #: Sealed rows, oldest first.
        self.recent: deque[Rows] = deque()
        self._spare: list[Rows] = []

    def add(
        self,
        event: int,
        place: Place,
        address: bytes,
        properties: bytes,
        position: int,
        priority: int,
        size: int,
        attempts: int,
        tag: str | None,
        took_ms: int,
        reason: int,
    ) -> None:
        """Add one row. `took_ms` is the time until delivery, or from delivery to settlement; -1: none."""
        rows = self._rows
        now_ms = self._turn.now_ms
        if rows is None or rows.count == rows.capacity or now_ms >= rows.hour_end_ms:
            rows = self._begin()
        at = rows.count
        if now_ms != rows._now_ms:
            rows._now_ms = now_ms
            rows.time_starts.append(at)
            rows.times_ms.append(now_ms)
        if place._first_seq != rows.first_seq:
            place._first_seq = rows.first_seq
            place._code = len(rows.places)
            rows.places.append((place.vhost, place.queue))
        if address is not self._last_address and address != self._last_address:
            self._find_address(rows, address)
        key = place._code << 40 | event | reason << 4
        if priority > 0:
            key |= priority << 8
        if attempts > 0:
            key |= (attempts if attempts < MOST_ATTEMPTS else MOST_ATTEMPTS) << 16
        slot = (key ^ key >> 37) & (REMEMBERED - 1)
        if self._keys[slot] != key:
            self._find_step(rows, key, slot)
        tail = self._steps[slot] << 32
        if tag is not None:
            if tag is not self._last_tag:
                self._find_tag(rows, tag)
            tail |= self._last_tag_code
        cell = at * CELLS
        rows._cells[cell] = position
        rows._cells[cell + 1] = took_ms
        rows._cells[cell + 2] = self._last_address_code << 32 | size
        rows._cells[cell + 3] = tail
        if properties is not self._last_properties and properties != self._last_properties:
            self._last_properties = properties
            self._last_id_at = message_id_at(properties)
        if self._last_id_at > 0:
            rows.add_id(at, properties, self._last_id_at)
        rows.count = at + 1

    def add_message(
        self, event: int, place: Place, message: Message, tag: str | None, took_ms: int, reason: int
    ) -> None:
        self.add(
            event,
            place,
            message.address,
            message.properties,
            message.position,
            message.priority,
            len(message.body),
            message.attempts,
            tag,
            took_ms,
            reason,
        )

    def add_run(
        self, event: int, place: Place, messages: list[Message], tag: str | None, took_ms: int, reason: int
    ) -> None:
        """Add a row for each message; repeated ones are cheap. For deliveries `took_ms` is computed here."""
        like: Message | None = None
        for message in messages:
            if event == DELIVER:
                took_ms = self._turn.now_ms - message.published_at_ms if message.attempts == 0 else -1
            if (
                like is None
                or message.address is not like.address
                or message.properties is not like.properties
                or len(message.body) != len(like.body)
                or message.attempts != like.attempts
                or message.priority != like.priority
                or not self._repeat(1, message.position, took_ms)
            ):
                self.add_message(event, place, message, tag, took_ms, reason)
            like = message

    def add_entries(self, vhost: Place, queue: Place | None, messages: list[Message]) -> None:
        """Add two rows for each message, publish and enqueue. The messages differ only in their bodies. Without
        ``queue``, only the publish is added."""
        back = 1 if queue is None else 2
        before = -1
        for message in messages:
            size = len(message.body)
            is_like = size == before
            before = size
            if not is_like or not self._repeat(back, 0, -1):
                self.add(PUBLISH, vhost, message.address, message.properties, 0, message.priority, size, 0, None, -1, 0)
            if queue is not None and not (is_like and self._repeat(back, message.position, -1)):
                self.add_message(ENQUEUE, queue, message, None, -1, 0)

    def _repeat(self, back: int, position: int, took_ms: int) -> bool:
        """Repeat the row ``back`` rows before the next one with these values, in the same turn. False: not possible."""
        rows = self._rows
        if rows is None or rows.count < back or rows.count == rows.capacity or self._last_id_at > 0:
            return False
        cell = rows.count * CELLS
        like = cell - back * CELLS
        rows._cells[cell] = position
        rows._cells[cell + 1] = took_ms
        rows._cells[cell + 2] = rows._cells[like + 2]
        rows._cells[cell + 3] = rows._cells[like + 3]
        rows.count += 1
        return True

    def _find_step(self, rows: Rows, key: int, slot: int) -> None:
        code = rows.steps.get(key)
        if code is None:
            code = len(rows.steps)
            rows.steps[key] = code
        self._keys[slot] = key
        self._steps[slot] = code

    def _find_address(self, rows: Rows, address: bytes) -> None:
        code = rows.addresses.get(address)
        if code is None:
            code = len(rows.addresses)
            rows.addresses[address] = code
        self._last_address = address
        self._last_address_code = code

    def _find_tag(self, rows: Rows, tag: str) -> None:
        code = rows.tags.get(tag)
        if code is None:
            code = len(rows.tags) + 1
            rows.tags[tag] = code
        self._last_tag = tag
        self._last_tag_code = code

    def confirm(
        self,
        place: Place,
        address: bytes,
        properties: bytes,
        priority: int,
        size: int,
        number: int,
        accepted: bool,
        count: int,
    ) -> None:
        """Confirm ``count`` publishes that are alike: at once, or when commit ``number`` is done."""
        if not accepted or number == 0:
            self._add_confirms(place, address, properties, priority, size, 0 if accepted else REFUSED, count)
            return
        last = self._newest
        if (
            last is None
            or last.number != number
            or last.place is not place
            or last.address is not address
            or last.properties is not properties
            or last.priority != priority
            or last.size != size
        ):
            # Filled in here: a constructor call per object would cost more than all the rest.
            last = Unconfirmed.__new__(Unconfirmed)
            last.number = number
            last.place = place
            last.address = address
            last.properties = properties
            last.priority = priority
            last.size = size
            last.count = 0
            self._newest = last
            self._awaiting.append(last)
        last.count += count

    def committed(self, number: int) -> None:
        """Add the confirms that waited for commits up to this one."""
        while self._awaiting:
            alike = self._awaiting[0]
            if alike.number > number:
                break
            self._awaiting.popleft()
            self._confirm_all(alike, 0)

    def commit_failed(self) -> None:
        """Record everything that waits for a commit as refused."""
        while self._awaiting:
            self._confirm_all(self._awaiting.popleft(), REFUSED)

    def _confirm_all(self, alike: Unconfirmed, reason: int) -> None:
        if alike is self._newest:
            self._newest = None
        self._add_confirms(
            alike.place, alike.address, alike.properties, alike.priority, alike.size, reason, alike.count
        )

    def _add_confirms(
        self, place: Place, address: bytes, properties: bytes, priority: int, size: int, reason: int, count: int
    ) -> None:
        for at in range(count):
            if at == 0 or not self._repeat(1, 0, -1):
                self.add(CONFIRM, place, address, properties, 0, priority, size, 0, None, -1, reason)

    def blocks(self) -> list[Rows]:
        """Return all blocks that can be searched, oldest first."""
        return [*self.recent, *([] if self._rows is None else [self._rows])]

    def seal(self) -> None:
        """Seal the current rows and export them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows = self._rows
        if rows is None or rows.count == 0:
            return
        self._rows = None
        self._next_seq = rows.first_seq + rows.count
        self.recent.append(rows)
        if len(self.recent) > RECENT:
            oldest = self.recent.popleft()
            if not oldest.is_busy and not self._spare:
                self._spare.append(oldest)
        if self.export is not None:
            rows.is_busy = True
            if not self.export(rows):
                rows.is_busy = False
                self.lost += rows.count

    def _begin(self) -> Rows:
        self.seal()
        if self._spare:
            rows = self._spare.pop()
            rows.begin(self._next_seq, self._turn.now_ms)
        else:
            rows = Rows(self._capacity, self._next_seq, self._turn.now_ms)
        self._rows = rows
        self._last_address = None
        self._last_tag = None
        for slot in range(REMEMBERED):
            self._keys[slot] = -1
        self._timer = self._turn.at(self._interval_ms, self.seal)
        return rows
