"""Who gets the next message: round robin among the consumers of the highest priority that can take one.

A consumer found unable to take is parked, out of the rotation, until it says otherwise: asking costs nothing per
message, however many consumers wait for credit. With a single active consumer only that one is ever in the rotation.
"""

from rabbitlike.broker.ports import Subscriber


class Band:
    """Consumers of one priority that are not parked; `turn` is whose turn it is."""

    __slots__ = ("members", "priority", "turn")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.members: list[Subscriber] = []
        self.turn = 0


class Consumers:
    """The consumers of one queue."""

    __slots__ = ("_bands", "active", "all", "single_active")

    def __init__(self, single_active: bool) -> None:
        self.single_active = single_active
        #: In the order they came, parked or not.
        self.all: list[Subscriber] = []
        #: The only one served, on a queue with a single active consumer.
        self.active: Subscriber | None = None
        self._bands: list[Band] = []

    @property
    def utilisation(self) -> float:
        """Can a message be handed out right now? 1 if so, 0 if all wait for credit or there is nobody."""
        return 1.0 if any(band.members for band in self._bands) else 0.0

    def add(self, consumer: Subscriber) -> None:
        self.all.append(consumer)
        if not self.single_active:
            self._enter(consumer)
        elif self.active is None:
            self.active = consumer
            self._enter(consumer)
        else:
            consumer.parked = True

    def remove(self, consumer: Subscriber) -> bool:
        """Take a consumer out; was it there?"""
        if consumer not in self.all:
            return False
        self.all.remove(consumer)
        self._leave(consumer)
        # Credit that comes back to it later must not bring it back.
        consumer.parked = False
        if self.active is consumer:
            self.active = None
            if self.all:
                # parity: the next in line takes over, those of a higher priority first.
                self.active = max(self.all, key=lambda other: other.priority)
                self._enter(self.active)
        return True

    def unpark(self, consumer: Subscriber) -> bool:
        """It can take messages again; does that matter to the queue?"""
        if not consumer.parked or (self.single_active and consumer is not self.active):
            return False
        self._enter(consumer)
        return True

    def take(self) -> Subscriber | None:
        """Whose turn it is, or None when nobody can take a message."""
        for band in self._bands:
            members = band.members
            while members:
                if band.turn >= len(members):
                    band.turn = 0
                consumer = members[band.turn]
                if consumer.takes():
                    band.turn += 1
                    return consumer
                consumer.parked = True
                del members[band.turn]
        return None

    def _enter(self, consumer: Subscriber) -> None:
        consumer.parked = False
        place = 0
        for band in self._bands:
            if band.priority == consumer.priority:
                band.members.append(consumer)
                return
            if band.priority < consumer.priority:
                break
            place += 1
        band = Band(consumer.priority)
        band.members.append(consumer)
        self._bands.insert(place, band)

    def _leave(self, consumer: Subscriber) -> None:
        for band in self._bands:
            if consumer in band.members:
                at = band.members.index(consumer)
                del band.members[at]
                if at < band.turn:
                    band.turn -= 1
                if not band.members and len(self._bands) > 1:
                    self._bands.remove(band)
                return
