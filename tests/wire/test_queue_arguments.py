"""Queue arguments: what is refused at declare and in which words, and what makes two declarations the same."""

import pytest
from pamqp import commands

from rabbitlike.broker.accounts.permissions import Permission
from tests.support.pair import Channel, Pair, Typed, loose

PLACE = "queue 'q' in vhost '/'"


def refused(ch: Channel, text: str, *, code: int = 406, **fields: object) -> None:
    """Declaring q with these fields closes the channel with this code and text."""
    ch.send(loose(commands.Queue.Declare, queue="q", **fields))
    ch.expect_close(code, text, commands.Queue.Declare)


def inequivalent(key: str, received: str, current: str) -> str:
    return f"PRECONDITION_FAILED - inequivalent arg '{key}' for {PLACE}: received {received} but current is {current}"


# -------------------------------------------------------------------------------------------------- equivalence


def test_equal_declarations_are_the_same_queue() -> None:
    """#70 flags and arguments equal: declare-ok, nothing changed."""
    ch = Pair().connect().channel()
    fields = {"durable": True, "auto_delete": True, "arguments": {"x-message-ttl": 1000, "x-overflow": "drop-head"}}
    ch.declare("q", **fields)
    ch.publish(b"kept", key="q")
    assert ch.declare("q", **fields).message_count == 1


@pytest.mark.parametrize(("flag", "value"), [("durable", True), ("durable", False), ("auto_delete", True)])
def test_flags_must_match(flag: str, value: bool) -> None:
    """#70 #71 durable and auto_delete are told as 'true' and 'false'."""
    client = Pair().connect()
    client.channel().declare("q", **{flag: not value})
    shown = {True: "'true'", False: "'false'"}
    refused(client.channel(), inequivalent(flag, shown[value], shown[not value]), **{flag: value})


def test_flags_are_compared_before_arguments() -> None:
    """#70 durable first, then auto_delete, then arguments."""
    client = Pair().connect()
    client.channel().declare("q")
    arguments = {"x-max-length": 5}
    refused(
        client.channel(),
        inequivalent("durable", "'true'", "'false'"),
        durable=True,
        auto_delete=True,
        arguments=arguments,
    )
    refused(client.channel(), inequivalent("auto_delete", "'true'", "'false'"), auto_delete=True, arguments=arguments)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("x-message-ttl", Typed("l", 1800000), "the value '1800000' of type 'long'"),
        ("x-message-ttl", Typed("L", 1800000), "the value '1800000' of type 'long'"),
        ("x-expires", Typed("I", 10), "the value '10' of type 'signedint'"),
        ("x-max-length", Typed("i", 10), "the value '10' of type 'unsignedint'"),
        ("x-max-length-bytes", Typed("s", 10), "the value '10' of type 'short'"),
        ("x-max-length-bytes", Typed("u", 10), "the value '10' of type 'unsignedshort'"),
        ("x-max-priority", Typed("b", 10), "the value '10' of type 'byte'"),
        ("x-max-priority", Typed("B", 10), "the value '10' of type 'unsignedbyte'"),
        ("x-dead-letter-exchange", "dlx", "the value 'dlx' of type 'longstr'"),
        ("x-overflow", "reject-publish", "the value 'reject-publish' of type 'longstr'"),
        ("x-single-active-consumer", True, "the value 'true' of type 'bool'"),
        ("x-queue-mode", "lazy", "the value 'lazy' of type 'longstr'"),
    ],
)
def test_argument_on_one_side_only(key: str, value: object, told: str) -> None:
    """#71 #72 the side that has it is told with value and type name, the other is none; both ways round."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q", arguments={key: value})
    refused(client.channel(), inequivalent(key, "none", told), arguments={})
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    ch.declare("q")
    refused(client.channel(), inequivalent(key, told, "none"), arguments={key: value})


@pytest.mark.parametrize(
    ("key", "current", "received"),
    [
        ("x-message-ttl", Typed("I", 10), Typed("l", 20)),
        ("x-dead-letter-exchange", Typed("S", "one"), Typed("S", "two")),
    ],
)
def test_argument_on_both_sides(key: str, current: Typed, received: Typed) -> None:
    """#71 two different values are told bare, without their types."""
    client = Pair().connect()
    client.channel().declare("q", arguments={key: current})
    refused(
        client.channel(),
        inequivalent(key, f"'{received.value}'", f"'{current.value}'"),
        arguments={key: received},
    )


