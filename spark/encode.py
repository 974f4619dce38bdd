"""Rows to messages: turns an Arrow batch into three columns (routes, property lists, bodies), column by column.

A property field is one string for all rows, or a list with one string per row, empty where a row has no value. Columns
that are equal in all rows stay one string to the end.
"""

import base64
import datetime
import decimal
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from struct import Struct
from typing import TYPE_CHECKING, Final

from rabbitlike.protocol import tables
from rabbitlike.protocol.constants import (
    APP_ID,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    EXPIRATION,
    HEADERS,
    MESSAGE_ID,
    PRIORITY,
    REPLY_TO,
    TIMESTAMP,
    TYPE,
    USER_ID,
)
from rabbitlike.spark.options import Options
from rabbitlike.spark.publisher import route
from rabbitlike.spark.schema import ColumnError, WritePlan

if TYPE_CHECKING:
    import pyarrow as pa

DEDUPLICATION_HEADER: Final = "x-deduplication-header"

_TEXTS: Final[dict[str, int]] = {
    "content_type": CONTENT_TYPE,
    "content_encoding": CONTENT_ENCODING,
    "correlation_id": CORRELATION_ID,
    "reply_to": REPLY_TO,
    "expiration": EXPIRATION,
    "message_id": MESSAGE_ID,
    "type": TYPE,
    "user_id": USER_ID,
    "app_id": APP_ID,
}
_OCTETS: Final[dict[str, int]] = {"delivery_mode": DELIVERY_MODE, "priority": PRIORITY}
_LENGTHS: Final = [bytes((size,)) for size in range(256)]
_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_ROUTES_MAX: Final = 10000
_ID_ENTRY: Final = _LENGTHS[len(DEDUPLICATION_HEADER)] + DEDUPLICATION_HEADER.encode() + b"S"

