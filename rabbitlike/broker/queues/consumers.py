"""The choice of the next consumer: round robin among those of the highest priority that can take a message.

A consumer that cannot take a message is parked, out of the rotation, until it can again: consumers that wait for credit
cost nothing per message. With a single active consumer, only that one is ever in the rotation. No call scans all
consumers: a consumer that leaves is only marked and stays in the rotation until many are marked.
"""

from math import exp

from rabbitlike.broker.ports import Subscriber
from rabbitlike.broker.turn import Turn

#: How fast `utilisation` forgets: time this many milliseconds ago has a weight of about a third.
MEMORY_MS = 1000


class PriorityGroup:
    """Consumers of one priority that are not parked; `turn` is the index of the next one."""

    __slots__ = ("left", "members", "priority", "turn")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.members: list[Subscriber] = []
        self.turn = 0
        #: How many of the members have left.
        self.left = 0


class Consumers:
    """The consumers of one queue."""

    __slots__ = (
        "_active_ms",
        "_average",
        "_groups",
        "_in_line",
        "_is_stalled",
        "_since_ms",
        "_turn",
        "active",
        "all",
        "exclusive",
        "is_alone",
        "single_active",
    )

    def __init__(self, single_active: bool, turn: Turn) -> None:
        self.single_active = single_active
        #: In order of arrival, parked or not.
        self.all: dict[Subscriber, None] = {}
        #: The only consumer that gets messages, on a queue with a single active consumer.
        self.active: Subscriber | None = None
        #: The consumer with exclusive access.
        self.exclusive: Subscriber | None = None
        #: The last consumer is the only one in its group: it gets messages until it can take no more.
        self.is_alone = False
        self._groups: list[PriorityGroup] = []
        #: How many consumers have each priority.
        self._in_line: dict[int, int] = {}
        self._turn = turn
        #: A message was ready and no consumer could take it; since when this is so, or is not; and how long it was not
        #: so before.
        self._is_stalled = False
        self._since_ms = turn.now_ms
        self._active_ms = 0
        self._average = 1.0

    def utilisation(self, now_ms: int) -> float:
        """parity: the share of recent time in which a message could be delivered at once."""
        if not self.all:
            return 0.0
        if self._is_stalled:
            return self._blend(self._active_ms, now_ms - self._since_ms)
        return self._blend(now_ms - self._since_ms, 0)

    def _stall(self) -> None:
        self._is_stalled = True
        self._active_ms = self._turn.now_ms - self._since_ms
        self._since_ms = self._turn.now_ms

    def _go_on(self) -> None:
        self._average = self._blend(self._active_ms, self._turn.now_ms - self._since_ms)
        self._is_stalled = False
        self._since_ms = self._turn.now_ms

    def _blend(self, active_ms: int, stalled_ms: int) -> float:
        """Return the average with these two periods added."""
        total_ms = float(active_ms + stalled_ms)  # when compiled, integers would be divided as in C
        if total_ms <= 0.0:
            return self._average
        kept: float = exp(-total_ms / MEMORY_MS)
        return self._average * kept + active_ms / total_ms * (1.0 - kept)

    def admit(self, exclusive: bool) -> bool:
        """Return whether another consumer may join."""
        return self.exclusive is None and not (exclusive and (self.all or self.single_active))

    def add(self, consumer: Subscriber, exclusive: bool = False) -> None:
        self.all[consumer] = None
        self._in_line[consumer.priority] = self._in_line.get(consumer.priority, 0) + 1
        if exclusive:
            self.exclusive = consumer
        if not self.single_active:
            self._enter(consumer)
        elif self.active is None:
            self.active = consumer
            self._enter(consumer)
        else:
            consumer.parked = True

    def remove(self, consumer: Subscriber) -> bool:
        """Remove a consumer. Return whether it was there."""
        if consumer not in self.all:
            return False
        del self.all[consumer]
        self._in_line[consumer.priority] -= 1
        if not self._in_line[consumer.priority]:
            del self._in_line[consumer.priority]
        if self.exclusive is consumer:
            self.exclusive = None
        if not consumer.parked:
            self._leave(consumer)
        # Credit that arrives later must not add it again.
        consumer.parked = False
        if self.active is consumer:
            self.active = self._next_active()
            if self.active is not None:
                self._enter(self.active)
        return True

    def remove_all(self) -> list[Subscriber]:
        """Remove all consumers and return them."""
        gone = list(self.all)
        self.all.clear()
        self._in_line.clear()
        self._groups.clear()
        self.active = self.exclusive = None
        for consumer in gone:
            consumer.parked = False
        return gone

    def _next_active(self) -> Subscriber | None:
        """parity: the first consumer of the highest priority takes over."""
        highest = max(self._in_line, default=0)
        for consumer in self.all:
            if consumer.priority == highest:
                return consumer
        return None

    def unpark(self, consumer: Subscriber) -> bool:
        """Return a consumer to the rotation. Return False if it does not change what the queue can deliver."""
        if not consumer.parked or (self.single_active and consumer is not self.active):
            return False
        self._enter(consumer)
        return True

    def take(self) -> Subscriber | None:
        """Return the next consumer, or None if none can take a message."""
        for group in self._groups:
            while group.members:
                members = group.members
                if group.turn >= len(members):
                    group.turn = 0
                first = group.turn
                at = first
                found: Subscriber | None = None
                while at < len(members):
                    consumer = members[at]
                    if consumer.left:
                        break
                    if consumer.takes():
                        found = consumer
                        break
                    consumer.parked = True
                    at += 1
                if at > first:
                    # All at once: each deletion moves all members behind it.
                    del members[first:at]
                if found is not None:
                    group.turn = first + 1
                    self.is_alone = len(members) - group.left == 1
                    return found
                if first < len(members):
                    _tidy(group)
        if not self._is_stalled:
            self._stall()
        return None

    def _enter(self, consumer: Subscriber) -> None:
        consumer.parked = False
        if self._is_stalled:
            self._go_on()
        place = 0
        for group in self._groups:
            if group.priority == consumer.priority:
                # parity: behind all others, including the one that got the last message.
                if 0 < group.turn < len(group.members):
                    group.members.insert(group.turn, consumer)
                    group.turn += 1
                else:
                    group.turn = 0
                    group.members.append(consumer)
                return
            if group.priority < consumer.priority:
                break
            place += 1
        group = PriorityGroup(consumer.priority)
        group.members.append(consumer)
        self._groups.insert(place, group)

    def _leave(self, consumer: Subscriber) -> None:
        """Remove a consumer that is not parked from the rotation."""
        consumer.left = True
        for group in self._groups:
            if group.priority == consumer.priority:
                group.left += 1
                if 2 * group.left >= len(group.members):
                    _tidy(group)
                    if not group.members and len(self._groups) > 1:
                        self._groups.remove(group)
                return


def _tidy(group: PriorityGroup) -> None:
    """Delete the members that have left."""
    members: list[Subscriber] = []
    turn = group.turn
    for at, consumer in enumerate(group.members):
        if not consumer.left:
            members.append(consumer)
        elif at < group.turn:
            turn -= 1
    group.members = members
    group.turn = turn
    group.left = 0
