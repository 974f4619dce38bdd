"""The overview, the node, the cluster's name, and what tools ask to know whom they talk to."""

from __future__ import annotations

import os

import pytest

from rabbitlike.broker.alarms import MEMORY
from tests.support.api import Api, make_api

SAMPLES = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5&node_stats_age=60&node_stats_incr=5"


async def test_overview_has_what_strict_clients_decode(api: Api) -> None:
    api.context.urls += ["amqp://127.0.0.1:5672", "http://127.0.0.1:15672"]
    view = (await api.get("/api/overview")).json()
    for name in (
        "management_version", "rates_mode", "sample_retention_policies", "exchange_types", "product_version",
        "product_name", "rabbitmq_version", "cluster_name", "erlang_version", "erlang_full_version", "disable_stats",
        "enable_queue_totals", "message_stats", "churn_rates", "queue_totals", "object_totals", "node", "listeners",
        "statistics_db_event_queue", "contexts", "release_series_support_status",
    ):  # fmt: skip
        assert name in view, name
    assert view["object_totals"] == {"channels": 0, "connections": 0, "consumers": 0, "exchanges": 7, "queues": 0}
    assert [each["protocol"] for each in view["listeners"]] == ["amqp", "http"]
    assert view["contexts"][0]["port"] == "15672"
    assert {"name": "topic", "description": "AMQP topic exchange, as per the AMQP specification", "enabled": True} in (
        view["exchange_types"]
    )


async def test_overview_counts_and_rates(api: Api) -> None:
    api.context.start()
    api.pair.advance(6000)
    ch = api.pair.connect().channel()
    ch.declare("q")
    ch.consume("q", no_ack=False)
    for _ in range(10):
        ch.publish(b"x", key="q")
    api.pair.advance(5000)
    view = (await api.get(f"/api/overview?{SAMPLES}")).json()
    assert view["message_stats"]["publish"] == 10
    assert view["message_stats"]["publish_details"]["rate"] == 2.0
    assert [each["sample"] for each in view["message_stats"]["publish_details"]["samples"]][:2] == [10, 0]
    assert view["message_stats"]["deliver_get"] == 10
    assert view["queue_totals"]["messages_unacknowledged"] == 10
    assert view["queue_totals"]["messages_details"]["rate"] == 2.0
    assert view["object_totals"]["consumers"] == 1
    assert view["churn_rates"]["queue_created"] == 1
    assert view["churn_rates"]["queue_created_details"]["samples"][0]["sample"] == 1
    plain = (await api.get("/api/overview")).json()
    assert plain["message_stats"]["publish_details"] == {"rate": 2.0}
    assert plain["churn_rates"]["channel_created_details"] == {"rate": 0.2}
    api.pair.advance(5000)
    plain = (await api.get("/api/overview?columns=message_stats.publish_details.rate")).json()
    assert plain == {"message_stats": {"publish_details": {"rate": 0.0}}}
    api.context.stop()


async def test_a_member_sees_what_is_theirs(api: Api) -> None:
    api.pair.broker.add_vhost("other")
    ch = api.pair.connect().channel()
    ch.declare("q")
    bob = api.user("bob", vhost="other")
    view = (await bob.get("/api/overview")).json()
    assert view["object_totals"] == {"channels": 0, "connections": 0, "exchanges": 7, "queues": 0}
    assert "listeners" not in view
    assert "node" not in view


async def test_bad_ranges(api: Api) -> None:
    answer = await api.get("/api/overview?msg_rates_age=100000&msg_rates_incr=1")
    assert answer.status_code == 400
    assert answer.json()["reason"] == "Invalid range parameters: age 100000, incr 1"
    assert (await api.get("/api/overview?msg_rates_age=x&msg_rates_incr=5")).status_code == 200
    assert (await api.get("/api/overview?msg_rates_age=-5&msg_rates_incr=5")).status_code == 400


async def test_node(api: Api) -> None:
    name = api.context.node
    [view] = (await api.get("/api/nodes")).json()
    assert (await api.get(f"/api/nodes/{name}")).json().keys() == view.keys()
    assert view["name"] == name
    assert view["running"] is True
    assert view["os_pid"] == str(os.getpid())
    assert view["partitions"] == []
    for number in ("mem_used", "mem_limit", "disk_free", "fd_used", "fd_total", "proc_total", "processors"):
        assert isinstance(view[number], int), number
        assert view[number] > 0, number
    for number in ("sockets_used", "proc_used", "run_queue", "uptime", "context_switches", "io_write_count"):
        assert isinstance(view[number], int), number
    assert isinstance(view["io_sync_avg_time"], float)
    assert view["mem_alarm"] is False
    assert view["disk_free_alarm"] is False
    assert view["mem_used_details"]["rate"] == 0.0
    api.pair.broker.alarms.raise_(MEMORY)
    assert (await api.get(f"/api/nodes/{name}")).json()["mem_alarm"] is True
    assert (await api.get("/api/nodes/none@nowhere")).status_code == 404
    assert (await api.user("bob").get("/api/nodes")).status_code == 401
    assert (await api.user("eve", tags=["monitoring"]).get("/api/nodes")).status_code == 200


