"""Users over HTTP."""

from __future__ import annotations

import logging

import pytest

from rabbitlike.broker.accounts.permissions import EVERYTHING
from rabbitlike.broker.accounts.users import MD5, SHA256, hash_password
from tests.support.api import Api

ADMINISTRATORS_ALONE = [
    ("GET", "/api/users"),
    ("GET", "/api/users/without-permissions"),
    ("POST", "/api/users/bulk-delete"),
    ("GET", "/api/users/guest"),
    ("PUT", "/api/users/new"),
    ("DELETE", "/api/users/guest"),
    ("GET", "/api/users/guest/permissions"),
    ("GET", "/api/users/guest/topic-permissions"),
    ("GET", "/api/permissions"),
    ("GET", "/api/permissions/%2F/guest"),
    ("PUT", "/api/permissions/%2F/guest"),
    ("DELETE", "/api/permissions/%2F/guest"),
    ("GET", "/api/topic-permissions"),
    ("GET", "/api/topic-permissions/%2F/guest"),
    ("PUT", "/api/topic-permissions/%2F/guest"),
    ("DELETE", "/api/topic-permissions/%2F/guest"),
    ("DELETE", "/api/topic-permissions/%2F/guest/amq.topic"),
    ("GET", "/api/vhosts/%2F"),
    ("PUT", "/api/vhosts/new"),
    ("DELETE", "/api/vhosts/%2F"),
    ("GET", "/api/vhosts/%2F/permissions"),
    ("GET", "/api/vhosts/%2F/topic-permissions"),
    ("POST", "/api/vhosts/%2F/deletion/protection"),
    ("DELETE", "/api/vhosts/%2F/deletion/protection"),
    ("POST", "/api/vhosts/%2F/start/node"),
    ("PUT", "/api/vhost-limits/%2F/max-queues"),
    ("DELETE", "/api/vhost-limits/%2F/max-queues"),
    ("PUT", "/api/user-limits/guest/max-channels"),
    ("DELETE", "/api/user-limits/guest/max-channels"),
    ("GET", "/api/auth/hash_password/secret"),
    ("DELETE", "/api/auth/attempts/node"),
]


@pytest.mark.parametrize(("method", "path"), ADMINISTRATORS_ALONE)
async def test_for_administrators_alone(api: Api, method: str, path: str) -> None:
    other = api.user("other", ["monitoring", "policymaker"])
    answer = await other.request(method, path, json={} if method in ("PUT", "POST") else None)
    assert answer.status_code == 401
    assert answer.json() == {"error": "not_authorised", "reason": "Not administrator user"}
    assert (await api.stranger().request(method, path)).status_code == 401


async def test_a_user_from_its_making_to_its_end(api: Api) -> None:
    assert (await api.put("/api/users/bob", json={"password": "pw", "tags": "management, audit"})).status_code == 201
    found = (await api.get("/api/users/bob")).json()
    digest = found.pop("password_hash")
    assert found == {"name": "bob", "hashing_algorithm": SHA256, "tags": ["management", "audit"], "limits": {}}
    assert len(digest) == 48
    assert (await api.login("bob", "pw").get("/api/whoami")).json()["tags"] == ["management", "audit"]
    assert (await api.put("/api/users/bob", json={"password": "other", "tags": ["monitoring"]})).status_code == 204
    assert (await api.login("bob", "pw").get("/api/whoami")).status_code == 401
    assert (await api.login("bob", "other").get("/api/whoami")).status_code == 200
    assert [user["name"] for user in (await api.get("/api/users")).json()] == ["bob", "guest"]
    assert [user["name"] for user in (await api.get("/api/users/without-permissions")).json()] == ["bob"]
    api.pair.broker.set_permission("bob", "/", EVERYTHING)
    client = api.pair.connect("bob", "other")
    assert (await api.delete("/api/users/bob")).status_code == 204
    client.expect_close(320, "CONNECTION_FORCED - user 'bob' is deleted", None)
    assert (await api.delete("/api/users/bob")).status_code == 404
    assert (await api.get("/api/users/bob")).json() == {"error": "Object Not Found", "reason": "Not Found"}


@pytest.mark.parametrize("algorithm", [None, SHA256, MD5, "rabbit_password_hashing_sha512"])
async def test_hashes(api: Api, algorithm: str | None) -> None:
    digest = hash_password("secret", algorithm or SHA256)
    body = {"password_hash": digest, "tags": "management"}
    if algorithm is not None:
        body["hashing_algorithm"] = algorithm
    assert (await api.put("/api/users/bob", json=body)).status_code == 201
    assert (await api.get("/api/users/bob")).json()["password_hash"] == digest
    assert (await api.login("bob", "secret").get("/api/whoami")).status_code == 200


