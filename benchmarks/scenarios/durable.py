"""The cost of durability: persistent messages in durable queues with confirms, and backlogs too large for memory.

A backlog is made once and serves the scenarios that follow each other: its memory, the duration of a start with it, and
how fast it is consumed.
"""

import os
import tempfile
import time
from collections.abc import Callable
from typing import Self

from benchmarks import flow, wire
from benchmarks.brokers import Place, Running
from benchmarks.client import Client
from benchmarks.scenarios.scenario import TIMES_FDATASYNC, Messages, Sample, Scenario, Unit, percentile
from benchmarks.scenarios.throughput import message, straight

QUEUE, BACKLOG = "bench.durable", "bench.backlog"
WINDOW, FILL_WINDOW = 1000, 10_000
PREFETCH, ACK_EVERY = 2000, 100
BODY_BYTES = 1024
SETTLE_S = 3.0
SYNC_BYTES, SYNCS = 4096, 50
#: Duration of a slice of confirms; a few plain syncs follow each slice.
SLICE_NS = 100_000_000
WARM_UP = 0.1  # this share of the samples, from the start, is not counted
#: The lowest rate that is waited for, in messages per second.
SLOWEST = 2000
MILLION = 1_000_000


def unconsumed(size: int) -> Callable[[Running, float], Sample]:
    """Measure confirms per second while the queue only grows."""

    def run(broker: Running, seconds: float) -> Sample:
        with Client(broker.address) as owner:
            owner.open_channel()
            owner.delete_queue(QUEUE)
            owner.declare_queue(QUEUE, durable=True)
            seen = flow.fill(broker, _load(QUEUE, size, WINDOW), seconds)
            owner.delete_queue(QUEUE)
        return _filled(seen)

    return run


def _load(queue: str, size: int, window: int, most: int = flow.MESSAGE_CAP) -> flow.Load:
    return flow.Load([[message("", queue, size, persistent=True)]], (), confirms=True, window=window, most=most)


def _filled(seen: flow.Flow) -> Sample:
    details = {
        "published": seen.published,
        "seconds": seen.confirm_s,
        "broker_cpu_us_per_delivery": seen.broker_cpu_s / seen.published * 1e6,
        "generator_cpu_us_per_delivery": seen.publisher_cpu_s / seen.published * 1e6,
    }
    return Sample(seen.published / seen.confirm_s, details)


def one_in_flight(broker: Running, seconds: float) -> Sample:
    """Publish, wait for the confirm, repeat. Without a consumer every message is written; judged by the median.

    A plain fdatasync is measured alternately, slice by slice, because both vary with the machine.
    """
    latencies: list[int] = []
    syncs: list[int] = []
    with Client(broker.address) as client, Overwriting() as overwriting:
        client.open_channel()
        client.delete_queue(QUEUE)
        client.declare_queue(QUEUE, durable=True)
        client.select_confirms()
        request = message("", QUEUE, BODY_BYTES, persistent=True)
        clock, deadline = time.perf_counter_ns, time.perf_counter_ns() + int(seconds * 1e9)
        while (began := clock()) < deadline:
            slice_end = min(deadline, began + SLICE_NS)
            while began < slice_end:
                client.send(request)
                client.expect(wire.ACK)
                ended = clock()
                latencies.append(ended - began)
                began = ended
            syncs.extend(overwriting.times(SYNCS))
        client.delete_queue(QUEUE)
    counted = sorted(value / 1000 for value in latencies[int(len(latencies) * WARM_UP) :])
    p50, bare = percentile(counted, 0.5), percentile(sorted(value / 1000 for value in syncs), 0.5)
    return Sample(
        p50,
        {
            "p50_us": p50,
            "p99_us": percentile(counted, 0.99),
            "max_us": counted[-1],
            "samples": len(counted),
            "fdatasync_p50_us": bare,
            TIMES_FDATASYNC: p50 / bare,
        },
    )


