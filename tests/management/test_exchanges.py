"""Exchanges and bindings over HTTP."""

import pytest

from tests.support.api import Api
from tests.support.pair import Channel

REFUSED = {"error": "not_authorised", "reason": "Access refused."}
NOT_FOUND = {"error": "Object Not Found", "reason": "Not Found"}


@pytest.fixture
def ch(api: Api) -> Channel:
    return api.pair.connect().channel()


async def test_lists(api: Api, ch: Channel) -> None:
    ch.declare_exchange("x", "topic")
    names = [exchange["name"] for exchange in (await api.get("/api/exchanges/%2F")).json()]
    assert names == ["", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.rabbitmq.trace", "amq.topic", "x"]
    assert (await api.get("/api/exchanges?page=1&name=^x$&use_regex=true")).json()["items"][0]["type"] == "topic"
    assert (await api.get("/api/exchanges/none")).status_code == 404


async def test_one(api: Api, ch: Channel) -> None:
    ch.publish(b"lost", key="nowhere")
    view = (await api.get("/api/exchanges/%2F/amq.default")).json()
    assert (view["name"], view["type"], view["durable"], view["internal"]) == ("", "direct", True, False)
    assert view["message_stats"]["publish_in"] == 1
    assert view["outgoing"] == []
    assert (await api.get("/api/exchanges/%2F/none")).json() == NOT_FOUND


async def test_declare_and_delete(api: Api, ch: Channel) -> None:
    path = "/api/exchanges/%2F/x"
    body = {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "amq.fanout"}}
    assert (await api.put(path, json=body)).status_code == 201
    assert (await api.put(path, json=body)).status_code == 204
    unlike = await api.put(path, json={**body, "type": "direct"})
    assert (unlike.status_code, unlike.json()["reason"]) == (
        400,
        "inequivalent arg 'type' for exchange 'x' in vhost '/': received 'direct' but current is 'topic'",
    )
    ch.declare("q")
    ch.bind("q", "x", "k")
    used = await api.delete(f"{path}?if-unused=true")
    assert (used.status_code, used.json()["reason"]) == (400, "exchange 'x' in vhost '/' in use")
    assert (await api.delete(path)).status_code == 204
    assert (await api.delete(path)).json() == NOT_FOUND
    assert (await api.put("/api/exchanges/%2F/plain", json={"durable": True})).status_code == 201
    assert (await api.get("/api/exchanges/%2F/plain")).json()["type"] == "direct"
    assert (await api.put("/api/exchanges/%2F/wrong", json={"type": "square"})).status_code == 400
    assert (await api.put("/api/exchanges/none/x", json={})).json()["reason"] == "vhost_not_found"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("name", ["amq.default", "amq.mine"])
async def test_names_that_are_the_brokers(api: Api, method: str, name: str) -> None:
    answer = await api.request(method, f"/api/exchanges/%2F/{name}", json={"type": "direct", "durable": True})
    expected = 404 if (method, name) == ("DELETE", "amq.mine") else 401
    assert answer.status_code == expected


async def test_predeclared_exchanges(api: Api) -> None:
    body = {"type": "direct", "durable": True}
    assert (await api.put("/api/exchanges/%2F/amq.direct", json=body)).status_code == 204
    assert (await api.delete("/api/exchanges/%2F/amq.direct")).json() == REFUSED


async def test_permissions_are_those_of_amqp(api: Api, ch: Channel) -> None:
    ch.declare("bob.q")
    ch.declare_exchange("theirs")
    bob = api.user("bob", configure="^bob", write="^bob", read="^bob")
    assert (await bob.put("/api/exchanges/%2F/bob.x", json={})).status_code == 201
    alternate = {"arguments": {"alternate-exchange": "theirs"}}
    assert (await bob.put("/api/exchanges/%2F/bob.y", json=alternate)).json() == REFUSED
    assert (await bob.put("/api/exchanges/%2F/x", json={})).json() == REFUSED
    assert (await bob.delete("/api/exchanges/%2F/theirs")).json() == REFUSED
    assert (await bob.post("/api/bindings/%2F/e/bob.x/q/bob.q", json={})).status_code == 201
    assert (await bob.post("/api/bindings/%2F/e/theirs/q/bob.q", json={})).json() == REFUSED
    assert (await bob.post("/api/bindings/%2F/e/bob.x/e/theirs", json={})).json() == REFUSED


async def test_topic_permissions(api: Api, ch: Channel) -> None:
    ch.declare("q")
    bob = api.user("bob")
    api.pair.set_topic_permission("bob", "amq.topic", write="^mine", read="^mine")
    path = "/api/bindings/%2F/e/amq.topic/q/q"
    assert (await bob.post(path, json={"routing_key": "mine.too"})).status_code == 201
    assert (await bob.post(path, json={"routing_key": "yours"})).json() == REFUSED


async def test_bind_and_unbind(api: Api, ch: Channel) -> None:
    ch.declare("q")
    ch.declare_exchange("x", "topic")
    path = "/api/bindings/%2F/e/x/q/q"
    made = await api.post(path, json={"routing_key": "a.b", "arguments": {}})
    assert (made.status_code, made.headers["location"], made.content) == (201, "q/a.b", b"")
    assert (await api.post(path, json={"routing_key": "a.b"})).status_code == 201
    assert (await api.post(path)).headers["location"] == "q/~"
    told = (await api.post(path, json={"routing_key": "k/1", "arguments": {"n": 1}})).headers["location"]
    view = (await api.get(f"/api/bindings/%2F/e/x/q/{told}")).json()
    assert (view["routing_key"], view["arguments"], view["destination_type"]) == ("k/1", {"n": 1}, "queue")
    assert [each["routing_key"] for each in (await api.get(path)).json()] == ["", "a.b", "k/1"]
    ch.publish(b"one", "x", "a.b")
    assert (await api.delete(f"{path}/a.b")).status_code == 204
    assert (await api.delete(f"{path}/a.b")).json() == NOT_FOUND
    assert (await api.delete(f"/api/bindings/%2F/e/x/q/{told}")).status_code == 204
    ch.publish(b"two", "x", "a.b")
    assert ch.drain("q") == [b"one"]


