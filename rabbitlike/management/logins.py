"""How often a wrong password may be tried.

Each address has a number of tries per user name, and a larger one for all names together; they come back with time, and
while there are none left the answer is 429 and no password is looked at. Counted by address, so nobody can lock a user
out from afar: whoever tries from elsewhere uses up tries of their own, and guest is let in from this machine alone.
Memory is bounded: the entries forgotten first are those that were quiet for longest.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rabbitlike.clock import Clock

#: Tries at once, and how long one takes to come back.
TRIES_PER_USER: Final = 10
USER_REFILL_MS: Final = 6_000
TRIES_PER_ADDRESS: Final = 100
ADDRESS_REFILL_MS: Final = 600
#: Addresses and users remembered, together.
KEPT: Final = 10_000


class Failures:
    """Failed logins of late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: When all tries of a key will have come back: each failure puts it off.
        self._full_at_ms: OrderedDict[tuple[str, str | None], int] = OrderedDict()

    def wait_ms(self, host: str, user: str) -> int:
        """How long this user at this address must wait before the next try; 0: none."""
        address = source(host)
        now_ms = self._clock.now_ms()
        return max(
            0,
            self._full_at_ms.get((address, user), 0) - now_ms - (TRIES_PER_USER - 1) * USER_REFILL_MS,
            self._full_at_ms.get((address, None), 0) - now_ms - (TRIES_PER_ADDRESS - 1) * ADDRESS_REFILL_MS,
        )

    def add(self, host: str, user: str) -> None:
        address = source(host)
        self._put_off((address, user), USER_REFILL_MS)
        self._put_off((address, None), ADDRESS_REFILL_MS)

    def forgive(self, host: str, user: str) -> None:
        """The password was right: earlier slips of this user there do not count."""
        self._full_at_ms.pop((source(host), user), None)

    def _put_off(self, key: tuple[str, str | None], by_ms: int) -> None:
        now_ms = self._clock.now_ms()
        self._full_at_ms[key] = max(now_ms, self._full_at_ms.get(key, 0)) + by_ms
        self._full_at_ms.move_to_end(key)
        while len(self._full_at_ms) > KEPT or next(iter(self._full_at_ms.values())) <= now_ms:
            self._full_at_ms.popitem(last=False)

    def __len__(self) -> int:
        return len(self._full_at_ms)


def source(host: str) -> str:
    """Who is behind an address: of IPv6, anybody has a whole /64."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else address.exploded[:19]
    return str(address)
