"""Delays over a disk: restarts, crashes, buckets that leave memory and come back, cancelling, the machine's clock."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pamqp import commands

from rabbitlike.broker.delays import delays
from rabbitlike.broker.delays import log as delay_log
from rabbitlike.broker.delays import views as delay_views
from rabbitlike.broker.delays.delays import Delays
from rabbitlike.broker.message import Message
from rabbitlike.storage.check import check
from tests.support import turns
from tests.support.crash_pair import START_MS, Disk, DurablePair, SimulatedDisk, SqliteDisk
from tests.support.pair import Channel, Typed

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(params=["simulated", "sqlite"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    disk = SimulatedDisk() if request.param == "simulated" else SqliteDisk(tmp_path)
    yield disk
    disk.close()


def advance(pair: DurablePair, ms: int, step_ms: int = 0) -> None:
    """Let time pass, and commits happen meanwhile."""
    end_ms = pair.clock.now_ms() + ms
    while pair.clock.now_ms() < end_ms:
        pair.advance(min(step_ms or ms, end_ms - pair.clock.now_ms()))
        pair.commit_all()


def open_channel(pair: DurablePair) -> Channel:
    ch = pair.connect().channel()
    pair.commit_all()
    ch.send(commands.Queue.Declare(queue="q", durable=True))
    pair.commit_all()
    ch.client.received()
    while ch.client.take(ch.number) is not None:
        pass
    return ch


def publish(ch: Channel, body: bytes, delay_ms: int, **fields: object) -> None:
    ch.publish(body, key="q", headers={"x-delay": Typed("l", delay_ms)}, **{"delivery_mode": 2, **fields})


def delays_of(pair: DurablePair) -> Delays:
    return pair.broker.vhosts["/"].delays


def waiting(pair: DurablePair) -> list[Message]:
    """All that wait, in order."""
    found = [message for _, portion in delay_views.portions(delays_of(pair)) for message in portion()]
    return sorted(found, key=lambda message: (message.expires_at_ms, message.position))


def pending(pair: DurablePair) -> list[bytes]:
    return [message.body for message in waiting(pair)]


# ------------------------------------------------------------------------------------------------ restarts


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("delay_ms", [50, 1000, 8 * DAY_MS])
def test_delays_outlive_a_restart(disk: Disk, crash: bool, delay_ms: int) -> None:
    """G10 exact through a restart"""
    pair = disk.boot()
    ch = open_channel(pair)
    publish(ch, b"m", delay_ms)
    pair.commit_all()
    pair = disk.boot(now_ms=START_MS + 20, crash=crash)
    ch = open_channel(pair)
    assert delays_of(pair).pending == 1
    assert delays_of(pair).count_of("") == 1
    advance(pair, delay_ms - 21)
    assert ch.get() is None
    advance(pair, 1)
    assert ch.drain() == [b"m"]
    pair.commit_all()
    pair = disk.boot(now_ms=START_MS + delay_ms, crash=crash)
    assert delays_of(pair).pending == 0


@pytest.mark.parametrize("crash", [False, True])
def test_what_is_overdue_goes_out_at_once_and_in_order(disk: Disk, crash: bool) -> None:
    """G10"""
    pair = disk.boot()
    ch = open_channel(pair)
    waits = [DAY_MS, 5, 70_000, 1000, HOUR_MS, 5, 20_000, 1000]
    for number, delay_ms in enumerate(waits):
        publish(ch, f"{delay_ms:09}.{number}".encode(), delay_ms)
        pair.commit_all()
    pair = disk.boot(now_ms=START_MS + 2 * DAY_MS, crash=crash)
    ch = open_channel(pair)
    pair.advance(0)
    pair.commit_all()
    assert ch.drain() == sorted(f"{delay_ms:09}.{number}".encode() for number, delay_ms in enumerate(waits))


def test_a_crash_before_the_commit_of_a_release_loses_and_doubles_nothing(disk: Disk) -> None:
    """Out of the delays and into the queue in one commit"""
    pair = disk.boot()
    ch = open_channel(pair)
    for number in range(20):
        publish(ch, str(number).encode(), 100 + number % 3)
    pair.commit_all()
    pair.advance(101)  # two thirds are due, and nothing of it is committed
    assert len(ch.drain()) == 14
    pair = disk.boot(now_ms=START_MS + 50, crash=True)
    ch = open_channel(pair)
    assert delays_of(pair).pending == 20
    pair.advance(51)
    pair.commit_all()
    pair = disk.boot(now_ms=START_MS + 101, crash=True)  # after the commit
    ch = open_channel(pair)
    pair.advance(0)
    assert len(ch.drain()) == 14
    assert delays_of(pair).pending == 6
    pair.advance(100)
    assert ch.drain() == [str(number).encode() for number in range(20) if number % 3 == 2]


def test_what_is_due_waits_while_the_store_is_behind(disk: Disk) -> None:
    """A million that are due together must not all be in memory and in one commit."""
    pair = disk.boot()
    ch = open_channel(pair)
    for number in range(3):
        publish(ch, b"%d" % number, 1000)
    pair.commit_all()
    is_behind = True
    pair.broker.turn.is_store_behind = lambda: is_behind
    advance(pair, 5000, 100)
    assert pair.broker.vhosts["/"].queues["q"].message_count == 0
    is_behind = False
    advance(pair, 2)
    assert ch.drain("q") == [b"0", b"1", b"2"]


def test_what_is_due_goes_out_in_slices(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    stride = 250  # `STRIDE` there, which cannot be imported where it is compiled
    count = 4 * stride
    for number in range(count):
        publish(ch, b"%d" % number, 1000)
    pair.commit_all()
    queue = pair.broker.vhosts["/"].queues["q"]
    pair.clock.tick_ns = 10_000_000  # each look at the clock finds the turn's time over
    seen = [0]
    turns.recorder.on_turn = lambda: seen.append(queue.message_count)
    try:
        pair.clock.advance(1010)
    finally:
        turns.recorder.on_turn = None
    assert seen[-1] == count
    assert max(after - before for before, after in pairwise(seen)) == stride


def test_confirms_wait_for_the_commit(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    ch.confirm()
    publish(ch, b"m", 1000)
    assert ch.expect_confirms() == []
    pair.commit_all()
    assert ch.expect_confirms() == [("ack", 1, False)]
    publish(ch, b"transient", 1000, delivery_mode=1)
    assert ch.expect_confirms() == [("ack", 2, False)]


def test_transient_messages_do_not_outlive_a_restart(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    publish(ch, b"m", 1000, delivery_mode=1)
    pair.commit_all()
    assert delays_of(pair).pending == 1
    pair = disk.boot(now_ms=START_MS + 10)
    assert delays_of(pair).pending == 0


def test_a_short_delay_never_touches_the_disk(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    publish(ch, b"warm up", 1)
    pair.advance(1)
    ch.drain()
    pair.commit_all()
    publish(ch, b"m", 5)
    pair.advance(5)
    assert ch.drain() == [b"m"]
    assert pair.begin_commit()
    assert pair.in_flight is not None
    assert pair.in_flight.batches == []
    pair.end_commit()


def test_numbers_are_not_given_twice(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    publish(ch, b"m", HOUR_MS)
    pair.commit_all()
    (first,) = waiting(pair)
    assert delays_of(pair).cancel(first)
    pair.commit_all()
    pair = disk.boot(now_ms=START_MS + 10, crash=True)
    ch = open_channel(pair)
    publish(ch, b"n", HOUR_MS)
    (second,) = waiting(pair)
    assert second.position > first.position


def test_deleting_a_vhost_leaves_nothing(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    publish(ch, b"m", HOUR_MS)
    pair.commit_all()
    assert delays_of(pair).pending == 1
    pair.broker.turn.begin()
    pair.broker.delete_vhost("/")
    pair.broker.turn.finish()
    pair.commit_all()
    pair = disk.boot(now_ms=START_MS + 10)
    pair.broker.add_vhost("/")
    assert delays_of(pair).pending == 0
    pair.advance(2 * HOUR_MS)


# ---------------------------------------------------------------------------------------------- cancelling


@pytest.mark.parametrize("delay_ms", [100, 20_000, 8 * DAY_MS])
@pytest.mark.parametrize("restart", ["", "before", "after"])
def test_cancelled_ones_do_not_come(disk: Disk, delay_ms: int, restart: str) -> None:
    """G10 cancel"""
    pair = disk.boot()
    ch = open_channel(pair)
    for number in range(5):
        publish(ch, str(number).encode(), delay_ms)
    pair.commit_all()
    if restart == "before":
        pair = disk.boot(now_ms=START_MS, crash=True)
        ch = open_channel(pair)
    for message in waiting(pair):
        if message.body in (b"1", b"3"):
            found = [
                each for each in delay_views.find(delays_of(pair), message.expires_at_ms, message.position) if each
            ]
            assert [each.body for each in found] == [message.body]
            assert delays_of(pair).cancel(found[0])
            assert not delays_of(pair).cancel(found[0])
    pair.commit_all()
    assert delays_of(pair).pending == 3
    if restart == "after":
        pair = disk.boot(now_ms=START_MS, crash=True)
        ch = open_channel(pair)
    assert delays_of(pair).pending == 3
    assert pending(pair) == [b"0", b"2", b"4"]
    advance(pair, delay_ms)
    assert ch.drain() == [b"0", b"2", b"4"]


def test_a_bucket_of_cancelled_ones_leaves_nothing(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    publish(ch, b"m", 8 * DAY_MS)
    pair.commit_all()
    for message in waiting(pair):
        delays_of(pair).cancel(message)
    pair.commit_all()
    assert all(not bucket.batches for bucket in delays_of(pair).buckets.values())
    pair = disk.boot(now_ms=START_MS)
    assert delays_of(pair).buckets == {}


# -------------------------------------------------------------------------------------------------- memory


def test_far_ones_are_not_in_memory(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    for number in range(300):
        publish(ch, bytes(1000) + str(number).encode(), DAY_MS + number)
        if number % 3 == 0:
            pair.commit_all()
    pair.commit_all()
    pair.advance(0)
    pair.commit_all()
    assert delays_of(pair).held_bytes == 0
    assert delays_of(pair).pending == 300
    # Many small batches have become few.
    assert sum(len(bucket.batches) for bucket in delays_of(pair).buckets.values()) < 40
    advance(pair, DAY_MS + 300, step_ms=HOUR_MS)
    assert [body[1000:] for body in ch.drain()] == [str(number).encode() for number in range(300)]
    assert delays_of(pair).held_bytes == 0


def test_a_large_wide_bucket_is_spread(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "SPREAD_BYTES", 1000)
    pair = disk.boot()
    ch = open_channel(pair)
    for number in range(100):
        publish(ch, str(number).encode(), 8 * DAY_MS + number * 60_000)
    pair.commit_all()
    most = 0
    for _ in range(10 * 24 * 6):
        advance(pair, HOUR_MS // 6)
        most = max(most, len(delays_of(pair).schedule))
    assert most < 50
    assert ch.drain() == [str(number).encode() for number in range(100)]
    assert delays_of(pair).pending == 0


def test_a_full_window_waits_on_disk_and_keeps_the_order(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million for the same moment need not be in memory at once"""
    monkeypatch.setattr(delay_log, "BATCH_MESSAGES", 10)
    pair = disk.boot(queue_window=65_536)
    ch = open_channel(pair)
    for number in range(1000):
        publish(ch, bytes(1000) + f"{number:04}".encode(), 60_000)
    pair.commit_all()
    assert delays_of(pair).held_bytes < 300_000
    advance(pair, 59_700)
    assert delays_of(pair).held_bytes < 300_000
    advance(pair, 299)
    assert ch.get() is None
    advance(pair, 1)
    assert [body[1000:] for body in ch.drain()] == [f"{number:04}".encode() for number in range(1000)]
    assert delays_of(pair).held_bytes == 0


