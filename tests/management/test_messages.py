"""Messages over HTTP: publishing, getting, looking without touching, deleting and moving."""

import base64

import pytest

from rabbitlike.broker.accounts.permissions import Permission
from rabbitlike.management.listing import scanning
from rabbitlike.management.routes.messaging import messages
from tests.support.api import Api
from tests.support.pair import Channel

REFUSED = {"error": "not_authorised", "reason": "Access refused."}


@pytest.fixture
def ch(api: Api) -> Channel:
    channel = api.pair.connect().channel()
    channel.declare("q")
    return channel


def publication(**changes: object) -> dict[str, object]:
    return {"properties": {}, "routing_key": "q", "payload": "hello", "payload_encoding": "string", **changes}


DEFAULT = "/api/exchanges/%2F/amq.default/publish"


# Publishing


async def test_publish(api: Api, ch: Channel) -> None:
    answer = await api.post(DEFAULT, json=publication())
    assert (answer.status_code, answer.json()) == (200, {"routed": True})
    assert (await api.post(DEFAULT, json=publication(routing_key="nowhere"))).json() == {"routed": False}
    octets = base64.b64encode(b"\xff\x00").decode()
    assert (await api.post(DEFAULT, json=publication(payload=octets, payload_encoding="base64"))).json()["routed"]
    assert ch.drain("q") == [b"hello", b"\xff\x00"]


async def test_properties_arrive(api: Api, ch: Channel) -> None:
    properties = {
        "content_type": "text/plain", "content_encoding": "utf-8", "delivery_mode": 2, "priority": 3,
        "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 1_700_000_000,
        "type": "t", "user_id": "guest", "app_id": "a",
        "headers": {"word": "ü", "number": 1, "big": 1 << 40, "half": 0.5, "yes": True, "none": None, "in": {"a": [1]}},
    }  # fmt: skip
    assert (await api.post(DEFAULT, json=publication(properties={**properties, "colour": "red"}))).status_code == 200
    message = ch.get("q")
    assert message is not None
    assert (message.properties.expiration, message.properties.priority, message.properties.delivery_mode) == (
        "60000",
        3,
        2,
    )
    assert message.headers == properties["headers"]
    await api.post(DEFAULT, json=publication(properties=properties))
    body = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    (got,) = (await api.post("/api/queues/%2F/q/get", json=body)).json()
    assert got["properties"] == properties


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"payload": "?", "payload_encoding": "base64"}, 400, ["not_base64", "?"]),
        ({"payload_encoding": "rot13"}, 400, ["unsupported_encoding", "rot13"]),
        ({"payload": 1}, 400, "payload_not_string"),
        ({"properties": {"priority": "high"}}, 400, ["not_int", "priority"]),
        ({"properties": {"type": 5}}, 400, ["not_string", "type"]),
        (
            {"properties": {"expiration": "soon"}},
            400,
            "406 PRECONDITION_FAILED - invalid expiration 'soon': no_integer",
        ),
        (
            {"properties": {"user_id": "mallory"}},
            400,
            "406 PRECONDITION_FAILED - user_id property set to 'mallory' but authenticated user was 'guest'",
        ),
        ({"routing_key": "k" * 256}, 400, "routing key name is longer than 255 octets"),
    ],
)
async def test_publications_that_cannot_be(
    api: Api, ch: Channel, changes: dict[str, object], status: int, reason: object
) -> None:
    answer = await api.post(DEFAULT, json=publication(**changes))
    assert (answer.status_code, answer.json()["reason"]) == (status, reason)
    assert ch.drain("q") == []


@pytest.mark.parametrize("properties", [{"priority": 256}, {"type": "t" * 256}, {"timestamp": -1}, {"headers": [1]}])
async def test_properties_amqp_has_no_form_for(api: Api, ch: Channel, properties: dict[str, object]) -> None:
    answer = await api.post(DEFAULT, json=publication(properties=properties))
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")


async def test_what_a_publication_lacks(api: Api) -> None:
    missing = (await api.post(DEFAULT, json={"properties": {}, "routing_key": "q"})).json()
    assert missing == {"error": "bad_request", "reason": "[{key_missing,payload},{key_missing,payload_encoding}]"}
    missing = (await api.post(DEFAULT, json={})).json()
    assert missing["reason"] == (
        "[{key_missing,routing_key},\n {key_missing,properties},\n {key_missing,payload},\n "
        "{key_missing,payload_encoding}]"
    )


