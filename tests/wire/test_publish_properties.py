"""What a publish may carry: properties that are checked, and properties that pass through untouched."""

from collections.abc import Callable

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.pair import Channel, Message, Pair, Typed


def by_get(ch: Channel) -> Message:
    message = ch.get("q")
    assert message is not None
    return message


def by_deliver(ch: Channel) -> Message:
    ch.consume("q", no_ack=True)
    return ch.expect_message()


def passed_through(ch: Channel, properties: bytes, receive: Callable[[Channel], Message] = by_get) -> Message:
    ch.declare("q")
    ch.publish(b"body", key="q", properties=properties)
    return receive(ch)


def test_immediate_is_not_implemented() -> None:
    """#89 immediate=true closes the connection with 540."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    ch.publish(b"m", key="q", immediate=True)
    client.expect_close(540, "NOT_IMPLEMENTED - immediate=true", commands.Basic.Publish)


# ----------------------------------------------------------------------------------------------- expiration, user


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("abc", "no_integer"),
        ("", "no_integer"),
        (" 5", "no_integer"),
        ("10ms", '{leftover_string,"ms"}'),
        ("1.5", '{leftover_string,".5"}'),
        ("-1", "{value_negative,-1}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_bad_expiration(expiration: str, reason: str) -> None:
    """#101 a decimal number of milliseconds or 406."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    ch.publish(b"m", key="q", expiration=expiration)
    ch.expect_close(406, f"PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}", commands.Basic.Publish)
    assert client.channel().drain("q") == []


@pytest.mark.parametrize("expiration", ["1", "0005", "+5", "315360000000"])
def test_good_expiration(expiration: str) -> None:
    """#101 accepted, and delivered as it was written."""
    message = passed_through(Pair().connect().channel(), frames.properties(expiration=expiration))
    assert message.properties.expiration == expiration


def test_expiration_zero_is_valid() -> None:
    """#101 #139 no error: delivered to a waiting consumer."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.consume("q", no_ack=True)
    ch.publish(b"m", key="q", expiration="0")
    assert ch.expect_message().properties.expiration == "0"


def test_unroutable_is_checked_too() -> None:
    """#101 #102 the checks come before routing."""
    ch = Pair().connect().channel()
    ch.publish(b"m", key="nowhere", expiration="soon")
    ch.expect_close(406, "PRECONDITION_FAILED - invalid expiration 'soon': no_integer", commands.Basic.Publish)


def test_own_user_id_passes() -> None:
    """#102 the name of the authenticated user."""
    message = passed_through(Pair().connect().channel(), frames.properties(user_id="guest"))
    assert message.properties.user_id == "guest"


@pytest.mark.parametrize("claimed", ["x", "Guest", "guest2", ""])
def test_foreign_user_id_is_refused(claimed: str) -> None:
    """#102 any other name is 406; names are compared exactly."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    ch.publish(b"m", key="q", user_id=claimed)
    ch.expect_close(
        406,
        f"PRECONDITION_FAILED - user_id property set to '{claimed}' but authenticated user was 'guest'",
        commands.Basic.Publish,
    )
    assert client.channel().drain("q") == []


def test_impersonator_may_claim_any_user_id() -> None:
    """#102 the tag impersonator lifts the check."""
    pair = Pair()
    pair.broker.users.set_tags("guest", ["impersonator"])
    message = passed_through(pair.connect().channel(), frames.properties(user_id="x"))
    assert message.properties.user_id == "x"


# --------------------------------------------------------------------------------------------- untouched properties

#: Every property in the order of the specification.
EVERY: dict[str, object] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"a": 1},
    "delivery_mode": 2,
    "priority": 5,
    "correlation_id": "correlation",
    "reply_to": "reply",
    "expiration": "60000",
    "message_id": "id",
    "timestamp": 1_700_000_000,
    "message_type": "type",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "cluster",
}

FLAGS = [1 << bit for bit in range(15, 1, -1)]


@pytest.mark.parametrize(("name", "flag"), list(zip(EVERY, FLAGS, strict=True)))
def test_each_property_alone(name: str, flag: int) -> None:
    """#103 one bit each, from the top, and its value comes back."""
    raw = frames.properties(**{name: EVERY[name]})
    assert raw[:2] == frames.short(flag)  # what the test sends is what the specification says
    message = passed_through(Pair().connect().channel(), raw)
    assert message.raw_properties == raw
    assert [one for one in EVERY if getattr(message.properties, one) not in (None, {}, "")] == [name]


