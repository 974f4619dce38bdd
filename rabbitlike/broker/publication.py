"""A publish that passed its checks and knows its queues: how it gets there, and how it is counted.

For channels and for whoever publishes without one. What a publish is checked by is the publisher's affair, in
RabbitMQ's order; what follows from the address and properties alone stands here.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rabbitlike.broker.counters import Counters
from rabbitlike.broker.message import make_message
from rabbitlike.broker.queues.burial import bury
from rabbitlike.broker.queues.dead_letter import Reason
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from rabbitlike.broker.delays import Delays
    from rabbitlike.broker.duplicates import Duplicates
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.trail import Trail
    from rabbitlike.broker.users import User
    from rabbitlike.broker.vhost import Vhost


class Publication:
    """One publish."""

    __slots__ = (
        "address",
        "body",
        "delays",
        "due_ms",
        "duplicates",
        "exchange",
        "expiration_ms",
        "is_dropped",
        "is_promised",
        "is_refused",
        "letters",
        "mandatory",
        "persistent",
        "priority",
        "properties",
        "queues",
        "source",
    )

    def __init__(
        self,
        source: "Exchange",
        queues: list[Queue],
        address: bytes,
        properties: Properties,
        body: bytes,
        expiration_ms: int,
        mandatory: bool,
    ) -> None:
        #: The exchange it was published to, and its counts.
        self.source = source
        self.exchange: Counters = source.counters
        self.queues = queues
        self.address = address
        self.properties: bytes = properties.raw
        self.body = body
        self.persistent = properties.persistent
        self.priority = properties.priority
        #: -1: it does not expire by itself.
        self.expiration_ms = expiration_ms
        self.mandatory = mandatory
        #: When it is to be routed, and who holds it until then; 0: it is routed already.
        self.due_ms = 0
        self.delays: Delays | None = None
        #: What its exchange has seen already, if that minds duplicates, and whether this is one.
        self.duplicates: Duplicates | None = None
        self.is_dropped = False
        #: Its queues keep room for it.
        self.is_promised = False
        #: Queues that take it for a dead letter at once, and whether the publisher is to hear that it was refused.
        self.letters: list[Queue] = []
        self.is_refused = False

    def delay(self, due_ms: int, delays: "Delays") -> None:
        """It is to be routed later; the queues known now do not matter."""
        self.due_ms = due_ms
        self.delays = delays
        self.queues = []

    def drop_if_known(self, duplicates: "Duplicates | None") -> None:
        """When it is deposited, it is dropped if its exchange has seen it before."""
        self.duplicates = duplicates

    def divert(self, queues: list[Queue], letters: list[Queue], is_refused: bool) -> None:
        """It does not conform: only these get it, and these others as a dead letter."""
        self.queues = queues
        self.letters = letters
        self.is_refused = is_refused
        self.is_dropped = not queues

    def look_up(self, queues: Mapping[str, Queue]) -> None:
        """Time has passed since it was routed: it goes to what there is now under the names of its queues."""
        for queue in self.queues:
            if queue.deleted:
                self.queues = [queues[queue.name] for queue in self.queues if queue.name in queues]
                break

    def deposit(self, now_ms: int) -> bool:
        """Give it to its queues. False: one of them refused it."""
        if self.duplicates is None:
            return self._deposit(now_ms)
        if self.duplicates.has(self.properties):
            if self.is_promised:
                for queue in self.queues:
                    queue.spare(1, len(self.body))
            self.is_dropped = True
            self.queues = []
            return True
        accepted = self._deposit(now_ms)
        if accepted and (self.queues or self.due_ms):
            self.duplicates.add(self.properties, self.persistent)
        return accepted

    def _deposit(self, now_ms: int) -> bool:
        if self.delays is not None:
            self.delays.add(self.address, self.properties, self.body, self.persistent, self.priority, self.due_ms)
            return True
        accepted = True
        for queue in self.queues:
            if queue.deleted:
                continue
            message = make_message(self.address, self.properties, self.body, self.persistent, self.priority, now_ms)
            if self.expiration_ms >= 0:
                message.expires_at_ms = now_ms + self.expiration_ms
            inlet = queue.inlet(self.source)
            inlet.publish += 1
            if not (queue.admit(message) if self.is_promised else queue.enqueue(message)):
                accepted = False
        for queue in self.letters:
            message = make_message(self.address, self.properties, self.body, self.persistent, self.priority, now_ms)
            bury(queue, message, Reason.REJECTED, is_at_once=True)
        return accepted and not self.is_refused


def check_user_id(properties: Properties, user: "User | None") -> None:
    """406 when a publisher claims to be somebody else."""
    claimed = properties.user_id
    if claimed is not None and user is not None and claimed != user.name and "impersonator" not in user.tags:
        raise precondition_failed(f"user_id property set to '{claimed}' but authenticated user was '{user.name}'")


def note_publish(vhost: "Vhost", publication: Publication) -> "Trail | None":
    """Tell the event log of a publish that is about to reach its queues; who was told."""
    trail = vhost.trail_of(publication.queues)
    if trail is not None:
        trail.published(
            publication.address,
            publication.properties,
            publication.priority,
            len(publication.body),
            len(publication.queues),
            publication.due_ms != 0,
        )
    return trail
