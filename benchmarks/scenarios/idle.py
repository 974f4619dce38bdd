"""Memory of idle objects: the growth of the resident size of the broker's process tree."""

import time

from benchmarks import wire
from benchmarks.brokers import Running
from benchmarks.client import Client
from benchmarks.scenarios.scenario import Sample, Scenario, Unit

QUEUES, CONNECTIONS = 10_000, 2_000
DECLARERS, BATCH = 4, 1000
SETTLE_S = 3.0  # lets a broker collect garbage and put idle processes to sleep


def queues(broker: Running, seconds: float) -> Sample:
    clients = [Client(broker.address) for _ in range(DECLARERS)]
    for client in clients:
        client.open_channel()
    before, began = broker.rss_bytes(), time.perf_counter()
    for start in range(0, QUEUES, BATCH):
        shares = [range(start + lane, start + BATCH, DECLARERS) for lane in range(DECLARERS)]
        for client, share in zip(clients, shares, strict=True):
            client.send(b"".join(wire.declare_queue(f"bench.idle.{number:05}") for number in share))
        for client, share in zip(clients, shares, strict=True):
            for _ in share:
                client.expect(wire.QUEUE_DECLARE_OK)
    sample = _sample(broker, before, QUEUES, time.perf_counter() - began)
    for client in clients:
        client.close()
    return sample


def connections(broker: Running, seconds: float) -> Sample:
    before, began = broker.rss_bytes(), time.perf_counter()
    clients = []
    try:
        for _ in range(CONNECTIONS):
            client = Client(broker.address)
            clients.append(client)
            client.open_channel()
        return _sample(broker, before, CONNECTIONS, time.perf_counter() - began)
    finally:
        for client in clients:
            client.sock.close()


def _sample(broker: Running, before: float, count: int, setup_s: float) -> Sample:
    time.sleep(SETTLE_S)
    after = broker.rss_bytes()
    details = {"before": before, "after": after, "bytes_each": (after - before) / count, "setup_s": setup_s}
    return Sample(after - before, details)


SCENARIOS = (
    Scenario("idle-queues", "10,000 idle queues, memory added", Unit.BYTES, queues, bar=0.5, is_fresh=True),
    Scenario(
        "idle-connections",
        "2,000 idle connections with a channel, memory added",
        Unit.BYTES,
        connections,
        bar=0.5,
        is_fresh=True,
    ),
)