@pytest.mark.parametrize("body", [{"tags": ""}, {"password": "", "tags": ""}, {"password_hash": "", "tags": ""}])
async def test_without_a_password(api: Api, body: dict[str, str]) -> None:
    assert (await api.put("/api/users/bob", json={"password": "pw", "tags": "management"})).status_code == 201
    assert (await api.put("/api/users/bob", json=body)).status_code == 204
    for password in ("pw", ""):
        assert (await api.login("bob", password).get("/api/whoami")).status_code == 401
    assert (await api.get("/api/users/bob")).json()["password_hash"] == ""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"password": "x"}, "tags_not_present"),
        ({"password": "x", "password_hash": "", "tags": ""}, "both_password_and_password_hash_are_provided"),
        ({"password_hash": "!", "tags": ""}, "not_base64"),
        (
            {"tags": "", "limits": {"max-fun": 1}},
            'Unrecognised terms [{<<"max-fun">>,1}] in user-limits',
        ),
        ({"tags": "", "limits": [1]}, "user-limits not a list [1]"),
        ({"tags": ["x"] * 33}, "A user can have at most 32 tags (received 33)"),
        ({"tags": "", "permissions": {"nowhere": {"configure": "", "write": "", "read": ""}}},
         ["no_such_vhost", "nowhere"]),
    ],
)  # fmt: skip
async def test_bodies_that_will_not_do(api: Api, body: dict[str, object], reason: object) -> None:
    answer = await api.put("/api/users/wrong", json=body)
    assert answer.status_code == 400
    assert answer.json() == {"error": "bad_request", "reason": reason}
    assert "wrong" not in api.pair.broker.users


@pytest.mark.parametrize(
    "body",
    [{"password": 1, "tags": ""}, {"password": "x", "tags": 1}, {"tags": [1]}, {"tags": "", "permissions": 1}],
)
async def test_bodies_of_the_wrong_type(api: Api, body: dict[str, object]) -> None:
    answer = await api.put("/api/users/wrong", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"] == "bad_request"


async def test_the_old_word_for_administrators(api: Api) -> None:
    await api.put("/api/users/old", json={"password": "x", "administrator": True})
    assert (await api.get("/api/users/old")).json()["tags"] == ["administrator"]


async def test_permissions_of_a_new_user(api: Api) -> None:
    everything = {"configure": ".*", "write": ".*", "read": ""}
    body = {"password": "pw", "tags": "", "permissions": {"/": everything}, "limits": {"max-channels": 3}}
    assert (await api.put("/api/users/bob", json=body)).status_code == 201
    assert (await api.get("/api/permissions/%2F/bob")).json() == {"user": "bob", "vhost": "/", **everything}
    assert (await api.get("/api/users/bob")).json()["limits"] == {"max-channels": 3}
    body["permissions"] = {"/": {**everything, "read": ".*"}}
    assert (await api.put("/api/users/bob", json=body)).status_code == 204
    assert (await api.get("/api/permissions/%2F/bob")).json()["read"] == ""


async def test_deleting_several(api: Api) -> None:
    for name in ("one", "two", "three"):
        await api.put(f"/api/users/{name}", json={"tags": ""})
    answer = await api.post("/api/users/bulk-delete", json={"users": ["one", "never-was", "two"]})
    assert answer.json() == {"error": "bad_request", "reason": ["no_such_user", "never-was"]}
    answer = await api.post("/api/users/bulk-delete", json={"users": ["one", "two", "one"]})
    assert answer.status_code == 204
    assert [user["name"] for user in (await api.get("/api/users?columns=name")).json()] == ["guest", "three"]
    answer = await api.post("/api/users/bulk-delete", json={})
    assert answer.json() == {"error": "bad_request", "reason": "[{key_missing,users}]"}


async def test_passwords_stay_out_of_the_log(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await api.put("/api/users/bob", json={"password": "geheim-1", "tags": "management"})
    await api.put("/api/users/bob", json={"password": ["geheim-1"], "tags": "management"})
    await api.login("bob", "geheim-2").get("/api/whoami")
    await api.get("/api/auth/hash_password/geheim-3")
    await api.stranger().post("/api/login", data={"username": "bob", "password": "geheim-4"})
    await api.delete("/api/users/bob")
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("rabbitlike")]
    assert ours
    assert "geheim" not in "".join(ours)


async def test_odd_names(api: Api) -> None:
    for name in ("a%2Fb", "%C3%A4", "per%25cent", "with%20space", "%FF"):
        assert (await api.put(f"/api/users/{name}", json={"tags": ""})).status_code == 201
        assert (await api.get(f"/api/users/{name}")).status_code == 200
        assert (await api.put(f"/api/users/{name}", json={"tags": ""})).status_code == 204
    assert {user["name"] for user in (await api.get("/api/users")).json()} >= {"a/b", "ä", "per%cent", "with space"}


async def test_pages_of_users(api: Api) -> None:
    """parity: since RabbitMQ 3.12; the management UI asks for pages alone."""
    for name in ("anna", "bert", "carl"):
        api.user(name, vhost=None)
    page = (await api.get("/api/users?page=1&page_size=2&name=&use_regex=false&pagination=true")).json()
    assert [user["name"] for user in page.pop("items")] == ["anna", "bert"]
    assert page == {
        "total_count": 4,
        "item_count": 2,
        "filtered_count": 4,
        "page": 1,
        "page_size": 2,
        "page_count": 2,
    }
    found = (await api.get("/api/users?page=1&name=AR&columns=name")).json()
    assert (found["filtered_count"], found["items"]) == (1, [{"name": "carl"}])
    without = (await api.get("/api/users/without-permissions?page=1&columns=name")).json()
    assert without["items"] == [{"name": name} for name in ("anna", "bert", "carl")]
    assert (await api.get("/api/users?page=9")).json()["error"] == "page_out_of_range"
    assert len((await api.get("/api/users")).json()) == 4
