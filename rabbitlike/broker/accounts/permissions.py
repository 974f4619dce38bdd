"""Permissions of a user in a vhost: one regular expression each for configure, write and read.

parity: expressions are searched, not anchored; an empty one allows nothing; a user without an entry has no access to
the vhost at all. Topic permissions restrict routing keys at a topic exchange, if an entry exists. `generation`
increases with every change, so that results can be cached.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from rabbitlike.broker.patterns import Pattern, PatternError
from rabbitlike.protocol.errors import access_refused, not_allowed

Access = Literal["configure", "write", "read"]
Resource = Literal["exchange", "queue"]
#: Maximum characters of an expression in an error text.
SHOWN: Final = 255


def _compile(expression: str) -> Pattern:
    try:
        return Pattern(expression or "^$")
    except PatternError as problem:
        shown = expression if len(expression) <= SHOWN else f"{expression[:SHOWN]}..."
        raise ValueError(f"invalid regular expression {shown!r}: {problem}") from None


@dataclass(frozen=True, slots=True)
class Permission:
    """The expressions of one user in one vhost. Raises ValueError for an invalid expression."""

    configure: str
    write: str
    read: str
    _patterns: dict[Access, Pattern] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        patterns: dict[Access, Pattern] = {
            "configure": _compile(self.configure),
            "write": _compile(self.write),
            "read": _compile(self.read),
        }
        object.__setattr__(self, "_patterns", patterns)

    def allows(self, access: Access, name: str) -> bool:
        return self._patterns[access].is_in(name)


@dataclass(frozen=True, slots=True)
class TopicPermission:
    """The expressions routing keys must match; `{username}` and `{vhost}` are replaced by the connection's."""

    write: str
    read: str


def _known_as(resource: Resource, name: str) -> str:
    # parity: the name of the default exchange in permissions
    return "amq.default" if resource == "exchange" and name == "" else name


EVERYTHING: Final = Permission(".*", ".*", ".*")


class Permissions:
    """The permissions of all users, by user and vhost."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.generation = 0
        #: Called on every change: callers may have cached results.
        self._on_change = on_change
        self._permissions: dict[tuple[str, str], Permission] = {}
        self._topics: dict[tuple[str, str, str], tuple[TopicPermission, Permission]] = {}

    def check(self, user: str, vhost: str, access: Access, resource: Resource, name: str) -> None:
        """Raise 403 unless `user` has `access` to the exchange or queue `name`."""
        if not self.allows(user, vhost, access, resource, name):
            name = _known_as(resource, name)
            raise access_refused(f"{access} access to {resource} '{name}' in vhost '{vhost}' refused for user '{user}'")

    def allows(self, user: str, vhost: str, access: Access, resource: Resource, name: str) -> bool:
        """Whether `user` has `access` to the exchange or queue `name`."""
        permission = self._permissions.get((user, vhost))
        return permission is not None and permission.allows(access, _known_as(resource, name))

    def check_topic(
        self, user: str, vhost: str, access: Literal["write", "read"], exchange: str, routing_key: str
    ) -> None:
        """Raise 403 if this topic exchange has a topic permission that the routing key does not match."""
        if not self.allows_topic(user, vhost, access, exchange, routing_key):
            raise access_refused(
                f"{access} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{vhost}' "
                f"refused for user '{user}'"
            )

    def allows_topic(
        self, user: str, vhost: str, access: Literal["write", "read"], exchange: str, routing_key: str
    ) -> bool:
        """Whether the routing key matches the topic permission for this topic exchange, if there is one."""
        entry = self._topics.get((user, vhost, exchange))
        return entry is None or entry[1].allows(access, routing_key)

    def has_topic(self, user: str, vhost: str, exchange: str) -> bool:
        """Whether the user has a topic permission for this exchange."""
        return (user, vhost, exchange) in self._topics

    def check_vhost(self, user: str, vhost: str) -> None:
        """Raise 530 unless `user` has an entry for the vhost, whatever it allows."""
        if (user, vhost) not in self._permissions:
            raise not_allowed(f"access to vhost '{vhost}' refused for user '{user}'")

    def get(self, user: str, vhost: str) -> Permission | None:
        return self._permissions.get((user, vhost))

    def set(self, user: str, vhost: str, permission: Permission) -> None:
        self._permissions[user, vhost] = permission
        self._changed()

    def clear(self, user: str, vhost: str) -> None:
        self._permissions.pop((user, vhost), None)
        self._changed()

    def get_topic(self, user: str, vhost: str, exchange: str) -> TopicPermission | None:
        entry = self._topics.get((user, vhost, exchange))
        return None if entry is None else entry[0]

    def set_topic(self, user: str, vhost: str, exchange: str, permission: TopicPermission) -> None:
        """Set a topic permission. Raises ValueError for an invalid expression."""

        def expand(expression: str) -> str:
            # parity: replaced as text, so a user name becomes part of the expression.
            return expression.replace("{username}", user).replace("{vhost}", vhost)

        expanded = Permission("", expand(permission.write), expand(permission.read))
        self._topics[user, vhost, exchange] = (permission, expanded)
        self._changed()

    def clear_topic(self, user: str, vhost: str, exchange: str | None = None) -> None:
        """Remove the topic permission of one exchange, or of all exchanges."""
        for key in [key for key in self._topics if key[:2] == (user, vhost) and exchange in (None, key[2])]:
            del self._topics[key]
        self._changed()

    def places(self) -> list[tuple[str, str]]:
        """Each pair of user and vhost with a permission or topic permission, once."""
        return list(dict.fromkeys([*self._permissions, *(key[:2] for key in self._topics)]))

    def topic_exchanges(self, user: str, vhost: str) -> list[str]:
        """The exchanges for which a user has topic permissions."""
        return [key[2] for key in self._topics if key[:2] == (user, vhost)]

    def __iter__(self) -> Iterator[tuple[str, str, Permission]]:
        """Every entry as user, vhost, permission."""
        return ((user, vhost, permission) for (user, vhost), permission in self._permissions.items())

    def topics(self) -> Iterator[tuple[str, str, str, TopicPermission]]:
        """Every entry as user, vhost, exchange, permission."""
        return ((*key, permission) for key, (permission, _) in self._topics.items())

    def _changed(self) -> None:
        self.generation += 1
        self._on_change()
