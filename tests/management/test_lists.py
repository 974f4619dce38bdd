"""Lists: pages, filters, order, columns, and that a long one is written in slices."""

import asyncio
import json
from urllib.parse import quote

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response

from rabbitlike.management.http import errors
from rabbitlike.management.listing import lists
from tests.support.api import Api
from tests.support.pair import Pair

VIEWS = [
    {"name": name, "vhost": "/", "messages": count, "message_stats": {"publish_details": {"rate": rate}}}
    for name, count, rate in [("banana", 3, 0.5), ("Apple", 10, 2.0), ("cherry", 7, 1.0), ("app", 0, 0.0)]
]


def listing(views: list[dict[str, object]], **options: object) -> Api:
    app = FastAPI()
    errors.install(app, lambda path: "")

    @app.get("/")
    async def read(request: Request) -> Response:
        return await lists.answer(request, views, **options)  # type: ignore[call-overload,no-any-return]

    return Api(Pair(), app)


@pytest.fixture
def fruit() -> Api:
    return listing(VIEWS)  # type: ignore[arg-type]


async def names(api: Api, query: str) -> list[str]:
    answer = (await api.get(f"/?{query}")).json()
    return [view["name"] for view in (answer["items"] if isinstance(answer, dict) else answer)]


async def test_without_a_page_it_is_an_array(fruit: Api) -> None:
    assert await names(fruit, "") == ["Apple", "app", "banana", "cherry"]
    assert await names(fruit, "name=app&page_size=1") == ["Apple", "app", "banana", "cherry"]


async def test_a_page(fruit: Api) -> None:
    answer = (await fruit.get("/?page=2&page_size=3&columns=name")).json()
    assert answer == {
        "total_count": 4,
        "item_count": 1,
        "filtered_count": 4,
        "page": 2,
        "page_size": 3,
        "page_count": 2,
        "items": [{"name": "cherry"}],
    }
    assert (await fruit.get("/?page=1")).json()["page_size"] == 100


async def test_an_empty_page(fruit: Api) -> None:
    answer = (await fruit.get("/?page=1&name=nothing")).json()
    assert (answer["items"], answer["page_count"], answer["filtered_count"], answer["total_count"]) == ([], 0, 0, 4)
    assert (await fruit.get("/?page=2&page_size=4")).json()["items"] == []


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        ("page=3&page_size=4", "page_out_of_range", "Page out of range, page: 3 page size: 4, len: 4"),
        (
            "page=0",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 0, page size undefined",
        ),
        (
            "page=1&page_size=501",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 1, page size 501",
        ),
        (
            "page=-1&page_size=0",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number -1, page size 0",
        ),
        ("page=x", "bad_request", "Pagination parameters are invalid"),
        ("page_size=", "bad_request", "Pagination parameters are invalid"),
    ],
)
async def test_pages_that_cannot_be(fruit: Api, query: str, error: str, reason: str) -> None:
    answer = await fruit.get(f"/?{query}")
    assert (answer.status_code, answer.json()) == (400, {"error": error, "reason": reason})


async def test_filters_ignore_case(fruit: Api) -> None:
    assert await names(fruit, "page=1&name=APP") == ["Apple", "app"]
    assert await names(fruit, "page=1&name=^app$&use_regex=true") == ["app"]
    assert await names(fruit, "page=1&name=^app$&use_regex=false") == []
    assert await names(fruit, "page=1&name=&use_regex=true") == ["Apple", "app", "banana", "cherry"]


async def test_what_keda_asks(fruit: Api) -> None:
    answer = (await fruit.get("/?page=1&use_regex=true&pagination=false&name=%5Eapp&page_size=100")).json()
    assert (answer["page_count"], [view["messages"] for view in answer["items"]]) == (1, [10, 0])


@pytest.mark.parametrize("expression", ["(", "a" * 2000, "(" * 1000])
async def test_expressions_that_cannot_be(fruit: Api, expression: str) -> None:
    answer = await fruit.get("/", params={"page": 1, "use_regex": "true", "name": expression})
    assert answer.status_code == 400


async def test_an_expression_cannot_hold_the_broker_up() -> None:
    api = listing([{"name": "a" * 255, "vhost": "/"}])
    answer = await api.get("/", params={"page": 1, "use_regex": "true", "name": "^(a|aa)+$|^(a+)+b$"})
    assert answer.status_code in (200, 400)
    answer = await api.get("/", params={"page": 1, "use_regex": "true", "name": r"^(a|a|aa)+\b!$"})
    assert (answer.status_code, answer.json()["reason"]) == (400, "the expression takes too long")


async def test_order(fruit: Api) -> None:
    assert await names(fruit, "sort=messages") == ["app", "banana", "cherry", "Apple"]
    assert await names(fruit, "sort=messages&sort_reverse=true") == ["Apple", "cherry", "banana", "app"]
    assert await names(fruit, "sort=message_stats.publish_details.rate") == ["app", "banana", "cherry", "Apple"]
    assert await names(fruit, "sort=no.such.field&page=1&page_size=2") == ["Apple", "app"]
    assert await names(fruit, "sort_reverse=true") == ["cherry", "banana", "app", "Apple"]


