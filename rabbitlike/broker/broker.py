"""The broker: vhosts, users, permissions, alarms and the connections that use them.

No sockets, no loop, no disk of its own. Everything in it happens on one thread, in turns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Protocol

from rabbitlike.broker.accounts.limits import Usage, VhostLimits
from rabbitlike.broker.accounts.login_attempts import LoginAttempts
from rabbitlike.broker.accounts.login_failures import LoginFailures
from rabbitlike.broker.accounts.permissions import EVERYTHING, Permission, Permissions, TopicPermission
from rabbitlike.broker.accounts.users import ALGORITHMS, User, Users, checked_limits
from rabbitlike.broker.alarms import Alarms
from rabbitlike.broker.credit import Credit
from rabbitlike.broker.journal import Journal
from rabbitlike.broker.message import Message
from rabbitlike.broker.policies.parameters import Parameter, Parameters
from rabbitlike.broker.publishing.deduplication import Deduplication, seen_by
from rabbitlike.broker.queue_settings.arguments import queue_type_named
from rabbitlike.broker.queue_settings.settings import QueueSettings
from rabbitlike.broker.queues.dead_letters.x_death import DeadLetterOutcome, Reason
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.queues.storage.log import Log
from rabbitlike.broker.statistics.commits import Commits
from rabbitlike.broker.statistics.counters import Churn, Counters, Sizes
from rabbitlike.broker.terms import Json
from rabbitlike.broker.topology import Topology, delays_of, restore
from rabbitlike.broker.tracing.events import Events
from rabbitlike.broker.turn import Turn
from rabbitlike.broker.vhost import Vhost
from rabbitlike.broker.vhost_deletion import CONNECTION_FORCED, VhostDeletion
from rabbitlike.clock import Clock
from rabbitlike.config import BrokerSettings
from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.storage.api import AttemptRecord, Batch, Recovered, SeenKey, Store

if TYPE_CHECKING:
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.held import Settled
    from rabbitlike.broker.settle import Settle

log = logging.getLogger(__name__)

#: Events that are exported together, at most.
EVENTS_AT_ONCE = 200_000
SHUTDOWN = "broker forced connection closure with reason 'shutdown'"


class ClientChannel(Protocol):
    """A channel, as the management sees it."""

    name: str
    number: int
    vhost: Vhost
    counters: Counters
    #: The same by exchange and by queue; of those that are gone, too.
    publishes: dict[Exchange, Counters]
    deliveries: dict[Queue, Counters]

    @property
    def is_open(self) -> bool:
        """Not when it is told to close and has not answered yet."""
        ...

    def view(self) -> dict[str, object]: ...

    def details(self) -> dict[str, object]:
        """What tells it from others."""
        ...

    def held_of(self, queue: Queue) -> list[dict[str, object]]:
        """What it was given of one queue and has not settled."""
        ...

    def settle_held(self, queue: Queue, position: int, how: Settle) -> Settled | None:
        """Settle a message that it holds in its client's stead; None: it does not hold it."""
        ...

    def extend_held(self, queue: Queue, position: int, more_ms: int) -> int | None:
        """Move the deadline of a message that it holds; when it is now, 0 when it has none. None: it is not here."""
        ...

    def cancel_consumer(self, tag: str) -> bool:
        """An operator ends one of its consumers; False: there is no such."""
        ...

    def consumer_views(self) -> list[dict[str, object]]: ...


class Client(Protocol):
    """A connection, as the broker and the management see it."""

    name: str
    user: User | None
    vhost: Vhost | None
    connected_at_ms: int
    # Octets and reads, octets and writes
    recv_oct: int
    recv_cnt: int
    send_oct: int
    send_cnt: int

    @property
    def is_open(self) -> bool:
        """Has it come as far as connection.open, and not to its end?"""
        ...

    def details(self) -> dict[str, object]: ...

    def view(self) -> dict[str, object]: ...

    def open_channels(self) -> Iterator[ClientChannel]: ...

    def unblock(self) -> None: ...

    def shutdown(self, code: int, text: str) -> None: ...


