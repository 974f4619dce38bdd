"""What the clients of a broker know for certain, and what a broker that came back owes them.

Everything a client does or hears is entered when it happens, with a time that only grows. A commit holds all the broker
had done when it was taken, so an answer that waits for one makes certain what went before on the same connection
(`Link`), and all that was heard by anybody before the question was asked. After each restart `judge` compares what is
in the queues with what is owed, and gives a list of broken promises.

A message has a home, the queue it was last known in, and may be found elsewhere only if something was done that moves
it: a dead letter or a transaction. It is in one place, and in one only, unless it was acked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class Link:
    """One connection of a client: what is done on it is done in order."""

    name: str
    #: All that was sent on it before this time is committed.
    certain_at: int = -1


@dataclass
class Deed:
    """Something sent that changes where a message is: certain when a later answer on the same link says so."""

    link: Link
    at: int

    @property
    def is_certain(self) -> bool:
        return self.at < self.link.certain_at


@dataclass
class Entry:
    """A message."""

    number: int
    home: str
    publisher: str
    level: int = 0
    is_persistent: bool = True
    #: Sent together with it in one transaction.
    group: int = 0
    #: Certainly on disk: confirmed, or found after a restart.
    is_stored: bool = False
    #: Certainly not there any more, for this reason.
    gone: str = ""
    #: Acked, purged or deleted with its queue.
    end: Deed | None = None
    #: Where else it may be, and by what deed; None: by time or limit.
    moves: dict[str, Deed | None] = field(default_factory=dict)
    #: When it was last handed out from its home; -1: never.
    delivered_at: int = -1
    story: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"message {self.number} ({', '.join(self.story)})"


@dataclass(frozen=True, slots=True)
class Found:
    """A message in a queue, as it came out after a restart."""

    number: int
    redelivered: bool


class Ledger:
    """All that is known."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.now = 0
        #: Which durable queues there must be (True), must not be (False) and may be (None).
        self.queues: dict[str, bool | None] = {}
        #: Which of them are bound for certain.
        self.bound: set[str] = set()
        self._groups = 0
        self._order: dict[str, list[int]] = {}

    # What clients do and hear

    def tick(self) -> int:
        self.now += 1
        return self.now

    def new_group(self) -> int:
        self._groups += 1
        return self._groups

    def publish(self, queue: str, publisher: str, **facts: object) -> Entry:
        entry = Entry(len(self.entries) + 1, queue, publisher, **facts)  # type: ignore[arg-type]
        self.entries[entry.number] = entry
        self._tell(entry, f"sent to {queue}")
        return entry

    def stored(self, entry: Entry) -> None:
        entry.is_stored = True
        self._tell(entry, "confirmed")

    def answered(self, link: Link, asked_at: int) -> None:
        """An answer that waits for a commit, to what was asked then."""
        link.certain_at = max(link.certain_at, asked_at)

    def delivered(self, number: int, queue: str) -> Entry | None:
        """None: nobody knows of such a message."""
        entry = self.entries.get(number)
        if entry is not None:
            entry.home = queue
            entry.delivered_at = self.tick()
            entry.moves = {place: deed for place, deed in entry.moves.items() if place != queue}
            self._tell(entry, f"delivered from {queue}")
        return entry

    def ended(self, entry: Entry, link: Link, how: str) -> None:
        entry.end = Deed(link, self.tick())
        self._tell(entry, how)

    def moved(self, entry: Entry, place: str, link: Link | None, how: str) -> None:
        """It may be in `place` from now on; with no link, because of time or a limit."""
        entry.moves[place] = None if link is None else Deed(link, self.tick())
        self._tell(entry, how)

    def _tell(self, entry: Entry, what: str) -> None:
        entry.story.append(f"{self.now}: {what}")

    # What the broker owes

    def judge(self, queues: Mapping[str, Sequence[Found]]) -> list[str]:
        """Broken promises, after a restart, with all that is in the durable queues, in order. The ledger goes on from
        there."""
        faults: list[str] = []
        places: dict[int, list[str]] = {}
        for queue, messages in queues.items():
            for found in messages:
                places.setdefault(found.number, []).append(queue)
                faults += self._judge_found(queue, found)
            faults += self._judge_order(queue, [found.number for found in messages])
        faults += self._judge_groups(places)
        for entry in self.entries.values():
            faults += self._judge_places(entry, places.get(entry.number, []))
        self._order = {queue: [found.number for found in messages] for queue, messages in queues.items()}
        self.tick()
        return faults

    def _judge_found(self, queue: str, found: Found) -> Iterable[str]:
        entry = self.entries.get(found.number)
        if entry is None:
            yield f"message {found.number} is in {queue}, and nobody sent it"
            return
        if not entry.is_persistent:
            yield f"{entry} is transient and came back in {queue}"
        if entry.home == queue and entry.delivered_at >= 0 and not found.redelivered:
            yield f"{entry} is not redelivered"

    def _judge_order(self, queue: str, numbers: list[int]) -> Iterable[str]:
        """Highest level first; per publisher as it was sent; and otherwise as it stood before."""
        last: dict[tuple[str, int], int] = {}
        level = 1 << 30
        for number in numbers:
            entry = self.entries.get(number)
            if entry is None:
                continue
            if entry.level > level:
                yield f"{entry} of level {entry.level} came after level {level} in {queue}"
            level = min(level, entry.level)
            if entry.home == queue and not entry.moves and entry.story[0].endswith(f"sent to {queue}"):
                before = last.get((entry.publisher, entry.level), 0)
                if before > number:
                    yield f"{entry} came after message {before} of the same publisher in {queue}"
                last[entry.publisher, entry.level] = number
        stood = {number: at for at, number in enumerate(self._order.get(queue, []))}
        common = [stood[number] for number in numbers if number in stood]
        if common != sorted(common):
            yield f"the order of {queue} changed: {[number for number in numbers if number in stood]}"

    def _judge_groups(self, places: Mapping[int, list[str]]) -> Iterable[str]:
        """What was sent in one transaction and not touched since is there as a whole or not at all."""
        groups: dict[int, list[Entry]] = {}
        for entry in self.entries.values():
            if entry.group and not entry.gone and entry.end is None:
                groups.setdefault(entry.group, []).append(entry)
        for members in groups.values():
            there = [entry for entry in members if entry.number in places]
            if there and len(there) < len(members):
                missing = next(entry for entry in members if entry.number not in places)
                yield f"{there[0]} is there and {missing} of the same transaction is not"

    def _judge_places(self, entry: Entry, places: list[str]) -> Iterable[str]:
        if len(places) > 1:
            yield f"{entry} is there {len(places)} times: {places}"
        if entry.gone:
            if places:
                yield f"{entry} came back in {places[0]}, though it was {entry.gone}"
            return
        if not places:
            if entry.is_stored and entry.end is None:
                yield f"{entry} is lost"
            entry.gone = "ended" if entry.end else "never stored"
            self._tell(entry, f"gone: {entry.gone}")
            return
        place = places[0]
        if entry.end is not None and entry.end.is_certain:
            yield f"{entry} came back in {place}"
        if place != entry.home and place not in entry.moves:
            yield f"{entry} is in {place}, which is not where it was put"
        for elsewhere, deed in entry.moves.items():
            if deed is not None and deed.is_certain and place != elsewhere:
                yield f"{entry} is in {place}, and was moved to {elsewhere} for certain"
        # What was done to it and has not happened by now never will.
        if place != entry.home:
            entry.home = place
            entry.delivered_at = -1
            entry.moves = {}
        entry.moves = {name: deed for name, deed in entry.moves.items() if deed is None}
        entry.end = None
        entry.is_stored = True
        self._tell(entry, f"found in {place}")
