"""Levels that share: deficit round robin is fair, nobody starves, and the strict order stays what it was."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rabbitlike.broker.message import Message
from rabbitlike.broker.queue_settings import weights
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.protocol.tables import Table
from tests.support.crash_pair import DurablePair, SimulatedDisk
from tests.support.pair import Pair

FIVE = (50, 25, 15, 7, 3)


def make_queue(pair: Pair, **arguments: object) -> Queue:
    table = Table()
    for name, value in arguments.items():
        table["x-" + name.replace("_", "-")] = value  # type: ignore[assignment]
    return pair.broker.vhosts["/"].declare_queue("q", arguments=table)


def put(queue: Queue, priority: int, count: int = 1) -> None:
    for _ in range(count):
        queue.enqueue(Message(b"\x00\x01q", b"\x00\x00", b"m", False, priority, queue.turn.now_ms))


def served(queue: Queue, count: int) -> list[int]:
    """The priorities of the next messages, each done with."""
    found = []
    for _ in range(count):
        message = queue.take()
        if message is None:
            break
        queue.settle(message)
        found.append(message.priority)
    return found


def test_a_thousand_of_each_are_served_by_weight() -> None:
    """G11: of the first hundred 50, 25, 15, 7 and 3."""
    queue = make_queue(Pair(), priority_mode="weighted", max_priority=4)
    for priority in range(5):
        put(queue, priority, 1000)
    assert Counter(served(queue, 100)) == {4: 50, 3: 25, 2: 15, 1: 7, 0: 3}
    assert Counter(served(queue, 900)) == {4: 450, 3: 225, 2: 135, 1: 63, 0: 27}
    everything = Counter(served(queue, 5000))
    assert sum(everything.values()) == 4000
    assert queue.ready.count == 0


def test_weights_without_a_maximum_make_the_levels() -> None:
    """G11: five weights, priorities 4 to 0."""
    queue = make_queue(Pair(), priority_mode="weighted", priority_weights="8, 1")
    put(queue, 0, 10)
    put(queue, 9, 100)
    assert served(queue, 9) == [9] * 8 + [0]
    assert queue.settings.levels == 2


@settings(deadline=None, max_examples=60)
@given(
    shares=st.lists(st.integers(1, 40), min_size=2, max_size=6),
    count=st.integers(1, 400),
    data=st.data(),
)
def test_every_level_with_a_backlog_gets_its_share(shares: list[int], count: int, data: st.DataObject) -> None:
    """Whoever has a backlog gets of any number of messages in a row its share by weight, give or take a round."""
    queue = make_queue(Pair(), priority_mode="weighted", priority_weights=shares, max_priority=len(shares) - 1)
    busy = data.draw(st.sets(st.integers(0, len(shares) - 1), min_size=1))
    for priority in busy:
        put(queue, priority, count + sum(shares))
    by_level = weights.by_level(shares, len(shares))
    total = sum(by_level[priority] for priority in busy)
    got = Counter(served(queue, count))
    for priority in busy:
        assert abs(got[priority] - count * by_level[priority] / total) <= 2 * max(shares)


@settings(deadline=None, max_examples=60)
@given(
    shares=st.lists(st.integers(1, 20), min_size=2, max_size=5),
    steps=st.lists(st.one_of(st.integers(0, 4), st.none()), max_size=200),
)
def test_nobody_starves(shares: list[int], steps: list[int | None]) -> None:
    """Whatever comes and goes, a level with something ready is served within one round; order within it is kept."""
    queue = make_queue(Pair(), priority_mode="weighted", priority_weights=shares, max_priority=len(shares) - 1)
    waiting: dict[int, list[int]] = {}
    passed: Counter[int] = Counter()
    for step in steps:
        if step is not None:
            level = min(step, len(shares) - 1)
            put(queue, level)
            waiting.setdefault(level, []).append(queue.last_position)
            continue
        message = queue.take()
        if message is None:
            assert not any(waiting.values())
            continue
        level = message.priority
        assert waiting[level].pop(0) == message.position
        queue.settle(message)
        passed[level] = 0
        for other, positions in waiting.items():
            if positions and other != level:
                passed[other] += 1
                # A level that was never seen before begins the round anew.
                assert passed[other] <= 2 * sum(shares)
    assert queue.ready.count == sum(len(positions) for positions in waiting.values())


def test_an_old_message_of_a_low_level_is_served() -> None:
    """G12: after x-priority-max-wait it goes first, though higher levels never run dry."""
    pair = Pair()
    queue = make_queue(pair, priority_mode="weighted", priority_weights=[10_000, 1], priority_max_wait=30_000)
    put(queue, 1, 100)
    put(queue, 0)
    assert served(queue, 50) == [1] * 50
    pair.advance(29_999)
    pair.broker.turn.begin()
    put(queue, 1, 100)
    assert served(queue, 50) == [1] * 50
    pair.advance(1)
    pair.broker.turn.begin()
    assert served(queue, 3) == [0, 1, 1]


def test_the_guard_holds_in_strict_mode_when_it_is_asked_for() -> None:
    """G12: strict order but for those that waited too long."""
    pair = Pair()
    queue = make_queue(pair, priority_max_wait=1000)
    put(queue, 0, 2)
    pair.advance(1000)
    pair.broker.turn.begin()
    put(queue, 9, 10)
    assert served(queue, 12) == [0, 9, 0, *[9] * 9]


def test_strict_is_the_default_and_starves() -> None:
    pair = Pair()
    queue = make_queue(pair)
    put(queue, 0)
    pair.advance(10**9)
    pair.broker.turn.begin()
    put(queue, 9, 3)
    assert served(queue, 4) == [9, 9, 9, 0]
    assert queue.ready.shares is None


def test_shares_hold_where_everything_is_late() -> None:
    """The guard takes every second message at most; the others go by weight."""
    pair = Pair()
    queue = make_queue(pair, priority_mode="weighted", max_priority=4)
    for priority in range(5):
        put(queue, priority, 1000)
    pair.advance(60_000)
    pair.broker.turn.begin()
    got = Counter(served(queue, 200))
    assert got[4] >= 50
    assert got[4] > got[3] > got[2]


def test_what_comes_back_goes_to_its_place() -> None:
    queue = make_queue(Pair(), priority_mode="weighted", priority_weights="2,1")
    put(queue, 1, 4)
    put(queue, 0, 2)
    first = queue.take()
    assert first is not None
    assert first.priority == 1
    queue.requeue(first)
    taken = [queue.take() for _ in range(6)]
    assert [message.position for message in taken if message is not None] == [1, 5, 2, 3, 6, 4]


def test_a_policy_gives_weights_and_takes_them_back() -> None:
    """G11: policy keys without the x-; how many levels there are stays as declared."""
    from rabbitlike.broker.policies.policies import make_policy

    pair = Pair()
    queue = make_queue(pair)
    put(queue, 9, 100)
    put(queue, 8, 100)
    put(queue, 0, 100)
    definition = {"priority-mode": "weighted", "priority-weights": [3, 2, 1]}
    policy = make_policy("/", "fair", "policy", pattern="q", definition=definition)  # type: ignore[arg-type]
    vhost = pair.broker.vhosts["/"]
    vhost.policies.set(policy)
    assert served(queue, 12) == [9, 9, 9, 8, 8, 0] * 2
    assert (queue.settings.levels, queue.settings.priority_max_wait_ms) == (10, 30_000)
    vhost.policies.clear("policy", "fair")
    assert served(queue, 5) == [9] * 5


def test_pages_are_shared_like_memory() -> None:
    """Levels whose backlog is on disk get the same shares, each in order, with little in memory."""
    disk = SimulatedDisk()
    pair = disk.boot(queue_window=65_536)
    queue = make_queue(pair, priority_mode="weighted", priority_weights=list(FIVE), max_priority=4)
    try:
        now_ms = queue.turn.now_ms
        for count in range(500):
            for priority in range(5):
                queue.enqueue(Message(b"\x00\x01q", b"\x00\x00", b"%04d" % count * 50, False, priority, now_ms))
            _commit(pair)
        assert queue.ready.paged_count > 1500
        shared = served_bodies(queue, 100)
        assert {priority: len(bodies) for priority, bodies in shared.items()} == {4: 50, 3: 25, 2: 15, 1: 7, 0: 3}
        assert queue.ready.memory_bytes < 400_000
        rest = served_bodies(queue, 5000)
        for priority in range(5):
            assert shared[priority] + rest[priority] == [b"%04d" % count * 50 for count in range(500)]
        assert queue.ready.count == 0
        assert [level.count for _, level in queue.ready.numbered()] == [0] * 5
    finally:
        disk.close()


def _commit(pair: DurablePair) -> None:
    while pair.begin_commit():
        pair.end_commit()


def served_bodies(queue: Queue, count: int) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for _ in range(count):
        message = queue.take()
        if message is None:
            break
        queue.settle(message)
        found.setdefault(message.priority, []).append(message.body)
    return found


@pytest.mark.parametrize(
    ("said", "levels", "expected"),
    [
        (None, 5, (3, 7, 15, 25, 50)),
        (None, 3, (1, 2, 3)),
        ([5, 2], 4, (2, 2, 2, 5)),
        ([5, 4, 3], 2, (4, 5)),
    ],
)
def test_weights_by_level(said: list[int] | None, levels: int, expected: tuple[int, ...]) -> None:
    assert weights.by_level(said, levels) == expected
