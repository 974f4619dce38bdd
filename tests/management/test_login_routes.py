"""Logging in: the form, the counts, the hashes."""

from __future__ import annotations

from base64 import b64decode

from rabbitlike.broker.accounts.users import Users
from rabbitlike.broker.views import node_name
from tests.support.api import Api, make_api
from tests.support.pair import Pair


async def test_the_form(api: Api) -> None:
    answer = await api.stranger().post("/api/login", data={"username": "guest", "password": "guest"})
    assert (answer.status_code, answer.json()) == (200, "ok")
    name, _, value = answer.headers["set-cookie"].partition("=")
    assert name == "auth"
    # parity: what the cookie holds is a login as it is, without quotes and attributes.
    answer = await api.stranger().get("/api/whoami", headers={"Authorization": f"Basic {value}"})
    assert answer.json()["name"] == "guest"


async def test_over_tls_the_cookie_is_for_tls(api: Api) -> None:
    answer = await api.stranger().post("https://broker/api/login", data={"username": "guest", "password": "guest"})
    value, _, attribute = answer.headers["set-cookie"].partition("; ")
    assert (b64decode(value.removeprefix("auth=")), attribute) == (b"guest:guest", "secure")


async def test_forms_that_will_not_do(api: Api) -> None:
    api.user("untagged", [])
    stranger = api.stranger()
    for data, status in (
        ({"username": "guest", "password": "wrong"}, 401),
        ({"username": "nobody", "password": "guest"}, 401),
        ({"username": "untagged", "password": "pw"}, 401),
        ({"username": "guest"}, 400),
        ({}, 400),
    ):
        answer = await stranger.post("/api/login", data=data)
        assert answer.status_code == status, data
        assert "set-cookie" not in answer.headers
    assert (await stranger.post("/api/login", content=b"\xff=%FF")).status_code == 400
    assert (await stranger.post("/api/login", content=b"x" * 5000)).status_code == 401
    elsewhere = api.stranger("192.0.2.1")
    answer = await elsewhere.post("/api/login", data={"username": "guest", "password": "guest"})
    assert answer.status_code == 401


async def test_the_form_cannot_be_used_to_guess(api: Api) -> None:
    stranger = api.stranger()
    statuses = [
        (await stranger.post("/api/login", data={"username": "guest", "password": str(number)})).status_code
        for number in range(15)
    ]
    assert statuses[-1] == 429


async def test_ways(api: Api) -> None:
    assert (await api.get("/api/auth")).json() == {"oauth_enabled": False}


async def test_login_pages_ask_without_credentials(api: Api) -> None:
    """parity: RabbitMQ's management UI asks before anybody has logged in, and hangs if it is refused."""
    stranger = api.stranger("192.0.2.1")
    answer = await stranger.get("/api/auth")
    assert (answer.status_code, answer.json()) == (200, {"oauth_enabled": False})
    answer = await stranger.get("/api/version")
    assert (answer.status_code, answer.json()) == (200, api.context.settings.version)
    for path in ("/api/auth/attempts/node", "/api/auth/hash_password/secret", "/api/whoami", "/api/overview"):
        assert (await stranger.get(path)).status_code == 401, path


async def test_attempts() -> None:
    pair = Pair(track_auth_attempt_source=True)
    api = make_api(pair)
    path = f"/api/auth/attempts/{node_name(pair.broker.settings)}"
    pair.connect()
    await api.login("guest", "wrong").get("/api/whoami")
    found = (await api.get(path)).json()
    assert found == [
        {"protocol": "amqp091", "auth_attempts": 1, "auth_attempts_failed": 0, "auth_attempts_succeeded": 1},
        {"protocol": "http", "auth_attempts": 2, "auth_attempts_failed": 1, "auth_attempts_succeeded": 1},
    ]
    by_source = (await api.get(path + "/source")).json()
    assert {(each["protocol"], each["remote_address"], each["username"]) for each in by_source} == {
        ("amqp091", "127.0.0.1", "guest"),
        ("http", "127.0.0.1", "guest"),
    }
    assert (await api.delete(path)).status_code == 204
    assert [each["protocol"] for each in (await api.get(path)).json()] == ["http"]
    assert (await api.get("/api/auth/attempts/elsewhere")).status_code == 404
    assert (await api.user("bob").get(path)).json()["reason"] == "Not monitor user"


async def test_sources_are_not_tracked_unless_wanted(api: Api) -> None:
    assert (await api.get(f"/api/auth/attempts/{node_name(api.pair.broker.settings)}/source")).json() == []


async def test_hashes(api: Api) -> None:
    hashed = (await api.get("/api/auth/hash_password/p%C3%A4ss%2Fword")).json()["ok"]
    users = Users("")
    users.add_hashed("u", hashed)
    assert users.authenticate("u", "päss/word") is not None
