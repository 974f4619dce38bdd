"""Length limits: what counts, and the three ways a full queue makes room or refuses."""

import pytest
from pamqp import commands

from rabbitlike.broker.policies.keys import POLICY
from rabbitlike.broker.policies.policies import make_policy
from tests.support import frames
from tests.support.pair import Channel, Message, Pair, loose


def publish(ch: Channel, *bodies: bytes, queue: str = "q") -> None:
    for body in bodies:
        ch.publish(body, key=queue)


def ready(ch: Channel, queue: str = "q") -> int:
    return ch.declare(queue, passive=True).message_count or 0


def fetch(ch: Channel, queue: str = "q") -> Message:
    message = ch.get(queue, no_ack=False)
    assert message is not None
    return message


# --------------------------------------------------------------------------------------------------- what counts


def test_length_counts_ready_messages_only() -> None:
    """#86 an unacked message takes no room; requeued it counts again and the oldest goes."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 2})
    publish(ch, b"1", b"2")
    held = fetch(ch)
    publish(ch, b"3")
    assert ready(ch) == 2
    ch.nack(held.tag, requeue=True)
    assert ready(ch) == 2
    assert ch.drain("q") == [b"2", b"3"]


def test_length_zero_delivers_to_a_waiting_consumer() -> None:
    """#86 a message that goes straight to a consumer never was in the queue; one that cannot is dropped."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 0})
    publish(ch, b"nobody waits")
    assert ready(ch) == 0
    ch.qos(1)
    ch.consume("q", "c")
    publish(ch, b"first", b"no credit left")
    assert ch.bodies() == [b"first"]
    assert ready(ch) == 0


def test_bytes_count_bodies_only() -> None:
    """#86 x-max-length-bytes adds up ready bodies, not properties; exactly the limit fits."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length-bytes": 10})
    ch.publish(b"12345", key="q", headers={"padding": "x" * 500})
    ch.publish(b"67890", key="q", headers={"padding": "x" * 500})
    assert ready(ch) == 2
    held = fetch(ch)
    publish(ch, b"abcde")
    assert ready(ch) == 2
    ch.nack(held.tag, requeue=True)
    assert ch.drain("q") == [b"67890", b"abcde"]


def test_bytes_drop_as_many_as_it_takes() -> None:
    """#86 #87 one large message pushes out several small ones; one larger than the limit pushes out itself too."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length-bytes": 10})
    publish(ch, b"1111", b"2222", b"33", b"99999999")
    assert ch.drain("q") == [b"33", b"99999999"]
    publish(ch, b"small", b"larger than all")
    assert ready(ch) == 0


def test_both_limits_apply() -> None:
    """#86 whichever is reached first."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 3, "x-max-length-bytes": 10})
    publish(ch, b"1", b"2", b"3", b"4")
    assert ch.drain("q") == [b"2", b"3", b"4"]
    publish(ch, b"11111", b"22222", b"3")
    assert ch.drain("q") == [b"22222", b"3"]


# ------------------------------------------------------------------------------------------------------ drop-head


@pytest.mark.parametrize("arguments", [{}, {"x-overflow": "drop-head"}], ids=["default", "said"])
def test_drop_head_drops_the_oldest(arguments: dict[str, object]) -> None:
    """#87 the default: the newest stay, every publish is acked."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 2, **arguments})
    ch.confirm()
    publish(ch, b"1", b"2", b"3", b"4", b"5")
    assert {name for name, _, _ in ch.expect_confirms()} == {"ack"}
    assert ch.drain("q") == [b"4", b"5"]


def test_drop_head_dead_letters_as_maxlen() -> None:
    """#87 what is dropped goes to the dead letter exchange with reason maxlen, oldest first."""
    ch = Pair().connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    publish(ch, b"1", b"2", b"3")
    first, second = fetch(ch, "dead"), fetch(ch, "dead")
    assert [first.body, second.body] == [b"1", b"2"]
    assert [first.headers["x-first-death-reason"], second.headers["x-first-death-reason"]] == ["maxlen", "maxlen"]
    assert ready(ch, "dead") == 0
    assert ch.drain("q") == [b"3"]


# ------------------------------------------------------------------------------------------------ reject-publish


