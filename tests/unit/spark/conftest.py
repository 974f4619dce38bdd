"""The Spark package without a JVM: its client and its readers and writers, against one broker that keeps its data."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from rabbitlike.spark.address import Address
from rabbitlike.spark.options import Options
from rabbitlike.spark.reader import QueueReader, stream_reader
from rabbitlike.spark.wire import Connection
from tests.support.broker_process import BrokerProcess, running
from tests.unit.spark.reading import die


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


@pytest.fixture
def made() -> Iterator[Callable[..., QueueReader]]:
    """Readers that are stopped at the end."""
    readers: list[QueueReader] = []

    def make(options: Options) -> QueueReader:
        readers.append(stream_reader(options))
        return readers[-1]

    yield make
    for reader in readers:
        die(reader)
