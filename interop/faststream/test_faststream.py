"""FastStream's RabbitBroker: subscribers, publishers, acks and RPC as its documentation writes them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aio_pika.exceptions import ChannelPreconditionFailed, PublishError
from faststream import AckPolicy, FastStream, Path
from faststream.exceptions import NackMessage, RejectMessage
from faststream.rabbit import Channel, ExchangeType, RabbitBroker, RabbitExchange, RabbitMessage, RabbitQueue
from pamqp.commands import Basic
from pydantic import BaseModel

from interop.conftest import Address
from interop.patience import PATIENCE_S
from tests.support.broker_process import BrokerProcess

Unique = Callable[[str], str]


class Order(BaseModel):
    number: int
    items: list[str] = []


class Seen:
    """What subscribers were given, to be waited for."""

    def __init__(self) -> None:
        self._values: asyncio.Queue[object] = asyncio.Queue()

    def add(self, value: object) -> None:
        self._values.put_nowait(value)

    async def next(self, count: int = 1) -> list[object]:
        async with asyncio.timeout(PATIENCE_S):
            return [await self._values.get() for _ in range(count)]


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def broker(address: Address) -> RabbitBroker:
    return RabbitBroker(address.url(), logger=None)


def temporary(name: str, **options: Any) -> RabbitQueue:
    return RabbitQueue(name, auto_delete=True, **options)


async def test_a_pipeline_of_handlers(broker: RabbitBroker, seen: Seen, unique: Unique) -> None:
    """A model in, a model out, into the next queue; headers and correlation id travel."""
    orders, packed = unique("orders"), unique("packed")

    @broker.subscriber(temporary(orders))
    @broker.publisher(temporary(packed))
    async def pack(order: Order) -> Order:
        return Order(number=order.number, items=[*order.items, "box"])

    @broker.subscriber(temporary(packed))
    async def ship(order: Order, message: RabbitMessage) -> None:
        seen.add((order, message.correlation_id, message.content_type))

    async with broker:
        await broker.start()
        await broker.publish(Order(number=1, items=["lamp"]), orders, correlation_id="abc", persist=True)
        assert await seen.next() == [(Order(number=1, items=["lamp", "box"]), "abc", "application/json")]


async def test_exchanges(broker: RabbitBroker, seen: Seen, unique: Unique) -> None:
    topics = RabbitExchange(unique("topics"), type=ExchangeType.TOPIC, auto_delete=True)
    headers = RabbitExchange(unique("headers"), type=ExchangeType.HEADERS, auto_delete=True)
    arguments = {"x-match": "any", "format": "pdf", "pages": 3}

    @broker.subscriber(temporary(unique("t"), routing_key="logs.{level}"), topics)
    async def on_log(body: str, level: str = Path()) -> None:
        seen.add((level, body))

    @broker.subscriber(temporary(unique("h"), bind_arguments=arguments), headers)
    async def on_document(body: str) -> None:
        seen.add(body)

    async with broker:
        await broker.start()
        await broker.publish("disk", exchange=topics, routing_key="logs.error")
        await broker.publish("a page", exchange=headers, headers={"format": "png", "pages": 3})
        values = await seen.next(2)
        assert ("error", "disk") in values
        assert "a page" in values


async def test_request_and_reply(broker: RabbitBroker, unique: Unique) -> None:
    """`request` waits on direct reply-to; the handler's return value is the answer."""
    name = unique("double")

    @broker.subscriber(temporary(name))
    async def double(number: int) -> int:
        return number * 2

    async with broker:
        await broker.start()
        answers = await asyncio.gather(*(broker.request(number, name, timeout=PATIENCE_S) for number in range(20)))
        assert [await answer.decode() for answer in answers] == [number * 2 for number in range(20)]


