"""Vhosts over HTTP."""

from __future__ import annotations

import pytest

from rabbitlike.broker.views import node_name
from tests.support.api import Api


async def test_a_vhost_from_its_making_to_its_end(api: Api) -> None:
    body = {"description": "d", "tags": "one, two", "default_queue_type": "quorum"}
    assert (await api.put("/api/vhosts/a%2Fb", json=body)).status_code == 201
    found = (await api.get("/api/vhosts/a%2Fb")).json()
    metadata = {"description": "d", "tags": ["one", "two"], "default_queue_type": "quorum"}
    assert found["name"] == "a/b"
    assert found["metadata"] == metadata
    assert {name: found[name] for name in metadata} == metadata
    assert found["tracing"] is False
    assert found["cluster_state"] == {node_name(api.pair.broker.settings): "running"}
    granted = (await api.get("/api/vhosts/a%2Fb/permissions")).json()
    assert granted == [{"user": "guest", "vhost": "a/b", "configure": ".*", "write": ".*", "read": ".*"}]
    client = api.pair.connect("guest", "guest", "a/b")
    client.channel().declare("q", durable=True)
    assert (await api.delete("/api/vhosts/a%2Fb")).status_code == 204
    client.expect_close(320, "CONNECTION_FORCED - vhost 'a/b' is deleted", None)
    assert (await api.delete("/api/vhosts/a%2Fb")).status_code == 404
    assert (await api.get("/api/vhosts/a%2Fb")).status_code == 404
    assert (await api.get("/api/permissions/a%2Fb/guest")).status_code == 404


async def test_the_default_vhost(api: Api) -> None:
    found = (await api.get("/api/vhosts/%2F")).json()
    assert found["description"] == "Default virtual host"
    assert found["default_queue_type"] == "undefined"
    assert found["metadata"] == {"description": "Default virtual host", "tags": []}


async def test_what_is_put_again_is_all_that_is_said(api: Api) -> None:
    """parity: but for the default queue type."""
    await api.put("/api/vhosts/v", json={"description": "d", "tags": ["t"], "default_queue_type": "classic"})
    assert (await api.put("/api/vhosts/v", json={"tracing": True})).status_code == 204
    found = (await api.get("/api/vhosts/v")).json()
    assert (found["description"], found["tags"], found["tracing"]) == ("", [], True)
    assert found["default_queue_type"] == "classic"
    assert (await api.put("/api/vhosts/v", content=b"")).status_code == 204


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"default_queue_type": "mirrored"}, "mirrored is not a valid queue type"),
        ({"default_queue_type": ""}, "default_queue_type must not be an empty string"),
    ],
)
async def test_queue_types_nobody_knows(api: Api, body: dict[str, object], reason: str) -> None:
    answer = await api.put("/api/vhosts/wrong", json=body)
    assert (answer.status_code, answer.json()) == (400, {"error": "bad_request", "reason": reason})
    assert "wrong" not in api.pair.broker.vhosts


@pytest.mark.parametrize("body", [{"tags": 1}, {"description": []}, {"tracing": "perhaps"}, {"tags": [{}]}])
async def test_bodies_of_the_wrong_type(api: Api, body: dict[str, object]) -> None:
    assert (await api.put("/api/vhosts/wrong", json=body)).status_code == 400
    assert (await api.put("/api/vhosts/" + "x" * 256, json={})).status_code == 400
    assert list(api.pair.broker.vhosts) == ["/"]


async def test_who_sees_which(api: Api) -> None:
    await api.put("/api/vhosts/v", json={})
    member, monitor = api.user("member"), api.user("monitor", ["monitoring"], vhost=None)
    for caller, names in ((api, ["/", "v"]), (member, ["/"]), (monitor, ["/", "v"])):
        assert [vhost["name"] for vhost in (await caller.get("/api/vhosts")).json()] == names


async def test_messages_are_counted(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("q")
    for _ in range(3):
        ch.publish(b"x", key="q")
    ch.get("q", no_ack=False)
    found = (await api.get("/api/vhosts")).json()[0]
    counts = {name: found[name] for name in ("messages", "messages_ready", "messages_unacknowledged")}
    assert counts == {"messages": 3, "messages_ready": 2, "messages_unacknowledged": 1}


async def test_paging(api: Api) -> None:
    for name in ("a", "b"):
        await api.put(f"/api/vhosts/{name}", json={})
    page = (await api.get("/api/vhosts?page=1&page_size=2&columns=name")).json()
    assert page["items"] == [{"name": "/"}, {"name": "a"}]
    assert page["page_count"] == 2


async def test_protection(api: Api) -> None:
    await api.put("/api/vhosts/v", json={})
    assert (await api.post("/api/vhosts/v/deletion/protection")).status_code == 204
    answer = await api.delete("/api/vhosts/v")
    assert answer.status_code == 412
    assert answer.json() == {
        "error": "precondition_failed",
        "reason": "Refusing to delete virtual host 'v' because it is protected from deletion",
    }
    assert (await api.get("/api/vhosts/v")).json()["protected_from_deletion"] is True
    assert (await api.delete("/api/vhosts/v/deletion/protection")).status_code == 204
    assert (await api.delete("/api/vhosts/v")).status_code == 204
    assert (await api.post("/api/vhosts/v/deletion/protection")).status_code == 404


async def test_start(api: Api) -> None:
    node = node_name(api.pair.broker.settings)
    assert (await api.post(f"/api/vhosts/%2F/start/{node}")).status_code == 204
    answer = await api.post("/api/vhosts/%2F/start/rabbit@elsewhere")
    assert answer.json() == {"error": "bad_request", "reason": "Unknown node: rabbit@elsewhere"}
    assert (await api.post(f"/api/vhosts/nowhere/start/{node}")).status_code == 404
