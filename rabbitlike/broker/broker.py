"""The broker: vhosts, users, permissions, alarms and the connections that use them.

No sockets, no loop, no disk of its own. Everything in it happens on one thread, in turns.
"""

from typing import Protocol

from rabbitlike.broker.alarms import Alarms
from rabbitlike.broker.permissions import EVERYTHING, Permissions
from rabbitlike.broker.turn import Turn
from rabbitlike.broker.users import User, Users
from rabbitlike.broker.vhost import Vhost
from rabbitlike.clock import Clock
from rabbitlike.config import BrokerSettings
from rabbitlike.storage.api import Store

CONNECTION_FORCED = 320
SHUTDOWN = "broker forced connection closure with reason 'shutdown'"


class Client(Protocol):
    """A connection, as the broker sees it."""

    user: User | None
    vhost: Vhost | None

    def unblock(self) -> None: ...

    def shutdown(self, code: int, text: str) -> None: ...


class Requester(Protocol):
    """Somebody who waits for direct replies under a name."""

    name: str

    def deliver(self, address: bytes, properties: bytes, body: bytes) -> None: ...


class Broker:
    """One broker."""

    def __init__(self, settings: BrokerSettings, store: Store, clock: Clock) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.turn = Turn(clock)
        self.users = Users(settings.default_user, settings.default_password)
        self.permissions = Permissions(self.turn.renew)
        self.alarms = Alarms()
        self.alarms.listen(self._on_alarm)
        self.connections: set[Client] = set()
        #: Requesters of direct replies, by the name that replies are published to.
        self.replies: dict[str, Requester] = {}
        self.vhosts: dict[str, Vhost] = {}
        self.add_vhost(settings.default_vhost)
        self.permissions.set(settings.default_user, settings.default_vhost, EVERYTHING)

    def add_vhost(self, name: str) -> Vhost:
        vhost = Vhost(name, self)
        self.vhosts[name] = vhost
        return vhost

    def delete_vhost(self, name: str) -> bool:
        """Delete a vhost and all in it; its clients are told to go. False: there is none."""
        vhost = self.vhosts.pop(name, None)
        if vhost is None:
            return False
        self.permissions.forget_vhost(name)
        for connection in list(self.connections):
            if connection.vhost is vhost:
                connection.shutdown(CONNECTION_FORCED, f"vhost '{name}' is deleted")
        for queue in list(vhost.queues.values()):
            vhost.delete_queue(queue)
        return True

    def delete_user(self, name: str) -> bool:
        """Delete a user; whoever is logged in as that user is told to go. False: there is none."""
        if not self.users.delete(name):
            return False
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
