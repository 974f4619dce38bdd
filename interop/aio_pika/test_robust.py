"""connect_robust: the broker goes away and comes back, and aio-pika restores what it had."""

import asyncio
import signal
import ssl
from collections.abc import AsyncIterator, Callable

import aio_pika
import pytest
import trustme
from aio_pika import ExchangeType, Message
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustConnection
from aio_pika.exceptions import AMQPError

from tests.support.broker_process import BrokerProcess

StartBroker = Callable[..., BrokerProcess]
PATIENCE_S = 20.0


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerProcess:
    return await asyncio.to_thread(start_broker)


@pytest.fixture
async def connection(broker: BrokerProcess) -> AsyncIterator[AbstractRobustConnection]:
    connection = await aio_pika.connect_robust(f"amqp://guest:guest@127.0.0.1:{broker.port}/", reconnect_interval=0.05)
    yield connection
    await connection.close()


async def publish(connection: AbstractRobustConnection, exchange: str, key: str, body: bytes) -> None:
    """Until it is confirmed, over as many connections as it takes."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                async with connection.channel() as channel:
                    target = await channel.get_exchange(exchange, ensure=False)
                    await target.publish(Message(body), key)
                    return
            except (AMQPError, ConnectionError, RuntimeError):
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_topology_and_consumers_are_restored(
    start_broker: StartBroker, broker: BrokerProcess, connection: AbstractRobustConnection, number: signal.Signals
) -> None:
    bodies: asyncio.Queue[bytes] = asyncio.Queue()

    async def on_message(message: AbstractIncomingMessage) -> None:
        async with message.process():
            await bodies.put(message.body)

    channel = await connection.channel()
    await channel.set_qos(prefetch_count=5)
    exchange = await channel.declare_exchange("events", ExchangeType.TOPIC)
    queue = await channel.declare_queue("listener", auto_delete=True)
    await queue.bind(exchange, "event.#")
    await queue.consume(on_message)
    await publish(connection, "events", "event.before", b"before")
    assert await asyncio.wait_for(bodies.get(), PATIENCE_S) == b"before"

    restored = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: restored.set())
    port = broker.port
    broker.process.send_signal(number)
    await asyncio.to_thread(broker.process.wait, 10)
    await asyncio.sleep(0.1)
    await asyncio.to_thread(start_broker, "--port", str(port))
    await asyncio.wait_for(restored.wait(), PATIENCE_S)
    await publish(connection, "events", "event.after", b"after")
    assert await asyncio.wait_for(bodies.get(), PATIENCE_S) == b"after"
    assert queue.name == "listener"


async def test_over_tls(start_broker: StartBroker, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    broker = await asyncio.to_thread(start_broker, "--tls-port", "0", "--tls-certfile", str(folder / "server.pem"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    url = f"amqps://guest:guest@localhost:{broker.port_of('amqps')}/"
    async with await aio_pika.connect_robust(url, ssl_context=context) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(Message(bytes(400_000)), queue.name)
        assert (await queue.get(no_ack=True)).body == bytes(400_000)
