"""Policies over HTTP: who may set them, what is answered, and that they take effect."""

import json

import pytest

from tests.support.api import Api

P = "/api/policies/%2F/p"
O = "/api/operator-policies/%2F/p"  # noqa: E741
BODY = {"pattern": "^q", "definition": {"max-length": 2}}


@pytest.mark.parametrize("path", [P, O])
async def test_set_show_change_clear(api: Api, path: str) -> None:
    assert (await api.get(path)).status_code == 404
    made = await api.put(path, json=BODY)
    assert (made.status_code, made.content) == (201, b"")
    shown = {"vhost": "/", "name": "p", "apply-to": "all", "priority": 0, **BODY}
    assert (await api.get(path)).json() == shown
    parent = path.rpartition("/")[0]
    assert (await api.get(parent)).json() == (await api.get(parent.rpartition("/")[0])).json() == [shown]
    assert (await api.put(path, json={**BODY, "priority": 3, "apply-to": "queues"})).status_code == 204
    changed = (await api.get(path)).json()
    assert (changed["priority"], changed["apply-to"]) == (3, "queues")
    assert (await api.delete(path)).status_code == 204
    assert (await api.delete(path)).status_code == 404
    assert (await api.get(parent)).json() == []


async def test_it_takes_effect_at_once(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("q")
    for number in range(5):
        ch.publish(b"%d" % number, key="q")
    await api.put(P, json=BODY)
    assert ch.declare("q", passive=True).message_count == 2


async def test_lists_are_by_priority(api: Api) -> None:
    for name, priority in (("b", 5), ("a", 5), ("c", -1), ("d", 2.5)):
        await api.put(f"/api/policies/%2F/{name}", json={**BODY, "priority": priority})
    assert [each["name"] for each in (await api.get("/api/policies")).json()] == ["c", "d", "a", "b"]
    assert (await api.get("/api/policies?columns=name&sort=name&sort_reverse=true")).json()[0] == {"name": "d"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{}", "[{key_missing,pattern},{key_missing,definition}]"),
        ('{"definition": {"max-length": 1}}', "[{key_missing,pattern}]"),
        ("{", "not_json"),
        (
            '{"pattern": 5, "definition": {"max-length": 1}}',
            "Validation failed\n\npattern should be a binary but was 5\n",
        ),
        (
            '{"pattern": "x", "definition": {"max-length": -1}}',
            "Validation failed\n\n-1 is not a valid maximum length\n",
        ),
        (
            json.dumps({"pattern": "a" * 2_300_000, "definition": {"max-length": 1}}),
            "Validation failed\n\n"
            'pattern should be regular expression but is invalid: {"regular expression is too large",4096}\n',
        ),
        ('{"pattern": "x", "definition": {}}', "Validation failed\n\nno policy provided\n"),
        (
            '{"pattern": "x", "definition": {"max-length": 1}, "priority": null}',
            "Validation failed\n\npriority should be a number, actually was null\n",
        ),
    ],
)
async def test_what_is_wrong_is_told(api: Api, body: str, reason: str) -> None:
    answer = await api.put(P, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": "bad_request", "reason": reason})


async def test_a_vhost_that_is_not_there(api: Api) -> None:
    answer = await api.put("/api/policies/nope/p", json=BODY)
    assert (answer.status_code, answer.json()) == (404, {"error": "not_found", "reason": "vhost_not_found"})
    for method, path in (("GET", "/api/policies/nope"), ("DELETE", "/api/policies/nope/p")):
        answer = await api.request(method, path)
        assert (answer.status_code, answer.json()["error"]) == (404, "Object Not Found")


@pytest.mark.parametrize(
    ("tags", "vhost", "statuses"),
    [
        # list, read, put and delete a policy; the same of operators
        (["management"], "/", [200, 401, 401, 401, 200, 401, 401, 401]),
        (["monitoring"], "/", [200, 401, 401, 401, 200, 401, 401, 401]),
        (["policymaker"], "/", [200, 200, 204, 204, 200, 401, 401, 401]),
        (["policymaker"], None, [401, 401, 401, 401, 401, 401, 401, 401]),
        (["administrator"], "/", [200, 200, 204, 204, 200, 200, 204, 204]),
        ([], "/", [401] * 8),
    ],
)
async def test_who_may(api: Api, tags: list[str], vhost: str | None, statuses: list[int]) -> None:
    await api.put(P, json=BODY)
    await api.put(O, json=BODY)
    user = api.user("somebody", tags, vhost=vhost)
    answers = []
    for path in (P, O):
        answers.append(await user.get(path.rpartition("/")[0]))
        answers.append(await user.get(path))
        answers.append(await user.put(path, content=json.dumps(BODY)))
        answers.append(await user.delete(path))
    assert [answer.status_code for answer in answers] == statuses


async def test_lists_hold_what_may_be_seen(api: Api) -> None:
    api.pair.broker.add_vhost("other")
    await api.put("/api/policies/other/p", json=BODY)
    await api.put(P, json=BODY)
    user = api.user("somebody", ["monitoring"])
    assert [each["vhost"] for each in (await user.get("/api/policies")).json()] == ["/"]
    assert [each["vhost"] for each in (await api.get("/api/policies")).json()] == ["/", "other"]


async def test_the_answer_waits_for_the_last_queue(api: Api) -> None:
    vhost = api.pair.broker.vhosts["/"]
    queues = [vhost.declare_queue(f"q{number}") for number in range(1000)]
    await api.put(P, json=BODY)
    assert {queue.settings.max_length for queue in queues} == {2}
    await api.delete(P)
    assert {queue.settings.max_length for queue in queues} == {None}
