"""A queue with x-dead-letter-auto keeps a queue for its dead letters: declared with it, or, where a policy says so, at
the first death, on disk with it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pamqp import commands

from rabbitlike.broker.policies.keys import POLICY
from rabbitlike.broker.policies.policies import make_policy
from tests.support.crash_pair import DurablePair, SqliteDisk
from tests.support.pair import Channel, Message, Pair

AUTO = {"x-dead-letter-auto": True}


def fetch(ch: Channel, queue: str) -> Message:
    message = ch.get(queue, no_ack=False)
    assert message is not None, f"{queue} is empty"
    return message


def reject(ch: Channel, queue: str = "q") -> None:
    ch.reject(fetch(ch, queue).tag, requeue=False)


def queues(pair: Pair) -> set[str]:
    return set(pair.broker.vhosts["/"].queues)


def keep_by_policy(pair: Pair) -> None:
    policy = make_policy("/", "keep", POLICY, pattern="", definition={"dead-letter-auto": True})
    pair.broker.vhosts["/"].policies.set(policy)


def test_declared_with_the_queue() -> None:
    """F8 so that it can be consumed before the first message dies."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments=AUTO)
    assert queues(pair) == {"q", "q.dlq"}
    ch.consume("q.dlq", no_ack=True)
    ch.publish(b"m", key="q")
    reject(ch)
    (letter,) = ch.deliveries()
    assert letter.body == b"m"
    ch.call(commands.Queue.Delete(queue="q.dlq"), commands.Queue.DeleteOk)
    ch.expect(commands.Basic.Cancel)
    ch.declare("q", arguments=AUTO)
    assert queues(pair) == {"q", "q.dlq"}, "a redeclare has it again"


def test_queues_that_keep_none_declare_none() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("a", arguments={**AUTO, "x-dead-letter-exchange": "amq.fanout"})
    ch.declare("b", arguments={"x-dead-letter-auto": False})
    ch.declare("c", arguments=AUTO, exclusive=True)
    ch.declare("d.dlq", arguments=AUTO)
    assert queues(pair) == {"a", "b", "c", "d.dlq"}


def test_declared_at_the_first_death() -> None:
    """F8 where a policy says so, the dead-letter queue is there after the first death, and not before."""
    pair = Pair()
    keep_by_policy(pair)
    ch = pair.connect().channel()
    ch.declare("q")
    ch.publish(b"good", key="q")
    ch.ack(fetch(ch, "q").tag)
    assert queues(pair) == {"q"}
    for body in (b"one", b"two"):
        ch.publish(body, key="q")
        reject(ch)
    assert queues(pair) == {"q", "q.dlq"}
    assert pair.broker.vhosts["/"].queues["q.dlq"].durable
    assert ch.drain("q.dlq") == [b"one", b"two"]


def test_what_a_kept_letter_says() -> None:
    """F9 G8 reason, retries, first and last attempt, and where it stood; the body is untouched."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={**AUTO, "x-delivery-limit": 1})
    ch.bind("q", "amq.topic", "a.*")
    first = pair.clock.now_ms() // 1000
    ch.publish(b"before", key="q")
    ch.publish(b"m", "amq.topic", "a.b", headers={"mine": "yes"})
    ch.ack(fetch(ch, "q").tag)
    pair.advance(5_000)
    for _ in range(2):
        ch.reject(fetch(ch, "q").tag, requeue=True)
    letter = fetch(ch, "q.dlq")
    (death,) = letter.headers["x-death"]  # type: ignore[misc]
    assert (death["reason"], death["queue"], death["exchange"]) == ("delivery_limit", "q", "amq.topic")
    assert death["routing-keys"] == ["a.b"]
    assert letter.headers["x-retry-count"] == 1
    assert letter.headers["x-original-position"] == 2
    assert letter.headers["x-first-attempt"] == datetime.fromtimestamp(first, UTC)
    assert letter.headers["x-last-attempt"] == datetime.fromtimestamp(first + 5, UTC)
    assert (letter.body, letter.headers["mine"]) == (b"m", "yes")


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("reason", ["rejected", "delivery_limit", "expired", "retry_timeout", "maxlen"])
def test_retries_are_counted(reason: str, retries: int) -> None:
    """F9 how often it was tried again: the first try is no retry, and a failure that no try followed makes none."""
    pair = Pair()
    ch = pair.connect().channel()
    limits = {"delivery_limit": {"x-delivery-limit": retries}, "retry_timeout": {"x-retry-timeout": 1000}}
    ch.declare("q", arguments={**AUTO, "x-max-length": 1, **limits.get(reason, {})})
    ch.publish(b"m", key="q", expiration="500" if reason == "expired" else None)
    for _ in range(retries):
        ch.reject(fetch(ch, "q").tag, requeue=True)
    if reason == "maxlen":
        ch.publish(b"another", key="q")
    else:
        last = fetch(ch, "q")
        pair.advance(1000 if reason in ("retry_timeout", "expired") else 0)
        ch.reject(last.tag, requeue=reason != "rejected")
    letter = fetch(ch, "q.dlq")
    assert letter.headers["x-first-death-reason"] == reason
    assert letter.headers["x-retry-count"] == (max(0, retries - 1) if reason == "maxlen" else retries)


def test_an_exchange_wins() -> None:
    """With x-dead-letter-exchange there is nothing to keep, and dead letters are RabbitMQ's to the letter."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={**AUTO, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish(b"m", key="q")
    reject(ch)
    assert queues(pair) == {"q", "dead"}
    assert "x-retry-count" not in fetch(ch, "dead").headers


