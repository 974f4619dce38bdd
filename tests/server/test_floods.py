"""Publishers that wait for nobody and consumers that acknowledge nothing, at small scale: the broker's memory stays
bounded, others are served meanwhile, and the log has no error. `make soak` does the same for minutes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import processes
from benchmarks.children import forked
from benchmarks.client import Address
from benchmarks.soak import client, loads
from benchmarks.soak.board import Board
from tests.support.broker_process import BrokerProcess, running

MB = 1_000_000
RSS_LIMIT = 400 * MB
#: For the well-behaved client. It sees some ms; the rest is for a machine that runs other tests at the same time, and
#: for the build without compiled modules. It publishes rarely, because a message that is due while another is on its
#: way is timed from when it was due: short delays of many messages would add up.
LONGEST_MS, EVERY_S = 5000, 1.0
#: As many octets as a broker without bounds would keep in memory beyond the limit, at whatever speed the machine has.
FLOOD_BYTES = {16: 250 * MB, 1024: 800 * MB, 100 * 1024: 800 * MB}
FLOOD_S = 15.0
BACKLOG = 400 * MB
RETURNED = 60 * MB  # more than before a consumer took the backlog: the memory it had is free again
SETTLE_S = 20.0

pytestmark = pytest.mark.skipif(not processes.is_supported, reason="memory is read from /proc")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running("--no-memory", "--data-dir", str(tmp_path / "data")) as process:
        yield process
        errors = [line for line in process.log().splitlines() if "[ERROR]" in line or "[CRITICAL]" in line]
        assert errors == []


class Memory:
    """The most memory that the broker had, looked at often."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._is_over = threading.Event()
        self.largest = 0.0

    def now(self) -> float:
        return processes.rss_bytes(self._pid)

    def watch(self) -> None:
        while not self._is_over.wait(0.05):
            self.largest = max(self.largest, self.now())

    def end(self) -> None:
        self._is_over.set()


@contextmanager
def watched(broker: BrokerProcess) -> Iterator[Memory]:
    memory = Memory(broker.process.pid)
    thread = threading.Thread(target=memory.watch)
    thread.start()
    try:
        yield memory
    finally:
        memory.end()
        thread.join()


@contextmanager
def others_served(address: Address) -> Iterator[None]:
    """A client that publishes with confirms and gets its messages is never kept waiting for long, and loses none."""
    with forked(client.measure, address, "well-behaved", EVERY_S, False) as child:
        child.take(30)
        yield
        times = client.take(child)
    assert times.failure == ""
    assert times.lost == 0
    assert max(times.took_ms) <= LONGEST_MS


def address_of(broker: BrokerProcess) -> Address:
    return Address("127.0.0.1", broker.port)


@pytest.mark.parametrize("size", FLOOD_BYTES)
@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "transient"])
def test_a_flood_leaves_memory_bounded_and_others_served(broker: BrokerProcess, size: int, persistent: bool) -> None:
    """Two publishers at full speed without confirms, to a queue that nobody consumes."""
    address = address_of(broker)
    with watched(broker) as memory, others_served(address):
        with loads.queue(address, "flood") as name, loads.opened(address) as one, loads.opened(address) as two:
            messages = loads.cycle(name, size, persistent=persistent, count=max(1, MB // (size + 60)))
            sent = loads.pour([one, two], messages, FLOOD_S, FLOOD_BYTES[size], Board(0))
        assert sent > 100
    assert memory.largest <= RSS_LIMIT


@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "transient"])
def test_a_consumer_that_never_acks_does_not_pull_the_backlog_into_memory(
    broker: BrokerProcess, persistent: bool
) -> None:
    address = address_of(broker)
    with watched(broker) as memory:
        with loads.queue(address, "unacked") as name:
            with loads.opened(address) as publisher:
                messages = loads.cycle(name, 10_000, persistent=persistent, count=100)
                publisher.select_confirms()
                for _ in range(BACKLOG // (100 * 10_000)):
                    publisher.send(b"".join(messages))
                _await_count(address, name, BACKLOG // 10_000)
            before = memory.now()
            memory.largest = 0.0
            with others_served(address), loads.opened(address) as consumer:
                consumer.consume(name, auto_ack=False)
                loads.read_for(consumer, 4.0, Board(0))
            assert memory.largest <= RSS_LIMIT
            _await_count(address, name, BACKLOG // 10_000)  # all of it is back
            _await_memory(memory, before + RETURNED)


def _await_count(address: Address, name: str, count: int) -> None:
    deadline = time.monotonic() + 60
    with loads.opened(address) as looking:
        while (found := looking.declare_queue(name, durable=True)) < count:
            assert time.monotonic() < deadline, f"{found} of {count}"
            time.sleep(0.05)


def _await_memory(memory: Memory, most: float) -> None:
    deadline = time.monotonic() + SETTLE_S
    while memory.now() > most:
        assert time.monotonic() < deadline, f"{memory.now() / MB:.0f} MB are still taken"
        time.sleep(0.1)
