"""A ring: messages in order of arrival, in a circular buffer that doubles when full.

It grows at its end and shrinks at its front; also at its end, where messages leave memory. A message removed from the
middle is only marked GONE and leaves the ring when it becomes the first: the ring is never scanned or shifted.
"""

from rabbitlike.broker.message import Message
from rabbitlike.broker.states import GONE

SMALLEST_RING = 16
#: An empty ring larger than this is freed.
KEPT_RING = 65536


class Ring:
    """Messages in order of arrival, in a circular buffer that doubles when full."""

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
        """Return the position of the last message, or 0."""
        if self.head == self.tail:
            return 0
        message = self.slots[(self.tail - 1) & self.mask]
        return 0 if message is None else message.position

    def last(self) -> Message | None:
        """Return the last message without removing it, or None."""
        while self.head < self.tail:
            message = self.slots[(self.tail - 1) & self.mask]
            if message is not None and message.state != GONE:
                return message
            self.slots[(self.tail - 1) & self.mask] = None
            self.tail -= 1
        return None

    def drop_last(self) -> None:
        """Remove the message that `last` returned."""
        self.tail -= 1
        self.slots[self.tail & self.mask] = None

    def first(self) -> Message | None:
        """Return the first message without removing it, or None."""
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

    def next(self, most: int) -> list[Message | None]:
        """Return up to ``most`` of the next messages without removing them; fewer where the slots wrap around."""
        at = self.head & self.mask
        return self.slots[at : at + min(most, self.tail - self.head)]

    def drop(self, count: int) -> None:
        """Remove ``count`` of the messages that `next` returned."""
        at = self.head & self.mask
        self.slots[at : at + count] = [None] * count
        self.head += count

    def messages(self) -> list[Message]:
        found = [self.slots[at & self.mask] for at in range(self.head, self.tail)]
        return [message for message in found if message is not None and message.state != GONE]

    def after(self, position: int, most: int) -> list[Message]:
        """Return up to ``most`` messages after ``position`` without removing them."""
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
