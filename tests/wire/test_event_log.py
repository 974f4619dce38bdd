"""The event log: every step of a message that is traced is a row, and only of those that are."""

from collections.abc import Iterator

import pytest
from pamqp import commands

from rabbitlike.broker import broker
from rabbitlike.broker.message import Message, make_address
from rabbitlike.broker.policies.keys import POLICY
from rabbitlike.broker.policies.policies import make_policy
from rabbitlike.broker.tracing.event_columns import SCHEMA, columns
from rabbitlike.broker.tracing.events import Events, Rows
from rabbitlike.broker.tracing.tracer import Tracer
from rabbitlike.broker.turn import Turn
from rabbitlike.protocol.properties import Properties
from rabbitlike.spark import events as spark_events
from rabbitlike.storage.columns import Numbers, values
from rabbitlike.testing import FakeClock
from tests.support.pair import Channel, Pair


def rows(pair: Pair) -> Iterator[dict[str, object]]:
    for block in pair.broker.events.blocks():
        named = columns(block, "n")
        unpacked = [values(column, block.count) for column in named.values()]
        for row in zip(*unpacked, strict=True):
            yield dict(zip(named, row, strict=True))


def steps(pair: Pair, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in ("event", *names)) for row in rows(pair)]


@pytest.fixture
def pair() -> Pair:
    return Pair(event_log=True)


@pytest.fixture
def ch(pair: Pair) -> Channel:
    ch = pair.connect().channel()
    ch.declare("q")
    return ch


def test_the_columns_are_those_that_spark_reads() -> None:
    """G18 one schema, said on both sides."""
    assert tuple(spark_events.COLUMNS) == SCHEMA
    assert [name for name, _, _ in SCHEMA] == [column.name for column in spark_events.COLUMNS]


def test_from_publish_to_ack(pair: Pair, ch: Channel) -> None:
    """G18 the chain of a message's life, with times that need no joining."""
    ch.confirm()
    ch.publish(b"hello", key="q", message_id="m-1", priority=3)
    ch.expect_confirms()
    pair.advance(40)
    ch.consume("q", "c")
    (got,) = ch.deliveries()
    pair.advance(7)
    ch.ack(got.tag)
    found = list(rows(pair))
    assert [row["event"] for row in found] == ["publish", "enqueue", "confirm", "deliver", "ack"]
    assert {row["message_id"] for row in found} == {"m-1"}
    assert {row["routing_key"] for row in found} == {"q"}
    assert {row["priority"] for row in found} == {3}
    assert {row["size"] for row in found} == {5}
    assert [row["queue"] for row in found] == ["", "q", "", "q", "q"]
    assert [row["msg_seq"] for row in found] == [0, 1, 0, 1, 1]
    assert [row["wait_us"] for row in found] == [None, None, None, 40_000, None]
    assert [row["proc_us"] for row in found] == [None, None, None, None, 7_000]
    assert found[3]["consumer_tag"] == "c"
    seqs = [row["seq"] for row in found]
    assert seqs == list(range(found[0]["seq"], found[0]["seq"] + 5))  # type: ignore[call-overload, operator]
    assert found[4]["ts"] == pair.clock.now_ms() * 1000


