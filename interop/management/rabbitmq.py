"""A real RabbitMQ with its management plugin, in a process of its own, to compare with."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from benchmarks.brokers import Launch, Running, free_ports, port_mapper, rabbitmq_environment, rabbitmq_script
from benchmarks.client import Address as AmqpAddress
from interop.management.doors import Doors
from interop.patience import eventually

PLUGINS: Final = ("rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_consistent_hash_exchange")
STATISTICS_MS: Final = 1000  # how often its statistics are made anew; 5000 unless told
START_TIMEOUT_S: Final = 60.0


def is_installed() -> bool:
    return rabbitmq_script() is not None


@contextmanager
def running(*plugins: str) -> Iterator[Doors]:
    """A node for the length of a `with`, with these plugins besides its management."""
    script = rabbitmq_script()
    assert script is not None
    with tempfile.TemporaryDirectory(prefix="parity-rabbitmq-") as name:
        folder = Path(name)
        port, dist_port, epmd_port, http_port, metrics_port = free_ports(5)
        environment = rabbitmq_environment(folder, port, dist_port, epmd_port, (*PLUGINS, *plugins))
        options = {
            "management.tcp.ip": "127.0.0.1",
            "management.tcp.port": http_port,
            "prometheus.tcp.ip": "127.0.0.1",
            "prometheus.tcp.port": metrics_port,
            "collect_statistics_interval": STATISTICS_MS,
        }
        with (folder / "rabbitmq.conf").open("a") as conf:
            conf.writelines(f"{option} = {value}\n" for option, value in options.items())
        doors = Doors("127.0.0.1", port, http_port, metrics_port)
        with port_mapper(environment):
            launch = Launch([script], environment, folder, AmqpAddress("127.0.0.1", port))
            broker = Running("rabbitmq", launch, folder / "output.log")
            try:
                broker.start()
                eventually(lambda: _answers(doors), "the management plugin answers", within_s=START_TIMEOUT_S)
                yield doors
            finally:
                broker.stop()


def _answers(doors: Doors) -> bool:
    try:
        return doors.ask("/overview").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
