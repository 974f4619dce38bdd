"""The same conversation with two brokers, step by step: each step is said to both, and what they answer compared.

Ours is asked first: it has answered everything once a barrier after the step has come back, on every connection. The
other's queues are processes of their own that answer when they come to it; so what is waited for there is what ours
said. A step is over at once when both have said the same, or when the other has said something ours did not; only
while something is missing is it waited for, as long as patience lasts. What comes too late differs in a later step, or
at the end.
"""

import enum
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from pamqp import base, commands

from interop.parity.allowed import EVERYWHERE, Rule
from interop.parity.line import Line
from interop.parity.said import CONFIRMS, Said
from rabbitlike.protocol.methods import spec_name
from tests.support import frames
from tests.support.frames import loose

PATIENCE_S: Final = 3.0
IMPATIENCE_S: Final = 0.2  # once something has differed, what follows from it is not waited for so long
BETWEEN_TRIES_S: Final = 0.005
OURS, THEIRS = 0, 1

Strand = tuple[str, int, str]  # connection, channel, and what of it is in one order
Answers = dict[Strand, list[str]]
Given = list[str]

_serial = itertools.count(1)


class Barrier(enum.Enum):
    """When the octets are sent that a broker answers after all else."""

    WITH = "together with the step"
    AFTER = "when the step is answered: nothing may follow it until then"
    NONE = "never, as in the middle of a message: waits for silence"


def _barrier(cls: type[base.Frame]) -> Barrier:
    alone = (commands.Tx.Commit, commands.Channel.Close, commands.Connection.Close, commands.Channel.Open)
    return Barrier.AFTER if cls in alone else Barrier.WITH


@dataclass(frozen=True)
class Difference:
    """One strand of one step that was not the same."""

    step: str
    strand: Strand
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"at {self.step} on {self.strand}\n  RabbitMQ: {self.theirs or '-'}\n  ours:     {self.ours or '-'}"


@dataclass
class Ports:
    ours: int
    theirs: int

    def of(self, side: int) -> int:
        return (self.ours, self.theirs)[side]


