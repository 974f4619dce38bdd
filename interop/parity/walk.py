"""Conversations made up at random: a few queues, exchanges, channels and consumers, and whatever can be done to them.

A walk is a list of steps, made of a seed alone; each step holds all it needs, so that any of them can be left out and
the rest still makes sense. That is how a walk that found a difference is made shorter. Only what RabbitMQ does the same
each time is said: a queue has one consumer at most, publishes are confirmed before the next step, and nothing hangs on
which of two queues is quicker.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pamqp import commands

from interop.parity.talk import OURS, Difference, Ports, Talk, Voice

WRONG: Final = 0.03  # how often a tag is one that never was, at either end
CHANNELS: Final = (1, 2, 3)
PUBLISHER: Final = 9  # confirms, and does nothing else
QUEUES: Final = ("a", "b", "c")
EXCHANGES: Final = {"direct": "direct", "fan": "fanout", "topic": "topic", "headers": "headers"}
KEYS: Final = ("k", "k.l", "k.l.m", "", "a")
PATTERNS: Final = ("k", "k.*", "#", "*.l.#", "")
HEADERS: Final[tuple[dict[str, object], ...]] = ({}, {"h": 1}, {"h": "x", "i": True}, {"CC": ["k.l"]})
MATCHES: Final[tuple[dict[str, object], ...]] = ({}, {"h": 1}, {"x-match": "any", "h": "x", "j": 1})
ARGUMENTS: Final[tuple[dict[str, object], ...]] = (
    {},
    {},
    {"x-max-length": 3},
    {"x-max-length": 2, "x-overflow": "reject-publish"},
    {"x-max-length-bytes": 8},
    {"x-max-priority": 3},
    {"x-single-active-consumer": True},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-length": 2},
)


@dataclass(frozen=True)
class Step:
    """What is done on which channel. Names are those above; the walk gives them their serial number."""

    verb: str
    channel: int
    details: tuple[object, ...] = ()

    def __str__(self) -> str:
        return f"{self.channel} {self.verb} {' '.join(map(repr, self.details))}"


def make(seed: int, length: int) -> list[Step]:
    dice = random.Random(seed)
    verbs = [verb for verb, weight in WEIGHTS.items() for _ in range(weight)]
    steps = [Step("declare", 1, (queue, dice.choice(ARGUMENTS))) for queue in QUEUES[:2]]
    steps += [Step("exchange", 1, (exchange,)) for exchange in EXCHANGES]
    steps += [
        Step("bind", 1, (queue, exchange, "#", {})) for queue, exchange in zip(QUEUES[:2], EXCHANGES, strict=False)
    ]
    steps += [_step(dice, dice.choice(verbs)) for _ in range(length)]
    return steps


def _step(dice: random.Random, verb: str) -> Step:
    channel = dice.choice(CHANNELS)
    queue, exchange = dice.choice(QUEUES), dice.choice(tuple(EXCHANGES))
    flip = dice.random() < 0.5
    details: dict[str, tuple[object, ...]] = {
        "declare": (queue, dice.choice(ARGUMENTS)),
        "passive": (queue,),
        "exchange": (exchange,),
        "bind": (queue, exchange, dice.choice(PATTERNS), dice.choice(MATCHES)),
        "unbind": (queue, exchange, dice.choice(PATTERNS), dice.choice(MATCHES)),
        "publish": (dice.choice((*EXCHANGES, "")), dice.choice(KEYS), dice.choice(HEADERS), dice.randrange(12), flip),
        "put": (queue, dice.randrange(6)),
        "get": (queue, flip),
        "consume": (queue, flip),
        "cancel": (queue,),
        "ack": (dice.random(), flip),
        "nack": (dice.random(), flip, dice.random() < 0.6),
        "reject": (dice.random(), flip),
        "qos": (dice.randrange(4), flip),
        "recover": (),
        "purge": (queue,),
        "delete": (queue, flip),
        "delete exchange": (exchange, flip),
        "tx": (),
        "commit": (),
        "rollback": (),
        "close": (),
    }
    return Step(verb, PUBLISHER if verb in ("publish", "put") else channel, details[verb])


WEIGHTS: Final = {
    "declare": 3,
    "passive": 3,
    "exchange": 1,
    "bind": 4,
    "unbind": 1,
    "publish": 8,
    "put": 10,
    "get": 8,
    "consume": 5,
    "cancel": 2,
    "ack": 8,
    "nack": 6,
    "reject": 4,
    "qos": 2,
    "recover": 1,
    "purge": 1,
    "delete": 1,
    "delete exchange": 1,
    "tx": 1,
    "commit": 1,
    "rollback": 1,
    "close": 1,
}


class Walk:
    """Takes the steps, and leaves out those that RabbitMQ would not answer the same way each time."""

    def __init__(self, ports: Ports) -> None:
        self.talk = Talk(ports)
        self.client = self.talk.connect()
        self.body = 0
        self.consuming: dict[str, tuple[int, str]] = {}  # by queue: channel and tag
        self.getting: set[int] = set()  # channels on which basic.get was said

    def take(self, steps: list[Step]) -> list[Difference]:
        try:
            self.voice(1).declare(self.talk.name("dead"))
            for step in steps:
                getattr(self, f"_{step.verb.replace(' ', '_')}")(self.voice(step.channel), *step.details)
                if self.talk.differences:
                    break
            for queue in (*QUEUES, "dead"):
                self._passive(self.voice(1), queue)
        finally:
            self.talk.end()
        return self.talk.differences

    def voice(self, number: int) -> Voice:
        """The channel, opened again if it was closed."""
        client = self.client
        if any(number not in line.open for line in client.lines):
            self._forget(number)
            client.channel(number)
            if number == PUBLISHER:
                client.channel(number).say(commands.Confirm.Select)
        return Voice(client, number)

    def _forget(self, number: int) -> None:
        self.consuming = {queue: held for queue, held in self.consuming.items() if held[0] != number}
        self.getting.discard(number)

    def _tag(self, ch: Voice, place: float) -> int:
        """One that was delivered on this channel, the later the higher `place`; at its ends one that never was."""
        tags = self.client.lines[OURS].delivered[ch.number]
        if place < WRONG or place > 1 - WRONG or not tags:
            return int(place * 10)
        return tags[int(place * len(tags))]

    def _name(self, queue: object) -> str:
        return self.talk.name(str(queue))

    def _declare(self, ch: Voice, queue: object, arguments: dict[str, object]) -> None:
        named = {key: self._name(value) if value == "dead" else value for key, value in arguments.items()}
        ch.declare(self._name(queue), arguments=named)

    def _passive(self, ch: Voice, queue: object) -> None:
        ch.count(self._name(queue))

    def _exchange(self, ch: Voice, exchange: str) -> None:
        ch.exchange(self._name(exchange), EXCHANGES[exchange])

    def _bind(self, ch: Voice, queue: object, exchange: str, key: str, arguments: dict[str, object]) -> None:
        ch.bind(self._name(queue), self._name(exchange), key, arguments)

    def _unbind(self, ch: Voice, queue: object, exchange: str, key: str, arguments: dict[str, object]) -> None:
        ch.unbind(self._name(queue), self._name(exchange), key, arguments)

    def _publish(
        self, ch: Voice, exchange: str, key: str, headers: dict[str, object], size: int, mandatory: bool
    ) -> None:
        self.body += 1
        body = b"%d" % self.body + b"." * size
        fields: dict[str, object] = {"headers": headers} if headers else {}
        ch.publish(body, self._name(exchange) if exchange else "", key, mandatory=mandatory, **fields)

    def _put(self, ch: Voice, queue: object, size: int) -> None:
        self._publish(ch, "", self._name(queue), {}, size, mandatory=True)

    def _get(self, ch: Voice, queue: object, no_ack: bool) -> None:
        ch.get(self._name(queue), no_ack=no_ack)
        self.getting.add(ch.number)

    def _consume(self, ch: Voice, queue: str, no_ack: bool) -> None:
        if queue not in self.consuming:
            # Two consumers of one channel would be given their tags by whichever queue is quicker.
            number = CHANNELS[QUEUES.index(queue)]
            ch = self.voice(number)
            self.consuming[queue] = (number, queue)
            ch.consume(self._name(queue), queue, no_ack=no_ack)

    def _cancel(self, ch: Voice, queue: str) -> None:
        if queue in self.consuming:
            channel, tag = self.consuming.pop(queue)
            self.voice(channel).cancel(tag)

    def _ack(self, ch: Voice, place: float, multiple: bool) -> None:
        if tag := self._tag(ch, place):
            ch.ack(tag, multiple=multiple)
            self._settle(ch, tag, multiple)

    def _nack(self, ch: Voice, place: float, multiple: bool, requeue: bool) -> None:
        if tag := self._tag(ch, place):
            ch.nack(tag, multiple=multiple, requeue=requeue)
            self._settle(ch, tag, multiple)

    def _reject(self, ch: Voice, place: float, requeue: bool) -> None:
        if tag := self._tag(ch, place):
            ch.reject(tag, requeue=requeue)
            self._settle(ch, tag, multiple=False)

    def _settle(self, ch: Voice, tag: int, multiple: bool) -> None:
        """What was settled is hardly ever settled again."""
        delivered = self.client.lines[OURS].delivered
        delivered[ch.number] = [
            other for other in delivered[ch.number] if other != tag and not (multiple and other < tag)
        ]

    def _qos(self, ch: Voice, count: int, is_global: bool) -> None:
        if not (is_global and ch.number in self.getting):  # which RabbitMQ would count, for ever
            ch.qos(count, is_global=is_global)

    def _recover(self, ch: Voice) -> None:
        ch.say(commands.Basic.Recover, requeue=True)

    def _purge(self, ch: Voice, queue: object) -> None:
        self._passive(ch, queue)
        ch.say(commands.Queue.Purge, queue=self._name(queue))

    def _delete(self, ch: Voice, queue: str, is_careful: bool) -> None:
        self._passive(ch, queue)
        if ch.number in self.client.lines[0].open:
            ch.delete(self._name(queue), if_unused=is_careful)
            if not is_careful:
                self.consuming.pop(queue, None)

    def _delete_exchange(self, ch: Voice, exchange: str, is_careful: bool) -> None:
        ch.say(commands.Exchange.Delete, exchange=self._name(exchange), if_unused=is_careful)

    def _tx(self, ch: Voice) -> None:
        ch.say(commands.Tx.Select)

    def _commit(self, ch: Voice) -> None:
        ch.say(commands.Tx.Commit)

    def _rollback(self, ch: Voice) -> None:
        ch.say(commands.Tx.Rollback)

    def _close(self, ch: Voice) -> None:
        ch.close()
        self._forget(ch.number)


def shorten(steps: list[Step], fails: Callable[[list[Step]], bool], tries: int) -> list[Step]:
    """A shorter walk that still fails: leaves out ever smaller parts, as long as that many tries last."""
    size = max(1, len(steps) // 2)
    while True:
        at = 0
        while at < len(steps):
            if tries == 0:
                return steps
            tries -= 1
            shorter = steps[:at] + steps[at + size :]
            if fails(shorter):
                steps = shorter
            else:
                at += size
        if size == 1:
            return steps
        size //= 2
