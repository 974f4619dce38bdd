"""What bodies are made of: flags, numbers and tables as RabbitMQ's HTTP API takes them, some of them from texts too."""

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
    """A body: what it holds beyond its fields means nothing. parity"""

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
    # Clients whose language has one word for both send an empty array for an empty table.
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise bad_request("arguments: expected an object")
    return value


Flag: TypeAlias = Annotated[bool, BeforeValidator(_flag)]
Number: TypeAlias = Annotated[int, BeforeValidator(_number)]
Arguments: TypeAlias = Annotated[dict[str, JsonValue], BeforeValidator(_table)]


def to_table(values: dict[str, JsonValue]) -> Table:
    """A JSON object as a field table; a bad request when it holds what AMQP has no form for."""
    try:
        table = _table_of(values)
        # Nothing gets in that could not go out.
        tables.decode(tables.encode(table))
    except (ValueError, OverflowError, RecursionError, AmqpError) as problem:
        raise bad_request(f"arguments: {problem}") from None
    return table


def _table_of(values: dict[str, JsonValue]) -> Table:
    table = Table()
    for key, value in values.items():
        if isinstance(value, int) and not isinstance(value, bool):
            table.put(key, value, "l")  # parity: whatever its size
        else:
            table[key] = _value_of(value)
    return table


def _value_of(value: JsonValue) -> Value:
    if isinstance(value, dict):
        return _table_of(dict(sorted(value.items())))  # parity: Erlang's maps are in the order of their keys
    if isinstance(value, list):
        kinds = ["l" if isinstance(each, int) and not isinstance(each, bool) else "" for each in value]
        return Array(map(_value_of, value), kinds)
    return value


def to_tags(given: str | list[str]) -> list[str]:
    """Tags from a list of them, or from a text with commas between."""
    parts = given.split(",") if isinstance(given, str) else given
    return [tag for part in parts if (tag := part.strip())]


def checked_name(name: str, what: str) -> str:
    """A name that AMQP can carry."""
    if len(name.encode("utf-8", "surrogateescape")) > MAX_NAME:
        raise bad_request(f"{what} name is longer than {MAX_NAME} octets")
    return name


def exchange_name(name: str) -> str:
    """parity: the default exchange, which has no name, is called amq.default in paths."""
    return "" if name == "amq.default" else checked_name(name, "exchange")
