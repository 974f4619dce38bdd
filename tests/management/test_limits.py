"""Limits and parameters over HTTP."""

from __future__ import annotations

import pytest

from tests.support.api import Api


async def test_limits_of_a_vhost(api: Api) -> None:
    assert (await api.put("/api/vhost-limits/%2F/max-queues", json={"value": 2})).status_code == 204
    assert (await api.put("/api/vhost-limits/%2F/max-connections", json={"value": -1})).status_code == 204
    shown = [{"vhost": "/", "value": {"max-queues": 2, "max-connections": -1}}]
    assert (await api.get("/api/vhost-limits")).json() == shown
    assert (await api.get("/api/vhost-limits/%2F")).json() == shown
    parameter = {"component": "vhost-limits", "vhost": "/", "name": "limits", "value": shown[0]["value"]}
    assert (await api.get("/api/parameters/vhost-limits")).json() == [parameter]
    for limit in ("max-queues", "max-connections", "max-connections"):
        assert (await api.delete(f"/api/vhost-limits/%2F/{limit}")).status_code == 204
    assert (await api.get("/api/vhost-limits")).json() == []
    assert (await api.get("/api/vhost-limits/%2F")).json() == []


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (
            "vhost-limits/%2F/max-fun",
            {"value": 1},
            'Validation failed\n\nUnrecognised terms [{<<"max-fun">>,1}] in limits\n',
        ),
        (
            "vhost-limits/%2F/max-queues",
            {"value": "many"},
            'Validation failed\n\nmax-queues should be a number, actually was <<"many">>\n',
        ),
        ("vhost-limits/%2F/max-queues", {}, "[{key_missing,value}]"),
        ("user-limits/guest/max-fun", {"value": 1}, 'Unrecognised terms [{<<"max-fun">>,1}] in user-limits'),
        (
            "user-limits/guest/max-channels",
            {"value": "many"},
            'max-channels should be a number, actually was <<"many">>',
        ),
        ("user-limits/nobody/max-channels", {"value": 1}, ["no_such_user", "nobody"]),
    ],
)
async def test_limits_that_will_not_do(api: Api, path: str, body: dict[str, object], reason: object) -> None:
    answer = await api.put(f"/api/{path}", json=body)
    assert (answer.status_code, answer.json()) == (400, {"error": "bad_request", "reason": reason})
    assert (await api.get("/api/vhost-limits")).json() == []
    assert (await api.get("/api/user-limits")).json() == []


async def test_limits_of_what_is_not_there(api: Api) -> None:
    for method in ("PUT", "DELETE"):
        answer = await api.request(method, "/api/vhost-limits/nowhere/max-queues", json={"value": 1})
        assert (answer.status_code, answer.json()) == (404, {"error": "not_found", "reason": "vhost_not_found"})
    for path in ("/api/vhost-limits/nowhere", "/api/user-limits/nobody"):
        assert (await api.get(path)).json() == {"error": "Object Not Found", "reason": "Not Found"}
    assert (await api.delete("/api/user-limits/nobody/max-channels")).status_code == 404


async def test_limits_of_a_user(api: Api) -> None:
    bob = api.user("bob")
    assert (await api.put("/api/user-limits/bob/max-channels", json={"value": 5})).status_code == 204
    shown = [{"user": "bob", "value": {"max-channels": 5}}]
    assert (await api.get("/api/user-limits")).json() == shown
    assert (await api.get("/api/user-limits/bob")).json() == shown
    assert (await bob.get("/api/user-limits/bob")).json() == shown
    ann = api.user("ann")
    assert (await ann.get("/api/user-limits")).json() == shown
    assert (await ann.get("/api/user-limits/bob")).json() == shown
    assert (await ann.delete("/api/user-limits/bob/max-channels")).status_code == 401
    assert (await api.user("untagged", []).get("/api/user-limits")).status_code == 401
    assert (await api.get("/api/user-limits/guest")).json() == []
    for _ in range(2):
        assert (await api.delete("/api/user-limits/bob/max-channels")).status_code == 204
    assert (await api.get("/api/user-limits")).json() == []


async def test_all_limits_of_a_user_are_cleared_at_once(api: Api) -> None:
    for limit in ("max-channels", "max-connections"):
        await api.put(f"/api/user-limits/guest/{limit}", json={"value": 5})
        await api.put("/api/vhost-limits/%2F/max-queues", json={"value": 5})
    for _ in range(2):
        assert (await api.delete("/api/user-limits/guest/all")).status_code == 204
        assert (await api.get("/api/user-limits/guest")).json() == []
    assert (await api.delete("/api/user-limits/nobody/all")).status_code == 404
    # parity: of a vhost this is the name of a limit that is not set.
    assert (await api.delete("/api/vhost-limits/%2F/all")).status_code == 204
    assert (await api.get("/api/vhost-limits/%2F")).json() == [{"vhost": "/", "value": {"max-queues": 5}}]


