"""The headers of a dead-lettered message: x-death, x-first-death-… and x-last-death-….

Pure functions; the vhost routes the dead-lettered message. A message's history is its own x-death header, newest death
first, one entry for each queue and reason. parity: names, types and order on the wire are RabbitMQ 3.13's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import ClassVar, Final

from rabbitlike.protocol.properties import Properties, after_value, encode_headers
from rabbitlike.protocol.tables import Array, Table, Timestamp, Value, decode_value, encode

_X_DEATH: Final = b"x-death"
ARRAY_LETTER: Final = ord("A")
#: These octets occur in every death by rejection.
_REJECTED: Final = b"\x06reasonS\x00\x00\x00\x08rejected"
_COUNT_MAX: Final = (1 << 63) - 1


class Reason(Enum):
    """Why a queue dead-lettered a message."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"
    #: It failed, and its total retry time is over.
    RETRY_TIMEOUT = "retry_timeout"


class DeadLetterOutcome(IntEnum):
    """How a queue handles its dead letters."""

    DROPPED = 0
    AT_MOST_ONCE = 1
    #: The queue holds them until all target queues have them.
    AT_LEAST_ONCE = 2


@dataclass(frozen=True, slots=True)
class Death:
    """One entry of x-death: how often a queue dead-lettered a message for a reason, and the message's address when it
    first did."""

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
class RetryHistory:
    """The headers that a message gets in its queue's own dead-letter queue, beside x-death."""

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


def write_death(
    properties: Properties,
    *,
    queue: str,
    exchange: str,
    routing_keys: Sequence[str],
    reason: Reason,
    now_ms: int,
    count: int = 1,
    keep_cc: bool = True,
    retry_history: RetryHistory | None = None,
) -> Properties:
    """Return the properties of a message that `queue` dead-letters.

    `exchange` and `routing_keys` (see `original_keys`) are the ones it was published with. `keep_cc` must be false
    where x-dead-letter-routing-key replaces those keys: CC then no longer routes the message, now or when it is
    dead-lettered again.
    """
    fields: dict[bytes, bytes | memoryview] = dict(properties.header_fields())
    ours = Table()
    start, end = _entries(properties)
    if end == 0:
        _note(ours, "first", queue, exchange, reason)
    _note(ours, "last", queue, exchange, reason)
    if retry_history is not None:
        retry_history.write(ours)
    death = Death(queue, reason.value, exchange, tuple(routing_keys), count, now_ms // 1000, properties.expiration)
    view = memoryview(properties.raw)
    others: tuple[memoryview, ...] = (view[start:end],)
    for at, stop, earlier in _deaths_with(properties, start, end, _named(queue)):
        if earlier.queue == queue and earlier.reason == reason.value:
            death = replace(earlier, count=earlier.count + count)
            others = (view[start:at], view[stop:end])
            break
    newest = b"F" + encode(death.to_table())
    size = len(newest) + sum(map(len, others))
    fields |= Properties.build(headers=ours).header_fields()
    fields[_X_DEATH] = b"".join((b"A", size.to_bytes(4, "big"), newest, *others))
    if not keep_cc:
        fields.pop(b"CC", None)
    # parity: headers that the broker has changed are sent sorted by name.
    headers = encode_headers({key: fields[key] for key in sorted(fields)})
    # Without an expiration it cannot expire again in the queue that it is sent to.
    return properties.replace(headers=headers, expiration=None)


def in_cycle(properties: Properties, queue_name: str) -> bool:
    """Return whether `queue_name` dead-lettered the message before and no client has rejected it since: a cycle."""
    start, end = _entries(properties)
    named = _named(queue_name)
    if properties.raw.find(named, start, end) < 0:
        return False  # the common case, found without decoding
    for _, _, death in _deaths_with(properties, start, end, named, _REJECTED):
        if death.reason == Reason.REJECTED.value:
            return False
        if death.queue == queue_name:
            return True
    return False


def deaths_of(properties: Properties) -> list[Death]:
    """Return a message's deaths, newest first. Clients may send any entries: invalid ones are left out."""
    return [death for _, _, death in _deaths_with(properties, *_entries(properties))]


def original_keys(routing_key: str, properties: Properties) -> list[str]:
    """Return the keys a message was published with: its own and those of CC. BCC is removed before a queue gets it."""
    keys = [routing_key]
    copies = properties.header(b"CC")
    if isinstance(copies, list):
        keys += [key for key in copies if isinstance(key, str)]
    return keys


def forget_client_deaths(properties: Properties) -> Properties:
    """Return the published properties without x-death, for settings that count as RabbitMQ 4 does."""
    if properties.header_at(_X_DEATH) == 0:
        return properties
    fields = properties.header_fields()
    del fields[_X_DEATH]
    return properties.replace(headers=encode_headers(fields))


def _note(headers: Table, which: str, queue: str, exchange: str, reason: Reason) -> None:
    headers[f"x-{which}-death-reason"] = reason.value
    headers[f"x-{which}-death-queue"] = queue
    headers[f"x-{which}-death-exchange"] = exchange


# x-death as octets: a message dead-lettered by a thousand queues has a thousand entries. Decoding and encoding all of
# them each time would take seconds, so only entries that contain the searched octets are decoded.


def _entries(properties: Properties) -> tuple[int, int]:
    """Return where the entries of x-death begin and end; (0, 0) if there is no such array."""
    at = properties.header_at(_X_DEATH)
    if at == 0 or properties.raw[at] != ARRAY_LETTER:
        return 0, 0
    return at + 5, after_value(properties.raw, at)


def _named(queue: str) -> bytes:
    """Return octets that occur in every death in this queue, and perhaps in others."""
    name = queue.encode("utf-8", "surrogateescape")
    return b"\x05queueS" + len(name).to_bytes(4, "big") + name


def _deaths_with(properties: Properties, start: int, end: int, *wanted: bytes) -> Iterator[tuple[int, int, Death]]:
    """Yield deaths that contain any of the wanted octets, newest first, with their offsets; all if none is given."""
    raw = properties.raw
    at = start
    if wanted and all(raw.find(part, start, end) < 0 for part in wanted):
        return
    while at < end:
        stop = after_value(raw, at)
        if not wanted or any(raw.find(part, at, stop) >= 0 for part in wanted):
            death = _read_death(decode_value(raw, at))
            if death is not None:
                yield at, stop, death
        at = stop


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
            # int(): any numeric wire type is accepted, and a bool must become an int
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
