"""Held dead letters over a disk: restarts and crashes, bodies that leave memory, pages, purging."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pamqp import commands

from rabbitlike.broker.queue_settings.settings import QueueSettings
from rabbitlike.broker.queues.dead_letters.held_dead_letters import LONGEST_MS, WINDOW
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.storage.check import check
from tests.support.crash_pair import START_MS, Disk, DurablePair, SimulatedDisk, SqliteDisk
from tests.support.pair import Channel
from tests.wire.test_policies import set_policy

AT_LEAST_ONCE: dict[str, object] = {
    "x-queue-type": "quorum",
    "x-overflow": "reject-publish",
    "x-dead-letter-strategy": "at-least-once",
    "x-dead-letter-exchange": "dlx",
}


@pytest.fixture(params=["simulated", "sqlite"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    disk = SimulatedDisk() if request.param == "simulated" else SqliteDisk(tmp_path)
    yield disk
    disk.close()


def do(pair: DurablePair, ch: Channel, *methods: object) -> None:
    """Durable changes, whose answers wait for the disk."""
    for method in methods:
        ch.send(method)  # type: ignore[arg-type]
        pair.commit_all()
    ch.client.take_all()


def queue(name: str, **arguments: object) -> object:
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    return commands.Queue.Declare(queue=name, durable=True, arguments=given)  # type: ignore[arg-type]


def opened(pair: DurablePair, **arguments: object) -> Channel:
    """A channel, and the queue q."""
    ch = pair.connect().channel()
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    do(pair, ch, queue("q", **{**AT_LEAST_ONCE, **given}))
    return ch


def way(pair: DurablePair, ch: Channel, *names: str, **arguments: object) -> None:
    """Let the dead letters go to these queues."""
    do(pair, ch, commands.Exchange.Declare(exchange="dlx", exchange_type="fanout", durable=True))
    for name in names:
        do(pair, ch, queue(name, **arguments), commands.Queue.Bind(queue=name, exchange="dlx"))


def publish(pair: DurablePair, ch: Channel, *bodies: bytes, key: str = "q", **fields: object) -> None:
    for body in bodies:
        ch.publish(body, key=key, **{"delivery_mode": 2, **fields})
    pair.commit_all()


def kill(ch: Channel, count: int = 1) -> None:
    """Reject the next few, together."""
    for tag in [message.tag for message in (ch.get("q", no_ack=False) for _ in range(count)) if message is not None]:
        ch.reject(tag, requeue=False)


def look(pair: DurablePair) -> None:
    pair.advance(LONGEST_MS)
    pair.commit_all()


def the_queue(pair: DurablePair) -> Queue:
    return pair.broker.vhosts["/"].queues["q"]


def counts(pair: DurablePair) -> tuple[int, int]:
    """What is ready, and how many dead letters are kept."""
    found = the_queue(pair)
    assert (
        found.persistent_count
        == found.ready.count + found.unacked_count + found.awaiting_retry_count + found.held_dead_letter_count
    )
    return found.ready.count, found.held_dead_letter_count


@pytest.mark.parametrize("crash", [False, True])
def test_letters_are_letters_after_a_restart(disk: Disk, crash: bool) -> None:
    """As dead as they were, of what they died of, in the order they did; those beside them on disk are ready still."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1", b"2", b"3", b"4")
    given = [ch.get("q", no_ack=False) for _ in range(3)]
    for message in (given[2], given[0]):
        assert message is not None
        ch.reject(message.tag, requeue=False)
        pair.advance(1000)
    pair.commit_all()
    pair = disk.boot(now_ms=START_MS + 60_000, crash=crash)
    ch = pair.connect().channel()
    assert counts(pair) == (2, 2)
    look(pair)
    assert counts(pair) == (2, 2)
    way(pair, ch, "dead")
    look(pair)
    assert counts(pair) == (2, 0)
    letters = [ch.get("dead"), ch.get("dead")]
    assert [letter and letter.body for letter in letters] == [b"3", b"1"]
    for letter, later in zip(letters, (0, 1000), strict=True):
        assert letter is not None
        [death] = letter.headers["x-death"]  # type: ignore[misc]
        assert (death["reason"], death["count"]) == ("rejected", 1)
        assert death["time"] == datetime.fromtimestamp((START_MS + later) // 1000, UTC)
    assert ch.drain("q") == [b"2", b"4"]


def test_a_restart_that_finds_a_way(disk: Disk) -> None:
    """They go without anybody doing anything, in no more than a moment."""
    pair = disk.boot()
    ch = opened(pair)
    way(pair, ch, "dead", x_max_length=1, x_overflow="reject-publish")
    publish(pair, ch, b"1", b"2")
    kill(ch, 2)
    pair.commit_all()
    assert counts(pair) == (0, 1)
    ch.get("dead")
    pair.commit_all()
    pair = disk.boot(crash=True)
    assert counts(pair) == (0, 1)
    pair.advance(0)
    assert counts(pair) == (0, 0)
    assert pair.connect().channel().drain("dead") == [b"2"]


def test_a_death_that_was_not_committed_never_happened(disk: Disk) -> None:
    """A crash before the commit: the message is ready, redelivered, and not lost."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1")
    kill(ch)
    assert counts(pair) == (0, 1)
    pair = disk.boot(crash=True)
    assert counts(pair) == (1, 0)


@pytest.mark.parametrize("is_written", [False, True])
def test_out_of_here_and_into_the_other_is_one_commit(disk: Disk, is_written: bool) -> None:
    """A crash finds a dead letter in the one queue or in the other."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1", b"2")
    kill(ch, 2)
    pair.commit_all()
    way(pair, ch, "dead")
    pair.advance(LONGEST_MS)
    assert counts(pair) == (0, 0)
    assert pair.begin_commit()
    if is_written:
        pair.write()
    pair = disk.boot(crash=True)
    assert counts(pair) == ((0, 0) if is_written else (0, 2))
    look(pair)
    assert pair.connect().channel().drain("dead") == [b"1", b"2"]


