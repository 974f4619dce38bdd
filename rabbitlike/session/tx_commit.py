"""tx.commit: applies a transaction as a whole, in as many turns as necessary.

parity: publishes first, settles second. A small transaction is applied in the turn of its tx.commit. While a large one
is being applied, the journal is held, so that one commit of the store contains all of it; its queues deliver nothing,
so that no consumer sees a part of it; and its queues reserve space for it, so that it cannot be refused half-way.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pamqp import commands

from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.broker.publishing.publication import Publication
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.protocol.constants import TX_REFUSE_UNROUTABLE
from rabbitlike.protocol.errors import AmqpError, precondition_failed
from rabbitlike.session.transaction import Transaction

if TYPE_CHECKING:
    from rabbitlike.session.channel import Channel

#: A transaction of at most this many steps is applied within one turn.
FEW_STEPS = 512


class TxCommit:
    """The commit of one transaction."""

    __slots__ = (
        "_answer",
        "_channel",
        "_first_lost",
        "_is_begun",
        "_is_cancelled",
        "_is_large",
        "_is_refused",
        "_is_stored",
        "_journal",
        "_looked_up",
        "_lost_count",
        "_needs",
        "_transaction",
    )

    def __init__(self, channel: "Channel", transaction: Transaction, answer: Callable[[bool], None]) -> None:
        self._channel = channel
        self._transaction = transaction
        self._answer = answer
        self._is_large = transaction.steps > FEW_STEPS
        #: The journal held from beginning to end; None if the transaction need not be in one commit.
        self._journal = channel.journal if self._is_large and transaction.is_persistent else None
        #: Publishes looked up so far, and the messages and body octets that each queue must take.
        self._looked_up = 0
        self._needs: dict[Queue, list[int]] = {}
        #: Mandatory publishes without a queue.
        self._lost_count = 0
        self._first_lost: Publication | None = None
        #: Whether the transaction changes anything durable: then the answer waits for the store.
        self._is_stored = False
        #: The transaction has been applied in part.
        self._is_begun = False
        self._is_refused = False
        self._is_cancelled = False

    def start(self) -> None:
        connection = self._channel.connection
        if self._journal is None:
            connection.run(self.go_on, self.answer)
        else:
            connection.wait_for(self.go_on, self.answer, self._journal.hold)

    def cancel(self) -> bool:
        """Cancel because the channel closes. False if it is too late: the whole transaction takes effect."""
        if self._is_begun:
            return False
        self._is_cancelled = True
        return True

    def answer(self) -> None:
        if self._channel.is_open and not self._is_refused:
            self._answer(self._is_stored)

    def go_on(self) -> bool:
        """Apply the transaction while the turn has time; True if some of it is left."""
        is_left = False
        try:
            is_left = not self._is_cancelled and self._do_some()
        except AmqpError as error:
            self._is_refused = True
            self._end()
            error.class_id, error.method_id = divmod(commands.Tx.Commit.index, 1 << 16)
            self._channel.connection.fail_channel(self._channel, error)
        finally:
            if not is_left and not self._is_refused:
                self._end()
        return is_left

    def _do_some(self) -> bool:
        if not self._is_begun:
            if self._look_up_some():
                return True
            self._begin()
        return self._deposit_some() or self._settle_some()

    def _is_late(self, steps: int) -> bool:
        return self._is_large and self._channel.turn.is_late(steps)

    # Checks before anything is applied

    def _look_up_some(self) -> bool:
        """Look up queues again: some may have been deleted or redeclared since the publishes were routed."""
        publications = self._transaction.publications
        queues = self._channel.vhost.queues
        while self._looked_up < len(publications):
            publication = publications[self._looked_up]
            self._looked_up += 1
            publication.look_up(queues)
            publication.is_promised = self._is_large
            self._note_needs(publication)
            if self._is_late(1 + len(publication.queues)):
                return True
        return False

    def _note_needs(self, publication: Publication) -> None:
        for queue in publication.queues:
            needs = self._needs.get(queue)
            if needs is None:
                needs = self._needs[queue] = [0, 0]
            needs[0] += 1
            needs[1] += len(publication.body)
        self._is_stored = self._is_stored or publication.is_stored()
        if publication.mandatory and not publication.queues and not publication.due_ms:
            self._lost_count += 1
            self._first_lost = self._first_lost or publication

    def _begin(self) -> None:
        """Start applying; after this it cannot fail. Raise 406, with nothing applied, if a queue would not take all of
        it."""
        channel = self._channel
        if not all(queue.has_room(count, body_bytes) for queue, (count, body_bytes) in self._needs.items()):
            # parity: RabbitMQ's text, but RabbitMQ applies the transaction in part and we apply none of it.
            raise precondition_failed("partial tx completion")
        if self._first_lost is not None and channel.connection.capabilities.get(TX_REFUSE_UNROUTABLE):
            address = self._first_lost.address
            raise precondition_failed(
                f"{self._lost_count} mandatory messages of the transaction are unroutable, the first to exchange "
                f"'{exchange_of(address)}' with routing key '{routing_key_of(address)}'"
            )
        self._first_lost = None
        self._is_begun = True
        channel.transaction = None
        # Pop from the end, so that each item is freed when it is done: freeing a million at once would take long.
        self._transaction.publications.reverse()
        self._transaction.settles.reverse()
        if self._is_large:
            for queue, (count, body_bytes) in self._needs.items():
                queue.promise(count, body_bytes)

    # Applying

    def _deposit_some(self) -> bool:
        publications = self._transaction.publications
        while publications:
            publication = publications.pop()
            copies = len(publication.queues)
            self._channel.deposit(publication)
            if self._is_late(1 + copies):
                return True
        return False

    def _settle_some(self) -> bool:
        settles = self._transaction.settles
        while settles:
            delivery, settle = settles.pop()
            self._is_stored = self._is_stored or (delivery.message.persistent and delivery.queue.durable)
            self._channel.settle(delivery, settle)
            if self._is_late(1):
                return len(settles) > 0
        return False

    def _end(self) -> None:
        if self._is_begun:
            if self._is_large:
                for queue in self._needs:
                    queue.fulfil()
            self._channel.transaction = Transaction()
        self._channel.tx_commit = None
        if self._journal is not None:
            self._journal.release()