async def test_exchange_to_exchange(api: Api, ch: Channel) -> None:
    ch.declare_exchange("x")
    path = "/api/bindings/%2F/e/x/e/amq.fanout"
    assert (await api.post(path, json={"routing_key": "k"})).headers["location"] == "amq.fanout/k"
    assert (await api.get(f"{path}/k")).json()["destination_type"] == "exchange"
    assert len((await api.get("/api/exchanges/%2F/x/bindings/source")).json()) == 1
    assert len((await api.get("/api/exchanges/%2F/amq.fanout/bindings/destination")).json()) == 1
    assert (await api.get("/api/exchanges/%2F/amq.fanout/bindings/source")).json() == []
    assert (await api.delete(f"{path}/k")).status_code == 204
    assert (await api.get(path)).json() == []


async def test_ends_that_are_not_there(api: Api, ch: Channel) -> None:
    ch.declare("q")
    missing = await api.post("/api/bindings/%2F/e/none/q/q", json={})
    assert (missing.status_code, missing.json()["reason"]) == (404, "no exchange 'none' in vhost '/'")
    missing = await api.post("/api/bindings/%2F/e/amq.direct/q/none", json={})
    assert (missing.status_code, missing.json()["reason"]) == (404, "no queue 'none' in vhost '/'")
    assert (await api.get("/api/bindings/%2F/e/none/q/none")).json() == []
    assert (await api.get("/api/bindings/%2F/e/amq.direct/q/q/none")).json() == NOT_FOUND
    assert (await api.get("/api/bindings/%2F/e/amq.direct/z/q")).status_code == 400


async def test_bindings_of_the_default_exchange(api: Api, ch: Channel) -> None:
    """#63 Each queue is bound to it by its name, with source ""."""
    ch.declare("q")
    (view,) = (await api.get("/api/exchanges/%2F/amq.default/bindings/source")).json()
    assert (view["source"], view["destination"], view["properties_key"]) == ("", "q", "q")
    assert (await api.get("/api/bindings/%2F/e/amq.default/q/q/q")).json() == view
    assert (await api.delete("/api/bindings/%2F/e/amq.default/q/q/q")).json() == REFUSED
    assert (await api.post("/api/bindings/%2F/e/amq.default/q/q", json={})).json() == REFUSED


async def test_lists_of_bindings(api: Api, ch: Channel) -> None:
    api.pair.broker.add_vhost("other")
    api.pair.broker.vhosts["other"].declare_queue("a")
    ch.declare("q")
    ch.bind("q", "amq.direct", "k")
    found = (await api.get("/api/bindings?columns=vhost,source,routing_key&page=1&page_size=1")).json()
    assert found == [
        {"vhost": "/", "source": "", "routing_key": "q"},
        {"vhost": "/", "source": "amq.direct", "routing_key": "k"},
        {"vhost": "other", "source": "", "routing_key": "a"},
    ]
    assert len((await api.get("/api/bindings/%2F")).json()) == 2
    assert len((await api.user("bob").get("/api/bindings")).json()) == 2
    assert (await api.get("/api/bindings/none")).status_code == 404


async def test_keys_that_are_not_utf8(api: Api, ch: Channel) -> None:
    ch.declare("q")
    path = "/api/bindings/%2F/e/amq.topic/q/q"
    vhost = api.pair.broker.vhosts["/"]
    vhost.bind("amq.topic", vhost.queues["q"], b"a\xff".decode("utf-8", "surrogateescape"), {})
    assert (await api.get(f"{path}/%FF")).status_code == 404
    (binding,) = (await api.get(path)).json()
    for key in ("a%FF", binding["properties_key"].replace("%", "%25")):
        assert (await api.get(f"{path}/{key}")).json() == binding
    assert (await api.delete(f"{path}/a%FF")).status_code == 204
    assert (await api.get(path)).json() == []


async def test_a_null_key_is_the_empty_one(api: Api, ch: Channel) -> None:
    """parity: RabbitMQ takes null; there it is a key of its own, which no message has."""
    ch.declare("q")
    path = "/api/bindings/%2F/e/amq.direct/q/q"
    answer = await api.post(path, json={"routing_key": None, "arguments": {}})
    assert (answer.status_code, answer.headers["location"]) == (201, "q/~")
    (binding,) = (await api.get(path)).json()
    assert (binding["routing_key"], binding["properties_key"]) == ("", "~")
    for wrong in ([], {}, 1.5):
        assert (await api.post(path, json={"routing_key": wrong})).status_code == 400


async def test_keys_of_bindings_with_arguments(api: Api, ch: Channel) -> None:
    """parity: RabbitMQ's, octet by octet, because tools store URLs with them."""
    ch.declare("q")
    path = "/api/bindings/%2F/e/amq.headers/q/q"
    arguments = {"x-match": "all", "list": [1, "two", {"z": 1, "a": 2}], "n": 7}
    answer = await api.post(path, json={"routing_key": "", "arguments": arguments})
    assert answer.headers["location"] == "q/~h3d8Ag"
    assert (await api.get(f"{path}/~h3d8Ag")).json()["arguments"] == arguments
    assert (await api.delete(f"{path}/~h3d8Ag")).status_code == 204
    assert (await api.get(path)).json() == []
