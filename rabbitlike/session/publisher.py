"""The publishing side of a channel: passes messages to queues, sends returns and confirms.

The frame reader calls `on_publish` directly. A publish with the same address, properties and topology as the one before
needs no checks and takes the fast path; anything unusual goes through `check` of `broker/publishing/publication.py`.
`channel` handles deliveries and settles.
"""

from typing import TYPE_CHECKING

from rabbitlike.broker.delays.times import LATEST_MS, is_timed, negated, plain_delay
from rabbitlike.broker.journal import Journal
from rabbitlike.broker.message import make_message
from rabbitlike.broker.ports import ClientName
from rabbitlike.broker.publishing.publication import Origin, Publication, Target, check, find_target
from rabbitlike.broker.publishing.reply_names import DIRECT_REPLY
from rabbitlike.broker.queues.deposit import deposit
from rabbitlike.broker.queues.runs import admits_run, enqueue_run
from rabbitlike.broker.states import MESSAGE_COST
from rabbitlike.broker.statistics.counters import Counters, Sizes
from rabbitlike.broker.tracing.tracer import Tracer
from rabbitlike.broker.turn import Turn
from rabbitlike.protocol.constants import DISCARD, EXPIRATION, HEADERS, REPLY_TO, USER_ID
from rabbitlike.protocol.content import Content
from rabbitlike.protocol.errors import not_implemented
from rabbitlike.session.confirms import Confirms
from rabbitlike.session.outlet import Outlet
from rabbitlike.session.reply import ReplyConsumer
from rabbitlike.session.transaction import Transaction

if TYPE_CHECKING:
    from rabbitlike.broker.exchanges.exchange import Exchange
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.session.connection import Connection

MANDATORY = 1
IMMEDIATE = 2
#: Properties that can make checks or changes necessary.
WATCHED = EXPIRATION | HEADERS | REPLY_TO | USER_ID
#: Targets that a connection caches, approximately, split among its channels; each channel keeps at least FEW_TARGETS.
TARGETS_KEPT = 4096
FEW_TARGETS = 16

NO_ROUTE = 312
NO_ROUTE_TEXT = b"\x08NO_ROUTE"


