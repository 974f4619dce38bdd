"""Waiting messages over a disk: restarts and crashes, octets that leave memory and come back, purging, expiry."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from rabbitlike.broker import held
from rabbitlike.broker.publishing import verbs
from rabbitlike.broker.queues import browse
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.settle import Settle
from rabbitlike.storage.check import check
from tests.support.crash_pair import START_MS, Disk, DurablePair, SimulatedDisk, SqliteDisk
from tests.support.pair import Channel, Message

RETRY: dict[str, object] = {"x-retry-initial": 1000}
DLX: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture(params=["simulated", "sqlite"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    disk = SimulatedDisk() if request.param == "simulated" else SqliteDisk(tmp_path)
    yield disk
    disk.close()


def advance(pair: DurablePair, ms: int) -> None:
    pair.advance(ms)
    pair.commit_all()


def opened(pair: DurablePair, arguments: dict[str, object] = RETRY) -> Channel:
    """A channel, the durable queue q of these arguments, and one for dead letters."""
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="dead", durable=True))
    ch.send(commands.Queue.Declare(queue="q", durable=True, arguments=arguments))  # type: ignore[arg-type]
    pair.commit_all()
    ch.client.take_all()
    return ch


def publish(pair: DurablePair, ch: Channel, *bodies: bytes, **fields: object) -> None:
    for body in bodies:
        ch.publish(body, key="q", **{"delivery_mode": 2, **fields})
    pair.commit_all()


def fetch(ch: Channel, queue: str = "q") -> Message:
    message = ch.get(queue, no_ack=False)
    assert message is not None
    return message


def fail(pair: DurablePair, ch: Channel, count: int = 1) -> None:
    for tag in [fetch(ch).tag for _ in range(count)]:
        ch.nack(tag)
    pair.commit_all()


def the_queue(pair: DurablePair) -> Queue:
    return pair.broker.vhosts["/"].queues["q"]


def counts(pair: DurablePair) -> tuple[int, int, int]:
    queue = the_queue(pair)
    return queue.ready.count, queue.unacked_count, queue.awaiting_retry_count


@pytest.mark.parametrize("crash", [False, True])
def test_a_restart_neither_forgets_nor_shortens_a_wait(disk: Disk, crash: bool) -> None:
    """F5 F23 S14 what waited goes on waiting until its own time, with its attempts, in its place."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1", b"2", b"3")
    fail(pair, ch)
    advance(pair, 1000)
    fail(pair, ch)  # the first again, now for two seconds
    assert counts(pair) == (2, 0, 1)
    pair = disk.boot(now_ms=START_MS + 1500, crash=crash)
    ch = pair.connect().channel()
    assert counts(pair) == (2, 0, 1)
    assert fetch(ch).body == b"2"
    advance(pair, 1499)
    assert counts(pair) == (1, 1, 1)
    advance(pair, 1)
    first = fetch(ch)
    assert (first.body, first.headers["x-delivery-count"]) == (b"1", 2)
    ch.nack(first.tag)
    pair.commit_all()
    advance(pair, 3999)
    assert counts(pair)[2] == 1  # four seconds, the third gap
    advance(pair, 1)
    assert ch.drain("q") == [b"1", b"3"]


def test_what_came_due_while_the_broker_was_down(disk: Disk) -> None:
    """F23 it is ready at once, in its place, counted once."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1", b"2")
    fail(pair, ch)
    pair = disk.boot(now_ms=START_MS + 60_000, crash=True)
    ch = pair.connect().channel()
    assert counts(pair) == (2, 0, 0)
    first = fetch(ch)
    assert (first.body, first.headers["x-delivery-count"]) == (b"1", 1)


def test_a_failure_that_was_not_committed_never_happened(disk: Disk) -> None:
    """F23 a crash before the commit: the message is ready, redelivered, and not lost."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1")
    message = fetch(ch)
    pair.commit_all()
    ch.nack(message.tag)
    pair = disk.boot(crash=True)
    ch = pair.connect().channel()
    assert counts(pair) == (1, 0, 0)
    assert fetch(ch).redelivered


