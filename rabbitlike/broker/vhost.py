"""A virtual host: its exchanges, queues and bindings, and the operations that change them.

Error texts are RabbitMQ's, word for word. The session checks permissions first. `generation` increases with every
change that could alter a route. Each binding is in two indexes, by source (in the exchange) and by destination (here),
so that no operation scans unrelated bindings.
"""

from __future__ import annotations

from functools import partial
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.accounts.limits import MAX_QUEUES, NO_LIMITS, Limits, is_reached
from rabbitlike.broker.bindings import Binding
from rabbitlike.broker.budget import STEPS_PER_CALL
from rabbitlike.broker.delays.delays import Delays
from rabbitlike.broker.exchanges import KINDS, DefaultExchange, Exchange
from rabbitlike.broker.exchanges.unknown import unknown_kind
from rabbitlike.broker.message import Message, make_again, routing_key_of
from rabbitlike.broker.policies.policies import Policies, effective_definition
from rabbitlike.broker.publishing import router
from rabbitlike.broker.publishing.deduplication import read_rules, remembering, seen_by
from rabbitlike.broker.queue_settings.arguments import (
    check_equivalent,
    check_exchange,
    check_server_named,
    parse,
    with_queue_type,
)
from rabbitlike.broker.queue_settings.numbers import with_numbers
from rabbitlike.broker.queue_settings.settings import QueueSettings, QueueType, bounded, plain_settings
from rabbitlike.broker.queue_settings.table import exchange_values
from rabbitlike.broker.queues.dead_letters.dead_letter_queue import declare_dead_letter_queue
from rabbitlike.broker.queues.dead_letters.x_death import original_keys
from rabbitlike.broker.queues.deposit import deposit_copies
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.queues.storage.log import Log
from rabbitlike.broker.schemas.schema import read_schema
from rabbitlike.broker.statistics.counters import Counters, Timing
from rabbitlike.broker.tracing.firehose import EXCHANGE as TRACE_EXCHANGE
from rabbitlike.broker.tracing.firehose import Firehose
from rabbitlike.broker.tracing.tracer import Tracer
from rabbitlike.protocol.errors import AmqpError, access_refused, not_found, precondition_failed, resource_locked
from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Table

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rabbitlike.broker.broker import Broker, Requester
    from rabbitlike.broker.exchanges.exchange import Destination
    from rabbitlike.broker.ports import Owner

RESERVED: Final = "amq."
SERVER_NAMED: Final = "amq.gen-"

#: Exchanges of a new vhost besides the default exchange: name, type, whether internal.
PREDECLARED: Final = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    (TRACE_EXCHANGE, "topic", True),
)


