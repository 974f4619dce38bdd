"""Unacknowledged deliveries of one channel, by delivery tag.

Tags only grow, so the deliveries stand in a list in tag order; a delivery settled out of order leaves a hole. Holes
before the first delivery are skipped at once; later holes are removed when they outnumber the deliveries. So memory
depends on what is outstanding, not on what was delivered since.
"""

from rabbitlike.broker.message import Message
from rabbitlike.broker.ports import Subscriber
from rabbitlike.broker.queues.queue import Queue

#: Too few holes for a rebuild.
FEW_HOLES = 1024


class Delivery:
    """A message delivered on a channel and not settled; `consumer` is None for basic.get."""

    __slots__ = ("consumer", "delivered_at_ms", "due_at_ms", "message", "queue", "tag")

    def __init__(
        self, tag: int, message: Message, queue: Queue, consumer: Subscriber | None, delivered_at_ms: int
    ) -> None:
        self.tag = tag
        self.message = message
        self.queue = queue
        self.consumer = consumer
        self.delivered_at_ms = delivered_at_ms
        #: The ack deadline; 0: none.
        self.due_at_ms = 0


def make_delivery(
    tag: int, message: Message, queue: Queue, consumer: Subscriber | None, delivered_at_ms: int
) -> Delivery:
    """Make a `Delivery` on the hot path: compiled, the arguments are not converted to objects."""
    delivery = Delivery.__new__(Delivery)
    delivery.tag = tag
    delivery.message = message
    delivery.queue = queue
    delivery.consumer = consumer
    delivery.delivered_at_ms = delivered_at_ms
    delivery.due_at_ms = 0
    return delivery


class Unacked:
    """Deliveries of one channel and their credit."""

    __slots__ = ("_entries", "_head", "count", "held", "last_tag", "limit")

    def __init__(self) -> None:
        self._entries: list[Delivery | None] = []
        #: Index of the first delivery; only holes are before it.
        self._head = 0
        self.count = 0
        #: Every delivery of the channel takes a tag, including those without acks.
        self.last_tag = 0
        #: parity: the channel-wide prefetch; it counts deliveries to consumers, not basic.get. 0: no limit.
        self.limit = 0
        self.held = 0

    def add(self, delivery: Delivery) -> None:
        self._entries.append(delivery)
        self.count += 1

    def add_run(self, deliveries: list[Delivery]) -> None:
        self._entries += deliveries
        self.count += len(deliveries)

    def take(self, tag: int) -> Delivery | None:
        """Remove and return the delivery with this tag; None if it is not outstanding."""
        at = self._find(tag)
        if at < 0:
            return None
        delivery = self._entries[at]
        self._entries[at] = None
        self.count -= 1
        if at == self._head:
            self._pass_holes()
        elif len(self._entries) - self._head > 2 * self.count + FEW_HOLES:
            self._squeeze()
        return delivery

    def has(self, tag: int) -> bool:
        """Whether the delivery with this tag is outstanding."""
        return self._find(tag) >= 0

    def take_oldest(self, tag: int, most: int) -> list[Delivery]:
        """Remove and return deliveries up to this tag, oldest first, at most ``most``."""
        entries = self._entries
        head = self._head
        end = self._find(tag) + 1
        if end <= 0:
            # The tag itself is not outstanding.
            end = head
            while end < len(entries) and end - head < most:
                delivery = entries[end]
                if delivery is not None and delivery.tag > tag:
                    break
                end += 1
        end = min(end, head + most)
        taken = [delivery for delivery in entries[head:end] if delivery is not None]
        if end - head == most:
            entries[head:end] = [None] * most  # one of many steps: free them now instead of all at the end
        self._head = end
        self.count -= len(taken)
        self._pass_holes()
        return taken

    def after(self, tag: int, most: int) -> list[Delivery]:
        """Up to ``most`` deliveries after this tag, oldest first, without removing them. If there are ``most``, more
        may follow."""
        entries = self._entries
        low = self._head
        high = len(entries)
        while low < high:
            middle = (low + high) // 2
            at = middle
            candidate = entries[at]
            while candidate is None and at < high - 1:
                at += 1
                candidate = entries[at]
            if candidate is None or candidate.tag > tag:
                high = middle
            else:
                low = at + 1
        found: list[Delivery] = []
        while low < len(entries) and len(found) < most:
            candidate = entries[low]
            if candidate is not None:
                found.append(candidate)
            low += 1
        return found

    def put_back(self, deliveries: list[Delivery]) -> None:
        """Make deliveries outstanding again, in tag order (after a rollback)."""
        everything = self.deliveries() + deliveries
        everything.sort(key=lambda delivery: delivery.tag)
        self._entries = list(everything)
        self._head = 0
        self.count = len(everything)

    def deliveries(self) -> list[Delivery]:
        """All outstanding deliveries, oldest first."""
        return [delivery for delivery in self._entries[self._head :] if delivery is not None]

    def _find(self, tag: int) -> int:
        """Index of the delivery with this tag, or -1."""
        if self.count == 0:
            return -1
        entries = self._entries
        first = entries[self._head]
        if first is None or tag < first.tag:
            return -1
        # Tags are unique, so the delivery cannot be further back; it is nearly always at this index.
        high = self._head + tag - first.tag
        if high >= len(entries):
            high = len(entries) - 1
        candidate = entries[high]
        if candidate is not None and candidate.tag == tag:
            return high
        low = self._head
        while low <= high:
            middle = (low + high) // 2
            at = middle
            candidate = entries[at]
            while candidate is None and at < high:
                at += 1
                candidate = entries[at]
            if candidate is None or candidate.tag > tag:
                high = middle - 1
            elif candidate.tag < tag:
                low = at + 1
            else:
                return at
        return -1

    def _pass_holes(self) -> None:
        entries = self._entries
        head = self._head
        if self.count == 0:
            entries.clear()
            self._head = 0
            return
        while entries[head] is None:
            head += 1
        self._head = head
        if head > FEW_HOLES and head * 2 > len(entries):
            del entries[:head]
            self._head = 0

    def _squeeze(self) -> None:
        self._entries = list(self.deliveries())
        self._head = 0
