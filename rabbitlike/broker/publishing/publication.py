"""A publish, from its checks to its queues: for channels, and for the HTTP API, which publishes without one.

`find_target` makes the checks that depend on the address alone, `check` all others, in RabbitMQ's order. A failed check
raises AmqpError; the publish then reaches no queue. `check` returns a `Publication` with its queues, and
`Publication.deposit` enqueues it there and counts it. For a publish that `check` would not change, the publisher can
skip both: it enqueues it in the queues of its `Target`, and its `Origin` counts it.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from rabbitlike.broker.delays.times import is_timed, read_due
from rabbitlike.broker.message import exchange_of, make_message, routing_key_of
from rabbitlike.broker.publishing.copies import take_copies
from rabbitlike.broker.publishing.reply_names import DIRECT_REPLY, REPLIES
from rabbitlike.broker.publishing.router import cacheable
from rabbitlike.broker.queues.dead_letters.dead_lettering import dead_letter
from rabbitlike.broker.queues.dead_letters.x_death import Reason, forget_client_deaths
from rabbitlike.broker.queues.deposit import deposit, inlets_of
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.schemas.validation import is_validated, validate
from rabbitlike.broker.statistics.counters import Counters
from rabbitlike.broker.statistics.pairs import is_exchange_gone, make_pair
from rabbitlike.broker.tracing.tracer import Tracer
from rabbitlike.broker.turn import Turn
from rabbitlike.protocol.constants import REPLY_TO
from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from rabbitlike.broker.accounts.users import User
    from rabbitlike.broker.broker import Requester
    from rabbitlike.broker.delays.delays import Delays
    from rabbitlike.broker.exchanges.exchange import Exchange
    from rabbitlike.broker.ports import ClientName
    from rabbitlike.broker.publishing.deduplication import Deduplication
    from rabbitlike.broker.vhost import Vhost


class Origin:
    """A publisher: its permissions, its name in traces, and its counters besides the exchange's."""

    __slots__ = ("client", "counters", "forgets_deaths", "publishes", "totals", "turn", "user", "vhost")

    def __init__(self, vhost: "Vhost", user: "User", client: "ClientName", counters: Counters) -> None:
        self.vhost = vhost
        self.turn: Turn = vhost.broker.turn
        self.user = user
        self.client = client
        #: Its own counters, and those of the vhost.
        self.counters = counters
        self.totals: Counters = vhost.counters
        #: Its own counters by exchange.
        self.publishes: dict[Exchange, Counters] = {}
        #: parity: RabbitMQ 4 resets x-death when a client publishes; 3.x continues to count.
        self.forgets_deaths = not vhost.broker.settings.trust_client_x_death

    def pair_to(self, exchange: "Exchange") -> Counters:
        """The counters of this publisher for an exchange."""
        return self.publishes.get(exchange) or make_pair(
            self.publishes, exchange, self.turn.now_ms, partial(is_exchange_gone, self.vhost)
        )

    def count(self, target: "Target", count: int, copies: int, confirmed: int) -> None:
        """Count `count` publishes to this target, each to `copies` queues; `confirmed` of them will be confirmed."""
        own, exchange, pair = self.counters, target.counters, target.pair
        own.publish += count
        own.active_at_ms = self.turn.now_ms
        self.totals.publish += count
        exchange.publish_in += count
        exchange.publish_out += count * copies
        pair.publish += count
        # Counted before the confirm is sent, because a confirm no longer knows its exchange.
        pair.confirm += confirmed

    def count_unroutable(self, target: "Target", mandatory: bool) -> None:
        """Count a publish that reached no queue: returned if mandatory, else dropped."""
        if mandatory:
            target.pair.return_unroutable += 1
            self.counters.return_unroutable += 1
            self.totals.return_unroutable += 1
        else:
            target.pair.drop_unroutable += 1
            self.counters.drop_unroutable += 1
            self.totals.drop_unroutable += 1


class Target:
    """The exchange, queues and results of checks for one address and origin, which the publisher caches, so that a
    publish to a known address needs no lookups. Valid while the turn's generation equals `generation`."""

    __slots__ = (
        "counters",
        "exchange",
        "generation",
        "inlets",
        "is_plain",
        "is_reply",
        "is_stored",
        "is_topic_checked",
        "pair",
        "queues",
        "reply",
        "routing_key",
        "tracer",
    )

    def __init__(self, exchange: "Exchange", routing_key: str, pair: Counters, generation: int) -> None:
        self.exchange = exchange
        self.counters = exchange.counters
        self.routing_key = routing_key
        #: Counters of the origin and the exchange as a pair; `inlets`: of the exchange and each queue.
        self.pair = pair
        self.generation = generation
        self.inlets: list[Counters] = []
        #: The queues do not depend on a message's properties, and the message needs no inspection.
        self.is_plain = False
        self.queues: list[Queue] = []
        #: At least one of the queues stores persistent messages.
        self.is_stored = False
        #: A direct reply, and the requester that receives it if it still exists.
        self.is_reply = False
        self.reply: Requester | None = None
        #: The user's permission for this exchange depends on the routing key.
        self.is_topic_checked = False
        #: The tracer for publishes.
        self.tracer: Tracer | None = None