# ---------------------------------------------------------------------------------------- the machine's clock


def test_a_clock_set_back_loses_and_doubles_nothing(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    publish(ch, b"1", 100)
    publish(ch, b"2", 200)
    publish(ch, b"3", 300)
    pair.commit_all()
    advance(pair, 200)
    assert ch.drain() == [b"1", b"2"]
    pair.clock._now_ms -= 10_000
    publish(ch, b"early", 50)
    pair.commit_all()
    pair = disk.boot(now_ms=START_MS - 9_800, crash=True)
    ch = open_channel(pair)
    assert pending(pair) == [b"early", b"3"]
    advance(pair, 50)
    assert ch.drain() == [b"early"]
    advance(pair, 20_000)
    assert ch.drain() == [b"3"]


def test_a_clock_set_forward(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    publish(ch, b"m", HOUR_MS)
    pair.commit_all()
    pair.clock._now_ms += HOUR_MS
    pair.advance(HOUR_MS // 10)
    assert ch.drain() == [b"m"]


# ------------------------------------------------------------------------------------------------- exchanges


def test_counts_per_exchange_are_known_after_a_restart(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    publish(ch, b"m", HOUR_MS)
    for _ in range(3):
        ch.publish(b"m", "amq.fanout", headers={"x-delay": Typed("l", HOUR_MS)}, delivery_mode=2)
    pair.commit_all()
    pair = disk.boot(now_ms=START_MS, crash=True)
    assert (delays_of(pair).count_of(""), delays_of(pair).count_of("amq.fanout")) == (1, 3)
    assert delays_of(pair).next_due_ms() == START_MS + HOUR_MS


def test_the_numbers_of_idle_exchanges_are_given_again(disk: Disk) -> None:
    pair = disk.boot()
    ch = open_channel(pair)
    vhost = pair.broker.vhosts["/"]
    for number in range(200):
        vhost.declare_exchange(f"x{number}", "fanout", durable=True)
        vhost.bind(f"x{number}", vhost.queues["q"], "")
        ch.publish(str(number).encode(), f"x{number}", headers={"x-delay": 10}, delivery_mode=2)
        advance(pair, 10)
    assert ch.drain() == [str(number).encode() for number in range(200)]
    assert len(delays_of(pair).routes.by_number) <= 65


def test_the_folder_is_sound_afterwards(tmp_path: Path) -> None:
    disk = SqliteDisk(tmp_path)
    pair = disk.boot()
    ch = open_channel(pair)
    for number in range(200):
        publish(ch, b"m", (number * 7919) % 500_000 + 1)
        pair.commit_all()
        if number % 20 == 0:
            advance(pair, 1000)
    advance(pair, 200_000, step_ms=10_000)
    disk.close()
    assert check(disk._present).problems == []
