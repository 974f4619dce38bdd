"""What a message carries away from a queue that buries it: x-death and the first and last death headers.

Pure: routing the buried message is the vhost's work. A message's history is read from its own x-death header, newest
death first, one entry for each queue and reason. parity: names, types and order on the wire are RabbitMQ 3.13's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from operator import itemgetter
from typing import ClassVar, Final

from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Array, Table, Timestamp, Value

_X_DEATH: Final = "x-death"
_COUNT_MAX: Final = (1 << 63) - 1


class Reason(Enum):
    """Why a queue gave a message up."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"
    #: It failed, and the total time for trying is over.
    RETRY_TIMEOUT = "retry_timeout"


class Fate(IntEnum):
    """What a queue does with those it gives up."""

    DROPPED = 0
    AT_MOST_ONCE = 1
    #: They are the queue's until those they go to have them.
    AT_LEAST_ONCE = 2


@dataclass(frozen=True, slots=True)
class Death:
    """One entry of x-death: how often a message died in a queue for a reason, and how it was when it first did."""

    queue: str
    reason: str
    exchange: str
    routing_keys: tuple[str, ...]
    count: int
    time_s: int
    original_expiration: str | None = None

    def to_table(self) -> Table:
        table = (
            Table() if self.original_expiration is None else Table({"original-expiration": self.original_expiration})
        )
        table.put("count", min(self.count, _COUNT_MAX), "l")
        table["reason"] = self.reason
        table["queue"] = self.queue
        table["time"] = Timestamp(self.time_s)
        table["exchange"] = self.exchange
        table["routing-keys"] = Array(self.routing_keys)
        return table


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a queue that keeps its own dead letters says of the one it gives up, beside x-death."""

    retries: int
    published_at_ms: int
    ended_at_ms: int
    position: int

    HEADERS: ClassVar = ("x-retry-count", "x-first-attempt", "x-last-attempt", "x-original-position")

    def write(self, headers: Table) -> None:
        headers.put("x-retry-count", self.retries, "l")
        headers["x-first-attempt"] = Timestamp(self.published_at_ms // 1000)
        headers["x-last-attempt"] = Timestamp(self.ended_at_ms // 1000)
        headers.put("x-original-position", self.position, "l")


def bury(
    properties: Properties,
    *,
    queue: str,
    exchange: str,
    routing_keys: Sequence[str],
    reason: Reason,
    now_ms: int,
    count: int = 1,
    keep_cc: bool = True,
    attempt: Attempt | None = None,
) -> Properties:
    """The properties of a message as it leaves `queue` for the dead letter exchange.

    `exchange` and `routing_keys` (see `original_keys`) say how it had come. Where x-dead-letter-routing-key replaces
    those keys `keep_cc` must be false: the message no longer goes by them, now or when it dies again.
    """
    headers = properties.headers or Table()
    deaths = _read_deaths(headers)
    if deaths is None:
        deaths = []
        _note(headers, "first", queue, exchange, reason)
    _note(headers, "last", queue, exchange, reason)
    death = Death(queue, reason.value, exchange, tuple(routing_keys), count, now_ms // 1000, properties.expiration)
    for at, earlier in enumerate(deaths):
        if earlier.queue == queue and earlier.reason == reason.value:
            death = replace(earlier, count=earlier.count + count)
            del deaths[at]
            break
    headers[_X_DEATH] = Array([entry.to_table() for entry in (death, *deaths)])
    if attempt is not None:
        attempt.write(headers)
    if not keep_cc:
        headers.pop("CC", None)
    # Without an expiration it cannot expire a second time in the queue it goes to.
    return properties.replace(headers=_in_order(headers), expiration=None)


def in_cycle(properties: Properties, queue_name: str) -> bool:
    """Whether a buried message must not enter `queue_name`: it died there and no client has rejected it since."""
    if not properties.mentions(queue_name.encode("utf-8", "surrogateescape")):
        return False  # the common end of the road, told without decoding
    for death in deaths_of(properties):
        if death.reason == Reason.REJECTED.value:
            return False
        if death.queue == queue_name:
            return True
    return False


def deaths_of(properties: Properties) -> list[Death]:
    """A message's deaths, newest first."""
    if not properties.mentions(b"x-death"):
        return []
    return _read_deaths(properties.headers or Table()) or []


def original_keys(routing_key: str, properties: Properties) -> list[str]:
    """The keys a message was published with: its own and those of CC. BCC never got as far as a queue."""
    keys = [routing_key]
    if properties.mentions(b"CC"):
        copies = (properties.headers or Table()).get("CC")
        if isinstance(copies, list):
            keys += [key for key in copies if isinstance(key, str)]
    return keys


def forget_client_deaths(properties: Properties) -> Properties:
    """The properties a client published, without the deaths it claims: for those who want RabbitMQ 4's counting."""
    if not properties.mentions(b"x-death"):
        return properties
    headers = properties.headers or Table()
    if headers.pop(_X_DEATH, None) is None:
        return properties
    return properties.replace(headers=headers)


def _note(headers: Table, which: str, queue: str, exchange: str, reason: Reason) -> None:
    headers[f"x-{which}-death-reason"] = reason.value
    headers[f"x-{which}-death-queue"] = queue
    headers[f"x-{which}-death-exchange"] = exchange


def _in_order(headers: Table) -> Table:
    """parity: headers the broker has changed are sent sorted by name."""
    ordered = Table(sorted(headers.items(), key=itemgetter(0)))
    ordered.kinds = headers.kinds
    return ordered


def _read_deaths(headers: Table) -> list[Death] | None:
    """The entries of x-death, None when there is no such list. Clients may send any: what is no death is left out."""
    entries = headers.get(_X_DEATH)
    if not isinstance(entries, list):
        return None
    deaths = [_read_death(entry) for entry in entries]
    return [death for death in deaths if death is not None]


def _read_death(entry: Value) -> Death | None:
    if not isinstance(entry, dict):
        return None
    match entry:
        case {
            "queue": str(queue),
            "reason": str(reason),
            "exchange": str(exchange),
            "routing-keys": list(routing_keys),
            "count": int(count),
            "time": int(time_s),
        } if time_s >= 0:
            keys = tuple(key for key in routing_keys if isinstance(key, str))
            expiration = entry.get("original-expiration")
            # int(): any wire type of number will do, and a bool must not stay one
            return Death(
                queue,
                reason,
                exchange,
                keys,
                int(count),
                int(time_s),
                expiration if isinstance(expiration, str) else None,
            )
    return None
