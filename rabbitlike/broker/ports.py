"""Interfaces that queues and the turn call and upper layers implement.

Small base classes, subclassed in the session, so that a call to an upper layer is a C call and needs no import.
"""

from typing import Protocol

from rabbitlike.broker.message import Message
from rabbitlike.broker.statistics.counters import Counters

#: The client that received or published a message: connection, channel, user.
ClientName = tuple[str, int, str]


class Owner(Protocol):
    """A connection that exclusive queues belong to."""

    def details(self) -> dict[str, object]:
        """Its name and address, for views."""
        ...


class Publishing(Protocol):
    """A publishing connection that waits for credit."""

    def resume_publishing(self) -> None:
        """Continue to read from the connection."""
        ...


class Subscriber:
    """A consumer of a queue. Only the queue writes `parked` and `left`."""

    __slots__ = ("held", "left", "no_ack", "pair", "parked", "priority", "tag")

    def __init__(self, tag: str, priority: int) -> None:
        self.tag = tag
        #: parity: consumers of a higher x-priority come first, lower ones only while those are at their limit.
        self.priority = priority
        #: Delivery settles a message.
        self.no_ack = False
        #: Out of the rotation until it can take messages again.
        self.parked = False
        #: Removed from the queue.
        self.left = False
        #: Number of its unacked messages.
        self.held = 0
        #: Counts of its channel and the queue as a pair.
        self.pair = Counters(0)

    def takes(self) -> bool:
        """Whether it can take one more message now."""
        raise NotImplementedError

    def deliver(self, message: Message) -> None:
        """Deliver a message. Called only after `takes` returned True."""
        raise NotImplementedError

    def deliver_more(self, like: Message) -> None:
        """Take the next messages that are like this one, which was just delivered. Called only for a queue's only
        consumer."""

    def hold(self, number: int) -> None:
        """Send the last delivery only after commit ``number``."""

    def cancel(self) -> None:
        """Cancel the consumer: its queue was deleted, or an operator cancels it."""
        raise NotImplementedError

    def view(self) -> dict[str, object]:
        """Its representation in the management API."""
        raise NotImplementedError

    def client(self) -> ClientName:
        """The client it belongs to."""
        raise NotImplementedError

    def retime(self) -> None:
        """Apply a changed limit on how long it may hold a delivery."""


class Pumped:
    """An object with messages to deliver at the end of the turn. Only the turn writes `touched`."""

    __slots__ = ("touched",)

    def __init__(self) -> None:
        self.touched = False

    def pump(self) -> None:
        raise NotImplementedError