@dataclass
class Talk:
    ports: Ports
    differences: list[Difference] = field(default_factory=list)
    transcript: list[str] = field(default_factory=list)
    patience_s: float = PATIENCE_S  # less where it is known that something stays away
    used: set[Rule] = field(default_factory=set)
    clients: "dict[str, Client]" = field(default_factory=dict)
    serial: int = field(default_factory=lambda: next(_serial))
    declared: set[tuple[str, str]] = field(default_factory=set)

    def name(self, word: str) -> str:
        """A name no other conversation uses."""
        return f"{word}.{self.serial}"

    def dial(self, name: str = "a") -> "Client":
        """A connection to each on which nothing has been said."""
        client = Client(self, name, [Line(self.ports.of(OURS)), Line(self.ports.of(THEIRS))])
        self.clients[name] = client
        return client

    def connect(self, name: str = "a", client_properties: Mapping[str, object] | None = None) -> "Client":
        client = self.dial(name)
        for line in client.lines:
            line.shake_hands(client_properties)
        return client

    # Comparing.

    def settle(
        self, step: str, *, patience_s: float | None = None, again: Callable[[Answers], bool] = lambda _: False
    ) -> Answers:
        """Compare all that was answered since the last step. `again` asks the other once more, if that can help."""
        ours: Answers = {}
        theirs: Answers = {}
        self._settle_ours(ours)
        patience_s = self.patience_s if patience_s is None else patience_s
        deadline = time.monotonic() + (min(patience_s, IMPATIENCE_S) if self.differences else patience_s)
        while True:
            for client in self.clients.values():
                _add(theirs, client.name, client.lines[THEIRS].take())
            if self._is_same(ours, theirs) or time.monotonic() > deadline:
                break
            if not self._is_beginning(ours, theirs):
                if not again(theirs):
                    break
                theirs.clear()
            if not self._poll_theirs():
                time.sleep(0)
        self._note(step, ours, theirs)
        return ours

    def _settle_ours(self, ours: Answers) -> None:
        for client in self.clients.values():
            line = client.lines[OURS]
            if line.open and not client.is_mid_content:
                line.put_barrier(min(line.open))
        for client in self.clients.values():
            line = client.lines[OURS]
            line.await_barriers()
            line.poll(0)
            _add(ours, client.name, line.take())

    def _poll_theirs(self) -> bool:
        came = [client.lines[THEIRS].poll(BETWEEN_TRIES_S / len(self.clients)) for client in self.clients.values()]
        return any(came)

    def _is_same(self, ours: Answers, theirs: Answers) -> bool:
        return ours.keys() == theirs.keys() and all(
            len(ours[strand]) == len(theirs[strand]) and self._agree(strand, ours[strand], theirs[strand])
            for strand in ours
        )

    def _is_beginning(self, ours: Answers, theirs: Answers) -> bool:
        """Whether more may come that makes them equal."""
        return all(
            len(theirs[strand]) <= len(ours.get(strand, ())) and self._agree(strand, ours[strand], theirs[strand])
            for strand in theirs
        )

    def _agree(self, strand: Strand, ours: list[str], theirs: list[str]) -> bool:
        """Whether all that they said is what we said, as far as it goes."""
        if strand[2] == CONFIRMS:
            return not Counter(theirs) - Counter(ours)
        return all(self._is_meant(mine, other) for mine, other in zip(ours, theirs, strict=False))

    def _is_meant(self, mine: str, other: str) -> bool:
        """Equal, or equal but for what is meant to differ everywhere."""
        if mine == other:
            return True
        for count in range(1, len(EVERYWHERE) + 1):
            for rules in itertools.combinations(EVERYWHERE, count):
                said, heard = mine, other
                for rule in rules:
                    if rule.is_theirs:
                        heard = rule.apply(heard)
                    else:
                        said = rule.apply(said)
                if said == heard:
                    self.used.update(rules)
                    return True
        return False

    def _note(self, step: str, ours: Answers, theirs: Answers) -> None:
        self.transcript.append(step)
        same = self._is_same(ours, theirs)
        for strand in sorted(ours.keys() | theirs.keys()):
            mine, other = ours.get(strand, []), theirs.get(strand, [])
            self.transcript += [f"    {strand[0]}/{strand[1]} {text}" for text in mine]
            if not same and not (len(mine) == len(other) and self._agree(strand, mine, other)):
                difference = Difference(step, strand, " | ".join(other), " | ".join(mine))
                self.transcript.append(f"!   {difference}")
                self.differences.append(difference)

    # Ending.

    def pause(self, seconds: float) -> None:
        """Time passes: what it brings about is compared, and then whatever may have come besides."""
        time.sleep(seconds)
        self.settle(f"after {seconds} s")

    def end(self) -> None:
        """Nothing more has come; and nothing is left behind."""
        for client in self.clients.values():
            for line in client.lines:
                line.await_quiet(0.005)
        self.settle("at the end")
        for client in self.clients.values():
            for line in client.lines:
                line.hang_up()
        for port in (self.ports.ours, self.ports.theirs) if self.declared else ():
            line = Line(port)
            line.shake_hands()
            line.call(frames.encode_method(commands.Channel.Open(), 1), commands.Channel.OpenOk, 1)
            for kind, name in self.declared:
                method = (
                    loose(commands.Queue.Delete, queue=name, nowait=True)
                    if kind == "queue"
                    else loose(commands.Exchange.Delete, exchange=name, nowait=True)
                )
                line.send(frames.encode_method(method, 1))
            line.put_barrier(1)
            line.await_barriers()
            line.hang_up()


def _add(answers: Answers, client: str, said: Iterable[Said]) -> None:
    for item in said:
        answers.setdefault((client, item.channel, item.strand), []).append(item.text)


