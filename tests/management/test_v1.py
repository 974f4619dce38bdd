"""The queue model's own admin routes, with its bodies and its errors."""

from typing import Any

import pytest

from tests.support.api import Api

QUEUES = "/api/v1/queues"
#: As the documents have it, but for names.
CONFIG: dict[str, Any] = {
    "name": "tasks/image-processing",
    "partitions": 10,
    "ordering": "partition",
    "retry_policy": {
        "max_retries": 10,
        "initial_backoff": "5s",
        "max_backoff": "5m",
        "backoff_multiplier": 2.0,
        "total_timeout": "3h",
    },
    "dlq_config": {"enabled": True, "topic": "dlq/image-processing", "alert_webhook": "https://example.com/alerts"},
    "limits": {"max_message_size": 1048576, "max_queue_depth": 100000, "message_ttl": "168h"},
    "performance": {"delivery_timeout": "30s", "batch_size": 1},
}
NAMED = QUEUES + "/tasks%2Fimage-processing"


async def test_create_and_read(api: Api) -> None:
    """F18 a queue by the documents' own body, and the same body back."""
    answer = await api.post(QUEUES, json=CONFIG)
    assert answer.status_code == 201, answer.text
    told = (await api.get(NAMED)).json()
    assert told["durable"] is True
    for key in ("name", "partitions", "ordering", "retry_policy", "dlq_config", "limits"):
        assert told[key] == CONFIG[key]
    assert told["performance"]["delivery_timeout"] == "30s"
    assert told["stats"]["depth"] == 0
    assert "dlq/image-processing" in api.pair.broker.vhosts["/"].queues
    assert (await api.post(QUEUES, json=CONFIG)).json()["error"] == "QueueExists"


async def test_list(api: Api) -> None:
    """F18 all queues of a vhost, however they were declared."""
    api.pair.connect().channel().declare("plain")
    await api.post(QUEUES, json={"name": "b"})
    assert [each["name"] for each in (await api.get(QUEUES)).json()] == ["b", "plain"]
    assert (await api.get(f"{QUEUES}?vhost=nope")).status_code == 404


async def test_config_is_there_when_the_answer_is(api: Api) -> None:
    """However many queues hear of a change before this one."""
    for number in range(500):
        api.pair.broker.vhosts["/"].declare_queue(f"before-{number}")
    made = await api.post(QUEUES, json={"name": "q", "limits": {"max_queue_depth": 7}})
    assert (made.status_code, made.json()["limits"]["max_queue_depth"]) == (201, 7)
    changed = await api.put(f"{QUEUES}/q/config", json={"limits": {"max_queue_depth": 8}})
    assert (changed.status_code, changed.json()["limits"]["max_queue_depth"]) == (200, 8)


async def test_config(api: Api) -> None:
    """F18 another configuration holds at once; what cannot change is refused."""
    await api.post(QUEUES, json={"name": "q", "partitions": 4})
    settings = api.pair.broker.vhosts["/"].queues["q"]
    assert settings.settings.dead_letter_auto
    body = {"limits": {"max_queue_depth": 7, "message_ttl": "1h30m"}, "dlq_config": {"enabled": False}}
    told = (await api.put(f"{QUEUES}/q/config", json=body)).json()
    assert (told["limits"]["max_queue_depth"], told["limits"]["message_ttl"]) == (7, "90m")
    assert told["dlq_config"]["enabled"] is False
    assert settings.settings.max_length == 7
    assert (await api.put(f"{QUEUES}/q/config", json={"partitions": 5})).status_code == 400
    for wrong in (
        {"limits": {"message_ttl": "soon"}},
        {"retry_policy": {"backoff_multiplier": 0.5}},
        {"dlq_config": {"alert_webhook": "file:///x"}},
        {"ordering": "random"},
    ):
        assert (await api.put(f"{QUEUES}/q/config", json=wrong)).status_code == 400
    assert (await api.get(f"{QUEUES}/q")).json()["limits"]["max_queue_depth"] == 7


async def test_delete(api: Api) -> None:
    """F18 the queue and its configuration go."""
    await api.post(QUEUES, json={"name": "q"})
    assert len((await api.get("/api/policies")).json()) == 1
    assert (await api.delete(f"{QUEUES}/q")).status_code == 204
    assert (await api.delete(f"{QUEUES}/q")).status_code == 404
    assert (await api.get("/api/policies")).json() == []


