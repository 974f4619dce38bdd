"""Browse ready messages without changing them, and remove or move single messages by position.

A walk follows the order of delivery and remembers only its current place, so messages may be added, removed or paged
out between two steps. Each step reads at most one page, or some messages in memory; pages that are skipped are not
read. Browsing changes nothing: no flag, no order, no TTL.

Removing and moving happen within one turn and so in one commit: a message is always in exactly one place.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from rabbitlike.broker.exchanges.exchange import Exchange
from rabbitlike.broker.message import Message, make_address, make_again, routing_key_of
from rabbitlike.broker.queues.dead_letters.x_death import original_keys
from rabbitlike.broker.queues.ordering.level import Level
from rabbitlike.broker.queues.storage.log import Page
from rabbitlike.broker.states import GONE, READY
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

#: Messages in memory per step, and pages skipped per step: well under a millisecond.
STEP: Final = 500
#: Higher than every level.
TOP: Final = 1 << 30


class Cursor(NamedTuple):
    """A place in the order of delivery: higher levels go first, within a level lower positions."""

    level: int
    position: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A ready message found by a walk. Callers must not change the message."""

    cursor: Cursor
    message: Message
    #: The page on disk that contains it; None: it is in memory.
    page: Page | None = None

    @property
    def position(self) -> int:
        return self.cursor.position


class Walk:
    """Walks over the ready messages of one queue, from ``after`` (None: the front), skipping ``offset`` of them.
    Only positions above ``newer_than`` count; older messages cost nothing.

    while not walk.is_done:
        for seen in walk.step(): …
        await asyncio.sleep(0)
    """

    def __init__(self, queue: "Queue", *, offset: int = 0, after: Cursor | None = None, newer_than: int = 0) -> None:
        self._queue = queue
        self._newer_than = newer_than
        self._skip = offset
        #: The last message seen or skipped: another walk can continue from here.
        self.cursor = Cursor(TOP, 0) if after is None else after
        self.is_done = False

    def step(self) -> list[Seen]:
        """Return the next few messages in order. May be empty before the end, if messages were skipped or removed."""
        for number, level in self._queue.ready.numbered():
            if number > self.cursor.level:
                continue
            if number < self.cursor.level:
                self.cursor = Cursor(number, self._newer_than)
            seen = self._step_in(level)
            if seen is not None:
                return seen
        self.is_done = True
        return []

    def _step_in(self, level: Level) -> list[Seen] | None:
        """Return the next messages of this level; None: there are no more."""
        number, position = self.cursor
        if front := level.front_after(position, STEP):
            return self._past([Seen(Cursor(number, message.position), message) for message in front])
        if level.pages and position < level.pages[-1].last_position:
            page = self._skip_pages(level)
            if page is None:
                return []
            found = [message for message in self._queue.paging.read(page) if message.position > position]
            seen = self._past([Seen(Cursor(number, message.position), message, page) for message in found])
            self.cursor = Cursor(number, page.last_position)
            return seen
        if level.tail is not None and (tail := level.tail.after(position, STEP)):
            return self._past([Seen(Cursor(number, message.position), message) for message in tail])
        return None

    def _past(self, seen: list[Seen]) -> list[Seen]:
        """Advance the cursor and return the messages that are not skipped."""
        if seen:
            self.cursor = seen[len(seen) - 1].cursor
        skipped = min(self._skip, len(seen))
        self._skip -= skipped
        return seen[skipped:]

    def _skip_pages(self, level: Level) -> Page | None:
        """Return the next page to read, or None if enough pages were skipped for one step."""
        assert level.pages is not None
        number, position = self.cursor
        first = bisect_right(level.pages, position, key=attrgetter("last_position"))
        for page in islice(level.pages, first, first + STEP):
            if page.count > self._skip or page.first_position <= self.cursor.position:
                return page
            self._skip -= page.count
            self.cursor = Cursor(number, page.last_position)
        return None


