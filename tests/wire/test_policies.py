"""What a client sees when policies come, change and go under queues and exchanges in use."""

import pytest
from pamqp import commands

from rabbitlike.broker.policies.keys import OPERATOR_POLICY, POLICY, PolicyKind
from rabbitlike.broker.policies.policies import SLICE, make_policy
from rabbitlike.broker.terms import Json
from tests.support.pair import Channel, Pair


def set_policy(
    pair: Pair, definition: dict[str, Json], name: str = "p", kind: PolicyKind = POLICY, **said: Json
) -> None:
    policy = make_policy("/", name, kind, **{"pattern": "^q", "definition": definition, **said})  # type: ignore[arg-type]
    pair.broker.turn.begin()
    pair.broker.vhosts["/"].policies.set(policy)
    pair.broker.turn.finish()
    pair.settle()


def clear_policy(pair: Pair, name: str = "p", kind: PolicyKind = POLICY) -> None:
    pair.broker.turn.begin()
    assert pair.broker.vhosts["/"].policies.clear(kind, name)
    pair.broker.turn.finish()
    pair.settle()


def ready(ch: Channel, queue: str = "q") -> int:
    return ch.declare(queue, passive=True).message_count or 0


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def ch(pair: Pair) -> Channel:
    return pair.connect().channel()


def test_the_smaller_limit_rules_and_the_operators_over_both(pair: Pair, ch: Channel) -> None:
    """#88 of argument and policy the smaller; an operator policy beats both."""
    ch.declare("q", arguments={"x-max-length": 4})
    set_policy(pair, {"max-length": 3})
    for number in range(6):
        ch.publish(b"%d" % number, key="q")
    assert ready(ch) == 3
    set_policy(pair, {"max-length": 2}, "op", OPERATOR_POLICY)
    assert ready(ch) == 2
    clear_policy(pair, "op", OPERATOR_POLICY)
    clear_policy(pair)
    for number in range(6):
        ch.publish(b"%d" % number, key="q")
    assert ready(ch) == 4


