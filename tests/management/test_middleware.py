"""What every request passes: paths, methods, sizes, bodies, and what every answer carries."""

import inspect
from collections.abc import Iterator

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel

from rabbitlike.config import Settings
from rabbitlike.management.auth import Member, login
from rabbitlike.management.context import Context
from rabbitlike.management.http import errors, middleware
from rabbitlike.management.http.replies import Reply
from rabbitlike.management.http.routing import LateRoute, Router
from rabbitlike.management.routes import ROUTERS
from rabbitlike.protocol.errors import access_refused, not_found, precondition_failed
from tests.support.api import Api, make_api
from tests.support.pair import Pair


class Thing(BaseModel):
    size: int


def toy() -> Api:
    """The API's front with routes of its own."""
    router = APIRouter()

    @router.get("/api/things/{vhost:name}/{thing:name}")
    async def read(vhost: str, thing: str) -> dict[str, str]:
        return {"vhost": vhost, "thing": thing}

    @router.put("/api/things/{vhost:name}/{thing:name}")
    async def write(caller: Member, thing: str, body: Thing) -> dict[str, object]:
        return {"thing": thing, "size": body.size}

    @router.get("/api/fails/{how:name}")
    async def fail(how: str) -> None:
        raise {
            "missing": not_found("no queue 'q' in vhost '/'"),
            "refused": access_refused("configure access refused"),
            "unequal": precondition_failed("inequivalent arg"),
            "bug": RuntimeError("a bug"),
        }[how]

    pair = Pair()
    context = Context(pair.broker, Settings())
    app = FastAPI(redirect_slashes=False, default_response_class=Reply)
    app.state.context = context
    app.include_router(router)
    errors.install(app, lambda path: middleware.allowed_methods((router,), path))
    app.add_middleware(middleware.ApiMiddleware, routers=(router,), login=lambda scope: login(scope, context))
    return Api(pair, app)


@pytest.fixture
def things() -> Api:
    return toy()


