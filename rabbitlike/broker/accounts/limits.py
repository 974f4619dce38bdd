"""Limits on the connections, channels and queues of vhosts and users, and their usage.

parity: a limit is checked when something is opened or declared; existing connections, channels and queues stay. A
negative limit means no limit, zero allows none. A connection counts from connection.open on, a channel from
channel.open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.terms import pairs, term
from rabbitlike.protocol.errors import not_allowed

if TYPE_CHECKING:
    from rabbitlike.broker.accounts.users import User
    from rabbitlike.broker.vhost import Vhost

MAX_CONNECTIONS: Final = "max-connections"
MAX_QUEUES: Final = "max-queues"
MAX_CHANNELS: Final = "max-channels"

#: Names of limits of vhosts and of users.
OF_VHOST: Final = (MAX_CONNECTIONS, MAX_QUEUES)
OF_USER: Final = (MAX_CONNECTIONS, MAX_CHANNELS)

Limits = Mapping[str, int]
NO_LIMITS: Final[Limits] = {}


def faults(limits: object, known: tuple[str, ...], place: str) -> list[str]:
    """The faults of given limits, in RabbitMQ's words. Empty: the limits are valid."""
    if not isinstance(limits, Mapping):
        return [f"{place} not a list {term(limits)}"]
    odd = {name: value for name, value in limits.items() if name not in known}
    found = [f"Unrecognised terms {pairs(odd)} in {place}"] if odd else []
    found += [
        f"{name} should be a number, actually was {term(limits[name])}"
        for name in reversed(known)
        if name in limits and (isinstance(limits[name], bool) or not isinstance(limits[name], int))
    ]
    return found


def is_reached(limits: Limits, name: str, count: int) -> bool:
    """Whether the limit allows no more than the existing `count`."""
    most = limits.get(name, -1)
    return 0 <= most <= count


class Usage:
    """Open connections by vhost and by user, open channels by user."""

    __slots__ = ("_channels_of", "_connections_in", "_connections_of")

    def __init__(self) -> None:
        self._connections_in: dict[str, int] = {}
        self._connections_of: dict[str, int] = {}
        self._channels_of: dict[str, int] = {}

    def connections_in(self, vhost: str) -> int:
        return self._connections_in.get(vhost, 0)

    def connections_of(self, user: str) -> int:
        return self._connections_of.get(user, 0)

    def channels_of(self, user: str) -> int:
        return self._channels_of.get(user, 0)

    def check_connection(self, user: User, vhost: Vhost) -> None:
        """Raise 530 if the vhost or the user has reached its connection limit."""
        if is_reached(vhost.limits, MAX_CONNECTIONS, self.connections_in(vhost.name)):
            raise not_allowed(
                f"access to vhost '{vhost.name}' refused for user '{user.name}': "
                f"connection limit ({vhost.limits[MAX_CONNECTIONS]}) is reached"
            )
        if is_reached(user.limits, MAX_CONNECTIONS, self.connections_of(user.name)):
            raise not_allowed(
                f"connection refused for user '{user.name}': "
                f"user connection limit ({user.limits[MAX_CONNECTIONS]}) is reached"
            )

    def check_channel(self, user: User) -> None:
        """Raise 530 if the user has reached its channel limit, over all its connections."""
        if is_reached(user.limits, MAX_CHANNELS, self.channels_of(user.name)):
            raise not_allowed(
                f"number of channels opened for user '{user.name}' has reached "
                f"the maximum allowed user limit of {user.limits[MAX_CHANNELS]}"
            )

    def connected(self, user: str, vhost: str) -> None:
        _count(self._connections_in, vhost, 1)
        _count(self._connections_of, user, 1)

    def disconnected(self, user: str, vhost: str) -> None:
        _count(self._connections_in, vhost, -1)
        _count(self._connections_of, user, -1)

    def channel_opened(self, user: str) -> None:
        _count(self._channels_of, user, 1)

    def channel_closed(self, user: str) -> None:
        _count(self._channels_of, user, -1)


def _count(counts: dict[str, int], name: str, step: int) -> None:
    counts[name] = counts.get(name, 0) + step
    if not counts[name]:
        del counts[name]


class VhostLimits:
    """The limits of vhosts as a runtime parameter, as in RabbitMQ."""

    COMPONENT: Final = "vhost-limits"
    NAME: Final = "limits"

    def __init__(self, vhosts: Mapping[str, Vhost]) -> None:
        self._vhosts = vhosts

    def faults(self, name: str, value: object) -> list[str]:
        return faults(value, OF_VHOST, name)

    def changed(self, vhost: str, name: str, value: object) -> None:
        if name == self.NAME and vhost in self._vhosts:
            self._vhosts[vhost].limits = value if isinstance(value, Mapping) else NO_LIMITS
