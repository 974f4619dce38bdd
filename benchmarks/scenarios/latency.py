"""Latency of one message on a quiet broker: a round trip, and one-way delivery at a steady rate."""

import struct
import time

from benchmarks import wire
from benchmarks.brokers import Running
from benchmarks.children import Parent, forked
from benchmarks.client import Address, Client, Refused
from benchmarks.scenarios.scenario import Messages, Sample, Scenario, Unit, percentile

REQUESTS, REPLIES, PACED = "bench.requests", "bench.replies", "bench.paced"
BODY_BYTES = 100
RATE = 2000
WARM_UP = 0.1  # this share of the samples, from the start, is not counted
LIMIT_S = 30.0
_STAMP = struct.Struct(">q")
_STOP = -1


def _open(address: Address, queue: str | None = None) -> Client:
    client = Client(address)
    client.open_channel()
    if queue is not None:
        client.consume(queue, auto_ack=True)
    return client


def _stamped(queue: str) -> tuple[bytearray, int]:
    """Return a message as a template, and the offset of the timestamp at the start of its body."""
    template = wire.publish("", queue, bytes(BODY_BYTES), props=wire.properties())
    return bytearray(template), len(template) - 1 - BODY_BYTES


def _summary(latencies_ns: list[int], broker_cpu_s: float) -> Sample:
    counted = sorted(value / 1000 for value in latencies_ns[int(len(latencies_ns) * WARM_UP) :])
    p99 = percentile(counted, 0.99)
    details = {
        "p50_us": percentile(counted, 0.5),
        "p99_us": p99,
        "p999_us": percentile(counted, 0.999),
        "max_us": counted[-1],
        "samples": len(counted),
        "broker_cpu_s": broker_cpu_s,
    }
    return Sample(p99, details)


# Request and reply


def round_trip(broker: Running, seconds: float) -> Sample:
    """One request in flight: requester → queue → responder → queue → requester."""
    with Client(broker.address) as owner:
        owner.open_channel()
        for queue in (REQUESTS, REPLIES):
            owner.declare_queue(queue)
        with forked(respond, broker.address) as responder, _open(broker.address, REPLIES) as requester:
            responder.take(LIMIT_S)
            cpu = broker.cpu_seconds()
            latencies = _ask_repeatedly(requester, seconds)
            cpu = broker.cpu_seconds() - cpu
        for queue in (REQUESTS, REPLIES):
            owner.delete_queue(queue)
    return _summary(latencies, cpu)


def _ask_repeatedly(requester: Client, seconds: float) -> list[int]:
    request, stamp_at = _stamped(REQUESTS)
    requester.send(request)
    shape, _ = requester.read_delivery()
    latencies: list[int] = []
    clock, deadline = time.perf_counter_ns, time.perf_counter_ns() + int(seconds * 1e9)
    began = clock()
    while began < deadline:
        requester.send(request)
        requester.read_exactly(shape.size)
        ended = clock()
        latencies.append(ended - began)
        began = ended
    _STAMP.pack_into(request, stamp_at, _STOP)
    requester.send(request)
    return latencies


def respond(parent: Parent, address: Address) -> None:
    with _open(address, REQUESTS) as client:
        reply, _ = _stamped(REPLIES)
        parent.ready()
        shape, request = client.read_delivery()
        while _STAMP.unpack_from(request, shape.body_offset)[0] != _STOP:
            client.send(reply)
            request = client.read_exactly(shape.size)


# Steady rate


def paced(broker: Running, seconds: float) -> Sample:
    """Publish at a fixed rate with the time in the body; the consumer compares it with its own clock."""
    with Client(broker.address) as owner:
        owner.open_channel()
        owner.declare_queue(PACED)
        count = int(seconds * RATE)
        with forked(publish_paced, broker.address, count) as publisher, _open(broker.address, PACED) as consumer:
            publisher.take(LIMIT_S)
            cpu = broker.cpu_seconds()
            publisher.start()
            latencies = _receive(consumer, count)
            cpu = broker.cpu_seconds() - cpu
            (rate,) = publisher.take(LIMIT_S)
        owner.delete_queue(PACED)
    sample = _summary(latencies, cpu)
    return Sample(sample.value, {**sample.details, "rate": rate})


def publish_paced(parent: Parent, address: Address, count: int) -> None:
    with _open(address) as client:
        message, stamp_at = _stamped(PACED)
        parent.ready()
        parent.await_start()
        began = time.perf_counter()
        for number in range(count):
            early = began + number / RATE - time.perf_counter()
            if early > 0:
                time.sleep(early)
            # The time of sending, not the planned one: a late wake-up does not count against the broker.
            _STAMP.pack_into(message, stamp_at, time.perf_counter_ns())
            client.send(message)
        parent.give(count / (time.perf_counter() - began))


def _receive(consumer: Client, count: int) -> list[int]:
    latencies: list[int] = []
    shape, raw = consumer.read_delivery()
    latencies.append(time.perf_counter_ns() - _STAMP.unpack_from(raw, shape.body_offset)[0])
    view, filled = memoryview(bytearray(64 * 1024)), 0
    while len(latencies) < count:
        got = consumer.sock.recv_into(view[filled:])
        now = time.perf_counter_ns()
        if not got:
            raise Refused("the broker closed the socket")
        filled += got
        whole = filled // shape.size * shape.size
        stamps = range(shape.body_offset, whole, shape.size)
        latencies += [now - _STAMP.unpack_from(view, at)[0] for at in stamps]
        view[: filled - whole] = view[whole:filled]
        filled -= whole
    return latencies


SCENARIOS = (
    Scenario(
        "round-trip",
        "request/reply, 1 in flight, p50 / p99",
        Unit.LATENCY,
        round_trip,
        bar=0.5,
        messages=Messages.BODIES,
    ),
    Scenario(
        "paced", "publish → deliver at 2,000 msg/s, p50 / p99", Unit.LATENCY, paced, bar=0.5, messages=Messages.BODIES
    ),
)
