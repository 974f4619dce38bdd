"""A level: the ready messages of one priority, in order of their positions.

Returned messages are in a small heap beside the ring and are merged with it by position, so a requeued message keeps
its place. Once the backlog is larger than the window, new messages go to a second ring, the tail, which leaves memory
page by page as it is written. The order is: heap and ring, pages, tail. `Ready` decides when to use which.
"""

from bisect import bisect_right
from collections import deque
from heapq import heappop, heappush
from operator import attrgetter, itemgetter

from rabbitlike.broker.message import Message
from rabbitlike.broker.queues.ordering.ring import Ring
from rabbitlike.broker.queues.storage.log import Page
from rabbitlike.broker.states import GONE


class Level:
    """The ready messages of one priority."""

    __slots__ = (
        "count",
        "dequeued",
        "enqueued",
        "kept_to",
        "last_returned",
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
        #: Ready and unacked now, enqueued and delivered in total, and the time of the last delivery. The bottom level
        #: has only the time: its counts are the queue's minus those of the other levels.
        self.count = 0
        self.unacked = 0
        self.enqueued = 0
        self.dequeued = 0
        self.served_at_ms = 0
        self.clear()

    def clear(self) -> None:
        """Remove all messages."""
        self.count = 0
        self.ring = Ring()
        self.returned: list[tuple[int, Message]] = []
        #: No position in `returned` is higher.
        self.last_returned = 0
        self.pages: deque[Page] | None = None
        #: New messages that may leave memory; created for the first one.
        self.tail: Ring | None = None
        #: Messages up to this position moved from the tail to the ring: they may be delivered, so they must not be in a
        #: page.
        self.kept_to = 0

    def push_back(self, message: Message) -> None:
        """Add a message that was unacked or deferred at its position."""
        if not self.returned or message.position > self.last_returned:
            self.last_returned = message.position
        heappush(self.returned, (message.position, message))

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
        """Return the first message in memory before all pages, without removing it."""
        while self.returned and self.returned[0][1].state == GONE:
            heappop(self.returned)
        message = self.ring.first()
        if self.returned and (message is None or self.returned[0][0] < message.position):
            return self.returned[0][1]
        return message

    def front_after(self, position: int, most: int) -> list[Message]:
        """Return up to ``most`` messages after ``position``, in order, of those in memory before all pages."""
        found = self.ring.after(position, most)
        if self.returned:
            # A sorted list is a heap as well, and it is mostly sorted already.
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

    def add_page(self, page: Page) -> None:
        """Add a page after all others."""
        if self.pages is None:
            self.pages = deque()
        self.pages.append(page)

    def insert_page(self, page: Page) -> None:
        """Add a page at its place between the others."""
        if self.pages is None:
            self.pages = deque()
        at = bisect_right(self.pages, page.first_position, key=attrgetter("first_position"))
        self.pages.insert(at, page)

    def turn_to_tail(self) -> bool:
        """Make the tail the ring: the ring is empty and no page is left. Return whether it has any message."""
        if self.tail is None:
            return False
        self.kept_to = max(self.kept_to, self.tail.last_position())
        used_up = self.ring
        self.ring = self.tail
        self.tail = used_up
        return self.ring.first() is not None

    def keep(self, last_position: int) -> None:
        """Move the messages of the tail up to a position to the end of the ring. No page is between them."""
        assert self.tail is not None
        message = self.tail.first()
        while message is not None and message.position <= last_position:
            self.tail.pop()
            self.ring.push(message)
            message = self.tail.first()