def test_back_and_dead(pair: Pair, ch: Channel) -> None:
    ch.declare("dead")
    ch.declare("r", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish(b"x", key="r")
    ch.consume("r", "c")
    ch.nack(ch.deliveries()[0].tag)
    ch.reject(ch.deliveries()[0].tag, requeue=False)
    assert steps(pair, "queue", "delivery_count", "reason") == [
        ("publish", "", 0, None),
        ("enqueue", "r", 0, None),
        ("deliver", "r", 0, None),
        ("nack", "r", 0, None),
        ("requeue", "r", 1, None),
        ("deliver", "r", 1, None),
        ("nack", "r", 1, None),
        ("dead_letter", "r", 1, "rejected"),
        ("enqueue", "dead", 0, None),
    ]
    assert [wait for event, wait in steps(pair, "wait_us") if event == "deliver"] == [0, None]


def test_ends_of_other_kinds(pair: Pair, ch: Channel) -> None:
    ch.confirm()
    ch.declare("ttl", arguments={"x-message-ttl": 5})
    ch.declare("short", arguments={"x-max-length": 1})
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.publish(b"x", key="ttl")
    pair.advance(10)
    ch.publish(b"1", key="short")
    ch.publish(b"2", key="short")
    ch.publish(b"x", key="full")
    ch.publish(b"x", key="nobody")
    ch.expect_confirms()
    ch.get("short")
    told = [step for step in steps(pair, "queue", "reason") if step[0] not in ("publish", "enqueue")]
    assert told == [
        ("confirm", "", None),
        ("expire", "ttl", "expired"),
        ("confirm", "", None),
        ("drop_overflow", "short", "maxlen"),
        ("confirm", "", None),
        ("drop_overflow", "full", "reject-publish"),
        ("confirm", "", "refused"),
        ("route_fail", "", None),
        ("confirm", "", None),
        ("deliver", "short", "auto-ack"),
    ]


def test_a_client_that_goes_gives_back(pair: Pair, ch: Channel) -> None:
    ch.publish(b"x", key="q")
    ch.get("q", no_ack=False)
    ch.client.drop()
    assert steps(pair)[-2:] == [("deliver",), ("requeue",)]


def test_a_transaction_is_told_when_it_is_committed(pair: Pair, ch: Channel) -> None:
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    ch.publish(b"x", key="q")
    assert steps(pair) == []
    ch.call(commands.Tx.Commit(), commands.Tx.CommitOk)
    assert steps(pair) == [("publish",), ("enqueue",)]


def test_a_delay_is_told_when_it_begins(pair: Pair, ch: Channel) -> None:
    ch.confirm()
    ch.publish(b"x", key="q", headers={"x-delay": 500})
    ch.expect_confirms()
    assert steps(pair, "reason") == [("publish", "delayed"), ("confirm", None)]
    pair.advance(500)
    assert steps(pair, "queue")[2:] == [("enqueue", "q")]


def test_off_is_off_but_for_queues_that_ask() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    ch.declare("traced", arguments={"x-trace": True})
    for queue in ("q", "traced", "nobody"):
        ch.publish(b"x", key=queue)
        ch.get(queue) if queue != "nobody" else None
    assert steps(pair, "queue") == [("publish", ""), ("enqueue", "traced"), ("deliver", "traced")]


def test_a_queue_can_be_left_out(pair: Pair, ch: Channel) -> None:
    ch.declare("quiet", arguments={"x-trace": False})
    ch.publish(b"x", key="quiet")
    assert steps(pair, "queue") == [("publish", "")]


def test_a_policy_turns_it_on_and_off_live() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    policies = pair.broker.vhosts["/"].policies
    ch.publish(b"before", key="q")
    pair.broker.turn.begin()
    policies.set(make_policy("/", "p", POLICY, pattern="^q", definition={"trace": True}))
    pair.broker.turn.finish()
    pair.settle()
    ch.publish(b"during", key="q")
    pair.broker.turn.begin()
    assert policies.clear(POLICY, "p")
    pair.broker.turn.finish()
    pair.settle()
    ch.publish(b"after", key="q")
    assert steps(pair, "size") == [("publish", 6), ("enqueue", 6)]


def test_the_argument_must_be_a_boolean() -> None:
    ch = Pair().connect().channel()
    ch.send(commands.Queue.Declare(queue="q", arguments={"x-trace": "yes"}))
    ch.expect_close(
        406,
        "PRECONDITION_FAILED - invalid arg 'x-trace' for queue 'q' in vhost '/': {unacceptable_type,longstr}",
        commands.Queue.Declare,
    )


def test_rows_are_sealed_in_time_and_by_the_hour(pair: Pair, ch: Channel) -> None:
    sealed = []
    pair.broker.events.export = lambda block: sealed.append(block) or True  # type: ignore[func-returns-value]
    ch.publish(b"x", key="q")
    pair.advance(59_000)
    assert not sealed
    pair.advance(1_000)
    assert [block.count for block in sealed] == [2]
    ch.publish(b"x", key="q")
    pair.advance(59_000)
    first = sealed[0].first_seq
    pair.advance(60_000)
    assert [block.first_seq for block in sealed] == [first, first + 2], "numbers go on"
    until_the_hour = 3_600_000 - pair.clock.now_ms() % 3_600_000
    pair.advance(until_the_hour - 1_000)
    ch.publish(b"x", key="q")
    pair.advance(2_000)
    ch.publish(b"x", key="q")
    assert [block.count for block in sealed] == [2, 2, 2], "no rows of two hours stand together"


def test_full_rows_are_sealed_and_what_nobody_takes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "EVENTS_AT_ONCE", 10_000)
    pair = Pair(event_log=True)
    ch = pair.connect().channel()
    ch.declare("q")
    events = pair.broker.events
    events.export = lambda block: False
    for number in range(5010):
        ch.publish(b"x", key="q", message_id=f"{number:020}")
    assert events.lost == 10_000
    assert [block.count for block in events.blocks()] == [10_000, 20]
    assert isinstance(columns(events.blocks()[0], "n")["seq"], Numbers)
    assert [events.blocks()[0].id_of(at) for at in (0, 9999)] == [b"%020d" % number for number in (0, 4999)]
    assert events.blocks()[1].id_of(19) == b"%020d" % 5009


def test_columns_are_used_again_and_nothing_of_before_shows() -> None:
    """The oldest rows make room for new ones, unless somebody still writes them to a file."""
    turn = Turn(FakeClock())
    events = Events(turn, 2, 60_000)
    sealed: list[Rows] = []
    events.export = lambda block: sealed.append(block) or True  # type: ignore[func-returns-value]
    trails = [Tracer("/", f"q{number}", turn, events) for number in range(8)]
    for tracer in trails:
        for _ in range(2):
            address = make_address("x", tracer.queue)
            properties = Properties.build(message_id=tracer.queue).raw
            tracer.enqueued(Message(address, properties, b"", False, -1, turn.now_ms))
        for block in sealed[:-1]:
            block.release()
    assert len({id(block) for block in sealed}) < len(sealed), "some were used twice"
    for block, queue in zip(events.blocks(), ("q5", "q6", "q7"), strict=True):
        named = columns(block, "n")
        assert list(values(named["queue"], 2)) == list(values(named["message_id"], 2)) == [queue] * 2
        assert list(values(named["routing_key"], 2)) == [queue] * 2
    before = sealed[-1]
    before.is_busy = True
    for _ in range(12):
        trails[0].enqueued(Message(b"\0\0", b"\0\0", b"", False, -1, turn.now_ms))
    assert all(block is not before for block in events.blocks())
