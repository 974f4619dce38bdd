"""The columns of messages: those that are read, and those that a written DataFrame may have.

Checked on the driver before the job runs. Kafka's `value` and `key` are aliases of `body` and `routing_key`.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from rabbitlike.spark.options import Options, nearest

#: Columns of rows that are read, in this order.
READ_COLUMNS: Final[dict[str, str]] = {
    "body": "binary",
    "exchange": "string",
    "routing_key": "string",
    "queue": "string",
    "offset": "bigint",
    "redelivered": "boolean",
    "timestamp": "timestamp",
    "message_id": "string",
    "correlation_id": "string",
    "content_type": "string",
    "content_encoding": "string",
    "type": "string",
    "app_id": "string",
    "user_id": "string",
    "reply_to": "string",
    "expiration": "string",
    "priority": "int",
    "delivery_mode": "int",
    "headers": "map<string,string>",
    "headers_json": "string",
}
HEADER_COLUMNS: Final = ("headers", "headers_json")
#: The type of `headers` with includeHeaders=true, as in Kafka's connector.
HEADER_ARRAY: Final = "array<struct<key:string,value:binary>>"

_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_TEXT: Final = (StringType,)

#: Columns that can be written, with their permitted types.
WRITE_COLUMNS: Final[dict[str, tuple[type[DataType], ...]]] = {
    "body": (BinaryType, StringType),
    "exchange": _TEXT,
    "routing_key": _TEXT,
    "headers": (MapType, ArrayType),
    "priority": _INTEGERS,
    "expiration": (StringType, *_INTEGERS),
    "message_id": _TEXT,
    "correlation_id": _TEXT,
    "content_type": _TEXT,
    "content_encoding": _TEXT,
    "type": _TEXT,
    "timestamp": (TimestampType, *_INTEGERS),
    "app_id": _TEXT,
    "user_id": _TEXT,
    "reply_to": _TEXT,
    "delivery_mode": _INTEGERS,
}
ALIASES: Final = {"value": "body", "key": "routing_key"}
_HEADER_VALUES: Final = (*_INTEGERS, StringType, BooleanType, FloatType, DoubleType, BinaryType)


class ColumnError(ValueError):
    """An unknown column, or one whose type does not fit."""


class WritePlan(NamedTuple):
    """Positions of a DataFrame's columns by part of the message."""

    places: dict[str, int]
    #: Columns that become the fields of a JSON body, name and position.
    fields: tuple[tuple[str, int], ...]


def read_columns(include_headers: str) -> dict[str, str]:
    """Return the columns of rows that are read, with their types; `include_headers` is the option's value."""
    if include_headers == "false":
        return {name: kind for name, kind in READ_COLUMNS.items() if name not in HEADER_COLUMNS}
    return READ_COLUMNS if include_headers == "map" else READ_COLUMNS | {"headers": HEADER_ARRAY}


def read_ddl(options: Options) -> str:
    """Return the columns of rows that are read, as a Spark DDL schema."""
    return ", ".join(f"`{name}` {kind}" for name, kind in read_columns(options.include_headers).items())


def check_read(schema: StructType, options: Options) -> None:
    """Raise ColumnError if `.schema(…)` asks for columns that messages do not have."""
    columns = read_columns(options.include_headers)
    asked = {column.name: column.dataType.simpleString() for column in schema.fields}
    if asked == columns:
        return
    wrong = next((f"{name} {kind}" for name, kind in asked.items() if columns.get(name) != kind), None)
    why = "some are missing" if wrong is None else f"'{wrong}' is none of them"
    raise ColumnError(
        f"messages have columns of their own, so leave .schema(…) out: {why}. They are "
        f"{', '.join(f'{name} {kind}' for name, kind in columns.items())}. To take a JSON body apart use "
        "from_json(cast(body as string), …)"
    )


def plan_write(schema: StructType, options: Options) -> WritePlan:
    """Return the columns by part of the message; raise ColumnError if they do not make messages."""
    places: dict[str, int] = {}
    others: list[tuple[str, int]] = []
    for place, column in enumerate(schema.fields):
        lowered = column.name.lower()
        name = ALIASES.get(lowered, lowered)
        if name not in WRITE_COLUMNS:
            others.append((column.name, place))
        elif name in places:
            raise ColumnError(f"columns '{schema.fields[places[name]].name}' and '{column.name}' both are the {name}")
        else:
            _check_type(column.name, name, column.dataType)
            places[name] = place
    if options.format == "json":
        if "body" in places:
            raise ColumnError("option format is json, which makes the body of the other columns, and there is a body")
        return WritePlan(places, tuple(others))
    if others and not options.ignore_unknown_columns:
        _refuse_unknown(name for name, _ in others)
    if "body" not in places:
        raise ColumnError(
            "a column body (or value) is missing; or make one of the other columns with the option format=json"
        )
    return WritePlan(places, ())


def _refuse_unknown(names: Iterable[str]) -> None:
    first = next(iter(names))
    known = {name: name for name in (*WRITE_COLUMNS, *ALIASES)}
    raise ColumnError(
        f"messages have no column '{first}'{nearest(first, known)} "
        "Options that help: ignoreUnknownColumns=true leaves it out, format=json puts it into the body"
    )


def _check_type(shown: str, name: str, kind: DataType) -> None:
    allowed = WRITE_COLUMNS[name]
    if not isinstance(kind, allowed):
        words = " or ".join(each.typeName() for each in allowed)
        raise ColumnError(f"column '{shown}' is {kind.simpleString()}, and must be {words}")
    if name == "headers" and not _is_headers(kind):
        raise ColumnError(
            f"column '{shown}' is {kind.simpleString()}, and must be a map of strings to strings or numbers, or an "
            "array of structs of key and value"
        )


def _is_headers(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, _HEADER_VALUES)
    pair = kind.elementType if isinstance(kind, ArrayType) else None
    return (
        isinstance(pair, StructType)
        and pair.names == ["key", "value"]
        and isinstance(pair["key"].dataType, StringType)
        and isinstance(pair["value"].dataType, _HEADER_VALUES)
    )