async def test_where_a_publication_cannot_go(api: Api, ch: Channel) -> None:
    ch.declare_exchange("inside", internal=True)
    answer = await api.post("/api/exchanges/%2F/none/publish", json=publication())
    assert (answer.status_code, answer.json()) == (404, {"error": "not_found", "reason": "exchange_not_found"})
    answer = await api.post("/api/exchanges/none/x/publish", json=publication())
    assert (answer.status_code, answer.json()["reason"]) == (404, "vhost_not_found")
    answer = await api.post("/api/exchanges/%2F/inside/publish", json=publication())
    assert answer.status_code == 400
    assert answer.json()["reason"].startswith("403 ACCESS_REFUSED - cannot publish to internal exchange 'inside'")
    bob = api.user("bob", write="^bob")
    answer = await bob.post(DEFAULT, json=publication())
    assert answer.status_code == 400
    assert "write access to exchange 'amq.default'" in answer.json()["reason"]


async def test_topic_permissions_hold(api: Api, ch: Channel) -> None:
    bob = api.user("bob")
    api.pair.set_topic_permission("bob", "amq.topic", write="^mine", read="")
    path = "/api/exchanges/%2F/amq.topic/publish"
    assert (await bob.post(path, json=publication(routing_key="mine"))).status_code == 200
    assert (await bob.post(path, json=publication(routing_key="yours"))).status_code == 400
    for header in ("CC", "BCC"):
        properties = {"headers": {header: ["mine.too", "yours"]}}
        answer = await bob.post(path, json=publication(routing_key="mine", properties=properties))
        assert answer.status_code == 400
        assert "write access to topic 'yours' in exchange 'amq.topic'" in answer.json()["reason"]


async def test_moves_obey_topic_permissions(api: Api, ch: Channel) -> None:
    """A message that keeps its keys is moved where the caller may publish with all of them."""
    bob = api.user("bob")
    api.pair.set_topic_permission("bob", "amq.topic", write="^mine", read="")
    ch.declare("all")
    ch.bind("all", "amq.topic", "#")
    ch.bind("q", "amq.fanout")
    for key, copies in (("mine", []), ("yours", []), ("mine", ["yours"]), ("mine.too", ["mine"])):
        ch.publish(key.encode(), "amq.fanout", key, headers={"CC": copies})
    body = {"count": 10, "destination": {"exchange": "amq.topic"}}
    answer = (await bob.post("/api/queues/%2F/q/messages/move", json=body)).json()
    assert (answer["moved"], answer["matched"]) == (2, 4)
    assert ch.drain("all") == [b"mine", b"mine.too"]


async def test_a_full_queue_refuses(api: Api, ch: Channel) -> None:
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    answer = await api.post(DEFAULT, json=publication(routing_key="full"))
    reason = "rejected Unable to publish message. Check queue limits."
    assert (answer.status_code, answer.json()["reason"]) == (400, reason)


async def test_alarms_block_publishers(api: Api, ch: Channel) -> None:
    api.pair.broker.alarms.raise_("memory")
    answer = await api.post(DEFAULT, json=publication())
    assert (answer.status_code, answer.json()["reason"]) == (503, "publishers are blocked: memory")
    api.pair.broker.alarms.clear("memory")
    assert (await api.post(DEFAULT, json=publication())).status_code == 200


async def test_a_consumer_gets_it_at_once(api: Api, ch: Channel) -> None:
    ch.consume("q", no_ack=True)
    await api.post(DEFAULT, json=publication())
    assert ch.bodies() == [b"hello"]


# Getting


def get_body(**changes: object) -> dict[str, object]:
    return {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto", **changes}


GET = "/api/queues/%2F/q/get"


async def test_get_and_give_back(api: Api, ch: Channel) -> None:
    ch.publish(b"one", key="q")
    ch.publish(b"\xff", key="q", message_type="t")
    assert (await api.post(GET, json=get_body())).json() == [
        {
            "payload_bytes": 3, "redelivered": False, "exchange": "", "routing_key": "q", "message_count": 1,
            "properties": [], "payload": "one", "payload_encoding": "string",
        },
        {
            "payload_bytes": 1, "redelivered": False, "exchange": "", "routing_key": "q", "message_count": 0,
            "properties": {"type": "t"}, "payload": "/w==", "payload_encoding": "base64",
        },
    ]  # fmt: skip
    again = (await api.post(GET, json=get_body(ackmode="reject_requeue_true", encoding="base64", count="1"))).json()
    assert [(each["redelivered"], each["payload"]) for each in again] == [(True, "b25l")]
    assert ch.drain("q") == [b"one", b"\xff"]


async def test_get_and_keep(api: Api, ch: Channel) -> None:
    for body in (b"one", b"two", b"three"):
        ch.publish(body, key="q")
    (got,) = (await api.post(GET, json=get_body(ackmode="ack_requeue_false", count=1, truncate=2))).json()
    assert (got["payload"], got["payload_bytes"], got["message_count"]) == ("on", 3, 2)
    assert len((await api.post(GET, json=get_body(count=-1))).json()) == 2
    assert ch.drain("q") == [b"two", b"three"]
    assert (await api.post(GET, json=get_body())).json() == []


async def test_rejected_messages_are_dead_letters(api: Api, ch: Channel) -> None:
    ch.declare("dead")
    ch.declare("dying", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish(b"one", key="dying")
    await api.post("/api/queues/%2F/dying/get", json=get_body(ackmode="reject_requeue_false"))
    assert ch.drain("dead") == [b"one"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"count": "many"}, ["not_integer", "many"]),
        ({"encoding": "rot13"}, "Unsupported encoding. Please use auto or base64."),
    ],
)
async def test_gets_that_cannot_be(api: Api, ch: Channel, changes: dict[str, object], reason: object) -> None:
    answer = await api.post(GET, json=get_body(**changes))
    assert (answer.status_code, answer.json()["reason"]) == (400, reason)


