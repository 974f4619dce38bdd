"""Conversations made up at random: a few queues, exchanges, channels and consumers, and whatever can be done to them.

A walk is a list of steps, made of a seed alone; each step holds all it needs, so that any of them can be left out and
the rest still makes sense. That is how a walk that found a difference is made shorter. Only what RabbitMQ does the same
each time is said: a channel has one consumer at most, publishes are confirmed before the next step, and nothing hangs
on which of two queues is quicker.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pamqp import commands

from interop.parity.talk import OURS, Difference, Ports, Talk, Voice

WRONG: Final = 0.03  # how often a tag is one that never was, at either end
CHANNELS: Final = (1, 2, 3)
OTHERS: Final = (4, 5, 6)  # on a connection of their own
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
    {"x-max-priority": 3},  # and no dead letters: they would keep their priority where RabbitMQ forgets it
    {"x-single-active-consumer": True},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-length": 2},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a", "x-max-length-bytes": 10},
    {"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "fan"},
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
    channel = dice.choice((*CHANNELS, *CHANNELS, *OTHERS))
    queue, exchange = dice.choice(QUEUES), dice.choice(tuple(EXCHANGES))
    flip = dice.random() < 0.5
    details: dict[str, tuple[object, ...]] = {
        "declare": (queue, dice.choice(ARGUMENTS)),
        "passive": (queue,),
        "exchange": (exchange,),
        "bind": (queue, exchange, dice.choice(PATTERNS), dice.choice(MATCHES)),
        "unbind": (queue, exchange, dice.choice(PATTERNS), dice.choice(MATCHES)),
        "publish": (dice.choice((*EXCHANGES, "")), dice.choice(KEYS), dice.choice(HEADERS), dice.randrange(12), flip),
        "put": (queue, dice.randrange(6), dice.choice((None, None, 0, 2, 9))),
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
        "drop": (),
        "join": (exchange, dice.choice(tuple(EXCHANGES)), dice.choice(PATTERNS)),
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
    "drop": 1,
    "join": 1,
}


class Walk:
    """Takes the steps, and leaves out those that RabbitMQ would not answer the same way each time."""

    def __init__(self, ports: Ports) -> None:
        self.talk = Talk(ports)
        self.talk.connect("a")
        self.talk.connect("b")
        self.body = 0
        self.tags = 0
        self.consuming: dict[int, tuple[str, str, bool]] = {}  # by channel: queue, tag, no-ack
        self.ranked: set[str] = set()  # queues with priorities
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
        client = self.talk.clients["b" if number in OTHERS else "a"]
        if any(number not in line.open for line in client.lines):
            self._forget(number)
            client.channel(number)
            if number == PUBLISHER:
                client.channel(number).say(commands.Confirm.Select)
        return Voice(client, number)

    def _forget(self, number: int) -> None:
        self.consuming.pop(number, None)
        self.getting.discard(number)

    def _tag(self, ch: Voice, place: float) -> int:
        """One that was delivered on this channel, the later the higher `place`; at its ends one that never was."""
        tags = ch.client.lines[OURS].delivered[ch.number]
        if place < WRONG or place > 1 - WRONG or not tags:
            return int(place * 10)
        return tags[int(place * len(tags))]

    def _name(self, queue: object) -> str:
        return self.talk.name(str(queue))

    def _declare(self, ch: Voice, queue: object, arguments: dict[str, object]) -> None:
        names = ("dead", *QUEUES, *EXCHANGES)
        named = {key: self._name(value) if value in names else value for key, value in arguments.items()}
        answers = ch.declare(self._name(queue), arguments=named)
        if "x-max-priority" in arguments and any("declare-ok" in text for said in answers.values() for text in said):
            self.ranked.add(str(queue))

    def _passive(self, ch: Voice, queue: object) -> None:
        ch.count(self._name(queue))

    def _exchange(self, ch: Voice, exchange: str) -> None:
        ch.exchange(self._name(exchange), EXCHANGES[exchange])

    def _bind(self, ch: Voice, queue: object, exchange: str, key: str, arguments: dict[str, object]) -> None:
        ch.bind(self._name(queue), self._name(exchange), key, arguments)

    def _unbind(self, ch: Voice, queue: object, exchange: str, key: str, arguments: dict[str, object]) -> None:
        ch.unbind(self._name(queue), self._name(exchange), key, arguments)

    def _join(self, ch: Voice, exchange: str, other: str, key: str) -> None:
        ch.bind_exchange(self._name(exchange), self._name(other), key)

    def _publish(
        self, ch: Voice, exchange: str, key: str, headers: dict[str, object], size: int, mandatory: bool
    ) -> None:
        self.body += 1
        body = b"%d" % self.body + b"." * size
        fields: dict[str, Any] = {"headers": headers} if headers else {}
        ch.publish(body, self._name(exchange) if exchange else "", key, mandatory=mandatory, **fields)

    def _put(self, ch: Voice, queue: object, size: int, priority: int | None) -> None:
        self.body += 1
        # A priority matters to every queue of ours, and to RabbitMQ's only where it was asked for.
        is_ranked = queue in self.ranked
        fields: dict[str, Any] = {"priority": priority} if is_ranked and priority is not None else {}
        ch.publish(b"%d" % self.body + b"." * size, key=self._name(queue), mandatory=True, **fields)

    def _get(self, ch: Voice, queue: object, no_ack: bool) -> None:
        ch.get(self._name(queue), no_ack=no_ack)
        self.getting.add(ch.number)

    def _consume(self, ch: Voice, queue: str, no_ack: bool) -> None:
        # Two consumers of one channel would be given their tags by whichever queue is quicker.
        number = (OTHERS if ch.number in OTHERS else CHANNELS)[QUEUES.index(queue)]
        if number not in self.consuming:
            ch = self.voice(number)
            # Nor may a tag be used again while the old consumer holds something: RabbitMQ mistakes one for the other.
            self.tags += 1
            self.consuming[number] = (queue, f"{queue}{self.tags}", no_ack)
            ch.consume(self._name(queue), f"{queue}{self.tags}", no_ack=no_ack)

    def _cancel(self, ch: Voice, queue: str) -> None:
        if held := self.consuming.pop(ch.number, None):
            ch.cancel(held[1])

    def _drop(self, ch: Voice) -> None:
        """The other connection goes without a word; until all it held is back, there is nothing to say.

        RabbitMQ ends its channels in any order: what one of them held could still be given to a consumer of another,
        and be lost with it if that need not ack."""
        for number in OTHERS:
            if number in self.consuming and self.consuming[number][2]:
                self._cancel(self.voice(number), "")
        self.talk.clients["b"].drop()
        for number in OTHERS:
            self._forget(number)
        self.talk.connect("b")
        for queue in QUEUES:
            self._passive(self.voice(1), queue)

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
        delivered = ch.client.lines[OURS].delivered
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
        if ch.number in ch.client.lines[OURS].open:
            ch.say(commands.Queue.Purge, queue=self._name(queue))

    def _delete(self, ch: Voice, queue: str, is_careful: bool) -> None:
        self._passive(ch, queue)
        if ch.number in ch.client.lines[OURS].open:
            ch.delete(self._name(queue), if_unused=is_careful)
            if not is_careful:
                self.consuming = {number: held for number, held in self.consuming.items() if held[0] != queue}
            self.ranked.discard(queue)

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
