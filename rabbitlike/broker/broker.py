"""The broker: vhosts, users, permissions, alarms and the connections that use them.

It uses no socket, event loop or disk itself. All of its code runs on one thread, in turns.
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

#: Maximum number of events exported together.
EVENTS_AT_ONCE = 200_000
SHUTDOWN = "broker forced connection closure with reason 'shutdown'"


class ClientChannel(Protocol):
    """A channel, as seen by the management API."""

    name: str
    number: int
    vhost: Vhost
    counters: Counters
    #: The same counts by exchange and by queue, including deleted ones.
    publishes: dict[Exchange, Counters]
    deliveries: dict[Queue, Counters]

    @property
    def is_open(self) -> bool:
        """False once the broker has sent channel.close, even before the client answers."""
        ...

    def view(self) -> dict[str, object]: ...

    def details(self) -> dict[str, object]:
        """The fields that identify it."""
        ...

    def held_of(self, queue: Queue) -> list[dict[str, object]]:
        """Unsettled messages of one queue that were delivered to it."""
        ...

    def settle_held(self, queue: Queue, position: int, how: Settle) -> Settled | None:
        """Settle a message that it holds, instead of its client. None: it does not hold the message."""
        ...

    def extend_held(self, queue: Queue, position: int, more_ms: int) -> int | None:
        """Move the deadline of a message that it holds. Returns the new deadline, 0 if the message has none, None if
        the channel does not hold it."""
        ...

    def cancel_consumer(self, tag: str) -> bool:
        """Cancel one of its consumers for an operator. False: there is no such consumer."""
        ...

    def consumer_views(self) -> list[dict[str, object]]: ...


class Client(Protocol):
    """A connection, as seen by the broker and the management API."""

    name: str
    user: User | None
    vhost: Vhost | None
    connected_at_ms: int
    # Octets and number of reads, octets and number of writes
    recv_oct: int
    recv_cnt: int
    send_oct: int
    send_cnt: int

    @property
    def is_open(self) -> bool:
        """Whether connection.open is done and the connection is not closed."""
        ...

    def details(self) -> dict[str, object]: ...

    def view(self) -> dict[str, object]: ...

    def open_channels(self) -> Iterator[ClientChannel]: ...

    def unblock(self) -> None: ...

    def shutdown(self, code: int, text: str) -> None: ...


class Waiter(Protocol):
    """A client with answers that it may send only after a commit."""

    def committed(self, number: int) -> bool:
        """Handle the end of commit ``number``. True: the client waits for no further commit."""
        ...

    def commit_failed(self) -> bool:
        """Handle a failed commit. True: the client waits for no further commit."""
        ...


class Requester(Protocol):
    """A client that waits for direct replies at an address."""

    name: str

    def deliver(self, address: bytes, properties: bytes, body: bytes) -> bool:
        """Deliver a reply. False: too many replies are unread."""
        ...


class Broker:
    """One broker and all its state."""

    def __init__(self, settings: BrokerSettings, store: Store, clock: Clock, journal: Journal | None = None) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.turn = Turn(clock)
        #: Changes not committed yet. None: nothing outlives the process.
        self.journal = journal
        #: Limits what publishers send before it is committed. None: nothing is committed.
        self.credit = None if journal is None else Credit(journal)
        if self.credit is not None:
            self.turn.is_store_behind = self.credit.is_behind
        self.topology = Topology(None)
        self.commits = Commits()
        self.events = Events(self.turn, EVENTS_AT_ONCE, settings.event_log_interval_ms)
        self._last_queue_id = 0
        #: Clients with answers that wait for a commit. While there are any, the next commit is requested.
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
        #: Sizes of all messages published since the start.
        self.sizes = Sizes()
        #: Messages that queues removed, by reason and outcome.
        self.deaths: dict[Reason, list[int]] = {reason: [0 for _ in DeadLetterOutcome] for reason in Reason}
        #: At-least-once dead letters that all target queues have confirmed.
        self.dead_letters_confirmed = 0
        #: Called for every dead letter at once, within the turn: they must only take note of it.
        self.dead_letter_listeners: list[Callable[[Queue, Message, Reason], None]] = []
        self.vhosts: dict[str, Vhost] = {}
        #: Deleted vhosts that still have something to delete, by name.
        self.deletions: dict[str, VhostDeletion] = {}
        self.parameters = Parameters()
        self.parameters.register(VhostLimits.COMPONENT, VhostLimits(self.vhosts))
        if journal is None:
            self.recover(Recovered())

    # Recovery and commits

    def recover(self, recovered: Recovered) -> None:
        """Restore what the last run stored. On the first start, create the default vhost and user."""
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
        # parity: only if there is nothing at all, since an operator who deleted the last vhost does not want the
        # default user back, and only if no definitions are loaded.
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
            # Mostly transient queues that were paged out: their numbers will be given again.
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
        """The log of a new queue. None: nothing outlives the process."""
        if self.journal is None:
            return None
        queue_id = self.give_queue_id(queue_id)
        return Log(queue_id, self.journal, settings.levels, settings.default_priority, is_durable=is_durable)

    def give_queue_id(self, queue_id: int | None = None) -> int:
        """A new number under which a queue's messages are stored, or note a number given before."""
        if queue_id is None:
            queue_id = self._last_queue_id + 1
        self._last_queue_id = max(self._last_queue_id, queue_id)
        return queue_id

    def committed(self, number: int) -> None:
        """Notify all that wait for commit ``number``, which the store has done."""
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
            self.journal.ask()  # requests the commit that they wait for, which may contain nothing
        self.turn.finish()

    def commit_failed(self) -> None:
        """Refuse all publishes that wait for a confirm: the store could not commit and will try again."""
        self.turn.begin()
        if self.journal is not None:
            self.journal.is_failing = True
        for waiter in list(self.commit_waiters):
            if waiter.commit_failed():
                del self.commit_waiters[waiter]
        self.events.commit_failed()
        self.turn.finish()

    def settle_marks(self) -> None:
        """Store exactly what was delivered, at shutdown: the next run need not guess."""
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                if queue.log is not None:
                    queue.log.settle_mark()

    # Vhosts

    def add_vhost(self, name: str) -> Vhost:
        """Create a vhost with default settings."""
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
        """Create or change a vhost; None leaves a value as it is. True: it is new. Raises ValueError."""
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
        """Delete a vhost with all its contents and close its connections; may take several turns (`deletions`). False:
        there is no such vhost. Raises 406 if protected."""
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
        """Create a user or change its password and tags. True: it is new. Raises ValueError.

        parity: with neither password nor hash the user can no longer log in by password. New limits are added to the
        existing ones. Open connections stay open and keep the tags from their login.
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
        """Replace all limits of a user. Raises ValueError."""
        if name not in self.users:
            raise ValueError("no_such_user")
        self.topology.add_user(self.users.set_limits(name, checked_limits(limits)))

    def delete_user(self, name: str) -> bool:
        """Delete a user and close its connections. False: there is no such user."""
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
        """Set a permission; it applies to open channels at once. True: it is new. Raises ValueError."""
        self._check_place(user, vhost)
        is_new = self.permissions.get(user, vhost) is None
        self.permissions.set(user, vhost, permission)
        self.topology.set_permission(user, vhost, permission)
        return is_new

    def clear_permission(self, user: str, vhost: str) -> bool:
        """Remove a permission. False: there was none."""
        if self.permissions.get(user, vhost) is None:
            return False
        self.permissions.clear(user, vhost)
        self.topology.clear_permission(user, vhost)
        return True

    def set_topic_permission(self, user: str, vhost: str, exchange: str, permission: TopicPermission) -> bool:
        """Set a topic permission. True: it is new. Raises ValueError."""
        self._check_place(user, vhost)
        is_new = self.permissions.get_topic(user, vhost, exchange) is None
        self.permissions.set_topic(user, vhost, exchange, permission)
        self.topology.set_topic_permission(user, vhost, exchange, permission)
        return is_new

    def clear_topic_permission(self, user: str, vhost: str, exchange: str | None = None) -> bool:
        """Remove the topic permissions of one exchange, or of all. False: there was none."""
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
        """Set a parameter. True: it is new. Raises ValueError."""
        if vhost not in self.vhosts:
            raise ValueError("vhost_not_found")
        self.parameters.check(component, name, value)
        is_new = self.parameters.get(vhost, component, name) is None
        self.parameters.set(vhost, component, name, value)
        self.topology.set_parameter(Parameter(vhost, component, name, value))
        return is_new

    def clear_parameter(self, vhost: str, component: str, name: str) -> bool:
        """Remove a parameter. False: there was none."""
        if not self.parameters.clear(vhost, component, name):
            return False
        self.topology.clear_parameter(vhost, component, name)
        return True

    def set_vhost_limits(self, vhost: str, limits: Json) -> None:
        """Replace all limits of a vhost. Raises ValueError."""
        if limits:
            self.set_parameter(vhost, VhostLimits.COMPONENT, VhostLimits.NAME, limits)
        else:
            self.clear_parameter(vhost, VhostLimits.COMPONENT, VhostLimits.NAME)

    def set_global_parameter(self, name: str, value: Json) -> bool:
        """Set a global parameter. True: it is new."""
        is_new = name not in self.parameters.globals
        self.parameters.globals[name] = value
        self.topology.set_global_parameter(name, value)
        return is_new

    def clear_global_parameter(self, name: str) -> bool:
        """Remove a global parameter. False: there was none."""
        if name not in self.parameters.globals:
            return False
        del self.parameters.globals[name]
        self.topology.clear_global_parameter(name)
        return True

    # Clients

    def client(self, name: str) -> Client | None:
        """The open connection with this name."""
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
        """Close every connection."""
        for connection in list(self.connections):
            connection.shutdown(code, text)