def test_one_that_goes_at_once_is_never_a_letter_on_disk(disk: Disk) -> None:
    """Dead and gone in one turn: nothing is written of it but that it is settled."""
    pair = disk.boot()
    ch = opened(pair)
    way(pair, ch, "dead")
    publish(pair, ch, b"1")
    kill(ch)
    assert pair.begin_commit()
    assert pair.in_flight is not None
    assert pair.in_flight.attempts == []
    pair.end_commit()
    pair = disk.boot(crash=True)
    assert counts(pair) == (0, 0)
    assert pair.connect().channel().drain("dead") == [b"1"]


def test_who_has_it_already_is_known_after_a_crash(disk: Disk) -> None:
    """Of two queues one was full: only that one is sent it again, however often the broker dies."""
    pair = disk.boot()
    ch = opened(pair)
    way(pair, ch, "open")
    way(pair, ch, "full", x_max_length=1, x_overflow="reject-publish")
    publish(pair, ch, b"before", key="full")
    publish(pair, ch, b"m")
    kill(ch)
    pair.commit_all()
    for _ in range(2):
        pair = disk.boot(crash=True)
        look(pair)
        assert counts(pair) == (0, 1)
    ch = pair.connect().channel()
    assert ch.drain("full") == [b"before"]
    look(pair)
    assert counts(pair) == (0, 0)
    pair = disk.boot(crash=True)
    ch = pair.connect().channel()
    assert (ch.drain("full"), ch.drain("open")) == ([b"m"], [b"m"])


def test_who_was_given_it_later_is_known_as_well(disk: Disk) -> None:
    """One that may have it comes while another is full."""
    pair = disk.boot()
    ch = opened(pair)
    way(pair, ch, "full", x_max_length=0, x_overflow="reject-publish")
    publish(pair, ch, b"m")
    kill(ch)
    pair.commit_all()
    way(pair, ch, "open")
    look(pair)
    assert counts(pair) == (0, 1)
    pair = disk.boot(crash=True)
    look(pair)
    assert counts(pair) == (0, 1)
    assert pair.connect().channel().drain("open") == [b"m"]


