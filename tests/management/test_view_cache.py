"""Objects that are alike: what a list writes of them in one go is what each is like."""

import json

import pytest

from rabbitlike.broker import views
from rabbitlike.management.listing import lists, view_cache
from rabbitlike.management.listing.view_cache import ViewCache
from rabbitlike.management.statistics.ages import NO_AGES
from rabbitlike.management.statistics.kinds import QUEUE
from rabbitlike.protocol.tables import Table
from tests.support.api import Api


def declare_all_sorts(api: Api) -> None:
    """Queues that rest, each sort twice, and queues that do not."""
    ch = api.pair.connect().channel()
    sorts: list[Table] = [{}, {"x-expires": 10**9}, {"x-expires": 10**9, "n": True}, {"x-expires": 10**9, "n": 1}]
    for number, arguments in enumerate(sorts * 2):
        ch.declare(f"rests.{number}", durable=number % 2 == 0, arguments=arguments)
    for name in ("transient.1", "transient.2"):
        ch.declare(name, auto_delete=True)
    for name in ("quorum.1", "quorum.2"):
        ch.declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    for name in ("used.1", "used.2", "paused", "governed.1", "governed.2"):
        ch.declare(name)
    vhost = api.pair.broker.vhosts["/"]
    for name in ("used.1", "used.2"):
        ch.publish(b"m", key=name)
        ch.get(name, no_ack=True)
    vhost.pause_queue(vhost.queues["paused"])
    ch.declare("filled")
    ch.publish(b"m", key="filled")
    ch.declare("consumed")
    ch.consume("consumed")
    ch.declare("mine", exclusive=True)
    ch.declare("retried", arguments={"x-retry-initial": 1000})


@pytest.mark.parametrize(
    "query", ["", "columns=name", "columns=durable,policy", "columns=nothing", "columns=name,node"]
)
@pytest.mark.parametrize("later_ms", [0, 5000, 3_600_000])
async def test_a_list_says_of_each_queue_what_its_view_says(api: Api, query: str, later_ms: int) -> None:
    declare_all_sorts(api)
    policy = {"pattern": "^governed", "definition": {"max-length": 7}}
    assert (await api.put("/api/policies/%2F/p", json=policy)).status_code == 201
    api.pair.advance(later_ms)
    found = (await api.get(f"/api/queues?{query}")).json()
    queues = sorted(api.pair.broker.vhosts["/"].queues.values(), key=lambda queue: queue.name)
    columns = dict.fromkeys(query.removeprefix("columns=").split(",")) if query else None
    for queue, said in zip(queues, found, strict=True):
        view = views.queue(queue)
        api.context.rates.annotate(QUEUE, queue, view, NO_AGES)
        assert said == json.loads(lists.encode(lists._pick(view, columns))), queue.name


async def test_a_part_of_a_field(api: Api) -> None:
    declare_all_sorts(api)
    found = (
        await api.get("/api/queues?columns=name,message_stats.publish,message_stats.get_no_ack_details.rate")
    ).json()
    used = {view["name"]: view["message_stats"] for view in found if "message_stats" in view}
    assert used == {
        "filled": {"publish": 1},
        "used.1": {"publish": 1, "get_no_ack_details": {"rate": 0.0}},
        "used.2": {"publish": 1, "get_no_ack_details": {"rate": 0.0}},
    }


def counting(sorts: int) -> tuple[ViewCache[int], list[int]]:
    """Numbers, of so many sorts; and of which a view was made."""
    made: list[int] = []

    def view(number: int) -> dict[str, object]:
        made.append(number)
        return {"name": number, "sort": number % sorts}

    return ViewCache(view, lambda number: number % sorts, lambda number: {"name": number}), made


def test_one_view_for_each_sort() -> None:
    writer, made = counting(3)
    texts = [writer.write(number, lists.itself) for number in range(30)]
    assert [json.loads(text) for text in texts] == [{"name": number, "sort": number % 3} for number in range(30)]
    assert made == [0, 1, 2]


def test_sorts_without_end_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_cache, "MOST_SORTS", 4)
    writer, made = counting(10)
    texts = [writer.write(number, lists.itself) for number in range(20)]
    assert [json.loads(text)["name"] for text in texts] == list(range(20))
    assert len(made) == 4 + 6 + 6


async def test_only_those_at_rest_are_alike(api: Api) -> None:
    declare_all_sorts(api)
    queues = api.pair.broker.vhosts["/"].queues
    alone = {name for name, queue in queues.items() if views.queue_at_rest(queue) is None}
    assert alone == {"filled", "consumed", "mine"} | ({"retried"} if queues["retried"].retries is not None else set())


async def test_what_was_seen_to_change_is_written_by_itself(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("q")
    api.context.rates.start()
    api.pair.advance(6000)  # not 5000: the look that begins then is taken in slices
    ch.publish(b"m", key="q")
    ch.get("q", no_ack=True)
    api.pair.advance(5000)
    (said,) = (await api.get("/api/queues")).json()
    api.context.rates.stop()
    assert said["message_stats"]["publish_details"]["rate"] == 0.2
