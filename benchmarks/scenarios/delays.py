"""Messages delayed by 1 to 5 seconds: how many can be scheduled, and how late they arrive.

Each carries its due time in its body, by the clock that all processes share; the consumer compares. A broker without
`x-delay` delivers too early, which fails the sample.
"""

import random
import struct
import time
from array import array
from collections.abc import Callable, Iterator

from benchmarks import wire
from benchmarks.brokers import Place, Running
from benchmarks.children import Parent, forked
from benchmarks.client import Address, Client, Refused
from benchmarks.flow import Confirms
from benchmarks.scenarios.scenario import Messages, Sample, Scenario, Unit, percentile

QUEUE = "bench.delays"
SHORTEST_MS, LONGEST_MS = 1000, 5000
BODY_BYTES = 16
BLOCK = 250
BLOCKS = 40
WINDOW = 20_000
LIMIT_S = 60.0
PENDING, FAR_MS, SETTLE_S = 1_000_000, (3_600_000, 8 * 86_400_000), 3.0
#: Possible difference of two clocks of one machine, read one after the other in whole milliseconds.
EARLY_NS = 3_000_000
_DUE = struct.Struct(">q")
_LAST = -1


class Block:
    """Publishes with random delays, as frames; the due times are written just before sending."""

    def __init__(self, dice: random.Random, *, persistent: bool) -> None:
        self.delays_ms = [dice.randint(SHORTEST_MS, LONGEST_MS) for _ in range(BLOCK)]
        messages = [_message(delay_ms, persistent=persistent) for delay_ms in self.delays_ms]
        self.frames = bytearray(b"".join(messages))
        size = len(messages[0])
        self._places = [number * size + size - 1 - BODY_BYTES for number in range(BLOCK)]

    def stamp(self) -> bytearray:
        now = time.time_ns()
        for at, delay_ms in zip(self._places, self.delays_ms, strict=True):
            _DUE.pack_into(self.frames, at, now + delay_ms * 1_000_000)
        return self.frames


def _message(delay_ms: int, *, persistent: bool) -> bytes:
    props = wire.properties(persistent=persistent, headers={"x-delay": delay_ms})
    return wire.publish("", QUEUE, bytes(BODY_BYTES), props=props)


def schedule(rate: int, *, persistent: bool) -> Callable[[Running, float], Sample]:
    """Publish `rate` messages per second; 0 means as many as are confirmed."""

    def run(broker: Running, seconds: float) -> Sample:
        with Client(broker.address) as owner:
            owner.open_channel()
            owner.delete_queue(QUEUE)
            owner.declare_queue(QUEUE, durable=persistent)
            with forked(receive, broker.address) as consumer, Client(broker.address) as publisher:
                publisher.open_channel()
                publisher.select_confirms()
                consumer.take(LIMIT_S)
                cpu = broker.cpu_seconds()
                published, took_s = _publish(publisher, rate, seconds, persistent=persistent)
                delivered, p50_us, p99_us, max_us = consumer.take(LIMIT_S)
                cpu = broker.cpu_seconds() - cpu
            owner.delete_queue(QUEUE)
        if delivered != published:
            raise Refused(f"{published} were published and {delivered:.0f} came")
        details = {
            "publish_rate": published / took_s,
            "published": published,
            "p50_us": p50_us,
            "p99_us": p99_us,
            "max_us": max_us,
            "rss_bytes": broker.rss_bytes(),
            "broker_cpu_us": cpu / published * 1e6,
        }
        return Sample(details["publish_rate"] if rate == 0 else p99_us, details)

    return run


