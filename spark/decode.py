"""Messages to rows: turns deliveries into an Arrow batch with the columns of `schema.read_columns`.

`include_headers` is the value of that option: headers become a map, an array of structs as in Kafka's connector, or are
left out.
"""

import base64
import datetime
import decimal
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Table, Value
from rabbitlike.spark.schema import HEADER_ARRAY, read_columns
from rabbitlike.spark.wire import Delivery

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns that hold the property of the same name.
_PROPERTIES: Final = (
    "message_id", "correlation_id", "content_type", "content_encoding", "type", "app_id", "user_id", "reply_to",
    "expiration",
)  # fmt: skip
#: AMQP timestamps are in seconds, but some publishers send milliseconds: larger values would lie after the year 5138.
_SECONDS_MAX: Final = 100_000_000_000
_MICROSECONDS_MAX: Final = 253_402_300_800_000_000

Row = dict[str, object]


def arrow_schema(include_headers: str) -> "pa.Schema":
    """Return the column types as Spark expects them from Arrow."""
    import pyarrow as pa

    kinds = {
        "binary": pa.binary(),
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
        HEADER_ARRAY: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in read_columns(include_headers).items()])


def to_batch(
    deliveries: Sequence[Delivery], queue: str, *, include_headers: str, first_offset: int | None = None
) -> "pa.RecordBatch":
    """Return the deliveries as a batch; `first_offset` is the offset of the first one, if they are numbered."""
    import pyarrow as pa

    schema = arrow_schema(include_headers)
    count = len(deliveries)
    described = _describe(deliveries, include_headers=include_headers)
    columns: dict[str, Sequence[object]] = {
        "body": [delivery.body for delivery in deliveries],
        "exchange": [_text(delivery.exchange) for delivery in deliveries],
        "routing_key": [_text(delivery.routing_key) for delivery in deliveries],
        "queue": [queue] * count,
        "offset": [None] * count if first_offset is None else range(first_offset, first_offset + count),
        "redelivered": [delivery.redelivered for delivery in deliveries],
    }
    for name in schema.names[len(columns) :]:
        columns[name] = [row[name] for row in described]
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _describe(deliveries: Sequence[Delivery], *, include_headers: str) -> list[Row]:
    """Decode properties; consecutive messages with equal properties are decoded once."""
    rows: list[Row] = []
    last = b""
    row: Row = {}
    for delivery in deliveries:
        if delivery.properties != last:
            last = delivery.properties
            row = _read(Properties(last), include_headers=include_headers)
        rows.append(row)
    return rows


def _read(properties: Properties, *, include_headers: str) -> Row:
    row: Row = {name: _text(getattr(properties, name)) for name in _PROPERTIES}
    row["timestamp"] = _microseconds(properties.timestamp)
    row["priority"] = properties.priority if properties.priority >= 0 else None
    row["delivery_mode"] = properties.delivery_mode
    if include_headers != "false":
        headers = properties.headers
        encode = _shown if include_headers == "map" else _octets
        row["headers"] = None if headers is None else [(_text(key), encode(value)) for key, value in headers.items()]
        row["headers_json"] = None if headers is None else _json(headers)
    return row


def _text(value: str | None) -> str | None:
    """Decode a name: brokers treat names as octets, columns hold text."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _microseconds(value: int | None) -> int | None:
    if value is None:
        return None
    microseconds = value * 1000 if value > _SECONDS_MAX else value * 1_000_000
    return microseconds if microseconds < _MICROSECONDS_MAX else None


def _shown(value: Value) -> str | None:
    """Return a header value as text: strings and numbers unchanged, other types as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return _json(value)


def _octets(value: Value) -> bytes | None:
    """Return a header value as octets: binary values unchanged, other types as their text."""
    if isinstance(value, bytes):
        return value
    shown = _shown(value)
    return None if shown is None else shown.encode()


def _json(value: Value) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_plain)
    return _text(text) or ""


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.datetime | Table):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