class Waiter(Protocol):
    """A client with answers that must not go out before a commit is done."""

    def committed(self, number: int) -> bool:
        """Commit ``number`` is done. Is there nothing left to wait for?"""
        ...

    def commit_failed(self) -> bool:
        """No commit is to be counted on for now. Is there nothing left to wait for?"""
        ...


class Requester(Protocol):
    """Somebody who waits for direct replies under a name."""

    name: str

    def deliver(self, address: bytes, properties: bytes, body: bytes) -> bool:
        """Give it a reply. False: it has too many that it does not read."""
        ...


class Broker:
    """One broker."""

    def __init__(self, settings: BrokerSettings, store: Store, clock: Clock, journal: Journal | None = None) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.turn = Turn(clock)
        #: What is on its way to the store; None when nothing outlives the process.
        self.journal = journal
        #: How much publishers may send before it is committed; None when nothing is.
        self.credit = None if journal is None else Credit(journal)
        if self.credit is not None:
            self.turn.is_store_behind = self.credit.is_behind
        self.topology = Topology(None)
        self.commits = Commits()
        self.events = Events(self.turn, EVENTS_AT_ONCE, settings.event_log_interval_ms)
        self._last_queue_id = 0
        #: Clients with answers that wait for a commit; while there are any, the next one has been asked for.
        self.commit_waiters: dict[Waiter, None] = {}
        self.users = Users("", algorithm=ALGORITHMS[settings.password_hashing])
        self.login_attempts = LoginAttempts(tracks_sources=settings.track_auth_attempt_source)
        self.login_failures = LoginFailures(clock)
        self.permissions = Permissions(self.turn.renew)
        self.usage = Usage()
        self.alarms = Alarms()
        self.alarms.listen(self._on_alarm)
        self.connections: set[Client] = set()
        self.churn = Churn()
        #: Of all messages that were published since the start.
        self.sizes = Sizes()
        #: Messages that queues gave up, by the reason and what became of them then.
        self.deaths: dict[Reason, list[int]] = {reason: [0 for _ in DeadLetterOutcome] for reason in Reason}
        #: Dead letters that all target queues have, of those sent at least once.
        self.dead_letters_confirmed = 0
        #: Who hears of every death, at once and within the turn: they must only take note of it.
        self.dead_letter_listeners: list[Callable[[Queue, Message, Reason], None]] = []
        self.vhosts: dict[str, Vhost] = {}
        #: By name, vhosts that are gone and of which something is left.
        self.deletions: dict[str, VhostDeletion] = {}
        self.parameters = Parameters()
        self.parameters.register(VhostLimits.COMPONENT, VhostLimits(self.vhosts))
        if journal is None:
            self.recover(Recovered())

    # From one run to the next

    def recover(self, recovered: Recovered) -> None:
        """Take up what the last run left; at the very first, make what a broker starts with."""
        self.turn.begin()
        for trouble in recovered.troubles:
            log.error("recovery: %s", trouble)
        restore(self, recovered.records)
        if self.journal is not None:
            self.journal.start(recovered.last_batch_id)
            self._recover_messages(recovered)
        self.topology = Topology(self.journal)
        if "internal_cluster_id" not in self.parameters.globals:
            self.set_global_parameter("internal_cluster_id", f"rabbitmq-cluster-id-{token_urlsafe(16)}")
        # parity: only where nothing is: who has deleted the last vhost does not want the default user back; and not
        # where definitions say what a new broker is to have.
        if not self.vhosts and not self.users and self.settings.load_definitions is None:
            self.set_vhost(self.settings.default_vhost, description="Default virtual host")
            password = self.settings.default_password
            self.set_user(self.settings.default_user, password=password, tags=("administrator",))
            self.set_permission(self.settings.default_user, self.settings.default_vhost, EVERYTHING)
        self.turn.finish()

    def _recover_messages(self, recovered: Recovered) -> None:
        batches: dict[int, list[Batch]] = {}
        for batch in recovered.batches:
            batches.setdefault(batch.queue_id, []).append(batch)
        marks = {queue_id: (following, delivered) for queue_id, following, delivered in recovered.marks}
        attempts: dict[int, list[AttemptRecord]] = {}
        for attempt in recovered.attempts:
            attempts.setdefault(attempt.queue_id, []).append(attempt)
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                if queue.log is not None:
                    number = queue.log.queue_id
                    queue.paging.recover(
                        queue.log, batches.pop(number, []), marks.get(number, (1, 0)), attempts.get(number, [])
                    )
        delays = delays_of(recovered.records)
        for name, (number, exchanges) in delays.items():
            self.give_queue_id(number)
            self.vhosts[name].delays.recover(number, exchanges, batches.pop(number, []), marks.get(number, (1, 0)))
        self._recover_seen(recovered.seen)
        for queue_id in batches:
            log.error("recovery: messages of queue %d, which is not known, are dropped", queue_id)
        known = {queue.log.queue_id for vhost in self.vhosts.values() for queue in vhost.queues.values() if queue.log}
        known.update(number for number, _ in delays.values())
        for queue_id in (batches.keys() | marks.keys()) - known:
            # Mostly queues that were not durable and had outgrown memory: their numbers will be given again.
            if self.journal is not None:
                self.journal.remove_queue(queue_id)

    def _recover_seen(self, seen: Iterable[SeenKey]) -> None:
        owners: dict[str, Deduplication] = {}
        for vhost in self.vhosts.values():
            for exchange in vhost.exchanges.values():
                if exchange.deduplication is not None:
                    owners[seen_by(exchange)] = exchange.deduplication
            for queue in vhost.queues.values():
                if queue.deduplication is not None and queue.log is not None:
                    owners[f"queue {queue.log.queue_id}"] = queue.deduplication
        found: dict[str, list[SeenKey]] = {}
        for each in seen:
            found.setdefault(each.owner, []).append(each)
        for owner, keys in found.items():
            if owner in owners:
                owners[owner].recover(keys)
            elif self.journal is not None:
                self.journal.forget(owner)

    def make_log(self, settings: QueueSettings, *, is_durable: bool, queue_id: int | None = None) -> Log | None:
        """The durable side of a new queue; None when nothing outlives the process."""
        if self.journal is None:
            return None
        queue_id = self.give_queue_id(queue_id)
        return Log(queue_id, self.journal, settings.levels, settings.default_priority, is_durable=is_durable)

    def give_queue_id(self, queue_id: int | None = None) -> int:
        """The number under which a queue's messages are stored; or take note of one that was given before."""
        if queue_id is None:
            queue_id = self._last_queue_id + 1
        self._last_queue_id = max(self._last_queue_id, queue_id)
        return queue_id

    def committed(self, number: int) -> None:
        """The store has commit ``number``: whoever waited for it hears so."""
        assert self.journal is not None
        self.turn.begin()
        for written in self.journal.finish(number):
            written.written()
        if self.credit is not None:
            self.credit.committed()
        self.events.committed(number)
        for waiter in list(self.commit_waiters):
            if waiter.committed(number):
                del self.commit_waiters[waiter]
        if self.commit_waiters:
            self.journal.ask()  # for the commit that they wait for: nothing may be stored in it
        self.turn.finish()

    def commit_failed(self) -> None:
        """The store could not commit and will try again: no publish that waits may be confirmed, so all are refused."""
        self.turn.begin()
        if self.journal is not None:
            self.journal.is_failing = True
        for waiter in list(self.commit_waiters):
            if waiter.commit_failed():
                del self.commit_waiters[waiter]
        self.events.commit_failed()
        self.turn.finish()

    def settle_marks(self) -> None:
        """Nothing will be delivered any more: the next run need not guess what was."""
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                if queue.log is not None:
                    queue.log.settle_mark()

    # Vhosts

    def add_vhost(self, name: str) -> Vhost:
        """A new vhost of which nothing is said."""
        vhost = self.restore_vhost(name)
        self.topology.add_vhost(vhost)
        return vhost

    def restore_vhost(self, name: str) -> Vhost:
        if name in self.deletions:
            self.deletions[name].finish()
        vhost = Vhost(name, self)
        self.vhosts[name] = vhost
        return vhost

    def set_vhost(
        self,
        name: str,
        *,
        description: str | None = None,
        tags: Iterable[str] | None = None,
        default_queue_type: str | None = None,
        is_protected: bool | None = None,
        is_traced: bool | None = None,
    ) -> bool:
        """Make a vhost or change what is said of one; None leaves it as it is. True: it is new. Raises ValueError."""
        queue_type = None if default_queue_type is None else queue_type_named(default_queue_type)
        is_new = name not in self.vhosts
        vhost = self.restore_vhost(name) if is_new else self.vhosts[name]
        if description is not None:
            vhost.description = description
        if tags is not None:
            vhost.tags = tuple(tags)
        if queue_type is not None:
            vhost.default_queue_type = queue_type
        if is_protected is not None:
            vhost.is_protected = is_protected
        if is_traced is not None:
            vhost.is_traced = is_traced
            vhost.retrace()
        self.topology.add_vhost(vhost)
        return is_new

    def delete_vhost(self, name: str) -> bool:
        """Delete a vhost and all in it, which may take several turns (`deletions`); its clients are told to go. False:
        there is none. Raises 406 if protected."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            return False
        if vhost.is_protected:
            raise precondition_failed(f"Refusing to delete virtual host '{name}' because it is protected from deletion")
        log.info("deleting vhost '%s'", name)
        del self.vhosts[name]
        self._forget_permissions([place for place in self.permissions.places() if place[1] == name])
        deletion = self.deletions[name] = VhostDeletion(self, vhost)
        deletion.start()
        return True

    # Users

    def set_user(
        self,
        name: str,
        *,
        password: str | None = None,
        password_hash: str | None = None,
        hashing_algorithm: str | None = None,
        tags: Iterable[str] = (),
        limits: Json = None,
    ) -> bool:
        """Make a user, or give one another password and tags. True: it is new. Raises ValueError.

        parity: with neither password nor hash it cannot log in by password any more. Limits are added to those it has.
        Whoever is logged in stays, with the tags it came with.
        """
        if password is not None and password_hash is not None:
            raise ValueError("both_password_and_password_hash_are_provided")
        known = self.users.get(name)
        merged = {**(known.limits if known is not None else {}), **checked_limits(limits or {})}
        if password_hash is None:
            user = self.users.add(name, password or "", tags=tags, limits=merged)
        else:
            algorithm = hashing_algorithm or self.users.algorithm
            user = self.users.add_hashed(name, password_hash, algorithm=algorithm, tags=tags, limits=merged)
        self.topology.add_user(user)
        return known is None

    def set_user_limits(self, name: str, limits: Json) -> None:
        """All limits of a user anew. Raises ValueError."""
        if name not in self.users:
            raise ValueError("no_such_user")
        self.topology.add_user(self.users.set_limits(name, checked_limits(limits)))

    def delete_user(self, name: str) -> bool:
        """Delete a user; whoever is logged in as that user is told to go. False: there is none."""
        if not self.users.delete(name):
            return False
        log.info("deleting user '%s'", name)
        self.topology.remove_user(name)
        self._forget_permissions([place for place in self.permissions.places() if place[0] == name])
        for connection in list(self.connections):
            if connection.user is not None and connection.user.name == name:
                connection.shutdown(CONNECTION_FORCED, f"user '{name}' is deleted")
        return True

    # Permissions

    def set_permission(self, user: str, vhost: str, permission: Permission) -> bool:
        """True: there was none. Open channels obey at once. Raises ValueError."""
        self._check_place(user, vhost)
        is_new = self.permissions.get(user, vhost) is None
        self.permissions.set(user, vhost, permission)
        self.topology.set_permission(user, vhost, permission)
        return is_new

    def clear_permission(self, user: str, vhost: str) -> bool:
        """False: there was none."""
        if self.permissions.get(user, vhost) is None:
            return False
        self.permissions.clear(user, vhost)
        self.topology.clear_permission(user, vhost)
        return True

    def set_topic_permission(self, user: str, vhost: str, exchange: str, permission: TopicPermission) -> bool:
        """True: there was none. Raises ValueError."""
        self._check_place(user, vhost)
        is_new = self.permissions.get_topic(user, vhost, exchange) is None
        self.permissions.set_topic(user, vhost, exchange, permission)
        self.topology.set_topic_permission(user, vhost, exchange, permission)
        return is_new

    def clear_topic_permission(self, user: str, vhost: str, exchange: str | None = None) -> bool:
        """Those of one exchange, or of all. False: there was none."""
        found = [name for name in self.permissions.topic_exchanges(user, vhost) if exchange in (None, name)]
        for name in found:
            self.topology.clear_topic_permission(user, vhost, name)
        self.permissions.clear_topic(user, vhost, exchange)
        return bool(found)

    def _check_place(self, user: str, vhost: str) -> None:
        if user not in self.users or vhost not in self.vhosts:
            raise ValueError("vhost_or_user_not_found")

    def _forget_permissions(self, places: list[tuple[str, str]]) -> None:
        for user, vhost in places:
            self.clear_permission(user, vhost)
            self.clear_topic_permission(user, vhost)

    # Parameters

    def set_parameter(self, vhost: str, component: str, name: str, value: Json) -> bool:
        """True: there was none. Raises ValueError."""
        if vhost not in self.vhosts:
            raise ValueError("vhost_not_found")
        self.parameters.check(component, name, value)
        is_new = self.parameters.get(vhost, component, name) is None
        self.parameters.set(vhost, component, name, value)
        self.topology.set_parameter(Parameter(vhost, component, name, value))
        return is_new

    def clear_parameter(self, vhost: str, component: str, name: str) -> bool:
        """False: there was none."""
        if not self.parameters.clear(vhost, component, name):
            return False
        self.topology.clear_parameter(vhost, component, name)
        return True

    def set_vhost_limits(self, vhost: str, limits: Json) -> None:
        """All limits of a vhost anew. Raises ValueError."""
        if limits:
            self.set_parameter(vhost, VhostLimits.COMPONENT, VhostLimits.NAME, limits)
        else:
            self.clear_parameter(vhost, VhostLimits.COMPONENT, VhostLimits.NAME)

    def set_global_parameter(self, name: str, value: Json) -> bool:
        """True: there was none."""
        is_new = name not in self.parameters.globals
        self.parameters.globals[name] = value
        self.topology.set_global_parameter(name, value)
        return is_new

    def clear_global_parameter(self, name: str) -> bool:
        """False: there was none."""
        if name not in self.parameters.globals:
            return False
        del self.parameters.globals[name]
        self.topology.clear_global_parameter(name)
        return True

    # Clients

    def client(self, name: str) -> Client | None:
        """The open connection of this name."""
        for client in self.connections:
            if client.name == name and client.is_open:
                return client
        return None

    def _on_alarm(self, source: str, raised: bool) -> None:
        self.turn.alarmed = bool(self.alarms.active)
        if not self.turn.alarmed:
            self.turn.begin()
            for connection in list(self.connections):
                connection.unblock()
            self.turn.finish()

    def close(self, code: int = CONNECTION_FORCED, text: str = SHUTDOWN) -> None:
        """End every connection."""
        for connection in list(self.connections):
            connection.shutdown(code, text)