def test_settled_for_good_after_a_wait(disk: Disk, tmp_path: Path) -> None:
    """F23 one that was done after its retry does not come back, and leaves nothing in the tables."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1", b"2")
    fail(pair, ch)
    pair = disk.boot(now_ms=START_MS + 10, crash=True)
    ch = pair.connect().channel()
    advance(pair, 990)
    ch.ack(fetch(ch).tag)
    pair.commit_all()
    pair = disk.boot(crash=True)
    assert counts(pair) == (1, 0, 0)
    assert pair.connect().channel().drain("q") == [b"2"]
    pair.commit_all()
    pair = disk.boot()
    assert counts(pair) == (0, 0, 0)
    if isinstance(disk, SqliteDisk):
        disk.run(pair.store.close())
        assert all(check(life).is_sound for life in tmp_path.iterdir() if life.is_dir())
        disk.boot()


def test_it_is_dead_in_time_after_a_restart(disk: Disk) -> None:
    """F7 F15 F23 total time and time to live are known of a message that was never read since."""
    pair = disk.boot()
    ch = opened(pair, {**DLX, "x-retry-initial": 60_000, "x-retry-timeout": 5000})
    publish(pair, ch, b"old")
    publish(pair, ch, b"short", expiration="3000")
    fail(pair, ch, 2)
    pair = disk.boot(now_ms=START_MS + 1000, crash=True)
    ch = pair.connect().channel()
    advance(pair, 1999)
    assert ch.declare("dead", passive=True).message_count == 0
    advance(pair, 1)
    assert fetch(ch, "dead").headers["x-first-death-reason"] == "expired"
    advance(pair, 1999)
    assert ch.get("dead") is None
    advance(pair, 1)
    assert fetch(ch, "dead").headers["x-first-death-reason"] == "retry_timeout"


def test_purging_after_a_restart(disk: Disk) -> None:
    """S9 pages that some messages are out of: those that are held survive, the rest is gone for good."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1", b"2", b"3", b"4")
    fail(pair, ch, 2)
    pair = disk.boot(now_ms=START_MS + 500, crash=True)
    ch = pair.connect().channel()
    advance(pair, 500)
    ch.publish(b"5", key="q", delivery_mode=2)
    held = fetch(ch)
    assert held.body == b"1"
    ch.send(commands.Queue.Purge(queue="q"))
    pair.commit_all()
    assert ch.expect(commands.Queue.PurgeOk).message_count == 4
    assert counts(pair) == (0, 1, 0)
    pair = disk.boot(now_ms=START_MS + 2000, crash=True)
    assert pair.connect().channel().drain("q") == [b"1"]


