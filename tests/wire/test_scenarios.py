"""The eight scenarios a work queue is judged by, one test each."""

from __future__ import annotations

from pamqp import commands

from tests.support.pair import Channel, Pair


def bodies(ch: Channel) -> list[bytes]:
    return [message.body for message in ch.deliveries()]


def test_first_in_first_out() -> None:
    """S14 in the order of publishing."""
    ch = Pair().connect().channel()
    ch.declare("q")
    for number in range(100):
        ch.publish(b"%d" % number, key="q")
    assert ch.drain("q") == [b"%d" % number for number in range(100)]


def test_priority_goes_first() -> None:
    """S2 S14 nine before zero, and within one by order."""
    ch = Pair().connect().channel()
    ch.declare("q")
    for number in range(30):
        ch.publish(b"%d" % number, key="q", priority=number % 10)
    expected = [b"%d" % (ten + level) for level in range(9, -1, -1) for ten in (0, 10, 20)]
    assert ch.drain("q") == expected


def test_work_is_shared() -> None:
    """S14 three consumers get a third each, nobody anything twice."""
    pair = Pair()
    ends = [pair.connect().channel() for _ in range(3)]
    ends[0].declare("q")
    for ch in ends:
        ch.qos(10)
        ch.consume("q")
    for number in range(30):
        ends[0].publish(b"%d" % number, key="q")
    shares = [bodies(ch) for ch in ends]
    assert [len(share) for share in shares] == [10, 10, 10]
    assert len({body for share in shares for body in share}) == 30


def test_late_and_tried_again() -> None:
    """S5 S14 not acked in time: somebody else gets it, and it says how often it came back."""
    pair = Pair()
    one, other = pair.connect().channel(), pair.connect().channel()
    one.declare("q", arguments={"x-ack-timeout": 30_000})
    one.publish(b"m", key="q")
    one.qos(1)
    one.consume("q")
    one.expect_message()
    one.call(commands.Basic.Cancel(consumer_tag=next(iter(one_tags(pair)))), commands.Basic.CancelOk)
    other.consume("q")
    pair.advance(30_000)
    again = other.expect_message()
    assert (again.redelivered, again.headers["x-delivery-count"]) == (True, 1)


def one_tags(pair: Pair) -> list[str]:
    return [consumer.tag for consumer in pair.broker.vhosts["/"].queues["q"].consumers.all]


def test_dead_after_three() -> None:
    """S5 S6 S14 three retries, then the dead-letter queue with the reason; what is refused goes there at once; and
    that queue is bounded."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("dead", arguments={"x-max-length": 2})
    dlx = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    ch.declare("q", arguments={**dlx, "x-delivery-limit": 3, "x-retry-initial": 1000})
    ch.publish(b"tried", key="q")
    for _ in range(4):
        message = ch.get("q", no_ack=False)
        assert message is not None
        ch.nack(message.tag)
        pair.advance(10_000)
    ch.publish(b"refused", key="q")
    message = ch.get("q", no_ack=False)
    assert message is not None
    ch.reject(message.tag, requeue=False)
    ch.publish(b"expired", key="q", expiration="10")
    pair.advance(10)
    # Two are kept: the oldest went.
    letters = [ch.get("dead"), ch.get("dead")]
    assert [(letter.body, letter.headers["x-first-death-reason"]) for letter in letters if letter] == [
        (b"refused", "rejected"),
        (b"expired", "expired"),
    ]


def test_no_more_than_the_prefetch() -> None:
    """S8 S14 ten at once, the next with each ack; a default for those who set none."""
    pair = Pair(default_prefetch=10)
    ch = pair.connect().channel()
    ch.declare("q")
    ch.consume("q")
    for number in range(30):
        ch.publish(b"%d" % number, key="q")
    assert len(ch.deliveries()) == 10
    ch.ack(1)
    assert bodies(ch) == [b"10"]


def test_many_at_once() -> None:
    """S14 ten publishers and ten consumers that now and then fail: everything is done once, nothing is lost."""
    pair = Pair()
    ends = [pair.connect().channel() for _ in range(10)]
    ends[0].declare("q", arguments={"x-retry-initial": 10, "x-delivery-limit": -1})
    for ch in ends:
        ch.qos(3)
        ch.consume("q")
    done: list[bytes] = []
    for number in range(50):
        for at, ch in enumerate(ends):
            ch.publish(b"%d-%d" % (at, number), key="q")
        for ch in ends:
            for message in ch.deliveries():
                if message.tag % 5 == 0:
                    ch.nack(message.tag)
                else:
                    done.append(message.body)
                    ch.ack(message.tag)
        pair.advance(1)
    for _ in range(2000):
        pair.advance(10)
        for ch in ends:
            for message in ch.deliveries():
                done.append(message.body)
                ch.ack(message.tag)
        if len(done) == 500:
            break
    assert sorted(done) == sorted(b"%d-%d" % (at, number) for at in range(10) for number in range(50))


def test_a_full_queue() -> None:
    """F15 S11 S14 at its length it refuses, or drops the oldest; a message above the size limit is refused for good."""
    pair = Pair(max_message_size=1024)
    ch = pair.connect().channel()
    ch.confirm()
    ch.declare("q", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    for _ in range(3):
        ch.publish(b"m", key="q")
    assert [kind for kind, _, _ in ch.expect_confirms()][-1] == "nack"
    assert ch.declare("q", passive=True).message_count == 2
    ch.publish(b"x" * 1025, key="q")
    close = ch.expect(commands.Channel.Close)
    assert close.reply_code == 406
