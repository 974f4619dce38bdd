"""Whatever the API's own description allows is asked of a throw-away broker: it answers, and is never at fault.

Requests are made up from /api/openapi.json. Names in paths are mostly those of things that exist, so that what is
destroyed is real; it is all put back before the next operation.
"""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from interop.management.doors import TIMEOUT_S, Doors
from tests.support.broker_process import running

KEEPER: Final = ("keeper", "of the keys")
EXAMPLES: Final = 6
SERVER_FAULT: Final = 500
#: A health check that fails, and what a queue that is not replicated cannot do, as RabbitMQ says it.
UNAVAILABLE: Final = 503
MAY_BE_UNAVAILABLE: Final = ("/api/health", "/api/queues/quorum")
#: Does not end.
STREAMS: Final = ("/api/livelog",)
#: What paths may name, by parameter.
NAMES: Final[dict[str, list[str]]] = {
    "vhost": ["/", "fuzzed"],
    "queue": ["fuzzed"],
    "exchange": ["fuzzed", "amq.default", "amq.topic"],
    "source": ["fuzzed", "amq.default"],
    "destination": ["fuzzed"],
    "user": ["fuzzed", "guest"],
    "username": ["fuzzed", "guest"],
    "policy": ["fuzzed"],
    "parameter": ["limits", "fuzzed"],
    "properties": ["~", "fuzzed"],
    "position": ["1"],
    "protocols": ["amqp", "amqp,http"],
    "unit": ["days"],
    "within": ["1"],
    "component": ["vhost-limits", "fuzzed"],
    "limit": ["max-queues", "max-connections", "max-channels"],
}
VHOSTS: Final = ("/", "fuzzed")
THINGS: Final = {
    "users": [{"name": "fuzzed", "password_hash": "", "tags": ["management"]}],
    "vhosts": [{"name": vhost} for vhost in VHOSTS],
    "permissions": [
        {"user": user, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}
        for user in (KEEPER[0], "fuzzed")
        for vhost in VHOSTS
    ],
    "policies": [
        {"vhost": vhost, "name": "fuzzed", "pattern": "^fuzzed", "definition": {"max-length": 100}} for vhost in VHOSTS
    ],
    "queues": [
        {"vhost": vhost, "name": "fuzzed", "durable": True, "auto_delete": False, "arguments": {}} for vhost in VHOSTS
    ],
    "exchanges": [
        {"vhost": vhost, "name": "fuzzed", "type": "topic", "durable": True, "auto_delete": False, "arguments": {}}
        for vhost in VHOSTS
    ],
    "bindings": [
        {
            "vhost": vhost,
            "source": "fuzzed",
            "destination": "fuzzed",
            "destination_type": "queue",
            "routing_key": "fuzzed",
            "arguments": {},
        }
        for vhost in VHOSTS
    ],
}


@pytest.fixture
def broker() -> Iterator[Doors]:
    with running() as process:
        doors = Doors("127.0.0.1", process.port, process.management_port)
        doors.do("PUT", f"/users/{KEEPER[0]}", {"password": KEEPER[1], "tags": "administrator"})
        yield doors
        doors.close()


def _put_back(broker: Doors) -> None:
    """Something of every kind, whatever was destroyed before."""
    broker.do("POST", "/definitions", THINGS, auth=KEEPER)
    for vhost in VHOSTS:
        message = {"properties": {}, "routing_key": "fuzzed", "payload": "x", "payload_encoding": "string"}
        broker.ask(f"/exchanges/{quote(vhost, safe='')}/amq.default/publish", "POST", message, auth=KEEPER)


def _names(context: Any, path_parameters: dict[str, Any] | None) -> st.SearchStrategy[dict[str, Any]]:
    """Mostly a name that exists, else what was made up."""
    return st.fixed_dictionaries(
        {name: st.sampled_from([*NAMES.get(name, []), value]) for name, value in (path_parameters or {}).items()}
    )


def test_no_answer_is_a_fault(broker: Doors) -> None:
    schema = schemathesis.openapi.from_dict(broker.get("/openapi.json"))  # type: ignore[arg-type]
    schema.config.update(base_url=broker.url)
    schema.hooks.register_hook_with_name(_names, "flatmap_path_parameters")
    faults: dict[str, str] = {}

    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @seed(0)
    @given(data=st.data())
    def ask(operation: Any, data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(GenerationMode))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        answer = case.call(auth=KEEPER, timeout=TIMEOUT_S)
        is_meant = answer.status_code == UNAVAILABLE and operation.path.startswith(MAY_BE_UNAVAILABLE)
        if answer.status_code >= SERVER_FAULT and not is_meant:
            faults.setdefault(operation.label, f"{answer.status_code} {answer.text[:200]}: {case.as_curl_command()}")

    asked = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.path not in STREAMS:
            if operation.method != "get":
                _put_back(broker)
            ask(operation)
            asked += 1
    assert asked > 100, "the description is not whole"
    assert not faults, "\n".join(faults.values())
