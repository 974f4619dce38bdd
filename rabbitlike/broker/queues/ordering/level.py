"""A level: the ready messages of one priority, in order of their positions.

Messages that came back stand in a small heap beside the ring and go before it by position, so a requeued message stands
where it stood. Once a backlog has outgrown its window, new messages gather in a second ring, the tail, which leaves
memory page by page as it is written. Order: returned and ring, pages, tail. When which of them is used, Ready decides.
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
        #: No position in there is higher.
        self.last_returned = 0
        self.pages: deque[Page] | None = None
        #: Where new messages go that may leave memory; made when the first one does.
        self.tail: Ring | None = None
        #: Messages up to this position were once in the tail and have gone to the ring: they may be handed out, and so
        #: must not be in a page.
        self.kept_to = 0

    def push_back(self, message: Message) -> None:
        """One that was out, back to where it stood."""
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

    def add_page(self, page: Page) -> None:
        """A page is out of memory, behind all that are already."""
        if self.pages is None:
            self.pages = deque()
        self.pages.append(page)

    def insert_page(self, page: Page) -> None:
        """A page that stands before some of those that are out of memory already."""
        if self.pages is None:
            self.pages = deque()
        at = bisect_right(self.pages, page.first_position, key=attrgetter("first_position"))
        self.pages.insert(at, page)

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
