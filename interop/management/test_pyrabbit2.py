"""pyrabbit2, the management client under kombu's `get_manager` and many scripts. Its bodies have no content type."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from pika.exceptions import ConnectionClosedByBroker
from pyrabbit2 import Client
from pyrabbit2.http import HTTPError

from interop.management.doors import Doors
from interop.patience import PATIENCE_S, eventually

Unique = Callable[[str], str]


@pytest.fixture
def client(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    return Client(f"{doors.host}:{doors.http_port}", "guest", "guest", timeout=20)


@pytest.fixture
def vhost(client: Any, unique: Unique) -> str:
    name = unique("pyrabbit")
    client.create_vhost(name)
    client.set_vhost_permissions(name, "guest", ".*", ".*", ".*")
    return name


def test_looking_around(client: Any) -> None:
    assert client.is_alive()
    assert client.get_whoami()["name"] == "guest"
    assert client.get_overview()["message_stats"] is not None
    assert [node["running"] for node in client.get_nodes()] == [True]
    assert "/" in client.get_vhost_names()
    assert any(user["name"] == "guest" for user in client.get_users())
    assert client.get_cluster_name()["name"]
    assert isinstance(client.get_extensions(), list)
    assert "queues" in client.get_definitions()
    assert client.get_all_shovels() == []


def test_vhosts_users_and_permissions(client: Any, vhost: str, unique: Unique) -> None:
    assert client.get_vhost(vhost)["name"] == vhost
    name = unique("user")
    client.create_user(name, "secret", tags="monitoring")
    client.set_vhost_permissions(vhost, name, "^c", "^r", "^w")
    expected = {"user": name, "vhost": vhost, "configure": "^c", "write": "^w", "read": "^r"}
    assert client.get_permission(vhost, name) == expected
    assert client.get_user_permissions(name) == [expected]
    assert expected in client.get_vhost_permissions(vhost)
    assert expected in client.get_permissions()
    client.delete_permission(vhost, name)
    client.delete_user(name)
    client.delete_vhost(vhost)
    assert vhost not in client.get_vhost_names()
    with pytest.raises(HTTPError) as refused:
        client.get_vhost(vhost)
    assert refused.value.status == 404


def test_exchanges_queues_and_bindings(client: Any, vhost: str) -> None:
    assert client.create_exchange(vhost, "x", "topic")
    client.create_queue(vhost, "q", durable=True, arguments={"x-max-length": 5})
    client.create_queue(vhost, "q2", auto_delete=False)
    client.create_binding(vhost, "x", "q", "a.#")
    assert client.get_exchange(vhost, "x")["type"] == "topic"
    assert client.get_queue(vhost, "q")["arguments"] == {"x-max-length": 5}
    assert {queue["name"] for queue in client.get_queues(vhost)} == {"q", "q2"}
    assert [queue["name"] for queue in client.get_queues(vhost, pattern="2$", regex=True)] == ["q2"]
    assert [b["routing_key"] for b in client.get_queue_bindings(vhost, "q")] == ["q", "a.#"]
    client.delete_binding(vhost, "x", "q", "a.%23")
    client.delete_exchange(vhost, "x")
    client.delete_queue(vhost, "q")
    assert [queue["name"] for queue in client.get_queues(vhost)] == ["q2"]


def test_messages(client: Any, vhost: str) -> None:
    client.create_queue(vhost, "q")
    assert client.publish(vhost, "amq.default", "q", "one") is True
    assert client.publish(vhost, "amq.default", "q", "two", properties={"delivery_mode": 2}) is True
    assert client.publish(vhost, "amq.default", "nowhere", "three") is False
    eventually(lambda: client.get_queue(vhost, "q").get("messages") == 2, "both are counted")
    assert client.get_queue_depth(vhost, "q") == 2
    assert [m["payload"] for m in client.get_messages(vhost, "q", 5, requeue=True)] == ["one", "two"]
    assert [m["payload"] for m in client.get_messages(vhost, "q")] == ["one"]
    client.purge_queue(vhost, "q")
    assert client.get_messages(vhost, "q") == []


def test_policies(client: Any, vhost: str) -> None:
    client.create_policy(
        vhost, "p", pattern="^q", definition={"max-length": 7}, **{"apply-to": "queues", "priority": 1}
    )
    assert client.get_policy(vhost, "p")["definition"] == {"max-length": 7}
    assert any(policy["vhost"] == vhost for policy in client.get_all_policies())
    client.delete_policy(vhost, "p")


def test_connections_and_channels(client: Any, doors: Doors, vhost: str) -> None:
    with doors.connect("pyrabbit's", vhost) as connection:
        connection.channel()

        def mine() -> list[Any]:
            return [c for c in client.get_connections() if c.get("user_provided_name") == "pyrabbit's"]

        eventually(lambda: bool(mine()), "the connection is listed")
        (found,) = mine()
        assert client.get_connection(found["name"])["vhost"] == vhost
        eventually(lambda: any(c["name"] == f"{found['name']} (1)" for c in client.get_channels()), "so is the channel")
        assert client.get_channel(f"{found['name']} (1)")["number"] == 1
        client.delete_connection(found["name"])
        with pytest.raises(ConnectionClosedByBroker):
            connection.process_data_events(PATIENCE_S)
        eventually(lambda: not mine(), "it is not listed any more")
