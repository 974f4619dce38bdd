"""What a client can see of the disk: when confirms come, and what is there after a restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from tests.support.crash_pair import Disk, DurablePair, SimulatedDisk, SqliteDisk
from tests.support.pair import Channel

PERSISTENT, TRANSIENT = 2, 1


@pytest.fixture(params=["simulated", "sqlite"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    disk = SimulatedDisk() if request.param == "simulated" else SqliteDisk(tmp_path)
    yield disk
    disk.close()


def open_channel(pair: DurablePair, *queues: str, durable: bool = True) -> Channel:
    ch = pair.connect().channel()
    for queue in queues:
        ch.send(commands.Queue.Declare(queue=queue, durable=durable))
        pair.commit_all()
        ch.expect(commands.Queue.DeclareOk)
    return ch


def test_a_persistent_message_is_confirmed_when_it_is_on_the_disk(disk: Disk) -> None:
    """#94 neither when the queue has it nor when it is being written."""
    pair = disk.boot()
    ch = open_channel(pair, "q")
    ch.confirm()
    ch.publish(b"m", key="q", delivery_mode=PERSISTENT)
    assert ch.expect_confirms() == []
    assert pair.begin_commit()
    assert ch.expect_confirms() == []
    pair.end_commit()
    assert ch.expect_confirms() == [("ack", 1, False)]
    assert open_channel(disk.boot(crash=True)).drain("q") == [b"m"]


def test_a_transient_message_does_not_wait_for_the_disk(disk: Disk) -> None:
    """#94 but confirms keep the order of the publishes: after a persistent one it waits with it."""
    pair = disk.boot()
    ch = open_channel(pair, "q")
    ch.confirm()
    ch.publish(b"transient", key="q", delivery_mode=TRANSIENT)
    assert ch.expect_confirms() == [("ack", 1, False)]
    ch.publish(b"persistent", key="q", delivery_mode=PERSISTENT)
    ch.publish(b"transient", key="q", delivery_mode=TRANSIENT)
    assert ch.expect_confirms() == []
    pair.commit_all()
    assert ch.expect_confirms() == [("ack", 3, True)]


def test_a_persistent_message_in_a_transient_queue_does_not_wait_either(disk: Disk) -> None:
    """#94 there is nothing to be kept."""
    pair = disk.boot()
    ch = open_channel(pair, "q", durable=False)
    ch.confirm()
    ch.publish(b"m", key="q", delivery_mode=PERSISTENT)
    assert ch.expect_confirms() == [("ack", 1, False)]


def test_a_message_for_several_queues_is_confirmed_when_all_are_safe(disk: Disk) -> None:
    """#94 a durable and a transient queue."""
    pair = disk.boot()
    ch = open_channel(pair, "kept")
    ch.declare("passing")
    for queue in ("kept", "passing"):
        ch.send(commands.Queue.Bind(queue=queue, exchange="amq.fanout"))
        pair.commit_all()
        ch.expect(commands.Queue.BindOk)
    ch.confirm()
    ch.publish(b"m", exchange="amq.fanout", delivery_mode=PERSISTENT)
    assert ch.expect_confirms() == []
    pair.commit_all()
    assert ch.expect_confirms() == [("ack", 1, False)]


@pytest.mark.parametrize("crash", [False, True])
def test_without_a_delivery_mode_a_message_is_transient(disk: Disk, crash: bool) -> None:
    """#105 in a durable queue, after a restart: only what was published as persistent is there."""
    pair = disk.boot()
    ch = open_channel(pair, "q")
    ch.publish(b"unsaid", key="q")
    ch.publish(b"persistent", key="q", delivery_mode=PERSISTENT)
    ch.publish(b"transient", key="q", delivery_mode=TRANSIENT)
    ch.publish(b"unknown", key="q", properties=b"\x10\x00\x03")
    pair.commit_all()
    assert open_channel(disk.boot(crash=crash)).drain("q") == [b"persistent"]


@pytest.mark.parametrize("crash", [False, True])
def test_a_transient_queue_is_gone_after_a_restart(disk: Disk, crash: bool) -> None:
    """#105 with all that was in it, persistent or not."""
    pair = disk.boot()
    ch = open_channel(pair, "q", durable=False)
    ch.publish(b"persistent", key="q", delivery_mode=PERSISTENT)
    pair.commit_all()
    ch = open_channel(disk.boot(crash=crash))
    ch.send(commands.Queue.Declare(queue="q", passive=True))
    ch.expect_close(404, "NOT_FOUND - no queue 'q' in vhost '/'", commands.Queue.Declare)
