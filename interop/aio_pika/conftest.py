"""aio-pika connections for the tests here, closed after each."""

from collections.abc import AsyncIterator

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractQueue

from interop.conftest import Address


@pytest.fixture
async def connection(address: Address) -> AsyncIterator[AbstractConnection]:
    async with await aio_pika.connect(address.url()) as connection:
        yield connection


@pytest.fixture
async def channel(connection: AbstractConnection) -> AbstractChannel:
    """In confirm mode, as aio-pika's channels are; what is returned raises."""
    return await connection.channel(on_return_raises=True)


@pytest.fixture
async def queue(channel: AbstractChannel) -> AbstractQueue:
    return await channel.declare_queue(exclusive=True)


@pytest.fixture
async def default(channel: AbstractChannel) -> AbstractExchange:
    return channel.default_exchange