def find(queue: "Queue", positions: Collection[int]) -> list[Seen]:
    """Return the ready messages at these positions, in order of delivery. Each page is read only once."""
    wanted = set(positions)
    found: list[Seen] = []
    for number, level in queue.ready.numbered():
        here = {message.position: Seen(Cursor(number, message.position), message) for message in _held(level, wanted)}
        pages = {page.first_position: page for page in map(partial(_page_of, level), wanted - here.keys()) if page}
        for page in pages.values():
            for message in queue.paging.read(page):
                if message.position in wanted:
                    here[message.position] = Seen(Cursor(number, message.position), message, page)
        found += [here[position] for position in sorted(here)]
        wanted -= here.keys()
        if not wanted:
            break
    return found


def _held(level: Level, wanted: Collection[int]) -> list[Message]:
    """Return the messages in memory at the wanted positions, in no order."""
    found = [message for position, message in level.returned if position in wanted and message.state != GONE]
    for ring in (level.ring, level.tail):
        if ring is not None:
            for position in wanted:
                found += [message for message in ring.after(position - 1, 1) if message.position == position]
    return found


def _page_of(level: Level, position: int) -> Page | None:
    if not level.pages:
        return None
    at = bisect_right(level.pages, position - 1, key=attrgetter("last_position"))
    if at < len(level.pages) and level.pages[at].first_position <= position:
        return level.pages[at]
    return None


def remove(queue: "Queue", positions: Collection[int]) -> int:
    """Delete ready messages without dead-lettering them. Return how many there were."""
    found = find(queue, positions)
    for seen in found:
        queue.drop(seen.message, seen.page)
    return len(found)


def move(
    queue: "Queue",
    positions: Collection[int],
    destination: "Queue | Exchange",
    routing_key: str | None = None,
    may_use: Callable[[str], bool] = lambda key: True,
) -> int:
    """Publish ready messages again and remove them from ``queue``. Return how many were moved.

    An exchange routes them by ``routing_key``, or else by the keys they were published with. A message stays if no
    queue would take it (no route, or a full queue that rejects it) or if ``may_use`` refuses one of its keys. TTLs
    start again, as with any publish.
    """
    moved = 0
    for first_seen in find(queue, positions):
        address, targets = _targets(queue, first_seen.message, destination, routing_key, may_use)
        seen = _seen_again(queue, first_seen)
        if targets and seen is not None:
            again = make_again(first_seen.message, address, queue.turn.now_ms)
            queue.drop(seen.message, seen.page)
            queue.vhost.deposit(targets, again)
            moved += 1
    return moved


def _targets(
    source: "Queue",
    message: Message,
    destination: "Queue | Exchange",
    routing_key: str | None,
    may_use: Callable[[str], bool],
) -> tuple[bytes, list["Queue"]]:
    """Return the new address of a message and the queues that will take it."""
    properties = Properties(message.properties)
    keys = original_keys(routing_key_of(message.address), properties) if routing_key is None else [routing_key]
    if isinstance(destination, Exchange):
        address = make_address(destination.name, keys[0])
        if not all(map(may_use, keys)):
            return address, []
        targets = source.vhost.route(destination, keys, properties)
    else:
        address = make_address("", destination.name)
        targets = [destination]
    ready: list[Queue] = []
    for target in targets:
        if not target.has_room(1, len(message.body)) and target is not source:
            target.make_room()  # consumers may take what is ready there
        if target.has_room(1, len(message.body)):
            ready.append(target)
    return address, ready


def _seen_again(queue: "Queue", seen: Seen) -> Seen | None:
    """Return the same message if it is still ready. A queue that gets its own messages back may have delivered others
    to make space, or read pages back into memory."""
    if _is_ready(seen):
        return seen
    found = find(queue, [seen.message.position]) if seen.page is not None else []
    return found[0] if found else None


def _is_ready(seen: Seen) -> bool:
    message, page = seen.message, seen.page
    if page is None:
        return message.state == READY
    batch = message.batch
    return page.is_out and batch is not None and batch.live > 0 and not batch.is_settled(message.index)
