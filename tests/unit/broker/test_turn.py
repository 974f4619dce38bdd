"""Turns end when their time is over; what is left goes on after the others, and nothing is lost or done twice."""

from collections.abc import Callable
from functools import partial

from rabbitlike.broker.budget import MOST_LATER, STORE_MS, STRIDE, TURNS_MS
from rabbitlike.broker.ports import Pumped
from rabbitlike.broker.turn import Turn
from rabbitlike.testing import FakeClock

#: Longer than any turn: with it each look at the clock finds the time over.
LONG_NS = 1_000_000_000


class Counted(Pumped):
    def __init__(self, pumped: list[int], number: int) -> None:
        super().__init__()
        self.pumped = pumped
        self.number = number

    def pump(self) -> None:
        self.pumped.append(self.number)


class Client:
    def __init__(self) -> None:
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1


def sliced() -> tuple[FakeClock, Turn]:
    clock = FakeClock(tick_ns=LONG_NS)
    turn = Turn(clock)
    turn.stride = 1
    return clock, turn


def counting(turn: Turn, done: list[str], name: str, steps: int) -> Callable[[], bool]:
    """Work of so many steps."""

    def work() -> bool:
        nonlocal steps
        while steps:
            steps -= 1
            done.append(name)
            if turn.is_spent():
                break
        return steps > 0

    return work


def test_short_work_is_done_at_once() -> None:
    clock = FakeClock()
    turn = Turn(clock)
    done: list[str] = []
    turn.begin()
    assert turn.run(counting(turn, done, "a", 10_000))
    turn.finish()
    assert len(done) == 10_000
    assert not turn.is_behind


def test_long_work_goes_on_in_turns_to_come() -> None:
    clock, turn = sliced()
    done: list[str] = []
    turn.begin()
    assert not turn.run(counting(turn, done, "a", 3))
    turn.finish()
    assert done == ["a"]
    assert turn.is_behind
    clock.advance(0)
    assert done == ["a"] * 3
    assert not turn.is_behind


def test_only_what_a_client_waits_for_goes_on_while_the_store_is_behind() -> None:
    """A flood that keeps the disk busy must not stop a client whose request was cut in two."""
    clock, turn = sliced()
    done: list[str] = []
    is_behind = True
    turn.is_store_behind = lambda: is_behind
    turn.begin()
    turn.go_on(counting(turn, done, "own", 2))
    turn.poll(counting(turn, done, "client's", 2))
    turn.finish()
    for _ in range(5):
        clock.advance(STORE_MS)
    assert done == ["client's"] * 2
    is_behind = False
    clock.advance(STORE_MS)
    assert done == ["client's"] * 2 + ["own"] * 2
    assert not turn.is_behind


def test_clients_do_not_wait_for_later_calls() -> None:
    """They may wait for the store for seconds, and are no client's doing but the one's that brought them about."""
    clock = FakeClock()
    turn = Turn(clock)
    turn.is_store_behind = lambda: True
    clock.tick_ns = LONG_NS
    turn.begin()
    for _ in range(2 * MOST_LATER):
        turn.later(lambda: None)
    turn.finish()
    clock.tick_ns = 0
    done: list[int] = []
    turn.begin()
    assert turn.is_spent(STRIDE)
    assert not turn.is_late(STRIDE)
    for number in range(10):
        turn.poll(partial(done.append, number))  # type: ignore[arg-type]  # None: nothing is left to do
    turn.finish()
    clock.advance(STORE_MS)
    assert done == list(range(10))


def test_works_take_turns() -> None:
    clock, turn = sliced()
    done: list[str] = []
    turn.begin()
    for name in "abc":
        turn.run(counting(turn, done, name, 3))
    turn.finish()
    clock.advance(0)
    assert "".join(done) == "abcabcabc"


def test_the_clock_is_read_once_in_many_steps() -> None:
    clock = FakeClock(tick_ns=1)
    turn = Turn(clock)
    turn.begin()
    before = clock.ticks_ns()
    for _ in range(100 * STRIDE):
        assert not turn.is_spent()
    assert clock.ticks_ns() - before == 101
    clock.tick_ns = LONG_NS
    turn.look()
    assert turn.is_spent()
    assert turn.is_spent(), "and it stays so"


def test_work_that_fails_is_given_up_and_keeps_nothing_back() -> None:
    clock, turn = sliced()
    done: list[str] = []

    def fails() -> bool:
        raise RuntimeError

    turn.begin()
    turn.go_on(fails)
    turn.go_on(counting(turn, done, "a", 2))
    turn.finish()
    clock.advance(0)
    assert done == ["a", "a"]
    assert not turn.is_behind


def test_what_a_turn_has_no_time_for_comes_in_turns_to_come() -> None:
    """Queues, clients and later calls: one of each in a turn, all in the end, each once."""
    clock, turn = sliced()
    pumped: list[int] = []
    called: list[int] = []
    clients = [Client() for _ in range(5)]
    turn.begin()
    for number in range(5):
        turn.later(lambda number=number: called.append(number))  # type: ignore[misc]
        turn.touch(Counted(pumped, number))
        turn.mark(clients[number])
    assert not turn.finish()
    assert (len(called), len(pumped)) == (1, 0)
    clock.advance(0)
    assert called == list(range(5))
    assert pumped == list(range(5))
    assert [client.flushed for client in clients] == [1] * 5
    assert not turn.is_behind


def test_what_is_left_of_one_turn_does_not_keep_the_next_from_its_own() -> None:
    clock, turn = sliced()
    pumped: list[int] = []
    turn.begin()
    for number in range(100):
        turn.touch(Counted(pumped, number))
    assert turn.finish(), "only later calls must be waited for"
    turn.begin()
    turn.touch(Counted(pumped, 1000))
    turn.finish()
    assert pumped == [0, 1000]
    clock.advance(0)
    assert sorted(pumped) == [*range(100), 1000]


def test_a_queue_that_waits_for_its_turn_is_touched_once() -> None:
    clock, turn = sliced()
    pumped: list[int] = []
    queues = [Counted(pumped, number) for number in range(3)]
    turn.begin()
    for queue in queues:
        turn.touch(queue)
    turn.finish()
    turn.begin()
    turn.touch(queues[2])
    turn.finish()
    clock.advance(0)
    assert pumped == [0, 1, 2]


def test_long_work_pauses_while_many_later_calls_wait() -> None:
    """Work whose every step brings about a slow call must not pile these up."""
    clock = FakeClock()
    turn = Turn(clock)
    most = 0

    def produce() -> bool:
        nonlocal most
        for number in range(10 * MOST_LATER):
            turn.later(lambda: None)
            if turn.is_spent():
                most = max(most, number)
                return True
        return False

    turn.begin()
    assert not turn.run(produce)
    turn.finish()
    assert 0 < most < 2 * MOST_LATER


def test_turns_are_measured() -> None:
    clock = FakeClock(tick_ns=1_000)
    turn = Turn(clock)
    turn.begin()
    turn.finish()
    assert (turn.counts[0], turn.longest_ns) == (1, 1_000)
    turn.begin()
    clock.ticks_ns()
    turn.finish()
    assert (turn.counts[0], turn.longest_ns, turn.total_ns) == (2, 2_000, 3_000)
    clock.tick_ns = 60_000_000
    turn.begin()
    turn.finish()
    assert (turn.counts[TURNS_MS.index(100)], sum(turn.counts)) == (1, 3)
