"""A channel: accepts publishes, sends deliveries, and settles them.

The base class in `publisher` handles publishes; this module handles deliveries and their settlement. The frame reader
calls the hot methods `on_ack` and `on_nack` directly. `handlers` implements all other methods.
"""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from pamqp import base, commands

from rabbitlike.broker.accounts.permissions import Access, Resource
from rabbitlike.broker.budget import STRIDE
from rabbitlike.broker.disposal import dispose
from rabbitlike.broker.held import Settled, decide
from rabbitlike.broker.message import Message, cost_of
from rabbitlike.broker.ports import Subscriber
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.queues.runs import ack_run
from rabbitlike.broker.settle import Settle
from rabbitlike.broker.states import RETURNED
from rabbitlike.broker.statistics.counters import Counters
from rabbitlike.broker.statistics.pairs import make_pair
from rabbitlike.protocol import methods
from rabbitlike.protocol.errors import AmqpError, precondition_failed
from rabbitlike.session import views
from rabbitlike.session.consumer import Consumer
from rabbitlike.session.deadlines import Deadlines, RevokedTags
from rabbitlike.session.publisher import Publisher
from rabbitlike.session.timeout import AckTimeout
from rabbitlike.session.transaction import Transaction
from rabbitlike.session.tx_commit import TxCommit
from rabbitlike.session.unacked import Delivery, Unacked

if TYPE_CHECKING:
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.session.connection import Connection

#: Deliveries settled or requeued in one step.
TOGETHER = 512
#: A limit below zero: the channel takes no deliveries.
TAKES_NONE = -1


def in_line(deliveries: list[Delivery]) -> list[Delivery]:
    """Sort deliveries by position in their queue. parity: messages requeued together are sorted; if not all fit, the
    first are dropped. In another order, a large message that is dropped at once would free space for those before
    it."""
    return sorted(deliveries, key=_position) if len(deliveries) > 1 else deliveries


def _position(delivery: Delivery) -> int:
    return delivery.message.position


