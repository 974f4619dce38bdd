"""Types of fields in request bodies: flags, numbers and tables as RabbitMQ's HTTP API takes them, some also as text."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue

from rabbitlike.management.http.errors import bad_request
from rabbitlike.protocol import tables
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.tables import Array, Table, Value

#: spec: names are short strings.
MAX_NAME: Final = 255


class Body(BaseModel):
    """A request body. parity: unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise bad_request(["not_boolean", value])


def _number(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 20:
        return int(value)
    raise bad_request(["not_integer", value])


def _table(value: object) -> object:
    # Languages without a distinction between the two send an empty array for an empty table.
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise bad_request("arguments: expected an object")
    return value


Flag: TypeAlias = Annotated[bool, BeforeValidator(_flag)]
Number: TypeAlias = Annotated[int, BeforeValidator(_number)]
Arguments: TypeAlias = Annotated[dict[str, JsonValue], BeforeValidator(_table)]


def to_table(values: dict[str, JsonValue]) -> Table:
    """A JSON object as a field table. Raises 400 if AMQP cannot represent a value."""
    try:
        table = _table_of(values)
        # Reject anything that could not be sent to clients.
        tables.decode(tables.encode(table))
    except (ValueError, OverflowError, RecursionError, AmqpError) as problem:
        raise bad_request(f"arguments: {problem}") from None
    return table


def _table_of(values: dict[str, JsonValue]) -> Table:
    table = Table()
    for key, value in values.items():
        if isinstance(value, int) and not isinstance(value, bool):
            table.put(key, value, "l")  # parity: regardless of its size
        else:
            table[key] = _value_of(value)
    return table


def _value_of(value: JsonValue) -> Value:
    if isinstance(value, dict):
        return _table_of(dict(sorted(value.items())))  # parity: Erlang's maps are ordered by key
    if isinstance(value, list):
        kinds = ["l" if isinstance(each, int) and not isinstance(each, bool) else "" for each in value]
        return Array(map(_value_of, value), kinds)
    return value


def to_tags(given: str | list[str]) -> list[str]:
    """Tags from a list, or from a comma-separated text."""
    parts = given.split(",") if isinstance(given, str) else given
    return [tag for part in parts if (tag := part.strip())]


def checked_name(name: str, what: str) -> str:
    """The name. Raises 400 if AMQP cannot carry it."""
    if len(name.encode("utf-8", "surrogateescape")) > MAX_NAME:
        raise bad_request(f"{what} name is longer than {MAX_NAME} octets")
    return name


def exchange_name(name: str) -> str:
    """parity: in paths the default exchange, whose name is empty, is called amq.default."""
    return "" if name == "amq.default" else checked_name(name, "exchange")
