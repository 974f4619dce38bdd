"""Metrics over real sockets: a port of their own without a login, commits that were timed, the end of both."""

from __future__ import annotations

from pathlib import Path

import aio_pika
import httpx

from rabbitlike.app import App
from rabbitlike.config import Settings


async def test_a_port_for_scrapers(tmp_path: Path) -> None:
    app = App(Settings(host="127.0.0.1", port=0, management_port=0, prometheus_port=0, data_dir=tmp_path))
    await app.start()
    try:
        await app.start_management()
        amqp, management, scrape = app.urls
        connection = await aio_pika.connect(amqp)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("q", durable=True)
            message = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, queue.name)
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{scrape}/metrics")
            assert answer.status_code == 200
            found = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
            assert float(found["rabbitmq_queue_messages_ready"]) == 1
            assert float(found["rabbitlike_commit_seconds_count"]) >= 2
            assert float(found["rabbitlike_commit_seconds_sum"]) > 0
            assert float(found["rabbitlike_commit_messages_sum"]) == 1
            assert float(found["rabbitmq_io_sync_ops_total"]) >= 2
            assert (await client.get(f"{scrape}/metrics/per-object")).status_code == 200
            assert (await client.get(f"{scrape}/metrics/detailed?family=queue_metrics")).status_code == 200
            assert (await client.get(f"{scrape}/api/overview")).status_code == 404
            assert (await client.get(f"{management}/metrics")).status_code == 401
            overview = await client.get(f"{management}/api/overview", auth=("guest", "guest"))
            assert [each["protocol"] for each in overview.json()["listeners"]] == ["amqp", "http", "http/prometheus"]
            assert overview.json()["message_stats"]["disk_writes"] == 1
            path = f"{management}/api/health/checks/protocol-listener/prometheus"
            assert (await client.get(path, auth=("guest", "guest"))).status_code == 200
    finally:
        await app.stop()
