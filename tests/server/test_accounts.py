"""Accounts of a real broker: what was answered is on the disk, whatever happens to the process next."""

from __future__ import annotations

from pathlib import Path

import httpx
import pika
import pytest

from tests.support.broker_process import BrokerProcess, running


def api_of(broker: BrokerProcess, name: str = "guest", password: str = "guest") -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{broker.management_port}/api", auth=(name, password))


def connect(broker: BrokerProcess, name: str, password: str, vhost: str) -> pika.BlockingConnection:
    login = pika.PlainCredentials(name, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, vhost, login))


def test_killed_after_the_answer(tmp_path: Path) -> None:
    flags = ["--no-memory", "--data-dir", str(tmp_path / "data")]
    with running(*flags) as broker, api_of(broker) as api:
        for path, body in (
            ("/vhosts/shop", {"description": "d", "tags": "t", "default_queue_type": "quorum"}),
            ("/users/till", {"password": "pw", "tags": "management"}),
            ("/permissions/shop/till", {"configure": ".*", "write": ".*", "read": ".*"}),
            ("/topic-permissions/shop/till", {"exchange": "amq.topic", "write": "^a", "read": ""}),
            ("/vhost-limits/shop/max-queues", {"value": 1}),
            ("/user-limits/till/max-connections", {"value": 1}),
            ("/global-parameters/own", {"value": [1]}),
        ):
            assert api.put(path, json=body).status_code in (201, 204)
        asked = ("/vhosts/shop", "/users", "/permissions", "/topic-permissions", "/vhost-limits", "/user-limits")
        asked += ("/global-parameters", "/parameters")
        before = [api.get(path).json() for path in asked]
        broker.process.kill()
        broker.process.wait()
    with running(*flags) as broker, api_of(broker) as api:
        assert [api.get(path).json() for path in asked] == before
        connection = connect(broker, "till", "pw", "shop")
        connection.channel().queue_declare("q", durable=True)
        assert api.get("/vhosts/shop?columns=name").json() == {"name": "shop"}
        with pytest.raises(pika.exceptions.AMQPConnectionError, match="user connection limit"):
            connect(broker, "till", "pw", "shop")
        assert api.delete("/users/till").status_code == 204
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="user 'till' is deleted"):
            connection.process_data_events(5)
        assert api.delete("/vhosts/shop").status_code == 204
        broker.process.kill()
        broker.process.wait()
    with running(*flags) as broker, api_of(broker) as api:
        assert [each["name"] for each in api.get("/vhosts").json()] == ["/"]
        assert [each["name"] for each in api.get("/users").json()] == ["guest"]
        assert api.get("/parameters").json() == api.get("/topic-permissions").json() == []


def test_a_broker_that_is_full_says_so() -> None:
    with running("--connection-max", "1") as broker:
        first = connect(broker, "guest", "guest", "/")
        with pytest.raises(pika.exceptions.AMQPConnectionError, match=r"node connection limit \(1\) is reached"):
            connect(broker, "guest", "guest", "/")
        first.close()
        connect(broker, "guest", "guest", "/").close()
