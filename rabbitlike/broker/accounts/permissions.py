"""What a user may do in a vhost: one regular expression each for configure, write and read.

parity: expressions are searched, not anchored; an empty one allows nothing; a user without an entry has no access to
the vhost at all. Topic permissions narrow what passes a topic exchange, and only where an entry exists. `generation`
grows with every change, so that answers may be remembered.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from rabbitlike.broker.patterns import Pattern, PatternError
from rabbitlike.protocol.errors import access_refused, not_allowed

Access = Literal["configure", "write", "read"]
Resource = Literal["exchange", "queue"]
#: Characters of an expression that an error repeats.
SHOWN: Final = 255


def _compile(expression: str) -> Pattern:
    try:
        return Pattern(expression or "^$")
    except PatternError as problem:
        shown = expression if len(expression) <= SHOWN else f"{expression[:SHOWN]}..."
        raise ValueError(f"invalid regular expression {shown!r}: {problem}") from None


@dataclass(frozen=True, slots=True)
class Permission:
    """The expressions of one user in one vhost. Raises ValueError for one that does not compile."""

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
    """The expressions routing keys must match; `{username}` and `{vhost}` stand for the connection's own."""

    write: str
    read: str


def _known_as(resource: Resource, name: str) -> str:
    # parity: the name under which permissions know the default exchange
    return "amq.default" if resource == "exchange" and name == "" else name


EVERYTHING: Final = Permission(".*", ".*", ".*")


class Permissions:
    """Everyone's permissions, by user and vhost."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.generation = 0
        #: Told of every change: what was allowed before may be remembered somewhere.
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
        """Raise 403 when a topic permission exists for this topic exchange and the routing key does not match it."""
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
        """Do routing keys matter to what this user may do at this exchange?"""
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
        """Raises ValueError for an expression that does not compile."""

        def expand(expression: str) -> str:
            # parity: replaced as text, so a user name is read as a part of the expression.
            return expression.replace("{username}", user).replace("{vhost}", vhost)

        expanded = Permission("", expand(permission.write), expand(permission.read))
        self._topics[user, vhost, exchange] = (permission, expanded)
        self._changed()

    def clear_topic(self, user: str, vhost: str, exchange: str | None = None) -> None:
        """Forget one exchange's topic permission, or those of all exchanges."""
        for key in [key for key in self._topics if key[:2] == (user, vhost) and exchange in (None, key[2])]:
            del self._topics[key]
        self._changed()

    def places(self) -> list[tuple[str, str]]:
        """Every user and vhost that there is a permission or topic permission for, once each."""
        return list(dict.fromkeys([*self._permissions, *(key[:2] for key in self._topics)]))

    def topic_exchanges(self, user: str, vhost: str) -> list[str]:
        """The exchanges that a user has topic permissions for."""
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
