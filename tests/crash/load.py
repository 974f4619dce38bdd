"""Clients that keep a broker busy in every way that must survive its death, each entering in the ledger what it does.

All of it runs on one loop, so the ledger's times are the order in which things were sent and heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random

from pamqp import base, commands

from tests.support.crash_client import Channel, Connection, Delivery, Lost, Refused
from tests.support.crash_ledger import Entry, Found, Ledger, Link
from tests.support.frames import loose

TO_DEAD: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
#: The queues that are always there. Messages move from those above to those below, never up: so they are read.
QUEUES: dict[str, dict[str, object]] = {
    "brief": {**TO_DEAD, "x-message-ttl": 40},
    "short": {**TO_DEAD, "x-max-length": 10},
    "work": TO_DEAD,
    "ranked": {"x-max-priority": 3},
    "scratch": {},
    "flux": {},
    "left": {},
    "right": {},
    "moved": {},
    "dead": {},
}
EXCHANGE = "routed"
#: Queues that come and go.
PASSING = "passing-"
BREATH_S = 0.002


class Client:
    """One connection with one confirming channel, and what it has sent."""

    def __init__(self, ledger: Ledger, channel: Channel, name: str) -> None:
        self.ledger = ledger
        self.channel = channel
        self.link = Link(name)
        self.unanswered: dict[int, tuple[Entry, int]] = {}
        channel.on_confirm = self._on_confirm

    @classmethod
    async def open(cls, ledger: Ledger, port: int, name: str, *, confirms: bool = True) -> Client:
        connection = await Connection.open(port)
        client = cls(ledger, await connection.channel(), name)
        if confirms:
            await client.channel.confirm()
        return client

    def publish(
        self, queue: str, *, padding: int = 0, exchange: str = "", priority: int | None = None, **facts: object
    ) -> Entry:
        entry = self.ledger.publish(queue, self.link.name, level=priority or 0, **facts)
        number = self.send(entry, queue, padding=padding, exchange=exchange, priority=priority)
        self.unanswered[number] = (entry, self.ledger.tick())
        return entry

    def send(
        self, entry: Entry, queue: str, *, padding: int = 0, exchange: str = "", priority: int | None = None
    ) -> int:
        body = b"%d " % entry.number + b"x" * padding
        mode = 2 if entry.is_persistent else 1
        return self.channel.publish(body, queue, exchange, delivery_mode=mode, priority=priority)

    def _on_confirm(self, number: int, is_ack: bool) -> None:
        entry, asked_at = self.unanswered.pop(number)
        if is_ack and entry.is_persistent:
            self.ledger.stored(entry)
            # Before the publish itself: it is safe as well, but the answer to it is not a deed.
            self.ledger.answered(self.link, asked_at)

    async def confirmed(self, most: int = 0) -> None:
        """Until no more than so many publishes are unanswered."""
        while len(self.unanswered) > most:
            if self.channel.connection.is_lost:
                raise Lost
            await asyncio.sleep(BREATH_S / 2)

    async def call(self, *methods: base.Frame) -> None:
        """Send these; the answer to the last one waits for a commit, and so makes all before it certain."""
        for method in methods[:-1]:
            self.channel.send(method)
        asked_at = self.ledger.tick()
        answer = await self.channel.connection.call(methods[-1], self.channel.number)
        if isinstance(answer, commands.Channel.Close):
            raise Refused(answer)
        self.ledger.answered(self.link, asked_at)

    async def close(self) -> None:
        await self.channel.connection.close()


def declaration(queue: str, **fields: object) -> commands.Queue.Declare:
    return loose(commands.Queue.Declare, queue=queue, durable=True, **fields)


class Load:
    """Everything that happens to a broker between its start and its end."""

    def __init__(self, ledger: Ledger, port: int, dice: Random, life: int) -> None:
        self.ledger = ledger
        self.port = port
        self.dice = dice
        self.life = life
        self.faults: list[BaseException] = []

    async def run(self, kill: Callable[[], None], after_s: float) -> None:
        """Until `kill`, which is called after so long."""
        actors = [self.publish("a"), self.publish("b"), self.work("work"), self.work("ranked"), self.transact()]
        actors += [self.move(), self.pass_away(), self.keep_house()]
        tasks = [asyncio.create_task(self._play(actor)) for actor in actors]
        await asyncio.sleep(after_s)
        kill()
        await asyncio.gather(*tasks)
        if self.faults:
            raise self.faults[0]

    async def _play(self, actor: Coroutine[object, object, None]) -> None:
        try:
            await actor
        except Lost:
            pass
        except Exception as error:
            self.faults.append(error)

    def _open(self, name: str, *, confirms: bool = True) -> Coroutine[object, object, Client]:
        return Client.open(self.ledger, self.port, f"{name} of life {self.life}", confirms=confirms)

    async def publish(self, name: str) -> None:
        """Two queues, one with priorities; some transient, some large enough to leave memory."""
        client = await self._open(name)
        dice = self.dice
        while True:
            for _ in range(dice.randint(1, 12)):
                is_persistent = dice.random() > 0.1
                padding = 4000 if dice.random() < 0.2 else dice.randint(0, 200)
                if dice.random() < 0.6:
                    client.publish("work", padding=padding, is_persistent=is_persistent)
                else:
                    priority = dice.randint(0, 3)
                    client.publish("ranked", padding=padding, priority=priority, is_persistent=is_persistent)
            await client.confirmed(most=dice.choice((0, 10, 40)))
            await asyncio.sleep(BREATH_S)

    async def work(self, queue: str) -> None:
        """Ack one or many, requeue, reject; publish now and then, so that what was done before becomes certain."""
        client = await self._open(f"worker of {queue}")
        held: list[tuple[int, Entry]] = []

        def take(delivery: Delivery) -> None:
            entry = self.ledger.delivered(number_of(delivery), queue)
            if entry is not None:
                held.append((delivery.tag, entry))

        client.channel.on_delivery = take
        await client.channel.consume(queue, 30)
        while True:
            if held:
                self._settle(client, held, queue)
            if self.dice.random() < 0.2:
                client.publish(queue)
                await client.confirmed(most=5)
            await asyncio.sleep(BREATH_S)

    def _settle(self, client: Client, held: list[tuple[int, Entry]], queue: str) -> None:
        at = self.dice.randrange(len(held))
        way = self.dice.random()
        if way < 0.3:
            for _, entry in held[: at + 1]:
                self.ledger.ended(entry, client.link, "acked with others")
            client.channel.ack(held[at][0], multiple=True)
            del held[: at + 1]
            return
        tag, entry = held.pop(at)
        if way < 0.6:
            self.ledger.ended(entry, client.link, "acked")
            client.channel.ack(tag)
        elif way < 0.8 or queue != "work":
            entry.story.append("requeued")
            client.channel.nack(tag, requeue=True)
        else:
            self.ledger.moved(entry, "dead", client.link, "rejected")
            client.channel.nack(tag, requeue=False)

    async def transact(self) -> None:
        """Pairs of messages in two queues; some never."""
        client = await self._open("transactor", confirms=False)
        await client.channel.call(commands.Tx.Select(), commands.Tx.SelectOk)
        while True:
            group = self.ledger.new_group()
            members = []
            for queue in ("left", "right") * self.dice.randint(1, 2):
                members.append(self.ledger.publish(queue, client.link.name, group=group))
                client.send(members[-1], queue)
            if self.dice.random() < 0.1:
                for entry in members:
                    entry.gone = "rolled back"
                await client.channel.call(commands.Tx.Rollback(), commands.Tx.RollbackOk)
                continue
            await client.call(commands.Tx.Commit())
            for entry in members:
                self.ledger.stored(entry)
            await asyncio.sleep(BREATH_S)

    async def move(self) -> None:
        """Ack in one queue and publish to another, in one transaction."""
        client = await self._open("mover", confirms=False)
        held: list[tuple[int, Entry]] = []

        def take(delivery: Delivery) -> None:
            entry = self.ledger.delivered(number_of(delivery), "left")
            if entry is not None:
                held.append((delivery.tag, entry))

        client.channel.on_delivery = take
        await client.channel.call(commands.Tx.Select(), commands.Tx.SelectOk)
        await client.channel.consume("left", 4)
        while not client.channel.connection.is_lost:
            if held:  # a transaction with nothing in it is answered at once, and makes nothing certain
                while held:
                    tag, entry = held.pop()
                    self.ledger.moved(entry, "moved", client.link, "sent on")
                    client.send(entry, "moved")
                    client.channel.ack(tag)
                await client.call(commands.Tx.Commit())
            await asyncio.sleep(BREATH_S * 2)

    async def pass_away(self) -> None:
        """Messages that end by time or limit, as dead letters."""
        client = await self._open("mortal")
        while True:
            for _ in range(self.dice.randint(1, 6)):
                entry = client.publish(self.dice.choice(("brief", "short")))
                self.ledger.moved(entry, "dead", None, "mortal")
            await client.confirmed(most=self.dice.choice((0, 10)))
            await asyncio.sleep(BREATH_S * 2)

    async def keep_house(self) -> None:
        """Queues that come, are bound, used and go; purges; a queue deleted and declared again in one breath."""
        client = await self._open("housekeeper")
        count = 0
        while True:
            count += 1
            await self._make_queue(client, f"{PASSING}{self.life}-{count}")
            await self._delete_some(client)
            self._fill(client, "scratch")
            self._end_all(client, "scratch", "purged")
            await client.channel.call(commands.Queue.Purge(queue="scratch"), commands.Queue.PurgeOk)
            self._fill(client, "flux")
            self._end_all(client, "flux", "deleted with its queue")
            self.ledger.queues["flux"] = None
            await client.call(loose(commands.Queue.Delete, queue="flux", nowait=True), declaration("flux"))
            self.ledger.queues["flux"] = True
            self._fill(client, "flux")
            await asyncio.sleep(BREATH_S * 3)

    async def _make_queue(self, client: Client, name: str) -> None:
        self.ledger.queues[name] = None
        await client.call(declaration(name))
        self.ledger.queues[name] = True
        await client.call(commands.Queue.Bind(queue=name, exchange=EXCHANGE, routing_key=name))
        self.ledger.bound.add(name)
        self._fill(client, name, EXCHANGE)

    async def _delete_some(self, client: Client) -> None:
        passing = [name for name, is_there in self.ledger.queues.items() if is_there and name.startswith(PASSING)]
        for name in passing:
            if self.dice.random() < len(passing) / 12:
                self._end_all(client, name, "deleted with its queue")
                self.ledger.queues[name] = None
                await client.call(commands.Queue.Delete(queue=name))
                self.ledger.queues[name] = False

    def _fill(self, client: Client, queue: str, exchange: str = "") -> None:
        for _ in range(self.dice.randint(0, 4)):
            client.publish(queue, exchange=exchange)

    def _end_all(self, client: Client, queue: str, how: str) -> None:
        for entry in self.ledger.entries.values():
            if entry.home == queue and not entry.gone:
                self.ledger.ended(entry, client.link, how)


def number_of(delivery: Delivery) -> int:
    return int(delivery.body.split(b" ")[0])


# --------------------------------------------------------------------------------------------- between two lives


async def prepare(ledger: Ledger, port: int) -> None:
    """What a broker's first life begins with."""
    client = await Client.open(ledger, port, "founder")
    for queue, arguments in QUEUES.items():
        await client.channel.declare(queue, durable=True, arguments=arguments)
        ledger.queues[queue] = True
    exchange = loose(commands.Exchange.Declare, exchange=EXCHANGE, exchange_type="direct", durable=True)
    await client.channel.call(exchange, commands.Exchange.DeclareOk)
    await client.close()


