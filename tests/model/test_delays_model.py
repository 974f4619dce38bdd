"""Delays against a small model, driven by hypothesis: publishing, time, cancelling, commits, crashes.

The model is a list of (due, number). What was not committed at a crash may or may not have been; everything else comes
once, in order, when it is due, and not before.
"""

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rabbitlike.broker.delays import views as delay_views
from rabbitlike.broker.delays.delays import Delays
from rabbitlike.protocol.tables import Table
from tests.support.crash_pair import START_MS, DurablePair, SimulatedDisk

DAY_MS = 86_400_000
ADDRESS = b"\x00\x01q"
PERSISTENT = b"\x10\x00\x02"
WAITS = strategies.one_of(
    strategies.integers(1, 50),
    strategies.integers(1, 5_000),
    strategies.integers(1, 200_000),
    strategies.integers(1, 40 * DAY_MS),
    strategies.sampled_from([100, 1000, 60_000, DAY_MS]),
)


class DelaysMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.pair: DurablePair = self.disk.boot(queue_window=65_536)
        self.pair.broker.vhosts["/"].declare_queue("q", durable=True, arguments=Table())
        self.number = 0
        #: What waits: (due, number), and what of it a crash cannot take.
        self.waiting: list[tuple[int, int]] = []
        self.kept: list[tuple[int, int]] = []
        self.came: list[int] = []
        self.commit()

    def teardown(self) -> None:
        self.advance(50 * DAY_MS)
        assert self.waiting == []
        assert self.delays.pending == 0
        self.disk.close()

    @property
    def delays(self) -> Delays:
        return self.pair.broker.vhosts["/"].delays

    @property
    def now_ms(self) -> int:
        return self.pair.clock.now_ms()

    @rule(wait_ms=WAITS, count=strategies.integers(1, 40))
    def publish(self, wait_ms: int, count: int) -> None:
        self.pair.broker.turn.begin()
        for at in range(count):
            self.number += 1
            due_ms = self.now_ms + wait_ms + at % 3
            self.delays.add(ADDRESS, PERSISTENT, b"%d" % self.number, True, -1, due_ms)
            self.waiting.append((due_ms, self.number))
        self.pair.broker.turn.finish()

    @rule(ms=WAITS)
    def advance(self, ms: int) -> None:
        self.pair.advance(ms)
        due = sorted(each for each in self.waiting if each[0] <= self.now_ms)
        self.waiting = [each for each in self.waiting if each[0] > self.now_ms]
        self.came = [number for _, number in due]
        self.take()

    def take(self) -> None:
        """What has come since the last look is what was due, in order."""
        queue = self.pair.broker.vhosts["/"].queues["q"]
        got = []
        while (message := queue.fetch()) is not None:
            got.append(int(message.body))
            queue.settle(message)
        assert got == self.came
        self.came = []

    @rule()
    def commit(self) -> None:
        while self.pair.begin_commit():
            self.pair.end_commit()
        self.kept = list(self.waiting)

    @precondition(lambda self: self.waiting)
    @rule(data=strategies.data())
    def cancel(self, data: strategies.DataObject) -> None:
        messages = [message for _, portion in delay_views.portions(self.delays) for message in portion()]
        chosen = data.draw(strategies.sampled_from(sorted(messages, key=lambda message: message.position)))
        self.pair.broker.turn.begin()
        found = [each for each in delay_views.find(self.delays, chosen.expires_at_ms, chosen.position) if each]
        number = int(found[0].body)
        assert self.delays.cancel(found[0])
        self.pair.broker.turn.finish()
        self.waiting = [each for each in self.waiting if each[1] != number]

    @rule(ms=strategies.integers(0, 100_000), crash=strategies.booleans())
    def restart(self, ms: int, crash: bool) -> None:
        self.commit()
        now_ms = self.now_ms + ms
        self.pair = self.disk.boot(now_ms=now_ms, crash=crash, queue_window=65_536)
        self.advance(0)

    @precondition(lambda self: self.kept)
    @rule()
    def crash_uncommitted(self) -> None:
        """Everything since the last commit is undone: what went out waits again, and goes out again."""
        now_ms = self.now_ms
        self.pair = self.disk.boot(now_ms=now_ms, crash=True, queue_window=65_536)
        self.waiting = list(self.kept)
        self.advance(0)
        self.commit()

    @invariant()
    def all_are_there(self) -> None:
        if self.now_ms > START_MS and self.delays._log is not None:
            found = sum(len(portion()) for _, portion in delay_views.portions(self.delays))
            assert found == len(self.waiting) == self.delays.pending
            assert self.delays.count_of("") == self.delays.pending


TestDelays = DelaysMachine.TestCase
TestDelays.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
