"""How URLs name a binding: octet by octet as RabbitMQ does, because tools store them."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from interop.management.doors import Doors

#: Arguments given over AMQP, in pika's types.
AMQP: dict[str, dict[str, Any]] = {
    "texts": {"x-match": "any", "name": "bär", "empty": ""},
    "numbers": {"b": 1, "a": -1, "c": 1 << 40, "d": -(1 << 62), "e": 1 << 28},
    "others": {"t": True, "f": False, "v": None, "price": Decimal("12.50")},
    "times": {"at": datetime(2024, 5, 17, 12, tzinfo=UTC)},
    "nested": {"list": ["a", 1, {"z": 1, "a": [True]}, []], "table": {"z": "more than twelve octets", "a": {}}},
    "octets": {"raw": b"\x00\xff" * 20},
}
#: And over HTTP.
HTTP: dict[str, dict[str, Any]] = {
    "texts": {"x-match": "all", "name": "bär"},
    "numbers": {"n": 7, "m": -7, "large": 1 << 50, "half": 0.5},
    "nested": {"list": [1, "two", {"z": 1, "a": 2}], "table": {"z": [], "a": {"c": True, "b": False}}},
}


def bind(doors: Doors) -> dict[str, str]:
    """The properties_key of each binding, by its routing key; and each is found under it."""
    base = "/bindings/%2F/e/amq.direct/q/bound"
    with doors.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("bound")
        for name, arguments in AMQP.items():
            channel.queue_bind("bound", "amq.direct", f"amqp {name}/é", arguments)
        locations = {}
        for name, arguments in HTTP.items():
            made = doors.do("POST", base, {"routing_key": f"http/{name}", "arguments": arguments})
            locations[f"http/{name}"] = made.headers["location"]
        listed: Any = doors.get(base)
        keys = {binding["routing_key"]: binding["properties_key"] for binding in listed}
        for binding in listed:
            assert doors.get(f"{base}/{quote(binding['properties_key'], safe='')}") == binding
        for key in keys.values():
            doors.do("DELETE", f"{base}/{quote(key, safe='')}")
        assert doors.get(base) == []
        channel.queue_delete("bound")
    return keys | {f"location of {name}": place for name, place in locations.items()}


def test_keys_are_rabbitmqs(theirs: Doors, ours: Doors) -> None:
    expected = bind(theirs)
    assert len(expected) == len(AMQP) + 2 * len(HTTP)
    assert bind(ours) == expected
