"""Dramatiq over its RabbitMQ broker: queues with a `.DQ` for what is due later and an `.XQ` for the dead."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from dramatiq import Actor, Message, Worker, pipeline
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.common import dq_name, xq_name

from interop.conftest import Address
from interop.patience import PATIENCE_S, eventually
from tests.support.broker_process import ROOT, BrokerProcess, ending

Unique = Callable[[str], str]


class Party:
    """A broker in dramatiq's sense, a queue of its own, and the worker once it is wanted."""

    def __init__(self, url: str, queue: str, **options: Any) -> None:
        self.broker = RabbitmqBroker(url=url, confirm_delivery=True, **options)
        self.queue = queue
        self.done: list[Any] = []
        self._workers: list[Worker] = []

    def actor(self, function: Callable[..., object], **options: Any) -> Actor[..., object]:
        return dramatiq.actor(broker=self.broker, queue_name=self.queue, **options)(function)

    def work(self, threads: int = 2) -> None:
        self._workers.append(Worker(self.broker, worker_timeout=50, worker_threads=threads))
        self._workers[-1].start()

    def expect(self, done: list[object]) -> None:
        eventually(lambda: len(self.done) >= len(done), f"{len(done)} done")
        assert self.done == done

    def counts(self) -> tuple[int, int, int]:
        """Messages that are ready, that are due later, that are dead."""
        return self.broker.get_queue_message_counts(self.queue)

    def end(self) -> None:
        for worker in self._workers:
            worker.stop()
        for name in (self.queue, dq_name(self.queue), xq_name(self.queue)):
            self.broker.channel.queue_delete(name)
        self.broker.close()


@pytest.fixture
def start(address: Address, unique: Unique) -> Iterator[Callable[..., Party]]:
    parties: list[Party] = []

    def start(**options: object) -> Party:
        parties.append(Party(address.url(), unique("dramatiq"), **options))
        return parties[-1]

    yield start
    for party in parties:
        party.end()


@pytest.fixture
def party(start: Callable[..., Party]) -> Party:
    return start()


def test_actors_run(party: Party) -> None:
    count = party.actor(party.done.append)
    for number in range(100):
        count.send(number)
    party.work()
    eventually(lambda: len(party.done) == 100, "all ran")
    assert sorted(map(int, map(str, party.done))) == list(range(100))
    eventually(lambda: party.counts() == (0, 0, 0), "all are acked")


def test_priorities(start: Callable[..., Party]) -> None:
    """The broker's, where the higher number goes first."""
    party = start(max_priority=10)
    note = party.actor(party.done.append)
    for priority in (1, 9, 5, 9, 1):
        note.send_with_options(args=(priority,), broker_priority=priority)
    party.work(threads=1)
    party.expect([9, 9, 5, 1, 1])


def test_delays(party: Party) -> None:
    """What is due later waits in the worker's hands, unacked, while others pass."""
    stamp = party.actor(lambda name: party.done.append((name, time.monotonic())), actor_name="stamp")
    sent = time.monotonic()
    stamp.send_with_options(args=("late",), delay=400)
    stamp.send("at once")
    assert party.counts() == (1, 1, 0)
    party.work()
    eventually(lambda: len(party.done) == 2, "both ran")
    (first, _), (second, at) = party.done
    assert (first, second) == ("at once", "late")
    assert at >= sent + 0.4


def test_retries(party: Party) -> None:
    """Each is a new message to the delay queue."""

    def work() -> None:
        party.done.append("tried")
        if len(party.done) < 3:
            raise RuntimeError("not yet")

    party.actor(work, min_backoff=20, max_backoff=40, max_retries=5).send()
    party.work()
    party.expect(["tried"] * 3)
    eventually(lambda: party.counts() == (0, 0, 0), "nothing is left")


def test_dead_letters(party: Party) -> None:
    """What has failed for good is rejected, and the broker keeps it in `.XQ`; so is what cannot be read."""

    def fail() -> None:
        raise RuntimeError("never")

    party.actor(fail, max_retries=0).send()
    party.work()
    party.broker.channel.basic_publish("", party.queue, b"no message of dramatiq's")
    eventually(lambda: party.counts() == (0, 0, 2), "both are dead")
    dead = [party.broker.channel.basic_get(xq_name(party.queue), auto_ack=True) for _ in range(2)]
    assert {Message.decode(body).actor_name for _, _, body in dead if body.startswith(b"{")} == {"fail"}
    for _, properties, _ in dead:
        (death,) = properties.headers["x-death"]
        assert (death["reason"], death["queue"], death["count"]) == ("rejected", party.queue, 1)


def test_pipelines(party: Party) -> None:
    double = party.actor(lambda number: number * 2, actor_name="double")
    note = party.actor(party.done.append)
    party.work()
    pipeline([double.message(1), double.message(), note.message()], broker=party.broker).run()
    party.expect([4])


def test_a_queue_that_was_deleted(party: Party) -> None:
    """Published as mandatory it comes back, and dramatiq declares its queues again."""
    note = party.actor(party.done.append)
    note.send(1)
    for name in (party.queue, dq_name(party.queue), xq_name(party.queue)):
        party.broker.channel.queue_delete(name)
    note.send(2)
    assert party.counts() == (1, 0, 0)


def test_the_worker_goes_on_after_a_restart(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    """Started by dramatiq's own command."""
    broker = start_broker()
    port = broker.port
    url = f"amqp://guest:guest@127.0.0.1:{port}/%2F"
    log = tmp_path / "worker.log"
    words = ["-m", "dramatiq", "interop.dramatiq.actors", "--processes", "1", "--threads", "1"]
    variables = os.environ | {"INTEROP_DRAMATIQ_URL": url, "dramatiq_restart_delay": "100", "PYTHONPATH": str(ROOT)}

    def ask(text: str) -> None:
        """From a client of its own, which knows the actor by name."""
        client = RabbitmqBroker(url=url, confirm_delivery=True)
        client.enqueue(Message("work", "answer", (text,), {}, {}))
        client.close()
        eventually(lambda: f"answered {text}" in log.read_text(), f"an answer to {text}")

    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, *words], env=variables, stdout=output, stderr=output)
    with ending(process):
        ask("first")
        broker.process.kill()
        broker.process.wait()
        start_broker("--port", str(port))
        ask("second")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, log.read_text()
