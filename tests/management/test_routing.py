"""Routes that are made when they are needed."""

import asyncio
import threading

import httpx
import pytest
from fastapi import FastAPI

from rabbitlike.management.http.routing import LateRoute, Router, make_all


@pytest.fixture
def router() -> Router:
    found = Router("things")

    @found.get("/things/{thing}")
    async def read(thing: int, most: int = 10) -> dict[str, int]:
        return {"thing": thing, "most": most}

    @found.put("/things/{thing}", status_code=201)
    async def write(thing: int) -> dict[str, int]:
        return {"thing": thing}

    return found


def made(router: Router) -> list[bool]:
    return [hasattr(route, "dependant") for route in router.routes]


async def test_a_route_is_made_when_it_is_called(router: Router) -> None:
    api = FastAPI()
    api.router.routes.extend(router.routes)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://broker") as client:
        assert (await client.get("/api/thing")).status_code == 404
        assert made(router) == [False, False]
        for _ in range(2):
            answer = await client.get("/api/things/7", params={"most": "3"})
            assert (answer.status_code, answer.json()) == (200, {"thing": 7, "most": 3})
        assert made(router) == [True, False]
        assert (await client.put("/api/things/7")).status_code == 201
        assert (await client.get("/api/things/none")).status_code == 422
        assert (await client.post("/api/things/7")).status_code == 405


async def test_routes_are_made_before_they_are_called(router: Router) -> None:
    first = router.routes[0]
    assert isinstance(first, LateRoute)
    first.make()
    dependant = first.dependant
    await make_all(router.routes)
    assert made(router) == [True, True]
    assert first.dependant is dependant


async def test_routes_are_made_off_the_loop(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    makers: list[int] = []
    make = LateRoute.make

    def watched(route: LateRoute) -> None:
        makers.append(threading.get_ident())
        make(route)

    monkeypatch.setattr(LateRoute, "make", watched)
    api = FastAPI()
    api.router.routes.extend(router.routes)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://broker") as client:
        answers = await asyncio.gather(*(client.get("/api/things/7") for _ in range(5)))
    await make_all(router.routes)
    assert [answer.status_code for answer in answers] == [200] * 5
    assert made(router) == [True, True]
    assert len(makers) >= 2
    assert threading.get_ident() not in makers