def test_what_has_gone_leaves_nothing(disk: Disk, tmp_path: Path) -> None:
    """No row of a dead letter that went, was purged, or was given up with the strategy stays behind."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1", b"2", b"3")
    kill(ch)
    pair.commit_all()
    way(pair, ch, "dead")
    look(pair)
    do(pair, ch, commands.Queue.Unbind(queue="dead", exchange="dlx"))
    kill(ch, 2)
    pair.commit_all()
    assert counts(pair) == (0, 2)
    pair = disk.boot(crash=True)
    ch = pair.connect().channel()
    ch.send(commands.Queue.Purge(queue="q"))
    pair.commit_all()
    assert ch.expect(commands.Queue.PurgeOk).message_count == 2
    pair = disk.boot(crash=True)
    assert counts(pair) == (0, 0)
    if isinstance(disk, SqliteDisk):
        disk.run(pair.store.close())
        lives = [life for life in tmp_path.iterdir() if life.is_dir()]
        assert all(check(life).is_sound for life in lives)
        pair = disk.boot()
    else:
        assert pair.store.attempts == {}  # type: ignore[attr-defined]


def test_purging_a_page_that_letters_and_others_are_out_of(disk: Disk) -> None:
    """What a consumer holds survives, the rest is gone, once each."""
    pair = disk.boot()
    ch = opened(pair, x_retry_initial=1000)
    publish(pair, ch, b"1", b"2", b"3", b"4", b"5")
    failed, dead = ch.get("q", no_ack=False), ch.get("q", no_ack=False)
    assert failed is not None
    assert dead is not None
    ch.nack(failed.tag)
    ch.reject(dead.tag, requeue=False)
    pair.commit_all()
    pair = disk.boot(now_ms=START_MS + 10, crash=True)
    ch = pair.connect().channel()
    assert (*counts(pair), the_queue(pair).awaiting_retry_count) == (3, 1, 1)
    ch.send(commands.Queue.Purge(queue="q"))
    pair.commit_all()
    assert ch.expect(commands.Queue.PurgeOk).message_count == 5
    pair = disk.boot(now_ms=START_MS + 5000, crash=True)
    assert counts(pair) == (0, 0)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_another_strategy(disk: Disk, is_restarted: bool) -> None:
    """Dead letters that are kept go with it for good, read since the restart or not."""
    pair = disk.boot()
    ch = pair.connect().channel()
    do(pair, ch, queue("q", x_queue_type="quorum"))
    policy = {"dead-letter-strategy": "at-least-once", "dead-letter-exchange": "dlx", "overflow": "reject-publish"}
    set_policy(pair, {**policy})
    publish(pair, ch, b"1", b"2")
    kill(ch)
    pair.commit_all()
    if is_restarted:
        pair = disk.boot(crash=True)
    assert counts(pair) == (1, 1)
    set_policy(pair, {**policy, "dead-letter-strategy": "at-most-once"})
    pair.commit_all()
    assert counts(pair) == (1, 0)
    if isinstance(disk, SimulatedDisk):
        assert pair.store.attempts == {}  # type: ignore[attr-defined]
    assert the_queue(pair).persistent_bytes == the_queue(pair).ready.body_bytes == 1
    pair = disk.boot(crash=True)
    assert counts(pair) == (1, 0)
    assert the_queue(pair).held_dead_letters is None
    assert pair.connect().channel().drain("q") == [b"2"]


def test_a_strategy_that_changed_while_nobody_looked(disk: Disk) -> None:
    """Dead letters of a queue that does not keep any now are dropped when they are next looked at, not handed out."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1", b"2")
    kill(ch)
    pair.commit_all()
    pair = disk.boot(crash=True)
    assert counts(pair) == (1, 1)
    the_queue(pair).apply(QueueSettings(queue_type="quorum"))
    look(pair)
    assert counts(pair) == (1, 0)
    pair = disk.boot(crash=True)
    assert counts(pair) == (1, 0)


# ---------------------------------------------------------------------------------------------------- beyond memory


