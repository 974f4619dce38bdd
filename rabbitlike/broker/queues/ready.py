"""What is ready, in the order it will be handed out: higher levels first, within a level by position.

Each level is a ring that only grows at its end, beside a small heap of messages that came back and go before the ring
by position. So a requeued message stands where it stood, and nothing ever scans or shifts a backlog. A message settled
in the middle of the line (expired) is marked GONE, leaves the counts at once and the ring when its turn comes.

When a backlog outgrows its window, new messages of all levels gather in second rings, the tails, which leave memory
page by page as they are written. Order: returned and ring, pages, tail. Shares (fairness.py) change whose turn it is.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from operator import attrgetter, itemgetter

from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.fairness import Shares
from rabbitlike.broker.queues.log import Page
from rabbitlike.broker.states import GONE, MESSAGE_COST, PAGED, READY, UNLOGGED

SMALLEST_RING = 16
#: An empty ring larger than this goes back to the allocator.
KEPT_RING = 65536
#: So many are looked at together for being alike: more would cost more when they are not.
LONGEST_RUN = 256


class Ring:
    """Messages in the order they came; a circle that doubles when it is full."""

    __slots__ = ("head", "mask", "slots", "tail")

    def __init__(self) -> None:
        self.slots: list[Message | None] = [None] * SMALLEST_RING
        self.mask = SMALLEST_RING - 1
        self.head = 0
        self.tail = 0

    def push(self, message: Message) -> None:
        if self.tail - self.head > self.mask:
            self._grow()
        self.slots[self.tail & self.mask] = message
        self.tail += 1

    def push_run(self, messages: list[Message]) -> None:
        count = len(messages)
        while self.tail - self.head + count > self.mask + 1:
            self._grow()
        at = self.tail & self.mask
        before_end = min(count, self.mask + 1 - at)
        self.slots[at : at + before_end] = messages[:before_end]
        self.slots[: count - before_end] = messages[before_end:]
        self.tail += count

    def last_position(self) -> int:
        """Of the one that came last; 0 when there is none."""
        if self.head == self.tail:
            return 0
        message = self.slots[(self.tail - 1) & self.mask]
        return 0 if message is None else message.position

    def first(self) -> Message | None:
        """The next to go, left where it is."""
        while self.head < self.tail:
            message = self.slots[self.head & self.mask]
            if message is not None and message.state != GONE:
                return message
            self.slots[self.head & self.mask] = None
            self.head += 1
        return None

    def pop(self) -> Message | None:
        while self.head < self.tail:
            at = self.head & self.mask
            message = self.slots[at]
            self.slots[at] = None
            self.head += 1
            if message is not None and message.state != GONE:
                return message
        if self.mask >= KEPT_RING:
            self.slots = [None] * SMALLEST_RING
            self.mask = SMALLEST_RING - 1
            self.head = 0
            self.tail = 0
        return None

    def next_like(self, like: Message, most: int) -> list[Message]:
        """Up to ``most`` that come next and are like this one but for their bodies, left where they are; none that is
        empty."""
        address = like.address
        properties = like.properties
        found: list[Message] = []
        at = self.head & self.mask
        for message in self.slots[at : at + min(most, LONGEST_RUN, self.tail - self.head)]:
            if (
                message is None
                or message.address is not address
                or message.properties is not properties
                or len(message.body) == 0
                or message.state != READY
                or message.attempts != 0
                or message.expires_at_ms != 0
                or message.logged != UNLOGGED
            ):
                break
            found.append(message)
        return found

    def drop(self, count: int) -> None:
        """Those that come next are gone; they stand before the end of the slots."""
        at = self.head & self.mask
        self.slots[at : at + count] = [None] * count
        self.head += count

    def messages(self) -> list[Message]:
        found = [self.slots[at & self.mask] for at in range(self.head, self.tail)]
        return [message for message in found if message is not None and message.state != GONE]

    def after(self, position: int, most: int) -> list[Message]:
        """Up to ``most`` messages behind ``position``, left where they are."""
        low = self.head
        high = self.tail
        while low < high:
            middle = (low + high) >> 1
            message = self.slots[middle & self.mask]
            if message is None or message.position <= position:
                low = middle + 1
            else:
                high = middle
        found: list[Message] = []
        while low < self.tail and len(found) < most:
            message = self.slots[low & self.mask]
            if message is not None and message.state != GONE:
                found.append(message)
            low += 1
        return found

    def _grow(self) -> None:
        messages = [self.slots[at & self.mask] for at in range(self.head, self.tail)]
        self.slots = messages + [None] * (2 * len(self.slots) - len(messages))
        self.mask = len(self.slots) - 1
        self.head = 0
        self.tail = len(messages)


class Level:
    """The ready messages of one priority."""

    __slots__ = (
        "count",
        "dequeued",
        "enqueued",
        "kept_to",
        "number",
        "pages",
        "returned",
        "ring",
        "served_at_ms",
        "tail",
        "unacked",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        #: Ready and handed out now, come in and handed out ever, and when that was last. Of the bottom level only the
        #: time is kept: the rest is what the queue has beyond its other levels.
        self.count = 0
        self.unacked = 0
        self.enqueued = 0
        self.dequeued = 0
        self.served_at_ms = 0
        self.clear()

    def clear(self) -> None:
        """Nothing is ready."""
        self.count = 0
        self.ring = Ring()
        self.returned: list[tuple[int, Message]] = []
        self.pages: deque[Page] | None = None
        #: Where new messages go that may leave memory; made when the first one does.
        self.tail: Ring | None = None
        #: Messages up to this position were once in the tail and have gone to the ring: they may be handed out, and so
        #: must not be in a page.
        self.kept_to = 0

    def push_to_tail(self, message: Message) -> None:
        if self.tail is None:
            self.tail = Ring()
        self.tail.push(message)

    def pop(self) -> Message | None:
        if self.returned:
            message = self.first()
            if message is not None and self.returned and self.returned[0][1] is message:
                heappop(self.returned)
                return message
        return self.ring.pop()

    def first(self) -> Message | None:
        """The next to go of what is in memory, left where it is."""
        while self.returned and self.returned[0][1].state == GONE:
            heappop(self.returned)
        message = self.ring.first()
        if self.returned and (message is None or self.returned[0][0] < message.position):
            return self.returned[0][1]
        return message

    def front_after(self, position: int, most: int) -> list[Message]:
        """Up to ``most`` messages behind ``position`` of those that stand before all pages, in order, left in place."""
        found = self.ring.after(position, most)
        if self.returned:
            # What is sorted is a heap as well, and mostly it is sorted already.
            self.returned.sort()
            at = bisect_right(self.returned, position, key=itemgetter(0))
            end = len(found) + most
            while at < len(self.returned) and len(found) < end:
                message = self.returned[at][1]
                if message.state != GONE:
                    found.append(message)
                at += 1
            found = sorted(found, key=attrgetter("position"))[:most]
        return found

    def turn_to_tail(self) -> bool:
        """The ring is used up and no page is left: the tail is the ring now. Is there anything in it?"""
        if self.tail is None:
            return False
        self.kept_to = max(self.kept_to, self.tail.last_position())
        used_up = self.ring
        self.ring = self.tail
        self.tail = used_up
        return self.ring.first() is not None

    def keep(self, last_position: int) -> None:
        """What is in the tail up to a position goes to the ring's end. No page stands between them."""
        assert self.tail is not None
        message = self.tail.first()
        while message is not None and message.position <= last_position:
            self.tail.pop()
            self.ring.push(message)
            message = self.tail.first()


