"""A transaction of one channel: publishes and settles held back until tx.commit.

parity: a publish is routed and refused when it arrives; it is enqueued, and a mandatory one returned, at commit, all
publishes before all settles: `tx_commit`. It goes to those of its queues that are there by then. A rollback forgets the
publishes and gives the settled deliveries back to the channel as unacked; nothing is requeued by it.
"""

from dataclasses import dataclass, field

from rabbitlike.broker.publishing.publication import Publication
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
    #: Does any of it concern a persistent message?
    is_persistent: bool = False
    #: How much work the commit will be: publishes, the copies of these, and settles.
    steps: int = 0

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
        self.is_persistent = self.is_persistent or publication.persistent
        self.steps += 1 + len(publication.queues)

    def settle(self, deliveries: list[Delivery], settle: Settle) -> None:
        """Hold back what became of some deliveries."""
        for delivery in deliveries:
            self.settles.append((delivery, settle))
            self.is_persistent = self.is_persistent or delivery.message.persistent
        self.steps += len(deliveries)
