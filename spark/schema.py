"""The columns of messages: which there are to read, and which a DataFrame to be written may have.

Checked on the driver before anything runs. Kafka's `value` and `key` are taken for `body` and `routing_key`.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyspark.sql.types import (
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

#: In this order, as rows have them that were read.
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

_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_TEXT: Final = (StringType,)

#: What may be written, and the types it may have.
WRITE_COLUMNS: Final[dict[str, tuple[type[DataType], ...]]] = {
    "body": (BinaryType, StringType),
    "exchange": _TEXT,
    "routing_key": _TEXT,
    "headers": (MapType,),
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
    """A column that messages do not have, or that cannot hold what it is to hold."""


class WritePlan(NamedTuple):
    """Which columns of a DataFrame are which parts of a message, by their place."""

    places: dict[str, int]
    #: Columns that become the fields of a JSON body, name and place.
    fields: tuple[tuple[str, int], ...]


def read_ddl(options: Options) -> str:
    """The columns of rows that are read, as Spark writes a schema."""
    return ", ".join(
        f"`{name}` {kind}"
        for name, kind in READ_COLUMNS.items()
        if options.include_headers or name not in HEADER_COLUMNS
    )


def plan_write(schema: StructType, options: Options) -> WritePlan:
    """ColumnError when these columns do not make messages."""
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
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType) or not isinstance(kind.valueType, _HEADER_VALUES):
            raise ColumnError(
                f"column '{shown}' is {kind.simpleString()}, and must be a map of strings to strings or numbers"
            )