def test_a_lower_length_drops_from_the_head_at_once_and_buries(pair: Pair, ch: Channel) -> None:
    ch.declare("dead")
    ch.declare("q")
    for number in range(5):
        ch.publish(b"%d" % number, key="q")
    set_policy(pair, {"max-length": 2, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"})
    assert ch.drain("q") == [b"3", b"4"]
    letters = [ch.get("dead") for _ in range(3)]
    assert [letter.body for letter in letters if letter] == [b"0", b"1", b"2"]
    assert letters[0] is not None
    assert letters[0].headers["x-first-death-reason"] == "maxlen"


def test_a_queue_that_refuses_drops_nothing_it_has(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.confirm()
    for number in range(3):
        ch.publish(b"%d" % number, key="q")
    ch.expect_confirms()
    set_policy(pair, {"max-length": 1, "overflow": "reject-publish"})
    assert ready(ch) == 3
    ch.publish(b"late", key="q")
    assert ch.expect_confirms() == [("nack", 4, False)]
    set_policy(pair, {"max-length": 1})
    assert ch.drain("q") == [b"2"]


def test_declared_under_a_policy(pair: Pair, ch: Channel) -> None:
    set_policy(pair, {"max-length": 1})
    ch.declare("q")
    ch.declare("other")
    for queue in ("q", "other"):
        ch.publish(b"1", key=queue)
        ch.publish(b"2", key=queue)
    assert ch.drain("q") == [b"2"]
    assert ch.drain("other") == [b"1", b"2"]


def test_a_lease_begins_ends_and_begins_anew(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    pair.advance(10_000)
    set_policy(pair, {"expires": 1000})
    pair.advance(900)
    set_policy(pair, {"expires": 2000})
    pair.advance(1900)
    clear_policy(pair)
    pair.advance(10_000)
    set_policy(pair, {"expires": 1000})
    pair.advance(1000)
    ch.send(commands.Queue.Declare(queue="q", passive=True))
    ch.expect_close(404, "NOT_FOUND - no queue 'q' in vhost '/'", commands.Queue.Declare)


def test_a_ttl_is_for_what_arrives_from_then_on(pair: Pair, ch: Channel) -> None:
    """What waits keeps the time it came with; what stands behind it expires in its own time all the same."""
    ch.declare("q")
    ch.publish(b"for ever", key="q")
    set_policy(pair, {"message-ttl": 1000})
    ch.publish(b"long", key="q")
    set_policy(pair, {"message-ttl": 100})
    ch.publish(b"short", key="q")
    assert ready(ch) == 3
    pair.advance(100)
    assert ready(ch) == 2
    clear_policy(pair)
    ch.publish(b"for ever, too", key="q")
    pair.advance(899)
    assert ready(ch) == 3
    pair.advance(1)
    assert ch.drain("q") == [b"for ever", b"for ever, too"]


def test_an_unlimited_message_that_comes_back_does_not_keep_others_from_expiring(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.publish(b"for ever", key="q")
    held = ch.get("q", no_ack=False)
    assert held is not None
    set_policy(pair, {"message-ttl": 100})
    ch.publish(b"short", key="q")
    ch.publish(b"short", key="q")
    ch.nack(held.tag)
    pair.advance(100)
    assert ch.drain("q") == [b"for ever"]
    for _ in range(3):
        ch.publish(b"again in order", key="q")
    pair.advance(100)
    assert ready(ch) == 0


def test_dead_letters_follow_the_policy_of_the_day(pair: Pair, ch: Channel) -> None:
    for queue in ("q", "first", "second"):
        ch.declare(queue)
    for target in ("first", "second"):
        set_policy(pair, {"dead-letter-exchange": "", "dead-letter-routing-key": target})
        ch.publish(target.encode(), key="q")
        held = ch.get("q", no_ack=False)
        assert held is not None
        ch.reject(held.tag, requeue=False)
        assert ch.drain(target) == [target.encode()]


def test_a_delivery_limit_for_quorum_queues_and_for_classic_ones_that_are_named(pair: Pair, ch: Channel) -> None:
    ch.declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    ch.declare("q.classic")
    set_policy(pair, {"delivery-limit": 1})
    for _ in range(3):
        ch.publish(b"m", key="q")
        ch.publish(b"m", key="q.classic")
    for queue in ("q", "q.classic"):
        for _ in range(9):
            held = ch.get(queue, no_ack=False)
            if held is not None:
                ch.nack(held.tag)
    assert (ready(ch, "q"), ready(ch, "q.classic")) == (0, 3)
    set_policy(pair, {"delivery-limit": 1}, apply_to="classic_queues")
    for _ in range(9):
        held = ch.get("q.classic", no_ack=False)
        if held is not None:
            ch.nack(held.tag)
    assert ready(ch, "q.classic") == 0


def test_a_consumer_timeout_holds_for_those_who_consume_already(pair: Pair, ch: Channel) -> None:
    ch.declare("q")
    ch.publish(b"slow", key="q")
    ch.consume("q", "c")
    ch.expect_message()
    pair.advance(3000)
    set_policy(pair, {"consumer-timeout": 5000})
    pair.advance(1999)
    pair.connect().channel().declare("q", passive=True)
    ch.expect_nothing()
    pair.advance(1)
    assert pair.broker.vhosts["/"].queues["q"].message_count == 1


def test_an_alternate_exchange_comes_and_goes(pair: Pair, ch: Channel) -> None:
    ch.declare("caught")
    ch.declare_exchange("qx")
    ch.bind("caught", "amq.fanout")
    ch.publish(b"lost", "qx", "nowhere")
    set_policy(pair, {"alternate-exchange": "amq.fanout"})
    ch.publish(b"caught", "qx", "nowhere")
    ch.declare_exchange("qx.later")
    ch.publish(b"caught, too", "qx.later", "nowhere")
    clear_policy(pair)
    ch.publish(b"lost", "qx", "nowhere")
    assert ch.drain("caught") == [b"caught", b"caught, too"]


def test_the_alternate_of_the_declaration_stands_before_the_policys(pair: Pair, ch: Channel) -> None:
    """#88 of two words the argument's."""
    ch.declare("mine")
    ch.declare("theirs")
    ch.bind("mine", "amq.fanout")
    ch.bind("theirs", "amq.direct", "k")
    ch.declare_exchange("qx", arguments={"alternate-exchange": "amq.fanout"})
    set_policy(pair, {"alternate-exchange": "amq.direct"})
    ch.publish(b"m", "qx", "k")
    assert ch.drain("mine") == [b"m"]
    assert ch.drain("theirs") == []


def test_the_default_exchange_has_no_alternate(pair: Pair, ch: Channel) -> None:
    ch.declare("caught")
    ch.bind("caught", "amq.fanout")
    set_policy(pair, {"alternate-exchange": "amq.fanout"}, pattern=".*")
    ch.publish(b"m", "", "nowhere", mandatory=True)
    ch.expect_message(commands.Basic.Return)
    assert ch.drain("caught") == []


def test_redeclaring_asks_for_the_arguments_alone(pair: Pair, ch: Channel) -> None:
    ch.declare("q", arguments={"x-max-length": 10})
    set_policy(pair, {"max-length": 3, "expires": 60_000})
    ch.declare("q", arguments={"x-max-length": 10})


def test_a_change_reaches_thousands_of_queues_a_slice_at_a_time(pair: Pair, ch: Channel) -> None:
    """No turn is long, no queue is forgotten, and what is declared, deleted or changed meanwhile comes out right."""
    vhost = pair.broker.vhosts["/"]
    queues = [vhost.declare_queue(f"q{number}") for number in range(5 * SLICE)]
    set_policy(pair, {"max-length": 9}, "old")
    set_policy(pair, {"max-length": 5}, "new", priority=1)
    assert [queue.settings.max_length for queue in queues] == [5] * SLICE + [None] * (4 * SLICE)
    vhost.delete_queue(queues.pop())
    assert vhost.declare_queue("q-late").settings.max_length == 5
    pair.advance(0)
    assert {queue.settings.max_length for queue in queues} == {5}
    assert not vhost.policies.is_behind
