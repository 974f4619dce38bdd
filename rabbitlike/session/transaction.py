"""A transaction of one channel: holds back publishes and settles until tx.commit.

parity: a publish is routed and refused when it arrives. At commit (`tx_commit`) it is enqueued, or returned if
mandatory and unroutable; all publishes precede all settles. It goes to those of its queues that exist at that time. A
rollback discards the publishes and returns the settled deliveries to the channel as unacked; it requeues nothing.
"""

from dataclasses import dataclass, field

from rabbitlike.broker.publishing.publication import Publication
from rabbitlike.broker.settle import Settle
from rabbitlike.broker.states import MESSAGE_COST
from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.session.unacked import Delivery


@dataclass(slots=True)
class Transaction:
    """Publishes and settles since tx.select, tx.commit or tx.rollback."""

    publications: list[Publication] = field(default_factory=list)
    #: Memory of the publications.
    memory_bytes: int = 0
    settles: list[tuple[Delivery, Settle]] = field(default_factory=list)
    #: Whether any message in it is persistent.
    is_persistent: bool = False
    #: Amount of work for the commit: publishes, their copies, and settles.
    steps: int = 0

    def add(self, publication: Publication, most_bytes: int) -> None:
        """Hold back a publish. Raise 406 if a schema refuses it, since it cannot be refused later, or if the
        transaction is too large: all of it stays in memory until it is committed as one."""
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
        """Hold back the settlement of deliveries."""
        for delivery in deliveries:
            self.settles.append((delivery, settle))
            self.is_persistent = self.is_persistent or delivery.message.persistent
        self.steps += len(deliveries)