def test_reject_publish_nacks() -> None:
    """#87 a full queue keeps what it has and the publisher gets a nack; room again, ack again."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    ch.confirm()
    outcomes = []
    for body in (b"1", b"2", b"3"):
        publish(ch, body)
        outcomes += ch.expect_confirms()
    assert outcomes == [("ack", 1, False), ("ack", 2, False), ("nack", 3, False)]
    held = fetch(ch)
    publish(ch, b"4")
    assert ch.expect_confirms() == [("ack", 4, False)]
    ch.ack(held.tag)
    assert ch.drain("q") == [b"2", b"4"]


def test_reject_publish_counts_bytes() -> None:
    """#87 a message that would go beyond x-max-length-bytes is refused, also by an empty queue."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length-bytes": 5, "x-overflow": "reject-publish"})
    ch.confirm()
    publish(ch, b"123456")
    assert ch.expect_confirms() == [("nack", 1, False)]
    publish(ch, b"12345")
    assert ch.expect_confirms() == [("ack", 2, False)]
    publish(ch, b"6")
    assert ch.expect_confirms() == [("nack", 3, False)]
    assert ch.drain("q") == [b"12345"]


def test_reject_publish_without_confirms_is_silent() -> None:
    """#87 the refused message is gone and nobody is told; the channel lives, mandatory changes nothing."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    publish(ch, b"1")
    ch.publish(b"2", key="q", mandatory=True)
    ch.expect_nothing()
    assert ch.drain("q") == [b"1"]


@pytest.mark.parametrize("expiration", [None, "60000"], ids=["plain", "checked"])
@pytest.mark.parametrize("full_first", [True, False])
def test_one_refusal_is_enough_for_the_nack(full_first: bool, expiration: str | None) -> None:
    """#87 routed to several queues of which one refuses: nack, once, while the others keep the message."""
    ch = Pair().connect().channel()
    limits: list[dict[str, object]] = [{"x-max-length": 0, "x-overflow": "reject-publish"}, {}]
    for name, arguments in zip("ab", limits if full_first else reversed(limits), strict=True):
        ch.declare(name, arguments=arguments)
        ch.bind(name, "amq.fanout")
    ch.confirm()
    ch.publish(b"m", "amq.fanout", expiration=expiration)
    assert ch.expect_confirms() == [("nack", 1, False)]
    roomy = "b" if full_first else "a"
    assert ch.drain(roomy) == [b"m"]


