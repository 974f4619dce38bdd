"""Connections, channels and consumers over HTTP: who sees which, closing and cancelling."""

from urllib.parse import quote

from pamqp import commands

from tests.support.api import Api

NOT_YOURS = {"error": "not_authorised", "reason": "User not authorised to access object"}


async def test_a_connection(api: Api) -> None:
    client = api.pair.connect(client_properties={"connection_name": "mine"})
    client.channel()
    (view,) = (await api.get("/api/connections")).json()
    assert (view["user"], view["vhost"], view["channels"], view["user_provided_name"]) == ("guest", "/", 1, "mine")
    assert (await api.get(f"/api/connections/{quote(view['name'], safe='')}")).json()["name"] == view["name"]
    assert (await api.get("/api/connections/none")).status_code == 404
    assert (await api.get("/api/connections?page=1&name=127.0&page_size=1")).json()["total_count"] == 1
    assert (await api.get("/api/connections?disable_stats=true")).json()[0].keys() == {"name", "vhost", "user", "node"}


async def test_the_time_of_a_connection_is_not_that_of_the_last_turn(api: Api) -> None:
    """An idle broker has no turns: its clock stands still until a client says something."""
    started_ms = api.pair.clock.now_ms()
    api.pair.clock.advance(3_600_000)
    client = api.pair.dial()
    api.pair.clock.advance(500)
    client.handshake()
    (view,) = (await api.get("/api/connections")).json()
    assert view["connected_at"] == started_ms + 3_600_000


async def test_handshakes_are_no_connections_yet(api: Api) -> None:
    api.pair.dial().login()
    assert (await api.get("/api/connections")).json() == []


async def test_who_sees_which(api: Api) -> None:
    bob, monitor = api.user("bob"), api.user("watch", ["monitoring"], vhost=None)
    api.pair.connect()
    api.pair.connect("bob", "pw").channel()
    every = (await api.get("/api/connections")).json()
    assert [view["user"] for view in every] == ["guest", "bob"]
    assert len((await monitor.get("/api/connections")).json()) == 2
    assert [view["user"] for view in (await bob.get("/api/connections")).json()] == ["bob"]
    theirs, mine = (f"/api/connections/{quote(view['name'], safe='')}" for view in every)
    assert (await bob.get(theirs)).json() == NOT_YOURS
    assert (await bob.get(mine)).status_code == 200
    assert (await bob.get(f"{theirs}/channels")).json() == NOT_YOURS
    assert len((await bob.get(f"{mine}/channels")).json()) == 1
    assert (await bob.get(f"{mine}/sessions")).json() == []
    assert (await monitor.get(theirs)).status_code == 200
    assert (await monitor.delete(theirs)).json() == NOT_YOURS
    assert (await bob.delete(theirs)).json() == NOT_YOURS
    assert (await bob.delete(mine)).status_code == 204


async def test_of_a_vhost_or_user(api: Api) -> None:
    bob = api.user("bob")
    api.pair.connect("bob", "pw").channel()
    assert len((await api.get("/api/vhosts/%2F/connections")).json()) == 1
    assert len((await api.get("/api/vhosts/%2F/channels")).json()) == 1
    assert (await api.get("/api/vhosts/none/connections")).status_code == 404
    (view,) = (await api.get("/api/connections/username/bob")).json()
    assert view.keys() == {"name", "vhost", "user", "node"}
    assert (await api.get("/api/connections/username/none")).json() == []
    assert (await bob.get("/api/connections/username/guest")).json() == NOT_YOURS
    assert (await bob.delete("/api/connections/username/guest")).json() == NOT_YOURS


async def test_closing_tells_why(api: Api) -> None:
    client = api.pair.connect()
    (view,) = (await api.get("/api/connections")).json()
    path = f"/api/connections/{quote(view['name'], safe='')}"
    assert (await api.delete(path, headers={"X-Reason": "go\thome"})).status_code == 204
    client.expect_close(320, "CONNECTION_FORCED - gohome", None)
    assert (await api.delete(path)).status_code == 404


async def test_closing_all_of_a_user(api: Api) -> None:
    clients = [api.pair.connect(), api.pair.connect()]
    assert (await api.delete("/api/connections/username/guest")).status_code == 204
    for client in clients:
        client.expect_close(320, "CONNECTION_FORCED - Closed via management plugin", None)


async def test_channels(api: Api) -> None:
    client = api.pair.connect()
    client.channel().confirm()
    ch = client.channel()
    ch.declare("q")
    ch.qos(3)
    tag = ch.consume("q")
    first, second = (await api.get("/api/channels")).json()
    assert (first["number"], first["confirm"], second["consumer_count"], second["prefetch_count"]) == (1, True, 1, 3)
    path = f"/api/channels/{quote(second['name'], safe='')}"
    view = (await api.get(path)).json()
    assert view["number"] == 2
    assert [consumer["consumer_tag"] for consumer in view["consumer_details"]] == [tag]
    assert (await api.get("/api/channels/none")).status_code == 404
    assert (await api.get("/api/channels?disable_stats=true")).status_code == 400
    bob = api.user("bob")
    assert (await bob.get("/api/channels")).json() == []
    assert (await bob.get(path)).json() == NOT_YOURS


async def test_consumers(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("q")
    ch.qos(7)
    ch.consume("q", "tag", arguments={"x-priority": 3})
    (view,) = (await api.get("/api/consumers")).json()
    assert (view["consumer_tag"], view["prefetch_count"], view["ack_required"]) == ("tag", 7, True)
    assert (view["queue"], view["arguments"]) == ({"name": "q", "vhost": "/"}, {"x-priority": 3})
    assert (await api.get("/api/consumers/%2F")).json() == [view]
    assert (await api.get("/api/queues/%2F/q")).json()["consumer_details"] == [view]
    assert (await api.get("/api/consumers/none")).status_code == 404
    assert (await api.user("bob").get("/api/consumers")).json() == []
    assert len((await api.user("watch", ["monitoring"]).get("/api/consumers")).json()) == 1


async def test_cancelling_a_consumer(api: Api) -> None:
    ch = api.pair.connect().channel()
    ch.declare("q")
    ch.consume("q", "tag")
    (view,) = (await api.get("/api/consumers")).json()
    place = f"/api/consumers/%2F/{quote(view['channel_details']['connection_name'], safe='')}"
    assert (await api.user("bob").delete(f"{place}/1/tag")).json() == NOT_YOURS
    assert (await api.delete(f"{place}/2/tag")).status_code == 404
    assert (await api.delete(f"{place}/1/tag")).status_code == 204
    assert ch.expect(commands.Basic.Cancel).consumer_tag == "tag"
    assert (await api.get("/api/consumers")).json() == []
    ch.publish(b"stays", key="q")
    assert ch.get("q") is not None