async def audit(ledger: Ledger, port: int, dice: Random, life: int, *, keeps: float = 0.4) -> list[str]:
    """Read all that is there after a restart; the promises that were broken. Some is acked, the rest goes back."""
    client = await Client.open(ledger, port, f"auditor of life {life}")
    faults, queues = await _find_queues(ledger, client)
    found: dict[str, list[Found]] = {queue: [] for queue in queues}
    tags: list[tuple[int, int, str]] = []

    def take(delivery: Delivery) -> None:
        found[delivery.consumer].append(Found(number_of(delivery), delivery.redelivered))
        tags.append((delivery.tag, number_of(delivery), delivery.consumer))

    client.channel.on_delivery = take
    for queue in queues:
        await client.channel.consume(queue, 0)
        while (await client.channel.declare(queue, passive=True)).message_count:  # noqa: ASYNC110 - only it knows
            await asyncio.sleep(BREATH_S)
    faults += ledger.judge(found)
    for tag, number, queue in tags:
        entry = ledger.delivered(number, queue)
        if entry is not None and dice.random() > keeps:
            ledger.ended(entry, client.link, "acked by the auditor")
            client.channel.ack(tag)
    for queue in queues:
        if queue in ledger.bound:
            client.publish(queue, exchange=EXCHANGE)
    client.publish("work")
    await client.confirmed()
    await client.close()
    return faults


async def _find_queues(ledger: Ledger, client: Client) -> tuple[list[str], list[str]]:
    """Which queues are there, in the order in which they are to be read, and what is wrong with that."""
    faults: list[str] = []
    there: list[str] = []
    for queue, is_there in ledger.queues.items():
        channel = await client.channel.connection.channel()
        try:
            await channel.declare(queue, passive=True)
            await channel.declare(queue, durable=True, arguments=QUEUES.get(queue, {}))
            there.append(queue)
            if is_there is False:
                faults.append(f"queue {queue} was deleted and is there again")
        except Refused as refusal:
            channel.send(commands.Channel.CloseOk())
            if is_there or (queue in QUEUES and queue != "flux"):
                faults.append(f"queue {queue} is lost: {refusal}")
        ledger.queues[queue] = queue in there
    if "flux" not in there:
        await client.channel.declare("flux", durable=True)
        ledger.queues["flux"] = True
    passing = [queue for queue in there if queue not in QUEUES]
    return faults, passing + [queue for queue in QUEUES if queue in there]