def test_every_route_runs_on_the_loop() -> None:
    """A plain `def` would be run in a thread, which must not touch the broker."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, LateRoute)]
    assert routes
    for route in routes:
        route.make()
    calls = [(route.path, call) for route in routes for call in _calls(route.dependant)]
    plain = [path for path, call in calls if not inspect.iscoroutinefunction(call)]
    assert plain == []


def _calls(dependant: Dependant) -> Iterator[object]:
    """What a request makes FastAPI call: the route, and all it depends on."""
    # A dependency that is an object is called by its method.
    yield dependant.call if inspect.isroutine(dependant.call) else type(dependant.call).__call__
    for each in dependant.dependencies:
        yield from _calls(each)


def test_no_route_is_made_at_the_first_request() -> None:
    assert all(isinstance(router, Router) for router in ROUTERS)
    standing = {id(route) for route in make_api().app.router.routes}
    assert standing >= {id(route) for router in ROUTERS for route in router.routes}


@pytest.mark.parametrize(
    ("path", "vhost", "thing"),
    [
        ("/api/things/%2F/q", "/", "q"),
        ("/api/things/%2F/q/", "/", "q"),
        ("/api/things/v/a%2Fb%25%20%C3%BC", "v", "a/b% ü"),
    ],
)
async def test_names_in_paths_are_decoded_one_by_one(things: Api, path: str, vhost: str, thing: str) -> None:
    assert (await things.get(path)).json() == {"vhost": vhost, "thing": thing}


async def test_a_name_need_not_be_utf8(things: Api) -> None:
    assert (await things.get("/api/things/%2F/%FFq")).json() == {"vhost": "/", "thing": "�q"}


async def test_what_is_not_there(api: Api) -> None:
    answer = await api.get("/api/no/such/thing")
    assert (answer.status_code, answer.json()) == (404, {"error": "Object Not Found", "reason": "Not Found"})


async def test_a_method_that_is_not_there(things: Api) -> None:
    answer = await things.delete("/api/things/%2F/q")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "HEAD, GET, PUT, OPTIONS"
    assert answer.json()["error"] == "method_not_allowed"


async def test_head_is_get_without_the_body(api: Api) -> None:
    whole, head = await api.get("/api/whoami"), await api.head("/api/whoami")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))


async def test_options_need_no_login(api: Api, things: Api) -> None:
    answer = await things.stranger().options("/api/things/%2F/q")
    assert (answer.status_code, answer.headers["allow"]) == (200, "HEAD, GET, PUT, OPTIONS")
    assert (await api.stranger().options("/api/nothing")).status_code == 404


async def test_what_every_answer_carries(api: Api) -> None:
    for answer in (
        await api.get("/api/whoami"),
        await api.get("/api/nothing"),
        await api.stranger().get("/api/whoami"),
    ):
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-content-type-options"] == "nosniff"
        # parity
        policy = "script-src 'self' 'unsafe-eval' 'unsafe-inline'; object-src 'self'"
        assert answer.headers["content-security-policy"] == policy
        assert answer.headers["content-type"] == "application/json"
        assert "access-control-allow-origin" not in answer.headers


async def test_bodies_are_json_whatever_their_type_says(things: Api) -> None:
    for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain", ""):
        answer = await things.put("/api/things/%2F/q", content=b'{"size":1}', headers={"content-type": kind})
        assert answer.json() == {"thing": "q", "size": 1}, kind


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"undefined", b" "])
async def test_no_body_is_an_empty_object(things: Api, body: bytes) -> None:
    answer = await things.put("/api/things/%2F/q", content=body)
    assert (answer.status_code, answer.json()) == (400, {"error": "bad_request", "reason": "[{key_missing,size}]"})


@pytest.mark.parametrize("body", [b"{", b"[1]", b"1", b"\xff", b'{"size":NaN}', b"[" * 100_000])
async def test_what_is_not_json(things: Api, body: bytes) -> None:
    answer = await things.put("/api/things/%2F/q", content=body)
    assert (answer.status_code, answer.json()) == (400, {"error": "bad_request", "reason": "not_json"})


async def test_json_in_json(things: Api) -> None:
    answer = await things.put("/api/things/%2F/q", json='{"size":1}')
    assert answer.status_code == 400
    assert "doubly" in answer.json()["reason"]


async def test_a_value_of_the_wrong_type_is_named(things: Api) -> None:
    answer = await things.put("/api/things/%2F/q", json={"size": "large"})
    assert answer.status_code == 400
    assert answer.json()["reason"].startswith("size: ")


async def test_a_body_beyond_20_mib_is_refused(things: Api) -> None:
    async def endless():  # type: ignore[no-untyped-def]
        while True:
            yield bytes(1 << 20)

    too_large = {"error": "bad_request", "reason": "Exceeded HTTP request body size limit"}
    for body in (bytes(20 * 1024 * 1024 + 1), endless()):
        answer = await things.put("/api/things/%2F/q", content=body)
        assert (answer.status_code, answer.json()) == (400, too_large)


async def test_strangers_bodies_are_not_read(things: Api) -> None:
    """A stranger's body of this size is refused for its login before it is parsed, however it is sent."""

    async def unannounced():  # type: ignore[no-untyped-def]
        yield b"{" * 10_000

    for body in (b"{" * 10_000, unannounced()):
        answer = await things.stranger().put("/api/things/%2F/q", content=body)
        assert answer.status_code == 401


@pytest.mark.parametrize(
    ("how", "status", "error", "reason"),
    [
        ("missing", 404, "not_found", "no queue 'q' in vhost '/'"),
        ("refused", 401, "not_authorised", "Access refused."),
        ("unequal", 400, "bad_request", "inequivalent arg"),
        ("bug", 500, "internal_error", "an unexpected error, for details see the broker log"),
    ],
)
async def test_what_the_broker_refuses(things: Api, how: str, status: int, error: str, reason: str) -> None:
    answer = await things.get(f"/api/fails/{how}")
    assert (answer.status_code, answer.json()) == (status, {"error": error, "reason": reason})


async def test_web_pages_of_other_origins_are_let_in_where_that_is_said() -> None:
    preflight = {"Origin": "https://shop.example", "Access-Control-Request-Method": "GET"}
    async with make_api() as api:
        assert "access-control-allow-origin" not in (await api.options("/api/whoami", headers=preflight)).headers
    async with make_api(management_cors_origins=("https://shop.example",)) as api:
        answer = await api.stranger().options("/api/whoami", headers=preflight)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://shop.example")
        answer = await api.get("/api/whoami", headers={"Origin": "https://shop.example"})
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        other = {**preflight, "Origin": "https://other.example"}
        assert "access-control-allow-origin" not in (await api.options("/api/whoami", headers=other)).headers


