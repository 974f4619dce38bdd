"""What was delivered before a crash is redelivered after it: the mark on disk stands ahead of deliveries, within
bounds, and a delivery that it does not cover waits for the commit that does."""

from collections.abc import Iterator

import pytest
from pamqp import commands

from tests.support.crash_pair import Disk, DurablePair, SimulatedDisk
from tests.support.frames import loose
from tests.support.pair import Channel

#: As in broker/queues/storage/log.py; compiled, they are no attributes of the module.
LEAST_AHEAD = 256
MOST_AHEAD = 65_536
COMMITS_AHEAD = 8


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    disk = SimulatedDisk()
    yield disk
    disk.close()


def opened(pair: DurablePair, **arguments: object) -> Channel:
    ch = pair.connect().channel()
    declare(pair, ch, "q", **arguments)
    return ch


def declare(pair: DurablePair, ch: Channel, name: str, **arguments: object) -> None:
    ch.send(loose(commands.Queue.Declare, queue=name, durable=True, arguments=arguments))
    pair.commit_all()
    ch.expect(commands.Queue.DeclareOk)


def publish(ch: Channel, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        ch.publish(b"%d" % number, key="q", delivery_mode=2)


def crashed(disk: Disk) -> list[tuple[int, bool]]:
    """Number and redelivered of all that is left after a crash."""
    ch = disk.boot(crash=True).connect().channel()
    found = []
    while (message := ch.get("q")) is not None:
        found.append((int(message.body), message.redelivered))
    return found


def test_delivered_while_its_own_commit_is_under_way(disk: SimulatedDisk) -> None:
    pair = disk.boot()
    ch = opened(pair)
    publish(ch, 3)
    pair.begin_commit()
    ch.consume("q")
    assert len(ch.bodies()) == 3
    pair.write()
    assert crashed(disk) == [(0, True), (1, True), (2, True)]


def test_delivered_from_a_backlog(disk: SimulatedDisk) -> None:
    """However far it gets without a commit; and not many more are marked."""
    pair = disk.boot()
    ch = opened(pair)
    publish(ch, 4000)
    pair.commit_all()
    delivered = [ch.get("q", no_ack=False) for _ in range(700)]
    assert all(delivered)
    found = crashed(disk)
    assert [number for number, _ in found] == [*range(4000)]
    marked = [number for number, redelivered in found if redelivered]
    assert marked == [*range(len(marked))]
    assert 700 <= len(marked) <= 700 + COMMITS_AHEAD * (LEAST_AHEAD + 1)


def test_delivered_after_one_that_was_never_written(disk: SimulatedDisk) -> None:
    """A message of a higher priority comes, goes and leaves nothing; those before it are stored and not yet marked."""
    pair = disk.boot()
    ch = opened(pair)
    publish(ch, LEAST_AHEAD + 50)
    pair.commit_all()
    ch.publish(b"1000", key="q", delivery_mode=2, priority=5)
    assert ch.get("q") is not None
    for _ in range(LEAST_AHEAD + 10):
        assert ch.get("q", no_ack=False)
    found = dict(crashed(disk))
    assert all(found[number] for number in range(LEAST_AHEAD + 10))


def test_settled_in_memory_alone(disk: SimulatedDisk) -> None:
    """No ack is needed, and the disk does not know yet: it comes back, as redelivered."""
    pair = disk.boot()
    ch = opened(pair)
    publish(ch, 5)
    pair.commit_all()
    assert len(ch.drain("q")) == 5
    assert crashed(disk) == [(number, True) for number in range(5)]


def test_what_the_mark_does_not_cover_stays_until_it_does(disk: SimulatedDisk) -> None:
    pair = disk.boot()
    ch = opened(pair)
    publish(ch, LEAST_AHEAD + 100)
    pair.commit_all()
    pair.commit_for_delivery = lambda: None
    ch.send(loose(commands.Basic.Consume, queue="q"))
    assert ch.bodies() == [], "they go out together, and some are not covered"
    other = pair.connect().channel()
    assert other.get("q") is None, "another client is not held up"
    pair.commit_all()
    ch.expect(commands.Basic.ConsumeOk)
    assert len(ch.bodies()) == LEAST_AHEAD + 100
    assert all(redelivered for _, redelivered in crashed(disk))


def test_consumers_are_served_while_commits_fail(disk: SimulatedDisk) -> None:
    pair = disk.boot()
    ch = opened(pair)
    publish(ch, LEAST_AHEAD + 100)
    pair.commit_all()
    pair.commit_for_delivery = lambda: None
    ch.send(loose(commands.Basic.Consume, queue="q"))
    ch.expect_nothing()
    pair.broker.commit_failed()
    pair.settle()
    ch.expect(commands.Basic.ConsumeOk)
    assert len(ch.bodies()) == LEAST_AHEAD + 100
    publish(ch, 1, first=1000)
    assert ch.bodies() == [b"1000"]


def test_the_bound(disk: SimulatedDisk) -> None:
    """A fast consumer has a mark further ahead, but no further than so far."""
    pair = disk.boot()
    ch = opened(pair)
    count = MOST_AHEAD + 3000
    ch.consume("q")
    publish(ch, 2000)
    pair.commit_all()
    ch.ack(0, multiple=True)
    ch.client.drop()
    ch = pair.connect().channel()
    publish(ch, count, first=2000)
    pair.commit_all()
    marked = sum(redelivered for number, redelivered in crashed(disk) if number >= 2000)
    assert marked <= MOST_AHEAD


def test_a_clean_stop_marks_nothing_ahead(disk: SimulatedDisk) -> None:
    pair = disk.boot()
    ch = opened(pair)
    publish(ch, 20)
    pair.commit_all()
    assert [ch.get("q", no_ack=False) for _ in range(5)]
    ch.client.drop()
    pair.commit_all()
    ch = disk.boot().connect().channel()
    assert [getattr(ch.get("q"), "redelivered", None) for _ in range(20)] == [True] * 5 + [False] * 15


def test_new_messages_are_new_after_a_crash(disk: SimulatedDisk) -> None:
    """Also those that are read back from a page."""
    pair = disk.boot(queue_window=2000)
    opened(pair)
    pair = disk.boot(crash=True, queue_window=2000)
    ch = pair.connect().channel()
    publish(ch, 1)
    pair.commit_all()
    pair = disk.boot(crash=True, queue_window=2000)
    ch = pair.connect().channel()
    for number in range(1, 40):
        ch.publish(b"%d " % number + b"x" * 300, key="q", delivery_mode=2)
        pair.commit_all()
    flags = [getattr(ch.get("q"), "redelivered", None) for _ in range(40)]
    assert flags == [True] + [False] * 39


def test_a_mark_does_not_cost_a_try(disk: SimulatedDisk) -> None:
    """One that was perhaps delivered before the crash may fail as often as any other."""
    pair = disk.boot()
    ch = opened(pair, **{"x-delivery-limit": 1, "x-queue-type": "quorum"})
    publish(ch, 1)
    pair.commit_all()
    ch = disk.boot(crash=True).connect().channel()
    for _ in range(2):
        message = ch.get("q", no_ack=False)
        assert message is not None
        assert message.redelivered
        ch.nack(message.tag)
    assert ch.get("q") is None, "it has failed once too often"