async def test_what_a_get_lacks(api: Api, ch: Channel) -> None:
    answer = await api.post(GET, json={"count": 1, "encoding": "auto"})
    assert (answer.status_code, answer.json()["reason"]) == (400, "[{key_missing,ackmode}]")
    assert (await api.post(GET, json=get_body(ackmode="keep"))).status_code == 400


async def test_where_nothing_can_be_got(api: Api, ch: Channel) -> None:
    missing = await api.post("/api/queues/%2F/none/get", json=get_body())
    assert (missing.status_code, missing.json()) == (404, {"error": "not_found", "reason": "queue_not_found"})
    ch.declare("mine", exclusive=True)
    locked = await api.post("/api/queues/%2F/mine/get", json=get_body())
    assert locked.status_code == 400
    assert locked.json()["reason"].startswith("405 RESOURCE_LOCKED - cannot obtain exclusive access")
    refused = await api.user("bob", read="^bob").post(GET, json=get_body())
    assert refused.status_code == 401
    assert "read access to queue 'q'" in refused.json()["reason"]


async def test_one_answer_holds_no_more_than_it_can(api: Api, ch: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_PAYLOADS", 5 + messages.ENVELOPE)
    for _ in range(3):
        ch.publish(b"four", key="q")
    assert len((await api.post(GET, json=get_body())).json()) == 2
    ch.declare("empty")
    for _ in range(3):
        ch.publish(b"", key="empty")
    assert len((await api.post("/api/queues/%2F/empty/get", json=get_body(count=-1))).json()) == 2


# Looking


LOOK = "/api/queues/%2F/q/messages"


def fill(ch: Channel, count: int) -> None:
    for at in range(count):
        headers = {"parity": "odd" if at % 2 else "even", "n": at}
        ch.publish(f"body {at}".encode(), key="q", headers=headers, message_type="order" if at < 3 else "bill")


async def payloads(api: Api, query: str) -> list[str]:
    return [each["payload"] for each in (await api.get(f"{LOOK}?{query}")).json()["items"]]


async def test_looking_touches_nothing(api: Api, ch: Channel) -> None:
    fill(ch, 3)
    answer = (await api.get(LOOK)).json()
    assert (answer["scanned"], answer["next"]) == (3, None)
    first = answer["items"][0]
    assert (first["position"], first["payload"], first["redelivered"], first["payload_bytes"]) == (
        1,
        "body 0",
        False,
        6,
    )
    assert (first["exchange"], first["routing_key"]) == ("", "q")
    assert first["properties"] == {"type": "order", "headers": {"parity": "even", "n": 0}}
    message = ch.get("q")
    assert message is not None
    assert (message.body, message.redelivered) == (b"body 0", False)


async def test_pages_and_offsets(api: Api, ch: Channel) -> None:
    fill(ch, 7)
    found, after = [], ""
    while True:
        page = (await api.get(f"{LOOK}?limit=3{after}")).json()
        found += [each["position"] for each in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert found == [1, 2, 3, 4, 5, 6, 7]
    assert await payloads(api, "offset=5") == ["body 5", "body 6"]
    assert await payloads(api, "offset=50") == []


async def test_filters(api: Api, ch: Channel) -> None:
    fill(ch, 6)
    ch.publish(b"other", "amq.fanout", "lost")
    assert await payloads(api, "header.parity=odd") == ["body 1", "body 3", "body 5"]
    assert await payloads(api, "header.parity=odd&property.type=order") == ["body 1"]
    assert await payloads(api, "header.n=4") == ["body 4"]
    assert await payloads(api, "text=y%203") == ["body 3"]
    assert await payloads(api, "routing_key=other") == []
    assert len(await payloads(api, "exchange=&routing_key=q")) == 6
    assert await payloads(api, "text=body%200&truncate=3") == ["bod"]
    assert await payloads(api, "text=body%200&encoding=base64") == ["Ym9keSAw"]


async def test_a_search_is_cut_and_goes_on(api: Api, ch: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "MAX_SCANNED", 1)
    monkeypatch.setattr("rabbitlike.broker.queues.browse.STEP", 4)
    fill(ch, 10)
    first = (await api.get(f"{LOOK}?header.n=9")).json()
    assert (first["items"], first["scanned"]) == ([], 4)
    second = (await api.get(f"{LOOK}?header.n=9&after={first['next']}")).json()
    third = (await api.get(f"{LOOK}?header.n=9&after={second['next']}")).json()
    assert [each["position"] for each in third["items"]] == [10]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "offset=-1", "after=x", "after=1-x", "property.colour=red", "encoding=rot13"]
)
async def test_looks_that_cannot_be(api: Api, ch: Channel, query: str) -> None:
    assert (await api.get(f"{LOOK}?{query}")).status_code == 400