async def test_the_description_is_for_those_who_are_let_in(api: Api) -> None:
    assert (await api.stranger().get("/api/openapi.json")).status_code == 401
    paths = (await api.get("/api/openapi.json")).json()["paths"]
    declare = paths["/api/queues/{vhost}/{queue}"]["put"]
    assert declare["security"] == [{"basic": []}]
    assert {"201", "204", "400", "401", "404"} <= declare["responses"].keys()
    assert all("422" not in operation["responses"] for path in paths.values() for operation in path.values())
    named = [each["name"] for each in paths["/api/queues"]["get"]["parameters"]]
    assert named == ["page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns"]


OTHER = "https://evil.example"
NEW_ADMINISTRATOR = b'{"users": [{"name": "eve", "password": "eve", "tags": "administrator"}]}'


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": OTHER},
        {"Origin": "null"},
        {"Origin": "http://broker.evil.example"},
        {"Origin": "http://broker:8080"},
        {"Origin": "http://[broker"},
        {"Origin": OTHER, "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://other.broker", "Sec-Fetch-Site": "same-site"},
        [("Origin", "http://broker"), ("Origin", OTHER)],
    ],
    ids=str,
)
async def test_pages_of_other_sites_change_nothing(api: Api, headers: dict[str, str] | list[tuple[str, str]]) -> None:
    """The browser adds the password it has stored, whichever page asks: here a form or a script without preflight."""
    with_type = [*httpx.Headers(headers).multi_items(), ("Content-Type", "text/plain")]
    for method, path, body in (
        ("POST", "/api/definitions", NEW_ADMINISTRATOR),
        ("PUT", "/api/queues/%2F/q", b"{}"),
        ("DELETE", "/api/vhosts/%2F", b""),
        ("PATCH", "/api/v1/queues/q", b"{}"),
    ):
        answer = await api.request(method, path, content=body, headers=with_type)
        assert (answer.status_code, answer.json()["error"]) == (403, "forbidden"), (method, path)
        assert "not listed in management_cors_origins" in answer.json()["reason"]
    assert "eve" not in api.pair.broker.users
    assert api.pair.broker.vhosts["/"].queues == {}
    # Looking is left to the browser: it does not show the answer to the page.
    assert (await api.get("/api/whoami", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://broker"},
        {"Origin": "https://broker"},  # a proxy in front adds TLS
        {"Origin": "http://Broker", "Host": "broker:80"},
        {"Origin": "https://mq.example:8443", "Host": "mq.example:8443"},
        {"Origin": "http://[::1]:15672", "Host": "[::1]:15672"},
        {"Origin": "https://mq.example", "Sec-Fetch-Site": "same-origin"},  # a proxy in front changes Host
        {"Sec-Fetch-Site": "none"},
    ],
    ids=str,
)
async def test_own_pages_and_tools_change_what_they_may(api: Api, headers: dict[str, str]) -> None:
    answer = await api.post("/api/definitions", content=NEW_ADMINISTRATOR, headers=headers)
    assert answer.status_code == 204
    assert "eve" in api.pair.broker.users


async def test_over_tls_a_page_without_it_is_another_origin(api: Api) -> None:
    api.base_url = httpx.URL("https://broker")
    answer = await api.put("/api/queues/%2F/q", json={}, headers={"Origin": "http://broker"})
    assert answer.status_code == 403
    assert (await api.put("/api/queues/%2F/q", json={}, headers={"Origin": "https://broker"})).status_code == 201


@pytest.mark.parametrize("listed", ["https://shop.example", "*"])
async def test_pages_of_listed_origins_change_what_they_may(listed: str) -> None:
    async with make_api(management_cors_origins=(listed,)) as api:
        headers = {"Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site"}
        assert (await api.put("/api/queues/%2F/q", json={}, headers=headers)).status_code == 201
        headers["Origin"] = "https://other.example"
        answer = await api.put("/api/queues/%2F/q", json={}, headers=headers)
        assert answer.status_code == (204 if listed == "*" else 403)


async def test_other_sites_use_up_no_login_attempts(api: Api) -> None:
    """Else a page could lock its visitor out."""
    for _ in range(20):
        answer = await api.login("guest", "wrong").put("/api/queues/%2F/q", headers={"Origin": OTHER})
        assert answer.status_code == 403
    assert (await api.get("/api/whoami")).status_code == 200
