"""A real RabbitMQ in a process of its own, to compare with and to talk to: on ports, and with data, of its own."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.brokers import Launch, Running, free_ports, port_mapper, rabbitmq_environment, rabbitmq_script
from benchmarks.client import Address
from tests.support.left_out import NEEDS


def require() -> None:
    """Skips the test where RabbitMQ is not installed; in CI that is a failure."""
    if rabbitmq_script() is None:
        pytest.skip(f"{NEEDS}RabbitMQ (Debian's rabbitmq-server)")


@contextmanager
def node(*plugins: str, options: Mapping[str, object] | None = None) -> Iterator[int]:
    """A node for the length of a `with`, with these plugins and lines of rabbitmq.conf; its AMQP port."""
    script = rabbitmq_script()
    assert script is not None
    with tempfile.TemporaryDirectory(prefix="parity-rabbitmq-") as name:
        folder = Path(name)
        port, dist_port, epmd_port = free_ports(3)
        environment = rabbitmq_environment(folder, port, dist_port, epmd_port, plugins)
        with (folder / "rabbitmq.conf").open("a") as conf:
            conf.writelines(f"{option} = {value}\n" for option, value in (options or {}).items())
        with port_mapper(environment):
            launch = Launch([script], environment, folder, Address("127.0.0.1", port))
            broker = Running("rabbitmq", launch, folder / "output.log")
            try:
                broker.start()
                yield port
            finally:
                broker.stop()