def find_target(origin: Origin, address: bytes, properties: Properties) -> Target:
    """Look up exchange and queues. Raises 403 if the user may not publish there, 404 if the exchange does not exist."""
    vhost, user = origin.vhost, origin.user
    exchange_name = exchange_of(address)
    routing_key = routing_key_of(address)
    permissions = vhost.broker.permissions
    permissions.check(user.name, vhost.name, "write", "exchange", exchange_name)
    exchange = vhost.publish_target(exchange_name)
    target = Target(exchange, routing_key, origin.pair_to(exchange), origin.turn.generation)
    if exchange_name == "" and routing_key.startswith(REPLIES):
        target.is_reply = True
        target.reply = vhost.replies.get(routing_key)
    elif exchange.kind == "topic" and permissions.has_topic(user.name, vhost.name, exchange_name):
        target.is_topic_checked = True
    elif cacheable(exchange, vhost.exchanges):
        target.queues = vhost.route(exchange, (routing_key,), properties)
        target.is_stored = is_any_durable(target.queues)
        target.inlets = inlets_of(target.queues, exchange)
        # The firehose needs the complete publish, which only `check` passes to it.
        target.is_plain = (
            vhost.firehose is None and exchange.deduplication is None and not is_validated(exchange, target.queues)
        )
        target.tracer = vhost.tracer_of(target.queues)
    return target


def is_any_durable(queues: list[Queue]) -> bool:
    """Whether any of these queues is durable."""
    for queue in queues:
        if queue.durable:
            return True
    return False


class Publication:
    """One publish that passed its checks."""

    __slots__ = (
        "address",
        "body",
        "copies",
        "dead_lettering_queues",
        "deduplication",
        "delays",
        "due_ms",
        "expiration_ms",
        "is_dropped",
        "is_promised",
        "mandatory",
        "persistent",
        "priority",
        "properties",
        "queues",
        "refusal",
        "target",
        "tracer",
    )

    def __init__(
        self,
        target: Target,
        queues: list[Queue],
        address: bytes,
        properties: Properties,
        body: bytes,
        expiration_ms: int,
        mandatory: bool,
    ) -> None:
        self.target = target
        self.queues = queues
        self.address = address
        self.properties: bytes = properties.raw
        self.body = body
        self.persistent = properties.persistent
        self.priority = properties.priority
        #: -1: it has no expiration.
        self.expiration_ms = expiration_ms
        self.mandatory = mandatory
        #: When to route it, and the delays that keep it until then; 0: it is routed already.
        self.due_ms = 0
        self.delays: Delays | None = None
        #: The exchange's deduplication, and whether the publish is dropped: as a duplicate, or because its schemas
        #: allow no queue.
        self.deduplication: Deduplication | None = target.exchange.deduplication
        self.is_dropped = False
        #: Its queues have reserved room for it.
        self.is_promised = False
        #: Queues that dead-letter it at once, and the reason if the publisher gets a nack.
        self.dead_lettering_queues: list[Queue] = []
        self.refusal = ""
        #: After `deposit`: the number of queues that got it, and the tracer.
        self.copies = 0
        self.tracer: Tracer | None = None

    def delay(self, due_ms: int, properties: bytes, delays: "Delays") -> None:
        """Delay it: it is routed later, with these properties. Its current queues are dropped."""
        self.due_ms = due_ms
        self.properties = properties
        self.delays = delays
        self.queues = []

    def divert(self, queues: list[Queue], dead_lettering_queues: list[Queue], refusal: str) -> None:
        """Replace its queues, because it does not conform to a schema: `dead_lettering_queues` dead-letter it."""
        self.queues = queues
        self.dead_lettering_queues = dead_lettering_queues
        self.refusal = refusal
        self.is_dropped = not queues

    def look_up(self, queues: Mapping[str, Queue]) -> None:
        """Replace queues that were deleted since it was routed by the current queues of the same names."""
        for queue in self.queues:
            if queue.deleted:
                self.queues = [queues[queue.name] for queue in self.queues if queue.name in queues]
                break

    def is_stored(self) -> bool:
        """Whether the next commit will store it. Call this before `deposit`."""
        return self.persistent and (
            self.due_ms > 0 or is_any_durable(self.queues) or is_any_durable(self.dead_lettering_queues)
        )

    def is_unroutable(self) -> bool:
        """Whether no queue got it. Call this after `deposit`."""
        return self.copies == 0 and self.due_ms == 0 and not self.is_dropped

    def deposit(self, origin: Origin, is_confirmed: bool) -> bool:
        """Enqueue it in its queues and count it. False: one of them refused it."""
        target = self.target
        accepted = self._reply(target) if target.is_reply else self._deposit_new(origin)
        origin.count(target, 1, self.copies, 1 if accepted and is_confirmed else 0)
        if self.is_unroutable():
            origin.count_unroutable(target, self.mandatory)
        return accepted

    def _reply(self, target: Target) -> bool:
        requester = target.reply
        if requester is not None and requester.deliver(self.address, self.properties, self.body):
            self.copies = 1
        return True

    def _deposit_new(self, origin: Origin) -> bool:
        """Enqueue it unless it is a duplicate."""
        if origin.vhost.tracer is not None:
            self._tell(origin.vhost)
        now_ms = origin.turn.now_ms
        if self.deduplication is None:
            return self._deposit(now_ms)
        if self.deduplication.has(self.properties):
            if self.is_promised:
                for queue in self.queues:
                    queue.spare(1, len(self.body))
            self.is_dropped = True
            return True
        accepted = self._deposit(now_ms)
        if accepted and (self.queues or self.due_ms):
            self.deduplication.add(self.properties, self.persistent)
        return accepted

    def _deposit(self, now_ms: int) -> bool:
        address, properties, body = self.address, self.properties, self.body
        if self.delays is not None:
            self.delays.add(address, properties, body, self.persistent, self.priority, self.due_ms)
            return True
        target = self.target
        queues = self.queues
        inlets = target.inlets if queues is target.queues else inlets_of(queues, target.exchange)
        expires_at_ms = 0 if self.expiration_ms < 0 else now_ms + self.expiration_ms
        accepted = deposit(
            queues,
            inlets,
            address,
            properties,
            body,
            self.persistent,
            self.priority,
            now_ms,
            expires_at_ms,
            None,
            self.is_promised,
        )
        self.copies = len(queues)
        for queue in self.dead_lettering_queues:
            message = make_message(address, properties, body, self.persistent, self.priority, now_ms)
            dead_letter(queue, message, Reason.REJECTED, is_at_once=True)
        return accepted and not self.refusal

    def _tell(self, vhost: "Vhost") -> None:
        """Trace the publish, before it reaches its queues."""
        self.tracer = vhost.tracer_of(self.queues)
        if self.tracer is not None:
            size = len(self.body)
            is_delayed = self.due_ms != 0
            self.tracer.published(self.address, self.properties, self.priority, size, len(self.queues), is_delayed)