@dataclass
class Client:
    """One connection of the conversation, to both."""

    talk: Talk
    name: str
    lines: list[Line]
    is_mid_content: bool = False

    def send(
        self,
        step: str,
        data: bytes | Callable[[Given], bytes],
        channel: int = 0,
        *,
        barrier: Barrier = Barrier.WITH,
        patience_s: float | None = None,
        again: str | None = None,
    ) -> Answers:
        """One step: these octets to both. Where they answer with the method `again`, they are asked once more."""

        def say(line: Line) -> None:
            line.send(data if isinstance(data, bytes) else data(line.given))
            if barrier is Barrier.WITH and channel in line.open:
                line.put_barrier(channel)
            elif barrier is Barrier.NONE:
                line.await_quiet()
            else:
                line.await_answer()
                if channel in line.open:
                    line.put_barrier(channel)
            line.await_barriers()

        for line in self.lines:
            say(line)

        def ask_anew(theirs: Answers) -> bool:
            if again is None or not any(text.startswith(again) for text in theirs.get((self.name, channel, ""), ())):
                return False
            time.sleep(BETWEEN_TRIES_S)
            say(self.lines[THEIRS])
            return True

        return self.talk.settle(f"{self.name}/{channel} {step}", patience_s=patience_s, again=ask_anew)

    def say(self, cls: type[base.Frame], channel: int = 0, **fields: object) -> Answers:
        method = loose(cls, **fields)
        return self.send(show(method), frames.encode_method(method, channel), channel, barrier=_barrier(cls))

    def channel(self, number: int = 1, *, confirms: bool = False) -> "Voice":
        """A channel that is open with both, where it was already the same one. Who has hung up is called anew."""
        for side, line in enumerate(self.lines):
            if line.is_ended:
                line.hang_up()
                line = self.lines[side] = Line(self.talk.ports.of(side))
                line.shake_hands()
            if number not in line.open:
                line.call(frames.encode_method(commands.Channel.Open(), number), commands.Channel.OpenOk, number)
        voice = Voice(self, number)
        if confirms:
            voice.say(commands.Confirm.Select)
        return voice

    def close(self) -> None:
        self.say(commands.Connection.Close, reply_code=200, reply_text="bye", class_id=0, method_id=0)

    def drop(self) -> None:
        """The socket goes, without a word."""
        for line in self.lines:
            line.hang_up()
        self.talk.settle(f"{self.name} hangs up")


def show(method: base.Frame) -> str:
    """A step in words: the method, with the fields that are not as usual."""
    usual = {name: getattr(loose(type(method)), name) for name in method.__slots__}
    said = {name: getattr(method, name) for name in method.__slots__ if getattr(method, name) != usual[name]}
    return " ".join([spec_name(method), *(f"{name}={value!r}" for name, value in said.items())])