def test_reject_publish_dead_letters_nothing() -> None:
    """#87 reject-publish keeps the dead letter exchange out of it."""
    ch = Pair().connect().channel()
    ch.declare("dead")
    ch.declare(
        "q",
        arguments={
            "x-max-length": 1,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    publish(ch, b"1", b"2")
    assert ch.drain("dead") == []


def test_reject_publish_dlx_dead_letters_the_newcomer() -> None:
    """#87 reject-publish-dlx nacks and sends the refused message, not the oldest, to the DLX with reason maxlen."""
    ch = Pair().connect().channel()
    ch.declare("dead")
    ch.declare(
        "q",
        arguments={
            "x-max-length": 1,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    ch.confirm()
    publish(ch, b"1")
    assert ch.expect_confirms() == [("ack", 1, False)]
    publish(ch, b"2")
    assert ch.expect_confirms() == [("nack", 2, False)]
    dead = fetch(ch, "dead")
    assert (dead.body, dead.headers["x-first-death-reason"], dead.headers["x-first-death-queue"]) == (
        b"2",
        "maxlen",
        "q",
    )
    assert ch.drain("q") == [b"1"]


def test_requeue_into_a_full_queue_is_not_refused() -> None:
    """#87 refusing is for publishers: a requeued message always comes back."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    publish(ch, b"1")
    held = fetch(ch)
    publish(ch, b"2")
    ch.nack(held.tag, requeue=True)
    assert ch.drain("q") == [b"1", b"2"]


def test_limit_is_applied_within_one_read() -> None:
    """#86 #87 many publishes in one piece of bytes: the limit holds as if they came one by one."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
    ch.confirm()
    ch.feed(b"".join(_publish_bytes(ch.number, bytes([n])) for n in range(10)))
    settled: dict[int, str] = {}
    for name, tag, multiple in ch.expect_confirms():
        for one in range(1, tag + 1) if multiple else (tag,):
            settled.setdefault(one, name)
    assert settled == {tag: "ack" if tag <= 3 else "nack" for tag in range(1, 11)}
    assert ch.drain("q") == [b"\x00", b"\x01", b"\x02"]


def _publish_bytes(channel: int, body: bytes) -> bytes:
    return (
        frames.encode_method(commands.Basic.Publish(routing_key="q"), channel)
        + frames.header_frame(channel, len(body))
        + frames.body_frame(channel, body)
    )


# ----------------------------------------------------------------------------------------- where queues set none


def test_a_limit_by_default() -> None:
    """S12 a queue that sets none has the option's, and refuses what is too much; one that sets its own has that."""
    pair = Pair(default_max_length=2)
    ch = pair.connect().channel()
    ch.confirm()
    ch.declare("q")
    ch.declare("longer", arguments={"x-max-length": 3})
    ch.declare("by octets", arguments={"x-max-length-bytes": 1000})
    ch.declare("drops", arguments={"x-overflow": "drop-head"})
    for name in ("q", "longer", "by octets", "drops"):
        publish(ch, b"1", b"2", b"3", b"4", queue=name)
    assert [word for word, _, _ in ch.expect_confirms()].count("nack") == 2
    assert ch.drain("q") == [b"1", b"2"]
    assert ch.drain("longer") == [b"2", b"3", b"4"]
    assert ch.drain("by octets") == [b"1", b"2", b"3", b"4"]
    assert ch.drain("drops") == [b"3", b"4"]


def test_a_policy_goes_before_the_default() -> None:
    """S12 and when the policy goes, the default is back."""
    pair = Pair(default_max_length=2)
    ch = pair.connect().channel()
    ch.declare("q")
    policies = pair.broker.vhosts["/"].policies
    policies.set(make_policy("/", "long", POLICY, pattern="^q$", definition={"max-length": 3}))
    publish(ch, b"1", b"2", b"3", b"4")
    assert ready(ch) == 3
    policies.clear(POLICY, "long")
    publish(ch, b"5")
    assert ch.drain("q") == [b"2", b"3", b"4"]


def test_no_limit_unless_asked_for() -> None:
    """S12 parity: without the option a queue takes all."""
    ch = Pair().connect().channel()
    ch.declare("q")
    publish(ch, *(b"%d" % number for number in range(1000)))
    assert ready(ch) == 1000


# ------------------------------------------------------------------------------------------- the size of a message

TOO_LARGE = "PRECONDITION_FAILED - message size 11 is larger than configured max size 10 of queue 'q' in vhost '/'"


def test_a_message_too_large_for_its_queue() -> None:
    """F15 exactly the limit fits; one octet more closes the channel, and no queue has got it."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q", arguments={"x-max-message-size": 10})
    ch.declare("other")
    for name in ("q", "other"):
        ch.bind(name, "amq.fanout")
    ch.publish(b"x" * 10, "amq.fanout")
    ch.publish(b"x" * 11, "amq.fanout")
    ch.expect_close(406, TOO_LARGE, commands.Basic.Publish)
    ch = client.channel()
    assert ch.drain("q") == [b"x" * 10]
    assert ch.drain("other") == [b"x" * 10]


def test_the_size_limit_in_a_transaction() -> None:
    """F15 it is known at once, and the publishes before it are gone with the channel."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q", arguments={"x-max-message-size": 10})
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    publish(ch, b"fits", b"x" * 11)
    ch.expect_close(406, TOO_LARGE, commands.Basic.Publish)
    assert ready(client.channel()) == 0


def test_the_size_limit_by_policy() -> None:
    """F15 it holds at once, also for those who published there before; the lower of argument and policy wins."""
    pair = Pair()
    client = pair.connect()
    ch = client.channel()
    ch.declare("q", arguments={"x-max-message-size": 100})
    publish(ch, b"x" * 11)
    policies = pair.broker.vhosts["/"].policies
    policies.set(make_policy("/", "small", POLICY, pattern="^q$", definition={"max-message-size": 10}))
    publish(ch, b"x" * 10)
    publish(ch, b"x" * 11)
    ch.expect_close(406, TOO_LARGE, commands.Basic.Publish)
    policies.clear(POLICY, "small")
    ch = client.channel()
    publish(ch, b"x" * 100)
    assert ready(ch) == 3


@pytest.mark.parametrize(("value", "said"), [(-1, "{value_negative,-1}"), ("big", '"expected integer, got longstr"')])
def test_a_bad_size_limit(value: object, said: str) -> None:
    """F15 refused when it is declared."""
    ch = Pair().connect().channel()
    ch.send(loose(commands.Queue.Declare, queue="q", arguments={"x-max-message-size": value}))
    text = f"PRECONDITION_FAILED - invalid arg 'x-max-message-size' for queue 'q' in vhost '/': {said}"
    ch.expect_close(406, text, commands.Queue.Declare)


@pytest.mark.parametrize("how", ["nack", "recover", "close"])
def test_those_that_go_back_together_find_room_together(how: str) -> None:
    """#87 #123 the first in line are dropped until the rest fits, in whatever order they were delivered last."""
    client = Pair().connect()
    ch, other = client.channel(), client.channel()
    ch.declare("q", arguments={"x-max-length-bytes": 8})
    ch.consume("q")
    other.publish(b"1.", key="q")
    other.publish(b"2...........", key="q")
    first, _ = ch.deliveries()
    ch.nack(first.tag)
    assert [message.body for message in ch.deliveries()] == [b"1."]
    ch.call(commands.Basic.Cancel(consumer_tag=first.method.consumer_tag), commands.Basic.CancelOk)
    if how == "nack":
        ch.nack(multiple=True)
    elif how == "recover":
        ch.call(commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
    else:
        ch.close()
    assert other.drain("q") == []
