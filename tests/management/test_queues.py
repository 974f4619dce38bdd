"""Queues over HTTP: lists, one queue, declaring, deleting, purging, and who may."""

import pytest

from tests.support.api import Api
from tests.support.pair import Channel, Typed

REFUSED = {"error": "not_authorised", "reason": "Access refused."}
NOT_FOUND = {"error": "Object Not Found", "reason": "Not Found"}


@pytest.fixture
def ch(api: Api) -> Channel:
    return api.pair.connect().channel()


def test_fixture_is_an_amqp_client(ch: Channel) -> None:
    ch.declare("q")


async def test_a_queue(api: Api, ch: Channel) -> None:
    ch.declare("q", durable=True, arguments={"x-max-length": Typed("I", 5), "x-own": "kept"})
    ch.publish(b"one", key="q")
    ch.publish(b"two", key="q")
    ch.get("q", no_ack=False)
    view = (await api.get("/api/queues/%2F/q")).json()
    assert (view["name"], view["vhost"], view["type"], view["durable"]) == ("q", "/", "classic", True)
    assert (view["messages"], view["messages_ready"], view["messages_unacknowledged"]) == (2, 1, 1)
    assert view["arguments"] == {"x-max-length": 5, "x-own": "kept"}
    assert (view["consumers"], view["state"], view["exclusive"]) == (0, "running", False)
    assert view["consumer_details"] == []
    assert (await api.get("/api/queues/%2F/q?columns=name,messages")).json() == {"name": "q", "messages": 2}


async def test_lists(api: Api, ch: Channel) -> None:
    api.pair.broker.add_vhost("other")
    api.pair.broker.vhosts["other"].declare_queue("a")
    for name in ("b", "a"):
        ch.declare(name)
    every = (await api.get("/api/queues?columns=vhost,name")).json()
    assert every == [{"vhost": "/", "name": "a"}, {"vhost": "/", "name": "b"}, {"vhost": "other", "name": "a"}]
    assert [queue["name"] for queue in (await api.get("/api/queues/%2F")).json()] == ["a", "b"]
    assert [queue["name"] for queue in (await api.get("/api/queues/detailed?page=1&name=b")).json()["items"]] == ["b"]
    answer = await api.get("/api/queues/none")
    assert (answer.status_code, answer.json()) == (404, NOT_FOUND)


async def test_without_stats(api: Api, ch: Channel) -> None:
    ch.declare("q")
    node = (await api.get("/api/queues/%2F/q")).json()["node"]
    basic = {
        "arguments": {}, "auto_delete": False, "durable": False, "exclusive": False, "name": "q",
        "node": node, "state": "running", "type": "classic", "vhost": "/",
    }  # fmt: skip
    assert (await api.get("/api/queues/%2F?disable_stats=true")).json() == [basic]
    totals = {"messages": 0, "messages_ready": 0, "messages_unacknowledged": 0}
    query = "disable_stats=true&enable_queue_totals=true"
    assert (await api.get(f"/api/queues?{query}")).json() == [{**basic, **totals}]
    assert (await api.get(f"/api/queues/%2F/q?{query}")).json() == {**basic, **totals}


async def test_who_sees_which(api: Api, ch: Channel) -> None:
    """An administrator all, others those of vhosts they have a permission in, monitors too."""
    ch.declare("q")
    away = api.user("away", ["monitoring"], vhost=None)
    here = api.user("here", ["management"], read="^$")
    assert (await away.get("/api/queues")).json() == []
    refused = await away.get("/api/queues/%2F")
    assert refused.status_code == 401
    assert refused.json()["reason"] == "User not authorised to access virtual host"
    assert [queue["name"] for queue in (await here.get("/api/queues")).json()] == ["q"]
    assert (await here.get("/api/queues/%2F/q")).status_code == 200
    root = api.user("root", ["administrator"], vhost=None)
    assert (await root.get("/api/queues/%2F/q")).status_code == 200
    assert (await root.put("/api/queues/%2F/q", json={})).json() == REFUSED


