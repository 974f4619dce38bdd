"""The event log in memory: a row for every step in the life of messages that are traced, packed in columns.

No object is made per event: numbers go into arrays, names into small numbers, message ids into one run of octets. Rows
that are full, an hour's last, or old enough are sealed and handed to whoever exports them; a few stay here to be
searched. What nobody takes in time is lost and counted: the log never holds up the broker, nor grows.
"""

from array import array
from collections import deque
from collections.abc import Callable

from rabbitlike.broker.event_columns import CONFIRM, REFUSED
from rabbitlike.broker.turn import Turn
from rabbitlike.clock import Timer
from rabbitlike.protocol.properties import message_id_of

HOUR_MS = 3_600_000
#: Packed columns and the widths of their numbers.
COLUMNS = (
    ("ts_ms", "q"),
    ("position", "q"),
    ("wait_ms", "q"),
    ("proc_ms", "q"),
    ("place", "i"),
    ("address", "i"),
    ("tag", "i"),
    ("id_end", "i"),
    ("size", "i"),
    ("attempts", "i"),
    ("priority", "i"),
    ("event", "b"),
    ("reason", "b"),
)
#: Sealed rows that stay to be searched.
RECENT = 2


class Rows:
    """Events in columns, the oldest first."""

    __slots__ = (
        "_address",
        "_attempts",
        "_event",
        "_id_end",
        "_place",
        "_position",
        "_priority",
        "_proc_ms",
        "_reason",
        "_size",
        "_tag",
        "_ts_ms",
        "_wait_ms",
        "addresses",
        "capacity",
        "columns",
        "count",
        "first_seq",
        "hour_end_ms",
        "ids",
        "is_busy",
        "places",
        "tags",
    )

    def __init__(self, capacity: int, first_seq: int, now_ms: int) -> None:
        self.capacity = capacity
        self.begin(first_seq, now_ms)
        #: By name, for whoever unpacks them.
        self.columns = {name: array(kind, (0,)) * capacity for name, kind in COLUMNS}
        self._ts_ms = self.columns["ts_ms"]
        self._position = self.columns["position"]
        self._wait_ms = self.columns["wait_ms"]
        self._proc_ms = self.columns["proc_ms"]
        self._place = self.columns["place"]
        self._address = self.columns["address"]
        self._tag = self.columns["tag"]
        self._id_end = self.columns["id_end"]
        self._size = self.columns["size"]
        self._attempts = self.columns["attempts"]
        self._priority = self.columns["priority"]
        self._event = self.columns["event"]
        self._reason = self.columns["reason"]

    def begin(self, first_seq: int, now_ms: int) -> None:
        """Forget what there was: making columns anew costs more than all that is written into them."""
        self.first_seq = first_seq
        self.count = 0
        #: Somebody still reads them.
        self.is_busy = False
        #: They are all of one hour.
        self.hour_end_ms = now_ms - now_ms % HOUR_MS + HOUR_MS
        #: Vhost and queue, by their number in the column.
        self.places: list[tuple[str, str]] = []
        #: Exchange and routing key as messages carry them, and their numbers; consumer tags, whose numbers begin at 1.
        self.addresses: dict[bytes, int] = {}
        self.tags: dict[str, int] = {}
        #: Message ids without anything between them; the column says where each ends.
        self.ids = bytearray()

    def release(self) -> None:
        """Whoever took them to export them is done. Called on any thread."""
        self.is_busy = False

    def id_of(self, at: int) -> bytes:
        """The message id of a row; empty when there is none."""
        ends = self.columns["id_end"]
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


class Events:
    """The one event log of a broker."""

    __slots__ = (
        "_awaiting",
        "_capacity",
        "_interval_ms",
        "_last_address",
        "_last_address_code",
        "_last_id",
        "_last_properties",
        "_last_tag",
        "_last_tag_code",
        "_next_seq",
        "_rows",
        "_spare",
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
        #: Confirms that wait for a commit: its number, and what the row will say.
        self._awaiting: deque[tuple[int, Place, bytes, bytes, int, int]] = deque()
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
        wait_ms: int,
        proc_ms: int,
        reason: int,
    ) -> None:
        """One row. -1: no wait, no time of processing."""
        rows = self._rows
        if rows is None or rows.count == rows.capacity or self._turn.now_ms >= rows.hour_end_ms:
            rows = self._begin()
        at = rows.count
        if place._first_seq != rows.first_seq:
            place._first_seq = rows.first_seq
            place._code = len(rows.places)
            rows.places.append((place.vhost, place.queue))
        if address is not self._last_address:
            self._find_address(rows, address)
        rows._ts_ms[at] = self._turn.now_ms
        rows._event[at] = event
        rows._place[at] = place._code
        rows._address[at] = self._last_address_code
        rows._position[at] = position
        rows._priority[at] = priority if priority > 0 else 0
        rows._size[at] = size
        rows._attempts[at] = attempts
        rows._wait_ms[at] = wait_ms
        rows._proc_ms[at] = proc_ms
        rows._reason[at] = reason
        if tag is None:
            rows._tag[at] = 0
        else:
            if tag is not self._last_tag:
                self._find_tag(rows, tag)
            rows._tag[at] = self._last_tag_code
        if properties is not self._last_properties:
            self._last_properties = properties
            self._last_id = message_id_of(properties)
        if self._last_id:
            rows.ids += self._last_id
        rows._id_end[at] = len(rows.ids)
        rows.count = at + 1

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
        if accepted and number != 0:
            self._awaiting.append((number, place, address, properties, priority, size))
        else:
            reason = 0 if accepted else REFUSED
            self.add(CONFIRM, place, address, properties, 0, priority, size, 0, None, -1, -1, reason)

    def committed(self, number: int) -> None:
        """All commits up to this are done."""
        awaiting = self._awaiting
        while awaiting and awaiting[0][0] <= number:
            _, place, address, properties, priority, size = awaiting.popleft()
            self.add(CONFIRM, place, address, properties, 0, priority, size, 0, None, -1, -1, 0)

    def commit_failed(self) -> None:
        """Whatever waits for a commit is refused."""
        while self._awaiting:
            _, place, address, properties, priority, size = self._awaiting.popleft()
            self.add(CONFIRM, place, address, properties, 0, priority, size, 0, None, -1, -1, REFUSED)

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
        self._timer = self._turn.at(self._interval_ms, self.seal)
        return rows
