"""What clients see of an operator at the management port."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pika
import pytest

from interop.management.doors import Doors
from interop.patience import PATIENCE_S, eventually

Unique = Callable[[str], str]


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"X-Reason": "told so"}, "CONNECTION_FORCED - told so"),
        ({}, "CONNECTION_FORCED - Closed via management plugin"),
    ],
)
def test_closing_a_connection(doors: Doors, unique: Unique, headers: dict[str, str], text: str) -> None:
    """#38 With 320 and the operator's reason."""
    name = unique("closed")
    with doors.connect(name) as connection:

        def found() -> list[str]:
            connections: Any = doors.get("/connections?columns=name,user_provided_name")
            return [each["name"] for each in connections if each.get("user_provided_name") == name]

        eventually(lambda: bool(found()), "the connection is listed")
        answer = doors.ask(f"/connections/{quote(found()[0], safe='')}", "DELETE", headers=headers)
        assert answer.status_code == 204
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            connection.process_data_events(PATIENCE_S)
        assert (closed.value.reply_code, closed.value.reply_text) == (320, text)


def test_bindings_of_the_default_exchange(doors: Doors, unique: Unique) -> None:
    """#63 Every queue shows one, whose source has no name; nobody can make or remove one."""
    name = unique("bound")
    doors.do("PUT", f"/queues/%2F/{name}", {})
    binding = {
        "source": "",
        "vhost": "/",
        "destination": name,
        "destination_type": "queue",
        "routing_key": name,
        "arguments": {},
        "properties_key": name,
    }
    assert doors.get(f"/queues/%2F/{name}/bindings") == [binding]
    assert doors.get(f"/bindings/%2F/e/amq.default/q/{name}/{name}") == binding
    sources: Any = doors.get("/exchanges/%2F/amq.default/bindings/source")
    assert binding in sources
    assert doors.ask(f"/bindings/%2F/e/amq.default/q/{name}/{name}", "DELETE").status_code == 401
    assert doors.ask(f"/bindings/%2F/e/amq.default/q/{name}", "POST", {"routing_key": "x"}).status_code == 401
    doors.do("DELETE", f"/queues/%2F/{name}")