def check(
    origin: Origin,
    target: Target,
    address: bytes,
    properties: Properties,
    body: bytes,
    mandatory: bool,
    reply_name: str | None,
) -> Publication:
    """Check a publish to this target and find its queues. `reply_name`: the address of the origin's consumer of direct
    replies. parity: checks run in RabbitMQ's order, because clients see which one fails first."""
    vhost = origin.vhost
    exchange = target.exchange
    if properties.flags & REPLY_TO and properties.reply_to == DIRECT_REPLY:
        if reply_name is None:
            raise precondition_failed("fast reply consumer does not exist")
        properties = properties.replace(reply_to=reply_name)
    expiration_ms = properties.expiration_ms
    if origin.forgets_deaths:
        properties = forget_client_deaths(properties)
    given = properties
    keys, properties = take_copies(target.routing_key, properties)
    if target.is_topic_checked:
        # parity: RabbitMQ also checks CC and BCC keys since 4.0.3.
        for key in keys:
            vhost.broker.permissions.check_topic(origin.user.name, vhost.name, "write", exchange.name, key)
    _check_user_id(properties, origin.user)
    due_ms, delayed = 0, properties
    if is_timed(given) and not target.is_reply:
        due_ms, delayed = read_due(given, origin.turn.now_ms)  # keeps BCC, which is read again when it is due
        if due_ms and mandatory and not vhost.route(exchange, keys, properties):
            due_ms = 0  # returned at once, unchanged
    if due_ms or target.is_reply:
        queues = []
    elif target.is_plain and len(keys) == 1:
        queues = target.queues
    else:
        seen = make_message(
            address, properties.raw, body, properties.persistent, properties.priority, origin.turn.now_ms
        )
        queues = vhost.route(exchange, keys, properties, seen)
    if vhost.firehose is not None:
        vhost.firehose.published(address, keys, properties, body, queues, origin.client)
    publication = Publication(target, queues, address, properties, body, expiration_ms, mandatory)
    conforms = not is_validated(exchange, queues) or validate(publication, keys, properties, vhost)
    if due_ms and conforms:
        publication.delay(due_ms, delayed.raw, vhost.delays)
    return publication


def _check_user_id(properties: Properties, user: "User") -> None:
    """Raise 406 if the user_id property names another user."""
    claimed = properties.user_id
    if claimed is not None and claimed != user.name and "impersonator" not in user.tags:
        raise precondition_failed(f"user_id property set to '{claimed}' but authenticated user was '{user.name}'")