class Publisher(Content):
    """The part of a channel that accepts publishes."""

    __slots__ = (
        "_answers_due",
        "_delay_ms",
        "_is_awaiting",
        "_is_watched",
        "_sizes",
        "_target",
        "_targets",
        "_targets_generation",
        "_traced_size",
        "_tracer",
        "confirms",
        "connection",
        "counters",
        "journal",
        "origin",
        "outlet",
        "publishes",
        "reply_consumer",
        "totals",
        "transaction",
        "turn",
        "vhost",
    )

    def __init__(self, number: int, connection: "Connection", vhost: "Vhost") -> None:
        settings = connection.broker.settings
        super().__init__(number, settings.max_message_size)
        self.connection = connection
        self.vhost = vhost
        self.turn: Turn = connection.broker.turn
        self.outlet: Outlet = connection.outlet
        self.journal: Journal | None = connection.broker.journal
        #: Counters of this channel, and of the whole vhost.
        self.counters = Counters(self.turn.now_ms)
        self.totals: Counters = vhost.counters
        self._sizes: Sizes = connection.broker.sizes
        assert connection.user is not None
        #: Where publishes of this channel come from: vhost, user and client.
        self.origin = Origin(vhost, connection.user, (connection.name, number, connection.user.name), self.counters)
        #: Publish counters by exchange.
        self.publishes: dict[Exchange, Counters] = self.origin.publishes
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.reply_consumer: ReplyConsumer | None = None
        self._target: Target | None = None
        self._targets: dict[bytes, Target] = {}
        self._targets_generation = 0
        #: The tracer of the current publish, and the size of its body.
        self._tracer: Tracer | None = None
        self._traced_size = 0
        #: Delay of the current publish in ms, if it needs no other check.
        self._delay_ms = 0
        #: The current properties need checks.
        self._is_watched = False
        self._answers_due = False
        #: Confirms wait for a commit, and the connection has subscribed to it.
        self._is_awaiting = False

    @property
    def is_open(self) -> bool:
        return self.expecting != DISCARD

    def client(self) -> ClientName:
        return self.origin.client

    # The fast path

    def on_address(self) -> None:
        self._target = self._targets.get(self.address) if self.bits & IMMEDIATE == 0 else None

    def on_properties(self) -> None:
        self._delay_ms = 0
        self._is_watched = self.properties.flags & WATCHED != 0 and self._needs_care()

    def on_publish(self, body: bytes) -> None:
        self._sizes.add(len(body))  # parity: counted whatever the outcome
        target = self._target
        if target is None or target.generation != self.turn.generation:
            target = self._find_target()
        if self._is_watched or not target.is_plain or self.transaction is not None:
            if self._delay_ms > 0 and self._may_delay(target):
                self._publish_delayed(target, body)
            else:
                self._publish_carefully(target, body)
            # A read holds thousands of small messages, and each of these takes ten times as long as a plain one.
            self.connection.stall_if_long()
            return
        properties = self.properties
        number = 0
        if properties.persistent and target.is_stored and self.journal is not None:
            number = self.journal.number
        if target.tracer is not None:
            self._tracer = target.tracer if self.confirms is not None else None
            self._traced_size = len(body)
            target.tracer.published(
                self.address, properties.raw, properties.priority, len(body), len(target.queues), False
            )
        accepted = deposit(
            target.queues,
            target.inlets,
            self.address,
            properties.raw,
            body,
            properties.persistent,
            properties.priority,
            self.turn.now_ms,
            0,
            None,
        )
        copies = len(target.queues)
        self.origin.count(target, 1, copies, 1 if accepted and self.confirms is not None else 0)
        if copies == 0:
            mandatory = self.bits & MANDATORY != 0
            self.origin.count_unroutable(target, mandatory)
            if mandatory:
                self._return(self.address, properties.raw, body)
        self._published(accepted, number, 1)

    def on_part(self) -> None:
        # parity: a partial message also blocks the client; many partial messages would fill memory.
        if self.turn.alarmed:
            self.connection.block()

    def on_publishes(self, bodies: list[bytes], body_bytes: int) -> int:
        target = self._target
        if target is None or not self._admits_run(target, len(bodies), body_bytes):
            taken = 0
            for body in bodies:
                self.on_publish(body)
                taken += 1
                if self.connection.is_stalled:
                    break
            return taken
        properties = self.properties
        number = 0
        if properties.persistent and target.is_stored and self.journal is not None:
            number = self.journal.number
        for queue in target.queues:
            messages = [
                make_message(
                    self.address, properties.raw, body, properties.persistent, properties.priority, self.turn.now_ms
                )
                for body in bodies
            ]
            enqueue_run(queue, messages, body_bytes)
            if target.tracer is not None:
                target.tracer.published_run(messages, queue.tracer)
                if self.confirms is not None:
                    target.tracer.confirmed_run(messages, number)
        count = len(bodies)
        self._sizes.add_run(bodies)
        self.origin.count(target, count, len(target.queues), count if self.confirms is not None else 0)
        for inlet in target.inlets:
            inlet.publish += count
        self._published(True, number, count)
        return count

    def _admits_run(self, target: Target, count: int, body_bytes: int) -> bool:
        """Whether these publishes, ``body_bytes`` in total, can be enqueued as a run without individual checks."""
        if (
            self._is_watched
            or not target.is_plain
            or target.generation != self.turn.generation
            or self.transaction is not None
            or not target.queues
            or (target.tracer is not None and len(target.queues) > 1)  # it reports all copies of a message together
        ):
            return False
        memory_bytes = count * (MESSAGE_COST + len(self.properties.raw)) + body_bytes
        for queue in target.queues:
            if not admits_run(queue, memory_bytes):
                return False
        return True

    def _needs_care(self) -> bool:
        """Whether these properties need checks or changes."""
        properties = self.properties
        flags = properties.flags
        if flags & (EXPIRATION | USER_ID):
            return True
        if flags & REPLY_TO and properties.reply_to == DIRECT_REPLY:
            return True
        if flags & HEADERS == 0:
            return False
        if properties.header_at(b"CC") > 0 or properties.header_at(b"BCC") > 0:
            return True
        if self.origin.forgets_deaths and properties.header_at(b"x-death") > 0:
            return True
        # A delay alone takes a shorter path.
        self._delay_ms = plain_delay(properties)
        return self._delay_ms > 0 or is_timed(properties)

    def _may_delay(self, target: Target) -> bool:
        """Whether a publish can be delayed without further checks."""
        return (
            target.is_plain
            and self.transaction is None
            and self.bits & MANDATORY == 0
            and self.vhost.tracer is None
            and target.exchange.deduplication is None
            and target.exchange.schema is None
            and self.turn.now_ms + self._delay_ms <= LATEST_MS
        )

    def _publish_delayed(self, target: Target, body: bytes) -> None:
        properties = self.properties
        number = 0
        if properties.persistent and self.journal is not None:
            number = self.journal.number
        due_ms = self.turn.now_ms + self._delay_ms
        raw = negated(properties)
        delays = self.vhost.delays
        delays.add(self.address, raw, body, properties.persistent, properties.priority, due_ms)
        self.origin.count(target, 1, 0, 1 if self.confirms is not None else 0)
        self._published(True, number, 1)

    def _find_target(self) -> Target:
        """Find the target of the current address, if the cache has none or an outdated one."""
        self._target = None
        if self.bits & IMMEDIATE:
            raise not_implemented("immediate=true")
        target = find_target(self.origin, self.address, self.properties)
        self.connection.stall_if_long()
        if target.is_reply:
            return target  # the requester may disconnect at any time
        if self._targets_generation != target.generation:
            # All cached targets are outdated, and would keep deleted queues and exchanges alive.
            self._targets.clear()
            self._targets_generation = target.generation
        if len(self._targets) >= max(FEW_TARGETS, TARGETS_KEPT // len(self.connection.channels)):
            self._targets.clear()
        self._targets[self.address] = target
        self._target = target
        return target

    # The path with checks

    def _publish_carefully(self, target: Target, body: bytes) -> None:
        mandatory = self.bits & MANDATORY != 0
        reply_name = None if self.reply_consumer is None else self.reply_consumer.name
        publication = check(self.origin, target, self.address, self.properties, body, mandatory, reply_name)
        if self.transaction is not None and not target.is_reply:  # parity: a direct reply does not wait for the commit
            self.transaction.add(publication, self.connection.settings.max_transaction_size)
            if self.turn.alarmed:
                self.connection.block()
            return
        number = 0
        if self.journal is not None and publication.is_stored():
            number = self.journal.number
        self._published(self.deposit(publication), number, 1)

    def deposit(self, publication: Publication) -> bool:
        """Enqueue a checked publish, and return it to the client if unroutable. False if a queue refused it."""
        accepted = publication.deposit(self.origin, self.confirms is not None)
        if self.confirms is not None:
            self._tracer = publication.tracer
            self._traced_size = len(publication.body)
        if publication.mandatory and publication.is_unroutable():
            self._return(publication.address, publication.properties, publication.body)
        return accepted

    # Returns and confirms

    def _return(self, address: bytes, properties: bytes, body: bytes) -> None:
        self.outlet.put_return(self.number, NO_ROUTE, NO_ROUTE_TEXT, address, properties, body, self.outlet.payload_max)
        self.outlet.mark()

    def _published(self, accepted: bool, number: int, count: int) -> None:
        """Confirm ``count`` publishes. ``number`` is the commit that makes them safe; 0: no need to wait."""
        if self.confirms is not None:
            is_due = self.confirms.accept(number, count) if accepted else self.confirms.refuse()
            if self._tracer is not None:
                self._note_confirm(accepted, number)
            if not is_due:
                if not self._is_awaiting and self.confirms.is_waiting:
                    self._is_awaiting = True
                    self.connection.await_commit()
            elif not self._answers_due:
                self._answers_due = True
                self.connection.answer_later(self)
        if self.turn.alarmed:
            self.connection.block()

    def _note_confirm(self, accepted: bool, number: int) -> None:
        if self._tracer is not None:
            raw, priority = self.properties.raw, self.properties.priority
            self._tracer.confirmed(self.address, raw, priority, self._traced_size, number, accepted)
            self._tracer = None

    def committed(self, number: int) -> bool:
        """Note that commit ``number`` is done. True if no confirm waits for a later one."""
        if self.confirms is None:
            return True
        if self.confirms.commit(number) and not self._answers_due:
            self._answers_due = True
            self.connection.answer_later(self)
        self._is_awaiting = self.confirms.is_waiting
        return not self._is_awaiting

    def commit_failed(self) -> None:
        """Refuse publishes that wait for a commit: they may still be stored, but that is not certain."""
        self._is_awaiting = False
        if self.confirms is not None and self.confirms.fail() and not self._answers_due:
            self._answers_due = True
            self.connection.answer_later(self)

    def write_answers(self) -> None:
        """Write the confirms that are due. Called once per flush, after the returns, which must come first."""
        self._answers_due = False
        if self.confirms is not None and self.is_open:
            before = self.confirms.confirmed
            self.confirms.write(self.number, self.outlet)
            self.counters.confirm += self.confirms.confirmed - before
            self.totals.confirm += self.confirms.confirmed - before
