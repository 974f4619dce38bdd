"""Publishers that never wait, to one queue with consumers: messages per second that come out.

Each sample uses a newly started broker with a data folder, because a backlog is paged to disk and its memory is part of
the figure.
"""

from collections.abc import Callable

from benchmarks import openloop
from benchmarks.brokers import Place, Running
from benchmarks.client import Client
from benchmarks.messages import Encode, own_bodies, own_properties, own_sizes
from benchmarks.scenarios.scenario import Messages, Sample, Scenario, Unit
from benchmarks.scenarios.throughput import Topology

QUEUE = "bench.open"
PREFETCH, ACK_EVERY = 2000, 100


def taker(
    encode: Encode, *, lanes: int = 1, prefetch: int = 0, ack_every: int = 0, durable: bool = False
) -> Callable[[Running, float], Sample]:
    """Load one queue with `lanes` publishers and as many consumers."""

    def run(broker: Running, seconds: float) -> Sample:
        publishers = [encode(QUEUE, publisher) for publisher in range(lanes)]
        load = openloop.Load(QUEUE, publishers, lanes, prefetch, ack_every)
        topology = Topology([QUEUE], durable=durable)
        with Client(broker.address) as client:
            client.open_channel()
            topology.declare(client)
            return _sample(openloop.run(broker, load, seconds))

    return run


def _sample(seen: openloop.Seen) -> Sample:
    delivered = max(1, seen.delivered)
    return Sample(
        seen.delivered / seen.seconds,
        {
            "delivered": seen.delivered,
            "seconds": seen.seconds,
            "slowest_slice_rate": seen.slowest_slice,
            "backlog": seen.backlog,
            "rss_bytes": seen.rss_bytes,
            "broker_cpu_us_per_delivery": seen.broker_cpu_s / delivered * 1e6,
            "generator_cpu_us_per_delivery": (seen.publisher_cpu_s + seen.consumer_cpu_s) / delivered * 1e6,
            "publisher_cpu_s": seen.publisher_cpu_s,
            "consumer_cpu_s": seen.consumer_cpu_s,
            "broker_cpu_s": seen.broker_cpu_s,
            "total_published": seen.total_published,
            "total_delivered": seen.total_delivered,
            "undelivered": seen.undelivered,
            "ids_checked": seen.ids_checked,
            "ids_seen": seen.ids_seen,
        },
    )


def _scenario(
    name: str,
    title: str,
    messages: Messages,
    run: Callable[[Running, float], Sample],
    bar: float | None = None,
) -> Scenario:
    return Scenario(
        name,
        title,
        Unit.RATE,
        run,
        bar=bar,
        is_fresh=True,
        place=Place.DISK,
        messages=messages,
        is_for_sink=messages is not Messages.SIZES,
    )


SCENARIOS = (
    _scenario(
        "open-manual-ack",
        "open loop, 1 KB, prefetch 2000, acks of 100",
        Messages.BODIES,
        taker(own_bodies(1024), prefetch=PREFETCH, ack_every=ACK_EVERY),
        bar=24,
    ),
    _scenario(
        "open-headers",
        "the same with own ids and five headers",
        Messages.PROPERTIES,
        taker(own_properties(1024), prefetch=PREFETCH, ack_every=ACK_EVERY),
        bar=20,
    ),
    _scenario(
        "open-4x4",
        "open loop, 1 KB, 4×4 on one queue, acks of 100",
        Messages.BODIES,
        taker(own_bodies(1024), lanes=4, prefetch=PREFETCH, ack_every=ACK_EVERY),
        bar=25,
    ),
    _scenario(
        "open-realistic",
        "4×4, own ids and headers, 64 B to 16 KB",
        Messages.SIZES,
        taker(own_sizes(), lanes=4, prefetch=PREFETCH, ack_every=ACK_EVERY),
    ),
    _scenario("open-auto-ack", "open loop, 1 KB, auto-ack", Messages.BODIES, taker(own_bodies(1024))),
    _scenario(
        "open-sizes",
        "1×1, own ids and headers, 64 B to 16 KB",
        Messages.SIZES,
        taker(own_sizes(), prefetch=PREFETCH, ack_every=ACK_EVERY),
    ),
    _scenario(
        "open-persistent",
        "open loop, 1 KB persistent, no confirms",
        Messages.BODIES,
        taker(own_bodies(1024, persistent=True), prefetch=PREFETCH, ack_every=ACK_EVERY, durable=True),
    ),
)
