"""Celery's monitor shows a queue's depth: Flower reads it from the management port."""
# mypy: allow-untyped-calls

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from celery import Celery
from flower.utils.broker import Broker

from benchmarks.brokers import free_ports
from interop.management.doors import Doors
from interop.patience import PATIENCE_S, eventually

ROOT = Path(__file__).resolve().parent.parent.parent
Unique = Callable[[str], str]


@pytest.fixture
def waiting(doors: Doors, unique: Unique) -> str:
    """The name of a queue with three tasks that no worker takes."""
    name = unique("celery")
    app = Celery("flower-test", broker=_amqp(doors))
    app.conf.task_default_queue = name
    with app.connection_for_write() as connection:
        for number in range(3):
            app.send_task("interop.celery.tasks.add", (number, 1), connection=connection)
    return name


def _amqp(doors: Doors) -> str:
    return f"amqp://guest:guest@{doors.host}:{doors.amqp_port}//"


def _api(doors: Doors) -> str:
    return f"http://guest:guest@{doors.host}:{doors.http_port}/api/"


async def test_its_broker_class(doors: Doors, waiting: str) -> None:
    broker = Broker(_amqp(doors), http_api=_api(doors))  # asks for /api/queues//
    (queue,) = await broker.queues([waiting])
    assert queue["name"] == waiting
    assert queue["durable"] is True


@pytest.fixture
def flower(doors: Doors, waiting: str, tmp_path: Path) -> Iterator[str]:
    """A running Flower; its URL."""
    (port,) = free_ports(1)
    words = [sys.executable, "-m", "celery", "-A", "interop.celery.tasks", "flower"]
    words += [f"--broker-api={_api(doors)}", "--address=127.0.0.1", f"--port={port}", "--inspect-timeout=100"]
    environment = os.environ | {
        "INTEROP_CELERY_URL": _amqp(doors),
        "INTEROP_CELERY_QUEUE": waiting,
        "PYTHONPATH": str(ROOT),
    }
    log = tmp_path / "flower.log"
    with log.open("wb") as output:
        process = subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=output, stderr=output)
    try:

        def is_up() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return httpx.get(f"http://127.0.0.1:{port}/healthcheck", trust_env=False).is_success
            except httpx.TransportError:
                return False

        eventually(is_up, "Flower answers", within_s=3 * PATIENCE_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def test_its_broker_page(flower: str, waiting: str) -> None:
    def cells() -> list[str]:
        page = httpx.get(f"{flower}/broker", trust_env=False, timeout=PATIENCE_S).text
        row = re.search(rf'<tr id="{waiting}">(.*?)</tr>', page, re.S)
        assert row, page
        return [re.sub("<.*?>", "", cell).strip() for cell in re.findall(r"<td.*?>(.*?)</td>", row[1], re.S)]

    # name, messages, unacked, ready, consumers
    eventually(lambda: cells()[:5] == [waiting, "3", "0", "3", "0"], "Flower shows the three tasks")