async def test_who_sees_limits_of_vhosts(api: Api) -> None:
    await api.put("/api/vhosts/v", json={})
    for vhost in ("%2F", "v"):
        await api.put(f"/api/vhost-limits/{vhost}/max-queues", json={"value": 1})
    bob = api.user("bob")
    assert [each["vhost"] for each in (await bob.get("/api/vhost-limits")).json()] == ["/"]
    assert (await bob.get("/api/vhost-limits/v")).status_code == 401
    assert (await bob.get("/api/vhost-limits/%2F")).status_code == 200


async def test_parameters(api: Api) -> None:
    path = "/api/parameters/vhost-limits/%2F/limits"
    assert (await api.get(path)).status_code == 404
    assert (await api.put(path, json={"value": {"max-queues": 1}})).status_code == 201
    assert (await api.put(path, json={"value": {"max-queues": 7}})).status_code == 204
    shown = {"component": "vhost-limits", "vhost": "/", "name": "limits", "value": {"max-queues": 7}}
    assert (await api.get(path)).json() == shown
    for where in ("", "/vhost-limits", "/vhost-limits/%2F"):
        assert (await api.get("/api/parameters" + where)).json() == [shown]
    assert (await api.get("/api/parameters/shovel")).json() == []
    assert (await api.get("/api/parameters/vhost-limits/nowhere")).status_code == 404
    assert (await api.get("/api/vhost-limits")).json() == [{"vhost": "/", "value": {"max-queues": 7}}]
    assert (await api.delete(path)).status_code == 204
    assert (await api.delete(path)).status_code == 404


async def test_operator_policies_are_parameters_too(api: Api) -> None:
    said = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"}
    assert (await api.put("/api/operator-policies/%2F/ceiling", json=said)).status_code == 201
    shown = {"component": "operator_policy", "vhost": "/", "name": "ceiling", "value": said}
    assert (await api.get("/api/parameters")).json() == [shown]
    assert (await api.get("/api/parameters/operator_policy/%2F/ceiling")).json() == shown


async def test_parameters_that_will_not_do(api: Api) -> None:
    answer = await api.put("/api/parameters/no-such/%2F/p", json={"value": {}})
    assert answer.json()["reason"] == "Validation failed\n\ncomponent no-such not found\n"
    answer = await api.put("/api/parameters/policy/%2F/p", json={"value": {}})
    assert answer.json() == {"error": "bad_request", "reason": "policies may not be set using this method"}
    answer = await api.put("/api/parameters/vhost-limits/nowhere/limits", json={"value": {}})
    assert (answer.status_code, answer.json()) == (404, {"error": "not_found", "reason": "vhost_not_found"})
    answer = await api.put("/api/parameters/vhost-limits/%2F/limits", json={})
    assert answer.json() == {"error": "bad_request", "reason": "[{key_missing,value}]"}


async def test_who_may_have_parameters(api: Api) -> None:
    await api.put("/api/vhosts/v", json={})
    for vhost in ("%2F", "v"):
        await api.put(f"/api/vhost-limits/{vhost}/max-queues", json={"value": 1})
    refusal = {"error": "not_authorised", "reason": "User not authorised to access object"}
    maker, monitor = api.user("maker", ["policymaker"]), api.user("monitor", ["monitoring"])
    for path in ("/api/parameters", "/api/global-parameters", "/api/parameters/vhost-limits/%2F/limits"):
        answer = await monitor.get(path)
        assert (answer.status_code, answer.json()) == (401, refusal)
    assert [each["vhost"] for each in (await maker.get("/api/parameters")).json()] == ["/"]
    assert (await maker.get("/api/parameters/vhost-limits/v")).json() == refusal
    assert (await maker.put("/api/parameters/vhost-limits/v/limits", json={"value": {}})).json() == refusal
    assert (await maker.delete("/api/parameters/vhost-limits/%2F/limits")).status_code == 204


async def test_global_parameters(api: Api) -> None:
    path = "/api/global-parameters/own%2Fsetting"
    assert (await api.get(path)).status_code == 404
    assert (await api.put(path, json={"value": [1, {"two": None}]})).status_code == 201
    assert (await api.put(path, json={"value": {"a": 1.5}})).status_code == 204
    assert (await api.get(path)).json() == {"name": "own/setting", "value": {"a": 1.5}}
    names = [each["name"] for each in (await api.get("/api/global-parameters")).json()]
    assert names == ["internal_cluster_id", "own/setting"]
    assert (await api.put(path, json={})).json() == {"error": "bad_request", "reason": "[{key_missing,value}]"}
    assert (await api.delete(path)).status_code == 204
    assert (await api.delete(path)).status_code == 404
