"""Schemas over HTTP: publishing what does not conform, and the list of them."""

from pamqp import commands

from tests.support.api import Api

SCHEMA = {"type": "integer"}


async def test_schemas_are_listed_with_what_did_not_conform(api: Api) -> None:
    """G19"""
    declared = {"arguments": {"x-schema": SCHEMA, "x-schema-action": "close"}}
    assert (await api.put("/api/queues/%2F/q", json=declared)).status_code == 201
    assert (await api.put("/api/queues/%2F/plain", json={})).status_code == 201
    exchange = {"type": "fanout", "arguments": {"x-schema": '{"type": "integer"}'}}
    assert (await api.put("/api/exchanges/%2F/x", json=exchange)).status_code == 201
    ch = api.pair.connect().channel()
    ch.publish(b"no number", exchange="x")
    ch.publish(b"no number", key="q")
    ch.expect(commands.Channel.Close)
    found = (await api.get("/api/schemas/%2F")).json()
    assert found == (await api.get("/api/schemas")).json()
    assert found == [
        {"vhost": "/", "kind": "exchange", "name": "x", "action": "nack", "violations": 1, "schema": SCHEMA},
        {"vhost": "/", "kind": "queue", "name": "q", "action": "close", "violations": 1, "schema": SCHEMA},
    ]
    assert (await api.get("/api/queues/%2F/q")).json()["schema"] == {"action": "close", "violations": 1}
    assert (await api.get("/api/schemas/none")).status_code == 404


async def test_publishing_over_http_is_judged(api: Api) -> None:
    """G19: 400 and what is wrong with it."""
    declared = {"arguments": {"x-schema": SCHEMA, "x-schema-action": "close"}}
    await api.put("/api/queues/%2F/q", json=declared)
    message = {"properties": {}, "routing_key": "q", "payload": "seven", "payload_encoding": "string"}
    answer = await api.post("/api/exchanges/%2F/amq.default/publish", json=message)
    assert answer.status_code == 400
    assert "it is not JSON" in answer.text
    answer = await api.post("/api/exchanges/%2F/amq.default/publish", json={**message, "payload": "7"})
    assert answer.json() == {"routed": True}
