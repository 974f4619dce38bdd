"""A vhost is deleted: its clients are told to go, and queue by queue, binding by binding all of it ends, in slices.

Nobody finds it by its name any more. The store forgets its name last, so that after a crash what is left can be deleted
again.
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
#: Clients that are told to go in one slice: each is told in a turn within this one, which starts the clock anew.
TOGETHER: Final = 32


class VhostDeletion:
    """The end of one vhost."""

    def __init__(self, broker: Broker, vhost: Vhost) -> None:
        self._broker = broker
        self._vhost = vhost
        self._clients: list[Client] = [each for each in broker.connections if each.vhost is vhost]
        #: Exchanges, and bindings of the last of them; None: not looked at yet.
        self._exchanges: list[Exchange] | None = None
        self._bindings: list[Binding] | None = None

    def start(self) -> None:
        self._vhost.delays.delete()
        self._broker.turn.run(self.go_on)

    def finish(self) -> None:
        """All that is left, at once: somebody wants the name for a new vhost."""
        while self._vhost.name in self._broker.deletions:
            self.go_on()

    def go_on(self) -> bool:
        """As much as the turn has time for; True: there is more."""
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
        """One queue, one binding or one exchange, the last first: to look for the first of a dict takes the longer, the
        more were taken from there. False: nothing is left."""
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
