"""The broker: vhosts, users, permissions, alarms and the connections that use them.

No sockets, no loop, no disk of its own. Everything in it happens on one thread, in turns.
"""

import logging
from collections.abc import Iterable
from typing import Protocol

from rabbitlike.broker.alarms import Alarms
from rabbitlike.broker.journal import Journal
from rabbitlike.broker.permissions import EVERYTHING, Permission, Permissions
from rabbitlike.broker.queues.arguments import QueueSettings
from rabbitlike.broker.queues.log import Log
from rabbitlike.broker.topology import Topology, restore
from rabbitlike.broker.turn import Turn
from rabbitlike.broker.users import User, Users
from rabbitlike.broker.vhost import Vhost
from rabbitlike.clock import Clock
from rabbitlike.config import BrokerSettings
from rabbitlike.storage.api import Batch, Recovered, Store

log = logging.getLogger(__name__)

CONNECTION_FORCED = 320
SHUTDOWN = "broker forced connection closure with reason 'shutdown'"


class Client(Protocol):
    """A connection, as the broker sees it."""

    user: User | None
    vhost: Vhost | None

    def unblock(self) -> None: ...

    def shutdown(self, code: int, text: str) -> None: ...


class Waiter(Protocol):
    """A client with answers that must not go out before a commit is done."""

    def committed(self, number: int) -> bool:
        """Commit ``number`` is done. Is there nothing left to wait for?"""
        ...

    def commit_failed(self) -> None: ...


class Requester(Protocol):
    """Somebody who waits for direct replies under a name."""

    name: str

    def deliver(self, address: bytes, properties: bytes, body: bytes) -> None: ...


class Broker:
    """One broker."""

    def __init__(self, settings: BrokerSettings, store: Store, clock: Clock, journal: Journal | None = None) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.turn = Turn(clock)
        #: What is on its way to the store; None when nothing outlives the process.
        self.journal = journal
        self.topology = Topology(None)
        self._last_queue_id = 0
        #: Clients with answers that wait for a commit.
        self.waiting: dict[Waiter, None] = {}
        self.users = Users("")
        self.permissions = Permissions(self.turn.renew)
        self.alarms = Alarms()
        self.alarms.listen(self._on_alarm)
        self.connections: set[Client] = set()
        #: Requesters of direct replies, by the name that replies are published to.
        self.replies: dict[str, Requester] = {}
        self.vhosts: dict[str, Vhost] = {}
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
        if not self.vhosts:
            self.add_vhost(self.settings.default_vhost)
            self.add_user(self.settings.default_user, self.settings.default_password, ("administrator",))
            self.set_permission(self.settings.default_user, self.settings.default_vhost, EVERYTHING)
        self.turn.finish()

    def _recover_messages(self, recovered: Recovered) -> None:
        batches: dict[int, list[Batch]] = {}
        for batch in recovered.batches:
            batches.setdefault(batch.queue_id, []).append(batch)
        marks = {queue_id: (following, delivered) for queue_id, following, delivered in recovered.marks}
        attempts: dict[int, dict[int, int]] = {}
        for queue_id, position, count in recovered.attempts:
            attempts.setdefault(queue_id, {})[position] = count
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                if queue.log is not None:
                    number = queue.log.queue_id
                    queue.paging.recover(
                        queue.log, batches.pop(number, []), marks.get(number, (1, 0)), attempts.get(number, {})
                    )
        for queue_id in batches:
            log.error("recovery: messages of queue %d, which is not known, are dropped", queue_id)
        known = {queue.log.queue_id for vhost in self.vhosts.values() for queue in vhost.queues.values() if queue.log}
        for queue_id in (batches.keys() | marks.keys()) - known:
            # Mostly queues that were not durable and had outgrown memory: their numbers will be given again.
            if self.journal is not None:
                self.journal.remove_queue(queue_id)

    def make_log(self, settings: QueueSettings, *, is_durable: bool, queue_id: int | None = None) -> Log | None:
        """The durable side of a new queue; None when nothing outlives the process."""
        if self.journal is None:
            return None
        if queue_id is None:
            queue_id = self._last_queue_id + 1
        self._last_queue_id = max(self._last_queue_id, queue_id)
        return Log(queue_id, self.journal, settings.levels, settings.default_priority, is_durable=is_durable)

    def committed(self, number: int) -> None:
        """The store has commit ``number``: whoever waited for it hears so."""
        assert self.journal is not None
        self.turn.begin()
        for written in self.journal.finish(number):
            written.written()
        for waiter in list(self.waiting):
            if waiter.committed(number):
                del self.waiting[waiter]
        self.turn.finish()

    def commit_failed(self) -> None:
        """The store could not commit and will try again: no publish that waits may be confirmed, so all are refused."""
        self.turn.begin()
        for waiter in list(self.waiting):
            waiter.commit_failed()
        self.turn.finish()

    # Vhosts, users, permissions

    def add_vhost(self, name: str) -> Vhost:
        vhost = self.restore_vhost(name)
        self.topology.add_vhost(name)
        return vhost

    def restore_vhost(self, name: str) -> Vhost:
        vhost = Vhost(name, self)
        self.vhosts[name] = vhost
        return vhost

    def add_user(self, name: str, password: str, tags: Iterable[str] = ()) -> User:
        user = self.users.add(name, password, tags=tags)
        self.topology.add_user(user)
        return user

    def set_permission(self, user: str, vhost: str, permission: Permission) -> None:
        self.permissions.set(user, vhost, permission)
        self.topology.set_permission(user, vhost, permission)

    def delete_vhost(self, name: str) -> bool:
        """Delete a vhost and all in it; its clients are told to go. False: there is none."""
        vhost = self.vhosts.pop(name, None)
        if vhost is None:
            return False
        self.topology.remove_vhost(name)
        for user, place, _ in list(self.permissions):
            if place == name:
                self.topology.clear_permission(user, name)
        self.permissions.forget_vhost(name)
        for connection in list(self.connections):
            if connection.vhost is vhost:
                connection.shutdown(CONNECTION_FORCED, f"vhost '{name}' is deleted")
        for queue in list(vhost.queues.values()):
            vhost.delete_queue(queue)
        for exchange in list(vhost.exchanges.values()):
            self.topology.remove_exchange(exchange)
        return True

    def delete_user(self, name: str) -> bool:
        """Delete a user; whoever is logged in as that user is told to go. False: there is none."""
        if not self.users.delete(name):
            return False
        self.topology.remove_user(name)
        for user, place, _ in list(self.permissions):
            if user == name:
                self.topology.clear_permission(name, place)
        self.permissions.forget_user(name)
        for connection in list(self.connections):
            if connection.user is not None and connection.user.name == name:
                connection.shutdown(CONNECTION_FORCED, f"user '{name}' is deleted")
        return True

    def reply_consumer(self, name: str) -> Requester | None:
        """Who waits for direct replies under this name, if anybody still does."""
        return self.replies.get(name)

    def _on_alarm(self, source: str, raised: bool) -> None:
        self.turn.alarmed = bool(self.alarms.active)
        if not self.turn.alarmed:
            for connection in list(self.connections):
                connection.unblock()
            self.turn.finish()

    def close(self, code: int = CONNECTION_FORCED, text: str = SHUTDOWN) -> None:
        """End every connection."""
        for connection in list(self.connections):
            connection.shutdown(code, text)
