"""Exactly once, without Spark around it: rows and note in one transaction, one driver at a time."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import Properties
from rabbitlike.spark import ledger
from rabbitlike.spark.address import Address
from rabbitlike.spark.encode import Messages
from rabbitlike.spark.identity import Writing
from rabbitlike.spark.ledger import LedgerError, write_once, write_whole
from rabbitlike.spark.options import Options
from rabbitlike.spark.publisher import Refused, route
from rabbitlike.spark.wire import Connection
from tests.support.broker_process import running

PERSISTENT = Properties.build(delivery_mode=2).raw


@pytest.fixture
def app() -> str:
    return uuid4().hex


@pytest.fixture
def options(address: Address) -> Options:
    return Options(address, guarantee="exactly-once", confirm_timeout_ms=20_000)


def messages(queue: str, count: int) -> Messages:
    bodies = [b"%d" % number for number in range(count)]
    return Messages(count, [route("", queue, mandatory=True)] * count, [PERSISTENT] * count, bodies)


def depth(client: Connection, queue: str) -> int:
    return client.declare_queue(queue, passive=True).message_count


def test_an_epoch_is_written_once(options: Options, client: Connection, queue: str, app: str) -> None:
    assert write_once(options, Writing(app, 0), "query", [messages(queue, 3)])
    assert not write_once(options, Writing(app, 0), "query", [messages(queue, 3)])
    assert depth(client, queue) == 3
    assert write_once(options, Writing(app, 1), "query", [messages(queue, 2)])
    assert not write_once(options, Writing(app, 0), "query", [messages(queue, 3)]), "older ones are known as well"
    assert depth(client, queue) == 5
    assert depth(client, ledger.PREFIX + app) == 1


def test_without_its_ledger_an_epoch_is_written_twice(
    options: Options, client: Connection, queue: str, app: str
) -> None:
    """It is the ledger that the test above sees at work."""
    write_once(options, Writing(app, 0), "query", [messages(queue, 3)])
    client.delete_queue(ledger.PREFIX + app)
    write_once(options, Writing(app, 0), "query", [messages(queue, 3)])
    assert depth(client, queue) == 6


def test_another_query_does_not_take_the_ledger_for_its_own(options: Options, queue: str, app: str) -> None:
    """Its epochs begin at 0 again: they would all count as written."""
    write_once(options, Writing(app, 5), "old", [messages(queue, 1)])
    with pytest.raises(LedgerError, match="belongs to query 'old', this is 'new'"):
        write_once(options, Writing(app, 0), "new", [messages(queue, 1)])


def test_what_fails_leaves_nothing(options: Options, client: Connection, queue: str, app: str) -> None:
    bad = Messages(1, [route("nix", "", mandatory=True)], [PERSISTENT], [b""])
    with pytest.raises(AmqpError, match="no exchange 'nix'"):
        write_once(options, Writing(app, 0), "query", [messages(queue, 3), bad])
    assert depth(client, queue) == 0
    assert write_once(options, Writing(app, 0), "query", [messages(queue, 3)])


@pytest.mark.parametrize(
    ("exchange", "why"),
    [
        ("", r"for lack of a queue: no queue 'nowhere' in vhost '/'; create the queue"),
        ("amq.topic", r"2 mandatory messages .* to exchange 'amq.topic' with routing key 'nowhere'; create the queue"),
    ],
)
@pytest.mark.parametrize("is_noted", [True, False], ids=["with a note", "without"])
def test_unroutable_rows_are_told_of_before_the_commit(
    options: Options, client: Connection, queue: str, app: str, exchange: str, why: str, is_noted: bool
) -> None:
    """Nothing is written then, neither rows nor note: the epoch can be written whole later."""
    lost = Messages(2, [route(exchange, "nowhere", mandatory=True)] * 2, [PERSISTENT] * 2, [b"1", b"2"])
    parts = [messages(queue, 1), lost]
    with pytest.raises(Refused, match=f"^nothing was written.*{why}"):
        write_once(options, Writing(app, 0), "query", parts) if is_noted else write_whole(options, parts)
    assert depth(client, queue) == 0
    assert write_once(options, Writing(app, 0), "query", [messages(queue, 1)])


def test_what_may_be_dropped_is_not_looked_for(options: Options, client: Connection, queue: str, app: str) -> None:
    lost = Messages(1, [route("", "nowhere", mandatory=False)], [PERSISTENT], [b"1"])
    assert write_once(options, Writing(app, 0), "query", [messages(queue, 1), lost])
    assert depth(client, queue) == 1


def test_a_driver_that_dies_before_the_commit_leaves_nothing(
    options: Options, client: Connection, queue: str, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_once(options, Writing(app, 0), "query", [messages(queue, 1)])
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "commit_tx", _die)
        with pytest.raises(KeyboardInterrupt):
            write_once(options, Writing(app, 1), "query", [messages(queue, 3)])
    assert depth(client, queue) == 1
    assert not write_once(options, Writing(app, 0), "query", [messages(queue, 1)]), "the old note is back"
    assert write_once(options, Writing(app, 1), "query", [messages(queue, 3)])
    assert depth(client, queue) == 4


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_second_driver_waits_for_the_first(
    options: Options, client: Connection, queue: str, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is between its rows and its commit when the second comes with the same epoch."""
    written: list[bool] = []
    commit: Callable[[Connection], None] = Connection.commit_tx
    second = threading.Thread(
        target=lambda: written.append(write_once(options, Writing(app, 0), "query", [messages(queue, 3)]))
    )
    refused = threading.Event()
    monkeypatch.setattr(ledger.time, "sleep", lambda _: refused.set() or threading.Event().wait(0.05))

    def commit_late(connection: Connection) -> None:
        monkeypatch.setattr(Connection, "commit_tx", commit)
        second.start()
        assert refused.wait(20), "the second driver was not held up"
        commit(connection)

    monkeypatch.setattr(Connection, "commit_tx", commit_late)
    assert write_once(options, Writing(app, 0), "query", [messages(queue, 3)])
    second.join(20)
    assert written == [False]
    assert depth(client, queue) == 3


