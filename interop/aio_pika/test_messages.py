"""Publishing and consuming with aio-pika: what its documentation's tutorials do, and the corners they touch."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import (
    AMQPError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
    QueueEmpty,
)
from aio_pika.pool import Pool
from pamqp.commands import Basic

from interop.conftest import Address

PATIENCE_S = 20.0


async def test_a_message_comes_out_as_it_went_in(default: AbstractExchange, queue: AbstractQueue) -> None:
    sent = Message(
        bytes(range(256)) * 2000,
        headers={"text": "Grüße", "number": 2**40, "flag": True, "list": [1, "two"], "table": {"a": {"b": None}}},
        content_type="application/octet-stream",
        content_encoding="none",
        delivery_mode=DeliveryMode.PERSISTENT,
        priority=3,
        correlation_id="correlation",
        reply_to="reply",
        expiration=60,
        message_id="message",
        timestamp=datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC),
        type="kind",
        user_id="guest",
        app_id="app",
    )
    await default.publish(sent, queue.name)
    got = await queue.get(no_ack=True)
    assert got.body == sent.body
    assert got.properties == sent.properties
    assert got.headers == sent.headers
    assert (got.exchange, got.routing_key, got.redelivered) == ("", queue.name, False)


async def test_confirms_hold_many_at_once(default: AbstractExchange, queue: AbstractQueue) -> None:
    await asyncio.gather(*(default.publish(Message(b"%d" % number), queue.name) for number in range(1000)))
    assert (await queue.purge()).message_count == 1000


async def test_unroutable(channel: AbstractChannel, default: AbstractExchange) -> None:
    """aio-pika publishes mandatory unless told otherwise, and hands the returned message over."""
    with pytest.raises(PublishError) as caught:
        await default.publish(Message(b"lost", message_id="1"), "nobody")
    returned = caught.value.message
    assert returned is not None
    assert isinstance(returned.delivery, Basic.Return)
    assert (returned.delivery.reply_code, returned.delivery.reply_text) == (312, "NO_ROUTE")
    assert (returned.body, returned.header.properties.message_id) == (b"lost", "1")
    assert await default.publish(Message(b"lost"), "nobody", mandatory=False) is not None
    assert not channel.is_closed


async def test_a_full_queue_refuses(channel: AbstractChannel, default: AbstractExchange) -> None:
    queue = await channel.declare_queue(exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    answers = await asyncio.gather(
        *(default.publish(Message(b"x"), queue.name) for _ in range(10)), return_exceptions=True
    )
    assert sum(isinstance(answer, DeliveryError) for answer in answers) == 9


async def test_work_queue(connection: AbstractConnection, default: AbstractExchange, queue: AbstractQueue) -> None:
    """Two workers with a prefetch of one: the slow one holds up nobody but itself."""
    done: list[str] = []
    is_all = asyncio.Event()
    release = asyncio.Event()

    async def work(name: str) -> None:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)
        mine = await channel.get_queue(queue.name)

        async def on_message(message: AbstractIncomingMessage) -> None:
            async with message.process():
                if name == "slow":
                    await release.wait()
                done.append(name)
                if len(done) == 9:
                    release.set()
                if len(done) == 10:
                    is_all.set()

        await mine.consume(on_message)

    await work("slow")
    await work("fast")
    for number in range(10):
        await default.publish(Message(b"%d" % number, delivery_mode=DeliveryMode.PERSISTENT), queue.name)
    await asyncio.wait_for(is_all.wait(), PATIENCE_S)
    assert done == ["fast"] * 9 + ["slow"]


async def test_publish_and_subscribe(channel: AbstractChannel, unique: Callable[[str], str]) -> None:
    logs = await channel.declare_exchange(unique("logs"), ExchangeType.FANOUT, auto_delete=True)
    queues = [await channel.declare_queue(exclusive=True) for _ in range(3)]
    for queue in queues:
        await queue.bind(logs)
    await logs.publish(Message(b"to all"), "")
    assert [(await queue.get(no_ack=True)).body for queue in queues] == [b"to all"] * 3


async def test_topics(channel: AbstractChannel, unique: Callable[[str], str]) -> None:
    topics = await channel.declare_exchange(unique("topics"), ExchangeType.TOPIC, auto_delete=True)
    queue = await channel.declare_queue(exclusive=True)
    for key in ("kern.*", "*.critical", "#.deep.#"):
        await queue.bind(topics, key)
    keys = ["kern.info", "kern.critical", "mail.critical", "mail.info", "deep", "very.deep.down", "kern.a.b"]
    for key in keys:
        await topics.publish(Message(key.encode()), key, mandatory=False)
    got = []
    with pytest.raises(QueueEmpty):
        while True:
            got.append((await queue.get(no_ack=True)).body.decode())
    assert got == ["kern.info", "kern.critical", "mail.critical", "deep", "very.deep.down"]


async def test_headers_exchange(channel: AbstractChannel, unique: Callable[[str], str]) -> None:
    exchange = await channel.declare_exchange(unique("headers"), ExchangeType.HEADERS, auto_delete=True)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange, arguments={"x-match": "any", "format": "pdf", "pages": 3})
    await exchange.publish(Message(b"1", headers={"format": "pdf"}), "")
    await exchange.publish(Message(b"2", headers={"format": "png", "pages": 3}), "")
    with pytest.raises(PublishError):
        await exchange.publish(Message(b"3", headers={"format": "png"}), "")
    assert [(await queue.get(no_ack=True)).body for _ in range(2)] == [b"1", b"2"]


async def test_exchange_to_exchange(channel: AbstractChannel, unique: Callable[[str], str]) -> None:
    source = await channel.declare_exchange(unique("source"), ExchangeType.DIRECT)
    target = await channel.declare_exchange(unique("target"), ExchangeType.FANOUT, auto_delete=True, internal=True)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(target)
    await target.bind(source, "key")
    await source.publish(Message(b"x"), "key")
    assert (await queue.get(no_ack=True)).body == b"x"
    await target.unbind(source, "key")
    with pytest.raises(PublishError):
        await source.publish(Message(b"x"), "key")
    await source.delete(if_unused=True)


async def test_transactions(connection: AbstractConnection) -> None:
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue(exclusive=True)
    default = channel.default_exchange
    async with channel.transaction():
        await default.publish(Message(b"committed"), queue.name)
    with pytest.raises(RuntimeError, match="roll it back"):
        async with channel.transaction():
            await default.publish(Message(b"rolled back"), queue.name)
            raise RuntimeError("roll it back")
    transaction = channel.transaction()
    await transaction.select()
    await default.publish(Message(b"by hand"), queue.name)
    await transaction.commit()
    assert [(await queue.get(no_ack=True)).body for _ in range(2)] == [b"committed", b"by hand"]
    assert await queue.get(fail=False) is None


async def test_the_queue_iterator(default: AbstractExchange, queue: AbstractQueue) -> None:
    for number in range(10):
        await default.publish(Message(b"%d" % number), queue.name)
    bodies = []
    async with queue.iterator() as messages:
        async for message in messages:
            async with message.process():
                bodies.append(message.body)
            if len(bodies) == 10:
                break
    assert bodies == [b"%d" % number for number in range(10)]


async def test_rejected_and_dead_lettered(channel: AbstractChannel, default: AbstractExchange) -> None:
    morgue = await channel.declare_queue(exclusive=True)
    queue = await channel.declare_queue(
        exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": morgue.name}
    )
    await default.publish(Message(b"bad"), queue.name)
    message = await queue.get()
    with pytest.raises(ValueError, match="cannot"):
        async with message.process():
            raise ValueError("cannot")
    async with morgue.iterator(no_ack=True, timeout=PATIENCE_S) as messages:
        dead = await anext(messages)
    deaths = dead.headers["x-death"]
    assert isinstance(deaths, list)
    assert isinstance(deaths[0], dict)
    assert (deaths[0]["reason"], deaths[0]["queue"], deaths[0]["count"]) == ("rejected", queue.name, 1)


async def test_requeued_is_marked(default: AbstractExchange, queue: AbstractQueue) -> None:
    await default.publish(Message(b"again"), queue.name)
    await (await queue.get()).nack(requeue=True)
    message = await queue.get()
    assert message.redelivered
    await message.reject(requeue=True)
    message = await queue.get()
    await message.ack()
    assert await queue.get(fail=False) is None


async def test_ttl_and_purge(channel: AbstractChannel, default: AbstractExchange, queue: AbstractQueue) -> None:
    for _ in range(3):
        await default.publish(Message(b"x"), queue.name)
    assert (await queue.purge()).message_count == 3
    await default.publish(Message(b"x", expiration=0.01), queue.name)
    await asyncio.sleep(0.1)
    assert await queue.get(fail=False) is None
    await queue.delete()


async def test_consumer_cancelled_by_the_broker(
    connection: AbstractConnection, channel: AbstractChannel, unique: Callable[[str], str]
) -> None:
    """The queue is deleted on another channel: the one that consumes is told."""
    queue = await channel.declare_queue(unique("q"))
    cancelled: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    underlay = await channel.get_underlay_channel()
    underlay.on_consumer_cancel_callbacks.add(lambda frame: cancelled.set_result(frame.consumer_tag))

    async def ignore(_: AbstractIncomingMessage) -> None:
        pass

    tag = await queue.consume(ignore)
    other = await connection.channel()
    await other.queue_delete(queue.name)
    assert await asyncio.wait_for(cancelled, PATIENCE_S) == tag


async def test_errors_have_their_classes(connection: AbstractConnection, unique: Callable[[str], str]) -> None:
    channel = await connection.channel()
    with pytest.raises(ChannelNotFoundEntity, match="NOT_FOUND - no queue 'not there' in vhost '/'"):
        await channel.declare_queue("not there", passive=True)
    channel = await connection.channel()
    queue = await channel.declare_queue(unique("q"), exclusive=True)
    with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'x-max-length'"):
        await channel.declare_queue(queue.name, exclusive=True, arguments={"x-max-length": 1})
    assert not connection.is_closed


async def test_refused(address: Address) -> None:
    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED"):
        await aio_pika.connect(host=address.host, port=address.port, login="guest", password="wrong")
    with pytest.raises(AMQPError):
        await aio_pika.connect(address.url("nowhere"))


async def test_update_secret(connection: AbstractConnection) -> None:
    await connection.update_secret("guest", reason="token refreshed")
    assert not (await connection.channel()).is_closed


async def test_channels_and_connections_from_a_pool(address: Address) -> None:
    async def connect() -> aio_pika.abc.AbstractRobustConnection:
        return await aio_pika.connect_robust(address.url())

    async def open_channel() -> AbstractChannel:
        async with connections.acquire() as connection:
            return await connection.channel()

    connections: Pool[aio_pika.abc.AbstractRobustConnection] = Pool(connect, max_size=2)
    channels: Pool[AbstractChannel] = Pool(open_channel, max_size=10)
    async with connections, channels:

        async def declare_and_use() -> bytes:
            async with channels.acquire() as channel:
                queue = await channel.declare_queue(auto_delete=True)
                await channel.default_exchange.publish(Message(queue.name.encode()), queue.name)
                got = await queue.get(no_ack=True, timeout=5)
                await queue.delete()
                return got.body

        bodies = await asyncio.gather(*(declare_and_use() for _ in range(30)))
        assert len(set(bodies)) == 30
