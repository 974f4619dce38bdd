"""A transaction of one channel: publishes and settles held back until tx.commit.

parity: a publish is routed and refused when it arrives; it is enqueued, and a mandatory one returned, at commit, all
publishes before all settles. It goes to those of its queues that are there by then. A rollback forgets the publishes
and gives the settled deliveries back to the channel as unacked; nothing is requeued by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.broker.publication import Publication
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.settle import Settle
from rabbitlike.broker.states import MESSAGE_COST
from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.session.unacked import Delivery


@dataclass(slots=True)
class Transaction:
    """What has been said since tx.select, tx.commit or tx.rollback."""

    publications: list[Publication] = field(default_factory=list)
    #: Memory that the publications take.
    memory_bytes: int = 0
    settles: list[tuple[Delivery, Settle]] = field(default_factory=list)

    def add(self, publication: Publication, most_bytes: int) -> None:
        """Hold back a publish. 406 for one that a schema refuses, since nothing can be refused later, and when there is
        too much: all of a transaction is in memory until it is committed as one."""
        if publication.refusal:
            raise precondition_failed(publication.refusal)
        self.memory_bytes += MESSAGE_COST + len(publication.properties) + len(publication.body)
        if self.memory_bytes > most_bytes:
            raise precondition_failed(
                f"transaction size {self.memory_bytes} is larger than configured max size {most_bytes}"
            )
        self.publications.append(publication)

    def look_up(self, queues: Mapping[str, Queue]) -> None:
        """The time has come: some queues may have been deleted, or declared anew, since publishes were routed."""
        for publication in self.publications:
            publication.look_up(queues)

    def fits(self) -> bool:
        """Would every queue take what it is to get? Asked before anything is given, so that a refusal leaves no
        trace."""
        counts: dict[Queue, int] = {}
        sizes: dict[Queue, int] = {}
        for publication in self.publications:
            for queue in publication.queues:
                counts[queue] = counts.get(queue, 0) + 1
                sizes[queue] = sizes.get(queue, 0) + len(publication.body)
        return all(queue.has_room(count, sizes[queue]) for queue, count in counts.items())

    def refuse_unroutable(self) -> None:
        """406 when a mandatory publish has no queue: for clients that rather write nothing than not all of it."""
        lost = [each for each in self.publications if each.mandatory and not each.queues and not each.due_ms]
        if lost:
            raise precondition_failed(
                f"{len(lost)} mandatory messages of the transaction are unroutable, the first to exchange "
                f"'{exchange_of(lost[0].address)}' with routing key '{routing_key_of(lost[0].address)}'"
            )

    def is_stored(self) -> bool:
        """Does any of it concern what is durable?"""
        return any(publication.is_stored() for publication in self.publications) or any(
            delivery.message.persistent and delivery.queue.durable for delivery, _ in self.settles
        )