class Overwriting:
    """A file on the brokers' disk: measures one fdatasync after an overwrite of 4 KB."""

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile(buffering=0)  # the brokers' folders are in the same place
        self._handle = self._file.fileno()
        self._file.write(bytes(SYNC_BYTES))
        os.fsync(self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def times(self, count: int) -> list[int]:
        """Return times in nanoseconds."""
        data, clock, taken = bytes(SYNC_BYTES), time.perf_counter_ns, []
        for _ in range(count):
            began = clock()
            os.pwrite(self._handle, data, 0)
            os.fdatasync(self._handle)
            taken.append(clock() - began)
        return taken


# A backlog


def _with_backlog(broker: Running, count: int) -> dict[str, float]:
    """Make sure that a backlog exists; return the details of making it, if it was made."""
    with Client(broker.address) as owner:
        owner.open_channel()
        missing = count - owner.declare_queue(BACKLOG, durable=True)
    if missing <= 0:
        return {}
    seen = flow.fill(broker, _load(BACKLOG, BODY_BYTES, FILL_WINDOW, missing), missing / SLOWEST)
    return {"fill_rate": seen.published / seen.confirm_s, "fill_s": seen.confirm_s}


def memory(count: int) -> Callable[[Running, float], Sample]:
    def run(broker: Running, seconds: float) -> Sample:
        before = broker.rss_bytes()
        made = _with_backlog(broker, count)
        time.sleep(SETTLE_S)
        return Sample(broker.rss_bytes(), {"before": before, **made})

    return run


def boot(count: int) -> Callable[[Running, float], Sample]:
    def run(broker: Running, seconds: float) -> Sample:
        made = _with_backlog(broker, count)
        began = time.perf_counter()
        broker.restart()
        stop_s = time.perf_counter() - began - broker.start_s
        rss = broker.rss_bytes()
        with Client(broker.address) as owner:
            owner.open_channel()
            found = owner.declare_queue(BACKLOG, durable=True)
        return Sample(broker.start_s, {"messages": found, "stop_s": stop_s, "rss_bytes": rss, **made})

    return run


def drain(count: int) -> Callable[[Running, float], Sample]:
    def run(broker: Running, seconds: float) -> Sample:
        made = _with_backlog(broker, count)
        with Client(broker.address) as owner:
            owner.open_channel()
            found = owner.declare_queue(BACKLOG, durable=True)
            load = flow.Load((), [BACKLOG], prefetch=PREFETCH, ack_every=ACK_EVERY)
            seen = flow.drain(broker, load, found, found / SLOWEST + flow.RUN_LIMIT_S)
            owner.delete_queue(BACKLOG)
        details = {
            "delivered": seen.delivered,
            "seconds": seen.deliver_s,
            "broker_cpu_us_per_delivery": seen.broker_cpu_s / seen.delivered * 1e6,
            "generator_cpu_us_per_delivery": seen.consumer_cpu_s / seen.delivered * 1e6,
            **made,
        }
        return Sample(seen.delivered / seen.deliver_s, details)

    return run


def consumed(size: int) -> Callable[[Running, float], Sample]:
    """Measure messages published, confirmed, delivered and acknowledged."""
    return straight(size, prefetch=PREFETCH, ack_every=ACK_EVERY, persistent=True, window=WINDOW)


SCENARIOS = (
    Scenario(
        "persistent-1kb",
        "1 KB persistent, 1,000 unconfirmed, consumed",
        Unit.RATE,
        consumed(BODY_BYTES),
        bar=8,
        place=Place.DISK,
        messages=Messages.ONE,
    ),
    Scenario(
        "persistent-16b",
        "16 B persistent, 1,000 unconfirmed, consumed",
        Unit.RATE,
        consumed(16),
        bar=8,
        place=Place.DISK,
        messages=Messages.ONE,
    ),
    Scenario(
        "persistent-growing",
        "1 KB persistent, 1,000 unconfirmed, not consumed",
        Unit.RATE,
        unconsumed(BODY_BYTES),
        bar=8,
        place=Place.DISK,
        messages=Messages.ONE,
    ),
    Scenario(
        "confirm-latency",
        "1 KB persistent, 1 in flight, p50 / p99",
        Unit.LATENCY,
        one_in_flight,
        bar=1,
        place=Place.DISK,
        messages=Messages.ONE,
    ),
)


def with_backlog(count: int) -> tuple[Scenario, ...]:
    """Return the scenarios on a backlog of `count` messages of 1 KB."""
    what = f"backlog of {count:,} × 1 KB"
    return (
        Scenario(
            "backlog-memory",
            f"{what}, resident memory",
            Unit.BYTES,
            memory(count),
            limit=300e6,
            most=1,
            place=Place.BACKLOG,
            messages=Messages.ONE,
        ),
        Scenario(
            "backlog-boot",
            f"{what}, restart: process start → AMQP handshake",
            Unit.SECONDS,
            boot(count),
            limit=2.0 if count <= MILLION else None,
            most=1,
            place=Place.BACKLOG,
            messages=Messages.ONE,
        ),
        Scenario(
            "backlog-drain",
            f"{what}, consumed",
            Unit.RATE,
            drain(count),
            bar=5,
            most=1,
            place=Place.BACKLOG,
            messages=Messages.ONE,
        ),
    )
