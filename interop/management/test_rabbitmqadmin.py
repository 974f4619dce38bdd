"""rabbitmqadmin in Python: RabbitMQ's own, which comes with its management plugin, and the one our broker serves."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest

from interop.management.doors import Doors
from interop.patience import PATIENCE_S, eventually

PLACES = (
    "/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin",
    "/opt/rabbitmq/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin",
)
Unique = Callable[[str], str]
Run = Callable[..., str]


@pytest.fixture(scope="module", params=["ours", "theirs"])
def script(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "ours":
        served = httpx.get(f"{request.getfixturevalue('ours').url}/cli/rabbitmqadmin", trust_env=False)
        file: Path = tmp_path_factory.mktemp("cli") / "rabbitmqadmin"
        file.write_bytes(served.content)
        return file
    for place in PLACES:
        for found in Path("/").glob(place[1:]):
            return found
    pytest.skip("needs rabbitmqadmin, which comes with RabbitMQ's management plugin")


@pytest.fixture
def run(doors: Doors, script: Path) -> Run:
    """Runs it with these words; its output. A failure is an AssertionError with what it said."""

    def run(*words: str, code: int = 0, given: str = "") -> str:
        where = ["--host", doors.host, "--port", str(doors.http_port)]
        done = subprocess.run(
            [sys.executable, str(script), *where, *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, f"rabbitmqadmin {' '.join(words)}: {done.returncode}\n{said}"
        return done.stdout if code == 0 else said

    return run


def listed(run: Run, what: str, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("-f", "raw_json", *words, "list", what))
    return found


@pytest.fixture
def vhost(run: Run, unique: Unique) -> str:
    name = unique("v/host")
    assert run("declare", "vhost", f"name={name}") == "vhost declared\n"
    run("declare", "permission", f"vhost={name}", "user=guest", "configure=.*", "write=.*", "read=.*")
    return name


def test_queues(run: Run, vhost: str) -> None:
    declare = ("-V", vhost, "declare", "queue", "name=orders")
    assert run(*declare, "durable=true", 'arguments={"x-max-length": 10}') == "queue declared\n"
    run(*declare, "durable=true", 'arguments={"x-max-length": 10}')
    assert "inequivalent arg 'durable'" in run(*declare, "durable=false", 'arguments={"x-max-length": 10}', code=1)
    (queue,) = listed(run, "queues", "-V", vhost)
    assert queue["name"] == "orders"
    assert queue["arguments"] == {"x-max-length": 10}
    assert run("-V", vhost, "-f", "tsv", "list", "queues", "name", "durable").split() == [
        "name",
        "durable",
        "orders",
        "True",
    ]
    assert run("-V", vhost, "delete", "queue", "name=orders") == "queue deleted\n"
    assert "*** Not found" in run("-V", vhost, "delete", "queue", "name=orders", code=1)


@pytest.mark.parametrize("form", ["table", "long", "kvp", "tsv", "pretty_json", "raw_json", "bash"])
def test_output_formats(run: Run, vhost: str, form: str) -> None:
    run("-V", vhost, "declare", "queue", "name=shown")
    assert "shown" in run("-V", vhost, "-f", form, "list", "queues", "name")


def test_depth_and_sorting_of_lists(run: Run, vhost: str) -> None:
    for name in ("b", "a", "c"):
        run("-V", vhost, "declare", "queue", f"name={name}")
    words = ("-V", vhost, "-f", "bash", "-S", "name", "-R", "list", "queues", "name")
    assert run(*words).split() == ["c", "b", "a"]
    run("-V", vhost, "declare", "queue", "name=d", 'arguments={"x-max-length": 7}')
    assert "arguments.x-max-length" in run("-V", vhost, "-f", "long", "-d", "3", "list", "queues")


def test_exchanges_and_bindings(run: Run, vhost: str) -> None:
    run("-V", vhost, "declare", "exchange", "name=events", "type=topic")
    run("-V", vhost, "declare", "exchange", "name=archive", "type=fanout", "internal=true", "durable=false")
    run("-V", vhost, "declare", "queue", "name=q")
    run("-V", vhost, "declare", "binding", "source=events", "destination=q", "routing_key=a.*", 'arguments={"n": 1}')
    run("-V", vhost, "declare", "binding", "source=events", "destination=archive", "destination_type=exchange")
    exchanges = {exchange["name"]: exchange for exchange in listed(run, "exchanges", "-V", vhost)}
    assert exchanges["events"]["type"] == "topic"
    assert exchanges["archive"]["internal"] is True
    assert {"", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic"} <= exchanges.keys()
    bindings = [b for b in listed(run, "bindings", "-V", vhost) if b["source"]]
    assert {(b["destination"], b["destination_type"]) for b in bindings} == {("q", "queue"), ("archive", "exchange")}
    for binding in bindings:
        words = (f"{key}={binding[key]}" for key in ("source", "destination_type", "destination", "properties_key"))
        assert run("-V", vhost, "delete", "binding", *words) == "binding deleted\n"
    assert not [b for b in listed(run, "bindings", "-V", vhost) if b["source"]]
    run("-V", vhost, "delete", "exchange", "name=events")


def test_messages(run: Run, vhost: str, tmp_path: Path) -> None:
    run("-V", vhost, "declare", "queue", "name=post")
    assert run("-V", vhost, "publish", "routing_key=post", "payload=hello") == "Message published\n"
    properties = 'properties={"delivery_mode": 2, "headers": {"n": 1}, "content_type": "text/plain"}'
    run("-V", vhost, "publish", "routing_key=post", properties, given="from standard input")
    assert run("-V", vhost, "publish", "routing_key=nowhere", "payload=x") == "Message published but NOT routed\n"
    (first,) = json.loads(run("-V", vhost, "-f", "raw_json", "get", "queue=post"))
    assert (first["payload"], first["redelivered"], first["message_count"]) == ("hello", False, 1)
    taken = json.loads(run("-V", vhost, "-f", "raw_json", "get", "queue=post", "count=5", "ackmode=ack_requeue_false"))
    assert [message["payload"] for message in taken] == ["hello", "from standard input"]
    assert taken[0]["redelivered"] is True
    assert taken[1]["properties"] == {"delivery_mode": 2, "headers": {"n": 1}, "content_type": "text/plain"}
    assert "No items" in run("-V", vhost, "get", "queue=post")
    run("-V", vhost, "publish", "routing_key=post", "payload=/wD+", "payload_encoding=base64")
    (octets,) = json.loads(run("-V", vhost, "-f", "raw_json", "get", "queue=post", "ackmode=reject_requeue_false"))
    assert (octets["payload"], octets["payload_encoding"]) == ("/wD+", "base64")
    run("-V", vhost, "publish", "routing_key=post", "payload=to a file")
    file = tmp_path / "payload"
    run("-V", vhost, "get", "queue=post", f"payload_file={file}")
    assert file.read_text() == "to a file"
    assert run("-V", vhost, "purge", "queue", "name=post") == "queue purged\n"
    assert run("-V", vhost, "get", "queue=post") == "No items\n"


def test_accounts(run: Run, vhost: str, unique: Unique) -> None:
    name = unique("user")
    run("declare", "user", f"name={name}", "password=secret", "tags=management")
    run("declare", "permission", f"vhost={vhost}", f"user={name}", "configure=", "write=", "read=.*")
    assert {"user": name, "vhost": vhost, "configure": "", "write": "", "read": ".*"} in listed(run, "permissions")
    (user,) = [user for user in listed(run, "users") if user["name"] == name]
    assert user["tags"] == ["management"]
    mine = ("-u", name, "-p", "secret", "-V", vhost)
    assert listed(run, "queues", *mine) == []
    assert "Access refused" in run(*mine, "list", "users", code=1)
    assert "Access refused" in run(*mine, "declare", "queue", "name=q", code=1)
    assert "Access refused" in run("-u", name, "-p", "wrong", "list", "queues", code=1)
    run("delete", "permission", f"vhost={vhost}", f"user={name}")
    assert run("delete", "user", f"name={name}") == "user deleted\n"


def test_policies_parameters_and_limits(run: Run, vhost: str) -> None:
    words = ("-V", vhost, "declare", "policy", "name=short", "pattern=^short", "apply-to=queues")
    run(*words, "priority=2", 'definition={"max-length": 3}')
    run("-V", vhost, "declare", "operator_policy", "name=cap", "pattern=.*", 'definition={"message-ttl": 1000}')
    run("-V", vhost, "declare", "queue", "name=short-one")

    def is_applied() -> bool:
        (queue,) = listed(run, "queues", "-V", vhost)
        return (queue.get("policy"), queue.get("operator_policy")) == ("short", "cap")

    eventually(is_applied, "the queue shows its policies")
    (policy,) = [policy for policy in listed(run, "policies") if policy["vhost"] == vhost]
    assert policy["definition"] == {"max-length": 3}
    assert policy["priority"] == 2
    assert [p["name"] for p in listed(run, "operator_policies") if p["vhost"] == vhost] == ["cap"]
    run("declare", "vhost_limit", f"vhost={vhost}", "name=max-queues", "value=5")
    assert {"vhost": vhost, "value": {"max-queues": 5}} in listed(run, "vhost_limits")
    run("delete", "vhost_limit", f"vhost={vhost}", "name=max-queues")
    run("-V", vhost, "delete", "policy", "name=short")
    run("-V", vhost, "delete", "operator_policy", "name=cap")
    assert not [p for p in listed(run, "policies") + listed(run, "operator_policies") if p["vhost"] == vhost]


def test_definitions(run: Run, vhost: str, tmp_path: Path) -> None:
    run("-V", vhost, "declare", "queue", "name=kept", 'arguments={"x-message-ttl": 60000}')
    run("-V", vhost, "declare", "exchange", "name=kept-too", "type=headers")
    run(
        "-V", vhost, "declare", "binding", "source=kept-too", "destination=kept", 'arguments={"x-match": "any", "a": 1}'
    )
    whole, of_vhost = tmp_path / "whole.json", tmp_path / "vhost.json"
    assert "Exported definitions" in run("export", str(whole))
    run("-V", vhost, "export", str(of_vhost))
    assert {"users", "vhosts", "permissions", "queues", "exchanges", "bindings"} <= json.loads(whole.read_text()).keys()
    run("-V", vhost, "delete", "queue", "name=kept")
    run("-V", vhost, "delete", "exchange", "name=kept-too")
    assert "Uploaded definitions" in run("-V", vhost, "import", str(of_vhost))
    assert [queue["arguments"] for queue in listed(run, "queues", "-V", vhost)] == [{"x-message-ttl": 60000}]
    run("delete", "vhost", f"name={vhost}")
    run("import", str(whole))
    (binding,) = [b for b in listed(run, "bindings", "-V", vhost) if b["source"]]
    assert binding["arguments"] == {"x-match": "any", "a": 1}


def test_connections(run: Run, doors: Doors, vhost: str) -> None:
    with doors.connect("to be closed", vhost) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_consume("q", lambda *_: None, consumer_tag="reader")

        def mine() -> list[dict[str, Any]]:
            return [c for c in listed(run, "connections") if c.get("user_provided_name") == "to be closed"]

        eventually(lambda: bool(mine()), "the connection is listed")
        (found,) = mine()
        assert found["vhost"] == vhost
        eventually(
            lambda: any(c["connection_details"]["name"] == found["name"] for c in listed(run, "channels")),
            "the channel is listed",
        )
        assert "reader" in run("-V", vhost, "list", "consumers")
        assert run("close", "connection", f"name={found['name']}") == "connection closed\n"
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            connection.process_data_events(PATIENCE_S)
        assert closed.value.reply_code == 320
        eventually(lambda: not mine(), "the connection is gone")


def test_overview_and_nodes(run: Run) -> None:
    assert "rabbitmq_version" in run("show", "overview")
    assert "cluster_name" in run("-f", "kvp", "show", "overview")
    (node,) = listed(run, "nodes")
    assert node["running"] is True
    run("list", "parameters")


def test_what_it_says_when_nobody_is_there(run: Run) -> None:
    assert "Could not connect" in run("--port", "1", "list", "queues", code=1)