def test_existing_queue_is_compared_before_arguments_are_checked() -> None:
    """#71 #72 a value no new queue could have is inequivalent, not invalid, where the queue exists."""
    client = Pair().connect()
    client.channel().declare("q")
    refused(
        client.channel(),
        inequivalent("x-message-ttl", "the value '1.5' of type 'double'", "none"),
        arguments={"x-message-ttl": Typed("d", 1.5)},
    )


@pytest.mark.parametrize("kind", list("bBsuIilL"))
def test_integers_of_any_width_are_equivalent(kind: str) -> None:
    """#72 equal values of different integer types are equal."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-message-ttl": Typed("I", 100)})
    assert ch.declare("q", arguments={"x-message-ttl": Typed(kind, 100)}).queue == "q"


def test_unknown_arguments_differ_silently() -> None:
    """#70 arguments the queue type does not know are not compared."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-mine": 1})
    assert ch.declare("q", arguments={"x-mine": 2, "other": "text"}).queue == "q"
    assert ch.declare("q").queue == "q"


def test_arguments_of_another_type_are_not_compared() -> None:
    """#70 only the arguments of the existing queue's own type count."""
    ch = Pair().connect().channel()
    ch.declare("q")
    assert ch.declare("q", arguments={"x-quorum-initial-group-size": 3}).queue == "q"


def test_order_of_arguments_does_not_matter() -> None:
    """#70 tables are compared by key."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-max-length": 5, "x-message-ttl": 100})
    assert ch.declare("q", arguments={"x-message-ttl": 100, "x-max-length": 5}).queue == "q"


def test_classic_is_what_a_queue_is_anyway() -> None:
    """#73 x-queue-type classic equals no x-queue-type, both ways."""
    ch = Pair().connect().channel()
    ch.declare("said", durable=True, arguments={"x-queue-type": "classic"})
    assert ch.declare("said", durable=True).queue == "said"
    ch.declare("unsaid", durable=True)
    assert ch.declare("unsaid", durable=True, arguments={"x-queue-type": "classic"}).queue == "unsaid"


@pytest.mark.parametrize(
    ("current", "received", "told"),
    [
        (None, "quorum", ("the value 'quorum' of type 'longstr'", "none")),
        ("quorum", None, ("none", "the value 'quorum' of type 'longstr'")),
        ("classic", "quorum", ("'quorum'", "'classic'")),
        ("quorum", "classic", ("'classic'", "'quorum'")),
    ],
)
def test_queue_type_must_match(current: str | None, received: str | None, told: tuple[str, str]) -> None:
    """#73 any other difference of type is inequivalent."""
    client = Pair().connect()
    client.channel().declare("q", durable=True, arguments={"x-queue-type": current} if current else {})
    refused(
        client.channel(),
        inequivalent("x-queue-type", *told),
        durable=True,
        arguments={"x-queue-type": received} if received else {},
    )


# -------------------------------------------------------------------------------------------------- bad arguments

TOO_LONG = 315_360_000_001  # ten years and a millisecond


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("x-expires", Typed("I", 0), "{value_zero,0}"),
        ("x-expires", Typed("I", -1), "{value_negative,-1}"),
        ("x-expires", Typed("l", TOO_LONG), f"{{value_too_large,{TOO_LONG}}}"),
        ("x-expires", "10", '"expected integer, got longstr"'),
        ("x-message-ttl", Typed("b", -1), "{value_negative,-1}"),
        ("x-message-ttl", Typed("l", TOO_LONG), f"{{value_too_large,{TOO_LONG}}}"),
        ("x-message-ttl", "1000", '"expected integer, got longstr"'),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", Typed("d", 1000.0), '"expected integer, got double"'),
        ("x-max-length", Typed("I", -5), "{value_negative,-5}"),
        ("x-max-length", "5", '"expected integer, got longstr"'),
        ("x-max-length-bytes", Typed("l", -5), "{value_negative,-5}"),
        ("x-max-priority", Typed("I", 256), "{max_value_exceeded,256}"),
        ("x-max-priority", Typed("I", -1), "{value_negative,-1}"),
        ("x-max-priority", "high", '"expected integer, got longstr"'),
        ("x-overflow", "drop-tail", "invalid_overflow"),
        ("x-overflow", Typed("I", 1), "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", "key", "routing_key_but_no_dlx_defined"),
        ("x-dead-letter-routing-key", Typed("I", 1), "{unacceptable_type,signedint}"),
        ("x-single-active-consumer", Typed("I", 1), "{unacceptable_type,signedint}"),
        ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
        ("x-queue-mode", "hasty", "\"unsupported queue mode 'hasty'\""),
        ("x-queue-version", Typed("I", 3), "\"unsupported queue version '3'\""),
        ("x-queue-type", "heap", "\"unsupported queue type 'heap'\""),
        ("x-queue-type", Typed("I", 1), "{unacceptable_type,signedint}"),
    ],
)
def test_bad_argument(key: str, value: object, reason: str) -> None:
    """#74 #76 406 with the reason as RabbitMQ prints it, and no queue is made."""
    client = Pair().connect()
    refused(
        client.channel(), f"PRECONDITION_FAILED - invalid arg '{key}' for {PLACE}: {reason}", arguments={key: value}
    )
    refused(client.channel(), f"NOT_FOUND - no {PLACE}", code=404, passive=True)