def test_purging_what_waits_unread(disk: Disk) -> None:
    """S9 purged before it was due, it is not there after another crash either."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1", b"2")
    fail(pair, ch)
    pair = disk.boot(now_ms=START_MS + 1, crash=True)
    ch = pair.connect().channel()
    ch.send(commands.Queue.Purge(queue="q"))
    pair.commit_all()
    assert ch.expect(commands.Queue.PurgeOk).message_count == 2
    pair = disk.boot(crash=True)
    assert counts(pair) == (0, 0, 0)


@pytest.mark.parametrize("persistent", [True, False])
def test_octets_leave_memory_and_come_back(disk: Disk, persistent: bool) -> None:
    """F5 beyond the window a waiting message is a place on disk; it comes back as it was."""
    pair = disk.boot(queue_window=10_000)
    ch = opened(pair)
    bodies = [b"%d" % number * 1000 for number in range(200, 300)]
    publish(pair, ch, *bodies, delivery_mode=2 if persistent else 1, priority=3)
    for tag in [fetch(ch).tag for _ in bodies]:
        ch.nack(tag)
        pair.commit_all()
    retries = the_queue(pair).retries
    assert retries is not None
    assert retries.count == 100
    assert retries.memory_bytes < 100 * 300 + 10_000 + 3 * 3000
    assert retries.body_bytes == sum(map(len, bodies))
    advance(pair, 1000)
    ready = the_queue(pair).ready
    for body in bodies:
        message = fetch(ch)
        assert (message.body, message.properties.priority, message.headers["x-delivery-count"]) == (body, 3, 1)
        assert ready.memory_bytes + retries.memory_bytes < 100 * 300 + 2 * 10_000 + 3 * 3000
        ch.ack(message.tag)
    pair.commit_all()
    assert counts(pair) == (0, 0, 0)
    assert retries.memory_bytes == 0


WINDOW = 20_000
#: Bodies of the ready and of the waiting ones, and one more; each message's place besides.
BOUND = 2 * WINDOW + 1000 + 300 * 300


def many_due(disk: Disk, arguments: dict[str, object] | None = None) -> DurablePair:
    """Three hundred messages of a thousand octets, unread since a crash, come due at once."""
    pair = disk.boot(queue_window=WINDOW)
    ch = opened(pair, RETRY | (arguments or {}))
    publish(pair, ch, *(b"%03d" % number + b"x" * 997 for number in range(300)))
    fail(pair, ch, 300)
    pair = disk.boot(now_ms=START_MS + 500, crash=True, queue_window=WINDOW)
    assert counts(pair) == (0, 0, 300)
    advance(pair, 500)
    return pair


def in_memory(pair: DurablePair) -> int:
    queue = the_queue(pair)
    assert queue.retries is not None
    return queue.ready.memory_bytes + queue.retries.memory_bytes


def test_many_that_come_due_at_once_come_back_by_and_by(disk: Disk) -> None:
    """F5 no more than a window of them is in memory; a consumer gets all, in order, as room is made."""
    pair = many_due(disk)
    ready, _, waiting = counts(pair)
    assert ready + waiting == 300
    assert 10 <= ready < 30
    assert in_memory(pair) < BOUND
    ch = pair.connect().channel()
    ch.qos(7)
    ch.consume("q")
    got: list[bytes] = []
    while messages := ch.deliveries():
        for message in messages:
            got.append(message.body[:3])
            ch.ack(message.tag)
        assert in_memory(pair) < BOUND
        advance(pair, 0)
    assert got == [b"%03d" % number for number in range(300)]
    assert counts(pair) == (0, 0, 0)


def test_whoever_asks_for_one_is_given_those_that_are_due(disk: Disk) -> None:
    """F5 basic.get finds no queue empty that has something due, however many are asked for in one turn."""
    pair = many_due(disk)
    ch = pair.connect().channel()
    bodies = [message.body[:3] for message in (ch.get("q") for _ in range(300)) if message is not None]
    assert bodies == [b"%03d" % number for number in range(300)]
    assert ch.get("q") is None


def test_those_that_leave_otherwise_make_room(disk: Disk) -> None:
    """F5 F15 expired, dropped or deleted: whatever takes one out of the queue lets the next in."""
    pair = many_due(disk, {"x-message-ttl": 3000, **DLX})
    queue = the_queue(pair)
    for _ in range(100):
        first = queue.ready.head()
        assert first is not None
        pair.broker.turn.begin()
        assert browse.remove(queue, [first.position]) == 1
        pair.broker.turn.finish()
        advance(pair, 0)
    assert sum(counts(pair)) == 200
    advance(pair, 2000)
    assert counts(pair) == (0, 0, 0)
    assert pair.broker.vhosts["/"].queues["dead"].ready.count == 200


def test_purging_those_that_are_due(disk: Disk) -> None:
    """F5 S9 in memory or not, they are gone, and stay so."""
    pair = many_due(disk)
    pair.broker.turn.begin()
    assert the_queue(pair).purge() == 300
    pair.broker.turn.finish()
    pair.commit_all()
    assert counts(pair) == (0, 0, 0)
    ch = pair.connect().channel()
    publish(pair, ch, b"new")
    fail(pair, ch)
    advance(pair, 1000)
    assert ch.drain("q") == [b"new"]
    pair = disk.boot(now_ms=START_MS + 5000, crash=True)
    assert sum(counts(pair)) <= 1


def test_a_batch_is_read_once_for_many(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """F5 what was stored together and comes due together is read together."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, *(b"%d" % number for number in range(500)))
    fail(pair, ch, 500)
    pair = disk.boot(now_ms=START_MS + 1, crash=True)
    reads = []
    read = pair.store.read
    monkeypatch.setattr(pair.store, "read", lambda batch_id: reads.append(batch_id) or read(batch_id))
    advance(pair, 1000)
    assert counts(pair) == (500, 0, 0)
    assert len(reads) == 1
    assert pair.connect().channel().drain("q") == [b"%d" % number for number in range(500)]


def test_deadlines_do_not_outlive_the_broker(disk: Disk) -> None:
    """F4 F23 S14 what was held when the broker died is ready again, as redelivered."""
    pair = disk.boot()
    ch = opened(pair, {"x-ack-timeout": 1000})
    publish(pair, ch, b"1")
    fetch(ch)
    pair.commit_all()
    pair = disk.boot(crash=True)
    ch = pair.connect().channel()
    message = fetch(ch)
    assert message.redelivered
    advance(pair, 1000)
    assert counts(pair) == (1, 0, 0)


@pytest.mark.parametrize("crash", [False, True])
def test_loans_do_not_outlive_the_broker(disk: Disk, crash: bool) -> None:
    """F23 S3 what somebody had fetched over HTTP and not settled is ready again, as delivered before."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"acked", b"held")
    guest = pair.broker.users.get("guest")
    assert guest is not None
    pair.broker.turn.begin()
    verbs.lease(the_queue(pair), verbs.fetch(the_queue(pair), 2, guest, no_ack=False), 60_000)
    held.settle(the_queue(pair), 1, Settle.ACK)
    pair.broker.turn.finish()
    pair.commit_all()
    assert counts(pair) == (0, 1, 0)
    pair = disk.boot(now_ms=START_MS + 1, crash=crash)
    assert counts(pair) == (1, 0, 0)
    message = fetch(pair.connect().channel())
    assert (message.body, message.redelivered) == (b"held", True)