async def test_stats_consumers_purge(api: Api) -> None:
    """F18 S10 numbers, consumers, and an end to all of it."""
    await api.post(QUEUES, json={"name": "q"})
    for _ in range(3):
        await api.post(f"{QUEUES}/q/messages", json={"message": "m"})
    stats = (await api.get(f"{QUEUES}/q/stats")).json()
    assert (stats["queue"], stats["depth"], stats["published_total"]) == ("q", 3, 3)
    assert (await api.post(f"{QUEUES}/q/purge")).json() == {"purged": 3}
    api.pair.connect().channel().consume("q", tag="c1")
    assert [each["consumer_tag"] for each in (await api.get(f"{QUEUES}/q/consumers")).json()] == ["c1"]


async def test_dead_letters(api: Api) -> None:
    """F18 F11 list and retry."""
    await api.post(QUEUES, json={"name": "q", "retry_policy": {"max_retries": 0}})
    ch = api.pair.connect().channel()
    ch.publish(b"m", key="q", message_id="m1")
    message = ch.get("q", no_ack=False)
    assert message is not None
    ch.reject(message.tag, requeue=True)
    (letter,) = (await api.get(f"{QUEUES}/q/dlq")).json()["messages"]
    assert (letter["message_id"], letter["reason"], letter["retry_count"]) == ("m1", "delivery_limit", 0)
    assert (await api.post(f"{QUEUES}/q/dlq/{letter['id']}/retry")).json()["success"]
    assert ch.drain("q") == [b"m"]
    missing = await api.post(f"{QUEUES}/q/dlq/{letter['id']}/retry")
    assert (missing.status_code, missing.json()["error"]) == (404, "MessageNotFound")


async def test_publish(api: Api) -> None:
    """S1 the id and the position of a message; 5 is the priority of one that has none."""
    await api.post(QUEUES, json={"name": "q"})
    first = (await api.post(f"{QUEUES}/q/messages", json={"message": {"type": "video"}, "headers": {"a": "b"}})).json()
    second = await api.post(f"{QUEUES}/q/messages", json={"message": "urgent", "priority": 8, "ttl": 60})
    assert second.status_code == 201
    assert (first["position"], second.json()["position"]) == (1, 2)
    ch = api.pair.connect().channel()
    urgent, other = ch.get("q"), ch.get("q")
    assert urgent is not None
    assert other is not None
    assert (urgent.body, urgent.properties.priority, urgent.properties.expiration) == (b"urgent", 8, "60000")
    assert (other.body, other.properties.priority, other.headers["a"]) == (b'{"type": "video"}', 5, "b")
    assert other.properties.message_id == first["message_id"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nope"),
        ("DELETE", "/nope"),
        ("GET", "/nope/stats"),
        ("GET", "/nope/consumers"),
        ("POST", "/nope/purge"),
        ("GET", "/nope/dlq"),
        ("POST", "/nope/dlq/1/retry"),
    ],
)
async def test_queue_not_found(api: Api, method: str, path: str) -> None:
    """S11"""
    answer = await api.request(method, QUEUES + path)
    assert (answer.status_code, answer.json()["error"]) == (404, "QueueNotFound")


async def test_other_errors(api: Api) -> None:
    """S11 a full queue and a priority that is none."""
    await api.post(QUEUES, json={"name": "q", "limits": {"max_queue_depth": 1}})
    publish = f"{QUEUES}/q/messages"
    await api.post(publish, json={"message": 1})
    full = await api.post(publish, json={"message": 2})
    assert (full.status_code, full.json()["error"]) == (429, "QueueFull")
    wrong = await api.post(publish, json={"message": 2, "priority": 10})
    assert (wrong.status_code, wrong.json()["error"]) == (400, "InvalidPriority")


async def test_who_may(api: Api) -> None:
    bob = api.user("bob")
    assert (await bob.post(QUEUES, json={"name": "q"})).status_code == 401
    maker = api.user("maker", ["policymaker"], configure="^mine")
    assert (await maker.post(QUEUES, json={"name": "q"})).status_code == 401
    topic = {"name": "mine", "dlq_config": {"topic": "theirs"}}
    assert (await maker.post(QUEUES, json=topic)).status_code == 401
    assert (await maker.post(QUEUES, json={"name": "mine"})).status_code == 201
    assert (await bob.get(QUEUES)).status_code == 200
