"""Throughput of queue features that RabbitMQ lacks; compare with the scenario without the feature in the same run.

No message fails and none is a duplicate: the scenarios measure the cost of a queue that could handle it.
"""

from collections.abc import Callable, Mapping

from benchmarks import flow, wire
from benchmarks.brokers import Place, Running
from benchmarks.messages import own_properties
from benchmarks.scenarios import durable, unpaced
from benchmarks.scenarios.scenario import Messages, Sample, Scenario, Unit
from benchmarks.scenarios.throughput import Topology, message, queues_named, straight, taker

#: The cycle has more keys than the queue remembers, so each key is new when it comes again.
KEYS, REMEMBERED = 4000, 1000
LEVELS = 3


def _one_queue(
    cycle: Callable[[str], list[bytes]], arguments: Mapping[str, wire.Value], *, prefetch: int = 0, ack_every: int = 0
) -> Callable[[Running, float], Sample]:
    (queue,) = queues = queues_named(1)
    load = flow.Load([cycle(queue)], queues, prefetch=prefetch, ack_every=ack_every)
    return taker(Topology(queues, arguments=arguments), load)


def _levels(queue: str) -> list[bytes]:
    return [wire.publish("", queue, bytes(1024), props=wire.properties(priority=level)) for level in range(LEVELS)]


def _keys(queue: str) -> list[bytes]:
    return [message("", queue, 100, {"x-deduplication-header": f"key-{number:06}"}) for number in range(KEYS)]


def _traced(
    name: str,
    load: str,
    run: Callable[[Running, float], Sample],
    *,
    messages: Messages = Messages.ONE,
    is_fresh: bool = False,
) -> Scenario:
    """Return a load with the event log, compared with the same load without it, both on disk."""
    title = f"{load} with every step in the event log"
    return Scenario(
        name,
        title,
        Unit.RATE,
        run,
        bar=0.75,
        place=Place.TRACED,
        is_ours=True,
        against=Place.DISK,
        messages=messages,
        is_fresh=is_fresh,
    )


SCENARIOS = (
    Scenario(
        "retries",
        "manual-ack on a queue with retries",
        Unit.RATE,
        _one_queue(lambda queue: [message("", queue, 1024)], {"x-retry-initial": 1000}, prefetch=2000, ack_every=100),
        is_ours=True,
        messages=Messages.ONE,
    ),
    Scenario(
        "weighted",
        "1 KB, auto-ack, fair shares of 3 priorities",
        Unit.RATE,
        _one_queue(_levels, {"x-priority-mode": "weighted", "x-priority-weights": "4,2,1"}),
        is_ours=True,
        messages=Messages.ONE,
    ),
    Scenario(
        "deduplication",
        "100 B, auto-ack, keys in a header, 1,000 remembered",
        Unit.RATE,
        _one_queue(_keys, {"x-message-deduplication": True, "x-cache-size": REMEMBERED}),
        is_ours=True,
        messages=Messages.KEYS,
    ),
    _traced("event-log", "auto-ack-1kb", straight(1024)),
    _traced("event-log-acks", "manual-ack", straight(1024, prefetch=2000, ack_every=100)),
    _traced("event-log-persistent", "persistent-1kb", durable.consumed(1024)),
    _traced(
        "event-log-open",
        "open-headers",
        unpaced.taker(own_properties(1024), prefetch=unpaced.PREFETCH, ack_every=unpaced.ACK_EVERY),
        messages=Messages.PROPERTIES,
        is_fresh=True,
    ),
)