async def test_order_of_unlike_values() -> None:
    values = ["text", None, 5, True, 2.5, {"a": 1}]
    api = listing([{"name": str(at), "value": value} for at, value in enumerate(values)] + [{"name": "none"}])
    order = [view.get("value", "missing") for view in (await api.get("/?sort=value")).json()]
    assert order == ["missing", 2.5, 5, None, True, {"a": 1}, "text"]


async def test_columns(fruit: Api) -> None:
    answer = (await fruit.get("/?columns=name,message_stats.publish_details.rate,nothing&page=1&page_size=1")).json()
    assert answer["items"] == [{"name": "Apple", "message_stats": {"publish_details": {"rate": 2.0}}}]
    assert (await fruit.get("/?columns=message_stats.publish_details,message_stats")).json()[0] == {
        "message_stats": {"publish_details": {"rate": 2.0}}
    }


async def test_an_order_by_a_column_that_is_not_shown(fruit: Api) -> None:
    assert await names(fruit, "sort=messages&columns=name") == ["app", "banana", "cherry", "Apple"]


async def test_long_lists_are_whole_and_let_others_work() -> None:
    count = 5_000
    api = listing([{"name": f"q{(at * 7919) % count:05}", "vhost": "/", "filler": "x" * 1000} for at in range(count)])
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    answer = await api.get("/")
    task.cancel()
    assert [view["name"] for view in json.loads(answer.content)] == [f"q{at:05}" for at in range(count)]
    assert turns > 3


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2000, 7777, 12_345])
@pytest.mark.parametrize("kinds", [1, 3, 100_000])
async def test_long_lists_are_sorted_as_short_ones(count: int, kinds: int) -> None:
    keys = [(at * 7919 + at * at) % kinds for at in range(count)]
    slices = lists.Slices()
    assert await lists._sorted(list(range(count)), keys, slices) == sorted(range(count), key=keys.__getitem__)


async def test_names_that_are_not_utf8_are_shown() -> None:
    api = listing([{"name": b"a\xff".decode("utf-8", "surrogateescape"), "vhost": "/", "big": 1 << 70}])
    assert (await api.get("/")).json() == [{"name": "a�", "vhost": "/", "big": float(1 << 70)}]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {"next": None, "about": {"a": 1, "b": 2}, "things": [{"name": "x", "size": 1}, {"name": "y", "size": 2}]}),
        ("columns=things.name,about.b", {"about": {"b": 2}, "things": [{"name": "x"}, {"name": "y"}]}),
        ("columns=things", {"things": [{"name": "x", "size": 1}, {"name": "y", "size": 2}]}),
        ("columns=next", {"next": None}),
        ("columns=none", {}),
    ],
)
@pytest.mark.parametrize("slice_s", [0, 1])
async def test_items_with_more_beside_them(
    monkeypatch: pytest.MonkeyPatch, query: str, expected: dict[str, object], slice_s: float
) -> None:
    """In one piece or in several, it is the same."""
    monkeypatch.setattr(lists, "SLICE_S", slice_s)
    app = FastAPI()

    @app.get("/")
    async def read(request: Request) -> Response:
        views: list[dict[str, object]] = [{"name": "x", "size": 1}, {"name": "y", "size": 2}]
        beside = {"next": None, "about": {"a": 1, "b": 2}}
        return await lists.written(request, views, lists.itself, beside, "things")

    assert (await Api(Pair(), app).get(f"/?{query}")).json() == expected


@pytest.mark.parametrize(
    ("path", "is_paged"),
    [
        ("/api/queues", True),
        ("/api/queues/%2F", True),
        ("/api/exchanges", True),
        ("/api/exchanges/%2F", True),
        ("/api/connections", True),
        ("/api/connections/username/guest", True),
        ("/api/channels", True),
        ("/api/vhosts", True),
        ("/api/users", True),
        ("/api/users/without-permissions", True),
        ("/api/vhosts/%2F/connections", False),
        ("/api/vhosts/%2F/channels", False),
        ("/api/connections/{connection}/channels", False),
        ("/api/consumers", False),
        ("/api/consumers/%2F", False),
        ("/api/bindings", False),
        ("/api/permissions", False),
        ("/api/policies", False),
        ("/api/nodes", False),
    ],
)
async def test_which_lists_come_in_pages(api: Api, path: str, is_paged: bool) -> None:
    """parity: RabbitMQ 3.13; the others are arrays, whatever `page` says."""
    api.pair.connect().channel()
    name = quote((await api.get("/api/connections")).json()[0]["name"], safe="")
    found = (await api.get(path.format(connection=name) + "?page=1")).json()
    assert isinstance(found, dict if is_paged else list)
