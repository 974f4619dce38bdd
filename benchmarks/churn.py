"""Creates and deletes connections, channels, queues, exchanges and consumers: does the broker's memory level off?

    python -m benchmarks.churn --minutes 9

Nine clients a second, each using all that an application may use once: a connection with two channels, an exchange,
five queues (plain, with a TTL, with dead letters, with retries, durable), consumers, 60 messages, some of them delayed,
expired, rejected or retried, and an HTTP request. Some clients disconnect without closing. Prints the broker's resident
memory per minute; the exit code is 1 if it grows by more than a megabyte a minute in the second half.
"""

import argparse
import contextlib
import http.client
import itertools
import os
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from benchmarks import brokers, processes
from benchmarks.brokers import Launch, Running
from benchmarks.client import Address, Client

LIVES_PER_SECOND = 9.0
MESSAGES = 60
THREADS = 3
#: Growth in the second half, in MB per minute, that still counts as level.
LEVEL_MB = 1.0

_AUTHORIZATION = "Basic " + b64encode(b"guest:guest").decode()


@dataclass(slots=True)
class Soak:
    """The result: megabytes by minutes since the start, lives, and failed lives."""

    samples: list[tuple[float, float]] = field(default_factory=list)
    lives: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def growth_mb(self) -> float:
        """Return the growth per minute in the second half: the least-squares slope, robust against one outlier."""
        end = self.samples[-1][0]
        later = [sample for sample in self.samples if sample[0] >= end / 2]
        if len(later) < 2:
            return 0.0
        minutes = sum(at for at, _ in later) / len(later)
        megabytes = sum(size for _, size in later) / len(later)
        spread = sum((at - minutes) ** 2 for at, _ in later)
        return sum((at - minutes) * (size - megabytes) for at, size in later) / spread if spread else 0.0

    @property
    def is_level(self) -> bool:
        return self.lives > 0 and self.growth_mb <= LEVEL_MB


def live(broker: Running, number: int) -> None:
    """Run one client that connects, uses everything, and disconnects."""
    parameters = pika.ConnectionParameters(broker.address.host, broker.address.port, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    publisher, consumer = connection.channel(), connection.channel()
    name = f"life-{number}"
    _declare(publisher, name)
    for count in range(MESSAGES):
        _publish(publisher, name, count)
    consumer.basic_qos(prefetch_count=20)
    consumer.basic_consume(f"{name}.plain", lambda *_: None)
    consumer.basic_consume(f"{name}.durable", lambda *_: None, auto_ack=True)
    for _ in range(3):
        found, _, _ = consumer.basic_get(f"{name}.retried")
        if found is not None:
            consumer.basic_nack(found.delivery_tag, requeue=True)
    found, _, _ = consumer.basic_get(f"{name}.dying")
    if found is not None:
        consumer.basic_reject(found.delivery_tag, requeue=False)
    connection.process_data_events(time_limit=0.02)
    if broker.http is not None:
        _ask(broker.http, f"/api/queues/%2F/{name}.plain")
    if number % 3 == 0:
        _end_without_a_word(broker.address, f"{name}.plain")
    for queue in ("dead", "dying", "retried", "durable"):
        publisher.queue_delete(f"{name}.{queue}")
    publisher.exchange_delete(name)
    connection.close()


def _end_without_a_word(address: Address, queue: str) -> None:
    """Run another client that disconnects with unacknowledged deliveries and without closing."""
    client = Client(address)
    client.open_channel()
    client.consume(queue, auto_ack=False)
    client.sock.close()


def _declare(channel: BlockingChannel, name: str) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.dead"}
    channel.exchange_declare(name, "topic")
    channel.queue_declare(f"{name}.plain", auto_delete=True)
    channel.queue_declare(f"{name}.dead", arguments={"x-expires": 60_000})
    channel.queue_declare(f"{name}.dying", arguments={"x-message-ttl": 20, **dead})
    channel.queue_declare(f"{name}.retried", arguments={"x-retry-initial": 20, **dead})
    channel.queue_declare(f"{name}.durable", durable=True)
    for queue in ("plain", "dying", "retried", "durable"):
        channel.queue_bind(f"{name}.{queue}", name, f"{queue}.#")
    channel.confirm_delivery()


def _publish(channel: BlockingChannel, name: str, count: int) -> None:
    queue = ("plain", "dying", "retried", "durable")[count % 4]
    headers = {"x-delay": 10} if count % 5 == 0 else None
    properties = pika.BasicProperties(delivery_mode=1 + count % 2, headers=headers)
    channel.basic_publish(name, f"{queue}.{count}", bytes(200), properties)


def _ask(address: Address, path: str) -> None:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=10)
    try:
        connection.request("GET", path, headers={"Authorization": _AUTHORIZATION})
        connection.getresponse().read()
    finally:
        connection.close()


@contextlib.contextmanager
def broker_on_disk(*flags: str) -> Iterator[Running]:
    """Run a rabbitlike with durable data on disk and the HTTP API."""
    port, http_port = brokers.free_ports(2)
    with tempfile.TemporaryDirectory(prefix="churn-") as folder:
        command = [sys.executable, "-P", "-m", "rabbitlike", "serve", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--management-port", str(http_port), "--data-dir", f"{folder}/data", *flags]
        address, web = Address("127.0.0.1", port), Address("127.0.0.1", http_port)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RABBITLIKE_")}
        launch = Launch(command, environment, Path(folder), address, web)
        running = Running("rabbitlike", launch, Path(folder) / "output.log")
        try:
            running.start()
            yield running
        finally:
            running.stop()


def soak(broker: Running, minutes: float, *, say: Callable[[str], None], sample_s: float = 10.0) -> Soak:
    """Run lives for the given minutes; sample memory every few seconds."""
    seen = Soak()
    numbers = itertools.count(1)
    began_s = time.monotonic()
    ends_s = began_s + 60 * minutes

    def run() -> None:
        while time.monotonic() < ends_s:
            number = next(numbers)
            due_s = began_s + number / LIVES_PER_SECOND
            time.sleep(max(0.0, due_s - time.monotonic()))
            try:
                live(broker, number)
                seen.lives += 1
            except Exception as error:  # reported at the end, whatever it is
                seen.failures.append(f"life {number}: {error!r}")

    threads = [threading.Thread(target=run, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    say("minute  resident MB   lives")
    told = 0
    while (now_s := time.monotonic()) < ends_s:
        minute = (now_s - began_s) / 60
        megabytes = processes.rss_bytes(broker.pid) / 1e6
        seen.samples.append((minute, megabytes))
        if minute >= told:
            say(f"{told:6d}  {megabytes:11.1f}  {seen.lives:6d}")
            told += 1
        time.sleep(min(sample_s, max(0.05, ends_s - now_s)))
    for thread in threads:
        thread.join(timeout=30)
    seen.samples.append(((time.monotonic() - began_s) / 60, processes.rss_bytes(broker.pid) / 1e6))
    say(f"   end  {seen.samples[-1][1]:11.1f}  {seen.lives:6d}")
    return seen


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.churn", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=9.0)
    chosen = parser.parse_args(arguments)

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    with broker_on_disk() as broker:
        seen = soak(broker, chosen.minutes, say=say)
    for failure in seen.failures[:10]:
        say(failure)
    verdict = "level" if seen.is_level else "it grows"
    say(f"{seen.growth_mb:+.2f} MB a minute in the second half: {verdict} (limit {LEVEL_MB:+.1f})")
    return 0 if seen.is_level and len(seen.failures) <= seen.lives // 100 else 1


if __name__ == "__main__":
    sys.exit(main())
