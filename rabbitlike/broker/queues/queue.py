"""A queue: accepts messages, delivers them and settles them.

A message is in exactly one state: ready (in `ready`), unacked (held by a channel), awaiting a retry (in `retries`), a
held dead letter (in `held_dead_letters`) or settled (acked, expired, dropped, dead-lettered). This module counts the
unacked and the persistent messages; runs.py counts whole runs of them. `pump` delivers at the end of the turn. The few
rules that depend on an available consumer (TTL 0, length limits) deliver first and decide then. All of it is
synchronous.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from rabbitlike.broker.disposal import dispose
from rabbitlike.broker.message import Message
from rabbitlike.broker.ports import Owner, Publishing, Pumped, Subscriber
from rabbitlike.broker.publishing.deduplication import Deduplication, remembering
from rabbitlike.broker.queue_settings.settings import QueueSettings
from rabbitlike.broker.queues.admission import CONGESTION_BYTES, AdmissionControl
from rabbitlike.broker.queues.consumers import Consumers
from rabbitlike.broker.queues.dead_letters.dead_lettering import dead_letter
from rabbitlike.broker.queues.dead_letters.held_dead_letters import HeldDeadLetters, warn_of_fallback
from rabbitlike.broker.queues.dead_letters.x_death import Reason
from rabbitlike.broker.queues.expiry import Expiry
from rabbitlike.broker.queues.limits import Limits
from rabbitlike.broker.queues.ordering.fairness import read_shares
from rabbitlike.broker.queues.ordering.ready import Ready
from rabbitlike.broker.queues.pollers import Pollers
from rabbitlike.broker.queues.queue_ttl import QueueTtl
from rabbitlike.broker.queues.retries import Retries
from rabbitlike.broker.queues.storage.log import Log, Page
from rabbitlike.broker.queues.storage.paging import Paging
from rabbitlike.broker.states import FAILED, GONE, LOGGED, READY, UNACKED
from rabbitlike.broker.statistics.counters import Counters, Timing
from rabbitlike.broker.statistics.pairs import is_exchange_gone, make_pair
from rabbitlike.broker.tracing.tracer import Tracer
from rabbitlike.broker.turn import Turn
from rabbitlike.protocol.errors import access_refused
from rabbitlike.protocol.tables import Table

if TYPE_CHECKING:
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.leases import Leases
    from rabbitlike.broker.policies.policies import Policy
    from rabbitlike.broker.vhost import Vhost

_PLAIN = QueueSettings()
#: Above this count, messages are freed in slices.
MANY = 10_000


class Queue(Pumped):
    """A queue of a vhost."""

    __slots__ = (
        "_delivery_limit",
        "_holds_dead_letters",
        "_limits",
        "_retry",
        "_sparing",
        "admission",
        "arguments",
        "auto_delete",
        "congestion_bytes",
        "consumers",
        "counters",
        "counts_deliveries",
        "deaths",
        "deduplication",
        "deleted",
        "deposits",
        "durable",
        "expiry",
        "held_dead_letters",
        "incoming",
        "is_late",
        "is_paused",
        "is_simple",
        "leases",
        "log",
        "nacked",
        "name",
        "next_position",
        "operator_policy",
        "owner",
        "paging",
        "persistent_bytes",
        "persistent_count",
        "policy",
        "pollers",
        "processing_time",
        "queue_ttl",
        "ready",
        "retries",
        "served_at_ms",
        "settings",
        "tracer",
        "turn",
        "unacked_bytes",
        "unacked_count",
        "unacked_persistent_bytes",
        "unacked_persistent_count",
        "vhost",
        "violations",
        "wait_time",
        "window_bytes",
    )

    def __init__(
        self,
        name: str,
        vhost: "Vhost",
        *,
        durable: bool,
        auto_delete: bool,
        owner: Owner | None,
        arguments: Table,
        settings: QueueSettings,
        log: Log | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.vhost = vhost
        self.durable = durable
        self.auto_delete = auto_delete
        #: The connection that declared this queue as exclusive.
        self.owner = owner
        self.arguments = arguments
        self.turn: Turn = vhost.broker.turn
        self.deleted = False
        #: Reports what happens to the queue's messages; None: no event log and no firehose.
        self.tracer: Tracer | None = None
        #: How often consumers returned or rejected a message; how many messages were dead-lettered, by reason.
        self.nacked = 0
        self.deaths: dict[Reason, int] | None = None
        #: The queue accepts messages but delivers none.
        self.is_paused = False
        #: The policies that apply beside the arguments.
        self.policy: Policy | None = None
        self.operator_policy: Policy | None = None
        #: The queue's log in the store; None: nothing of the queue is stored.
        self.log = log
        self.paging = Paging(self, vhost.broker)
        self.window_bytes = self.paging.window_bytes
        #: Above this many bytes in memory, publishers may have to wait for the queue's consumers.
        self.congestion_bytes = min(CONGESTION_BYTES, self.window_bytes // 2)
        self.admission: AdmissionControl | None = None
        self.ready = Ready(settings.levels, settings.default_priority, self.paging.load)
        self.consumers = Consumers(settings.single_active_consumer, self.turn)
        self.expiry = Expiry(self, self.ready, self.turn)
        self.queue_ttl = QueueTtl(self)
        self._limits = Limits(self, self.ready)
        #: How many published messages violated the queue's schema.
        self.violations = 0
        #: When the last message was delivered; 0: never.
        self.served_at_ms = 0
        self.unacked_count = 0
        self.unacked_bytes = 0
        #: The persistent ones among all messages, and among the unacked ones.
        self.persistent_count = 0
        self.persistent_bytes = 0
        self.unacked_persistent_count = 0
        self.unacked_persistent_bytes = 0
        #: Messages that await a retry; created on first use.
        self.retries: Retries | None = None
        #: Dead letters held until all target queues have them; created on first use.
        self.held_dead_letters: HeldDeadLetters | None = None
        #: Messages leased over HTTP; created on first use.
        self.leases: Leases | None = None
        #: Clients that poll for messages; created when the first one waits.
        self.pollers: Pollers | None = None
        self.next_position = 1
        #: The last `take` found only expired messages until the turn's time was over.
        self.is_late = False
        #: While set, nothing expires, so that consumers are offered newly arrived messages once.
        self._sparing = False
        #: How many transactions are being deposited.
        self.deposits = 0
        self.counters = Counters(self.turn.now_ms)
        if log is not None:
            log.count_in(self.counters, vhost.counters)
        #: Counters per source exchange; created on first use.
        self.incoming: dict[Exchange, Counters] | None = None
        #: The time from publish to first delivery, and from delivery to ack.
        self.wait_time = Timing()
        self.processing_time = Timing()
        #: Detects duplicates; None: the queue accepts them.
        self.deduplication: Deduplication | None = None
        self.settings = _PLAIN
        self.apply(settings)
        self.queue_ttl.renew()

    # Enqueue

    def enqueue(self, message: Message) -> bool:
        """Accept a message. Return False if the queue is full and rejects it; the caller must tell the publisher."""
        is_plain = self.is_simple and message.expires_at_ms == 0
        if not is_plain:
            if self.deleted:
                return True  # dropped, like all messages of a deleted queue
            if self.deduplication is not None and self.deduplication.has(message.properties):
                return True
            if self._limits.turn_away(message):
                return False
            if self.deduplication is not None:
                self.deduplication.add(message.properties, message.persistent)
            self.expiry.stamp(message)
        message.position = self.next_position
        self.next_position += 1
        self.ready.push(message)
        self.counters.publish += 1
        if message.persistent:
            self.persistent_count += 1
            self.persistent_bytes += len(message.body)
        if self.log is not None or self.ready.memory_bytes > self.congestion_bytes:
            self._keep(message)
        if self.tracer is not None:
            self.tracer.enqueued(message)
        if not self.touched:
            self.turn.touch(self)
        if not is_plain:
            self._enforce(message)
        return True

    def _enforce(self, message: Message) -> None:
        """Apply TTL 0 and the limits to the message just added and to those that must make room for it."""
        if message.expires_at_ms != 0:
            if message.expires_at_ms <= self.turn.now_ms:
                self._deliver_or_expire(message)
            else:
                self.expiry.remember(message)
        if self._limits.are_exceeded():
            self._serve(True)
            self._limits.trim()

    def _deliver_or_expire(self, message: Message) -> None:
        """parity: with TTL 0 a message is delivered to a consumer that can take it now, or else it expires."""
        self._sparing = True
        self._serve(True)
        self._sparing = False
        if message.state == READY:
            self.ready.remove(message)
            self.dead_letter_ready(message, Reason.EXPIRED)

    def _keep(self, message: Message) -> None:
        """Add the message to the log if it must survive a restart or if memory has no space for it."""
        log = self.log
        if log is not None:
            if log.spill_from != 0 and not self.ready.is_spilling:
                log.spill_from = 0
            if (message.persistent and self.durable) or log.spill_from != 0:
                log.add(message)
        if self.ready.memory_bytes > self.congestion_bytes:
            self.turn.note_congestion(self)
            if self.ready.memory_bytes > self.window_bytes and (log is None or log.spill_from == 0):
                self.log = self.paging.spill(log, self.next_position)

    def make_wait(self, publisher: Publishing) -> bool:
        """Return whether this publisher must wait until consumers have caught up. The queue is congested."""
        if self.deleted or not self.consumers.all:
            return False
        if self.admission is None:
            self.admission = AdmissionControl(self, self.congestion_bytes)
        return self.admission.wait(publisher)

    def make_room(self) -> None:
        """Deliver now whatever consumers can take."""
        self._serve(True)

    def has_room(self, count: int, body_bytes: int) -> bool:
        """Return whether the queue would accept this many more messages at once."""
        return not self._limits.refuse or self._limits.have_room(count, body_bytes)

    def promise(self, count: int, body_bytes: int) -> None:
        """Reserve space for the messages of a transaction that arrives in several turns, and deliver nothing before
        `fulfil`. parity: except where a rule depends on whether a consumer was available at once."""
        self.deposits += 1
        self._limits.promise(count, body_bytes)

    def admit(self, message: Message) -> bool:
        """`enqueue` a message that space was reserved for."""
        self.spare(1, len(message.body))
        self._limits.is_admitting = True
        try:
            return self.enqueue(message)
        finally:
            self._limits.is_admitting = False

    def spare(self, count: int, body_bytes: int) -> None:
        """Release space that was reserved for this many messages."""
        self._limits.promise(-count, -body_bytes)

    def fulfil(self) -> None:
        """End a `promise`: all its messages have arrived."""
        self.deposits -= 1
        if not self.deleted:
            self.turn.touch(self)

    def inlet(self, exchange: "Exchange") -> Counters:
        """Return the counters for messages from this exchange."""
        if self.incoming is None:
            self.incoming = {}
        return self.incoming.get(exchange) or make_pair(
            self.incoming, exchange, self.turn.now_ms, partial(is_exchange_gone, self.vhost)
        )

    # Deliver

    def pump(self) -> None:
        """Deliver ready messages to consumers that can take them, while the turn has time."""
        self._serve(False)

    def _serve(self, is_all: bool) -> None:
        self.counters.active_at_ms = self.turn.now_ms
        self._hand_out(is_all)
        if self.admission is not None:
            self.admission.drained()

    def _hand_out(self, is_all: bool) -> None:
        """Deliver ready messages. ``is_all``: ignore the turn's time, because a rule depends on an available
        consumer."""
        if self.deleted or self.is_paused or (self.deposits and not is_all):
            return
        ready = self.ready
        while ready.count:
            consumer = self.consumers.take()
            if consumer is None:
                if self.pollers is not None:
                    self.pollers.notify(ready.count)
                return
            message = None if ready.is_spilling and not is_all and self.is_reading() else self.take()
            if message is None:
                if self.is_late:
                    self.turn.touch(self)
                return
            if self.tracer is not None:
                self.tracer.delivered(message, consumer)
            consumer.deliver(message)
            if self.log is not None and self.log.hold_until != 0:
                consumer.hold(self.log.hold_until)
            if self.consumers.is_alone and ready.count:
                consumer.deliver_more(message)
            if self.turn.is_spent() and not is_all:
                if ready.count:
                    self.turn.touch(self)
                return

    def take(self) -> Message | None:
        """Return the next message to deliver, or None. It counts as unacked until it is settled or returned.

        None also if so many messages have expired that the turn's time is over (`is_late`): call again next turn."""
        self.is_late = False
        while True:
            message = self.ready.pop()
            if message is None:
                return None
            if message.expires_at_ms != 0 and not self._sparing and message.expires_at_ms <= self.turn.now_ms:
                self.dead_letter_ready(message, Reason.EXPIRED)
                if self.turn.is_spent() and self.ready.count:
                    self.is_late = True
                    return None
                continue
            message.state = UNACKED
            self.served_at_ms = self.turn.now_ms
            if self.ready.has_levels:
                self.ready.served(message, self.turn.now_ms)
            self.unacked_count += 1
            self.unacked_bytes += len(message.body)
            if message.persistent:
                self.unacked_persistent_count += 1
                self.unacked_persistent_bytes += len(message.body)
            if message.attempts > 0:
                self.counters.redeliver += 1
                if self.retries is not None:
                    self.retries.gone(message)
            elif message.published_at_ms == self.turn.now_ms:
                self.wait_time.at_once += 1
            else:
                self.wait_time.add(self.turn.now_ms - message.published_at_ms)
            if message.logged == LOGGED and self.log is not None:
                self.log.delivered(message)
            return message

    def is_reading(self) -> bool:
        """Return whether the next message is large and being read from disk. Callers that can wait retry next turn."""
        self.is_late = False
        return not self.deleted and not self.is_paused and self.ready.is_spilling and self.paging.is_reading()

    def fetch(self) -> Message | None:
        """Return the next message for a basic.get or an HTTP fetch, or None."""
        if self.deleted:
            return None
        if self.settings.expires_ms is not None:
            self.queue_ttl.renew()
        if self.is_paused:
            return None
        if self.ready.count == 0 and self.retries is not None:
            self.retries.read_due()
        self.counters.active_at_ms = self.turn.now_ms
        return self.take()

    @property
    def hold_until(self) -> int:
        """The commit that must finish before a fetched message may leave the broker; 0: none."""
        return 0 if self.log is None else self.log.hold_until

    # Settle or return

    def ack(self, message: Message, delivered_at_ms: int) -> None:
        """Settle a message that the consumer has acked. It was delivered at ``delivered_at_ms``."""
        self.counters.ack += 1
        self.counters.active_at_ms = self.turn.now_ms
        if delivered_at_ms == self.turn.now_ms:
            self.processing_time.at_once += 1
        else:
            self.processing_time.add(self.turn.now_ms - delivered_at_ms)
        if self.tracer is not None:
            self.tracer.acked(message, delivered_at_ms)
        done_with(self, message)

    def settle(self, message: Message) -> None:
        """Settle a message whose receiver need not ack it."""
        done_with(self, message)

    def reject(self, message: Message) -> None:
        """Dead-letter a message that its consumer rejected without requeue."""
        self.nacked += 1
        self._leave_unacked(message)
        if not self.deleted:
            self._dead_letter(message, Reason.REJECTED)

    def requeue(self, message: Message, cause: int = FAILED) -> Reason | None:
        """Return a message to its position and count the attempt: at once, or after the delay of its retry. Return the
        reason if the message is dead-lettered instead."""
        self.nacked += 1
        self._leave_unacked(message)
        if self.deleted:
            return None
        if message.attempts != 1 or not self.paging.forgives(message.position):
            message.attempts += 1
        if 0 <= self._delivery_limit < message.attempts:
            self._dead_letter(message, Reason.DELIVERY_LIMIT)
            return Reason.DELIVERY_LIMIT
        if 0 < message.expires_at_ms <= self.turn.now_ms:
            self.dead_letter_ready(message, Reason.EXPIRED)
            return Reason.EXPIRED
        if self._retry is not None:
            due_at_ms = self._retry.next_try_ms(
                message.attempts, cause, message.published_at_ms, message.expires_at_ms, self.turn.now_ms
            )
            if due_at_ms < 0:
                self._dead_letter(message, Reason.RETRY_TIMEOUT)
                return Reason.RETRY_TIMEOUT
            if due_at_ms > 0:
                if self.tracer is not None:
                    self.tracer.requeued(message, True)
                self.ensure_retries().add(message, due_at_ms)
                return None
        if message.logged == LOGGED and self.log is not None:
            self.log.returned(message)
        if self.tracer is not None:
            self.tracer.requeued(message, False)
        self.put_back(message)
        return None

    def put_back(self, message: Message) -> None:
        """Make a deferred or unacked message ready again at its position, in memory or, if memory is full, on disk."""
        # Messages in memory precede all pages. Messages that came back just before may be in a page already.
        is_behind = self.ready.page_count > 0 and self.ready.is_behind_pages(message)
        if (self.ready.memory_bytes <= self.window_bytes and not is_behind) or not self.paging.take_back(message):
            if is_behind:
                self.ready.read_before(message)
            self.ready.push_back(message)
        self.turn.touch(self)
        if message.expires_at_ms != 0:
            self.expiry.remember(message)
        self._limits.trim()

    def ensure_retries(self) -> Retries:
        """Return the messages that await a retry."""
        if self.retries is None:
            self.retries = Retries(self)
        return self.retries

    def ensure_held_dead_letters(self) -> HeldDeadLetters:
        """Return the held dead letters."""
        if self.held_dead_letters is None:
            self.held_dead_letters = self._limits.held_dead_letters = HeldDeadLetters(self)
        return self.held_dead_letters

    def _leave_unacked(self, message: Message) -> None:
        """Subtract the message from the unacked counts."""
        if self.ready.has_levels:
            self.ready.leave_unacked(message)
        self.unacked_count -= 1
        self.unacked_bytes -= len(message.body)
        if message.persistent:
            self.unacked_persistent_count -= 1
            self.unacked_persistent_bytes -= len(message.body)

    # Removal of messages that are not unacked

    def dead_letter_ready(self, message: Message, reason: Reason) -> None:
        """Dead-letter a message that was ready and is already removed from `ready`."""
        message.state = GONE
        if self.retries is not None:
            self.retries.gone(message)
        self._dead_letter(message, reason)

    def drop(self, message: Message, page: Page | None = None) -> None:
        """Remove a ready message from memory or from a page, without delivering or dead-lettering it."""
        if page is None:
            self.ready.remove(message)
        else:
            self.ready.shrink_page(page, 1, len(message.body))
        if self.retries is not None:
            self.retries.gone(message)
        self.forget(message)

    def purge(self) -> int:
        """Drop all messages that are ready, await a retry or are held dead letters; return their number."""
        count = self.ready.count + self.awaiting_retry_count + self.held_dead_letter_count
        deferred = [] if self.retries is None else self.retries.clear()
        if self.held_dead_letters is not None:
            deferred += self.held_dead_letters.messages()
        if self.log is not None and not self.deleted:
            self.paging.purge(self.log, deferred)
        held: list[list[Any]] = self.ready.clear()
        if self.held_dead_letters is not None:
            self.held_dead_letters.clear()  # after the pages were read, because these leave out held dead letters
        self.persistent_count = self.unacked_persistent_count
        self.persistent_bytes = self.unacked_persistent_bytes
        held += [self.expiry.clear(), deferred]
        self.paging.forget()
        if count > MANY:
            dispose(self.turn, held)
        return count

    def _dead_letter(self, message: Message, reason: Reason) -> None:
        """Remove a message and send its dead letter in the same commit, or hold the dead letter until its targets have
        it."""
        if self._holds_dead_letters:
            self.ensure_held_dead_letters().add(message, reason)
        else:
            dead_letter(self, message, reason, is_held=True)

    def forget(self, message: Message) -> None:
        """Remove the message from the persistent counts and from the log."""
        if message.persistent:
            self.persistent_count -= 1
            self.persistent_bytes -= len(message.body)
        if message.logged == LOGGED and self.log is not None:
            self.log.settle(message)

    # Consumers

    def add_consumer(self, consumer: Subscriber, exclusive: bool) -> None:
        if not self.consumers.admit(exclusive):
            raise access_refused(f"queue '{self.name}' in vhost '{self.vhost.name}' in exclusive use")
        self.consumers.add(consumer, exclusive)
        self.queue_ttl.renew()
        self.turn.touch(self)

    def remove_consumer(self, consumer: Subscriber) -> None:
        if not self.consumers.remove(consumer):
            return
        if self.consumers.all:
            self.turn.touch(self)
        elif self.auto_delete:
            self.vhost.delete_queue(self)
        else:
            self.queue_ttl.renew()

    def cancel_consumer(self, consumer: Subscriber) -> None:
        """Cancel a consumer for an operator. Its client sees the same as after a queue deletion and keeps its unacked
        messages."""
        consumer.cancel()
        self.remove_consumer(consumer)

    def wake(self, consumer: Subscriber) -> None:
        """Add a consumer that can take messages again."""
        if self.consumers.unpark(consumer):
            self.turn.touch(self)

    # Settings

    def apply(self, settings: QueueSettings) -> None:
        """Apply settings. Those that the hot path reads become plain numbers, -1 for none."""
        is_shared_otherwise = settings.weights != self.settings.weights or (
            settings.priority_max_wait_ms != self.settings.priority_max_wait_ms
        )
        if is_shared_otherwise:
            self.ready.shares = read_shares(settings.weights, settings.priority_max_wait_ms, self.turn)
        if settings.dead_letter_strategy == "at-least-once" and not settings.holds_dead_letters:
            warn_of_fallback(self, settings)
        self.settings = settings
        self._holds_dead_letters = settings.holds_dead_letters
        ttl_ms = -1 if settings.message_ttl_ms is None else settings.message_ttl_ms
        self.expiry.change_ttl(ttl_ms)
        self._limits.apply(settings)
        self._delivery_limit = -1 if settings.delivery_limit is None else settings.delivery_limit
        self._retry = settings.retry
        self.counts_deliveries = settings.queue_type == "quorum" or settings.delivery_limit is not None
        if self.deduplication is not None or settings.deduplication is not None:
            owner = "" if self.log is None else f"queue {self.log.queue_id}"
            is_stored = self.durable and bool(owner)
            self.deduplication = remembering(
                self.deduplication, settings.deduplication, owner, self.turn, self.vhost.broker.journal, is_stored
            )
        self.is_simple = ttl_ms < 0 and not self._limits.are_set and self.deduplication is None

    def change(self, settings: QueueSettings) -> None:
        """Apply other settings while in use: limits take effect at once, the queue's TTL starts again.

        parity: messages already in the queue keep the TTL they arrived with.
        """
        is_trace_changed = settings.trace is not self.settings.trace
        is_validated_otherwise = settings.schema != self.settings.schema or (
            settings.max_message_size != self.settings.max_message_size
        )
        if is_validated_otherwise:
            self.vhost.renew_routes()  # channels cache whether they must check bodies
        timeouts = (self.settings.consumer_timeout_ms, self.settings.ack_timeout_ms)
        self.apply(settings)
        if is_trace_changed:
            self.vhost.retrace_queue(self)
        self.queue_ttl.renew()
        self._limits.trim()
        if self.held_dead_letters is not None:
            self.held_dead_letters.changed()
        if (settings.consumer_timeout_ms, settings.ack_timeout_ms) != timeouts:
            for consumer in self.consumers.all:
                consumer.retime()

    # The queue itself

    def pause(self) -> None:
        """Deliver nothing until `resume`, neither to consumers nor to clients that fetch."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self.turn.touch(self)

    def start_at(self, next_position: int) -> None:
        """Recovery: continue the positions of the last run. Of its messages, only persistent ones remain."""
        self.next_position = next_position
        self.persistent_count = self.ready.count + self.awaiting_retry_count + self.held_dead_letter_count
        self.persistent_bytes = self.ready.body_bytes + self.deferred_bytes

    def delete(self) -> None:
        """Stop all parts of the queue, which is removed from its vhost already. Its messages are not dead-lettered."""
        self.deleted = True
        if self.deduplication is not None:
            self.deduplication.forget()
        if self.log is not None:
            self.log.delete()
        if self.retries is not None:
            self.retries.stop()
        if self.held_dead_letters is not None:
            self.held_dead_letters.stop()
        if self.leases is not None:
            self.leases.stop()
        if self.pollers is not None:
            self.pollers.notify_all()
        if self.admission is not None:
            self.admission.stop()
        gone = self.consumers.remove_all()
        gone.reverse()
        self.turn.run(partial(self._cancel_some, gone))
        self.purge()
        self._detach()

    def _detach(self) -> None:
        """Break reference cycles so that reference counting frees the queue. Clients can still settle deliveries that
        they hold."""
        self.is_simple = False  # so that `enqueue` checks `deleted`
        self.expiry.detach()
        self.queue_ttl.detach()
        self._limits.detach()
        self.paging.detach()
        self.retries = self.held_dead_letters = self.leases = self.incoming = self.admission = None

    def _cancel_some(self, gone: list[Subscriber]) -> bool:
        """Cancel consumers, the first one being last in the list. Return True if there are more."""
        while gone:
            gone.pop().cancel()
            if self.turn.is_spent():
                return bool(gone)
        return False

    # State

    @property
    def message_count(self) -> int:
        return self.ready.count

    @property
    def awaiting_retry_count(self) -> int:
        """Number of messages that await a retry."""
        return 0 if self.retries is None else self.retries.count

    @property
    def held_dead_letter_count(self) -> int:
        """Number of held dead letters."""
        return 0 if self.held_dead_letters is None else self.held_dead_letters.count

    @property
    def deferred_bytes(self) -> int:
        """Total body bytes of messages that are neither ready nor unacked."""
        waiting = 0 if self.retries is None else self.retries.body_bytes
        return waiting if self.held_dead_letters is None else waiting + self.held_dead_letters.body_bytes

    @property
    def is_idle(self) -> bool:
        """True if the queue has no message in any state."""
        return not (self.ready.count or self.unacked_count or self.awaiting_retry_count or self.held_dead_letter_count)

    @property
    def last_position(self) -> int:
        """The position given last; later messages get higher ones."""
        return self.next_position - 1

    @property
    def consumer_count(self) -> int:
        return len(self.consumers.all)

    @property
    def is_logged(self) -> bool:
        """Whether the event log records the queue's messages."""
        return self.tracer is not None and self.tracer.is_logged


def done_with(queue: Queue, message: Message) -> None:
    """Settle a delivered message. A function, not a method, so that the C compiler can inline it."""
    if queue.ready.has_levels:
        queue.ready.leave_unacked(message)
    queue.unacked_count -= 1
    queue.unacked_bytes -= len(message.body)
    if message.persistent:
        queue.unacked_persistent_count -= 1
        queue.unacked_persistent_bytes -= len(message.body)
        queue.persistent_count -= 1
        queue.persistent_bytes -= len(message.body)
    if message.logged == LOGGED and queue.log is not None:
        queue.log.settle(message)