async def test_declare(api: Api, ch: Channel) -> None:
    body = {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 9, "x-own": {"a": [1, "b", True]}}}
    assert (await api.put("/api/queues/%2F/q", json=body)).status_code == 201
    again = await api.put("/api/queues/%2F/q", json=body)
    assert (again.status_code, again.content) == (204, b"")
    view = (await api.get("/api/queues/%2F/q")).json()
    assert (view["durable"], view["arguments"]) == (True, body["arguments"])
    assert (await api.put("/api/queues/%2F/plain", content=b"")).status_code == 201
    ch.declare("plain")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            {"durable": False, "arguments": {"x-max-length": 9}},
            "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            {"durable": True, "arguments": {"x-max-length": 8}},
            "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '8' but current is '9'",
        ),
        (
            {"durable": True},
            "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the value '9' of "
            "type 'long'",
        ),
        ({"durable": "maybe"}, ["not_boolean", "maybe"]),
        ({"node": "rabbit@elsewhere"}, "Node rabbit@elsewhere could not be contacted"),
        ({"arguments": [1]}, "arguments: expected an object"),
    ],
)
async def test_declarations_that_do_not_agree(api: Api, body: dict[str, object], reason: object) -> None:
    await api.put("/api/queues/%2F/q", json={"durable": True, "arguments": {"x-max-length": 9}})
    answer = await api.put("/api/queues/%2F/q", json=body)
    assert (answer.status_code, answer.json()) == (400, {"error": "bad_request", "reason": reason})


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": "soon"},
        {"x-max-length": -1},
        {"x-queue-type": "pile"},
        {"x-own": 1 << 70},
        {"k" * 300: 1},
        {"x-own": {"a": {"b": [[[[]]]]}}, "x-overflow": "explode"},
    ],
)
async def test_arguments_that_cannot_be(api: Api, arguments: dict[str, object]) -> None:
    answer = await api.put("/api/queues/%2F/q", json={"arguments": arguments})
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
    assert (await api.get("/api/queues/%2F/q")).status_code == 404


async def test_texts_for_flags_and_empty_arrays_for_tables(api: Api) -> None:
    answer = await api.put("/api/queues/%2F/q", json={"durable": "true", "arguments": [], "colour": "red"})
    assert answer.status_code == 201
    assert (await api.get("/api/queues/%2F/q")).json()["durable"] is True


async def test_names(api: Api) -> None:
    assert (await api.put("/api/queues/%2F/a%2Fb%20%C3%BC", json={})).status_code == 201
    assert (await api.get("/api/queues/%2F/a%2Fb%20%C3%BC")).json()["name"] == "a/b ü"
    assert (await api.put(f"/api/queues/%2F/{'q' * 256}", json={})).status_code == 400
    reserved = await api.put("/api/queues/%2F/amq.mine", json={})
    assert (reserved.status_code, reserved.json()) == (401, REFUSED)
    missing = await api.put("/api/queues/none/q", json={})
    assert (missing.status_code, missing.json()) == (404, {"error": "not_found", "reason": "vhost_not_found"})


async def test_permissions_are_those_of_amqp(api: Api, ch: Channel) -> None:
    ch.declare("theirs")
    bob = api.user("bob", configure="^bob", read="^bob", write="^bob")
    assert (await bob.put("/api/queues/%2F/bob.q", json={})).status_code == 201
    dead = {"arguments": {"x-dead-letter-exchange": "theirs"}}
    for method, path, body in [
        ("PUT", "/api/queues/%2F/theirs2", {}),
        ("PUT", "/api/queues/%2F/bob.dead", dead),
        ("DELETE", "/api/queues/%2F/theirs", None),
        ("DELETE", "/api/queues/%2F/theirs/contents", None),
        ("GET", "/api/queues/%2F/theirs/unacked", None),
    ]:
        answer = await bob.request(method, path, json=body)
        assert (answer.status_code, answer.json()) == (401, REFUSED), path
    assert (await bob.delete("/api/queues/%2F/bob.q")).status_code == 204


async def test_what_is_unacked_in_an_exclusive_queue_is_its_owners_business(api: Api, ch: Channel) -> None:
    ch.declare("mine", exclusive=True)
    ch.publish(b"m", key="mine")
    ch.get("mine", no_ack=False)
    answer = await api.get("/api/queues/%2F/mine/unacked")
    assert answer.status_code == 400
    assert answer.json()["reason"].startswith("cannot obtain exclusive access to locked queue 'mine' in vhost '/'")
    assert (await api.get("/api/queues/%2F/none/unacked")).status_code == 404


async def test_delete(api: Api, ch: Channel) -> None:
    ch.declare("q", durable=True)
    ch.publish(b"one", key="q")
    busy = await api.delete("/api/queues/%2F/q?if-empty=true")
    assert (busy.status_code, busy.json()["reason"]) == (400, "queue 'q' in vhost '/' not empty")
    ch.declare("used")
    ch.consume("used")
    busy = await api.delete("/api/queues/%2F/used?if-unused=true")
    assert (busy.status_code, busy.json()["reason"]) == (400, "queue 'used' in vhost '/' in use")
    assert (await api.delete("/api/queues/%2F/q?if-empty=false")).status_code == 204
    again = await api.delete("/api/queues/%2F/q")
    assert (again.status_code, again.json()) == (404, NOT_FOUND)