def test_a_driver_that_hangs_is_told_of(options: Options, client: Connection, queue: str, app: str) -> None:
    client.declare_queue(ledger.PREFIX + app, arguments={"x-max-length": 1, "x-overflow": "drop-head"})
    client.consume(ledger.PREFIX + app, prefetch=1, exclusive=True)
    with pytest.raises(LedgerError, match="another driver holds"):
        write_once(replace(options, confirm_timeout_ms=1000), Writing(app, 0), "query", [messages(queue, 1)])


@pytest.mark.parametrize("is_committed", [True, False], ids=["after the commit", "before the commit"])
def test_a_broker_that_is_killed_has_all_or_nothing(
    is_committed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in two queues, one of which holds two messages at most, and the note: one commit of the store."""
    commit: Callable[[Connection], None] = Connection.commit_tx
    flags = ("--no-memory", "--data-dir", str(tmp_path))
    with running(*flags) as broker:
        options = Options(Address(port=broker.port))
        with Connection(options.address) as client:
            client.declare_queue("long")
            client.declare_queue("short", arguments={"x-max-length": 2})
        write_once(options, Writing("app", 0), "query", [messages("short", 1)])

        def kill_then(connection: Connection) -> None:
            if is_committed:
                commit(connection)
            broker.process.kill()
            broker.process.wait()
            raise KeyboardInterrupt

        monkeypatch.setattr(Connection, "commit_tx", kill_then)
        with pytest.raises(KeyboardInterrupt):
            write_once(options, Writing("app", 1), "query", [messages("long", 500), messages("short", 500)])
        monkeypatch.undo()
    with running(*flags) as broker:
        options = Options(Address(port=broker.port))
        with Connection(options.address) as client:
            found = depth(client, "long"), [delivery.body for delivery in client.get("short", 10)]
            assert found == ((500, [b"498", b"499"]) if is_committed else (0, [b"0"]))
            assert depth(client, f"{ledger.PREFIX}app") == 1
        assert write_once(options, Writing("app", 1), "query", []) is not is_committed
