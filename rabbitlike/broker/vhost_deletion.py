"""Deletes a vhost in slices: closes its connections, then deletes its queues, bindings and exchanges one by one.

The vhost can no longer be found by its name. The store removes its name last, so that after a crash the rest can still
be deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.budget import STEPS_PER_CALL

if TYPE_CHECKING:
    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.broker import Broker, Client
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.vhost import Vhost

CONNECTION_FORCED: Final = 320
#: Connections closed in one slice. Each is closed in a nested turn, which restarts the turn's clock.
TOGETHER: Final = 32


class VhostDeletion:
    """The deletion of one vhost."""

    def __init__(self, broker: Broker, vhost: Vhost) -> None:
        self._broker = broker
        self._vhost = vhost
        self._clients: list[Client] = [each for each in broker.connections if each.vhost is vhost]
        #: Exchanges, and bindings of the last one; None: not listed yet.
        self._exchanges: list[Exchange] | None = None
        self._bindings: list[Binding] | None = None

    def start(self) -> None:
        self._vhost.delays.delete()
        self._broker.turn.run(self.go_on)

    def finish(self) -> None:
        """Delete the rest at once: a new vhost needs the name."""
        while self._vhost.name in self._broker.deletions:
            self.go_on()

    def go_on(self) -> bool:
        """Delete as much as the turn has time for. True: there is more."""
        if self._broker.deletions.get(self._vhost.name) is not self:
            return False  # it was finished meanwhile
        if self._clients:
            self._dismiss_some()
            if self._clients:
                return True
        turn = self._broker.turn
        while self._delete_next():
            if turn.is_spent(STEPS_PER_CALL):
                return True
        self._end()
        return False

    def _dismiss_some(self) -> None:
        for client in self._clients[-TOGETHER:]:
            client.shutdown(CONNECTION_FORCED, f"vhost '{self._vhost.name}' is deleted")
        del self._clients[-TOGETHER:]

    def _delete_next(self) -> bool:
        """Delete one queue, binding or exchange, the last first: finding the first entry of a dict takes longer after
        many removals from its start. False: nothing is left."""
        vhost = self._vhost
        if vhost.queues:
            vhost.delete_queue(next(reversed(vhost.queues.values())))
            return True
        if self._exchanges is None:
            self._exchanges = list(vhost.exchanges.values())
        if not self._exchanges:
            return False
        if self._bindings is None:
            self._bindings = list(self._exchanges[-1].bindings)
        if self._bindings:
            vhost.drop_binding(self._exchanges[-1], self._bindings.pop())
        else:
            self._bindings = None
            vhost.drop_exchange(self._exchanges.pop())
        return True

    def _end(self) -> None:
        broker, name = self._broker, self._vhost.name
        del broker.deletions[name]
        for parameter in [each for each in broker.parameters if each.vhost == name]:
            broker.clear_parameter(*parameter[:3])
        broker.topology.remove_vhost(name)
        self._vhost.detach()
