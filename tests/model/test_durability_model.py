"""A broker with a disk under random work and sudden ends, against a model that knows what the disk must hold.

The machine begins and ends every commit itself. Whenever one begins, the model remembers how things stand: that is what
is certain once it has ended, and what a crash from then on must leave, no more and no less. What came later is
uncertain until the next commit; of the one under way the crash decides. Windows are so small that most of a backlog is
on disk only. A failing run prints the steps as a program: paste it into a test and run it.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pamqp import commands

from rabbitlike.broker.queues.browse import Walk, move, remove
from tests.support import frames
from tests.support.crash_pair import START_MS, Disk, SimulatedDisk, SqliteDisk
from tests.support.pair import Channel, Client, loose
from tests.support.pair import Message as Content

#: Arguments of the queue that all kinds of work go to.
QUEUES: dict[str, dict[str, object]] = {
    "plain": {},
    "few levels": {"x-max-priority": 2},
    "short life": {"x-message-ttl": 40},
    "drop head": {"x-max-length": 6},
    "quorum": {"x-queue-type": "quorum"},
}
#: The others: one more durable one, one that is not, and where dead letters of the first go.
OTHERS = {"second": True, "passing": False, "dead": True}
WINDOWS = (1500, 5000, 65_536)

PICK = st.integers(0, 20)
PRIORITY = st.none() | st.sampled_from([0, 1, 2, 9, 255])
RARELY = st.sampled_from([False, False, False, True])
#: priority, persistent, octets
SPEC = st.tuples(PRIORITY, st.sampled_from([True, True, False]), st.sampled_from([10, 10, 900, 20_000]))
TARGET = st.sampled_from(["q", "q", "q", "second", "passing"])
SOURCE = st.sampled_from(["q", "q", "q", "second", "passing", "dead"])
TTL = st.none() | st.sampled_from([0, 10, 30, 100])


@dataclass
class Message:
    """A message in one queue; its body on the wire starts with its number."""

    number: int
    priority: int | None
    level: int
    persistent: bool
    expires_at_ms: int  # 0: never
    rank: int  # grows; dead letters of one step share one: which of them died first is nobody's promise
    ttl_ms: int | None = None  # its own
    returned: bool = False  # certainly handed out before
    perhaps: bool = False  # perhaps so

    @property
    def order(self) -> tuple[int, int]:
        return -self.level, self.rank


@dataclass
class Line:
    """A queue, in one of its lives."""

    name: str
    durable: bool
    arguments: dict[str, object]
    life: int = 0
    ready: list[Message] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)
    top: int = 0  # the highest rank handed out
    delivered: set[int] = field(default_factory=set)  # the numbers of all that were handed out in this run

    def level_of(self, priority: int | None) -> int:
        if priority is None:
            return 4 if self.arguments.get("x-queue-type") == "quorum" else 0
        return min(priority, int(str(self.arguments.get("x-max-priority", 9))))

    def revived(self, delivered: set[int] | None) -> Line:
        """What is left of it after a restart; after a crash these had certainly been handed out, others perhaps."""
        kept = [message for message in self.ready + self.held if message.persistent]
        line = Line(self.name, self.durable, self.arguments, self.life, top=self.top)
        for message in kept:
            one = copy.copy(message)
            one.returned = message.returned or message in self.held or message.number in (delivered or ())
            one.perhaps = message.perhaps or message.rank <= self.top or delivered is not None
            line.ready.append(one)
        return line


@dataclass
class End:
    """A channel that gets messages, and what it holds: tag to queue, life and message."""

    client: Client
    channel: Channel
    is_transactional: bool
    held: dict[int, tuple[str, int, Message]] = field(default_factory=dict)
    commit: int = 0  # tx.commit-ok is to come with this commit


class DurabilityMachine(RuleBasedStateMachine):
    """Steps take plain numbers; those that pick something count round what there is."""

    disk: Disk

    def start(self, kind: str, window: int, is_real: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rabbitlike-model-")) if is_real else None
        self.disk = SimulatedDisk() if self.folder is None else SqliteDisk(self.folder)
        self.window = window
        self.published = self.rank = 0
        self.lives = 0
        self.lines = {name: Line(name, durable, {}) for name, durable in OTHERS.items()}
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        self.lines["q"] = Line("q", True, {**dead_letters, **QUEUES[kind]})
        #: What the disk holds for certain, and what the commit under way will add.
        self.certain: dict[str, Line] = {}
        self.coming: dict[str, Line] = {}
        self.boot(START_MS, crash=False)
        for name in self.lines:
            self.declare(name)

    def boot(self, now_ms: int, *, crash: bool) -> None:
        self.pair = self.disk.boot(now_ms=now_ms, crash=crash, queue_window=self.window)
        self.pair.commit_for_delivery = self.commit_early
        self.begun = self.ended = 0
        self.is_ahead = False  # of the model: there was a commit before it knew of a delivery
        self.admin = self.pair.connect().channel()
        self.control = self.pair.connect().channel()
        self.control.confirm()
        self.unconfirmed: deque[int] = deque()  # the commit that each publish waits for; 0: none
        self.confirmed = self.answered = 0
        self.ends = [self.new_end(False), self.new_end(True)]
        self.pair.advance(0)  # what expired meanwhile is due

    def new_end(self, is_transactional: bool) -> End:
        client = self.pair.connect()
        channel = client.channel()
        if is_transactional:
            channel.call(commands.Tx.Select(), commands.Tx.SelectOk)
        return End(client, channel, is_transactional)

    def declare(self, name: str, octets: bytes = b"") -> None:
        """With what is to go before it in the same read."""
        line = self.lines[name]
        method = loose(commands.Queue.Declare, queue=name, durable=line.durable, arguments=line.arguments)
        self.admin.feed(octets + frames.encode_method(method, self.admin.number))
        if line.durable:
            self.admin.expect_nothing()
            self.commit_all()
        self.admin.expect(commands.Queue.DeclareOk)

    def teardown(self) -> None:
        try:
            if hasattr(self, "pair"):
                self.commit_all()
                for name in self.lines:
                    while self.lines[name].ready:
                        self.get_one(name, self.ends[0], no_ack=True)
        finally:
            if hasattr(self, "disk"):
                self.disk.close()
            if getattr(self, "folder", None) is not None:
                shutil.rmtree(self.folder)  # type: ignore[arg-type]

    # ------------------------------------------------------------------------------------------------------ the model

    @property
    def now_ms(self) -> int:
        return self.pair.clock.now_ms()

    def accept(self, name: str, priority: int | None, persistent: bool, ttl_ms: int | None, number: int = 0) -> Message:
        line = self.lines[name]
        times = [time for time in (ttl_ms, line.arguments.get("x-message-ttl")) if isinstance(time, int)]
        if not number:
            self.published += 1
        self.rank += 1
        message = Message(
            number or self.published,
            priority,
            line.level_of(priority),
            persistent,
            self.now_ms + min(times) if times else 0,
            self.rank,
            ttl_ms,
        )
        line.ready.append(message)
        self.expire()
        self.trim(line)
        return message

    def bury(self, line: Line, message: Message) -> None:
        if "x-dead-letter-exchange" in line.arguments:
            dead = self.lines["dead"]
            level = dead.level_of(message.priority)
            dead.ready.append(Message(message.number, message.priority, level, message.persistent, 0, self.letter_rank))

    @property
    def letter_rank(self) -> int:
        """One for all dead letters of a step, behind those of earlier steps."""
        return self.step_rank

    def new_step(self) -> None:
        self.rank += 1
        self.step_rank = self.rank

    def trim(self, line: Line) -> None:
        limit = line.arguments.get("x-max-length")
        if isinstance(limit, int):
            line.ready.sort(key=lambda message: message.order)
            while len(line.ready) > limit:
                self.bury(line, line.ready.pop(0))

    def expire(self) -> None:
        for line in self.lines.values():
            for message in [one for one in line.ready if 0 < one.expires_at_ms <= self.now_ms]:
                line.ready.remove(message)
                self.bury(line, message)

    def settle(self, end: End, tags: list[int], how: str) -> None:
        for tag in tags:
            name, life, message = end.held.pop(tag)
            line = self.lines[name]
            if line.life != life:
                continue
            line.held = [one for one in line.held if one is not message]
            if how == "reject" or (how == "requeue" and 0 < message.expires_at_ms <= self.now_ms):
                self.bury(line, message)
            elif how == "requeue":
                message.returned = True
                line.ready.append(message)
                self.trim(line)

    def is_stored(self, name: str, persistent: bool) -> bool:
        return persistent and self.lines[name].durable

    @property
    def number(self) -> int:
        """The commit that what happens now will be in."""
        return self.begun + 1

    # ------------------------------------------------------------------------------------------------------ publishing

    def publish_octets(self, channel: Channel, name: str, message: Message, size: int, ttl_ms: int | None) -> bytes:
        body = b"%d " % message.number + b"x" * size
        properties = frames.properties(
            delivery_mode=2 if message.persistent else 1,
            priority=message.priority,
            expiration=None if ttl_ms is None else str(ttl_ms),
        )
        return (
            frames.encode_method(commands.Basic.Publish(routing_key=name), channel.number)
            + frames.header_frame(channel.number, len(body), properties)
            + frames.body_frame(channel.number, body)
        )

    @rule(name=TARGET, specs=st.lists(SPEC, min_size=1, max_size=8), ttl_ms=TTL)
    def publish(self, name: str, specs: list[tuple[int | None, bool, int]], ttl_ms: int | None) -> None:
        """All in one read."""
        self.new_step()
        if "x-max-length" in self.lines[name].arguments:
            ttl_ms = None  # which of limit and time ends a message is nobody's promise
        octets = b""
        for priority, persistent, size in specs:
            message = self.accept(name, priority, persistent, ttl_ms)
            octets += self.publish_octets(self.control, name, message, size, ttl_ms)
            self.unconfirmed.append(self.number if self.is_stored(name, persistent) else 0)
        self.control.feed(octets)

    @rule(name=TARGET, persistent=st.lists(st.booleans(), min_size=4, max_size=12), size=st.sampled_from([300, 900]))
    def burst(self, name: str, persistent: list[bool], size: int) -> None:
        """More of one level than the smaller windows hold, transient among persistent: pages of two batches."""
        self.publish(name, [(None, one, size) for one in persistent], None)

    # ------------------------------------------------------------------------------------------------------- consuming

    def check_content(self, name: str, content: Content) -> Message:
        """It is one of those that are next; now it is out."""
        line = self.lines[name]
        assert line.ready, f"{content.body[:20]!r} came from {name}, which is empty"
        first = min(message.order for message in line.ready)
        due = {message.number: message for message in line.ready if message.order == first}
        number = int(content.body.split(b" ")[0])
        assert number in due, f"{number} came from {name}, due were {due}; {line}"
        message = due[number]
        if message.returned or not message.perhaps:
            assert content.redelivered is message.returned, f"{message} redelivered={content.redelivered}"
        assert content.properties.priority == message.priority
        line.ready.remove(message)
        line.top = max(line.top, message.rank)
        line.delivered.add(number)
        return message

    def commit_early(self) -> None:
        self.commit_all()
        self.is_ahead = True

    def catch_up(self) -> None:
        """All that the model knows by now was in that commit."""
        if self.is_ahead:
            self.is_ahead = False
            self.certain = self.durable_lines()

    def get_one(self, name: str, end: End, no_ack: bool) -> None:
        content = end.channel.get(name, no_ack=no_ack)
        line = self.lines[name]
        if content is None:
            assert not line.ready, f"{name} gave nothing of {line}"
            return
        message = self.check_content(name, content)
        if not no_ack:
            line.held.append(message)
            end.held[content.tag] = (name, line.life, message)
        self.catch_up()

    def end_at(self, at: int) -> End | None:
        end = self.ends[at % len(self.ends)]
        return None if end.commit else end

    @rule(name=SOURCE, at=PICK, count=st.integers(1, 5), no_ack=RARELY)
    def get(self, name: str, at: int, count: int, no_ack: bool) -> None:
        end = self.end_at(at)
        for _ in range(count):
            if end is not None:
                self.get_one(name, end, no_ack)

    @rule(name=SOURCE, at=PICK, count=st.integers(1, 6))
    def consume(self, name: str, at: int, count: int) -> None:
        """As many as a consumer is given at once."""
        end = self.end_at(at)
        if end is None:
            return
        line = self.lines[name]
        expected = min(count, len(line.ready))
        end.channel.qos(count)
        tag = end.channel.consume(name)
        contents = end.channel.deliveries()
        end.channel.call(commands.Basic.Cancel(consumer_tag=tag), commands.Basic.CancelOk)
        assert len(contents) == expected
        for content in contents:
            message = self.check_content(name, content)
            line.held.append(message)
            end.held[content.tag] = (name, line.life, message)
        self.catch_up()

    @precondition(lambda self: self.ends[0].held)
    @rule(pick=PICK, multiple=RARELY, how=st.sampled_from(["ack", "ack", "ack", "reject", "requeue"]))
    def finish(self, pick: int, multiple: bool, how: str) -> None:
        self.new_step()
        end = self.ends[0]
        tag = sorted(end.held)[pick % len(end.held)]
        self.settle(end, [one for one in sorted(end.held) if one <= tag] if multiple else [tag], how)
        self.send_settle(end, tag, multiple, how)

    def send_settle(self, end: End, tag: int, multiple: bool, how: str) -> None:
        if how == "ack":
            end.channel.ack(tag, multiple=multiple)
        else:
            end.channel.nack(tag, multiple=multiple, requeue=how == "requeue")

    @precondition(lambda self: not self.ends[1].commit)
    @rule(
        publishes=st.lists(st.tuples(TARGET, SPEC), max_size=4),
        settles=st.lists(st.tuples(PICK, st.sampled_from(["ack", "ack", "reject", "requeue"])), max_size=3),
        rolls_back=RARELY,
    )
    def transact(
        self,
        publishes: list[tuple[str, tuple[int | None, bool, int]]],
        settles: list[tuple[int, str]],
        rolls_back: bool,
    ) -> None:
        """Publishes and settles, all or none."""
        self.new_step()
        end = self.ends[1]
        waits = False
        chosen: dict[int, str] = {}
        for pick, how in settles:
            if end.held:
                chosen.setdefault(sorted(end.held)[pick % len(end.held)], how)
        if rolls_back:
            nobody = Message(0, None, 0, True, 0, 0)
            for name, (_, _, size) in publishes:
                end.channel.feed(self.publish_octets(end.channel, name, nobody, size, None))
        else:
            for name, (priority, persistent, size) in publishes:
                message = self.accept(name, priority, persistent, None)
                end.channel.feed(self.publish_octets(end.channel, name, message, size, None))
                waits = waits or self.is_stored(name, persistent)
        for tag, how in chosen.items():
            name, life, message = end.held[tag]
            if life == self.lines[name].life:
                waits = waits or (self.is_stored(name, message.persistent) and not rolls_back)
            self.send_settle(end, tag, False, how)
            if not rolls_back:
                self.settle(end, [tag], how)
        if rolls_back:
            end.channel.call(commands.Tx.Rollback(), commands.Tx.RollbackOk)
            return
        end.channel.send(commands.Tx.Commit())
        if waits:
            end.channel.expect_nothing()
            end.commit = self.number
        elif not any(True for _ in end.client.received()):
            # Of a queue that is gone by now: whether the answer waits for a commit is nobody's promise.
            end.commit = self.number
        else:
            end.channel.expect(commands.Tx.CommitOk)

    @precondition(lambda self: any(end.held for end in self.ends))
    @rule(at=PICK, drops=st.booleans())
    def lose(self, at: int, drops: bool) -> None:
        """A channel ends, or its connection is lost."""
        self.new_step()
        end = self.ends[at % len(self.ends)]
        if end.commit:
            return
        self.settle(end, sorted(end.held), "requeue")
        if drops:
            end.client.drop()
        else:
            end.channel.close()
        self.ends[at % len(self.ends)] = self.new_end(end.is_transactional)

    # ------------------------------------------------------------------------------------------------------ by hand

    def seen(self, name: str, offset: int = 0) -> list[tuple[int, Message]]:
        """What a walk from ``offset`` sees, by position; it must be what is next, in order."""
        line = self.lines[name]
        known = {message.number: message for message in line.ready}
        walk = Walk(self.pair.broker.vhosts["/"].queues[name], offset=offset)
        found = []
        while not walk.is_done:
            found += [(one.position, known[int(one.message.body.split(b" ")[0])]) for one in walk.step()]
        orders = [message.order for _, message in found]
        assert orders == sorted(message.order for message in line.ready)[offset:]
        return found

    @rule(name=SOURCE, offset=st.integers(0, 12))
    def browse(self, name: str, offset: int) -> None:
        self.seen(name, offset)

    @rule(name=SOURCE, picks=st.lists(PICK, min_size=1, max_size=4))
    def remove(self, name: str, picks: list[int]) -> None:
        if not (seen := self.seen(name)):
            return
        chosen = dict(seen[pick % len(seen)] for pick in picks)
        broker = self.pair.broker
        broker.turn.begin()
        assert remove(broker.vhosts["/"].queues[name], chosen) == len(chosen)
        broker.turn.finish()
        for message in chosen.values():
            self.lines[name].ready.remove(message)

    @rule(name=SOURCE, to=SOURCE, picks=st.lists(PICK, min_size=1, max_size=4))
    def move(self, name: str, to: str, picks: list[int]) -> None:
        """In order of delivery, whatever order they are named in."""
        self.new_step()
        seen = self.seen(name)
        if "x-max-length" in self.lines[to].arguments:
            seen = [one for one in seen if one[1].ttl_ms is None]
        if not seen:
            return
        chosen = [seen[at] for at in sorted({pick % len(seen) for pick in picks})]
        broker = self.pair.broker
        queues = broker.vhosts["/"].queues
        broker.turn.begin()
        assert move(queues[name], [position for position, _ in reversed(chosen)], queues[to]) == len(chosen)
        broker.turn.finish()
        for _, message in chosen:
            self.lines[name].ready.remove(message)
            self.accept(to, message.priority, message.persistent, message.ttl_ms, message.number)

    # --------------------------------------------------------------------------------------------------- larger events

    @rule(ms=st.sampled_from([1, 9, 10, 25, 40, 100]))
    def advance(self, ms: int) -> None:
        self.new_step()
        self.pair.advance(ms)
        self.expire()

    @precondition(lambda self: any(len(line.ready) > 1 for line in self.lines.values()))
    @rule(name=SOURCE)
    def purge(self, name: str) -> None:
        purged = self.admin.call(commands.Queue.Purge(queue=name), commands.Queue.PurgeOk)
        assert purged.message_count == len(self.lines[name].ready)
        self.lines[name].ready.clear()

    @rule(name=st.sampled_from(["q", "second", "passing", "dead"]))
    def replace(self, name: str) -> None:
        """Delete a queue and declare it anew, in one read."""
        line = self.lines[name]
        self.lives += 1
        self.lines[name] = Line(name, line.durable, line.arguments, self.lives)
        method = loose(commands.Queue.Delete, queue=name, nowait=True)
        self.declare(name, frames.encode_method(method, self.admin.number))

    # --------------------------------------------------------------------------------------------------------- the disk

    def commit_all(self) -> None:
        """Until nobody waits and nothing is left to write."""
        if self.pair.in_flight is not None:
            self.end_commit()
        while self.begin_commit():
            self.end_commit()

    def begin_commit(self) -> bool:
        if not self.pair.begin_commit():
            return False
        self.begun += 1
        self.coming = self.durable_lines()
        return True

    def durable_lines(self) -> dict[str, Line]:
        return copy.deepcopy({name: line for name, line in self.lines.items() if line.durable})

    def end_commit(self) -> None:
        assert self.pair.end_commit() == self.begun
        self.ended = self.begun
        self.certain = self.coming
        for end in self.ends:
            if 0 < end.commit <= self.ended:
                end.channel.expect(commands.Tx.CommitOk)
                end.commit = 0

    @precondition(lambda self: self.pair.is_awake and self.pair.in_flight is None)
    @rule()
    def begin(self) -> None:
        assert self.begin_commit()

    @precondition(lambda self: self.pair.in_flight is not None)
    @rule()
    def end(self) -> None:
        self.end_commit()

    @precondition(lambda self: self.pair.is_awake)
    @rule()
    def commit(self) -> None:
        self.commit_all()

    @rule(lands=st.booleans())
    def crash(self, lands: bool) -> None:
        """The process dies; the commit under way was just done, or was not."""
        self.new_step()
        if self.pair.in_flight is not None and lands:
            self.pair.write()
            self.certain = self.coming
        self.revive(crash=True)

    @precondition(lambda self: self.published)
    @rule()
    def restart(self) -> None:
        """A stop that lets everybody go first and commits what is left."""
        self.new_step()
        if any(end.commit for end in self.ends):
            self.commit_all()
        for end in self.ends:
            self.settle(end, sorted(end.held), "requeue")
            end.client.drop()
        self.commit_all()
        self.revive(crash=False)

    def revive(self, *, crash: bool) -> None:
        was = {name: line.durable for name, line in self.lines.items()}
        arguments = {name: line.arguments for name, line in self.lines.items()}
        last, self.lines = self.lines, {}
        for name, line in self.certain.items():
            delivered = last[name].delivered if last[name].life == line.life else set()
            self.lines[name] = line.revived(delivered if crash else None)
        self.certain = self.durable_lines()
        self.boot(self.now_ms, crash=crash)
        self.expire()
        for name, durable in was.items():
            if name not in self.lines:
                self.lives += 1
                self.lines[name] = Line(name, durable, arguments[name], self.lives)
                self.declare(name)

    # --------------------------------------------------------------------------------------------- what must be true

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "pair"):
            return
        self.check_confirms()
        if self.unconfirmed or any(end.commit for end in self.ends):
            assert self.pair.is_committing, "somebody waits for a commit that nobody asked for"
        self.check_counts()

    def check_confirms(self) -> None:
        """Exactly those that are safe are confirmed, in order."""
        while self.unconfirmed and self.unconfirmed[0] <= self.ended:
            self.unconfirmed.popleft()
            self.confirmed += 1
        for kind, number, multiple in self.control.expect_confirms():
            assert kind == "ack"
            assert number > self.answered
            assert multiple or number == self.answered + 1
            self.answered = number
        assert self.answered == self.confirmed, f"{self.answered} are confirmed, {self.confirmed} are safe"

    def check_counts(self) -> None:
        for name, line in self.lines.items():
            method = loose(commands.Queue.Declare, queue=name, passive=True)
            ok = self.admin.call(method, commands.Queue.DeclareOk)
            assert ok.message_count == len(line.ready), f"{name} counts {ok.message_count}, is to hold {line}"
            queue = self.pair.broker.vhosts["/"].queues[name]
            assert queue.unacked_count == len(line.held)


def machine_of(kind: str, *, is_real: bool) -> type[DurabilityMachine]:
    """The machine with one kind of queue; what it prints runs with DurabilityMachine itself."""

    class OneKind(DurabilityMachine):
        @initialize(kind=st.just(kind), window=st.sampled_from(WINDOWS), is_real=st.just(is_real))
        def start(self, kind: str, window: int, is_real: bool) -> None:
            super().start(kind, window, is_real)

    OneKind.__name__ = DurabilityMachine.__name__
    return OneKind


def run(kind: str, *, is_real: bool, examples: int) -> None:
    run_state_machine_as_test(
        machine_of(kind, is_real=is_real),
        settings=settings(max_examples=examples, stateful_step_count=40, deadline=None, report_multiple_bugs=False),
    )


@pytest.mark.parametrize("kind", QUEUES)
def test_what_is_committed_is_what_is_left(kind: str) -> None:
    run(kind, is_real=False, examples=25)


@pytest.mark.parametrize("kind", QUEUES)
def test_so_it_is_with_the_real_store(kind: str) -> None:
    run(kind, is_real=True, examples=4)
