"""A broker with delayed messages is killed at random moments: none that was confirmed is lost, none comes twice."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

from pamqp import commands

from rabbitlike.storage.check import check
from tests.support.crash_client import Channel, Connection, Delivery, Lost
from tests.support.crash_process import FRAIL, DurableProcess
from tests.support.frames import Typed

LIVES = 12
LONGEST_MS = 1500
#: Ahead of the confirms by so many at most.
WINDOW = 200
PATIENCE_S = 30.0


class Publisher:
    """Publishes numbered messages with random delays until the broker is gone."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.sent = 0
        self.confirmed: set[int] = set()
        self.delays: dict[int, int] = {}

    async def run(self, port: int) -> None:
        try:
            connection = await Connection.open(port)
            channel = await connection.channel()
            await channel.declare("q", durable=True)
            await channel.confirm()
            await self._publish(channel)
        except (Lost, ConnectionError):
            return

    async def _publish(self, channel: Channel) -> None:
        numbers: dict[int, int] = {}
        channel.on_confirm = lambda tag, is_ack: self.confirmed.add(numbers.pop(tag)) if is_ack else None
        while True:
            for _ in range(self.dice.randrange(1, 30)):
                self.sent += 1
                delay_ms = self.dice.choice((1, 5, 20, 100, 500, LONGEST_MS))
                self.delays[self.sent] = delay_ms
                headers = {"x-delay": Typed("l", delay_ms)}
                tag = channel.publish(b"%d" % self.sent, "q", headers=headers, delivery_mode=2)
                numbers[tag] = self.sent
            await asyncio.sleep(0.001)
            while len(numbers) > WINDOW:
                await asyncio.sleep(0.001)
                if channel.connection.is_lost:
                    raise Lost


async def collect(port: int, wanted: set[int]) -> list[int]:
    """All that come, until those that are wanted have come and nothing more does."""
    connection = await Connection.open(port)
    channel = await connection.channel()
    got: list[int] = []
    missing = set(wanted)
    all_came = asyncio.Event()

    def take(delivery: Delivery) -> None:
        got.append(int(delivery.body))
        channel.ack(delivery.tag)
        missing.discard(got[-1])
        if not missing:
            all_came.set()

    channel.on_delivery = take
    await channel.consume("q", 1000)
    with suppress(TimeoutError):
        await asyncio.wait_for(all_came.wait(), PATIENCE_S)
    await asyncio.sleep(LONGEST_MS / 1000)
    await channel.call(commands.Channel.Close(200, "bye", 0, 0), commands.Channel.CloseOk)
    await connection.close()
    return got


async def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    """G10 through kill -9, while messages come in and go out"""
    seed = random.SystemRandom().randrange(1 << 30)
    dice = random.Random(seed)
    publisher = Publisher(dice)
    said = ""
    for _ in range(LIVES):
        process = DurableProcess(tmp_path, program=FRAIL)
        task = asyncio.create_task(publisher.run(process.port))
        await asyncio.sleep(dice.uniform(0.05, 0.6))
        said += process.kill()
        await task
    process = DurableProcess(tmp_path, program=FRAIL)
    try:
        got = await collect(process.port, publisher.confirmed)
    finally:
        said += process.stop()
    assert "Traceback" not in said, said
    assert "recovery:" not in said, said
    assert len(publisher.confirmed) > 100
    assert publisher.confirmed - set(got) == set(), f"lost; seed {seed}"
    twice = {number for number in got if got.count(number) > 1} if len(got) != len(set(got)) else set()
    assert twice == set(), f"came twice; seed {seed}"
    assert check(tmp_path).problems == []
