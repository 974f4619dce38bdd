"""One broker for all tests that only talk to it. Names are made up anew each time, so that tests do not meet.

With INTEROP_BROKER=host:port the suite talks to that broker instead, RabbitMQ say: that is how what it expects is
checked. Tests that stop a broker, or start one with options, are left out then.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import uuid4

import pytest

from tests.conftest import pytest_configure, pytest_runtest_makereport  # the same rules hold here
from tests.support.broker_process import BrokerProcess, running

__all__ = ["pytest_configure", "pytest_runtest_makereport"]

FOREIGN = os.environ.get("INTEROP_BROKER", "")


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    def url(self, vhost: str = "%2F", query: str = "") -> str:
        return f"amqp://guest:guest@{self.host}:{self.port}/{vhost}{'?' if query else ''}{query}"


@pytest.fixture(scope="session")
def address() -> Iterator[Address]:
    """Where the broker listens that the tests share."""
    if FOREIGN:
        host, port = FOREIGN.rsplit(":", 1)
        yield Address(host, int(port))
    else:
        with running() as broker:
            yield Address("127.0.0.1", broker.port)


@pytest.fixture
def start_broker() -> Iterator[Callable[..., BrokerProcess]]:
    """Starts a broker with these flags, for tests that want one of their own."""
    if FOREIGN:
        pytest.skip("stops brokers, or gives them options")
    started: list[BrokerProcess] = []

    def start(*flags: str) -> BrokerProcess:
        started.append(BrokerProcess(*flags))
        return started[-1]

    yield start
    for broker in started:
        try:
            if broker.process.poll() is None:
                assert broker.stop() == 0, broker.log()
            assert "Traceback" not in broker.log(), broker.log()
        finally:
            broker.kill()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """A name nobody else has: `unique("orders")` is `orders-3f…`."""
    tail = uuid4().hex[:12]
    return lambda name: f"{name}-{tail}"
