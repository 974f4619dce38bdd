"""The Spark package without a JVM: its client and its readers and writers, against one broker that keeps its data."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from rabbitlike.spark.address import Address
from rabbitlike.spark.wire import Connection
from tests.support.broker_process import BrokerProcess, running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running("--no-memory", "--data-dir", str(tmp_path_factory.mktemp("data"))) as process:
        yield process


@pytest.fixture
def address(broker: BrokerProcess) -> Address:
    return Address(port=broker.port)


@pytest.fixture
def client(address: Address) -> Iterator[Connection]:
    with Connection(address) as connection:
        yield connection


@pytest.fixture
def queue(client: Connection) -> str:
    name = f"q-{uuid4().hex[:12]}"
    client.declare_queue(name)
    return name
