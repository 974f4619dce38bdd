"""Dead letters that are sent at least once, under random work and sudden ends, against a model of who has what.

Two queues are to have the dead letters, one of which is small and refuses what is too much; they are bound and unbound,
and the exchange comes and goes. A commit takes how things stand when it begins: that is what a crash leaves once it is
written, dead letter by dead letter, and for each of them who has it already. Windows are so small that most is on disk
only.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from pamqp import base, commands

from rabbitlike.broker.queues.dead_letters.held_dead_letters import LONGEST_MS
from tests.support.crash_pair import START_MS, Disk, SimulatedDisk, SqliteDisk
from tests.support.pair import loose

#: What the two take at most.
ROOM: Final = {"small": 3, "large": 1000}
NAME = st.sampled_from(sorted(ROOM))
SIZE = st.sampled_from([0, 400, 3000])
COUNT = st.integers(1, 5)


@dataclass
class State:
    """Who has what, by the numbers of messages."""

    has_exchange: bool = False
    bound: set[str] = field(default_factory=set)
    ready: list[int] = field(default_factory=list)
    #: In the order they died, with those who have them already.
    letters: dict[int, set[str]] = field(default_factory=dict)
    targets: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in ROOM})

    def send(self) -> None:
        """All dead letters are tried, oldest first."""
        if not self.has_exchange:
            return
        for number, taken in list(self.letters.items()):
            is_refused = False
            for name in self.bound - taken:
                if len(self.targets[name]) < ROOM[name]:
                    self.targets[name].append(number)
                    taken.add(name)
                else:
                    is_refused = True
            if taken and not is_refused:
                del self.letters[number]


class HeldDeadLettersMachine(RuleBasedStateMachine):
    """After every step the queue has time to look what it can send."""

    disk: Disk

    @initialize(window=st.sampled_from([1000, 5000, 65_536]), is_real=st.sampled_from([False, False, False, True]))
    def start(self, window: int, is_real: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rabbitlike-model-")) if is_real else None
        self.disk = SimulatedDisk() if self.folder is None else SqliteDisk(self.folder)
        self.window = window
        self.published = 0
        self.state = State()
        self.certain = self.coming = copy.deepcopy(self.state)
        self.now_ms = START_MS
        self.boot(crash=False)
        arguments = {"x-overflow": "reject-publish", "x-dead-letter-exchange": "dlx"}
        quorum = {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once"}
        self.do(loose(commands.Queue.Declare, queue="q", durable=True, arguments={**arguments, **quorum}))
        for name, room in ROOM.items():
            limits = {"x-max-length": room, "x-overflow": "reject-publish"}
            self.do(loose(commands.Queue.Declare, queue=name, durable=True, arguments=limits))
        self.pair.commit_all()

    def boot(self, *, crash: bool) -> None:
        self.pair = self.disk.boot(now_ms=self.now_ms, crash=crash, queue_window=self.window)
        self.pair.commit_for_delivery = self.commit_early
        self.channel = self.pair.connect().channel()
        #: Whose answers wait for the disk.
        self.admin = self.pair.connect().channel()
        self.look()

    def do(self, method: base.Frame) -> None:
        self.admin.send(method)
        self.look()

    def look(self) -> None:
        self.pair.advance(2 * LONGEST_MS)
        self.now_ms = self.pair.clock.now_ms()
        self.state.send()

    def teardown(self) -> None:
        try:
            if hasattr(self, "pair"):
                self.agrees()
                for name, numbers in (("q", self.state.ready), *self.state.targets.items()):
                    assert [int(body.split()[0]) for body in self.channel.drain(name)] == numbers
        finally:
            if hasattr(self, "disk"):
                self.disk.close()
            if getattr(self, "folder", None) is not None:
                shutil.rmtree(self.folder)  # type: ignore[arg-type]

    # Messages

    def publish_one(self, size: int, **fields: object) -> None:
        self.published += 1
        body = b"%d " % self.published + b"x" * size
        self.channel.publish(body, key="q", **{"delivery_mode": 2, **fields})

    @rule(count=COUNT, size=SIZE)
    def publish(self, count: int, size: int) -> None:
        for _ in range(count):
            self.publish_one(size)
            self.state.ready.append(self.published)
        self.look()

    @rule(count=COUNT, size=SIZE)
    def publish_short_lived(self, count: int, size: int) -> None:
        for _ in range(count):
            self.publish_one(size, expiration="5")
            self.state.letters[self.published] = set()
        self.look()

    @rule(count=COUNT)
    def reject(self, count: int) -> None:
        for _ in range(count):
            message = self.channel.get("q", no_ack=False)
            if message is None:
                assert not self.state.ready
                break
            number = self.state.ready.pop(0)
            assert int(message.body.split()[0]) == number
            self.state.letters[number] = set()
            self.channel.reject(message.tag, requeue=False)
            self.state.send()
        self.look()

    @rule(name=NAME)
    def take(self, name: str) -> None:
        numbers = self.state.targets[name]
        expected = numbers.pop(0) if numbers else None
        message = self.channel.get(name)
        assert (None if message is None else int(message.body.split()[0])) == expected
        self.look()

    @rule()
    def purge(self) -> None:
        self.state.ready.clear()
        self.state.letters.clear()
        self.do(commands.Queue.Purge(queue="q"))

    # Ways

    @rule()
    def declare_exchange(self) -> None:
        self.state.has_exchange = True
        self.do(commands.Exchange.Declare(exchange="dlx", exchange_type="fanout", durable=True))

    @rule()
    def delete_exchange(self) -> None:
        self.state.has_exchange = False
        self.state.bound.clear()
        self.do(commands.Exchange.Delete(exchange="dlx"))

    @rule(name=NAME)
    def bind(self, name: str) -> None:
        if self.state.has_exchange:
            self.state.bound.add(name)
            self.do(commands.Queue.Bind(queue=name, exchange="dlx"))

    @rule(name=NAME)
    def unbind(self, name: str) -> None:
        if self.state.has_exchange:
            self.state.bound.discard(name)
            self.do(commands.Queue.Unbind(queue=name, exchange="dlx"))

    # The disk

    def commit_early(self) -> None:
        """A delivery beyond the mark waits for a commit, which also holds everything before it."""
        self.pair.commit_all()
        self.certain = self.coming = copy.deepcopy(self.state)

    @rule()
    def begin_commit(self) -> None:
        if self.pair.begin_commit():
            self.coming = copy.deepcopy(self.state)

    @rule()
    def end_commit(self) -> None:
        if self.pair.in_flight is not None:
            self.pair.end_commit()
            self.certain = copy.deepcopy(self.coming)

    @rule(is_written=st.booleans())
    def crash(self, is_written: bool) -> None:
        if self.pair.in_flight is not None and is_written:
            self.pair.write()
            self.certain = self.coming
        self.state = copy.deepcopy(self.certain)
        self.boot(crash=True)

    @rule()
    def restart(self) -> None:
        while self.pair.in_flight is not None or self.pair.is_awake:
            self.begin_commit()
            self.end_commit()
        self.boot(crash=False)

    # What must be true

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "pair"):
            return
        queues = self.pair.broker.vhosts["/"].queues
        found = queues["q"]
        assert (found.ready.count, found.held_dead_letter_count) == (len(self.state.ready), len(self.state.letters))
        assert found.persistent_count == len(self.state.ready) + len(self.state.letters)
        for name, numbers in self.state.targets.items():
            assert queues[name].ready.count == len(numbers)


def test_letters_agree_with_the_model() -> None:
    """Nothing that was committed is lost, or anywhere twice."""
    run_state_machine_as_test(
        HeldDeadLettersMachine,
        settings=settings(max_examples=200, stateful_step_count=40, deadline=None, report_multiple_bugs=False),
    )