async def test_purge(api: Api, ch: Channel) -> None:
    ch.declare("q")
    ch.publish(b"one", key="q")
    assert (await api.delete("/api/queues/%2F/q/contents")).status_code == 204
    assert ch.get("q") is None
    assert (await api.delete("/api/queues/%2F/none/contents")).status_code == 404
    assert (await api.get("/api/queues/%2F/q/contents")).status_code == 405


async def test_exclusive_queues_are_their_owners(api: Api, ch: Channel) -> None:
    ch.declare("mine", exclusive=True)
    view = (await api.get("/api/queues/%2F/mine")).json()
    assert (view["exclusive"], view["owner_pid_details"]["peer_host"]) == (True, "127.0.0.1")
    for answer in (await api.delete("/api/queues/%2F/mine"), await api.delete("/api/queues/%2F/mine/contents")):
        assert answer.status_code == 400
        assert answer.json()["reason"].startswith("cannot obtain exclusive access to locked queue 'mine'")


async def test_bindings_of_a_queue(api: Api, ch: Channel) -> None:
    ch.declare("q")
    ch.bind("q", "amq.topic", "a.#")
    found = (await api.get("/api/queues/%2F/q/bindings?columns=source,routing_key")).json()
    assert found == [{"source": "", "routing_key": "q"}, {"source": "amq.topic", "routing_key": "a.#"}]
    assert (await api.get("/api/queues/%2F/none/bindings")).status_code == 404


async def test_unacked(api: Api, ch: Channel) -> None:
    ch.declare("q")
    for body in (b"one", b"three"):
        ch.publish(body, key="q")
    ch.qos(1)
    tag = ch.consume("q")
    (held,) = (await api.get("/api/queues/%2F/q/unacked")).json()
    assert (held["position"], held["delivery_tag"], held["consumer_tag"]) == (1, 1, tag)
    assert held["channel_details"]["number"] == 1
    ch.ack(1)
    (held,) = (await api.get("/api/queues/%2F/q/unacked")).json()
    assert held["position"] == 2


async def test_pause_and_resume(api: Api, ch: Channel) -> None:
    ch.declare("q", durable=True)
    ch.consume("q", no_ack=True)
    bob = api.user("bob", configure="^bob")
    for verb in ("pause", "resume"):
        assert (await bob.put(f"/api/queues/%2F/q/{verb}")).json() == REFUSED
        assert (await api.put(f"/api/queues/%2F/none/{verb}")).status_code == 404
    assert (await api.put("/api/queues/%2F/q/pause")).status_code == 204
    ch.publish(b"waits", key="q")
    assert ch.bodies() == []
    assert (await api.get("/api/queues/%2F/q?columns=state,messages")).json() == {"state": "paused", "messages": 1}
    assert (await api.put("/api/queues/%2F/q/resume")).status_code == 204
    assert ch.bodies() == [b"waits"]


async def test_actions(api: Api, ch: Channel) -> None:
    ch.declare("q")
    path = "/api/queues/%2F/q/actions"
    assert (await api.post(path, json={"action": "sync"})).status_code == 204
    unknown = await api.post(path, json={"action": "dance"})
    assert (unknown.status_code, unknown.json()["reason"]) == (400, ["unknown", "dance"])
    missing = await api.post("/api/queues/%2F/none/actions", json={"action": "sync"})
    assert (missing.status_code, missing.json()) == (404, {"error": "not_found", "reason": "queue_not_found"})
    assert (await api.user("bob").post(path, json={"action": "sync"})).status_code == 401


async def test_replicas_of_a_single_node(api: Api, ch: Channel) -> None:
    ch.declare("classic")
    ch.declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    node = (await api.get("/api/queues/%2F/quorum")).json()["node"]
    (replica,) = (await api.get("/api/queues/quorum/%2F/quorum/status")).json()
    assert (replica["Node Name"], replica["Raft State"]) == (node, "leader")
    assert (await api.get("/api/queues/quorum/%2F/classic/status")).status_code == 503
    add = "/api/queues/quorum/%2F/quorum/replicas/add"
    assert (await api.post(add, json={"node": node})).status_code == 204
    away = await api.post(add, json={"node": "rabbit@away"})
    assert (away.status_code, away.json()["reason"]) == (503, "node_not_running")
    last = await api.request("DELETE", "/api/queues/quorum/%2F/quorum/replicas/delete", json={"node": node})
    assert (last.status_code, last.json()["reason"]) == (503, "last_node")
    assert (await api.post(f"/api/queues/quorum/replicas/on/{node}/grow")).status_code == 204
    assert (await api.delete(f"/api/queues/quorum/replicas/on/{node}/shrink")).status_code == 202
    assert (await api.post("/api/rebalance/queues")).status_code == 204
    assert (await api.user("bob").post("/api/rebalance/queues")).status_code == 401