def test_all_properties_together() -> None:
    """#103 in the specification's order."""
    raw = frames.properties(**EVERY)
    assert raw[:2] == frames.short(sum(FLAGS))
    message = passed_through(Pair().connect().channel(), raw)
    assert message.raw_properties == raw
    assert message.properties.message_type == "type"
    assert message.properties.cluster_id == "cluster"


def test_no_properties() -> None:
    """#103 #105 nothing is added: no delivery mode, no priority, no empty headers."""
    assert passed_through(Pair().connect().channel(), b"\x00\x00").raw_properties == b"\x00\x00"


ODD_HEADERS = frames.table(
    {
        "zebra first": Typed("b", -5),
        "B": Typed("B", 250),
        "u": Typed("u", 65000),
        "s": Typed("s", -300),
        "L": Typed("L", -1),
        "f": Typed("f", 0.5),
        "bytes": Typed("x", b"\x00\xff\xfe"),
        "void": Typed("V", None),
        "stamp": Typed("T", 4_000_000_000),
        "not utf-8": Typed("S", b"\xff\xfe"),
        "array": [1, "two", {"three": Typed("i", 3)}, []],
        "table": {"nested": {"deeper": Typed("I", 1)}, "empty": {}},
        "": "no name",
        "aardvark last": True,
    }
)


@pytest.mark.parametrize("receive", [by_get, by_deliver])
def test_properties_are_sent_on_byte_by_byte(receive: Callable[[Channel], Message]) -> None:
    """#104 untouched messages keep the order, the types and the octets of their headers."""
    raw = frames.short(1 << 13 | 1 << 12) + ODD_HEADERS + b"\x01"
    message = passed_through(Pair().connect().channel(), raw, receive)
    assert message.raw_properties == raw


def test_returned_properties_are_byte_identical() -> None:
    """#104 #90 also when they come back as basic.return."""
    ch = Pair().connect().channel()
    raw = frames.short(1 << 13) + ODD_HEADERS
    ch.publish(b"m", key="nowhere", mandatory=True, properties=raw)
    assert ch.expect_message(commands.Basic.Return).raw_properties == raw


def test_redelivered_properties_gain_a_count_and_lose_nothing() -> None:
    """#104 #130 a redelivery says how often it came back; all else keeps its octets and its order."""
    ch = Pair().connect().channel()
    ch.declare("q")
    raw = frames.short(1 << 13) + ODD_HEADERS
    ch.publish(b"m", key="q", properties=raw)
    first = ch.get("q", no_ack=False)
    assert first is not None
    ch.nack(first.tag, requeue=True)
    again = by_get(ch)
    assert again.redelivered
    count = frames.table({"x-delivery-count": Typed("l", 1)})
    assert again.raw_properties == frames.short(1 << 13) + frames.longstr(ODD_HEADERS[4:] + count[4:])


def test_duplicate_header_keys_survive() -> None:
    """#104 a table may say a key twice; it is not ours to tidy up."""
    headers = frames.longstr(frames.table({"k": 1})[4:] + frames.table({"k": 2})[4:])
    raw = frames.short(1 << 13) + headers
    assert passed_through(Pair().connect().channel(), raw).raw_properties == raw


@pytest.mark.parametrize("mode", [0, 1, 2, 3, 255])
def test_delivery_mode_is_an_octet_like_any_other(mode: int) -> None:
    """#105 passed through as it came, also with values nobody defined."""
    raw = frames.properties(delivery_mode=mode)
    assert passed_through(Pair().connect().channel(), raw).raw_properties == raw


@pytest.mark.parametrize("priority", [0, 9, 10, 255])
def test_priority_is_delivered_as_published(priority: int) -> None:
    """#106 the level is clamped, the property is not changed."""
    raw = frames.properties(priority=priority)
    assert passed_through(Pair().connect().channel(), raw).raw_properties == raw


@pytest.mark.parametrize("stamp", [0, 1_700_000_000, 1_700_000_000_000, 2**64 - 1])
def test_timestamp_is_64_bits_of_anything(stamp: int) -> None:
    """#107 seconds, milliseconds or nonsense: passed through."""
    raw = frames.short(1 << 6) + frames.longlong(stamp)
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"m", key="q", properties=raw)
    ch.send(commands.Basic.Get(queue="q", no_ack=True))
    # pamqp cannot read dates that far away: look at the octets before it does
    assert frames.header_frame(ch.number, 1, raw) in bytes(ch.client.wire.outbox)
