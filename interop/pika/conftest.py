"""Blocking connections for the tests here, closed after each."""

from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from interop.conftest import Address

Connect = Callable[..., BlockingConnection]


@pytest.fixture
def connect(address: Address) -> Iterator[Connect]:
    """Opens a connection with these parameters; the broker is the shared one unless `port` says otherwise."""
    opened: list[BlockingConnection] = []

    def connect(**parameters: object) -> BlockingConnection:
        where = {"host": address.host, "port": address.port}
        opened.append(BlockingConnection(pika.ConnectionParameters(**(where | parameters))))
        return opened[-1]

    yield connect
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def connection(connect: Connect) -> BlockingConnection:
    return connect()


@pytest.fixture
def channel(connection: BlockingConnection) -> BlockingChannel:
    return connection.channel()
