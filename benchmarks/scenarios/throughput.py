"""Messages per second: publish for some seconds, stop the clock at the last delivery."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks import flow, wire
from benchmarks.brokers import Running
from benchmarks.client import Client
from benchmarks.scenarios.scenario import Messages, Sample, Scenario, Unit

EXCHANGE = "bench.x"


@dataclass(frozen=True, slots=True)
class Binding:
    queue: str
    routing_key: str = ""
    arguments: Mapping[str, wire.Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Topology:
    """Queues, and the exchange that feeds them if it is not the default one."""

    queues: Sequence[str]
    kind: str | None = None
    bindings: Sequence[Binding] = ()
    durable: bool = False
    arguments: Mapping[str, wire.Value] = field(default_factory=dict)  # of each queue

    def declare(self, client: Client) -> None:
        self.delete(client)  # left over from a failed run
        for queue in self.queues:
            client.declare_queue(queue, durable=self.durable, arguments=self.arguments)
        if self.kind is not None:
            client.declare_exchange(EXCHANGE, self.kind)
        for binding in self.bindings:
            client.bind(binding.queue, EXCHANGE, binding.routing_key, binding.arguments)

    def delete(self, client: Client) -> None:
        for queue in self.queues:
            client.delete_queue(queue)
        client.delete_exchange(EXCHANGE)


def taker(topology: Topology, load: flow.Load) -> Callable[[Running, float], Sample]:
    def run(broker: Running, seconds: float) -> Sample:
        with Client(broker.address) as client:
            client.open_channel()
            topology.declare(client)
            seen = flow.run(broker, load, seconds)
            topology.delete(client)
        return _sample(seen)

    return run


def _sample(seen: flow.Flow) -> Sample:
    details = {
        "published": seen.published,
        "delivered": seen.delivered,
        "publish_rate": seen.published / seen.publish_s,
        "seconds": seen.deliver_s,
        "broker_cpu_us_per_delivery": seen.broker_cpu_s / seen.delivered * 1e6,
        "generator_cpu_us_per_delivery": (seen.publisher_cpu_s + seen.consumer_cpu_s) / seen.delivered * 1e6,
        "publisher_cpu_s": seen.publisher_cpu_s,
        "consumer_cpu_s": seen.consumer_cpu_s,
        "broker_cpu_s": seen.broker_cpu_s,
    }
    if seen.confirm_s:
        details["confirm_rate"] = seen.published / seen.confirm_s
    return Sample(seen.delivered / seen.deliver_s, details)


def message(
    exchange: str, key: str, size: int, headers: Mapping[str, wire.Value] | None = None, *, persistent: bool = False
) -> bytes:
    return wire.publish(exchange, key, b"x" * size, props=wire.properties(persistent=persistent, headers=headers))


def queues_named(count: int) -> list[str]:
    return [f"bench.q{number}" for number in range(count)]


def straight(
    size: int, *, lanes: int = 1, prefetch: int = 0, ack_every: int = 0, persistent: bool = False, window: int = 0
) -> Callable[[Running, float], Sample]:
    """Publisher i to queue i through the default exchange to consumer i; persistent means durable and confirmed too."""
    queues = queues_named(lanes)
    publishers = [[message("", queue, size, persistent=persistent)] for queue in queues]
    load = flow.Load(publishers, queues, prefetch=prefetch, ack_every=ack_every, confirms=persistent, window=window)
    return taker(Topology(queues, durable=persistent), load)


def _fanout(size: int, copies: int) -> Callable[[Running, float], Sample]:
    queues = queues_named(copies)
    topology = Topology(queues, "fanout", [Binding(queue) for queue in queues])
    return taker(topology, flow.Load([[message(EXCHANGE, "", size)]], queues))


def _topic(size: int, bindings: int) -> Callable[[Running, float], Sample]:
    """Every message matches one of many bindings; keys come in no order, so caching the last one gains nothing."""
    patterns = ("eu.{}.*", "*.{}.price", "eu.{}.#", "eu.{}.price")
    numbers = [f"{number:04}" for number in range(bindings)]
    (queue,) = queues = queues_named(1)
    bound = [Binding(queue, patterns[int(number) % len(patterns)].format(number)) for number in numbers]
    messages = [message(EXCHANGE, f"eu.{number}.price", size) for number in _shuffled(numbers)]
    return taker(Topology(queues, "topic", bound), flow.Load([messages], queues))


def _headers(size: int, bindings: int) -> Callable[[Running, float], Sample]:
    numbers = [f"{number:04}" for number in range(bindings)]
    (queue,) = queues = queues_named(1)
    bound = [Binding(queue, "", {"x-match": "all", "region": "eu", "kind": number}) for number in numbers]
    messages = [
        message(EXCHANGE, "", size, {"region": "eu", "kind": number, "trace": True}) for number in _shuffled(numbers)
    ]
    return taker(Topology(queues, "headers", bound), flow.Load([messages], queues))


def _shuffled(numbers: list[str]) -> list[str]:
    return random.Random(1).sample(numbers, len(numbers))


SCENARIOS = (
    Scenario("auto-ack-16b", "16 B, auto-ack, 1×1", Unit.RATE, straight(16), bar=15, pure_bar=2, messages=Messages.ONE),
    Scenario(
        "auto-ack-1kb", "1 KB, auto-ack, 1×1", Unit.RATE, straight(1024), bar=8, pure_bar=2, messages=Messages.ONE
    ),
    Scenario(
        "manual-ack",
        "1 KB, prefetch 2000, acks of 100",
        Unit.RATE,
        straight(1024, prefetch=2000, ack_every=100),
        bar=8,
        pure_bar=2,
        messages=Messages.ONE,
    ),
    Scenario(
        "single-ack",
        "1 KB, prefetch 100, single acks",
        Unit.RATE,
        straight(1024, prefetch=100, ack_every=1),
        bar=8,
        messages=Messages.ONE,
    ),
    Scenario("fanout", "100 B, fanout to 10 queues", Unit.RATE, _fanout(100, 10), bar=8, messages=Messages.ONE),
    Scenario("topic", "100 B, topic, 1,000 bindings", Unit.RATE, _topic(100, 1000), bar=8, messages=Messages.KEYS),
    Scenario("headers", "100 B, headers, 100 bindings", Unit.RATE, _headers(100, 100), messages=Messages.KEYS),
    Scenario(
        "ten-by-ten", "100 B, auto-ack, 10×10 on 10 queues", Unit.RATE, straight(100, lanes=10), messages=Messages.ONE
    ),
)
