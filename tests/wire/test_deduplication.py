"""Deduplication: a message that a queue or exchange has seen is confirmed and dropped, also after a crash."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from rabbitlike.broker.policies.policies import make_policy
from tests.support.crash_pair import DurablePair, SimulatedDisk, SqliteDisk
from tests.support.pair import Channel, Pair

ON = {"x-message-deduplication": True}


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def ch(pair: Pair) -> Channel:
    return pair.connect().channel()


def send(
    ch: Channel, body: bytes, key: object = None, *, exchange: str = "", to: str = "q", **properties: object
) -> None:
    headers = {} if key is None else {"x-deduplication-header": key}
    given = properties.pop("headers", {})
    assert isinstance(given, dict)
    ch.publish(body, exchange=exchange, key=to, headers=headers | given, **properties)


def test_a_queue_takes_each_key_once(pair: Pair, ch: Channel) -> None:
    ch.declare("q", arguments=ON)
    for body, key in ((b"1", "a"), (b"2", "b"), (b"3", "a"), (b"4", None), (b"5", None), (b"6", 1), (b"7", "1")):
        send(ch, body, key)
    assert ch.drain("q") == [b"1", b"2", b"4", b"5", b"6", b"7"]
    send(ch, b"8", "a")
    assert ch.drain("q") == []
    duplicates = pair.broker.vhosts["/"].queues["q"].deduplication
    assert duplicates is not None
    assert (duplicates.dropped, len(duplicates)) == (2, 4)


def test_duplicates_are_confirmed(ch: Channel) -> None:
    ch.declare("q", arguments=ON)
    ch.send(commands.Confirm.Select())
    ch.expect(commands.Confirm.SelectOk)
    for tag in (1, 2):
        send(ch, b"m", "a")
        assert ch.expect(commands.Basic.Ack).delivery_tag == tag
    assert ch.drain("q") == [b"m"]


def test_an_exchange_knows_what_it_was_given_to_deliver_later(pair: Pair, ch: Channel) -> None:
    ch.call(commands.Exchange.Declare(exchange="x", exchange_type="direct", arguments=ON), commands.Exchange.DeclareOk)
    ch.declare("q")
    ch.bind("q", "x", "q")
    for body in (b"1", b"2"):
        send(ch, body, "a", exchange="x", headers={"x-delay": 500})
    pair.advance(500)
    assert ch.drain("q") == [b"1"]


def test_by_message_id(ch: Channel) -> None:
    ch.declare("q", arguments={**ON, "x-deduplication-by": "message-id"})
    for body, number in ((b"1", "a"), (b"2", "a"), (b"3", "b")):
        send(ch, body, "same header", message_id=number)
    assert ch.drain("q") == [b"1", b"3"]


def test_keys_are_forgotten_by_time_and_by_number(pair: Pair, ch: Channel) -> None:
    ch.declare("q", arguments={**ON, "x-cache-ttl": 1000, "x-cache-size": 2})
    send(ch, b"1", "a")
    pair.advance(999)
    send(ch, b"2", "a")
    pair.advance(1)
    send(ch, b"3", "a")
    assert ch.drain("q") == [b"1", b"3"]
    for body, key in ((b"4", "b"), (b"5", "c"), (b"6", "a"), (b"7", "c")):
        send(ch, body, key)
    assert ch.drain("q") == [b"4", b"5", b"6"]
    send(ch, b"8", "d", headers={"x-cache-ttl": 10})
    pair.advance(10)
    send(ch, b"9", "d")
    assert ch.drain("q") == [b"8", b"9"]


def test_a_refused_message_may_be_sent_again(ch: Channel) -> None:
    ch.declare("q", arguments={**ON, "x-max-length": 1, "x-overflow": "reject-publish"})
    ch.send(commands.Confirm.Select())
    ch.expect(commands.Confirm.SelectOk)
    send(ch, b"1", "a")
    ch.expect(commands.Basic.Ack)
    send(ch, b"2", "b")
    ch.expect(commands.Basic.Nack)
    assert ch.drain("q") == [b"1"]
    send(ch, b"2", "b")
    ch.expect(commands.Basic.Ack)
    assert ch.drain("q") == [b"2"]


@pytest.mark.parametrize(
    ("kind", "arguments"), [("direct", ON), ("topic", ON), ("x-message-deduplication", {"x-cache-size": 10})]
)
def test_an_exchange_takes_each_key_once(ch: Channel, kind: str, arguments: dict[str, object]) -> None:
    ch.send(commands.Exchange.Declare(exchange="x", exchange_type=kind, arguments=arguments))
    ch.expect(commands.Exchange.DeclareOk)
    for queue in ("q", "p"):
        ch.declare(queue)
        ch.bind(queue, "x", "k")
    for body, key in ((b"1", "a"), (b"2", "a"), (b"3", "b"), (b"4", None)):
        send(ch, body, key, exchange="x", to="k", mandatory=True)
    assert ch.drain("q") == ch.drain("p") == [b"1", b"3", b"4"]


def test_what_no_queue_took_may_be_sent_again(ch: Channel) -> None:
    ch.send(commands.Exchange.Declare(exchange="x", exchange_type="direct", arguments=ON))
    ch.expect(commands.Exchange.DeclareOk)
    send(ch, b"1", "a", exchange="x", to="k")
    ch.declare("q")
    ch.bind("q", "x", "k")
    send(ch, b"2", "a", exchange="x", to="k")
    assert ch.drain("q") == [b"2"]


def test_a_producer_that_numbers_its_messages(ch: Channel) -> None:
    """G20: what was sent again, or comes late, is dropped; producers do not know of each other."""
    ch.declare("q", arguments=ON)
    for body, producer, number in (
        (b"a1", "a", 1),
        (b"a2", "a", 2),
        (b"b1", "b", 1),
        (b"a2", "a", 2),
        (b"a1", "a", 1),
        (b"a5", "a", 5),
    ):
        send(ch, body, headers={"x-producer-id": producer, "x-producer-seq": number})
    assert ch.drain("q") == [b"a1", b"a2", b"b1", b"a5"]


def test_a_transaction_is_all_or_nothing(ch: Channel) -> None:
    """G20: keys of what was rolled back are not known; within one transaction duplicates are."""
    ch.declare("q", arguments=ON)
    ch.send(commands.Tx.Select())
    ch.expect(commands.Tx.SelectOk)
    send(ch, b"1", "a")
    ch.send(commands.Tx.Rollback())
    ch.expect(commands.Tx.RollbackOk)
    send(ch, b"2", "a")
    send(ch, b"3", "a")
    ch.send(commands.Tx.Commit())
    ch.expect(commands.Tx.CommitOk)
    assert ch.drain("q") == [b"2"]


def test_a_policy_turns_it_on_and_off(pair: Pair, ch: Channel) -> None:
    vhost = pair.broker.vhosts["/"]
    ch.declare("q")
    send(ch, b"1", "a", exchange="amq.fanout")
    ch.bind("q", "amq.fanout", "")
    definition = {"message-deduplication": True, "cache-size": 5}
    vhost.policies.set(make_policy("/", "once", "policy", pattern="q|fanout", definition=definition))  # type: ignore[arg-type]
    for body in (b"2", b"3"):
        send(ch, body, "a", exchange="amq.fanout")
        send(ch, body, "b")
    assert ch.drain("q") == [b"2", b"2"]
    vhost.policies.clear("policy", "once")
    send(ch, b"4", "a", exchange="amq.fanout")
    assert ch.drain("q") == [b"4"]
    assert vhost.exchanges["amq.fanout"].deduplication is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-message-deduplication": "yes"}, "'x-message-deduplication' {}: {unacceptable_type,longstr}"),
        ({"x-cache-size": 0}, "'x-cache-size' {}: {value_zero,0}"),
        ({"x-deduplication-by": "body"}, "'x-deduplication-by' {}: \"unsupported deduplication key 'body'\""),
    ],
)
def test_bad_arguments(pair: Pair, arguments: dict[str, object], text: str) -> None:
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", arguments=arguments))
    place = "for queue 'q' in vhost '/'"
    assert ch.expect(commands.Channel.Close).reply_text == "PRECONDITION_FAILED - invalid arg " + text.replace(
        "{}", place, 1
    )
    ch = pair.connect().channel()
    ch.send(commands.Exchange.Declare(exchange="x", exchange_type="direct", arguments=arguments))
    place = "for exchange 'x' in vhost '/'"
    assert ch.expect(commands.Channel.Close).reply_text == "PRECONDITION_FAILED - invalid arg " + text.replace(
        "{}", place, 1
    )


# From one run to the next


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    disk = SimulatedDisk()
    yield disk
    disk.close()


def declare(pair: DurablePair, ch: Channel, **arguments: object) -> None:
    table = ON | {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    ch.send(commands.Queue.Declare(queue="q", durable=True, arguments=table))
    pair.commit_all()
    ch.expect(commands.Queue.DeclareOk)


def test_keys_outlive_a_crash_with_their_messages(disk: SimulatedDisk) -> None:
    pair = disk.boot()
    ch = pair.connect().channel()
    declare(pair, ch)
    send(ch, b"1", "a", delivery_mode=2)
    send(ch, b"2", "transient")
    pair.commit_all()
    send(ch, b"3", "lost", delivery_mode=2)
    pair = disk.boot(crash=True)
    ch = pair.connect().channel()
    for body, key in ((b"4", "a"), (b"5", "lost"), (b"6", "transient")):
        send(ch, body, key, delivery_mode=2)
        pair.commit_all()
    assert ch.drain("q") == [b"1", b"5", b"6"]


@pytest.mark.parametrize("durable", [True, False])
def test_persistent_duplicates_are_confirmed_though_nothing_is_stored(disk: SimulatedDisk, durable: bool) -> None:
    """A commit with nothing in it comes all the same, whoever knew the key."""
    pair = disk.boot()
    ch = pair.connect().channel()
    declare(pair, ch)
    ch.send(commands.Exchange.Declare(exchange="x", exchange_type="fanout", durable=durable, arguments=ON))
    ch.send(commands.Queue.Bind(queue="q", exchange="x"))
    ch.send(commands.Confirm.Select())
    pair.commit_all()
    for method in (commands.Exchange.DeclareOk, commands.Queue.BindOk, commands.Confirm.SelectOk):
        ch.expect(method)
    for tag, exchange in enumerate(("", "", "x", "x"), 1):
        send(ch, b"m", f"key {exchange}", exchange=exchange, delivery_mode=2)
        pair.commit_all()
        assert ch.expect(commands.Basic.Ack).delivery_tag == tag


def test_the_store_holds_no_more_than_the_queue(disk: SimulatedDisk) -> None:
    pair = disk.boot()
    ch = pair.connect().channel()
    declare(pair, ch, cache_size=3)
    for number in range(10):
        send(ch, b"m", f"key {number}", delivery_mode=2)
        if number % 4 == 0:
            pair.commit_all()
    pair.commit_all()
    assert len(pair.store.seen) == 3  # type: ignore[attr-defined]
    pair = disk.boot(crash=True)
    ch = pair.connect().channel()
    for number in (9, 8, 7, 6):
        send(ch, b"again", f"key {number}", delivery_mode=2)
    assert ch.drain("q").count(b"again") == 1
    ch.send(commands.Queue.Delete(queue="q"))
    pair.commit_all()
    ch.expect(commands.Queue.DeleteOk)
    assert pair.store.seen == {}  # type: ignore[attr-defined]


def test_an_exchange_and_a_producer_are_known_after_a_crash(disk: SimulatedDisk) -> None:
    """G20"""
    pair = disk.boot()
    ch = pair.connect().channel()
    ch.send(commands.Exchange.Declare(exchange="x", exchange_type="fanout", durable=True, arguments=ON))
    ch.send(commands.Queue.Declare(queue="q", durable=True))
    ch.send(commands.Queue.Bind(queue="q", exchange="x"))
    pair.commit_all()
    for method in (commands.Exchange.DeclareOk, commands.Queue.DeclareOk, commands.Queue.BindOk):
        ch.expect(method)
    for number in (1, 2, 3):
        numbered = {"x-producer-id": "p", "x-producer-seq": number}
        send(ch, b"%d" % number, exchange="x", headers=numbered, delivery_mode=2)
    pair.commit_all()
    assert len(pair.store.seen) == 1  # type: ignore[attr-defined]
    ch = disk.boot(crash=True).connect().channel()
    for number in (2, 3, 4):
        numbered = {"x-producer-id": "p", "x-producer-seq": number}
        send(ch, b"%d" % number, exchange="x", headers=numbered, delivery_mode=2)
    assert ch.drain("q") == [b"1", b"2", b"3", b"4"]


def test_the_longest_times_fit_into_the_store(tmp_path: Path) -> None:
    """A header has 63 bits, a policy any number; the store adds the present to it."""
    disk = SqliteDisk(tmp_path)
    pair = disk.boot()
    ch = pair.connect().channel()
    declare(pair, ch)
    send(ch, b"1", "a", delivery_mode=2, headers={"x-cache-ttl": (1 << 63) - 1})
    pair.commit_all()
    definition = {"message-deduplication": True, "cache-ttl": 1 << 80}
    pair.broker.vhosts["/"].policies.set(
        make_policy("/", "once", "policy", pattern="", definition=definition)  # type: ignore[arg-type]
    )
    send(ch, b"2", "b", delivery_mode=2)
    pair.commit_all()
    ch = disk.boot(crash=True).connect().channel()
    for key in ("a", "b"):
        send(ch, b"again", key, delivery_mode=2)
    assert ch.drain("q") == [b"1", b"2"]
    disk.close()