class Ready:
    """All ready messages of one queue. ``load`` brings a page's messages back to memory."""

    __slots__ = (
        "_bottom",
        "_default_priority",
        "_is_spilling",
        "_levels",
        "_load",
        "_others",
        "_ranked",
        "_ranked_count",
        "_shares",
        "body_bytes",
        "count",
        "has_levels",
        "memory_bytes",
        "page_count",
        "paged_bytes",
        "paged_count",
    )

    def __init__(self, levels: int, default_priority: int, load: Callable[[Page], list[Message]]) -> None:
        self._levels = levels
        self._default_priority = min(default_priority, levels - 1)
        self._load = load
        self._is_spilling = False
        #: Most queues never see but one priority: its level stands here, the rest in a dict made when a second comes.
        self._bottom = Level(0)
        self._others: dict[int, Level] | None = None
        #: Whether there are others, the same with the bottom level as a list, and how many messages are not in it.
        self.has_levels = False
        self._ranked: list[Level] = [self._bottom]
        self._ranked_count = 0
        #: How levels share; None: the highest goes first.
        self._shares: Shares | None = None
        self.count = 0
        self.body_bytes = 0
        #: What the messages in memory take there, and how many pages are not in memory.
        self.memory_bytes = 0
        self.page_count = 0
        #: Messages in those pages, and the octets of their bodies.
        self.paged_count = 0
        self.paged_bytes = 0

    def push(self, message: Message) -> None:
        """A new message, behind all of its level."""
        if message.priority <= 0 and self._default_priority == 0 and not self._is_spilling:
            self._bottom.ring.push(message)
        else:
            self._push_to_level(message)
        message.state = READY
        self.count += 1
        self.body_bytes += len(message.body)
        self.memory_bytes += MESSAGE_COST + len(message.body)

    def push_run(self, messages: list[Message], body_bytes: int) -> None:
        """Several new messages of one level, with so many octets of bodies."""
        count = len(messages)
        if messages[0].priority <= 0 and self._default_priority == 0 and not self._is_spilling:
            self._bottom.ring.push_run(messages)
        else:
            for message in messages:
                self._push_to_level(message)
        self.count += count
        self.body_bytes += body_bytes
        self.memory_bytes += count * MESSAGE_COST + body_bytes

    def push_back(self, message: Message) -> None:
        """A message that was out, back to where it stood."""
        level = self._level(self.level_number(message.priority))
        heappush(level.returned, (message.position, message))
        if level.number:
            level.count += 1
            self._ranked_count += 1
        if self._shares is not None:
            self._shares.returned(message.published_at_ms)
        message.state = READY
        self.count += 1
        self.body_bytes += len(message.body)
        self.memory_bytes += MESSAGE_COST + len(message.body)

    def pop(self) -> Message | None:
        """The next message, or None when there is none."""
        if self._others is None and not self._is_spilling and not self._bottom.returned:
            message = self._bottom.ring.pop()
        elif self._shares is None:
            message = self._pop_highest()
        else:
            message = self._pop_by_shares(self._shares)
        if message is not None:
            self.count -= 1
            self.body_bytes -= len(message.body)
            self.memory_bytes -= MESSAGE_COST + len(message.body)
        return message

    def next_like(self, like: Message, most: int) -> list[Message]:
        """Those next in line that are like the one popped last but for their bodies, up to so many; often none."""
        if self._others is not None or self._is_spilling or self._bottom.returned:
            return []
        return self._bottom.ring.next_like(like, most)

    def pop_run(self, count: int, body_bytes: int) -> None:
        """So many of those that `next_like` has found are out, with so many octets of bodies."""
        self._bottom.ring.drop(count)
        self.count -= count
        self.body_bytes -= body_bytes
        self.memory_bytes -= count * MESSAGE_COST + body_bytes

    def remove(self, message: Message) -> None:
        """Take a message out of the middle of the line."""
        if self.has_levels:
            self._uncount(self._level(self.level_number(message.priority)), 1)
        message.state = GONE
        self.count -= 1
        self.body_bytes -= len(message.body)
        self.memory_bytes -= MESSAGE_COST + len(message.body)

    def heads(self) -> list[Message]:
        """The first message of each level that has one, highest level first."""
        found = [self._first(level) for level in self._in_order()]
        return [message for message in found if message is not None]

    def numbered(self) -> list[tuple[int, Level]]:
        """The levels with their numbers, highest first. For looking, not for serving."""
        return [(level.number, level) for level in self._ranked]

    def head(self) -> Message | None:
        """The next to go, left where it is; None also when it would have to be read from disk."""
        for level in self._in_order():
            message = level.first()
            if message is None and level.tail is not None and not level.pages:
                message = level.tail.first()
            if message is not None or level.pages:
                return message
        return None

    def oldest_at_ms(self) -> int:
        """When the oldest of them was published; 0: there is none, or it was stored by an earlier run."""
        oldest_ms = 0
        for level in self._in_order():
            message = level.first()
            if message is not None:
                published_at_ms = message.published_at_ms
            elif level.pages:
                published_at_ms = level.pages[0].published_at_ms
            elif level.tail is not None and (message := level.tail.first()) is not None:
                published_at_ms = message.published_at_ms
            else:
                continue
            if published_at_ms and (oldest_ms == 0 or published_at_ms < oldest_ms):
                oldest_ms = published_at_ms
        return oldest_ms

    def in_memory(self) -> list[Message]:
        """Those that need no reading, in no order."""
        found = []
        for level in self._in_order():
            found += [message for _, message in level.returned if message.state != GONE]
            found += level.ring.messages()
            if level.tail is not None:
                found += level.tail.messages()
        return found

    def pages(self) -> list[Page]:
        return [page for level in self._in_order() for page in level.pages or ()]

    def clear(self) -> None:
        for level in self._ranked:
            level.clear()
        self._ranked_count = 0
        self._is_spilling = False
        self.count = 0
        self.body_bytes = 0
        self.memory_bytes = 0
        self.page_count = 0
        self.paged_count = 0
        self.paged_bytes = 0

    # Levels

    def share(self, shares: Shares | None) -> None:
        """Serve levels by their shares from now on; None: the highest first."""
        self._shares = shares

    def served(self, message: Message, at_ms: int) -> None:
        """A message was handed out, of a queue that has levels."""
        level = self._level(self.level_number(message.priority))
        level.served_at_ms = at_ms
        level.unacked += 1
        level.dequeued += 1

    def let_go(self, message: Message) -> None:
        """A message that was handed out is not held any more."""
        level = self._level(self.level_number(message.priority))
        level.unacked -= 1

    @property
    def shares(self) -> Shares | None:
        return self._shares

    # Beyond the window

    def gather(self) -> None:
        """Bring everything into memory; it is little."""
        for level in self._in_order():
            while level.pages:
                self._read_page(level)
            if level.tail is not None:
                level.keep(level.tail.last_position())
        self._is_spilling = False

    def start_spilling(self) -> None:
        """From now on what comes gathers behind what is here, to leave memory when it is written. It does in every
        level until none has a page or a tail: one that is short now may have the next backlog."""
        self._is_spilling = True

    @property
    def is_spilling(self) -> bool:
        return self._is_spilling

    def page_out(self, page: Page) -> bool:
        """What ``page`` holds was written: let it go from memory, if it still stands at the front of its level's
        tail."""
        level = self._level(page.level)
        tail = level.tail
        if not self._is_spilling or tail is None:
            return False
        message = tail.first()
        if message is None or not page.first_position <= message.position <= page.last_position:
            return False
        if page.first_position <= level.kept_to:
            # Written together with what had gone to the ring before: the rest follows it there. Later pages will not
            # have come yet, as commits end in order.
            level.keep(page.last_position)
            return False
        page.published_at_ms = message.published_at_ms
        while message is not None and message.position <= page.last_position:
            tail.pop()
            message.state = PAGED
            page.count += 1
            page.body_bytes += len(message.body)
            self.memory_bytes -= MESSAGE_COST + len(message.body)
            if message.expires_at_ms and (page.expires_at_ms == 0 or message.expires_at_ms < page.expires_at_ms):
                page.expires_at_ms = message.expires_at_ms
            message = tail.first()
        page.is_out = True
        self._add_page(level, page)
        return True

    def recover_page(self, page: Page) -> None:
        """A page from before the restart; they come in order."""
        if not self._is_spilling:
            self.start_spilling()
        page.is_out = True
        level = self._level(page.level)
        self._add_page(level, page)
        self._uncount(level, -page.count)
        self.count += page.count
        self.body_bytes += page.body_bytes

    def shrink_page(self, page: Page, count: int, body_bytes: int) -> None:
        """Some messages of a page came to their end there."""
        self._uncount(self._level(page.level), count)
        page.count -= count
        page.body_bytes -= body_bytes
        self.paged_count -= count
        self.paged_bytes -= body_bytes
        self.count -= count
        self.body_bytes -= body_bytes

    def level_number(self, priority: int) -> int:
        if priority < 0:
            return self._default_priority
        return min(priority, self._levels - 1)

    def _add_page(self, level: Level, page: Page) -> None:
        if level.pages is None:
            level.pages = deque()
        level.pages.append(page)
        self.page_count += 1
        self.paged_count += page.count
        self.paged_bytes += page.body_bytes

    def _level(self, number: int) -> Level:
        if number == 0:
            return self._bottom
        if self._others is None:
            self._others = {}
        level = self._others.get(number)
        if level is None:
            level = Level(number)
            self._others[number] = level
            # Kept in the order of serving, so that popping needs no sorting.
            self._others = dict(sorted(self._others.items(), reverse=True))
            self._ranked = [*self._others.values(), self._bottom]
            self.has_levels = True
            if self._shares is not None:
                self._shares.restart()
        return level

    def _push_to_level(self, message: Message) -> None:
        level = self._level(self.level_number(message.priority))
        if self._is_spilling:
            level.push_to_tail(message)
        else:
            level.ring.push(message)
        if level.number:
            level.enqueued += 1
            level.count += 1
            self._ranked_count += 1

    def _uncount(self, level: Level, count: int) -> None:
        """So many of this level are not ready any more."""
        if level.number:
            level.count -= count
            self._ranked_count -= count

    def _pop_level(self, level: Level) -> Message | None:
        message = level.pop()
        if message is None and self._is_spilling:
            while message is None and self._read_on(level):
                message = level.pop()
        return message

    def _first(self, level: Level) -> Message | None:
        message = level.first()
        while message is None and self._is_spilling and self._read_on(level):
            message = level.first()
        return message

    def _read_on(self, level: Level) -> bool:
        """Nothing of this level is left in the ring: refill it from the next page, or the tail. Was there any?"""
        if level.pages:
            self._read_page(level)
            return True
        found = level.turn_to_tail()
        if self.page_count == 0 and not self._has_tail():
            self._is_spilling = False
        return found

    def _read_page(self, level: Level) -> None:
        assert level.pages
        page = level.pages[0]
        messages = self._load(page)
        level.pages.popleft()
        page.is_out = False
        self.page_count -= 1
        self.paged_count -= page.count
        self.paged_bytes -= page.body_bytes
        # A page that was recovered knows what it held when it was written, not what was settled of it since.
        self.count += len(messages) - page.count
        self._uncount(level, page.count - len(messages))
        self.body_bytes -= page.body_bytes
        for message in messages:
            level.ring.push(message)
            message.state = READY
            self.body_bytes += len(message.body)
            self.memory_bytes += MESSAGE_COST + len(message.body)

    def _has_tail(self) -> bool:
        for level in self._in_order():
            if level.tail is not None and level.tail.first() is not None:
                return True
        return False

    def _pop_highest(self) -> Message | None:
        for level in self._ranked:
            message = self._pop_level(level)
            if message is not None:
                self._uncount(level, 1)
                return message
        return None

    def _pop_by_shares(self, shares: Shares) -> Message | None:
        if shares.max_wait_ms and shares.is_look_due():
            message = self._pop_late(shares)
            if message is not None:
                return message
        if shares.weights is None:
            return self._pop_highest()
        left = len(self._ranked)
        while left >= 0:
            if shares.credit > 0:
                level = self._ranked[shares.rank]
                message = self._pop_level(level) if self._has_ready(level) else None
                if message is not None:
                    self._uncount(level, 1)
                    shares.credit -= 1
                    return message
            shares.rank = shares.rank + 1 if shares.rank + 1 < len(self._ranked) else 0
            shares.credit = shares.weights[self._ranked[shares.rank].number]
            left -= 1
        return None

    def _pop_late(self, shares: Shares) -> Message | None:
        """The message that waited longest, if that was too long."""
        oldest: Level | None = None
        oldest_at_ms = 0
        for level in self._ranked:
            message = self._first(level) if self._has_ready(level) else None
            if message is not None and (oldest is None or message.published_at_ms < oldest_at_ms):
                oldest = level
                oldest_at_ms = message.published_at_ms
        if oldest is None or not shares.is_late(oldest_at_ms):
            shares.look_again(oldest_at_ms)
            return None
        message = self._pop_level(oldest)
        if message is not None:
            self._uncount(oldest, 1)
        return message

    def _has_ready(self, level: Level) -> bool:
        return (level.count if level.number else self.count - self._ranked_count) > 0

    def _in_order(self) -> list[Level]:
        return self._ranked
