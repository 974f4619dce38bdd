"""Many things at once, by aio-pika: what only shows when nothing waits for anything else.

Everything else that aio-pika does is in interop/.
"""

import asyncio
import random
from collections.abc import AsyncIterator

import aio_pika
import pytest
from aio_pika import Message
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage, AbstractQueue

from tests.support.broker_process import BrokerProcess

PATIENCE_S = 20.0


def url(broker: BrokerProcess) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.port}/"


@pytest.fixture
async def connection(broker: BrokerProcess) -> AsyncIterator[AbstractConnection]:
    async with await aio_pika.connect(url(broker)) as connection:
        yield connection


async def test_connections_all_at_once(broker: BrokerProcess) -> None:
    connections = await asyncio.gather(*(aio_pika.connect(url(broker)) for _ in range(50)))
    channels = await asyncio.gather(*(connection.channel() for connection in connections))
    queues = await asyncio.gather(*(channel.declare_queue(exclusive=True) for channel in channels))
    assert len({queue.name for queue in queues}) == 50
    await asyncio.gather(*(connection.close() for connection in connections))


async def test_channels_all_at_once(connection: AbstractConnection) -> None:
    """On each of them messages of several frames go out and come back, all interleaved."""
    dice = random.Random(1)

    async def talk() -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        for _ in range(5):
            body = dice.randbytes(dice.choice((0, 10, 131_064, 131_065, 400_000)))
            await channel.default_exchange.publish(Message(body), queue.name)
            assert (await queue.get(no_ack=True)).body == body
        await channel.close()

    await asyncio.wait_for(asyncio.gather(*(talk() for _ in range(40))), 2 * PATIENCE_S)


async def test_publishers_and_consumers_all_at_once(broker: BrokerProcess) -> None:
    """Ten of each over as many connections; each message is taken by exactly one."""
    seen: list[bytes] = []
    is_done = asyncio.Event()

    async def on_message(message: AbstractIncomingMessage) -> None:
        async with message.process():
            seen.append(message.body)
            if len(seen) == 2000:
                is_done.set()

    async def consume(connection: AbstractConnection) -> AbstractQueue:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=20)
        queue = await channel.declare_queue("shared", auto_delete=True)
        await queue.consume(on_message)
        return queue

    async def publish(connection: AbstractConnection, number: int) -> None:
        channel = await connection.channel()
        send = channel.default_exchange.publish
        await asyncio.gather(*(send(Message(b"%d/%d" % (number, each)), "shared") for each in range(200)))

    connections = await asyncio.gather(*(aio_pika.connect(url(broker)) for _ in range(10)))
    await asyncio.gather(*(consume(connection) for connection in connections))
    await asyncio.gather(*(publish(connection, number) for number, connection in enumerate(connections)))
    await asyncio.wait_for(is_done.wait(), PATIENCE_S)
    assert sorted(seen) == sorted(b"%d/%d" % (number, each) for number in range(10) for each in range(200))
    await asyncio.gather(*(connection.close() for connection in connections))


async def test_topology_made_and_unmade_all_at_once(connection: AbstractConnection) -> None:
    """Bindings come and go while messages pass: each message goes where its binding stood when it was published."""

    async def churn(number: int) -> None:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(f"churn-{number % 3}", "topic", auto_delete=False)
        queue = await channel.declare_queue(exclusive=True)
        for round_ in range(5):
            key = f"k.{number}.{round_}"
            await queue.bind(exchange, key)
            await exchange.publish(Message(key.encode()), key)
            await queue.unbind(exchange, key)
            await exchange.publish(Message(b"too late"), key)
            assert (await queue.get(no_ack=True)).body == key.encode()
            assert await queue.get(fail=False) is None
        await queue.delete()

    await asyncio.wait_for(asyncio.gather(*(churn(number) for number in range(30))), PATIENCE_S)
    channel = await connection.channel()
    for number in range(3):
        await channel.exchange_delete(f"churn-{number}", if_unused=True)


async def test_cancelled_in_the_middle(connection: AbstractConnection) -> None:
    """Consumers that stop while deliveries are under way: nothing is lost, everything comes back for the next."""
    channel = await connection.channel()
    queue = await channel.declare_queue(exclusive=True)
    for number in range(200):
        await channel.default_exchange.publish(Message(b"%d" % number), queue.name)
    for _ in range(10):
        other = await connection.channel()
        await other.set_qos(prefetch_count=50)
        mine = await other.get_queue(queue.name)
        tag = await mine.consume(_ignore)
        await mine.cancel(tag)
        await other.close()
    bodies = [(await queue.get(no_ack=True)).body for _ in range(200)]
    assert bodies == [b"%d" % number for number in range(200)]


async def _ignore(_: AbstractIncomingMessage) -> None:
    """Neither acks nor fails."""
