"""Message priorities: levels 0 to 9 on every queue, other numbers of levels by x-max-priority, FIFO within a level."""

from pathlib import Path

import pytest
from pamqp import commands

from rabbitlike.broker.policies.keys import POLICY
from rabbitlike.broker.policies.policies import make_policy
from tests.support.crash_pair import SqliteDisk
from tests.support.pair import Channel, Message, Pair


def publish(ch: Channel, *messages: tuple[bytes, int | None]) -> None:
    for body, priority in messages:
        ch.publish(body, key="q", priority=priority)


def fetch(ch: Channel) -> Message:
    message = ch.get("q", no_ack=False)
    assert message is not None
    return message


def test_every_queue_has_ten_levels() -> None:
    """#106 the higher first, without any argument."""
    ch = Pair().connect().channel()
    ch.declare("q")
    publish(ch, *((b"%d" % priority, priority) for priority in (3, 0, 9, 5, 1, 8, 2, 7, 4, 6)))
    assert ch.drain("q") == [b"9", b"8", b"7", b"6", b"5", b"4", b"3", b"2", b"1", b"0"]


def test_first_in_first_out_within_a_level() -> None:
    """#106 and absent is level 0."""
    ch = Pair().connect().channel()
    ch.declare("q")
    publish(ch, (b"a", None), (b"b", 0), (b"c", 5), (b"d", None), (b"e", 5), (b"f", 0))
    assert ch.drain("q") == [b"c", b"e", b"a", b"b", b"d", b"f"]


def test_without_priorities_a_queue_is_plain() -> None:
    """#106 publishers that set none see first in, first out."""
    ch = Pair().connect().channel()
    ch.declare("q")
    publish(ch, *((b"%d" % n, None) for n in range(20)))
    assert ch.drain("q") == [b"%d" % n for n in range(20)]


def test_beyond_nine_is_nine() -> None:
    """#106 clamped to the highest level, in order of arrival with it."""
    ch = Pair().connect().channel()
    ch.declare("q")
    publish(ch, (b"8", 8), (b"255", 255), (b"9", 9), (b"10", 10))
    assert ch.drain("q") == [b"255", b"9", b"10", b"8"]


@pytest.mark.parametrize("highest", [1, 2, 5, 20, 255])
def test_max_priority_sets_the_levels(highest: int) -> None:
    """#106 x-max-priority n: levels 0 to n, above clamps to n."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-priority": highest})
    publish(ch, (b"low", 0), (b"below", highest - 1), (b"top", highest), (b"above", 255), (b"top again", highest))
    expected = [b"top", b"above", b"top again", b"below", b"low"]
    assert ch.drain("q") == (expected if highest > 1 else [b"top", b"above", b"top again", b"low", b"below"])


def test_max_priority_zero_is_one_level() -> None:
    """#106 x-max-priority 0: order of arrival, whatever the priority."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-priority": 0})
    publish(ch, (b"1", 0), (b"2", 9), (b"3", 5))
    assert ch.drain("q") == [b"1", b"2", b"3"]


def test_the_levels_of_queues_that_set_none_are_an_option() -> None:
    """#106 default_max_priority; 0: plain queues ignore priorities, as RabbitMQ's classic queues do."""
    for highest, expected in ((0, b"01234"), (2, b"23410"), (9, b"42310")):
        ch = Pair(default_max_priority=highest).connect().channel()
        ch.declare("q")
        publish(ch, (b"0", None), (b"1", 1), (b"2", 2), (b"3", 2), (b"4", 3))
        assert b"".join(ch.drain("q")) == expected
        for arguments in ({"x-max-priority": 3}, {"x-priority-weights": "4,3,2,1"}):
            ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
            ch.declare("q", arguments=arguments)
            publish(ch, (b"0", None), (b"1", 1), (b"2", 2), (b"3", 2), (b"4", 3))
            assert b"".join(ch.drain("q")) == b"42310", "what a declaration says counts"


def test_a_policy_does_not_change_the_levels() -> None:
    pair = Pair(default_max_priority=0)
    ch = pair.connect().channel()
    ch.declare("q")
    policy = make_policy("/", "p", POLICY, pattern="", definition={"max-length": 9, "priority-mode": "weighted"})
    pair.broker.vhosts["/"].policies.set(policy)
    publish(ch, (b"0", None), (b"1", 1), (b"2", 2))
    assert ch.drain("q") == [b"0", b"1", b"2"]
    settings = pair.broker.vhosts["/"].queues["q"].settings
    assert (settings.levels, settings.weights) == (1, (1,))


