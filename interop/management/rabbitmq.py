"""A real RabbitMQ with its management plugin, to compare with."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx

from benchmarks.brokers import free_ports
from interop import rabbitmq
from interop.management.doors import Doors
from interop.patience import eventually

PLUGINS: Final = ("rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_consistent_hash_exchange")
STATISTICS_MS: Final = 1000  # how often its statistics are made anew; 5000 unless told
START_TIMEOUT_S: Final = 60.0


@contextmanager
def running(*plugins: str) -> Iterator[Doors]:
    """A node for the length of a `with`, with these plugins besides its management."""
    http_port, metrics_port = free_ports(2)
    options = {
        "management.tcp.ip": "127.0.0.1",
        "management.tcp.port": http_port,
        "prometheus.tcp.ip": "127.0.0.1",
        "prometheus.tcp.port": metrics_port,
        "collect_statistics_interval": STATISTICS_MS,
    }
    with rabbitmq.node(*PLUGINS, *plugins, options=options) as port:
        doors = Doors("127.0.0.1", port, http_port, metrics_port)
        eventually(lambda: _answers(doors), "the management plugin answers", within_s=START_TIMEOUT_S)
        yield doors


def _answers(doors: Doors) -> bool:
    try:
        return doors.ask("/overview").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
