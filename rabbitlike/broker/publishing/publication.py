"""A publish, from its checks to its queues: for channels, and for the HTTP API, which publishes without one.

`find_target` makes the checks that depend on the address alone, `check` all others, in RabbitMQ's order; what fails one
is refused by an AmqpError and has gone nowhere. What passes is a `Publication`, which knows its queues, and
`Publication.deposit` gives it to them and counts it. A publish that `check` would change nothing about need not come
here: its publisher gives it to the queues of its `Target` and has it counted by its `Origin`.
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
    """Who publishes: whose permissions count, whom traces name, and what is counted for it besides the exchange."""

    __slots__ = ("client", "counters", "forgets_deaths", "publishes", "totals", "turn", "user", "vhost")

    def __init__(self, vhost: "Vhost", user: "User", client: "ClientName", counters: Counters) -> None:
        self.vhost = vhost
        self.turn: Turn = vhost.broker.turn
        self.user = user
        self.client = client
        #: What it does, and the whole vhost.
        self.counters = counters
        self.totals: Counters = vhost.counters
        #: The first by the exchange published to.
        self.publishes: dict[Exchange, Counters] = {}
        #: parity: RabbitMQ 4 starts x-death anew when a client publishes; 3.x counts on.
        self.forgets_deaths = not vhost.broker.settings.trust_client_x_death

    def pair_to(self, exchange: "Exchange") -> Counters:
        """Where to count what is published to an exchange."""
        return self.publishes.get(exchange) or make_pair(
            self.publishes, exchange, self.turn.now_ms, partial(is_exchange_gone, self.vhost)
        )

    def count(self, target: "Target", count: int, copies: int, confirmed: int) -> None:
        """So many publishes to this target have each gone to so many queues; so many of them will be confirmed."""
        own, exchange, pair = self.counters, target.counters, target.pair
        own.publish += count
        own.active_at_ms = self.turn.now_ms
        self.totals.publish += count
        exchange.publish_in += count
        exchange.publish_out += count * copies
        pair.publish += count
        # Before the answer is out: by then nobody knows any more which of many exchanges it was for.
        pair.confirm += confirmed

    def count_unroutable(self, target: "Target", mandatory: bool) -> None:
        """No queue has got it: it is returned, or dropped."""
        if mandatory:
            target.pair.return_unroutable += 1
            self.counters.return_unroutable += 1
            self.totals.return_unroutable += 1
        else:
            target.pair.drop_unroutable += 1
            self.counters.drop_unroutable += 1
            self.totals.drop_unroutable += 1


class Target:
    """One address, as one origin publishes to it. It holds while topology and permissions are what they were:
    `generation` tells. So a publish to an address that the origin knows looks nothing up."""

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
        #: What the origin and the exchange count together, and what that and each queue do.
        self.pair = pair
        self.generation = generation
        self.inlets: list[Counters] = []
        #: The queues are the same for every message, whatever its properties, and nothing is to be looked at in it.
        self.is_plain = False
        self.queues: list[Queue] = []
        #: Persistent messages are stored by at least one of them.
        self.is_stored = False
        #: A direct reply, and the requester that it goes to if there still is one.
        self.is_reply = False
        self.reply: Requester | None = None
        #: The user's permission for this exchange depends on the routing key.
        self.is_topic_checked = False
        #: Who is told of publishes.
        self.tracer: Tracer | None = None


def find_target(origin: Origin, address: bytes, properties: Properties) -> Target:
    """Look up exchange and queues: 403 or 404 if the user may not publish there, or nobody can."""
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
        # The firehose sees all there is to see of a publish, which only `check` shows it.
        target.is_plain = (
            vhost.firehose is None and exchange.deduplication is None and not is_validated(exchange, target.queues)
        )
        target.tracer = vhost.tracer_of(target.queues)
    return target


def is_any_durable(queues: list[Queue]) -> bool:
    """Does any of them keep what is to outlive us?"""
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
        #: -1: it does not expire by itself.
        self.expiration_ms = expiration_ms
        self.mandatory = mandatory
        #: When it is to be routed, and who holds it until then; 0: it is routed already.
        self.due_ms = 0
        self.delays: Delays | None = None
        #: What its exchange has seen already, if that minds duplicates, and whether it is dropped, as one of them or
        #: as one that no queue may have.
        self.deduplication: Deduplication | None = target.exchange.deduplication
        self.is_dropped = False
        #: Its queues keep room for it.
        self.is_promised = False
        #: Queues that take it for a dead letter at once, and why the publisher is to hear that it was refused.
        self.dead_lettering_queues: list[Queue] = []
        self.refusal = ""
        #: Once it is deposited: how many have got it, and who was told.
        self.copies = 0
        self.tracer: Tracer | None = None

    def delay(self, due_ms: int, properties: bytes, delays: "Delays") -> None:
        """It is to be routed later, with these properties; the queues known now do not matter."""
        self.due_ms = due_ms
        self.properties = properties
        self.delays = delays
        self.queues = []

    def divert(self, queues: list[Queue], dead_lettering_queues: list[Queue], refusal: str) -> None:
        """It does not conform: only these get it, and these others as a dead letter."""
        self.queues = queues
        self.dead_lettering_queues = dead_lettering_queues
        self.refusal = refusal
        self.is_dropped = not queues

    def look_up(self, queues: Mapping[str, Queue]) -> None:
        """Time has passed since it was routed: it goes to what there is now under the names of its queues."""
        for queue in self.queues:
            if queue.deleted:
                self.queues = [queues[queue.name] for queue in self.queues if queue.name in queues]
                break

    def is_stored(self) -> bool:
        """Will it outlive the process, once the commit under way is done? To be asked before it is deposited."""
        return self.persistent and (
            self.due_ms > 0 or is_any_durable(self.queues) or is_any_durable(self.dead_lettering_queues)
        )

    def is_unroutable(self) -> bool:
        """It was deposited, and there was nobody to get it."""
        return self.copies == 0 and self.due_ms == 0 and not self.is_dropped

    def deposit(self, origin: Origin, is_confirmed: bool) -> bool:
        """Give it to its queues, and count it. False: one of them refused it."""
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
        """Unless it is a duplicate."""
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
        """Tell the event log that it is about to reach its queues."""
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
    """Check a publish to this target, and find its queues. `reply_name` is that of the origin's consumer of direct
    replies. parity: the order of these checks is RabbitMQ's; clients see which one speaks first."""
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
        # parity: RabbitMQ checks CC and BCC keys as well since 4.0.3.
        for key in keys:
            vhost.broker.permissions.check_topic(origin.user.name, vhost.name, "write", exchange.name, key)
    _check_user_id(properties, origin.user)
    due_ms, delayed = 0, properties
    if is_timed(given) and not target.is_reply:
        due_ms, delayed = read_due(given, origin.turn.now_ms)  # which still has its BCC, to be read again then
        if due_ms and mandatory and not vhost.route(exchange, keys, properties):
            due_ms = 0  # returned at once, as it is
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
    """406 when a publisher claims to be somebody else."""
    claimed = properties.user_id
    if claimed is not None and claimed != user.name and "impersonator" not in user.tags:
        raise precondition_failed(f"user_id property set to '{claimed}' but authenticated user was '{user.name}'")
