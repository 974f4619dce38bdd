"""What a publish is checked for and in which order (items 14, 47-49)."""

import re

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.pair import Channel, Pair

PUBLISH = commands.Basic.Publish
NO_EXCHANGE = "NOT_FOUND - no exchange 'nope' in vhost '/'"
INTERNAL = "ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost '/'"


def publish_octets(ch: Channel, body: bytes, exchange: str, key: str) -> bytes:
    return (
        frames.encode_method(commands.Basic.Publish(exchange=exchange, routing_key=key), ch.number)
        + frames.header_frame(ch.number, len(body))
        + frames.body_frame(ch.number, body)
    )


def test_missing_exchange(pair: Pair) -> None:
    """#47 404 on the channel, when it comes to it: no reply stands between publish and close."""
    client = pair.connect()
    ch = client.channel()
    ch.publish(b"m", "nope", "k")
    ch.expect_close(404, NO_EXCHANGE, PUBLISH)
    client.expect_alive()


def test_in_flight_is_lost_with_the_channel(pair: Pair) -> None:
    """#47 What came before the failing publish is in its queue, what follows it on that channel is lost."""
    client = pair.connect()
    ch, other = client.channel(), client.channel()
    other.declare("q")
    ch.feed(
        publish_octets(ch, b"before", "", "q")
        + publish_octets(ch, b"broken", "nope", "q")
        + publish_octets(ch, b"after", "", "q")
        + publish_octets(other, b"beside", "", "q")
    )
    ch.expect_close(404, NO_EXCHANGE, PUBLISH)
    assert other.drain("q") == [b"before", b"beside"]


def test_no_nack_for_the_failing_publish(pair: Pair) -> None:
    """#47 In confirm mode those before it are confirmed, it gets the close and nothing else."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.confirm()
    ch.feed(
        publish_octets(ch, b"1", "", "q") + publish_octets(ch, b"2", "", "q") + publish_octets(ch, b"3", "nope", "q")
    )
    confirms = ch.expect_confirms()
    assert {name for name, _, _ in confirms} <= {"ack"}
    assert all(tag <= 2 for _, tag, _ in confirms)
    ch.expect_close(404, NO_EXCHANGE, PUBLISH)


def test_exchange_that_goes_and_comes_back(pair: Pair) -> None:
    """#47 A remembered route does not outlive its exchange, nor hide a new one."""
    client = pair.connect()
    ch, admin = client.channel(), client.channel()
    admin.declare("q")
    admin.declare_exchange("x", "fanout")
    admin.bind("q", "x")
    ch.publish(b"1", "x", "k")
    ch.publish(b"2", "x", "k")
    admin.call(commands.Exchange.Delete(exchange="x"), commands.Exchange.DeleteOk)
    ch.publish(b"3", "x", "k")
    ch.expect_close(404, "NOT_FOUND - no exchange 'x' in vhost '/'", PUBLISH)
    admin.declare_exchange("x", "fanout")
    admin.bind("q", "x")
    ch.open()
    ch.publish(b"4", "x", "k")
    assert admin.drain("q") == [b"1", b"2", b"4"]


def test_internal_exchange(pair: Pair) -> None:
    """#48 403; through a binding from another exchange it works."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.declare_exchange("inner", "fanout", internal=True)
    ch.bind_exchange("inner", "amq.fanout")
    ch.bind("q", "inner")
    ch.publish(b"1", "amq.fanout")
    ch.publish(b"2", "inner")
    ch.expect_close(403, INTERNAL, PUBLISH)
    assert client.channel().drain("q") == [b"1"]


# ------------------------------------------------------------------------------------------------- permissions


def test_write_permission(pair: Pair) -> None:
    """#49 Write on the exchange."""
    pair.add_user("bob", "pw", configure="", write="^amq\\.fanout$", read="")
    client = pair.connect("bob", "pw")
    client.channel().publish(b"m", "amq.fanout")
    ch = client.channel()
    ch.publish(b"m", "amq.direct", "k")
    text = r"ACCESS_REFUSED - (write )?access to exchange 'amq\.direct' in vhost '/' refused for user 'bob'"
    ch.expect_close(403, re.compile(text), PUBLISH)
    client.expect_nothing()


def test_permission_taken_away(pair: Pair) -> None:
    """#49 A right that was taken away is gone for the next publish, though the route was remembered."""
    pair.connect().channel().declare("q")
    pair.add_user("bob", "pw")
    ch = pair.connect("bob", "pw").channel()
    for _ in range(3):
        ch.publish(b"m", key="q")
    ch.expect_nothing()
    pair.add_user("bob", "pw", write="^$")
    ch.publish(b"m", key="q")
    assert ch.expect(commands.Channel.Close).reply_code == 403
    assert len(pair.connect().channel().drain("q")) == 3


def test_topic_permission(pair: Pair) -> None:
    """#49 A topic exchange may restrict the keys of a user, other exchanges do not ask."""
    pair.add_user("bob", "pw")
    pair.set_topic_permission("bob", "amq.topic", write="^{username}\\.", read=".*")
    client = pair.connect("bob", "pw")
    client.channel().publish(b"m", "amq.topic", "bob.news")
    client.channel().publish(b"m", "amq.direct", "alice.news")
    client.expect_nothing()
    ch = client.channel()
    ch.publish(b"m", "amq.topic", "alice.news")
    text = (
        r"ACCESS_REFUSED - (write )?access to topic 'alice\.news' in exchange 'amq\.topic' in vhost '/' "
        r"refused for user 'bob'"
    )
    ch.expect_close(403, re.compile(text), PUBLISH)


