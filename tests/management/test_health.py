"""Health checks, liveness, and what old monitors ask."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from rabbitlike.broker.alarms import DISK, MEMORY
from tests.support.api import Api, make_api

FINE = {"status": "ok"}


@pytest.mark.parametrize(
    "path",
    [
        "alarms",
        "local-alarms",
        "metadata-store/initialized",
        "metadata-store/initialized/with-data",
        "certificate-expiration/1/months",
        "virtual-hosts",
        "quorum-queues-without-elected-leaders/all-vhosts",
        "quorum-queues-without-elected-leaders/all-vhosts/pattern/.*",
        "quorum-queues-without-elected-leaders/vhost/%2F/pattern/.*",
        "is-in-service",
        "below-node-connection-limit",
        "reached-target-cluster-size",
    ],
)
async def test_checks_of_a_broker_that_is_well(api: Api, path: str) -> None:
    answer = await api.get(f"/api/health/checks/{path}")
    assert (answer.status_code, answer.json()) == (200, FINE)
    assert (await api.stranger().get(f"/api/health/checks/{path}")).status_code == 401
    assert (await api.user("bob").get(f"/api/health/checks/{path}")).status_code == 200
    assert (await api.user("eve", tags=[]).get(f"/api/health/checks/{path}")).status_code == 401


async def test_a_single_node_is_not_critical(api: Api) -> None:
    answer = await api.get("/api/health/checks/node-is-quorum-critical")
    assert answer.json() == {"status": "ok", "reason": "single node cluster"}


async def test_alarms(api: Api) -> None:
    api.pair.broker.alarms.raise_(MEMORY)
    api.pair.broker.alarms.raise_(DISK)
    answer = await api.get("/api/health/checks/alarms")
    assert answer.status_code == 503
    node = api.context.node
    assert answer.json() == {
        "status": "failed",
        "reason": "There are alarms in effect in the cluster",
        "alarms": [{"resource": "disk space", "node": node}, {"resource": "memory", "node": node}],
    }
    answer = await api.get("/api/health/checks/local-alarms")
    assert answer.json()["reason"] == "There are alarms in effect on the node"
    assert (await api.get("/api/healthchecks/node")).json() == {
        "status": "failed",
        "reason": "resource alarm(s) in effect:[disk,memory]",
    }
    api.pair.broker.alarms.clear(MEMORY)
    api.pair.broker.alarms.clear(DISK)
    assert (await api.get("/api/health/checks/alarms")).status_code == 200


async def test_listeners(api: Api) -> None:
    api.context.urls += ["amqp://127.0.0.1:5672", "amqps://[::1]:5671", "http://127.0.0.1:15672"]
    check = "/api/health/checks"
    answer = await api.get(f"{check}/port-listener/5672")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "port": 5672})
    answer = await api.get(f"{check}/port-listener/1")
    assert answer.status_code == 503
    assert answer.json() == {
        "status": "failed", "reason": "No active listener", "missing": 1, "ports": [5672, 5671, 15672],
    }  # fmt: skip
    for port in ("abc", "-1", "9" * 400):
        answer = await api.get(f"{check}/port-listener/{port}")
        assert (answer.status_code, answer.json()["reason"]) == (400, "Invalid port")
    for protocol, name in (("amqp", "amqp"), ("amqp0-9-1", "amqp"), ("AMQPS", "amqp/ssl"), ("http", "http")):
        answer = await api.get(f"{check}/protocol-listener/{protocol}")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok", "protocol": name})
    answer = await api.get(f"{check}/protocol-listener/mqtt")
    assert answer.status_code == 503
    assert answer.json()["missing"] == "mqtt"
    answer = await api.get(f"{check}/protocol-listener/amqp,stomp")
    assert answer.json()["missing"] == ["stomp"]


async def test_readiness_needs_no_password_and_tells_the_truth(api: Api) -> None:
    stranger = api.stranger("10.1.2.3")
    answer = await stranger.get("/api/health/checks/ready-to-serve-clients")
    assert (answer.status_code, answer.json()["reason"]) == (503, "no active listeners for AMQP/AMQPS")
    api.context.urls.append("amqp://127.0.0.1:5672")
    answer = await stranger.get("/api/health/checks/ready-to-serve-clients")
    assert (answer.status_code, answer.json()) == (200, FINE)
    assert (await stranger.get("/")).status_code == 200


async def test_connection_limit() -> None:
    async with make_api(connection_max=1) as api:
        api.context.urls.append("amqp://127.0.0.1:5672")
        assert (await api.get("/api/health/checks/below-node-connection-limit")).status_code == 200
        api.pair.connect()
        for check in ("below-node-connection-limit", "ready-to-serve-clients"):
            answer = await api.get(f"/api/health/checks/{check}")
            assert (answer.status_code, answer.json()["reason"]) == (503, "node connection limit is reached")


async def test_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    end = datetime(2030, 5, 17, tzinfo=UTC)
    leaf = authority.issue_cert("localhost", not_after=end)
    certificate = tmp_path / "cert.pem"
    certificate.write_bytes(leaf.cert_chain_pems[0].bytes())
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with make_api(tls_certfile=certificate) as api:
        api.context.urls.append("amqps://127.0.0.1:5671")
        now_s = api.pair.clock.now_ms() / 1000
        days = int((end.timestamp() - now_s) // 86_400)
        check = "/api/health/checks/certificate-expiration"
        assert (await api.get(f"{check}/{days}/days")).json() == FINE
        answer = await api.get(f"{check}/{days + 1}/days")
        assert answer.status_code == 503
        assert answer.json()["reason"] == "Certificates expiring"
        [listener] = answer.json()["expired"]
        assert listener["certfile_expires_on"] == ["2030-05-17 00:00:00"]
        assert listener["port"] == 5671
        assert (await api.get(f"{check}/20/years")).status_code == 503
        answer = await api.get(f"{check}/1/fortnights")
        assert answer.status_code == 400
        assert answer.json()["reason"] == "Time unit not recognised. Supported units: days, weeks, months, years."
        assert (await api.get(f"{check}/x/days")).json()["reason"] == "Invalid expiration value."
        certificate.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        assert (await api.get(f"{check}/1/days")).status_code == 503


async def test_aliveness(api: Api) -> None:
    for _ in range(2):
        assert (await api.get("/api/aliveness-test/%2F")).json() == FINE
    [queue] = (await api.get("/api/queues/%2F")).json()
    assert (queue["name"], queue["durable"], queue["auto_delete"]) == ("aliveness-test", False, False)
    assert (queue["messages"], queue["message_stats"]["get_no_ack"]) == (0, 2)
    assert (await api.get("/api/aliveness-test/none")).status_code == 404
    assert (await api.user("bob", vhost=None).get("/api/aliveness-test/%2F")).status_code == 401
    for lacking in ("configure", "write", "read"):
        reader = api.user(lacking, **{lacking: "^$" if lacking != "write" else "x"})
        assert (await reader.get("/api/aliveness-test/%2F")).status_code == 401, lacking
    assert (await api.get(f"/api/healthchecks/node/{api.context.node}")).json() == FINE
    assert (await api.get("/api/healthchecks/node/none@nowhere")).status_code == 404
    assert (await api.get("/api/health/checks/none")).status_code == 404