Field = bytes | list[bytes]


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages for a publisher. `routes` and `properties` may be one value for all messages, repeated without end."""

    count: int
    routes: Iterable[bytes]
    properties: Iterable[bytes]
    bodies: list[bytes]


@dataclass(frozen=True, slots=True)
class Draft:
    """Messages whose property lists are not assembled yet, so that ids can be added."""

    count: int
    routes: Iterable[bytes]
    fields: dict[int, Field]
    #: Contents of the header tables, None where a row has none.
    headers: "list[bytes | None] | None"
    bodies: list[bytes]

    def message_ids(self) -> list[bytes] | None:
        """Return the values of column message_id, with length prefixes, empty for null; None without such a column."""
        ids = self.fields.get(MESSAGE_ID)
        return ids if isinstance(ids, list) else None

    def finish(self) -> Messages:
        return Messages(self.count, self.routes, assemble(self._with_headers(None), self.count), self.bodies)

    def finish_with_ids(self, ids: list[bytes], *, with_header: bool) -> Messages:
        """Assemble messages with ids as message_id and, if asked for, as the deduplication header."""
        fields = self._with_headers(ids if with_header else None)
        fields[MESSAGE_ID] = [_short(each, "message_id") for each in ids]
        return Messages(self.count, self.routes, assemble(fields, self.count), self.bodies)

    def _with_headers(self, ids: list[bytes] | None) -> dict[int, Field]:
        fields = dict(self.fields)
        insides = self.headers
        if ids is not None:
            given = [None] * self.count if insides is None else insides
            insides = [
                (inside or b"") + _ID_ENTRY + _U32.pack(len(each)) + each
                for inside, each in zip(given, ids, strict=True)
            ]
        if insides is not None:
            fields[HEADERS] = [b"" if each is None else _U32.pack(len(each)) + each for each in insides]
        return fields


class Encoder:
    """Makes drafts of the batches of one partition."""

    def __init__(self, plan: WritePlan, options: Options) -> None:
        self._plan = plan
        self._options = options
        self._routes: dict[tuple[bytes, bytes], bytes] = {}
        self._fixed: dict[int, Field] = {DELIVERY_MODE: _LENGTHS[options.delivery_mode]}
        if options.format == "json":
            self._fixed[CONTENT_TYPE] = b"\x10application/json"

    def encode(self, batch: "pa.RecordBatch") -> Draft:
        places = self._plan.places
        fields = dict(self._fixed)
        for name, flag in _TEXTS.items():
            if name in places:
                fields[flag] = _texts(batch.column(places[name]), name)
        for name, flag in _OCTETS.items():
            if name in places:
                fields[flag] = _each(batch.column(places[name]), _octet(name))
        if "timestamp" in places:
            fields[TIMESTAMP] = _timestamps(batch.column(places["timestamp"]))
        headers = None
        if "headers" in places:
            headers = _headers(batch.column(places["headers"]))
        return Draft(batch.num_rows, self._route_column(batch), fields, headers, self._bodies(batch))

    def _bodies(self, batch: "pa.RecordBatch") -> list[bytes]:
        if self._options.format == "json":
            names = [name for name, _ in self._plan.fields]
            columns = [batch.column(place).to_pylist(maps_as_pydicts="strict") for _, place in self._plan.fields]
            return [_json(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
        column = batch.column(self._plan.places["body"])
        if column.null_count:
            raise ColumnError("column 'body' is null in a row; a message without a body is empty, not null")
        return _octets(column)

    def _route_column(self, batch: "pa.RecordBatch") -> Iterable[bytes]:
        places = self._plan.places
        if "exchange" not in places and "routing_key" not in places:
            return repeat(self._route(self._options.exchange.encode(), (self._options.routing_key or "").encode()))
        exchanges = self._names(batch, "exchange", self._options.exchange)
        keys = self._names(batch, "routing_key", self._options.routing_key)
        known = self._routes
        return [known.get(pair) or self._route(*pair) for pair in zip(exchanges, keys, strict=False)]

    def _names(self, batch: "pa.RecordBatch", name: str, otherwise: str | None) -> Iterable[bytes]:
        spare = None if otherwise is None else otherwise.encode()
        place = self._plan.places.get(name)
        if place is None:
            # Finite, like the other column.
            return repeat(spare or b"", batch.num_rows)
        column = batch.column(place)
        if column.null_count == 0:
            return _octets(column)
        if spare is None:
            raise ColumnError("column 'routing_key' is null in a row, and there is no option routingKey")
        return [spare if each is None else each for each in _octets(column)]

    def _route(self, exchange: bytes, key: bytes) -> bytes:
        for what, name in (("exchange", exchange), ("routing_key", key)):
            if len(name) > 255:
                raise ColumnError(f"{what} '{name[:40].decode(errors='replace')}…' is longer than 255 octets")
        if len(self._routes) >= _ROUTES_MAX:
            self._routes.clear()
        made = route(exchange.decode(), key.decode(), mandatory=self._options.mandatory)
        self._routes[exchange, key] = made
        return made


def assemble(fields: dict[int, Field], count: int) -> Iterable[bytes]:
    """Build the property flags and list of each row. The fields follow the order of their flags, highest first."""
    always = 0
    sometimes: list[tuple[int, list[bytes]]] = []
    parts: list[Field] = []
    for flag in sorted(fields, reverse=True):
        field = fields[flag]
        if isinstance(field, bytes) or b"" not in field:
            always |= flag
        else:
            sometimes.append((flag, field))
        parts.append(field)
    flags: Field = _U16.pack(always)
    if sometimes:
        words = [always] * count
        for flag, field in sometimes:
            words = [word | flag if each else word for word, each in zip(words, field, strict=True)]
        flags = list(map(_U16.pack, words))
    merged = _merge([flags, *parts])
    if len(merged) == 1:
        only = merged[0]
        return repeat(only) if isinstance(only, bytes) else only
    columns: list[Iterable[bytes]] = [repeat(each) if isinstance(each, bytes) else each for each in merged]
    return map(b"".join, zip(*columns, strict=False))


def _merge(parts: Sequence[Field]) -> list[Field]:
    """Join neighbours that are equal in all rows."""
    merged: list[Field] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, bytes) and isinstance(last, bytes):
            merged[-1] = last + part
        else:
            merged.append(part)
    return merged


def _octets(column: "pa.Array") -> list[bytes]:
    import pyarrow as pa

    values: list[bytes] = column.cast(pa.large_binary()).to_pylist()
    return values


def _texts(column: "pa.Array", name: str) -> list[bytes]:
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    return [b"" if each is None else _short(each, name) for each in _octets(column)]


def _short(text: bytes, name: str) -> bytes:
    size = len(text)
    if size > 255:
        raise ColumnError(f"{name} '{text[:40].decode(errors='replace')}…' is longer than 255 octets")
    return _LENGTHS[size] + text


def _octet(name: str) -> Callable[[int], bytes]:
    def encode(value: int) -> bytes:
        if not 0 <= value <= 255:
            raise ColumnError(f"column '{name}' is {value} in a row, and must be a number from 0 to 255")
        return _LENGTHS[value]

    return encode


def _each(column: "pa.Array", encode: Callable[[int], bytes]) -> list[bytes]:
    return [b"" if each is None else encode(each) for each in column.to_pylist()]


def _timestamps(column: "pa.Array") -> list[bytes]:
    """Encode timestamps; AMQP counts in seconds."""
    import pyarrow as pa

    per_second = 1
    if pa.types.is_timestamp(column.type):
        per_second = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    numbers = column.cast(pa.int64()).to_pylist()
    if any(number is not None and number < 0 for number in numbers):
        raise ColumnError("column 'timestamp' is before 1970 in a row, which AMQP cannot say")
    return [b"" if number is None else _U64.pack(number // per_second) for number in numbers]


def _headers(column: "pa.Array") -> list[bytes | None]:
    """Encode maps or arrays of structs as field tables, without their length prefix."""
    import pyarrow as pa

    rows = column.to_pylist()
    if not pa.types.is_map(column.type):
        rows = [None if row is None else list(map(_pair, row)) for row in rows]
    return [None if row is None else tables.encode(dict(row))[4:] for row in rows]


def _pair(header: dict[str, str | None] | None) -> tuple[str, str | None]:
    key = header["key"] if header is not None else None
    if header is None or key is None:
        raise ColumnError("column 'headers' has a header without a key in a row")
    return key, header["value"]


def _json(row: dict[str, object]) -> bytes:
    """Encode a row as Spark's to_json does: null fields are left out."""
    present = {name: value for name, value in row.items() if value is not None}
    return json.dumps(present, separators=(",", ":"), ensure_ascii=False, default=_plain).encode()


def _plain(value: object) -> object:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="milliseconds")
        text = value.astimezone(datetime.UTC).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)
