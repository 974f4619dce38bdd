"""What is ready, in the order it will be handed out: higher levels first, within a level by position.

Each level is a ring that only grows at its end, beside a small heap of messages that came back and go before the ring
by position. So a requeued message stands where it stood, and nothing ever scans or shifts a backlog. A message settled
in the middle of the line (expired) is marked GONE, leaves the counts at once and the ring when its turn comes.
"""

from heapq import heappop, heappush

from rabbitlike.broker.message import Message
from rabbitlike.broker.states import GONE, READY

SMALLEST_RING = 16
#: An empty ring larger than this goes back to the allocator.
KEPT_RING = 65536


class Level:
    """The ready messages of one priority."""

    __slots__ = ("head", "mask", "returned", "ring", "tail")

    def __init__(self) -> None:
        self.ring: list[Message | None] = [None] * SMALLEST_RING
        self.mask = SMALLEST_RING - 1
        self.head = 0
        self.tail = 0
        self.returned: list[tuple[int, Message]] = []

    def push(self, message: Message) -> None:
        if self.tail - self.head > self.mask:
            self._grow()
        self.ring[self.tail & self.mask] = message
        self.tail += 1

    def first(self) -> Message | None:
        """The next to go, left where it is."""
        self._skip_gone()
        message = self.ring[self.head & self.mask] if self.head < self.tail else None
        if self.returned and (message is None or self.returned[0][0] < message.position):
            return self.returned[0][1]
        return message

    def pop(self) -> Message | None:
        if self.returned:
            message = self.first()
            if message is not None and self.returned and self.returned[0][1] is message:
                heappop(self.returned)
                return message
        while self.head < self.tail:
            at = self.head & self.mask
            message = self.ring[at]
            self.ring[at] = None
            self.head += 1
            if message is not None and message.state != GONE:
                return message
        if self.mask >= KEPT_RING:
            self.ring = [None] * SMALLEST_RING
            self.mask = SMALLEST_RING - 1
            self.head = 0
            self.tail = 0
        return None

    def messages(self) -> list[Message]:
        """All of them in order; for looking, not for serving."""
        ring = [self.ring[at & self.mask] for at in range(self.head, self.tail)]
        live = [message for message in ring if message is not None and message.state != GONE]
        live += [message for _, message in self.returned if message.state != GONE]
        live.sort(key=lambda message: message.position)
        return live

    def _skip_gone(self) -> None:
        while self.returned and self.returned[0][1].state == GONE:
            heappop(self.returned)
        while self.head < self.tail:
            message = self.ring[self.head & self.mask]
            if message is not None and message.state != GONE:
                return
            self.ring[self.head & self.mask] = None
            self.head += 1

    def _grow(self) -> None:
        messages = [self.ring[at & self.mask] for at in range(self.head, self.tail)]
        self.ring = messages + [None] * len(messages)
        self.mask = len(self.ring) - 1
        self.head = 0
        self.tail = len(messages)


class Ready:
    """All ready messages of one queue."""

    __slots__ = ("_bottom", "_default_priority", "_levels", "_others", "body_bytes", "count")

    def __init__(self, levels: int, default_priority: int) -> None:
        self._levels = levels
        self._default_priority = min(default_priority, levels - 1)
        #: Most queues never see but one priority: its level stands here, the rest in a dict made when a second one
        #: comes.
        self._bottom = Level()
        self._others: dict[int, Level] | None = None
        self.count = 0
        self.body_bytes = 0

    def push(self, message: Message) -> None:
        """A new message, behind all of its level."""
        if message.priority <= 0 and self._default_priority == 0:
            self._bottom.push(message)
        else:
            self._level(message).push(message)
        message.state = READY
        self.count += 1
        self.body_bytes += len(message.body)

    def push_back(self, message: Message) -> None:
        """A message that was out, back to where it stood."""
        level = self._level(message)
        heappush(level.returned, (message.position, message))
        message.state = READY
        self.count += 1
        self.body_bytes += len(message.body)

    def pop(self) -> Message | None:
        """The next message, or None when there is none."""
        message = None
        if self._others is not None:
            message = self._pop_higher()
        if message is None:
            message = self._bottom.pop()
        if message is not None:
            self.count -= 1
            self.body_bytes -= len(message.body)
        return message

    def remove(self, message: Message) -> None:
        """Take a message out of the middle of the line."""
        message.state = GONE
        self.count -= 1
        self.body_bytes -= len(message.body)

    def heads(self) -> list[Message]:
        """The first message of each level that has one, highest level first."""
        found = [level.first() for level in self._in_order()]
        return [message for message in found if message is not None]

    def messages(self) -> list[Message]:
        """All of them in the order they would go; for looking, not for serving."""
        return [message for level in self._in_order() for message in level.messages()]

    def clear(self) -> None:
        self._bottom = Level()
        self._others = None
        self.count = 0
        self.body_bytes = 0

    def _level_number(self, priority: int) -> int:
        if priority < 0:
            return self._default_priority
        return min(priority, self._levels - 1)

    def _level(self, message: Message) -> Level:
        number = self._level_number(message.priority)
        if number == 0:
            return self._bottom
        if self._others is None:
            self._others = {}
        level = self._others.get(number)
        if level is None:
            level = Level()
            self._others[number] = level
            # Kept in the order of serving, so that popping needs no sorting.
            self._others = dict(sorted(self._others.items(), reverse=True))
        return level

    def _pop_higher(self) -> Message | None:
        if self._others is not None:
            for level in self._others.values():
                message = level.pop()
                if message is not None:
                    return message
        return None

    def _in_order(self) -> list[Level]:
        return [*(self._others or {}).values(), self._bottom]
