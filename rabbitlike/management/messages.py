"""Messages in JSON: properties in both directions, encoding of bodies, and filters."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from rabbitlike.broker import views
from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.management.http.bodies import to_table
from rabbitlike.management.http.errors import bad_request
from rabbitlike.management.http.replies import text_or_base64
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    from fastapi.datastructures import QueryParams
    from pydantic import JsonValue

    from rabbitlike.broker.message import Message
    from rabbitlike.protocol.properties import FieldValue

View = dict[str, object]

#: In RabbitMQ's order.
FIELDS: Final = (
    "cluster_id",
    "app_id",
    "user_id",
    "type",
    "timestamp",
    "message_id",
    "expiration",
    "reply_to",
    "correlation_id",
    "priority",
    "delivery_mode",
    "headers",
    "content_encoding",
    "content_type",
)
NUMBERS: Final = ("delivery_mode", "priority", "timestamp")


def properties_view(raw: bytes) -> View | list[object]:
    """parity: an empty array if there are no properties."""
    properties = Properties(raw)
    view: View = {}
    for name in FIELDS:
        value = getattr(properties, name)
        if name == "headers" and value is not None:
            view[name] = views.table(value)
        elif name == "priority":
            if properties.priority >= 0:
                view[name] = properties.priority
        elif value is not None:
            view[name] = views.text(value) if isinstance(value, str) else value
    return view or []


def to_properties(values: Mapping[str, JsonValue]) -> Properties:
    """Properties from JSON. parity: unknown names are ignored."""
    fields: dict[str, FieldValue] = {}
    for name in FIELDS:
        value = values.get(name)
        if value is None:
            continue
        if name == "headers":
            if not isinstance(value, dict):
                raise bad_request("headers: expected an object")
            fields[name] = to_table(value)
        elif name in NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool):
                raise bad_request(["not_int", name])
            fields[name] = value
        else:
            if not isinstance(value, str):
                raise bad_request(["not_string", name])
            fields[name] = value
    try:
        return Properties.build(**fields)
    except (ValueError, OverflowError) as problem:
        raise bad_request(f"properties: {problem}") from None


def payload_view(body: bytes, encoding: str, truncate: int | None = None) -> View:
    shown = body if truncate is None else body[: max(0, truncate)]
    if encoding == "base64":
        return {"payload": b64encode(shown).decode("ascii"), "payload_encoding": "base64"}
    payload, used = text_or_base64(shown)
    return {"payload": payload, "payload_encoding": used}


def to_payload(payload: str, encoding: str) -> bytes:
    if encoding == "string":
        return payload.encode("utf-8", "surrogatepass")
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return b64decode(payload, validate=True)
    except ValueError:
        raise bad_request(["not_base64", payload]) from None


def message_view(message: Message, encoding: str, truncate: int | None) -> View:
    """The view of a message that stays in its queue."""
    return {
        "position": message.position,
        "payload_bytes": len(message.body),
        "redelivered": message.attempts > 0,
        "exchange": views.text(exchange_of(message.address)),
        "routing_key": views.text(routing_key_of(message.address)),
        "published_at": message.published_at_ms,
        "expires_at": message.expires_at_ms or None,
        "properties": properties_view(message.properties),
        **payload_view(message.body, encoding, truncate),
    }


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects messages. All conditions must hold; values are compared as text."""

    headers: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    exchange: str | None = None
    routing_key: str | None = None

    @property
    def is_empty(self) -> bool:
        return self == Filter()

    @property
    def test(self) -> Callable[[Message], bool] | None:
        """`matches`, or None if the filter is empty."""
        return None if self.is_empty else self.matches

    def matches(self, message: Message) -> bool:
        # Cheapest comparison first: most messages fail it.
        if self.exchange is not None and exchange_of(message.address) != self.exchange:
            return False
        if self.routing_key is not None and routing_key_of(message.address) != self.routing_key:
            return False
        if self.text and self.text.encode("utf-8", "surrogatepass") not in message.body:
            return False
        return not (self.headers or self.properties) or self._has_fields(Properties(message.properties))

    def _has_fields(self, properties: Properties) -> bool:
        for name, wanted in self.properties.items():
            value = getattr(properties, name)
            if value is None or _as_text(value) != wanted:
                return False
        if not self.headers:
            return True
        headers: Mapping[str, object] = properties.headers or {}
        return all(name in headers and _as_text(headers[name]) == wanted for name, wanted in self.headers.items())


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def filter_of(query: QueryParams) -> Filter:
    """The filter in a query: `header.x=y`, `property.type=order`, `text=…`, `exchange=…`, `routing_key=…`."""
    headers: dict[str, str] = {}
    properties: dict[str, str] = {}
    for name, value in query.multi_items():
        if name.startswith("header."):
            headers[name.removeprefix("header.")] = value
        elif name.startswith("property."):
            properties[_known(name.removeprefix("property."))] = value
    return Filter(headers, properties, query.get("text", ""), query.get("exchange"), query.get("routing_key"))


def filter_from(body: Mapping[str, object]) -> Filter:
    """The filter in a body: `{"headers": {…}, "properties": {…}, "text": …}`."""
    unknown = body.keys() - {"headers", "properties", "text", "exchange", "routing_key"}
    if unknown:
        raise bad_request(f"filter: nothing is known of {sorted(unknown)[0]!r}")
    tables = {}
    for name in ("headers", "properties"):
        table = body.get(name, {})
        if not isinstance(table, dict):
            raise bad_request(f"filter.{name}: expected an object")
        tables[name] = {str(key): _as_text(value) for key, value in table.items()}
    for name in ("text", "exchange", "routing_key"):
        if not isinstance(body.get(name, ""), str):
            raise bad_request(f"filter.{name}: expected a string")
    return Filter(
        tables["headers"],
        {_known(name): value for name, value in tables["properties"].items()},
        cast("str", body.get("text", "")),
        cast("str | None", body.get("exchange")),
        cast("str | None", body.get("routing_key")),
    )


def _known(name: str) -> str:
    if name not in FIELDS or name == "headers":
        raise bad_request(f"no such property: {name!r}")
    return name