async def test_node_samples(api: Api) -> None:
    api.context.start()
    api.pair.advance(11_000)
    view = (await api.get(f"/api/nodes/{api.context.node}?{SAMPLES}")).json()
    samples = view["mem_used_details"]["samples"]
    assert len(samples) == 13
    assert samples[0]["sample"] > 1_000_000
    api.context.stop()


async def test_memory(api: Api) -> None:
    name = api.context.node
    memory = (await api.get(f"/api/nodes/{name}/memory")).json()["memory"]
    assert memory["total"]["rss"] > 0
    assert memory["strategy"] == "rss"
    assert (await api.get(f"/api/nodes/{name}/memory/relative")).json()["memory"]["total"] == 100
    assert (await api.get(f"/api/nodes/{name}?memory=true")).json()["memory"]["total"]["rss"] > 0


async def test_cluster_name(api: Api) -> None:
    assert (await api.get("/api/cluster-name")).json() == {"name": api.context.settings.cluster_name}
    answer = await api.put("/api/cluster-name", json={})
    assert (answer.status_code, answer.json()["reason"]) == (400, "[{key_missing,name}]")
    assert (await api.put("/api/cluster-name", json={"name": "hive"})).status_code == 204
    assert (await api.get("/api/cluster-name")).json() == {"name": "hive"}
    assert (await api.get("/api/overview")).json()["cluster_name"] == "hive"
    assert (await api.user("bob").put("/api/cluster-name", json={"name": "x"})).status_code == 401


@pytest.mark.parametrize(("given", "name"), [(["bee", ["-", [104]], 105, "ve"], "bee-hive"), ([], "")])
async def test_cluster_name_as_a_list(api: Api, given: object, name: str) -> None:
    """parity: RabbitMQ takes Erlang's io lists."""
    assert (await api.put("/api/cluster-name", json={"name": given})).status_code == 204
    assert (await api.get("/api/cluster-name")).json() == {"name": name}


@pytest.mark.parametrize("given", [[256], [-1], [None], [1.5], [{}], 7, None, {}])
async def test_what_is_no_cluster_name(api: Api, given: object) -> None:
    assert (await api.put("/api/cluster-name", json={"name": given})).status_code == 400


@pytest.mark.parametrize("path", ["federation-links", "shovels", "shovels/%2F", "traces", "stream/connections"])
async def test_plugins_that_are_not_there_have_nothing(api: Api, path: str) -> None:
    answer = await api.get(f"/api/{path}")
    assert (answer.status_code, answer.json()) == (200, [])
    assert (await api.stranger().get(f"/api/{path}")).status_code == 401


async def test_features(api: Api) -> None:
    flags = (await api.get("/api/feature-flags")).json()
    assert {flag["state"] for flag in flags} == {"enabled"}
    assert (await api.put("/api/feature-flags/quorum_queue/enable", json={})).status_code == 204
    assert (await api.put("/api/feature-flags/none/enable", json={})).status_code == 400
    assert (await api.user("bob").get("/api/feature-flags")).status_code == 401
    names = [each["name"] for each in (await api.get("/api/deprecated-features")).json()]
    assert "transient_nonexcl_queues" in names
    used = [each["name"] for each in (await api.get("/api/deprecated-features/used")).json()]
    assert used == ["management_metrics_collection"]
    api.pair.connect().channel().declare("q")
    assert len((await api.get("/api/deprecated-features/used")).json()) == 2
    assert (await api.get("/api/extensions")).json() == [{"javascript": "dispatcher.js"}]
    assert (await api.get("/api/version")).json() == api.context.settings.version


async def test_upkeep(api: Api) -> None:
    assert (await api.delete("/api/reset")).status_code == 204
    assert (await api.delete(f"/api/reset/{api.context.node}")).status_code == 204
    assert (await api.delete("/api/reset/none@nowhere")).status_code == 404
    assert (await api.post("/api/rebalance/queues", json={})).status_code == 204
    bob = api.user("bob", tags=["monitoring"])
    for call in (
        bob.delete("/api/reset"),
        bob.post("/api/rebalance/queues", json={}),
        bob.get("/api/config/effective"),
    ):
        assert (await call).status_code == 401


async def test_options_are_shown_without_secrets() -> None:
    async with make_api(default_password="hidden-7f3a") as api:
        answer = await api.get("/api/config/effective")
        assert "hidden-7f3a" not in answer.text
        assert answer.json()["default_password"] == "***"
        assert answer.json()["default_user"] == "guest"
