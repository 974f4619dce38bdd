"""A queue: takes messages in, hands them out, and sees each to its end.

A message is in exactly one state: ready (in `ready`), unacked (held by a channel), waiting for its next try (in
`retries`), a dead letter that cannot go yet (in `held_dead_letters`) or settled (acked, expired, dropped,
dead-lettered). What is unacked and what is persistent is counted here, and for many at once in runs.py. Handing out
happens in `pump`, at the end of the turn; the few rules that depend on whether a consumer is there at once (TTL 0,
length limits) pump first and judge then. All of it is synchronous.
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
#: So many messages are let go of in slices.
MANY = 10_000


class Queue(Pumped):
    """One queue of one vhost."""

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
        #: The connection an exclusive queue belongs to.
        self.owner = owner
        self.arguments = arguments
        self.turn: Turn = vhost.broker.turn
        self.deleted = False
        #: Who is told of what happens to its messages.
        self.tracer: Tracer | None = None
        #: How often consumers gave a message back or rejected it, and what it gave up, by the reason.
        self.nacked = 0
        self.deaths: dict[Reason, int] | None = None
        #: Takes messages in, but hands none out.
        self.is_paused = False
        #: What holds for it beside its arguments.
        self.policy: Policy | None = None
        self.operator_policy: Policy | None = None
        #: What the store has of it; None for a queue that nothing is stored of.
        self.log = log
        self.paging = Paging(self, vhost.broker)
        self.window_bytes = self.paging.window_bytes
        #: With more than this in memory its publishers may have to wait for its consumers.
        self.congestion_bytes = min(CONGESTION_BYTES, self.window_bytes // 2)
        self.admission: AdmissionControl | None = None
        self.ready = Ready(settings.levels, settings.default_priority, self.paging.load)
        self.consumers = Consumers(settings.single_active_consumer, self.turn)
        self.expiry = Expiry(self, self.ready, self.turn)
        self.queue_ttl = QueueTtl(self)
        self._limits = Limits(self, self.ready)
        #: How many were published here that do not conform to its schema.
        self.violations = 0
        #: When a message was handed out last; 0: never.
        self.served_at_ms = 0
        self.unacked_count = 0
        self.unacked_bytes = 0
        #: Of all its messages, and of those unacked, the persistent ones.
        self.persistent_count = 0
        self.persistent_bytes = 0
        self.unacked_persistent_count = 0
        self.unacked_persistent_bytes = 0
        #: Messages that wait for their next try; made when the first one does.
        self.retries: Retries | None = None
        #: Dead letters that are kept until they can go; made when the first one dies.
        self.held_dead_letters: HeldDeadLetters | None = None
        #: What was fetched over HTTP and is held there; made when the first one is.
        self.leases: Leases | None = None
        #: Who is told when there is something that no consumer takes; made when the first one waits.
        self.pollers: Pollers | None = None
        self.next_position = 1
        #: The last `take` found only expired messages before the turn's time was over.
        self.is_late = False
        #: While set, nothing expires: messages that arrived this instant are offered to consumers once.
        self._sparing = False
        #: Transactions that are on their way in.
        self.deposits = 0
        self.counters = Counters(self.turn.now_ms)
        if log is not None:
            log.count_in(self.counters, vhost.counters)
        #: What came from which exchange; made when something does.
        self.incoming: dict[Exchange, Counters] | None = None
        #: From publish to the first time it is handed out, and from being handed out to its ack.
        self.wait_time = Timing()
        self.processing_time = Timing()
        #: What it has seen already; None: it does not mind duplicates.
        self.deduplication: Deduplication | None = None
        self.settings = _PLAIN
        self.apply(settings)
        self.queue_ttl.renew()

    # In

    def enqueue(self, message: Message) -> bool:
        """Take a message in. False: the queue is full and refuses, and the publisher is to be told so."""
        is_plain = self.is_simple and message.expires_at_ms == 0
        if not is_plain:
            if self.deleted:
                return True  # it goes where all its messages went
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
        """A message was taken in: does it, or another that must make room for it, come to its end at once?"""
        if message.expires_at_ms != 0:
            if message.expires_at_ms <= self.turn.now_ms:
                self._deliver_or_expire(message)
            else:
                self.expiry.remember(message)
        if self._limits.are_exceeded():
            self._serve(True)
            self._limits.trim()

    def _deliver_or_expire(self, message: Message) -> None:
        """parity: TTL 0 means now or never: a consumer that is ready gets it, else it is gone."""
        self._sparing = True
        self._serve(True)
        self._sparing = False
        if message.state == READY:
            self.ready.remove(message)
            self.dead_letter_ready(message, Reason.EXPIRED)

    def _keep(self, message: Message) -> None:
        """Give the message to the store if it is to outlive us, or if there is no room for it in memory."""
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
        """The queue is congested: must this publisher wait until consumers have caught up?"""
        if self.deleted or not self.consumers.all:
            return False
        if self.admission is None:
            self.admission = AdmissionControl(self, self.congestion_bytes)
        return self.admission.wait(publisher)

    def make_room(self) -> None:
        """Somebody may take what is ready: hand it out now."""
        self._serve(True)

    def has_room(self, count: int, body_bytes: int) -> bool:
        """Would it take this many more messages, all at once?"""
        return not self._limits.refuse or self._limits.have_room(count, body_bytes)

    def promise(self, count: int, body_bytes: int) -> None:
        """So many messages of one transaction come, in several turns: keep room for them, and hand nothing out before
        `fulfil`. parity: but what is judged by whether a consumer was there at once."""
        self.deposits += 1
        self._limits.promise(count, body_bytes)

    def admit(self, message: Message) -> bool:
        """`enqueue`, of one that room was kept for."""
        self.spare(1, len(message.body))
        self._limits.is_admitting = True
        try:
            return self.enqueue(message)
        finally:
            self._limits.is_admitting = False

    def spare(self, count: int, body_bytes: int) -> None:
        """Room that was kept for so many need not be kept any longer."""
        self._limits.promise(-count, -body_bytes)

    def fulfil(self) -> None:
        """All that was promised has come."""
        self.deposits -= 1
        if not self.deleted:
            self.turn.touch(self)

    def inlet(self, exchange: "Exchange") -> Counters:
        """Where to count what comes from an exchange."""
        if self.incoming is None:
            self.incoming = {}
        return self.incoming.get(exchange) or make_pair(
            self.incoming, exchange, self.turn.now_ms, partial(is_exchange_gone, self.vhost)
        )

    # Out

    def pump(self) -> None:
        """Hand out what is ready to whoever can take it, for as long as the turn has time."""
        self._serve(False)

    def _serve(self, is_all: bool) -> None:
        self.counters.active_at_ms = self.turn.now_ms
        self._hand_out(is_all)
        if self.admission is not None:
            self.admission.drained()

    def _hand_out(self, is_all: bool) -> None:
        """What is judged by whether a consumer was there at once cannot wait for another turn: ``is_all``."""
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
        """The next message to go out, or None. It counts as unacked until it is settled or returned.

        None also where so many have expired that the turn's time is over (`is_late`): ask again in the next."""
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
        """Is the next message a large one that is being read from disk? Who can wait asks again in the next turn."""
        self.is_late = False
        return not self.deleted and not self.is_paused and self.ready.is_spilling and self.paging.is_reading()

    def fetch(self) -> Message | None:
        """The next message, for somebody who asks for just one, or None."""
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
        """The commit that must be done before what was fetched may leave the broker; 0: none."""
        return 0 if self.log is None else self.log.hold_until

    # Settled, or back

    def ack(self, message: Message, delivered_at_ms: int) -> None:
        """The consumer is done with a message that it has held since then."""
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
        """A message was handed out to somebody who need not ack it."""
        done_with(self, message)

    def reject(self, message: Message) -> None:
        """The consumer wants it neither done nor back: dead-letter it."""
        self.nacked += 1
        self._leave_unacked(message)
        if not self.deleted:
            self._dead_letter(message, Reason.REJECTED)

    def requeue(self, message: Message, cause: int = FAILED) -> Reason | None:
        """Back to where it stood, marked as delivered before; at once, or when its next try is due. Or it ends for the
        reason given back."""
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
        """One that was away is ready again, where it stood before: in memory, or on disk if that is full."""
        # All that is in memory stands before all pages. What came back just before may be in a page already.
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
        """Where messages wait for their next try."""
        if self.retries is None:
            self.retries = Retries(self)
        return self.retries

    def ensure_held_dead_letters(self) -> HeldDeadLetters:
        """Where dead letters are until they have gone."""
        if self.held_dead_letters is None:
            self.held_dead_letters = self._limits.held_dead_letters = HeldDeadLetters(self)
        return self.held_dead_letters

    def _leave_unacked(self, message: Message) -> None:
        """It is not unacked any more."""
        if self.ready.has_levels:
            self.ready.leave_unacked(message)
        self.unacked_count -= 1
        self.unacked_bytes -= len(message.body)
        if message.persistent:
            self.unacked_persistent_count -= 1
            self.unacked_persistent_bytes -= len(message.body)

    # Ends of those that nobody holds

    def dead_letter_ready(self, message: Message, reason: Reason) -> None:
        """Dead-letter a ready message that is out of the line already."""
        message.state = GONE
        if self.retries is not None:
            self.retries.gone(message)
        self._dead_letter(message, reason)

    def drop(self, message: Message, page: Page | None = None) -> None:
        """Take one ready message out for good, undelivered and not as a dead letter: from memory, or from a page."""
        if page is None:
            self.ready.remove(message)
        else:
            self.ready.shrink_page(page, 1, len(message.body))
        if self.retries is not None:
            self.retries.gone(message)
        self.forget(message)

    def purge(self) -> int:
        """Drop all that is ready, waits for its next try or is a dead letter here still; how many that were."""
        count = self.ready.count + self.awaiting_retry_count + self.held_dead_letter_count
        deferred = [] if self.retries is None else self.retries.clear()
        if self.held_dead_letters is not None:
            deferred += self.held_dead_letters.messages()
        if self.log is not None and not self.deleted:
            self.paging.purge(self.log, deferred)
        held: list[list[Any]] = self.ready.clear()
        if self.held_dead_letters is not None:
            self.held_dead_letters.clear()  # not before pages were read, which leave out what is in there
        self.persistent_count = self.unacked_persistent_count
        self.persistent_bytes = self.unacked_persistent_bytes
        held += [self.expiry.clear(), deferred]
        self.paging.forget()
        if count > MANY:
            dispose(self.turn, held)
        return count

    def _dead_letter(self, message: Message, reason: Reason) -> None:
        """The queue is done with a message: the store may forget it, and a dead letter may go out, in the same
        commit. Or it is kept until it can go."""
        if self._holds_dead_letters:
            self.ensure_held_dead_letters().add(message, reason)
        else:
            dead_letter(self, message, reason, is_held=True)

    def forget(self, message: Message) -> None:
        """It is not this queue's any more."""
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
        """An operator ends a consumer: its client is told as if the queue had gone, what it holds stays with it."""
        consumer.cancel()
        self.remove_consumer(consumer)

    def wake(self, consumer: Subscriber) -> None:
        """This consumer can take messages again."""
        if self.consumers.unpark(consumer):
            self.turn.touch(self)

    # Settings

    def apply(self, settings: QueueSettings) -> None:
        """Take on settings; those that the hot path reads are kept as plain numbers, -1 for none."""
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
        """Take on other settings while in use: limits hold at once, the queue's TTL starts again.

        parity: what waits already keeps the TTL it came with.
        """
        is_trace_changed = settings.trace is not self.settings.trace
        is_validated_otherwise = settings.schema != self.settings.schema or (
            settings.max_message_size != self.settings.max_message_size
        )
        if is_validated_otherwise:
            self.vhost.renew_routes()  # channels know whether they must look at bodies
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
        """Hand nothing out until `resume`, neither to consumers nor to those who fetch."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self.turn.touch(self)

    def start_at(self, next_position: int) -> None:
        """Recovery: positions go on behind those of the last run, of which only persistent messages are left."""
        self.next_position = next_position
        self.persistent_count = self.ready.count + self.awaiting_retry_count + self.held_dead_letter_count
        self.persistent_bytes = self.ready.body_bytes + self.deferred_bytes

    def delete(self) -> None:
        """The queue is out of its vhost already; what is left of it ends here. Its messages are not dead-lettered."""
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
        """Nothing of it refers back to it any more, so that reference counting frees it. Deliveries that clients still
        hold may be settled as before."""
        self.is_simple = False  # what is still published here takes the way that looks whether it is deleted
        self.expiry.detach()
        self.queue_ttl.detach()
        self._limits.detach()
        self.paging.detach()
        self.retries = self.held_dead_letters = self.leases = self.incoming = self.admission = None

    def _cancel_some(self, gone: list[Subscriber]) -> bool:
        """Tell consumers that the queue has gone, the first of them last in the list; True: there are more."""
        while gone:
            gone.pop().cancel()
            if self.turn.is_spent():
                return bool(gone)
        return False

    # What it has

    @property
    def message_count(self) -> int:
        return self.ready.count

    @property
    def awaiting_retry_count(self) -> int:
        """Messages that wait for their next try."""
        return 0 if self.retries is None else self.retries.count

    @property
    def held_dead_letter_count(self) -> int:
        """Dead letters that have not gone yet."""
        return 0 if self.held_dead_letters is None else self.held_dead_letters.count

    @property
    def deferred_bytes(self) -> int:
        """Octets of the bodies of those that are neither ready nor unacked."""
        waiting = 0 if self.retries is None else self.retries.body_bytes
        return waiting if self.held_dead_letters is None else waiting + self.held_dead_letters.body_bytes

    @property
    def is_idle(self) -> bool:
        """Has it no message at all, in whatever state?"""
        return not (self.ready.count or self.unacked_count or self.awaiting_retry_count or self.held_dead_letter_count)

    @property
    def last_position(self) -> int:
        """The position that was given last; whatever comes now has a higher one."""
        return self.next_position - 1

    @property
    def consumer_count(self) -> int:
        return len(self.consumers.all)

    @property
    def is_logged(self) -> bool:
        """Whether the event log is told of its messages."""
        return self.tracer is not None and self.tracer.is_logged


def done_with(queue: Queue, message: Message) -> None:
    """A message that was handed out is done with. No method, so that it is part of those that call it."""
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
