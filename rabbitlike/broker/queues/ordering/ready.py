"""The ready messages of a queue in order of delivery: higher levels first, or by their shares (fairness.py).

All ready messages, in memory and on disk, are counted here. While the backlog is larger than the window
(`is_spilling`), new messages of every level go to the level's tail and leave memory once written (`page_out`). When a
level's ring is empty, delivery reads a page back.
"""

from collections.abc import Callable
from typing import Any

from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.ordering.fairness import Shares
from rabbitlike.broker.queues.ordering.level import Level
from rabbitlike.broker.queues.storage.log import Page
from rabbitlike.broker.states import GONE, MESSAGE_COST, PAGED, READY


class Ready:
    """All ready messages of one queue. ``load`` reads a page's messages into memory."""

    __slots__ = (
        "_bottom",
        "_default_priority",
        "_levels",
        "_load",
        "_others",
        "_ranked",
        "_ranked_count",
        "body_bytes",
        "count",
        "has_levels",
        "is_spilling",
        "memory_bytes",
        "page_count",
        "paged_bytes",
        "paged_count",
        "shares",
    )

    def __init__(self, levels: int, default_priority: int, load: Callable[[Page], list[Message]]) -> None:
        self._levels = levels
        self._default_priority = min(default_priority, levels - 1)
        self._load = load
        #: New messages go to the tails.
        self.is_spilling = False
        #: Most queues have only one priority: its level is here, the others in a dict created for the second one.
        self._bottom = Level(0)
        self._others: dict[int, Level] | None = None
        #: Whether there are others; all levels as a list; and how many messages are not in the bottom level.
        self.has_levels = False
        self._ranked: list[Level] = [self._bottom]
        self._ranked_count = 0
        #: How levels share deliveries; None: the highest goes first.
        self.shares: Shares | None = None
        self.count = 0
        self.body_bytes = 0
        #: Memory cost of the messages in memory, and the number of pages on disk only.
        self.memory_bytes = 0
        self.page_count = 0
        #: Messages in those pages, and their body bytes.
        self.paged_count = 0
        self.paged_bytes = 0

    def push(self, message: Message) -> None:
        """Add a new message at the end of its level."""
        if message.priority <= 0 and self._default_priority == 0 and not self.is_spilling:
            self._bottom.ring.push(message)
        else:
            self._push_to_level(message)
        message.state = READY
        self.count += 1
        self.body_bytes += len(message.body)
        self.memory_bytes += MESSAGE_COST + len(message.properties) + len(message.body)

    def push_run(self, messages: list[Message], body_bytes: int) -> None:
        """Add new messages of one level with the same properties; ``body_bytes`` is the sum of their bodies."""
        count = len(messages)
        first = messages[0]
        if first.priority <= 0 and self._default_priority == 0 and not self.is_spilling:
            self._bottom.ring.push_run(messages)
        else:
            for message in messages:
                self._push_to_level(message)
        self.count += count
        self.body_bytes += body_bytes
        self.memory_bytes += count * (MESSAGE_COST + len(first.properties)) + body_bytes

    def push_back(self, message: Message) -> None:
        """Add a message that was unacked or deferred at its position."""
        level = self._level(self.level_number(message.priority))
        level.push_back(message)
        self._count(level, 1)
        if self.shares is not None:
            self.shares.returned(message.published_at_ms)
        message.state = READY
        self.count += 1
        self.body_bytes += len(message.body)
        self.memory_bytes += MESSAGE_COST + len(message.properties) + len(message.body)

    def pop(self) -> Message | None:
        """Remove and return the next message, or None."""
        if self._others is None and not self.is_spilling and not self._bottom.returned:
            message = self._bottom.ring.pop()
        elif self.shares is None:
            message = self._pop_highest()
        else:
            message = self._pop_by_shares(self.shares)
        if message is not None:
            self.count -= 1
            self.body_bytes -= len(message.body)
            self.memory_bytes -= MESSAGE_COST + len(message.properties) + len(message.body)
        return message

    def next(self, most: int) -> list[Message | None]:
        """Return up to ``most`` of the next messages without removing them; none if the order is not simply that of one
        ring."""
        if self._others is not None or self.is_spilling or self._bottom.returned:
            return []
        return self._bottom.ring.next(most)

    def pop_run(self, run: list[Message], body_bytes: int) -> None:
        """Remove these messages, the first of those that `next` returned; ``body_bytes`` is the sum of their bodies."""
        count = len(run)
        first = run[0]
        self._bottom.ring.drop(count)
        self.count -= count
        self.body_bytes -= body_bytes
        self.memory_bytes -= count * (MESSAGE_COST + len(first.properties)) + body_bytes

    def remove(self, message: Message) -> None:
        """Remove a message that need not be the next one."""
        if self.has_levels:
            self._count(self._level(self.level_number(message.priority)), -1)
        message.state = GONE
        self.count -= 1
        self.body_bytes -= len(message.body)
        self.memory_bytes -= MESSAGE_COST + len(message.properties) + len(message.body)

    def clear(self) -> list[list[Any]]:
        """Remove all messages. Return the lists that held them, to which no other reference exists."""
        held: list[list[Any]] = []
        for level in self._ranked:
            held += [level.ring.slots, level.returned]
            if level.tail is not None:
                held.append(level.tail.slots)
            level.clear()
        self._ranked_count = 0
        self.is_spilling = False
        self.count = 0
        self.body_bytes = 0
        self.memory_bytes = 0
        self.page_count = 0
        self.paged_count = 0
        self.paged_bytes = 0
        return held

    # Levels and the choice between them

    def level_number(self, priority: int) -> int:
        if priority < 0:
            return self._default_priority
        return min(priority, self._levels - 1)

    def served(self, message: Message, at_ms: int) -> None:
        """Count a delivery in its level. The queue has several levels."""
        level = self._level(self.level_number(message.priority))
        level.served_at_ms = at_ms
        level.unacked += 1
        level.dequeued += 1

    def leave_unacked(self, message: Message) -> None:
        """Subtract a message from the unacked count of its level."""
        level = self._level(self.level_number(message.priority))
        level.unacked -= 1

    def _level(self, number: int) -> Level:
        if number == 0:
            return self._bottom
        if self._others is None:
            self._others = {}
        level = self._others.get(number)
        if level is None:
            level = Level(number)
            self._others[number] = level
            # Kept in order of delivery, so that pop needs no sorting.
            self._others = dict(sorted(self._others.items(), reverse=True))
            self._ranked = [*self._others.values(), self._bottom]
            self.has_levels = True
            if self.shares is not None:
                self.shares.restart()
        return level

    def _push_to_level(self, message: Message) -> None:
        level = self._level(self.level_number(message.priority))
        if self.is_spilling:
            level.push_to_tail(message)
        else:
            level.ring.push(message)
        if level.number:
            level.enqueued += 1
        self._count(level, 1)

    def _count(self, level: Level, more: int) -> None:
        """Add ``more``, which may be negative, to the ready count of this level."""
        if level.number:
            level.count += more
            self._ranked_count += more

    def _pop_highest(self) -> Message | None:
        for level in self._ranked:
            message = self._pop_level(level)
            if message is not None:
                self._count(level, -1)
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
                    self._count(level, -1)
                    shares.credit -= 1
                    return message
            shares.rank = shares.rank + 1 if shares.rank + 1 < len(self._ranked) else 0
            shares.credit = shares.weights[self._ranked[shares.rank].number]
            left -= 1
        return None

    def _pop_late(self, shares: Shares) -> Message | None:
        """Remove and return the oldest message if it has waited too long, else None."""
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
            self._count(oldest, -1)
        return message

    def _has_ready(self, level: Level) -> bool:
        return (level.count if level.number else self.count - self._ranked_count) > 0

    def _pop_level(self, level: Level) -> Message | None:
        message = level.pop()
        if message is None and self.is_spilling:
            while message is None and self._read_on(level):
                message = level.pop()
        return message

    def _first(self, level: Level) -> Message | None:
        message = level.first()
        while message is None and self.is_spilling and self._read_on(level):
            message = level.first()
        return message

    # Paging

    def start_spilling(self) -> None:
        """Send new messages to the tails, which leave memory once written. This holds for every level until none has a
        page or a tail: a level that is short now may have the next backlog."""
        self.is_spilling = True

    def page_out(self, page: Page) -> bool:
        """Remove the messages of ``page``, which are written, from memory if they are at the front of their level's
        tail. Return whether they were."""
        level = self._level(page.level)
        tail = level.tail
        if not self.is_spilling or tail is None:
            return False
        message = tail.first()
        if message is None or not page.first_position <= message.position <= page.last_position:
            return False
        if page.first_position <= level.kept_to:
            # Written together with messages that moved to the ring before: move the rest there as well. No later page
            # exists yet, because commits end in order.
            level.keep(page.last_position)
            return False
        page.published_at_ms = message.published_at_ms
        while message is not None and message.position <= page.last_position:
            tail.pop()
            message.state = PAGED
            page.count += 1
            page.body_bytes += len(message.body)
            self.memory_bytes -= MESSAGE_COST + len(message.properties) + len(message.body)
            if message.expires_at_ms and (page.expires_at_ms == 0 or message.expires_at_ms < page.expires_at_ms):
                page.expires_at_ms = message.expires_at_ms
            message = tail.first()
        page.is_out = True
        self._add_page(level, page)
        return True

    def page_again(self, page: Page, message: Message) -> None:
        """Add a message that is not counted here to a page of returned messages."""
        level = self._level(page.level)
        if not page.is_out:
            page.is_out = True
            page.published_at_ms = message.published_at_ms
            level.insert_page(page)
            self.page_count += 1
        message.state = PAGED
        page.count += 1
        page.body_bytes += len(message.body)
        self._count(level, 1)
        self.count += 1
        self.body_bytes += len(message.body)
        self.paged_count += 1
        self.paged_bytes += len(message.body)

    def is_behind_pages(self, message: Message) -> bool:
        """Return whether any page precedes this message, which is not in here."""
        level = self.level_of(message)
        return level.pages is not None and len(level.pages) > 0 and level.pages[0].first_position < message.position

    def read_before(self, message: Message) -> None:
        """Read the pages that precede this message."""
        while self.is_behind_pages(message):
            self._read_page(self.level_of(message))

    def take_last(self, level: Level) -> None:
        """Remove the last message of a level's ring."""
        message = level.ring.last()
        assert message is not None
        level.ring.drop_last()
        self._count(level, -1)
        self.count -= 1
        self.body_bytes -= len(message.body)
        self.memory_bytes -= MESSAGE_COST + len(message.properties) + len(message.body)

    def level_of(self, message: Message) -> Level:
        return self._level(self.level_number(message.priority))

    def recover_page(self, page: Page) -> None:
        """Add a page written before the restart. Pages come in order."""
        if not self.is_spilling:
            self.start_spilling()
        page.is_out = True
        level = self._level(page.level)
        self._add_page(level, page)
        self._count(level, page.count)
        self.count += page.count
        self.body_bytes += page.body_bytes

    def shrink_page(self, page: Page, count: int, body_bytes: int) -> None:
        """Subtract messages of a page that were settled while on disk."""
        self._count(self._level(page.level), -count)
        page.count -= count
        page.body_bytes -= body_bytes
        self.paged_count -= count
        self.paged_bytes -= body_bytes
        self.count -= count
        self.body_bytes -= body_bytes

    def gather(self) -> None:
        """Read all pages into memory. They must be few."""
        for level in self._ranked:
            while level.pages:
                self._read_page(level)
            if level.tail is not None:
                level.keep(level.tail.last_position())
        self.is_spilling = False

    def _add_page(self, level: Level, page: Page) -> None:
        level.add_page(page)
        self.page_count += 1
        self.paged_count += page.count
        self.paged_bytes += page.body_bytes

    def _read_on(self, level: Level) -> bool:
        """Refill a level's empty ring from the next page or the tail. Return whether there was anything."""
        if level.pages:
            self._read_page(level)
            return True
        found = level.turn_to_tail()
        if self.page_count == 0 and not self._has_tail():
            self.is_spilling = False
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
        # A recovered page has the counts from when it was written, without what was settled since.
        self.count += len(messages) - page.count
        self._count(level, len(messages) - page.count)
        self.body_bytes -= page.body_bytes
        for message in messages:
            level.ring.push(message)
            message.state = READY
            self.body_bytes += len(message.body)
            self.memory_bytes += MESSAGE_COST + len(message.properties) + len(message.body)

    def page_ahead(self) -> Page | None:
        """Return the page that may contain the next message, or None if that message is in memory."""
        for level in self._ranked:
            if level.first() is not None:
                if self.shares is None:
                    return None
            elif level.pages:
                return level.pages[0]
        return None

    def _has_tail(self) -> bool:
        for level in self._ranked:
            if level.tail is not None and level.tail.first() is not None:
                return True
        return False

    # Inspection

    def head(self) -> Message | None:
        """Return the next message without removing it; None also if it would have to be read from disk."""
        for level in self._ranked:
            message = level.first()
            if message is None and level.tail is not None and not level.pages:
                message = level.tail.first()
            if message is not None or level.pages:
                return message
        return None

    def heads(self) -> list[Message]:
        """Return the first message of each level that has one, highest level first."""
        found = [self._first(level) for level in self._ranked]
        return [message for message in found if message is not None]

    def oldest_at_ms(self) -> int:
        """Return when the oldest message was published; 0: there is none, or an earlier run stored it."""
        oldest_ms = 0
        for level in self._ranked:
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
        """Return the messages in memory, in no order."""
        found = []
        for level in self._ranked:
            found += [message for _, message in level.returned if message.state != GONE]
            found += level.ring.messages()
            if level.tail is not None:
                found += level.tail.messages()
        return found

    def pages(self) -> list[Page]:
        return [page for level in self._ranked for page in level.pages or ()]

    def numbered(self) -> list[tuple[int, Level]]:
        """Return the levels with their numbers, highest first. For inspection, not for delivery."""
        return [(level.number, level) for level in self._ranked]
