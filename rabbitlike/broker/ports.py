"""The queue's doors upwards: what it calls without knowing who stands there.

Small base classes, subclassed in the session, so that a call up the house costs a C call and no import.
"""

from typing import Protocol

from rabbitlike.broker.message import Message
from rabbitlike.broker.statistics.counters import Counters

#: Who was given a message, or published it: connection, channel, user.
ClientName = tuple[str, int, str]


class Owner(Protocol):
    """A connection that exclusive queues belong to."""

    def details(self) -> dict[str, object]:
        """Its name and address, as views show it."""
        ...


class Publishing(Protocol):
    """A connection that publishes and is made to wait."""

    def resume_publishing(self) -> None:
        """It may go on."""
        ...


class Subscriber:
    """Somebody who is given messages of a queue. The queue alone writes `parked` and `left`."""

    __slots__ = ("held", "left", "no_ack", "pair", "parked", "priority", "tag")

    def __init__(self, tag: str, priority: int) -> None:
        self.tag = tag
        #: parity: consumers of a higher x-priority come first, lower ones only while those are at their limit.
        self.priority = priority
        #: What it is given is settled thereby.
        self.no_ack = False
        #: Out of the rotation until it says that it can take messages again.
        self.parked = False
        #: It has gone from the queue.
        self.left = False
        #: Messages it was given and has not settled yet.
        self.held = 0
        #: What its channel and the queue count together.
        self.pair = Counters(0)

    def takes(self) -> bool:
        """Can it take one more message right now?"""
        raise NotImplementedError

    def deliver(self, message: Message) -> None:
        """Give it a message. Called only after `takes` said yes."""
        raise NotImplementedError

    def deliver_more(self, like: Message) -> None:
        """It was given this message, and shares its queue with nobody: it may take those that are next and like it."""

    def hold(self, number: int) -> None:
        """What it was given just now must not leave the broker before commit ``number`` is done."""

    def cancel(self) -> None:
        """The queue is gone, or an operator wants it to go."""
        raise NotImplementedError

    def view(self) -> dict[str, object]:
        """What the management API shows of it."""
        raise NotImplementedError

    def client(self) -> ClientName:
        """Whose it is."""
        raise NotImplementedError

    def retime(self) -> None:
        """How long it may sit on a delivery has changed."""


class Pumped:
    """Something with messages to hand out at the end of the turn. The turn alone writes `touched`."""

    __slots__ = ("touched",)

    def __init__(self) -> None:
        self.touched = False

    def pump(self) -> None:
        raise NotImplementedError