async def test_acks(broker: RabbitBroker, seen: Seen, unique: Unique) -> None:
    """By exception, by hand, and by policy; what is rejected is found among the dead."""
    work, dead = unique("work"), unique("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}

    @broker.subscriber(temporary(work, arguments=arguments), ack_policy=AckPolicy.REJECT_ON_ERROR)
    async def handle(body: str, message: RabbitMessage) -> None:
        if message.raw_message.redelivered:
            seen.add(f"{body} again")
        elif body == "nacked":
            raise NackMessage(requeue=True)
        elif body == "by hand":
            await message.nack(requeue=True)
        elif body == "rejected":
            raise RejectMessage
        else:
            raise ValueError(body)

    @broker.subscriber(temporary(dead))
    async def bury(body: str, message: RabbitMessage) -> None:
        (death,) = message.headers["x-death"]
        seen.add((body, death["reason"], death["queue"]))

    async with broker:
        await broker.start()
        for body in ("nacked", "by hand", "rejected", "broken"):
            await broker.publish(body, work)
        assert set(await seen.next(4)) == {
            "nacked again",
            "by hand again",
            ("rejected", "rejected", work),
            ("broken", "rejected", work),
        }


async def test_workers_with_a_prefetch_of_one(address: Address, seen: Seen, unique: Unique) -> None:
    """Two applications on one queue: the slow one holds up nobody but itself."""
    name = unique("work")
    release = asyncio.Event()
    slow, fast = (RabbitBroker(address.url(), logger=None, default_channel=Channel(prefetch_count=1)) for _ in range(2))

    @slow.subscriber(temporary(name))
    async def work_slowly(number: int) -> None:
        await release.wait()
        seen.add("slow")

    @fast.subscriber(temporary(name))
    async def work(number: int) -> None:
        seen.add("fast")

    async with slow, fast:
        await slow.start()
        await fast.start()
        for number in range(10):
            await fast.publish(number, name)
        assert await seen.next(9) == ["fast"] * 9
        release.set()
        assert await seen.next() == ["slow"]


async def test_one_message_at_a_time(broker: RabbitBroker, unique: Unique) -> None:
    """A subscriber that is asked for one message at a time."""
    name = unique("polled")
    subscriber = broker.subscriber(temporary(name))
    async with broker:
        await broker.start()
        await broker.publish({"polled": True}, name)
        message = await subscriber.get_one(timeout=PATIENCE_S)
        assert message is not None
        assert await message.decode() == {"polled": True}


async def test_errors(address: Address, unique: Unique) -> None:
    broker = RabbitBroker(address.url(), logger=None, default_channel=Channel(on_return_raises=True))
    async with broker:
        await broker.start()
        assert await broker.ping(PATIENCE_S)
        with pytest.raises(PublishError) as caught:
            await broker.publish("lost", "nobody")
        returned = caught.value.message
        assert returned is not None
        assert isinstance(returned.delivery, Basic.Return)
        assert (returned.delivery.reply_code, returned.delivery.reply_text) == (312, "NO_ROUTE")
        assert await broker.publish("lost", "nobody", mandatory=False) is not None
        name = unique("q")
        await broker.declare_queue(temporary(name))
        with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'x-max-length'"):
            await broker.declare_queue(temporary(name, arguments={"x-max-length": 1}))


async def test_the_application_goes_on_after_a_restart(start_broker: Callable[..., BrokerProcess], seen: Seen) -> None:
    process = await asyncio.to_thread(start_broker)
    port = process.port
    broker = RabbitBroker(f"amqp://guest:guest@127.0.0.1:{port}/", logger=None, reconnect_interval=0.05)
    events = RabbitExchange("events", type=ExchangeType.TOPIC)
    is_ready = asyncio.Event()

    @broker.subscriber(temporary("listener", routing_key="event.#"), events)
    async def listen(body: str) -> None:
        seen.add(body)

    app = FastStream(broker, logger=None)
    app.after_startup(is_ready.set)
    running = asyncio.create_task(app.run())
    await asyncio.wait_for(is_ready.wait(), PATIENCE_S)
    await broker.publish("before", exchange=events, routing_key="event.a")
    assert await seen.next() == ["before"]
    process.process.kill()
    await asyncio.to_thread(process.process.wait)
    await asyncio.to_thread(start_broker, "--port", str(port))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await broker.publish("after", exchange=events, routing_key="event.b", timeout=1)
                break
            except Exception:  # not there yet: of several libraries' kinds
                await asyncio.sleep(0.05)
    assert "after" in await seen.next()
    app.exit()
    await asyncio.wait_for(running, PATIENCE_S)
