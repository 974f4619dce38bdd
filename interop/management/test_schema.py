"""Whatever the API's own description allows is asked of a throw-away broker: it answers, and is never at fault.

Requests are made up from /api/openapi.json. Names in paths are mostly those of things that exist, so that what is
destroyed is real; it is all put back before the next operation.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from interop.management.doors import Doors
from tests.support.broker_process import running

KEEPER: Final = ("keeper", "of the keys")
EXAMPLES: Final = 12
SERVER_FAULT: Final = 500
#: What else than a success or a refusal is right: the liveness of something that is down.
UNAVAILABLE: Final = 503
#: What paths may name, by parameter.
NAMES: Final[dict[str, list[str]]] = {
    "vhost": ["/", "fuzzed"],
    "queue": ["fuzzed"],
    "exchange": ["fuzzed", "amq.default", "amq.topic"],
    "source": ["fuzzed", "amq.default"],
    "destination": ["fuzzed"],
    "user": ["fuzzed", "guest"],
    "name": ["fuzzed"],
    "key": ["~", "fuzzed"],
    "component": ["vhost-limits", "fuzzed"],
    "limit": ["max-queues", "max-connections", "max-channels"],
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
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    broker.do("PUT", "/users/fuzzed", {"password": "x", "tags": "management"}, auth=KEEPER)
    for vhost in ("fuzzed", "%2F"):
        broker.do("PUT", f"/vhosts/{vhost}", {}, auth=KEEPER)
        for user in (KEEPER[0], "fuzzed"):
            broker.do("PUT", f"/permissions/{vhost}/{user}", everything, auth=KEEPER)
        # Refusals are fine: of what is there it may be another kind by now.
        broker.ask(f"/queues/{vhost}/fuzzed", "PUT", {}, auth=KEEPER)
        broker.ask(f"/exchanges/{vhost}/fuzzed", "PUT", {"type": "topic"}, auth=KEEPER)
        broker.ask(f"/bindings/{vhost}/e/fuzzed/q/fuzzed", "POST", {"routing_key": "fuzzed"}, auth=KEEPER)
        policy = {"pattern": "^fuzzed", "definition": {"max-length": 100}}
        broker.ask(f"/policies/{vhost}/fuzzed", "PUT", policy, auth=KEEPER)
        message = {"properties": {}, "routing_key": "fuzzed", "payload": "x", "payload_encoding": "string"}
        broker.ask(f"/exchanges/{vhost}/amq.default/publish", "POST", message, auth=KEEPER)


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
    asked = 0

    for found in schema.get_all_operations():
        operation = found.ok()
        _put_back(broker)

        @seed(0)
        @settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            nonlocal asked
            asked += 1
            answer = case.call(auth=KEEPER, timeout=20)
            is_check = "/health" in case.path and answer.status_code == UNAVAILABLE
            if answer.status_code >= SERVER_FAULT and not is_check:
                faults.setdefault(
                    case.operation.label, f"{answer.status_code} {answer.text[:200]}: {case.as_curl_command()}"
                )

        ask()

    assert asked > EXAMPLES
    assert not faults, "\n".join(faults.values())