def test_a_queue_that_is_there_is_used_as_it_is() -> None:
    """S6 a cap on the dead-letter queue is a limit of that queue."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q.dlq", arguments={"x-max-length": 2})
    ch.declare("q", arguments=AUTO)
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
        reject(ch)
    assert ch.drain("q.dlq") == [b"2", b"3"]


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen", "delivery_limit"])
def test_every_reason(reason: str) -> None:
    """S6 whatever a message died of, its dead letter says so."""
    pair = Pair()
    ch = pair.connect().channel()
    arguments = {**AUTO, "x-message-ttl": 1000, "x-max-length": 1, "x-delivery-limit": 0}
    ch.declare("q", arguments=arguments)
    ch.publish(b"m", key="q")
    if reason == "rejected":
        reject(ch)
    elif reason == "expired":
        pair.advance(1001)
    elif reason == "maxlen":
        ch.publish(b"another", key="q")
    else:
        ch.reject(fetch(ch, "q").tag, requeue=True)
    assert fetch(ch, "q.dlq").headers["x-first-death-reason"] == reason


def test_a_policy_for_all_queues_makes_no_queue_of_queues() -> None:
    pair = Pair()
    vhost = pair.broker.vhosts["/"]
    vhost.policies.set(
        make_policy("/", "all", POLICY, pattern="", definition={"dead-letter-auto": True, "message-ttl": 1000})
    )
    ch = pair.connect().channel()
    ch.declare("q")
    ch.declare("long" * 63)
    ch.publish(b"m", key="q")
    ch.publish(b"m", key="long" * 63)
    pair.advance(1001)
    assert vhost.queues["q.dlq"].message_count == 1
    pair.advance(1001)
    assert vhost.queues["q.dlq"].message_count == 0
    assert len(vhost.queues) == 3


def test_bad_values() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", arguments={"x-dead-letter-auto": "yes"}))
    text = "PRECONDITION_FAILED - invalid arg 'x-dead-letter-auto' for queue 'q' in vhost '/': "
    ch.expect_close(406, text + "{unacceptable_type,longstr}", commands.Queue.Declare)
    with pytest.raises(ValueError, match="is not a valid dead-letter-auto value"):
        make_policy("/", "p", POLICY, pattern="", definition={"dead-letter-auto": "yes"})
    with pytest.raises(ValueError, match="is not a valid webhook URL"):
        make_policy("/", "p", POLICY, pattern="", definition={"dead-letter-webhook": "file:///etc/passwd"})


def test_who_declares_it_may_configure_what_is_kept() -> None:
    pair = Pair()
    pair.add_user("bob", "pw", configure="^q$")
    ch = pair.connect("bob", "pw").channel()
    ch.send(commands.Queue.Declare(queue="q", arguments=AUTO))
    text = "ACCESS_REFUSED - configure access to queue 'q.dlq' in vhost '/' refused for user 'bob'"
    ch.expect_close(403, text, commands.Queue.Declare)


def commit(pair: DurablePair) -> None:
    pair.journal.ask()
    assert pair.begin_commit()
    pair.end_commit()


@pytest.mark.parametrize("crash", [False, True])
def test_queue_and_letter_are_in_one_commit(tmp_path: Path, crash: bool) -> None:
    """F8 after a kill, message and dead letter are in one place, the queue that is kept included."""
    disk = SqliteDisk(tmp_path)
    pair = disk.boot()
    keep_by_policy(pair)
    pair.broker.vhosts["/"].declare_queue("q", durable=True)
    ch = pair.connect().channel()
    ch.publish(b"m", key="q", delivery_mode=2)
    commit(pair)
    reject(ch)

    if crash:  # before the commit nothing of the death is there
        pair = disk.boot(crash=True)
        ch = pair.connect().channel()
        assert queues(pair) == {"q"}
        reject(ch)
    commit(pair)
    pair = disk.boot(crash=crash)
    ch = pair.connect().channel()
    assert queues(pair) == {"q", "q.dlq"}
    assert (ch.drain("q"), ch.drain("q.dlq")) == ([], [b"m"])
    disk.close()
