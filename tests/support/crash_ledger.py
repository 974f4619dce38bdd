"""The state that clients of a broker know for certain, and the check of a restarted broker against it.

The ledger records everything a client does or receives at once, with an increasing time. A commit contains everything
that the broker had done when the commit was taken. So an answer that waits for a commit makes certain all earlier
actions on the same connection (`Link`), and everything that any client received before the request. After each restart
`judge` compares the content of the queues with the ledger, and returns a list of violations.

A message has a home, the queue it was last known in, and may be found elsewhere only if an action moved it: a dead
letter or a transaction. It is in exactly one place unless it was acked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class Link:
    """One connection of a client; its actions happen in order."""

    name: str
    #: Everything sent on it before this time is committed.
    certain_at: int = -1


@dataclass
class Deed:
    """A sent action that changes where a message is; certain once a later answer on the same link arrives."""

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
    #: The transaction that it was sent in; 0 for none.
    group: int = 0
    #: Certainly on disk: confirmed, or found after a restart.
    is_stored: bool = False
    #: The reason why it is certainly not there any more.
    gone: str = ""
    #: The action that acked or purged it or deleted its queue.
    end: Deed | None = None
    #: Other possible places and the action that moves it there; None: time or a limit.
    moves: dict[str, Deed | None] = field(default_factory=dict)
    #: Time of the last delivery from its home; -1: never.
    delivered_at: int = -1
    story: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"message {self.number} ({', '.join(self.story)})"


@dataclass(frozen=True, slots=True)
class Found:
    """A message found in a queue after a restart."""

    number: int
    redelivered: bool


class Ledger:
    """The recorded state."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.now = 0
        #: Whether a durable queue must exist (True), must not (False) or may (None).
        self.queues: dict[str, bool | None] = {}
        #: Queues that are certainly bound.
        self.bound: set[str] = set()
        self._groups = 0
        self._order: dict[str, list[int]] = {}

    # Actions and observations of clients

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
        """Record an answer that waits for a commit, to a request sent at `asked_at`."""
        link.certain_at = max(link.certain_at, asked_at)

    def delivered(self, number: int, queue: str) -> Entry | None:
        """Record a delivery; return None if the message is unknown."""
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
        """Record that it may be in `place` from now on; without a link, because of time or a limit."""
        entry.moves[place] = None if link is None else Deed(link, self.tick())
        self._tell(entry, how)

    def _tell(self, entry: Entry, what: str) -> None:
        entry.story.append(f"{self.now}: {what}")

    # Checks of the broker

    def judge(self, queues: Mapping[str, Sequence[Found]]) -> list[str]:
        """Return the violations after a restart, and continue from the state found.

        `queues` has all messages of the durable queues, in order.
        """
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
        """Check the order: highest level first, per publisher the order of sending, otherwise the earlier order."""
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
        """Check that the messages of one transaction, unless touched since, are all there or all missing."""
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
        # Uncommitted actions that are not visible by now never take effect.
        if place != entry.home:
            entry.home = place
            entry.delivered_at = -1
            entry.moves = {}
        entry.moves = {name: deed for name, deed in entry.moves.items() if deed is None}
        entry.end = None
        entry.is_stored = True
        self._tell(entry, f"found in {place}")
