"""How many connections, channels and queues per second can be created and deleted.

One process runs several connections through the same dialogue in step: it sends on each, then reads from each. The
broker always has work, and the generator needs no event loop.
"""

import time
from collections.abc import Callable, Iterator

from benchmarks import client, processes, wire
from benchmarks.brokers import Running
from benchmarks.client import Address, Client
from benchmarks.scenarios.scenario import Sample, Scenario, Unit

LANES = 8
Talk = Callable[[int, Client], Iterator[None]]


def _in_step(talk: Talk, clients: list[Client]) -> None:
    # strict: every dialogue runs to its end, past its last yield
    for _ in zip(*(talk(lane, peer) for lane, peer in enumerate(clients)), strict=True):
        pass


def _measured(broker: Running, seconds: float, once: Callable[[], None]) -> Sample:
    """Call `once`, which creates and deletes LANES objects, again and again."""
    rounds = 0
    own_cpu, broker_cpu = processes.own_cpu_seconds(), broker.cpu_seconds()
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        once()
        rounds += 1
    count = rounds * LANES
    details = {
        "count": count,
        "generator_cpu_us_each": (processes.own_cpu_seconds() - own_cpu) / count * 1e6,
        "broker_cpu_us_each": (broker.cpu_seconds() - broker_cpu) / count * 1e6,
    }
    return Sample(count / elapsed, details)


def connections(broker: Running, seconds: float) -> Sample:
    address: Address = broker.address

    def once() -> None:
        peers = [Client.connect(address) for _ in range(LANES)]
        _in_step(_open_and_close, peers)
        for peer in peers:
            peer.sock.close()

    return _measured(broker, seconds, once)


def _open_and_close(lane: int, peer: Client) -> Iterator[None]:
    yield from peer.shake_hands()
    yield from peer.ask(_OPEN_CHANNEL, wire.CHANNEL_OPEN_OK)
    yield from peer.ask(client.CLOSE, wire.CLOSE_OK)


def _on_open_connections(talk: Talk, *, with_channel: bool) -> Callable[[Running, float], Sample]:
    def run(broker: Running, seconds: float) -> Sample:
        peers = [Client(broker.address) for _ in range(LANES)]
        if with_channel:
            for peer in peers:
                peer.open_channel()
        sample = _measured(broker, seconds, lambda: _in_step(talk, peers))
        for peer in peers:
            peer.close()
        return sample

    return run


def _channel(lane: int, peer: Client) -> Iterator[None]:
    yield from peer.ask(_OPEN_CHANNEL, wire.CHANNEL_OPEN_OK)
    yield from peer.ask(_CLOSE_CHANNEL, wire.CHANNEL_CLOSE_OK)


def _queue(lane: int, peer: Client) -> Iterator[None]:
    yield from peer.ask(_DECLARE[lane], wire.QUEUE_DECLARE_OK)
    yield from peer.ask(_DELETE[lane], wire.QUEUE_DELETE_OK)


_OPEN_CHANNEL, _CLOSE_CHANNEL = wire.open_channel(), wire.close_channel()
_DECLARE = [wire.declare_queue(f"bench.churn{lane}") for lane in range(LANES)]
_DELETE = [wire.delete_queue(f"bench.churn{lane}") for lane in range(LANES)]

SCENARIOS = (
    Scenario("connection-churn", "connection + channel, open and close", Unit.RATE, connections, bar=2),
    Scenario(
        "channel-churn",
        "channel, open and close",
        Unit.RATE,
        _on_open_connections(_channel, with_channel=False),
        bar=2,
    ),
    Scenario(
        "queue-churn", "queue, declare and delete", Unit.RATE, _on_open_connections(_queue, with_channel=True), bar=2
    ),
)