@dataclass
class Voice:
    """One channel of a client; each verb is one step."""

    client: Client
    number: int

    def say(self, cls: type[base.Frame], **fields: object) -> Answers:
        if cls is commands.Queue.Declare and fields.get("queue"):
            self.client.talk.declared.add(("queue", str(fields["queue"])))
        elif cls is commands.Exchange.Declare:
            self.client.talk.declared.add(("exchange", str(fields["exchange"])))
        method = loose(cls, **fields)
        return self.client.send(
            show(method), frames.encode_method(method, self.number), self.number, barrier=_barrier(cls)
        )

    def reopen(self) -> None:
        self.client.channel(self.number)

    @contextmanager
    def refused(self) -> Iterator[None]:
        """What is said within closes the channel, which is open again afterwards."""
        yield
        self.reopen()

    # Exchanges and queues.

    def exchange(self, exchange: str, kind: str = "direct", **fields: object) -> None:
        self.say(commands.Exchange.Declare, exchange=exchange, exchange_type=kind, **fields)

    def declare(self, queue: str, **fields: object) -> Answers:
        return self.say(commands.Queue.Declare, queue=queue, **fields)

    def bind(self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, object] | None = None) -> None:
        self.say(commands.Queue.Bind, queue=queue, exchange=exchange, routing_key=key, arguments=arguments or {})

    def unbind(self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, object] | None = None) -> None:
        self.say(commands.Queue.Unbind, queue=queue, exchange=exchange, routing_key=key, arguments=arguments or {})

    def bind_exchange(
        self, destination: str, source: str, key: str = "", arguments: Mapping[str, object] | None = None
    ) -> None:
        fields = {"destination": destination, "source": source, "routing_key": key, "arguments": arguments or {}}
        self.say(commands.Exchange.Bind, **fields)

    def delete(self, queue: str, **fields: object) -> None:
        self.say(commands.Queue.Delete, queue=queue, **fields)

    def count(self, queue: str) -> None:
        """What is ready, and how many consumers: asked of them until it is what we say."""
        method = loose(commands.Queue.Declare, queue=queue, passive=True)
        data = frames.encode_method(method, self.number)
        self.client.send(f"count {queue}", data, self.number, again="queue.declare-ok")

    # Messages.

    def publish(
        self,
        body: bytes = b"",
        exchange: str = "",
        key: str | Callable[[Given], str] = "",
        *,
        mandatory: bool = False,
        properties: bytes | None = None,
        barrier: Barrier = Barrier.WITH,
        **named: object,
    ) -> Answers:
        content = frames.properties(**named) if properties is None else properties

        def data(given: Given) -> bytes:
            method = loose(
                commands.Basic.Publish,
                exchange=exchange,
                routing_key=key if isinstance(key, str) else key(given),
                mandatory=mandatory,
            )
            return content_frames(method, self.number, body, content)

        shown = (
            f"publish {body[:40]!r} to {exchange!r} {key if isinstance(key, str) else 'a name given'!r} {named or ''}"
        )
        return self.client.send(shown + " mandatory" * mandatory, data, self.number, barrier=barrier)

    def get(self, queue: str, *, no_ack: bool = False) -> None:
        method = loose(commands.Basic.Get, queue=queue, no_ack=no_ack)
        data = frames.encode_method(method, self.number)
        self.client.send(show(method), data, self.number, again="basic.get-empty")

    def drain(self, queue: str, count: int) -> None:
        """That many gets, and one that finds nothing."""
        for _ in range(count + 1):
            self.get(queue, no_ack=True)

    def consume(self, queue: str, tag: str = "", **fields: object) -> None:
        self.say(commands.Basic.Consume, queue=queue, consumer_tag=tag, **fields)

    def cancel(self, tag: str, **fields: object) -> None:
        self.say(commands.Basic.Cancel, consumer_tag=tag, **fields)

    def ack(self, tag: int = 0, *, multiple: bool = False) -> None:
        self.say(commands.Basic.Ack, delivery_tag=tag, multiple=multiple)

    def nack(self, tag: int = 0, *, multiple: bool = False, requeue: bool = True) -> None:
        self.say(commands.Basic.Nack, delivery_tag=tag, multiple=multiple, requeue=requeue)

    def reject(self, tag: int, *, requeue: bool = True) -> None:
        self.say(commands.Basic.Reject, delivery_tag=tag, requeue=requeue)

    def qos(self, count: int, *, is_global: bool = False) -> None:
        self.say(commands.Basic.Qos, prefetch_count=count, global_=is_global)

    def close(self) -> None:
        self.say(commands.Channel.Close, reply_code=200, reply_text="bye", class_id=0, method_id=0)


def content_frames(method: base.Frame, channel: int, body: bytes, properties: bytes, step: int = 131064) -> bytes:
    parts = [frames.encode_method(method, channel), frames.header_frame(channel, len(body), properties)]
    parts += [frames.body_frame(channel, body[at : at + step]) for at in range(0, len(body), step)]
    return b"".join(parts)
