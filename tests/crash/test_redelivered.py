"""A broker is killed while it delivers thousands of messages: none that a client has seen comes back as new."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.support.crash_client import Channel, Connection, Delivery, Lost
from tests.support.crash_process import FRAIL, DurableProcess

LIVES = 8
MESSAGES = 3000
QUEUES = ("backlog", "passing", "ranked")
PATIENCE_S = 60.0


class Trial:
    """What clients of all lives have seen, by the number of the message."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.sent = 0
        self.seen: set[int] = set()
        self.unmarked: list[int] = []
        self.redeliveries = 0
        #: Called when so many more have come.
        self.kill: Callable[[], None] = lambda: None
        self.left = 0

    async def fill(self, port: int) -> None:
        """A backlog that nobody has consumed from, all confirmed."""
        channel = await _open(port)
        await channel.confirm()
        confirmed = asyncio.Event()
        channel.on_confirm = lambda tag, is_ack: confirmed.set() if tag == MESSAGES else None
        for queue in QUEUES:
            await channel.declare(queue, durable=True)
        for _ in range(MESSAGES):
            self.publish(channel, "backlog")
        await confirmed.wait()
        await channel.connection.close()

    def publish(self, channel: Channel, queue: str) -> None:
        self.sent += 1
        priority = self.dice.randrange(5) if queue == "ranked" else None
        channel.publish(b"%d" % self.sent, queue, delivery_mode=2, priority=priority)

    async def work(self, port: int) -> None:
        """Consumers with and without prefetch, some of which ack, and a publisher, until the broker is gone."""
        with suppress(Lost, ConnectionError):
            for queue, prefetch in (("backlog", 500), ("passing", 0), ("ranked", 100)):
                channel = await _open(port)
                channel.on_delivery = self._taking(channel, acks=queue != "backlog")
                await channel.consume(queue, prefetch)
            publisher = await _open(port)
            while not publisher.connection.is_lost:
                for _ in range(self.dice.randrange(1, 60)):
                    self.publish(publisher, self.dice.choice(QUEUES[1:]))
                await asyncio.sleep(0.001)

    def _taking(self, channel: Channel, *, acks: bool) -> Callable[[Delivery], None]:
        def take(delivery: Delivery) -> None:
            number = int(delivery.body)
            self.redeliveries += delivery.redelivered
            if number in self.seen and not delivery.redelivered:
                self.unmarked.append(number)
            self.seen.add(number)
            self.left -= 1
            if self.left == 0:
                self.kill()  # at once: the disk may not know yet
            if acks and self.dice.random() < 0.5:
                with suppress(Lost):
                    channel.ack(delivery.tag)

        return take


async def _open(port: int) -> Channel:
    return await (await Connection.open(port)).channel()


async def test_what_was_delivered_before_a_kill_is_redelivered(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    trial = Trial(random.Random(seed))
    said = ""
    for life in range(LIVES):
        process = DurableProcess(tmp_path, program=FRAIL, sabotage="slow")
        if life == 0:
            await trial.fill(process.port)
        trial.kill, trial.left = process.interrupt, trial.dice.choice((1, 10, 400, 1500))
        await asyncio.wait_for(trial.work(process.port), PATIENCE_S)
        said += process.kill()
    assert "Traceback" not in said, said
    assert trial.redeliveries > 500, "the load was too light to prove anything"
    assert trial.unmarked == [], f"{len(trial.unmarked)} came back as new; seed {seed}"