class Channel(Publisher):
    """One channel of one connection."""

    __slots__ = (
        "_leaving",
        "_revoked_tags",
        "consumers",
        "deadlines",
        "deliveries",
        "last_queue",
        "name",
        "prefetch_count",
        "timeout",
        "tx_commit",
        "unacked",
    )

    def __init__(self, number: int, connection: "Connection", vhost: "Vhost") -> None:
        super().__init__(number, connection, vhost)
        self.name = f"{connection.name} ({number})"
        self.unacked = Unacked()
        self.consumers: dict[str, Consumer] = {}
        #: Consumers of a closed channel that have not left their queues yet.
        self._leaving: list[Consumer] = []
        #: Counters for each pair of this channel and a queue it takes from.
        self.deliveries: dict[Queue, Counters] = {}
        #: The prefetch count of basic.qos for future consumers.
        self.prefetch_count = connection.broker.settings.default_prefetch
        #: Name of the queue last declared on this channel; an empty queue name refers to it.
        self.last_queue = ""
        self.timeout = AckTimeout(number, self.unacked, self.turn, self.timeout_of, self._on_late)
        self.deadlines = Deadlines(self.unacked, self.turn, self._take_back)
        #: The tx.commit in progress.
        self.tx_commit: TxCommit | None = None
        #: Tags of deliveries revoked from the client; created on first use.
        self._revoked_tags: RevokedTags | None = None

    def pair_with(self, queue: Queue) -> Counters:
        """The counters for messages that this channel takes from a queue."""
        return self.deliveries.get(queue) or make_pair(self.deliveries, queue, self.turn.now_ms, attrgetter("deleted"))

    # Answers

    def send(self, method: base.Frame) -> None:
        self.outlet.put(methods.encode(method, self.number))
        self.outlet.mark()

    def permit(self, access: Access, resource: Resource, name: str) -> None:
        """Raise 403 unless the user has the permission."""
        self.connection.permit(access, resource, name)

    # Settling

    def on_ack(self, delivery_tag: int, multiple: bool) -> None:
        if not multiple and self.transaction is None:
            delivery = self.unacked.take(delivery_tag)
            if delivery is None:
                self._check_revoked(delivery_tag)
                return
            self.counters.ack += 1
            self.counters.active_at_ms = self.turn.now_ms
            self.totals.ack += 1
            self._count_acks(delivery, 1)
            self._release(delivery, 1, cost_of(delivery.message))
            delivery.queue.ack(delivery.message, delivery.delivered_at_ms)
        elif multiple:
            self._settle_up_to(delivery_tag, Settle.ACK)
        else:
            self._settle(self._take(delivery_tag), Settle.ACK)

    def on_nack(self, delivery_tag: int, multiple: bool, requeue: bool) -> None:
        if multiple:
            self._settle_up_to(delivery_tag, Settle.RETURN if requeue else Settle.REJECT)
        else:
            self._settle(self._take(delivery_tag), Settle.RETURN if requeue else Settle.REJECT)

    def on_reject(self, delivery_tag: int, requeue: bool) -> None:
        self._settle(self._take(delivery_tag), Settle.REQUEUE if requeue else Settle.REJECT)

    def _take(self, delivery_tag: int) -> list[Delivery]:
        delivery = self.unacked.take(delivery_tag)
        if delivery is not None:
            return [delivery]
        self._check_revoked(delivery_tag)
        return []

    def _settle_up_to(self, delivery_tag: int, settle: Settle) -> None:
        """Settle all deliveries up to this tag; 0 means the last tag."""
        if delivery_tag != 0:
            if not self.unacked.has(delivery_tag):
                self._check_revoked(delivery_tag)
            if self._revoked_tags is not None:
                self._revoked_tags.forget_up_to(delivery_tag)
        else:
            delivery_tag = self.unacked.last_tag
        if self._settle_some(delivery_tag, settle):
            self.connection.wait_for(partial(self._settle_some, delivery_tag, settle))

    def _settle_some(self, delivery_tag: int, settle: Settle) -> bool:
        """Settle deliveries up to this tag while the turn has time; True if some are left."""
        while self.unacked.count:
            deliveries = self.unacked.take_oldest(delivery_tag, TOGETHER)
            if not deliveries:
                break
            self._settle(deliveries, settle)
            if len(deliveries) >= STRIDE and self.turn.is_spent(len(deliveries)):
                return self.unacked.count > 0
        return False

    def _check_revoked(self, delivery_tag: int) -> None:
        """Raise 406 for a tag that is not outstanding, unless the delivery was revoked from the client."""
        if self._revoked_tags is None or not self._revoked_tags.take(delivery_tag):
            raise precondition_failed(f"unknown delivery tag {delivery_tag}")

    def _settle(self, deliveries: list[Delivery], settle: Settle) -> None:
        if self.transaction is not None:
            self.transaction.settle(deliveries, settle)
        elif settle is Settle.ACK:
            self.counters.ack += len(deliveries)
            self.counters.active_at_ms = self.turn.now_ms
            self.totals.ack += len(deliveries)
            self._ack_all(deliveries)
        elif settle is Settle.REQUEUE:
            for delivery in in_line(deliveries):
                self._release(delivery, 1, cost_of(delivery.message))
                self._note_nack(delivery)
                delivery.queue.requeue(delivery.message)
        elif settle is Settle.RETURN:
            for delivery in in_line(deliveries):
                self._release(delivery, 1, cost_of(delivery.message))
                self._note_nack(delivery)
                delivery.queue.requeue(delivery.message, RETURNED)
        else:
            for delivery in deliveries:
                self._release(delivery, 1, cost_of(delivery.message))
                self._note_nack(delivery)
                delivery.queue.reject(delivery.message)

    def _ack_all(self, deliveries: list[Delivery]) -> None:
        """Ack deliveries in groups that were sent together; the deliveries of one multiple ack are mostly one group."""
        if not deliveries:
            return
        first = deliveries[0]
        messages: list[Message] = []
        memory_bytes = 0
        for delivery in deliveries:
            if (
                delivery.delivered_at_ms != first.delivered_at_ms
                or delivery.queue is not first.queue
                or delivery.consumer is not first.consumer
            ):
                self._ack_run(first, messages, memory_bytes)
                first = delivery
                messages = []
                memory_bytes = 0
            messages.append(delivery.message)
            memory_bytes += cost_of(delivery.message)
        self._ack_run(first, messages, memory_bytes)

    def _ack_run(self, first: Delivery, messages: list[Message], memory_bytes: int) -> None:
        self._count_acks(first, len(messages))
        self._release(first, len(messages), memory_bytes)
        ack_run(first.queue, messages, first.delivered_at_ms)

    def _count_acks(self, delivery: Delivery, count: int) -> None:
        consumer = delivery.consumer
        pair = self.pair_with(delivery.queue) if consumer is None else consumer.pair
        pair.ack += count

    def _note_nack(self, delivery: Delivery) -> None:
        if delivery.queue.tracer is not None:
            delivery.queue.tracer.nacked(delivery.message, delivery.delivered_at_ms, delivery.consumer)

    def _release(self, delivery: Delivery, count: int, memory_bytes: int) -> None:
        """Return credit for `count` messages to the consumer, and their memory to the connection."""
        if self.outlet.settled(memory_bytes):
            self.connection.wake_consumers()
        consumer = delivery.consumer
        if consumer is not None:
            was_full = 0 < self.unacked.limit <= self.unacked.held
            consumer.held -= count
            self.unacked.held -= count
            if was_full:
                self._wake_after(consumer)
            elif consumer.parked:
                delivery.queue.wake(consumer)

    def wake_consumers(self) -> None:
        """Wake all consumers after the channel limit changes or the socket accepts data again."""
        for consumer in self.consumers.values():
            if consumer.parked:
                consumer.queue.wake(consumer)

    def _wake_after(self, served: Subscriber) -> None:
        """Wake consumers after the channel limit allows deliveries again, beginning with the one after ``served``.
        parity: consumers share the limit in turn, whether they consume from one queue or from many."""
        is_behind = False
        others: list[Consumer] = []
        for consumer in self.consumers.values():
            if not is_behind:
                others.append(consumer)
                is_behind = consumer is served
            elif consumer.parked:
                consumer.queue.wake(consumer)
        for consumer in others:
            if consumer.parked:
                consumer.queue.wake(consumer)

    # Transactions

    def commit(self, answer: Callable[[bool], None]) -> None:
        """Apply everything the transaction holds back (tx.commit), then call ``answer``; its argument tells whether the
        answer must wait for the store."""
        if self.transaction is None:
            raise precondition_failed("channel is not transactional")
        self.tx_commit = TxCommit(self, self.transaction, answer)
        self.tx_commit.start()

    def settle(self, delivery: Delivery, settle: Settle) -> None:
        """Settle a delivery that a transaction held back."""
        self._settle([delivery], settle)

    def rollback(self) -> None:
        if self.transaction is None:
            raise precondition_failed("channel is not transactional")
        self._discard(self.transaction)
        self.transaction = Transaction()
        self.deadlines.look_again()

    def _discard(self, transaction: Transaction) -> None:
        """Discard the transaction: deliveries it would have settled are unacked again."""
        if transaction.settles:
            self.unacked.put_back([delivery for delivery, _ in transaction.settles])
        dispose(self.turn, [transaction.publications, transaction.settles])

    def recover(self, last_tag: int) -> bool:
        """Requeue all unacked messages up to this tag while the turn has time; True if some are left. parity: except
        those that a transaction will settle."""
        while self.unacked.count:
            deliveries = self.unacked.take_oldest(last_tag, TOGETHER)
            if not deliveries:
                break
            self._requeue(deliveries)
            if self.turn.is_spent(len(deliveries)):
                return self.unacked.count > 0
        return False

    def _requeue(self, deliveries: list[Delivery]) -> None:
        for delivery in in_line(deliveries):
            self._release(delivery, 1, cost_of(delivery.message))
            delivery.queue.requeue(delivery.message)

    # Deliveries held too long, or settled through the API

    def timeout_of(self, queue: Queue) -> int:
        """The ack timeout of deliveries from this queue, in ms; 0: none."""
        return queue.settings.consumer_timeout_ms or self.connection.settings.default_consumer_timeout_ms or 0

    def deadline_of(self, queue: Queue, consumers_ms: int | None = None) -> int:
        """The ack deadline of deliveries from this queue, in ms; 0: none."""
        return (queue.settings.ack_timeout_ms if consumers_ms is None else consumers_ms) or 0

    def _on_late(self, error: AmqpError) -> None:
        self.connection.fail_channel(self, error)

    def _take_back(self, late: list[Delivery]) -> None:
        """Requeue deliveries whose deadline has passed and revoke their tags, so that a late ack is ignored."""
        for delivery in late:
            self._revoke(delivery)
            delivery.queue.requeue(delivery.message)

    def _revoke(self, delivery: Delivery) -> None:
        if self._revoked_tags is None:
            self._revoked_tags = RevokedTags()
        self.unacked.take(delivery.tag)
        self._revoked_tags.add(delivery.tag)
        self._release(delivery, 1, cost_of(delivery.message))

    def settle_held(self, queue: Queue, position: int, how: Settle) -> Settled | None:
        """Settle a delivery on behalf of the client; None if this channel does not hold it."""
        delivery = self._holding(queue, position)
        if delivery is None:
            return None
        self._revoke(delivery)
        if how is not Settle.ACK:
            self._note_nack(delivery)
        return decide(queue, delivery.message, delivery.delivered_at_ms, how)

    def extend_held(self, queue: Queue, position: int, more_ms: int) -> int | None:
        """Extend a delivery's deadline. Return the new deadline, 0 if it has none, None if this channel does not hold
        it."""
        delivery = self._holding(queue, position)
        if delivery is None or not delivery.due_at_ms:
            return None if delivery is None else 0
        self.deadlines.watch(delivery, more_ms)
        return delivery.due_at_ms

    def _holding(self, queue: Queue, position: int) -> Delivery | None:
        for delivery in self.unacked.deliveries():
            if delivery.queue is queue and delivery.message.position == position:
                return delivery
        return None

    # Consumers

    def drop_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer whose queue was deleted."""
        if self.consumers.pop(consumer.tag, None) is None or not self.is_open:
            return
        if self.connection.capabilities.get("consumer_cancel_notify"):
            # parity: the cancel follows the answer to the method that deleted the queue.
            self.turn.later(partial(self._notify_cancel, consumer.tag))

    def cancel_consumer(self, tag: str) -> bool:
        """Cancel a consumer on request of an operator; False if there is no such consumer."""
        consumer = self.consumers.get(tag)
        if consumer is None:
            return False
        consumer.queue.cancel_consumer(consumer)
        return True

    def _notify_cancel(self, tag: str) -> None:
        if self.is_open:
            self.send(methods.make(commands.Basic.Cancel, consumer_tag=tag, nowait=True))

    # Views and close

    def view(self) -> dict[str, object]:
        return views.channel(self)

    def details(self) -> dict[str, object]:
        return views.channel_details(self)

    def held_of(self, queue: Queue) -> list[dict[str, object]]:
        """The unacked deliveries of one queue."""
        return views.held_of(self, queue)

    def consumer_views(self) -> list[dict[str, object]]:
        return [consumer.view() for consumer in self.consumers.values()]

    def close(self) -> None:
        """Close the channel. `release` then removes its consumers and requeues its messages."""
        if self.is_open:
            # Count once: a channel closed by the broker comes here again when its connection ends.
            connection = self.connection
            assert connection.user is not None
            connection.broker.usage.channel_closed(connection.user.name)
            connection.broker.churn.channels_closed += 1
        self.drop_content()
        self.timeout.end()
        self.deadlines.end()
        self.unacked.limit = TAKES_NONE
        self._leaving += self.consumers.values()
        self.consumers = {}
        if self.reply_consumer is not None:
            self.vhost.replies.pop(self.reply_consumer.name, None)
            self.reply_consumer = None
        self.confirms = None

    def release(self) -> bool:
        """Return a closed channel's resources while the turn has time; True if some are left."""
        if self.tx_commit is not None and not self.tx_commit.cancel():
            return True
        if self.transaction is not None:
            self._discard(self.transaction)
            self.transaction = None
        # Messages before consumers: a queue's next active consumer must find them at their positions.
        if self.recover(self.unacked.last_tag):
            return True
        # In reverse, so that no consumer becomes active just before it leaves.
        while self._leaving:
            consumer = self._leaving.pop()
            consumer.queue.remove_consumer(consumer)
            if self.turn.is_spent():
                return len(self._leaving) > 0
        return False