def test_octets_leave_memory_and_come_back(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the window a dead letter is a place on disk; a batch is read once for many."""
    pair = disk.boot(queue_window=10_000)
    ch = opened(pair)
    bodies = [b"%d" % number * 1000 for number in range(200, 500)]
    publish(pair, ch, *bodies, priority=3)
    for _ in bodies:
        kill(ch)
        pair.commit_all()
    held_dead_letters = the_queue(pair).held_dead_letters
    assert held_dead_letters is not None
    assert held_dead_letters.count == 300
    assert held_dead_letters.memory_bytes < 300 * 300 + WINDOW * 3000 + 10_000 + 3 * 3000
    assert held_dead_letters.body_bytes == sum(map(len, bodies))
    reads = []
    read = pair.store.read
    monkeypatch.setattr(pair.store, "read", lambda batch_id: reads.append(batch_id) or read(batch_id))
    way(pair, ch, "dead")
    look(pair)
    assert counts(pair) == (0, 0)
    assert held_dead_letters.memory_bytes == held_dead_letters.body_bytes == 0
    assert len(reads) < 150
    for body in bodies:
        letter = ch.get("dead")
        assert letter is not None
        assert (letter.body, letter.properties.priority) == (body, 3)


def test_nothing_is_read_before_its_time(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart dead letters are places on disk; no more are read than are tried."""
    pair = disk.boot()
    ch = opened(pair)
    for _ in range(10):
        publish(pair, ch, *(b"x" * 1000 for _ in range(50)))
    kill(ch, 500)
    pair.commit_all()
    pair = disk.boot(crash=True)
    held_dead_letters = the_queue(pair).held_dead_letters
    assert held_dead_letters is not None
    assert (held_dead_letters.count, held_dead_letters.memory_bytes) == (500, 500 * 300)
    look(pair)
    assert held_dead_letters.memory_bytes <= 500 * 300 + WINDOW * (1000 + len(b"\x10\x00\x02"))
    way(pair, pair.connect().channel(), "dead")
    look(pair)
    assert counts(pair) == (0, 0)
    assert len(pair.connect().channel().drain("dead")) == 500


def paged(disk: Disk) -> tuple[DurablePair, Channel]:
    """A backlog beyond memory: a hundred that live long, and between them a hundred that do not."""
    pair = disk.boot(queue_window=5000)
    ch = opened(pair)
    for number in range(20):
        for each in range(5):
            ch.publish(b"long %d" % (5 * number + each), key="q", delivery_mode=2)
            ch.publish(b"short", key="q", delivery_mode=2, expiration="1000")
        pair.commit_all()
    assert the_queue(pair).ready.page_count > 3
    return pair, ch


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_messages_that_die_on_disk(disk: Disk, crash: bool, is_restarted: bool) -> None:
    """They are dead letters then and not ready, though the page they are in is: it is read without them."""
    pair, ch = paged(disk)
    pair.advance(1000)
    pair.commit_all()
    assert counts(pair) == (100, 100)
    if is_restarted:
        pair = disk.boot(now_ms=START_MS + 2000, crash=crash, queue_window=5000)
        ch = pair.connect().channel()
        assert counts(pair) == (100, 100)
    assert ch.drain("q") == [b"long %d" % number for number in range(100)]
    assert counts(pair) == (0, 100)
    way(pair, ch, "dead")
    look(pair)
    assert ch.drain("dead") == [b"short"] * 100
    pair.commit_all()
    pair = disk.boot(now_ms=START_MS + 9000, crash=True)
    assert counts(pair) == (0, 0)


def test_purging_pages_that_letters_are_in(disk: Disk) -> None:
    """All of it goes, and stays away."""
    pair, ch = paged(disk)
    pair.advance(1000)
    pair.commit_all()
    ch.send(commands.Queue.Purge(queue="q"))
    pair.commit_all()
    assert ch.expect(commands.Queue.PurgeOk).message_count == 200
    assert counts(pair) == (0, 0)
    pair = disk.boot(now_ms=START_MS + 2000, crash=True)
    assert counts(pair) == (0, 0)


def test_one_that_dies_while_its_page_is_written(disk: Disk) -> None:
    """It is not ready again when the page is read."""
    pair = disk.boot(queue_window=2000)
    ch = opened(pair)
    publish(pair, ch, *(b"%d" % number + b"x" * 500 for number in range(10)))
    ch.publish(b"short", key="q", delivery_mode=2, expiration="10")
    ch.publish(b"long", key="q", delivery_mode=2)
    assert pair.begin_commit()
    pair.advance(10)
    pair.end_commit()
    pair.commit_all()
    assert counts(pair) == (11, 1)
    assert [body[:5] for body in ch.drain("q")][10:] == [b"long"]
    assert counts(pair) == (0, 1)


def test_a_batch_that_cannot_be_read(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its dead letters are passed over, those behind them go, and it stays on disk for whoever can mend it."""
    pair = disk.boot()
    ch = opened(pair)
    publish(pair, ch, b"1", b"2")
    publish(pair, ch, b"3")
    kill(ch, 3)
    pair.commit_all()
    pair = disk.boot(crash=True)
    read = pair.store.read
    broken: list[int] = []

    def fail(batch_id: int) -> bytes:
        broken.append(batch_id)
        return b"?" if batch_id == broken[0] else read(batch_id)

    monkeypatch.setattr(pair.store, "read", fail)
    way(pair, pair.connect().channel(), "dead")
    look(pair)
    assert pair.connect().channel().drain("dead") == [b"3"]
    assert the_queue(pair).held_dead_letter_count == 0
    pair.commit_all()
    monkeypatch.undo()
    pair = disk.boot(crash=True)
    assert counts(pair) == (0, 2)
    look(pair)
    assert pair.connect().channel().drain("dead") == [b"1", b"2"]
