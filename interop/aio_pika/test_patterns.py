"""aio-pika's ready-made patterns: RPC and master/worker, and request/reply built by hand on direct reply-to."""

import asyncio
from collections.abc import Callable

import pytest
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import MessageProcessError
from aio_pika.patterns import RPC, Master

PATIENCE_S = 20.0


async def test_rpc(connection: AbstractConnection, unique: Callable[[str], str]) -> None:
    method = unique("multiply")
    server = await RPC.create(await connection.channel())
    client = await RPC.create(await connection.channel())

    async def multiply(*, x: int, y: int) -> int:
        return x * y

    await server.register(method, multiply, auto_delete=True)
    calls = (client.call(method, {"x": number, "y": 2}) for number in range(50))
    assert await asyncio.gather(*calls) == [number * 2 for number in range(50)]
    await server.close()
    await client.close()


async def test_rpc_errors_travel(connection: AbstractConnection, unique: Callable[[str], str]) -> None:
    method = unique("fail")
    rpc = await RPC.create(await connection.channel())

    async def fail() -> None:
        raise ValueError("on the other side")

    await rpc.register(method, fail, auto_delete=True)
    with pytest.raises(ValueError, match="on the other side"):
        await rpc.call(method)
    await rpc.close()


async def test_rpc_to_nobody(connection: AbstractConnection, unique: Callable[[str], str]) -> None:
    """The request is mandatory: it comes back, and the caller hears so instead of waiting."""
    rpc = await RPC.create(await connection.channel())
    with pytest.raises(MessageProcessError):
        await asyncio.wait_for(rpc.call(unique("nobody")), PATIENCE_S)
    await rpc.close()


async def test_master_and_workers(connection: AbstractConnection, unique: Callable[[str], str]) -> None:
    task = unique("task")
    seen: list[int] = []
    is_done = asyncio.Event()

    async def work(*, number: int) -> None:
        seen.append(number)
        if len(seen) == 20:
            is_done.set()

    channel = await connection.channel()
    await channel.set_qos(prefetch_count=3)
    workers = [await Master(channel).create_worker(task, work, auto_delete=True) for _ in range(2)]
    master = Master(await connection.channel())
    for number in range(20):
        await master.create_task(task, {"number": number})
    await asyncio.wait_for(is_done.wait(), PATIENCE_S)
    assert sorted(seen) == list(range(20))
    for worker in workers:
        await worker.close()


async def test_direct_reply_to(connection: AbstractConnection, unique: Callable[[str], str]) -> None:
    server: AbstractChannel = await connection.channel()
    requests = await server.declare_queue(unique("requests"), exclusive=True)

    async def serve(message: AbstractIncomingMessage) -> None:
        async with message.process():
            assert message.reply_to is not None
            reply = Message(message.body.upper(), correlation_id=message.correlation_id)
            await server.default_exchange.publish(reply, message.reply_to)

    await requests.consume(serve)
    client = await connection.channel()
    replies = await client.get_queue("amq.rabbitmq.reply-to", ensure=False)
    answers: dict[str | None, asyncio.Future[bytes]] = {}

    async def on_reply(message: AbstractIncomingMessage) -> None:
        answers[message.correlation_id].set_result(message.body)

    await replies.consume(on_reply, no_ack=True)
    for number in range(10):
        answers[str(number)] = asyncio.get_running_loop().create_future()
        ask = Message(b"question %d" % number, correlation_id=str(number), reply_to="amq.rabbitmq.reply-to")
        await client.default_exchange.publish(ask, requests.name)
    got = await asyncio.wait_for(asyncio.gather(*answers.values()), PATIENCE_S)
    assert got == [b"QUESTION %d" % number for number in range(10)]