class Vhost:
    """One vhost of a broker. Queues and exchanges are in plain dicts by name, which only the vhost's methods change."""

    __slots__ = (
        "_incoming",
        "_owned",
        "broker",
        "counters",
        "default_queue_type",
        "delays",
        "description",
        "exchanges",
        "firehose",
        "generation",
        "is_protected",
        "is_traced",
        "limits",
        "name",
        "policies",
        "processing_time",
        "queues",
        "recv_oct",
        "replies",
        "send_oct",
        "tags",
        "tracer",
        "wait_time",
    )

    def __init__(self, name: str, broker: Broker) -> None:
        self.name = name
        self.broker = broker
        #: Incremented by each change of exchanges, queues or bindings; a route is valid while it is unchanged.
        self.generation = 0
        #: Counts of all channels, including closed ones.
        self.counters = Counters(broker.turn.now_ms)
        self.recv_oct = 0
        self.send_oct = 0
        #: Timings of deleted queues.
        self.wait_time = Timing()
        self.processing_time = Timing()
        self.description = ""
        self.tags: tuple[str, ...] = ()
        #: Type of queues declared without x-queue-type; None: classic.
        self.default_queue_type: QueueType | None = None
        #: The vhost cannot be deleted while this is set.
        self.is_protected = False
        self.is_traced = False
        #: Set while the vhost is traced.
        self.firehose: Firehose | None = None
        #: Tracer of publishes for the event log; set while any publish is logged.
        self.tracer: Tracer | None = None
        self.limits: Limits = NO_LIMITS
        self.policies = Policies(self)
        self.delays = Delays(self)
        self.queues: dict[str, Queue] = {}
        self.exchanges: dict[str, Exchange] = {"": DefaultExchange(name, self.queues)}
        for exchange, kind, internal in PREDECLARED:
            self.exchanges[exchange] = KINDS[kind](
                exchange, name, durable=True, auto_delete=False, internal=internal, arguments=Table()
            )
        #: Clients waiting for direct replies, by address. An address is valid only in this vhost.
        self.replies: dict[str, Requester] = {}
        #: Bindings by destination.
        self._incoming: dict[Destination, dict[Binding, None]] = {}
        #: Exclusive queues by their owner.
        self._owned: dict[Owner, dict[Queue, None]] = {}
        self.retrace()

    def __repr__(self) -> str:
        return f"<vhost {self.name!r}: {len(self.queues)} queues, {len(self.exchanges)} exchanges>"

    def renew_routes(self) -> None:
        """Invalidate all cached routes."""
        self.generation += 1
        # Publishers compare their cached targets with the generation of the turn, which they can reach directly.
        self.broker.turn.renew()

    # Looking up

    def exchange(self, name: str) -> Exchange:
        """The exchange. Raises 404."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise not_found(f"no exchange '{name}' in vhost '{self.name}'")
        return exchange

    def publish_target(self, name: str) -> Exchange:
        """The exchange to publish to. Raises 404 if it does not exist, 403 if it is internal."""
        exchange = self.exchange(name)
        if exchange.internal:
            raise access_refused(f"cannot publish to internal {exchange}")
        return exchange

    def queue(self, name: str, owner: object | None = None) -> Queue:
        """The queue. Raises 404, or 405 if it is exclusive to an owner other than `owner`."""
        queue = self.queues.get(name)
        if queue is None:
            raise not_found(f"no queue '{name}' in vhost '{self.name}'")
        if queue.owner is not None and queue.owner is not owner:
            raise self._locked(queue)
        return queue

    def bindings_to(self, destination: Destination) -> Collection[Binding]:
        """The bindings to a queue or exchange, oldest first, without the default exchange's."""
        return self._incoming.get(destination, {}).keys()

    def route(
        self, exchange: Exchange, keys: Sequence[str], properties: Properties, message: Message | None = None
    ) -> list[Queue]:
        """The queues for a message published to this exchange; see router.route."""
        return router.route(exchange, keys, properties, self.exchanges, message)

    def deposit(self, queues: list[Queue], message: Message) -> list[Queue]:
        """Enqueue a copy of a message in each of these queues and return the queues that refused it. For parts of a
        queue, which cannot import `deposit_copies` because it imports queues."""
        return deposit_copies(queues, message)

    # Exchanges

    def declare_exchange(
        self,
        name: str,
        kind: str,
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> Exchange:
        name = plain_name(name)
        if passive:
            refuse_default(name)
            return self.exchange(name)
        cls = KINDS.get(kind)
        if cls is None:
            raise unknown_kind(kind)
        refuse_default(name)
        arguments = Table() if arguments is None else with_numbers(arguments)
        known = self.exchanges.get(name)
        if known is not None:
            known.check_equivalent(
                kind=kind, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
            )
            return known
        if name.startswith(RESERVED):
            raise access_refused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        exchange = cls(
            name, self.name, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
        )
        exchange.check_arguments()
        check_exchange(arguments, str(exchange))
        self.policies.apply_to_exchange(exchange)
        self.equip_exchange(exchange)
        self.exchanges[name] = exchange
        self.broker.topology.add_exchange(exchange)
        self.renew_routes()
        return exchange

    def equip_exchange(self, exchange: Exchange) -> None:
        """Apply an exchange's arguments and policies beyond routing: its schema and deduplication."""
        values = exchange_values(exchange.arguments, effective_definition(exchange), exchange.kind)
        exchange.schema = read_schema(values)
        exchange.deduplication = remembering(
            exchange.deduplication,
            read_rules(values),
            seen_by(exchange),
            self.broker.turn,
            self.broker.journal,
            exchange.durable,
        )

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange; does nothing if it does not exist."""
        name = plain_name(name)
        refuse_default(name)
        if name.startswith(RESERVED):
            raise access_refused(f"deletion of system exchange '{name}' in vhost '{self.name}' not allowed")
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.is_used:
            raise precondition_failed(f"{exchange} in use")
        self._remove_exchanges([exchange])

    # Queues

    def declare_queue(
        self,
        name: str,
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table | None = None,
        owner: Owner | None = None,
    ) -> Queue:
        """The queue with this name, created if necessary. `owner`: the connection that declares it, and that owns an
        exclusive queue."""
        self.broker.churn.queues_declared += 1
        name = plain_name(name)
        if passive:
            queue = self.queue(name, owner)
            queue.queue_ttl.renew()
            return queue
        arguments = Table() if arguments is None else with_numbers(arguments)
        if self.default_queue_type is not None and "x-queue-type" not in arguments:
            is_lasting = durable and not exclusive and not auto_delete
            arguments = with_queue_type(arguments, self.default_queue_type if is_lasting else "classic")
        # parity: an exclusive queue cannot outlive its connection, so it is never durable.
        durable = durable and not exclusive
        holder = owner if exclusive else None
        if not name:
            check_server_named(arguments)
            name = SERVER_NAMED + token_urlsafe(16)
        elif name.startswith(RESERVED):
            raise access_refused(f"queue name '{name}' contains reserved prefix 'amq.*'")
        known = self.queues.get(name)
        if known is not None:
            if known.owner is not holder:
                raise self._locked(known)
            check_equivalent(known, durable=durable, auto_delete=auto_delete, arguments=arguments)
            known.queue_ttl.renew()
        queue = known or self._create_queue(name, durable, auto_delete, holder, arguments)
        if "x-dead-letter-auto" in arguments and holder is None:
            declare_dead_letter_queue(queue)
        return queue

    def _create_queue(
        self, name: str, durable: bool, auto_delete: bool, holder: Owner | None, arguments: Table
    ) -> Queue:
        if is_reached(self.limits, MAX_QUEUES, len(self.queues)):
            most = self.limits[MAX_QUEUES]
            raise precondition_failed(
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({most}) is reached"
            )
        settings = parse(
            arguments,
            queue=name,
            vhost=self.name,
            durable=durable,
            exclusive=holder is not None,
            auto_delete=auto_delete,
            levels=self._default_levels,
        )
        log = self.broker.make_log(settings, is_durable=True) if durable else None
        queue = self._add_queue(name, durable, auto_delete, holder, arguments, settings, log)
        self.broker.topology.add_queue(queue)
        self.broker.churn.queues_created += 1
        return queue

    def add_dead_letter_queue(self, name: str) -> Queue:
        """Create a queue for the dead letters of another queue. No client declares it, so limits and reserved names do
        not apply."""
        settings = plain_settings(self._default_levels)
        log = self.broker.make_log(settings, is_durable=True)
        queue = self._add_queue(name, True, False, None, Table(), settings, log)
        self.broker.topology.add_queue(queue)
        self.broker.churn.queues_created += 1
        return queue

    @property
    def _default_levels(self) -> int:
        """Number of levels of a new queue declared without priorities."""
        return self.broker.settings.default_max_priority + 1

    def restore_queue(
        self, name: str, auto_delete: bool, arguments: Table, queue_id: int, *, levels: int, is_paused: bool
    ) -> None:
        """Restore a durable queue after a restart. Its messages are recovered by the number of its log."""
        settings = parse(
            arguments,
            queue=name,
            vhost=self.name,
            durable=True,
            exclusive=False,
            auto_delete=auto_delete,
            levels=levels,
        )
        log = self.broker.make_log(settings, is_durable=True, queue_id=queue_id)
        queue = self._add_queue(name, True, auto_delete, None, arguments, settings, log)
        if is_paused:
            queue.pause()

    def _add_queue(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        holder: Owner | None,
        arguments: Table,
        settings: QueueSettings,
        log: Log | None,
    ) -> Queue:
        policies = self.policies.match(settings.queue_type, name)
        if policies != (None, None):
            settings = self.policies.settings(arguments, settings.queue_type, settings.levels, *policies)
        settings = bounded(settings, arguments, self.broker.settings.default_max_length)
        queue = Queue(
            name,
            self,
            durable=durable,
            auto_delete=auto_delete,
            owner=holder,
            arguments=arguments,
            settings=settings,
            log=log,
        )
        queue.policy, queue.operator_policy = policies
        self.queues[name] = queue
        self.retrace_queue(queue)
        if holder is not None:
            self._owned.setdefault(holder, {})[queue] = None
        self.renew_routes()
        return queue

    def pause_queue(self, queue: Queue) -> None:
        """Stop deliveries from a queue; a durable queue stays paused after a restart."""
        queue.pause()
        self.broker.topology.add_queue(queue)

    def resume_queue(self, queue: Queue) -> None:
        queue.resume()
        self.broker.topology.add_queue(queue)

    def delete_queue(self, queue: Queue, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue. Returns its number of messages, ready or awaiting a retry; 0 if it was deleted already."""
        if self.queues.get(queue.name) is not queue:
            return 0
        count = queue.message_count + queue.awaiting_retry_count
        if if_empty and (count or queue.held_dead_letter_count):
            raise precondition_failed(f"queue '{queue.name}' in vhost '{self.name}' not empty")
        if if_unused and queue.consumer_count:
            raise precondition_failed(f"queue '{queue.name}' in vhost '{self.name}' in use")
        del self.queues[queue.name]
        self.broker.topology.remove_queue(queue)
        self.broker.churn.queues_deleted += 1
        if queue.owner is not None:
            self._disown(queue)
        self.renew_routes()
        if queue in self._incoming:
            bindings = list(self._incoming.pop(queue))
            bindings.reverse()
            self.broker.turn.run(partial(self._release_some, bindings))
        self.wait_time.take_over(queue.wait_time)
        self.processing_time.take_over(queue.processing_time)
        # Last: its consumers are notified and may declare this queue again.
        queue.delete()
        return count

    def detach(self) -> None:
        """Drop references to a deleted vhost, so that reference counting frees it."""
        self.firehose = self.tracer = None
        self.policies.forget()

    def remove_owner(self, owner: Owner) -> bool:
        """Delete the exclusive queues of a closed connection. True: the turn has no time for all of them."""
        owned = self._owned.get(owner, {})
        while owned:
            queue = next(iter(owned))
            self.delete_queue(queue)
            owned.pop(queue, None)
            if owned and self.broker.turn.is_spent(STEPS_PER_CALL):
                return True
        return False

    def _disown(self, queue: Queue) -> None:
        assert queue.owner is not None
        owned = self._owned[queue.owner]
        del owned[queue]
        if not owned:
            del self._owned[queue.owner]

    def _locked(self, queue: Queue) -> AmqpError:
        return resource_locked(
            f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost '{self.name}'. "
            "It could be originally declared on another connection or the exclusive property value does not match "
            "that of the original declaration."
        )

    # Bindings

    def bind(self, source: str, destination: Destination, routing_key: str, arguments: Table | None = None) -> None:
        """Bind; does nothing if the binding exists."""
        source = plain_name(source)
        refuse_default(source)
        if isinstance(destination, Exchange):
            refuse_default(destination.name)
        exchange = self.exchange(source)
        binding = Binding(source, destination, routing_key, Table() if arguments is None else arguments)
        exchange.check_binding(binding)
        if not exchange.add(binding):
            return
        self._incoming.setdefault(destination, {})[binding] = None
        self.broker.topology.add_binding(self.name, exchange, binding)
        self.renew_routes()
        exchange.bound(binding, self._replay)

    def is_bound(self, source: str, destination: Destination, routing_key: str, arguments: Table) -> bool:
        exchange = self.exchanges.get(source)
        return exchange is not None and exchange.has(Binding(source, destination, routing_key, arguments))

    def unbind(
        self, source: str, destination: Destination | None, routing_key: str, arguments: Table | None = None
    ) -> None:
        """Unbind; does nothing if the binding or an end of it (None) does not exist."""
        source = plain_name(source)
        refuse_default(source)
        if isinstance(destination, Exchange):
            refuse_default(destination.name)
        exchange = self.exchanges.get(source)
        if exchange is None or destination is None:
            return
        binding = exchange.remove(
            Binding(source, destination, routing_key, Table() if arguments is None else arguments)
        )
        if binding is None:
            return
        self._forget(binding)
        self.renew_routes()
        if exchange.auto_delete and not exchange.is_used:
            self._remove_exchanges([exchange])

    def _forget(self, binding: Binding) -> None:
        """Remove a binding that its source has dropped from the index by destination and from the store."""
        self.broker.topology.remove_binding(self.name, self.exchanges[binding.source], binding)
        incoming = self._incoming.get(binding.destination)
        if incoming is not None:
            del incoming[binding]
            if not incoming:
                del self._incoming[binding.destination]

    def _release_some(self, bindings: list[Binding]) -> bool:
        """Remove bindings to a deleted queue, from the end of the list. True: the turn has no time for all of them.
        Nothing is routed to the queue meanwhile (`router.route`)."""
        while bindings:
            binding = bindings.pop()
            source = self.exchanges.get(binding.source)
            if source is not None and source.remove(binding) is not None:
                if not self._is_bound_again(source, binding):
                    self.broker.topology.remove_binding(self.name, source, binding)
                if source.auto_delete and not source.is_used:
                    self._remove_exchanges([source])
            if self.broker.turn.is_spent():
                return bool(bindings)
        return False

    def _is_bound_again(self, source: Exchange, binding: Binding) -> bool:
        """Whether a new queue with the same name has the same binding, which then owns the record."""
        queue = self.queues.get(binding.destination.name)
        return queue is not None and source.has(Binding(binding.source, queue, binding.routing_key, binding.arguments))

    def _release(self, destination: Destination) -> list[Exchange]:
        """Remove all bindings to a destination and return the auto-delete exchanges that lost their last binding."""
        idle: list[Exchange] = []
        for binding in self._incoming.pop(destination, ()):
            source = self.exchanges[binding.source]
            source.remove(binding)
            self.broker.topology.remove_binding(self.name, source, binding)
            if source.auto_delete and not source.is_used:
                idle.append(source)
        return idle

    def _remove_exchanges(self, doomed: list[Exchange]) -> None:
        """Remove exchanges, and recursively the auto-delete exchanges that lose their last binding."""
        for exchange in doomed:
            for binding in list(exchange.bindings):
                exchange.remove(binding)
                self._forget(binding)
            doomed += self._release(exchange)
            del self.exchanges[exchange.name]
            if exchange.deduplication is not None:
                exchange.deduplication.forget()
            self.broker.topology.remove_exchange(exchange)
            self.renew_routes()

    def drop_binding(self, source: Exchange, binding: Binding) -> None:
        """Remove a binding while the vhost is being deleted."""
        source.remove(binding)
        self.broker.topology.remove_binding(self.name, source, binding)
        incoming = self._incoming.get(binding.destination)
        if incoming is not None:
            incoming.pop(binding, None)

    def drop_exchange(self, exchange: Exchange) -> None:
        """Remove an exchange without bindings while the vhost is being deleted. It can still be found by name, for
        messages in transit."""
        self._incoming.pop(exchange, None)
        if exchange.deduplication is not None:
            exchange.deduplication.forget()
        self.broker.topology.remove_exchange(exchange)

    def _replay(self, destination: Destination, message: Message) -> None:
        """Deliver an earlier message to a newly bound destination."""
        queues = [destination] if isinstance(destination, Queue) else []
        if isinstance(destination, Exchange):
            properties = Properties(message.properties)
            keys = original_keys(routing_key_of(message.address), properties)
            queues = self.route(destination, keys, properties, message)
        self.deposit(queues, make_again(message, message.address, self.broker.turn.now_ms))

    # Tracing

    def retrace(self) -> None:
        """Apply a change of tracing to all queues and publishers."""
        self.firehose = Firehose(self) if self.is_traced else None
        self.tracer = self._make_tracer("", True) if self.broker.settings.event_log else None
        for queue in self.queues.values():
            self.retrace_queue(queue)
        self.renew_routes()

    def retrace_queue(self, queue: Queue) -> None:
        """`retrace` for one queue."""
        trace = queue.settings.trace
        is_logged = self.broker.settings.event_log if trace is None else trace
        tracer = self._make_tracer(queue.name, is_logged)
        if tracer is None and queue.tracer is None:
            return
        queue.tracer = tracer
        if is_logged and self.tracer is None:
            self.tracer = self._make_tracer("", True)
        self.renew_routes()

    def _make_tracer(self, queue: str, is_logged: bool) -> Tracer | None:
        if self.firehose is None and not is_logged:
            return None
        events = self.broker.events if is_logged else None
        return Tracer(self.name, queue, self.broker.turn, events, self.firehose)

    def tracer_of(self, queues: Sequence[Queue]) -> Tracer | None:
        """The tracer for a publish to these queues. If only some queues are traced: None unless one of these is."""
        if self.tracer is None or self.broker.settings.event_log:
            return self.tracer
        for queue in queues:
            if queue.is_logged:
                return self.tracer
        return None


def plain_name(name: str) -> str:
    """The effective name. parity: line ends are removed."""
    if "\n" in name or "\r" in name:
        return name.replace("\n", "").replace("\r", "")
    return name


def refuse_default(name: str) -> None:
    """Raise 403 for the default exchange, which cannot be declared, deleted, bound or unbound."""
    if not name:
        raise access_refused("operation not permitted on the default exchange")
