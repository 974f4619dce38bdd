"""The dry run of an import: reads definitions into a temporary broker to find faults before anything changes.

The temporary broker copies objects of the real one that entries refer to. It has no journal, its clock starts no
timers, and it is discarded afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rabbitlike.broker.accounts.limits import MAX_QUEUES
from rabbitlike.broker.broker import Broker
from rabbitlike.broker.definitions.entries import DefinitionsError, Entry
from rabbitlike.broker.definitions.reader import Reader

if TYPE_CHECKING:
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.terms import Json
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.clock import Clock


class DryRun(Reader):
    """A reader that changes nothing, to find entries that would be refused or skipped."""

    def __init__(self, broker: Broker) -> None:
        # With `load_definitions` set, a new broker starts without a default vhost and user.
        settings = replace(broker.settings, load_definitions=Path())
        super().__init__(Broker(settings, broker.store, _StoppedClock(broker.clock)), None)
        self._real = broker

    def _warn(self, said: str) -> None:
        pass  # the real import will warn

    def check_queue_limits(self, entries: Sequence[Mapping[str, Json]], only: str | None) -> None:
        """Refuse the document if it exceeds a queue limit, including limits that it sets. parity: RabbitMQ imports
        nothing in this case rather than the first queues."""
        places = {(str(entry.get("vhost")) if only is None else only, str(entry.get("name"))) for entry in entries}
        added = Counter(vhost for vhost, name in places if not self._is_in(self._real, vhost, name))
        for name, count in added.items():
            self._copy_vhost(name)
            most = self._broker.vhosts[name].limits.get(MAX_QUEUES, -1) if name in self._broker.vhosts else -1
            there = len(self._real.vhosts[name].queues) if name in self._real.vhosts else 0
            if 0 <= most < there + count:
                raise DefinitionsError(
                    f'Adding {count} queue(s) to virtual host "{name}" would exceed the limit of {most} queue(s).\n\n'
                    f"This virtual host currently has {there} queue(s) defined.\n\nImport aborted!"
                )

    @staticmethod
    def _is_in(broker: Broker, vhost: str, queue: str) -> bool:
        return vhost in broker.vhosts and queue in broker.vhosts[vhost].queues

    def end(self) -> Iterator[None]:
        """Free the temporary broker, one queue at a time: freeing everything at once would take too long."""
        for vhost in self._broker.vhosts.values():
            for queue in list(vhost.queues.values()):
                vhost.delete_queue(queue)
                yield
            vhost.delays.delete()
            for exchange in vhost.exchanges.values():
                vhost.drop_exchange(exchange)
            vhost.detach()
        self._broker.vhosts.clear()

    # Objects of the real broker

    def _copy_vhost(self, name: str) -> None:
        real = self._real.vhosts.get(name)
        if real is not None and name not in self._broker.vhosts:
            copy = self._broker.add_vhost(name)
            copy.default_queue_type, copy.limits = real.default_queue_type, real.limits

    def _vhost(self, entry: Entry) -> None:
        self._copy_vhost(entry.text("name"))
        super()._vhost(entry)

    def _home(self, entry: Entry) -> Vhost:
        self._copy_vhost(entry.vhost)
        return super()._home(entry)

    def _known_user(self, entry: Entry) -> str:
        name = entry.text("user")
        if name in self._real.users and name not in self._broker.users:
            self._broker.users.add(name, "")
        return super()._known_user(entry)

    def _has_exchange(self, home: Vhost, name: str) -> bool:
        real = self._real.vhosts.get(home.name)
        return super()._has_exchange(home, name) or (real is not None and name in real.exchanges)

    def _has_queue(self, home: Vhost, name: str) -> bool:
        return super()._has_queue(home, name) or self._is_in(self._real, home.name, name)

    def _find_exchange(self, home: Vhost, name: str) -> Exchange:
        real = self._real.vhosts.get(home.name)
        if name not in home.exchanges and real is not None and name in real.exchanges:
            found = real.exchanges[name]
            home.declare_exchange(name, found.kind, durable=found.durable, arguments=found.arguments)
        return super()._find_exchange(home, name)

    def _find_queue(self, home: Vhost, name: str) -> Queue:
        if name not in home.queues and self._is_in(self._real, home.name, name):
            self._real.vhosts[home.name].queue(name)  # 405 if it is exclusive
            home.add_dead_letter_queue(name)  # any kind of queue is sufficient
        return super()._find_queue(home, name)


class _NoTimer:
    """A timer that never fires."""

    def cancel(self) -> None:
        pass


class _StoppedClock:
    """The broker's clock, without timers."""

    def __init__(self, clock: Clock) -> None:
        self.now_ms = clock.now_ms
        self.ticks_ns = clock.ticks_ns

    def call_later(self, delay_ms: int, fn: Callable[[], None]) -> _NoTimer:
        return _NoTimer()
