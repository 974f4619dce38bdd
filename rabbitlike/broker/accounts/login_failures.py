"""Rate limits for failed logins and their log lines, over AMQP and HTTP together.

Each address has a number of tries per user name, and a larger number for all names together. Tries refill over time;
while none is left, no password is checked. Counts are per address, so guesses from elsewhere lock no user out. A user
who has logged in from an address keeps its own tries there, whatever other names are tried from it. Memory is bounded:
the entry that was inactive for longest is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rabbitlike.clock import Clock

#: Maximum tries, and the time to refill one.
TRIES_PER_USER: Final = 10
USER_REFILL_MS: Final = 6_000
TRIES_PER_ADDRESS: Final = 100
ADDRESS_REFILL_MS: Final = 600
#: The same for log lines: one per minute for a user at an address, and ten for all users at it.
LINE_REFILL_MS: Final = 60_000
LINES_PER_ADDRESS: Final = 10
ADDRESS_LINE_REFILL_MS: Final = 6_000
#: Maximum number of entries for each of these limits.
KEPT: Final = 10_000


class TokenBuckets:
    """A number of tokens for each key, refilled one by one."""

    __slots__ = ("_clock", "_full_at_ms", "_refill_ms", "_size")

    def __init__(self, clock: Clock, size: int, refill_ms: int) -> None:
        self._clock = clock
        self._size = size
        self._refill_ms = refill_ms
        #: When all tokens of a key will be refilled: each token taken delays it.
        self._full_at_ms: OrderedDict[Hashable, int] = OrderedDict()

    def wait_ms(self, key: Hashable) -> int:
        """Time until a token is available; 0: now."""
        full_at_ms = self._full_at_ms.get(key, 0)
        return max(0, full_at_ms - self._clock.now_ms() - (self._size - 1) * self._refill_ms)

    def take(self, key: Hashable) -> None:
        now_ms = self._clock.now_ms()
        full_at_ms = self._full_at_ms
        full_at_ms[key] = max(now_ms, full_at_ms.get(key, 0)) + self._refill_ms
        full_at_ms.move_to_end(key)
        while len(full_at_ms) > KEPT or next(iter(full_at_ms.values())) <= now_ms:
            full_at_ms.popitem(last=False)

    def fill(self, key: Hashable) -> None:
        """Refill all tokens of a key."""
        self._full_at_ms.pop(key, None)

    def __len__(self) -> int:
        return len(self._full_at_ms)


class LoginFailures:
    """Recent failed logins."""

    def __init__(self, clock: Clock) -> None:
        self._of_user = TokenBuckets(clock, TRIES_PER_USER, USER_REFILL_MS)
        self._of_address = TokenBuckets(clock, TRIES_PER_ADDRESS, ADDRESS_REFILL_MS)
        self._lines_of_user = TokenBuckets(clock, 1, LINE_REFILL_MS)
        self._lines_of_address = TokenBuckets(clock, LINES_PER_ADDRESS, ADDRESS_LINE_REFILL_MS)
        #: Address and user of successful logins, the latest last.
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait_ms(self, host: str, user: str) -> int:
        """Time that this user at this address must wait before the next try; 0: none."""
        address = source(host)
        wait_ms = self._of_user.wait_ms((address, user))
        return wait_ms if (address, user) in self._known else max(wait_ms, self._of_address.wait_ms(address))

    def add(self, host: str, user: str) -> None:
        address = source(host)
        self._of_user.take((address, user))
        self._of_address.take(address)

    def forgive(self, host: str, user: str) -> None:
        """Forget earlier failures of this user at this address, after a correct password."""
        key = (source(host), user)
        self._of_user.fill(key)
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)

    def may_log(self, host: str, user: str, what: str = "") -> bool:
        """Whether to log a failure: once in a burst for each user and `what`, and a few for each address."""
        address = source(host)
        key = (address, user, what)
        if self._lines_of_user.wait_ms(key) or self._lines_of_address.wait_ms(address):
            return False
        self._lines_of_user.take(key)
        self._lines_of_address.take(address)
        return True

    def __len__(self) -> int:
        """Number of entries, all together."""
        return len(self._of_user) + len(self._of_address) + len(self._known)


def source(host: str) -> str:
    """The source to count for an address; for IPv6 its /64, because a client usually has a whole /64."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else address.exploded[:19]
    return str(address)