@pytest.mark.parametrize(("before", "after", "expected"), [(0, 9, b"0123"), (9, 0, b"2310")])
def test_the_levels_outlive_a_restart(tmp_path: Path, before: int, after: int, expected: bytes) -> None:
    """How many a queue has is settled when it is declared, whatever the option is at the next start."""
    disk = SqliteDisk(tmp_path)
    pair = disk.boot(default_max_priority=before)
    ch = pair.connect().channel()
    pair.broker.vhosts["/"].declare_queue("q", durable=True)
    for body, priority in ((b"0", None), (b"1", 1), (b"2", 2)):
        ch.publish(body, key="q", priority=priority, delivery_mode=2)
    pair.commit_all()
    pair = disk.boot(default_max_priority=after)
    ch = pair.connect().channel()
    ch.publish(b"3", key="q", priority=2)
    assert b"".join(ch.drain("q")) == expected
    disk.close()


def test_waiting_consumer_gets_the_highest_of_the_backlog() -> None:
    """#106 #125 each time credit comes free the highest level is served, also what arrived meanwhile."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.qos(1)
    ch.consume("q")
    publish(ch, (b"first", 1), (b"low", 2), (b"high", 7))
    (held,) = ch.deliveries()
    assert held.body == b"first"
    ch.ack(held.tag)
    (held,) = ch.deliveries()
    assert held.body == b"high"
    publish(ch, (b"higher", 9))
    ch.ack(held.tag)
    assert ch.bodies() == [b"higher"]


def test_requeue_keeps_level_and_place() -> None:
    """#106 #123 back into its own level, before the younger ones there."""
    ch = Pair().connect().channel()
    ch.declare("q")
    publish(ch, (b"5a", 5), (b"5b", 5), (b"0a", 0), (b"9a", 9), (b"5c", 5))
    held = [fetch(ch) for _ in range(3)]
    assert [message.body for message in held] == [b"9a", b"5a", b"5b"]
    publish(ch, (b"9b", 9))
    for message in (held[2], held[0], held[1]):
        ch.nack(message.tag, requeue=True)
    assert ch.drain("q") == [b"9a", b"9b", b"5a", b"5b", b"5c", b"0a"]


def test_counts_go_over_all_levels() -> None:
    """#67 #79 declare-ok, get-ok and purge count every level."""
    ch = Pair().connect().channel()
    ch.declare("q")
    publish(ch, (b"1", 0), (b"2", 4), (b"3", 9), (b"4", None))
    assert ch.declare("q", passive=True).message_count == 4
    message = fetch(ch)
    assert isinstance(message.method, commands.Basic.GetOk)
    assert (message.body, message.method.message_count) == (b"3", 3)
    assert ch.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk).message_count == 3
    assert ch.drain("q") == []


def test_expired_messages_leave_every_level() -> None:
    """#106 #140 time runs in every level."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-max-priority": 5})
    for priority in range(6):
        ch.publish(b"short %d" % priority, key="q", priority=priority, expiration="100")
        ch.publish(b"long %d" % priority, key="q", priority=priority)
    pair.advance(100)
    assert ch.drain("q") == [b"long %d" % priority for priority in (5, 4, 3, 2, 1, 0)]


def test_dead_letter_keeps_its_priority() -> None:
    """#106 #131 in the next queue the same level counts."""
    ch = Pair().connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish(b"plain", key="dead", priority=3)
    ch.publish(b"urgent", key="q", priority=8)
    ch.reject(fetch(ch).tag, requeue=False)
    assert ch.drain("dead") == [b"urgent", b"plain"]


def test_zero_to_nine_with_a_default_then_in_order() -> None:
    """S2: 9 goes first, a message without a priority has x-default-priority, within one they go in order."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-priority": 9, "x-default-priority": 5})
    publish(ch, (b"none", None), (b"4", 4), (b"9", 9), (b"5", 5), (b"6", 6), (b"none again", None), (b"0", 0))
    assert ch.drain("q") == [b"9", b"6", b"none", b"5", b"none again", b"4", b"0"]


def test_weights_are_obeyed_by_consumers() -> None:
    """G11: what a consumer gets, in order, from a backlog of every level."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-priority-mode": "weighted", "x-priority-weights": "4,2,1"})
    publish(ch, *((b"%d" % priority, priority) for priority in (0, 1, 2) for _ in range(20)))
    assert ch.drain("q")[:14] == [b"2", b"2", b"2", b"2", b"1", b"1", b"0"] * 2


def test_a_redeclare_must_say_the_same_weights() -> None:
    """G11"""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-priority-mode": "weighted"})
    ch.declare("q", arguments={"x-priority-mode": "weighted"})
    ch.send(commands.Queue.Declare(queue="q", arguments={"x-priority-mode": "strict"}))
    assert ch.expect(commands.Channel.Close).reply_text == (
        "PRECONDITION_FAILED - inequivalent arg 'x-priority-mode' for queue 'q' in vhost '/': "
        "received 'strict' but current is 'weighted'"
    )
