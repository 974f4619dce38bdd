"""A real Celery worker over the broker: tasks, results over rpc://, ETA, retries, groups, remote control."""
# mypy: allow-untyped-calls

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from celery import Celery, chain, group
from kombu import pools

from interop.celery import tasks
from interop.conftest import Address
from interop.patience import eventually
from tests.support.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 20.0


class Worker:
    """A worker process on a queue of its own."""

    def __init__(self, url: str, log: Path) -> None:
        self.queue = f"celery-{uuid4().hex[:12]}"
        self.log = log
        environment = os.environ | {
            "INTEROP_CELERY_URL": url,
            "INTEROP_CELERY_QUEUE": self.queue,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }
        words = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "interop.celery.tasks",
            "worker",
            "--hostname",
            f"{self.queue}@%h",
        ]
        words += ["--pool", "threads", "--concurrency", "1", "--loglevel", "INFO", "--without-mingle"]
        with log.open("wb") as output:
            self.process = subprocess.Popen(words, env=environment, stdout=output, stderr=output, cwd=ROOT)

    def says(self, text: str, times: int = 1) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return self.log.read_text().count(text) >= times

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT_S)


@contextmanager
def working(url: str, log: Path) -> Iterator[Worker]:
    worker = Worker(url, log)
    try:
        eventually(lambda: worker.says(" ready."), "the worker is ready")
        yield worker
        assert worker.stop() == 0, log.read_text()
        assert "CRITICAL" not in log.read_text(), log.read_text()
    finally:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()


def disconnect(app: Celery) -> None:
    """Close what Celery keeps open for the life of a process."""
    app.backend.result_consumer.stop()
    pools.reset()
    app.close()


@pytest.fixture(scope="module")
def worker(address: Address, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """The one that the tasks imported here are sent to."""
    with working(address.url("/"), tmp_path_factory.mktemp("celery") / "worker.log") as worker:
        tasks.app.conf.update(broker_url=address.url("/"), task_default_queue=worker.queue)
        yield worker
        disconnect(tasks.app)


def test_results(worker: Worker) -> None:
    results = [tasks.add.delay(number, 1) for number in range(20)]
    assert [result.get(timeout=TIMEOUT_S) for result in results] == list(range(1, 21))


@pytest.mark.parametrize("value", [None, "Grüße 🐇", {"a": [1, 2.5, {"b": True}]}, "x" * 300_000], ids=type)
def test_what_goes_in_comes_out(worker: Worker, value: object) -> None:
    assert tasks.echo.delay(value).get(timeout=TIMEOUT_S) == value


def test_errors_come_back(worker: Worker) -> None:
    with pytest.raises(ValueError, match="on purpose"):
        tasks.fail.delay("on purpose").get(timeout=TIMEOUT_S)


def test_retries(worker: Worker) -> None:
    """Each retry is a new message with a countdown."""
    assert tasks.flaky.delay().get(timeout=TIMEOUT_S) == 2


def test_countdown(worker: Worker) -> None:
    asked = time.time()
    ran = tasks.now.apply_async(countdown=0.5).get(timeout=TIMEOUT_S)
    assert ran >= asked + 0.5


def test_eta_tasks_do_not_use_up_the_prefetch(worker: Worker) -> None:
    """Celery raises its prefetch count for each task it holds for later: basic.qos with global set, because it takes
    the broker for a RabbitMQ 3. With a prefetch of one, the plain task would else wait behind the others."""
    waiting = [tasks.add.apply_async((1, 1), countdown=3600) for _ in range(5)]
    assert tasks.add.delay(2, 2).get(timeout=TIMEOUT_S) == 4
    tasks.app.control.revoke([each.id for each in waiting])


def test_chains_and_groups(worker: Worker) -> None:
    assert chain(tasks.add.s(1, 2), tasks.add.s(3), tasks.add.s(4))().get(timeout=TIMEOUT_S) == 10
    together = group(tasks.add.s(number, number) for number in range(10))()
    assert together.get(timeout=TIMEOUT_S) == [number * 2 for number in range(10)]


def test_remote_control(worker: Worker) -> None:
    """Celery's pidbox: a fanout exchange to all workers, replies to a queue that expires."""
    control = tasks.app.control
    (answer,) = control.ping(timeout=5, limit=1)
    assert list(answer.values()) == [{"ok": "pong"}]
    inspect = control.inspect(timeout=5, limit=1)
    (active,) = inspect.active_queues().values()
    assert [queue["name"] for queue in active] == [worker.queue]
    (stats,) = inspect.stats().values()
    assert stats["broker"]["transport"] == "amqp"


def test_the_worker_goes_on_after_a_restart(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    broker = start_broker()
    port = broker.port
    url = f"amqp://guest:guest@127.0.0.1:{port}//"

    def add(x: int, y: int) -> int:
        """From a client of its own: the other's results come from the other broker."""
        client = Celery("client", broker=url, backend="rpc://", set_as_current=False)
        result = client.send_task("interop.celery.tasks.add", (x, y), queue=other.queue)
        try:
            return int(result.get(timeout=TIMEOUT_S))
        finally:
            disconnect(client)

    with working(url, tmp_path / "worker.log") as other:
        assert add(1, 1) == 2
        broker.process.kill()
        broker.process.wait()
        start_broker("--port", str(port))
        eventually(lambda: other.says("Connected to amqp", 2), "the worker is back")
        assert add(2, 2) == 4