async def test_who_may_look(api: Api, ch: Channel) -> None:
    assert (await api.user("bob", read="^bob").get(LOOK)).json() == REFUSED
    assert (await api.get("/api/queues/%2F/none/messages")).status_code == 404


# Deleting and moving


async def test_delete_one(api: Api, ch: Channel) -> None:
    fill(ch, 3)
    assert (await api.delete(f"{LOOK}/2")).status_code == 204
    assert (await api.delete(f"{LOOK}/2")).status_code == 404
    assert (await api.delete(f"{LOOK}/x")).status_code == 400
    assert (await api.user("bob", read="^bob").delete(f"{LOOK}/1")).json() == REFUSED
    assert ch.drain("q") == [b"body 0", b"body 2"]


async def test_move_by_positions(api: Api, ch: Channel) -> None:
    fill(ch, 4)
    ch.declare("other")
    body = {"positions": [1, 3, 3, 99], "destination": {"queue": "other"}}
    answer = (await api.post(f"{LOOK}/move", json=body)).json()
    assert (answer["moved"], answer["matched"]) == (2, 3)
    assert (ch.drain("q"), ch.drain("other")) == ([b"body 1", b"body 3"], [b"body 0", b"body 2"])


async def test_move_by_filter_through_an_exchange(api: Api, ch: Channel) -> None:
    fill(ch, 60)
    ch.declare("other")
    ch.bind("other", "amq.direct", "k")
    to = {"exchange": "amq.direct", "routing_key": "k"}
    body = {"filter": {"headers": {"parity": "odd"}, "properties": {"type": "bill"}}, "count": 25, "destination": to}
    assert (await api.post(f"{LOOK}/move", json=body)).json()["moved"] == 25
    assert len(ch.drain("q")) == 35
    message = ch.get("other")
    assert message is not None
    assert (message.exchange, message.routing_key, message.body) == ("amq.direct", "k", b"body 3")


async def test_what_no_queue_takes_stays(api: Api, ch: Channel) -> None:
    fill(ch, 2)
    body = {"count": 2, "destination": {"exchange": "amq.direct", "routing_key": "nowhere"}}
    assert (await api.post(f"{LOOK}/move", json=body)).json()["moved"] == 0
    assert len(ch.drain("q")) == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"positions": [1]}, 400),
        ({"positions": [1], "destination": {}}, 400),
        ({"destination": {"queue": "q"}}, 400),
        ({"positions": [1], "filter": {}, "destination": {"queue": "q"}}, 400),
        ({"filter": {"colour": "red"}, "destination": {"queue": "q"}}, 400),
        ({"filter": {"headers": 1}, "destination": {"queue": "q"}}, 400),
        ({"count": 1, "destination": {"queue": "none"}}, 404),
        ({"count": 1, "destination": {"exchange": "none"}}, 404),
        ({"count": 0, "destination": {"queue": "q"}}, 400),
    ],
)
async def test_moves_that_cannot_be(api: Api, ch: Channel, body: dict[str, object], status: int) -> None:
    assert (await api.post(f"{LOOK}/move", json=body)).status_code == status


async def test_who_may_move(api: Api, ch: Channel) -> None:
    fill(ch, 1)
    ch.declare("other")
    to_queue, to_exchange = {"queue": "other"}, {"exchange": "amq.fanout"}
    reader = api.user("reader", write="^$")
    for destination in (to_queue, to_exchange):
        assert (await reader.post(f"{LOOK}/move", json={"count": 1, "destination": destination})).json() == REFUSED
    api.pair.broker.permissions.set("reader", "/", Permission("", "amq.default", ".*"))
    assert (await reader.post(f"{LOOK}/move", json={"count": 1, "destination": to_queue})).json()["moved"] == 1
