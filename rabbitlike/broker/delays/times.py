"""When a delayed publish is due: read and check the headers `x-delay` and `x-deliver-at`.

Consumers get `x-delay` negated, as from RabbitMQ's delayed message exchange: it shows how long the message was delayed,
and a client that publishes the message again with its headers does not delay it again.
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Final

from rabbitlike.protocol.errors import AmqpError, precondition_failed
from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Table, Timestamp, Value, kind_name

X_DELAY: Final = "x-delay"
X_DELIVER_AT: Final = "x-deliver-at"
DELAY_KEY: Final = X_DELAY.encode()
DELIVER_AT_KEY: Final = X_DELIVER_AT.encode()

#: The end of the year 9999, the limit of datetime and so of ISO times.
LATEST_MS: Final = 253_402_300_799_999
#: A timestamp is in seconds; a larger one (the year 5138) comes from a client that uses milliseconds.
MOST_SECONDS: Final = 100_000_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
#: Larger delays need the full check.
MOST_DELAY_MS = 1 << 50


def is_timed(properties: Properties) -> bool:
    """Return whether the headers set a delivery time."""
    return properties.header_at(DELAY_KEY) > 0 or properties.header_at(DELIVER_AT_KEY) > 0


def plain_delay(properties: Properties) -> int:
    """Return `x-delay` in the usual case, a signed number without `x-deliver-at`; 0: no delay, or `read_due` must do
    the full check."""
    at = properties.header_at(DELAY_KEY)
    if at == 0 or properties.header_at(DELIVER_AT_KEY) > 0:
        return 0
    delay_ms = read_signed(properties.raw, at)
    return delay_ms if 0 < delay_ms <= MOST_DELAY_MS else 0


def negated(properties: Properties) -> bytes:
    """Return the properties with `plain_delay` negated."""
    at = properties.header_at(DELAY_KEY) + 1
    raw = bytearray(properties.raw)
    p = raw
    carry = 1
    for place in range(at + signed_size(properties.raw, at - 1) - 1, at - 1, -1):
        carry += p[place] ^ 255
        p[place] = carry & 255
        carry >>= 8
    return bytes(raw)


def signed_size(raw: bytes, at: int) -> int:
    """Return the size of a signed number in octets, by its type letter; 0: it has another type."""
    p = raw
    kind = p[at]
    if kind == 73:  # I
        return 4
    if kind == 108 or kind == 76:  # l, L
        return 8
    if kind == 115:  # s
        return 2
    return 1 if kind == 98 else 0  # b


def read_signed(raw: bytes, at: int) -> int:
    """Read a signed number, given the offset of its type letter; 0 if it is negative or has another type."""
    p = raw
    size = signed_size(raw, at)
    if size == 0 or p[at + 1] > 127:
        return 0
    number = 0
    for place in range(at + 1, at + 1 + size):
        number = number << 8 | p[place]
    return number


def read_due(properties: Properties, now_ms: int) -> tuple[int, Properties]:
    """Return when a message is due (0: at once) and its properties as consumers get them. Raise 406 for an invalid
    value. parity: missing, zero and negative delays mean at once. If both headers are given, the later time applies."""
    delay_ms = plain_delay(properties)
    if delay_ms > 0:
        return _due(X_DELAY, now_ms, delay_ms), Properties(negated(properties))
    headers = properties.headers
    if not headers:
        return 0, properties
    due_ms = 0
    delay_ms = _delay(headers)
    if delay_ms > 0:
        due_ms = _due(X_DELAY, now_ms, delay_ms)
    deliver_at_ms = _deliver_at(headers)
    if deliver_at_ms > now_ms:
        due_ms = max(due_ms, _due(X_DELIVER_AT, deliver_at_ms, 0))
    if due_ms and delay_ms > 0:
        # parity: whatever its type was, it becomes a signed integer.
        headers.put(X_DELAY, -delay_ms, "I" if delay_ms < 1 << 31 else "l")
        properties = properties.replace(headers=headers)
    return due_ms, properties


def _due(header: str, from_ms: int, delay_ms: int) -> int:
    if from_ms + delay_ms > LATEST_MS:
        raise precondition_failed(f"invalid header '{header}': {delay_ms or from_ms} is beyond the year 9999")
    return from_ms + delay_ms


def _delay(headers: Table) -> int:
    value = headers.get(X_DELAY)
    if value is None:
        return 0
    number = _integer(value)
    if number is None or isinstance(value, Timestamp):
        raise _refuse(headers, X_DELAY, "an integer of milliseconds")
    return number


def _deliver_at(headers: Table) -> int:
    value = headers.get(X_DELIVER_AT)
    if value is None:
        return 0
    number = _integer(value)
    if number is not None:
        return number * 1000 if isinstance(value, Timestamp) and number < MOST_SECONDS else number
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is not None:
            # A time without a zone is UTC: the machine's own zone must not matter to clients.
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            return (moment - _EPOCH) // timedelta(milliseconds=1)
    raise _refuse(headers, X_DELIVER_AT, "milliseconds since 1970, a timestamp or an ISO 8601 time")


def _integer(value: Value) -> int | None:
    """parity: only the integer part of a number counts."""
    if isinstance(value, float):
        return int(value) if isfinite(value) else None
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else None


def _refuse(headers: Table, header: str, expected: str) -> AmqpError:
    value, kind = headers[header], kind_name(headers.kind(header))
    shown = f"'{value[:50]}' of type '{kind}'" if isinstance(value, str) else f"a value of type '{kind}'"
    return precondition_failed(f"invalid header '{header}': expected {expected}, got {shown}")