def _publish(client: Client, rate: int, seconds: float, *, persistent: bool) -> tuple[int, float]:
    dice = random.Random(1)
    blocks = [Block(dice, persistent=persistent) for _ in range(BLOCKS)]
    confirms = Confirms(client.sock)
    sent = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        if rate:
            early = began + sent / rate - time.perf_counter()
            if early > 0:
                time.sleep(early)
        client.send(blocks[sent // BLOCK % BLOCKS].stamp())
        sent += BLOCK
        confirms.read(wait=False)
        while sent - confirms.count > WINDOW:
            confirms.read(wait=True)
    while confirms.count < sent:
        confirms.read(wait=True)
    took_s = time.perf_counter() - began
    # The last message, due after all others, tells the consumer to stop.
    last = bytearray(_message(LONGEST_MS + 200, persistent=persistent))
    _DUE.pack_into(last, len(last) - 1 - BODY_BYTES, _LAST)
    client.send(last)
    confirms.read(wait=True)
    return sent, took_s


def receive(parent: Parent, address: Address) -> None:
    late_ns = array("q")
    with Client(address) as client:
        client.open_channel()
        client.consume(QUEUE, auto_ack=True)
        parent.ready()
        for now, due in _deliveries(client):
            if due == _LAST:
                break
            late_ns.append(now - due)
    if min(late_ns, default=0) < -EARLY_NS:
        raise Refused("messages came before they were due")
    ordered = sorted(value / 1000 for value in late_ns)
    parent.give(len(ordered), percentile(ordered, 0.5), percentile(ordered, 0.99), ordered[-1])


def _deliveries(client: Client) -> Iterator[tuple[int, int]]:
    """Yield for each delivery when it arrived and when it was due."""
    shape, raw = client.read_delivery()
    yield time.time_ns(), _DUE.unpack_from(raw, shape.body_offset)[0]
    view, filled = memoryview(bytearray(256 * 1024)), 0
    while True:
        got = client.sock.recv_into(view[filled:])
        now = time.time_ns()
        if not got:
            raise Refused("the broker closed the socket")
        filled += got
        whole = filled // shape.size * shape.size
        for at in range(shape.body_offset, whole, shape.size):
            yield now, _DUE.unpack_from(view, at)[0]
        view[: filled - whole] = view[whole:filled]
        filled -= whole


def pending(broker: Running, seconds: float) -> Sample:
    """Measure resident memory with a million messages due in an hour to eight days."""
    before = broker.rss_bytes()
    dice = random.Random(2)
    with Client(broker.address) as client:
        client.open_channel()
        client.declare_queue(QUEUE, durable=True)
        client.select_confirms()
        confirms = Confirms(client.sock)
        began = time.perf_counter()
        for sent in range(BLOCK, PENDING + 1, BLOCK):
            client.send(b"".join([_message(dice.randint(*FAR_MS), persistent=True) for _ in range(BLOCK)]))
            confirms.read(wait=False)
            while sent - confirms.count > WINDOW:
                confirms.read(wait=True)
        while confirms.count < PENDING:
            confirms.read(wait=True)
        took_s = time.perf_counter() - began
        client.delete_queue(QUEUE)
    time.sleep(SETTLE_S)
    after = broker.rss_bytes()
    broker.restart()
    return Sample(
        after,
        {
            "before": before,
            "publish_rate": PENDING / took_s,
            "restart_s": broker.start_s,
            "rss_after_restart": broker.rss_bytes(),
        },
    )


SCENARIOS = (
    Scenario(
        "delays",
        "16 B persistent, due in 1 to 5 s, scheduled per second",
        Unit.RATE,
        schedule(0, persistent=True),
        place=Place.DISK,
        is_ours=True,
        messages=Messages.KEYS,
    ),
    Scenario(
        "delays-transient",
        "16 B transient, due in 1 to 5 s, scheduled per second",
        Unit.RATE,
        schedule(0, persistent=False),
        place=Place.DISK,
        is_ours=True,
        messages=Messages.KEYS,
    ),
    Scenario(
        "delays-late",
        "16 B persistent, due in 1 to 5 s, 5,000 per second, late by p50 / p99",
        Unit.LATENCY,
        schedule(5000, persistent=True),
        place=Place.DISK,
        is_ours=True,
        messages=Messages.KEYS,
    ),
    Scenario(
        "delays-memory",
        "1,000,000 × 16 B persistent pending for days, resident memory",
        Unit.BYTES,
        pending,
        limit=300e6,
        most=1,
        is_fresh=True,
        place=Place.DISK,
        is_ours=True,
        messages=Messages.KEYS,
    ),
)
