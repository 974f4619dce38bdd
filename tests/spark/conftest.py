"""One Spark session and one broker for all tests here. Names are made up anew each time, so that tests do not meet.

All files of this folder run in one process (tests/conftest.py sees to it): a JVM takes ten seconds and a gigabyte.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from rabbitlike.spark.address import Address
from rabbitlike.spark.java import NoJava, require
from rabbitlike.spark.source import AmqpDataSource
from rabbitlike.spark.wire import Connection, Delivery
from tests.spark.saboteur import SabotagedDataSource
from tests.support.broker_process import ROOT, BrokerProcess, running


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark that tries a task three times."""
    try:
        require()
    except NoJava as error:
        pytest.skip(f"needs Java: {error}")
    folder = tmp_path_factory.mktemp("spark")
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # one huge line for each expected failure
    os.environ.update(
        SPARK_LOCAL_IP="127.0.0.1",
        PYSPARK_PYTHON=sys.executable,
        PYTHONPATH=str(ROOT),
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # A plan is run once over a few rows: making code of it takes ten times as long as running it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master("local[2,3]").appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(AmqpDataSource)
    session.dataSource.register(SabotagedDataSource)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Keeps its data on disk, as one in use would."""
    folder = tmp_path_factory.mktemp("broker")
    with running("--no-memory", "--data-dir", str(folder)) as process:
        yield process


@pytest.fixture(scope="session")
def uri(broker: BrokerProcess) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.port}/"


@pytest.fixture(scope="session")
def broker_client(broker: BrokerProcess) -> Iterator[Connection]:
    """Looks from outside at what Spark did."""
    with Connection(Address(port=broker.port)) as connection:
        yield connection


@pytest.fixture
def client(broker_client: Connection) -> Connection:
    return broker_client


@pytest.fixture
def queue(client: Connection) -> str:
    """A durable queue of the test's own."""
    name = f"q-{uuid4().hex[:12]}"
    client.declare_queue(name)
    return name


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture
def drain(client: Connection) -> Callable[[str], list[Delivery]]:
    """All that is in a queue, taken out of it."""
    return lambda queue: client.get(queue, 1_000_000, no_ack=True)
