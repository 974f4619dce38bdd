"""When a publish is to be delivered: the headers `x-delay` and `x-deliver-at`, read and checked.

`x-delay` is negated in what consumers get, as RabbitMQ's delayed message exchange does: it says how long the message
waited, and a client that publishes it again with the headers it came with does not delay it again.
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Final

from rabbitlike.protocol.constants import CONTENT_ENCODING, CONTENT_TYPE
from rabbitlike.protocol.errors import AmqpError, precondition_failed
from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Table, Timestamp, Value, kind_name

X_DELAY: Final = "x-delay"
X_DELIVER_AT: Final = "x-deliver-at"
DELAY_KEY: Final = X_DELAY.encode()
DELIVER_AT_KEY: Final = X_DELIVER_AT.encode()

#: The end of the year 9999: what datetime, and with it ISO times, can say.
LATEST_MS: Final = 253_402_300_799_999
#: A timestamp is in seconds; one beyond this is a client's that put milliseconds (in seconds it is the year 5138).
MOST_SECONDS: Final = 100_000_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
#: A table of one entry, x-delay, as nearly every delayed message has it: its head, and the size of the value by type.
_LONE: Final = b"\x07x-delay"
_LOWEST: Final = {1: -(1 << 7), 2: -(1 << 15), 4: -(1 << 31), 8: -(1 << 63)}
_SIGNED: Final = {ord("b"): 1, ord("s"): 2, ord("I"): 4, ord("l"): 8, ord("L"): 8}


def is_timed(properties: Properties) -> bool:
    """Whether the headers may say when to deliver: never wrongly false."""
    return properties.mentions(DELAY_KEY) or properties.mentions(DELIVER_AT_KEY)


def read_due(properties: Properties, now_ms: int) -> tuple[int, Properties]:
    """When a message is due, 0 meaning at once, and its properties as consumers shall see them. 406 for a value that
    says nothing. parity: missing, zero and negative delays mean at once. Of two headers the later time holds."""
    lone = _read_lone(properties)
    if lone is not None:
        at, size, delay_ms = lone
        if delay_ms <= 0:
            return 0, properties
        raw = properties.raw
        negated = (-delay_ms).to_bytes(size, "big", signed=True)
        return _due(X_DELAY, now_ms, delay_ms), Properties(raw[:at] + negated + raw[at + size :])
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
        # parity: whatever its type was, it is a signed integer now.
        headers.put(X_DELAY, -delay_ms, "I" if delay_ms < 1 << 31 else "l")
        properties = properties.replace(headers=headers)
    return due_ms, properties


def _read_lone(properties: Properties) -> tuple[int, int, int] | None:
    """Where the number stands, its size, and the number, if x-delay is the one header and its type has a sign."""
    raw = properties.raw
    flags = properties.flags
    if raw[1] & 3:  # more words of flags
        return None
    at = 2
    if flags & CONTENT_TYPE:
        at += 1 + raw[at]
    if flags & CONTENT_ENCODING:
        at += 1 + raw[at]
    at += 4
    if raw[at : at + 8] != _LONE:
        return None
    size = _SIGNED.get(raw[at + 8], 0)
    if size == 0 or int.from_bytes(raw[at - 4 : at], "big") != 9 + size:
        return None
    at += 9
    delay_ms = int.from_bytes(raw[at : at + size], "big", signed=True)
    return None if delay_ms == _LOWEST[size] else (at, size, delay_ms)


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
            # A time without a zone is UTC: the machine's own zone is none of a client's business.
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            return (moment - _EPOCH) // timedelta(milliseconds=1)
    raise _refuse(headers, X_DELIVER_AT, "milliseconds since 1970, a timestamp or an ISO 8601 time")


def _integer(value: Value) -> int | None:
    """parity: of a number with a fraction, what stands before the point."""
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
