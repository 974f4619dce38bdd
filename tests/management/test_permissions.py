"""Permissions and topic permissions over HTTP."""

from __future__ import annotations

import pytest
from pamqp import commands

from tests.support.api import Api

OWN = {"configure": "^bob-", "write": ".*", "read": ""}


async def test_a_permission_from_its_giving_to_its_end(api: Api) -> None:
    await api.put("/api/users/bob", json={"password": "pw", "tags": ""})
    path = "/api/permissions/%2F/bob"
    assert (await api.get(path)).status_code == 404
    assert (await api.put(path, json=OWN)).status_code == 201
    shown = {"user": "bob", "vhost": "/", **OWN}
    assert (await api.get(path)).json() == shown
    assert (await api.get("/api/users/bob/permissions")).json() == [shown]
    assert shown in (await api.get("/api/vhosts/%2F/permissions")).json()
    assert [each["user"] for each in (await api.get("/api/permissions")).json()] == ["bob", "guest"]
    ch = api.pair.connect("bob", "pw").channel()
    ch.declare("bob-q")
    assert (await api.put(path, json={**OWN, "configure": "^$"})).status_code == 204
    ch.send(commands.Queue.Declare(queue="bob-2"))
    text = "ACCESS_REFUSED - configure access to queue 'bob-2' in vhost '/' refused for user 'bob'"
    ch.expect_close(403, text, commands.Queue.Declare)
    assert (await api.delete(path)).status_code == 204
    assert (await api.delete(path)).status_code == 404


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"configure": "", "write": ""}, "[{key_missing,read}]"),
        ({}, "[{key_missing,configure},{key_missing,write},{key_missing,read}]"),
    ],
)
async def test_a_permission_is_three_expressions(api: Api, body: dict[str, str], reason: str) -> None:
    answer = await api.put("/api/permissions/%2F/guest", json=body)
    assert (answer.status_code, answer.json()) == (400, {"error": "bad_request", "reason": reason})


async def test_permissions_that_will_not_do(api: Api) -> None:
    answer = await api.put("/api/permissions/%2F/guest", json={**OWN, "read": "("})
    assert answer.status_code == 400
    assert "invalid regular expression '('" in answer.json()["reason"]
    assert (await api.put("/api/permissions/%2F/guest", json={**OWN, "read": 1})).status_code == 400
    for path in ("/api/permissions/nowhere/guest", "/api/permissions/%2F/nobody"):
        answer = await api.put(path, json=OWN)
        assert answer.json() == {"error": "bad_request", "reason": "vhost_or_user_not_found"}
        assert (await api.get(path)).status_code == 404
        assert (await api.delete(path)).status_code == 404
    for path in ("/api/users/nobody/permissions", "/api/vhosts/nowhere/permissions"):
        assert (await api.get(path)).status_code == 404
    assert (await api.get("/api/permissions/%2F/guest")).json()["read"] == ".*"


async def test_topic_permissions(api: Api) -> None:
    path = "/api/topic-permissions/%2F/guest"
    assert (await api.get(path)).status_code == 404
    first = {"exchange": "amq.topic", "write": "^a\\.", "read": ".*"}
    assert (await api.put(path, json=first)).status_code == 201
    assert (await api.put(path, json={**first, "exchange": "t"})).status_code == 204
    shown = [{"user": "guest", "vhost": "/", **first, "exchange": name} for name in ("amq.topic", "t")]
    for where in (path, "/api/topic-permissions", "/api/users/guest/topic-permissions"):
        assert (await api.get(where)).json() == shown
    assert (await api.get("/api/vhosts/%2F/topic-permissions")).json() == shown
    ch = api.pair.connect().channel()
    ch.publish(b"fine", exchange="amq.topic", key="a.b")
    ch.publish(b"refused", exchange="amq.topic", key="b.a")
    text = "ACCESS_REFUSED - write access to topic 'b.a' in exchange 'amq.topic' in vhost '/' refused for user 'guest'"
    ch.expect_close(403, text, commands.Basic.Publish)
    assert (await api.delete(path + "/amq.topic")).status_code == 204
    assert (await api.delete(path + "/amq.topic")).status_code == 404
    assert (await api.get(path)).json() == shown[1:]
    assert (await api.delete(path)).status_code == 204
    assert (await api.delete(path)).status_code == 404
    assert (await api.get("/api/topic-permissions")).json() == []


async def test_topic_permissions_that_will_not_do(api: Api) -> None:
    path = "/api/topic-permissions/%2F/guest"
    answer = await api.put(path, json={"exchange": "t", "write": "a"})
    assert answer.json() == {"error": "bad_request", "reason": "[{key_missing,read}]"}
    assert (await api.put(path, json={"exchange": "t", "write": "(", "read": ""})).status_code == 400
    body = {"exchange": "t", "write": "", "read": ""}
    answer = await api.put("/api/topic-permissions/nowhere/guest", json=body)
    assert answer.json() == {"error": "bad_request", "reason": "vhost_or_user_not_found"}
    assert (await api.get("/api/users/nobody/topic-permissions")).status_code == 404
    assert (await api.get("/api/vhosts/nowhere/topic-permissions")).status_code == 404
