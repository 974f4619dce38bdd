"""The event log in memory: a row for every step in the life of messages that are traced, packed.

No object is made per event: numbers go into an array, names into small numbers, message ids into one run of octets.
Rows that are full, an hour's last, or old enough are sealed and handed to whoever exports them; a few stay here to be
searched. What nobody takes in time is lost and counted: the log never holds up the broker, nor grows.
"""

from array import array
from collections import deque
from collections.abc import Callable

from rabbitlike.broker.event_columns import CONFIRM, MOST_ATTEMPTS, REFUSED
from rabbitlike.broker.turn import Turn
from rabbitlike.clock import Timer
from rabbitlike.protocol.properties import message_id_of
from rabbitlike.storage.columns import CELLS

HOUR_MS = 3_600_000
#: Sealed rows that stay to be searched.
RECENT = 2
#: Steps that are remembered to be found at once; a power of two.
REMEMBERED = 256


class Rows:
    """Events, the oldest first."""

    __slots__ = (
        "_cells",
        "_id_ends",
        "_id_rows",
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
        #: For whoever unpacks them.
        self.cells = array("q", (0,)) * (capacity * CELLS)
        self._cells = self.cells
        self._id_ends = array("i", (0,)) * capacity

    def begin(self, first_seq: int, now_ms: int) -> None:
        """Forget what there was: making columns anew costs more than all that is written into them."""
        self.first_seq = first_seq
        self.count = 0
        #: Somebody still reads them.
        self.is_busy = False
        #: They are all of one hour.
        self.hour_end_ms = now_ms - now_ms % HOUR_MS + HOUR_MS
        #: Vhost and queue, by their number.
        self.places: list[tuple[str, str]] = []
        #: Keys of steps, and their numbers.
        self.steps: dict[int, int] = {}
        #: Exchange and routing key as messages carry them, and their numbers; consumer tags, whose numbers begin at 1.
        self.addresses: dict[bytes, int] = {}
        self.tags: dict[str, int] = {}
        #: Rows with which a new time begins, and these times.
        self.time_starts: list[int] = []
        self.times_ms: list[int] = []
        self._now_ms = -1
        #: Message ids without anything between them, and where that of each row ends; of so many rows that is said.
        self.ids = bytearray()
        self._id_rows = 0

    def release(self) -> None:
        """Whoever took them to export them is done. Called on any thread."""
        self.is_busy = False

    def add_id(self, at: int, message_id: bytes) -> None:
        """The id of a row that has one."""
        self._fill_ids(at)
        self.ids += message_id
        self._id_ends[at] = len(self.ids)
        self._id_rows = at + 1

    def _fill_ids(self, count: int) -> None:
        """Rows without an id end where the one before does."""
        end = len(self.ids)
        for at in range(self._id_rows, count):
            self._id_ends[at] = end
        self._id_rows = count

    def id_ends(self) -> memoryview:
        """Where the id of each row ends."""
        self._fill_ids(self.count)
        return memoryview(self._id_ends)[: self.count]

    def id_of(self, at: int) -> bytes:
        """The message id of a row; empty when there is none."""
        ends = self.id_ends()
        return bytes(self.ids[ends[at - 1] if at > 0 else 0 : ends[at]])


class Place:
    """Where events happen: a queue, or with an empty name a vhost's exchanges. Knows its number in the rows at hand."""

    __slots__ = ("_code", "_first_seq", "queue", "vhost")

    def __init__(self, vhost: str, queue: str) -> None:
        self.vhost = vhost
        self.queue = queue
        #: The first number of those rows.
        self._first_seq = -1
        self._code = 0


class Unconfirmed:
    """Publishes that wait for one commit, in their order."""

    __slots__ = ("addresses", "number", "places", "properties", "sizes")

    def __init__(self, number: int) -> None:
        self.number = number
        self.places: list[Place] = []
        self.addresses: list[bytes] = []
        self.properties: list[bytes] = []
        #: And their priorities, in an octet.
        self.sizes: list[int] = []


class Events:
    """The one event log of a broker."""

    __slots__ = (
        "_awaiting",
        "_capacity",
        "_interval_ms",
        "_keys",
        "_last_address",
        "_last_address_code",
        "_last_id",
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
        #: A microsecond each, so that numbers grow from one run to the next without anybody remembering the last.
        self._next_seq = turn.now_ms * 1000
        self._rows: Rows | None = None
        self._timer: Timer | None = None
        # Messages that follow each other share what their publisher repeats: what was looked up holds for the next.
        self._last_properties = b""
        self._last_id = b""
        self._last_address: bytes | None = None
        self._last_address_code = 0
        self._last_tag: str | None = None
        self._last_tag_code = 0
        # Keys of steps that were looked up, and their numbers.
        self._keys = array("q", (-1,)) * REMEMBERED
        self._steps = array("q", (0,)) * REMEMBERED
        #: Confirms that wait for commits, and the newest of them.
        self._awaiting: deque[Unconfirmed] = deque()
        self._newest: Unconfirmed | None = None
        #: Takes sealed rows, or says that it cannot.
        self.export: Callable[[Rows], bool] | None = None
        #: Events that nobody exported.
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
        """One row. `took_ms` is the wait of a delivery, or what whoever settles it took; -1: none."""
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
        if address is not self._last_address:
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
        if properties is not self._last_properties:
            self._last_properties = properties
            self._last_id = message_id_of(properties)
        if self._last_id:
            rows.add_id(at, self._last_id)
        rows.count = at + 1

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
    ) -> None:
        """A publish is confirmed: at once, or when commit ``number`` is done."""
        if not accepted or number == 0:
            reason = 0 if accepted else REFUSED
            self.add(CONFIRM, place, address, properties, 0, priority, size, 0, None, -1, reason)
            return
        group = self._newest
        if group is None or group.number != number:
            group = self._newest = Unconfirmed(number)
            self._awaiting.append(group)
        group.places.append(place)
        group.addresses.append(address)
        group.properties.append(properties)
        group.sizes.append(size << 8 | (priority if priority > 0 else 0))

    def committed(self, number: int) -> None:
        """All commits up to this are done."""
        while self._awaiting and self._awaiting[0].number <= number:
            self._confirm_all(self._awaiting.popleft(), 0)

    def commit_failed(self) -> None:
        """Whatever waits for a commit is refused."""
        while self._awaiting:
            self._confirm_all(self._awaiting.popleft(), REFUSED)

    def _confirm_all(self, group: Unconfirmed, reason: int) -> None:
        if group is self._newest:
            self._newest = None
        for at in range(len(group.places)):
            size = group.sizes[at]
            self.add(
                CONFIRM,
                group.places[at],
                group.addresses[at],
                group.properties[at],
                0,
                size & 255,
                size >> 8,
                0,
                None,
                -1,
                reason,
            )

    def blocks(self) -> list[Rows]:
        """All that can be searched, oldest first."""
        return [*self.recent, *([] if self._rows is None else [self._rows])]

    def seal(self) -> None:
        """Hand on what there is."""
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