def test_dead_letter_exchange_must_be_a_string() -> None:
    """#74 refused before the other arguments are looked at, in words of its own."""
    refused(
        Pair().connect().channel(),
        f"PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in {PLACE}",
        arguments={"x-message-ttl": Typed("I", -1), "x-dead-letter-exchange": Typed("I", 1)},
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("x-expires", 1),
        ("x-expires", Typed("l", TOO_LONG - 1)),
        ("x-message-ttl", 0),
        ("x-message-ttl", Typed("l", TOO_LONG - 1)),
        ("x-max-length", 0),
        ("x-max-length-bytes", 0),
        ("x-max-priority", 0),
        ("x-max-priority", 255),
        ("x-overflow", "drop-head"),
        ("x-overflow", "reject-publish"),
        ("x-overflow", "reject-publish-dlx"),
        ("x-single-active-consumer", False),
        ("x-queue-mode", "default"),
        ("x-queue-mode", "lazy"),
        ("x-queue-version", 1),
        ("x-queue-version", 2),
    ],
)
def test_good_argument(key: str, value: object) -> None:
    """#74 the borders that are still accepted; queue mode and version are taken and change nothing."""
    ch = Pair().connect().channel()
    assert ch.declare("q", arguments={key: value}).queue == "q"


def test_argument_of_another_type() -> None:
    """#75 an argument the queue type cannot have is named with that type."""
    refused(
        Pair().connect().channel(),
        f"PRECONDITION_FAILED - invalid arg 'x-max-priority' for {PLACE} of queue type rabbit_quorum_queue",
        durable=True,
        arguments={"x-queue-type": "quorum", "x-max-priority": 5},
    )


def test_dead_letter_routing_key_with_its_exchange() -> None:
    """#76 with x-dead-letter-exchange the key is accepted, also when that exchange is the default one."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})


# ---------------------------------------------------------------------------------------------- dead letter rights


def user_channel(permission: Permission) -> Channel:
    pair = Pair()
    pair.broker.users.add("u", "secret")
    pair.broker.permissions.set("u", "/", permission)
    return pair.connect(user="u", password="secret").channel()


DLX = {"arguments": {"x-dead-letter-exchange": "dlx"}}


def test_dead_letter_exchange_need_not_exist() -> None:
    """#77 configure and read on the queue and write on the DLX are enough; nobody looks whether it exists."""
    assert user_channel(Permission("^q$", "^dlx$", "^q$")).declare("q", **DLX).queue == "q"


@pytest.mark.parametrize(
    ("permission", "denied"),
    [
        (Permission("", "^dlx$", "^q$"), "configure access to queue 'q'"),
        (Permission("^q$", "^dlx$", ""), "read access to queue 'q'"),
        (Permission("^q$", "", "^q$"), "write access to exchange 'dlx'"),
    ],
    ids=["configure", "read", "write"],
)
def test_dead_letter_exchange_needs_rights(permission: Permission, denied: str) -> None:
    """#77 each of the three is needed; without a DLX only configure is."""
    ch = user_channel(permission)
    ch.send(loose(commands.Queue.Declare, queue="q", **DLX))
    ch.expect_close(403, f"ACCESS_REFUSED - {denied} in vhost '/' refused for user 'u'", commands.Queue.Declare)


def test_plain_queue_needs_configure_only() -> None:
    """#77 no DLX, no read and no write."""
    assert user_channel(Permission("^q$", "", "")).declare("q").queue == "q"


def test_text_and_octets_are_the_same_value() -> None:
    """#72 a redeclare compares values of different types, and octets are octets."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-dead-letter-exchange": "dead"})
    refused(
        ch,
        inequivalent("x-dead-letter-exchange", "'other'", "'dead'"),
        arguments={"x-dead-letter-exchange": "other"},
    )
    ch.client.channel().declare("q", arguments={"x-dead-letter-exchange": Typed("x", b"dead")})
