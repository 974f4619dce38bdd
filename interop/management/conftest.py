"""Both brokers' doors: a RabbitMQ with its management plugin, and ours, each a process of its own.

With INTEROP_MANAGEMENT=host:port beside INTEROP_BROKER the tools talk to that broker instead of ours.
"""

import os
from collections.abc import Iterator

import pytest

from interop.conftest import FOREIGN as FOREIGN_AMQP
from interop.management import rabbitmq
from interop.management.doors import Doors
from interop.rabbitmq import require
from tests.support.broker_process import running

FOREIGN = os.environ.get("INTEROP_MANAGEMENT", "")


@pytest.fixture(scope="module")
def theirs() -> Iterator[Doors]:
    """A real RabbitMQ."""
    require()
    with rabbitmq.running() as doors:
        yield doors
        doors.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[Doors]:
    """A broker from this tree, one per file: what tests declare on it does not meet."""
    with running() as broker:
        doors = Doors("127.0.0.1", broker.port, broker.management_port)
        yield doors
        doors.close()


@pytest.fixture(scope="module")
def doors(request: pytest.FixtureRequest) -> Doors:
    """For tools: ours, unless told otherwise."""
    if FOREIGN and FOREIGN_AMQP:
        host, port = FOREIGN.rsplit(":", 1)
        return Doors(host, int(FOREIGN_AMQP.rsplit(":", 1)[1]), int(port))
    ours: Doors = request.getfixturevalue("ours")
    return ours
