"""The two brokers: a RabbitMQ and one from this tree, each a process of its own, for all conversations."""

from collections.abc import Iterator

import pytest

from interop import rabbitmq
from interop.conftest import FOREIGN
from interop.parity.talk import Ports
from tests.support.broker_process import running


@pytest.fixture(scope="session")
def ports() -> Iterator[Ports]:
    if FOREIGN:
        pytest.skip("is between two brokers")
    rabbitmq.require()
    with rabbitmq.node() as theirs, running() as ours:
        yield Ports(ours.port, theirs)
