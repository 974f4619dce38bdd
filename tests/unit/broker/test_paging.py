"""A backlog that stands on disk: damage to a part of it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pamqp import commands

from tests.support.crash_pair import DurablePair, SimulatedDisk, SimulatedStore


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    disk = SimulatedDisk()
    yield disk
    disk.close()


def commit(pair: DurablePair) -> None:
    while pair.begin_commit():
        pair.end_commit()


def test_a_damaged_batch_does_not_keep_back_the_others(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    pair = disk.boot()
    client = pair.connect()
    commit(pair)
    ch = client.channel()

    ch.send(commands.Queue.Declare(queue="q", durable=True))
    commit(pair)
    ch.expect(commands.Queue.DeclareOk)
    for body in (b"first", b"second", b"third"):
        ch.publish(body, key="q", delivery_mode=2)
        commit(pair)
    store = pair.store
    assert isinstance(store, SimulatedStore)
    damaged = sorted(store.batches)[1]
    store.batches[damaged] = replace(store.batches[damaged], data=store.batches[damaged].data[:-1])
    ch = disk.boot(crash=True).connect().channel()
    assert ch.drain("q") == [b"first", b"third"]
    assert f"1 messages cannot be read and are passed over (batch {damaged})" in caplog.text
    assert damaged in store.batches, "it stays for whoever can mend it"


def test_commit_is_answered_when_its_queue_is_gone(disk: SimulatedDisk) -> None:
    """A transaction whose only durable queue was deleted has nothing to store, and is answered all the same."""
    pair = disk.boot()
    ch, other = (pair.connect().channel() for _ in range(2))
    other.send(commands.Queue.Declare(queue="q", durable=True))
    commit(pair)
    other.expect(commands.Queue.DeclareOk)
    ch.send(commands.Tx.Select())
    ch.expect(commands.Tx.SelectOk)
    ch.publish(b"m", key="q", delivery_mode=2)
    other.send(commands.Queue.Delete(queue="q"))
    commit(pair)
    other.expect(commands.Queue.DeleteOk)
    ch.send(commands.Tx.Commit())
    commit(pair)
    ch.expect(commands.Tx.CommitOk)