# ------------------------------------------------------------------------------------------------------- order

SIZE = ("message size 11 is larger", {"body": b"x" * 11})
WRITE = ("access to exchange 'closed'", {"exchange": "closed"})
MISSING = ("no exchange 'nope'", {"exchange": "nope"})
INNER = ("cannot publish to internal exchange", {"exchange": "inner"})
REPLY_TO = ("fast reply consumer does not exist", {"reply_to": "amq.rabbitmq.reply-to"})
EXPIRATION = ("invalid expiration", {"expiration": "soon"})
COPIES = ("invalid ", {"headers": {"CC": "not an array"}})
USER_ID = ("user_id property set to 'mallory' but authenticated user was 'bob'", {"user_id": "mallory"})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SIZE, WRITE),
        (SIZE, MISSING),
        (SIZE, EXPIRATION),
        (SIZE, USER_ID),
        (WRITE, REPLY_TO),
        (WRITE, EXPIRATION),
        (MISSING, REPLY_TO),
        (MISSING, EXPIRATION),
        (MISSING, COPIES),
        (MISSING, USER_ID),
        (INNER, REPLY_TO),
        (INNER, EXPIRATION),
        (INNER, COPIES),
        (INNER, USER_ID),
        (REPLY_TO, EXPIRATION),
        (REPLY_TO, COPIES),
        (REPLY_TO, USER_ID),
        (EXPIRATION, COPIES),
        (EXPIRATION, USER_ID),
        (COPIES, USER_ID),
    ],
)
def test_order_of_checks(first: tuple[str, dict[str, object]], second: tuple[str, dict[str, object]]) -> None:
    """#49 Of two faults the one that is checked earlier speaks; each alone is found, too."""
    for faults, expected in (((first, second), first), ((first,), first), ((second,), second)):
        pair = Pair(max_message_size=10)
        owner = pair.connect().channel()
        owner.declare_exchange("inner", "fanout", internal=True)
        owner.declare_exchange("closed", "fanout", internal=True)  # internal too: the permission is asked before
        pair.add_user("bob", "pw", write="^(?!closed).*$")
        ch = pair.connect("bob", "pw").channel()
        given: dict[str, object] = {"body": b"m", "key": "q"}
        for _, fault in faults:
            given |= fault
        ch.publish(**given)  # type: ignore[arg-type]
        text = ch.expect(commands.Channel.Close).reply_text
        assert expected[0] in text, text


def test_permission_before_existence(pair: Pair) -> None:
    """#49 Who may not write does not learn whether the exchange exists."""
    pair.add_user("bob", "pw", write="^$")
    ch = pair.connect("bob", "pw").channel()
    ch.publish(b"m", "nope", "k")
    assert ch.expect(commands.Channel.Close).reply_code == 403


@pytest.mark.parametrize("later", [USER_ID])
def test_topic_permission_before_user_id(pair: Pair, later: tuple[str, dict[str, object]]) -> None:
    """#49 The topic permission is asked before the user id."""
    pair.add_user("bob", "pw")
    pair.set_topic_permission("bob", "amq.topic", write="^mine$", read=".*")
    ch = pair.connect("bob", "pw").channel()
    ch.publish(b"m", "amq.topic", "other", **later[1])  # type: ignore[arg-type]
    assert "access to topic 'other'" in ch.expect(commands.Channel.Close).reply_text


@pytest.mark.parametrize("earlier", [EXPIRATION, COPIES])
def test_expiration_and_copies_before_topic_permission(pair: Pair, earlier: tuple[str, dict[str, object]]) -> None:
    """#49 Expiration and CC are looked at before the topic permission."""
    pair.add_user("bob", "pw")
    pair.set_topic_permission("bob", "amq.topic", write="^mine$", read=".*")
    ch = pair.connect("bob", "pw").channel()
    ch.publish(b"m", "amq.topic", "other", **earlier[1])  # type: ignore[arg-type]
    assert earlier[0] in ch.expect(commands.Channel.Close).reply_text


def test_checks_hold_for_every_publish(pair: Pair) -> None:
    """#49 A good publish does not wave the next one through: same address, same connection, other properties."""
    client = pair.connect()
    client.channel().declare("q")
    for fault in (EXPIRATION, COPIES, REPLY_TO, ("user_id property", {"user_id": "mallory"})):
        ch = client.channel()
        ch.publish(b"good", key="q")
        ch.publish(b"good", key="q", expiration="60000", user_id="guest", headers={"CC": []})
        ch.publish(b"bad", key="q", **fault[1])
        assert fault[0] in ch.expect(commands.Channel.Close).reply_text
        ch.send(commands.Channel.CloseOk())
    assert client.channel().drain("q") == [b"good"] * 8


def test_max_size_is_inclusive() -> None:
    """#14 Exactly the limit passes, in one body frame and in several."""
    pair = Pair(max_message_size=10)
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.publish(b"x" * 10, key="q")
    ch.feed(
        frames.encode_method(commands.Basic.Publish(routing_key="q"), ch.number)
        + frames.header_frame(ch.number, 10)
        + frames.body_frame(ch.number, b"y" * 4)
        + frames.body_frame(ch.number, b"y" * 6)
    )
    assert ch.drain("q") == [b"x" * 10, b"y" * 10]
    ch.publish(b"z" * 11, key="q")
    ch.expect_close(406, "PRECONDITION_FAILED - message size 11 is larger than configured max size 10", PUBLISH)
