"""Queue arguments: what is read, what is refused, and in which words."""

from dataclasses import dataclass, field

import pytest

from rabbitlike.broker.queue_settings.arguments import (
    check_equivalent,
    check_server_named,
    consumer_priority,
    dead_letter_exchange,
    parse,
    queue_type_of,
)
from rabbitlike.broker.queue_settings.settings import TEN_YEARS_MS, Overflow, QueueSettings
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.tables import Table, Value


def typed(**entries: tuple[str, Value]) -> Table:
    """A table of x- arguments with their wire types: typed(message_ttl=("l", 5))."""
    table = Table()
    for name, (kind, value) in entries.items():
        table.put("x-" + name.replace("_", "-"), value, kind)
    return table


def settings(
    arguments: Table | None = None, *, durable: bool = True, exclusive: bool = False, auto_delete: bool = False
) -> QueueSettings:
    return parse(
        arguments if arguments is not None else Table(),
        queue="q",
        vhost="/",
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
    )


def refusal(arguments: Table, *, durable: bool = True, exclusive: bool = False, auto_delete: bool = False) -> str:
    with pytest.raises(AmqpError) as caught:
        settings(arguments, durable=durable, exclusive=exclusive, auto_delete=auto_delete)
    assert caught.value.code == 406
    return caught.value.text


@dataclass
class NamedVhost:
    name: str = "/"


@dataclass
class DeclaredQueue:
    arguments: Table = field(default_factory=Table)
    durable: bool = True
    auto_delete: bool = False
    name: str = "q"
    vhost: NamedVhost = field(default_factory=NamedVhost)

    @property
    def settings(self) -> QueueSettings:
        return settings(self.arguments)


def mismatch(current: Table, received: Table) -> str:
    with pytest.raises(AmqpError) as caught:
        check_equivalent(DeclaredQueue(current), durable=True, auto_delete=False, arguments=received)
    assert caught.value.code == 406
    return caught.value.reply_text


def test_nothing_asked_for_is_a_plain_classic_queue() -> None:
    assert settings() == QueueSettings()
    plain = QueueSettings()
    assert (plain.queue_type, plain.levels, plain.default_priority) == ("classic", 10, 0)
    assert plain.overflow is Overflow.DROP_HEAD
    assert plain.delivery_limit is None


def test_every_argument_is_read() -> None:
    assert settings(
        typed(
            message_ttl=("I", 60_000),
            expires=("l", 120_000),
            max_length=("s", 10),
            max_length_bytes=("l", 1 << 40),
            overflow=("S", "reject-publish"),
            dead_letter_exchange=("S", "dlx"),
            dead_letter_routing_key=("S", "dead"),
            max_priority=("B", 255),
            single_active_consumer=("t", True),
            delivery_limit=("b", 3),
            consumer_timeout=("I", 5_000),
            queue_mode=("S", "lazy"),
            queue_version=("B", 2),
        )
    ) == QueueSettings(
        message_ttl_ms=60_000,
        expires_ms=120_000,
        max_length=10,
        max_length_bytes=1 << 40,
        overflow=Overflow.REJECT_PUBLISH,
        dead_letter_exchange="dlx",
        dead_letter_routing_key="dead",
        levels=256,
        single_active_consumer=True,
        delivery_limit=3,
        consumer_timeout_ms=5_000,
    )


def test_zero_where_zero_means_something() -> None:
    read = settings(typed(message_ttl=("I", 0), max_length=("I", 0), max_length_bytes=("I", 0), max_priority=("I", 0)))
    assert (read.message_ttl_ms, read.max_length, read.max_length_bytes, read.levels) == (0, 0, 0, 1)


def test_empty_strings_are_names_too() -> None:
    read = settings(typed(dead_letter_exchange=("S", ""), dead_letter_routing_key=("S", "")))
    assert (read.dead_letter_exchange, read.dead_letter_routing_key) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (typed(expires=("I", 0)), "{value_zero,0}"),
        (typed(expires=("I", -1)), "{value_negative,-1}"),
        (typed(expires=("l", TEN_YEARS_MS + 1)), "{value_too_large,315360000001}"),
        (typed(expires=("S", "60000")), '"expected integer, got longstr"'),
        (typed(message_ttl=("I", -1)), "{value_negative,-1}"),
        (typed(message_ttl=("l", TEN_YEARS_MS + 1)), "{value_too_large,315360000001}"),
        (typed(message_ttl=("d", 10.5)), '"expected integer, got double"'),
        (typed(message_ttl=("T", 10)), '"expected integer, got timestamp"'),
        (typed(message_ttl=("V", None)), '"expected integer, got void"'),
        (typed(message_ttl=("t", True)), '"expected integer, got bool"'),
        (typed(dead_letter_routing_key=("S", "k")), "routing_key_but_no_dlx_defined"),
        (typed(dead_letter_routing_key=("I", 1)), "{unacceptable_type,signedint}"),
        (typed(max_length=("I", -5)), "{value_negative,-5}"),
        (typed(max_length=("S", "5")), '"expected integer, got longstr"'),
        (typed(max_length_bytes=("l", -5)), "{value_negative,-5}"),
        (typed(max_priority=("I", 256)), "{max_value_exceeded,256}"),
        (typed(max_priority=("I", -1)), "{value_negative,-1}"),
        (typed(max_priority=("S", "10")), '"expected integer, got longstr"'),
        (typed(overflow=("S", "drop-tail")), "invalid_overflow"),
        (typed(overflow=("I", 1)), "{unacceptable_type,signedint}"),
        (typed(queue_mode=("S", "eager")), "\"unsupported queue mode 'eager'\""),
        (typed(queue_mode=("I", 1)), "{unacceptable_type,signedint}"),
        (typed(queue_version=("I", 3)), "\"unsupported queue version '3'\""),
        (typed(queue_version=("I", -2)), "{value_negative,-2}"),
        (typed(queue_version=("S", "2")), '"expected integer, got longstr"'),
        (typed(single_active_consumer=("S", "true")), "{unacceptable_type,longstr}"),
        (typed(single_active_consumer=("I", 1)), "{unacceptable_type,signedint}"),
        (typed(consumer_timeout=("I", -1)), "{value_negative,-1}"),
        (typed(delivery_limit=("S", "20")), '"expected integer, got longstr"'),
        (typed(queue_type=("S", "lavin")), "\"unsupported queue type 'lavin'\""),
        (typed(queue_type=("S", 'a"\\')), '"unsupported queue type \'a\\"\\\\\'"'),
        (typed(queue_type=("S", "stream")), "\"unsupported queue type 'stream'\""),
        (typed(queue_type=("I", 1)), "{unacceptable_type,signedint}"),
        (typed(queue_leader_locator=("S", "nearest")), "invalid_queue_locator_arg"),
    ],
)
def test_bad_values(arguments: Table, reason: str) -> None:
    """#74 #76 the reason is told as RabbitMQ prints the term."""
    key = next(iter(arguments))
    assert refusal(arguments) == f"invalid arg '{key}' for queue 'q' in vhost '/': {reason}"


def test_ten_years_are_not_too_large() -> None:
    """#74 the limit itself is allowed."""
    read = settings(typed(expires=("l", TEN_YEARS_MS), message_ttl=("l", TEN_YEARS_MS)))
    assert (read.expires_ms, read.message_ttl_ms) == (TEN_YEARS_MS, TEN_YEARS_MS)


def test_dead_letter_exchange_of_a_wrong_type_has_its_own_words() -> None:
    """#74 #77 the exchange's name is looked at before permissions are, hence before every other argument."""
    arguments = typed(expires=("I", 0), dead_letter_exchange=("I", 1))
    text = "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    assert refusal(arguments) == text
    with pytest.raises(AmqpError) as caught:
        dead_letter_exchange(arguments, queue="q", vhost="/")
    assert (caught.value.code, caught.value.text) == (406, text)


def test_dead_letter_exchange_for_the_permission_check() -> None:
    """#77 who checks permissions learns the exchange from the arguments alone; it need not exist."""
    assert dead_letter_exchange(typed(dead_letter_exchange=("S", "dlx")), queue="q", vhost="/") == "dlx"
    assert dead_letter_exchange(Table(), queue="q", vhost="/") is None


@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        ("x-max-priority", "I", 5),
        ("x-queue-mode", "S", "lazy"),
        ("x-queue-version", "I", 2),
        ("x-queue-master-locator", "S", "min-masters"),
        ("x-max-age", "S", "1D"),
        ("x-stream-max-segment-size-bytes", "l", 1),
    ],
)
def test_arguments_of_other_types_on_quorum(key: str, kind: str, value: Value) -> None:
    """#75 the type is told by the name of RabbitMQ's module."""
    arguments = typed(queue_type=("S", "quorum"))
    arguments.put(key, value, kind)
    assert refusal(arguments) == f"invalid arg '{key}' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue"


@pytest.mark.parametrize("key", ["x-dead-letter-strategy", "x-max-in-memory-length", "x-quorum-initial-group-size"])
def test_quorum_arguments_on_classic(key: str) -> None:
    """#75 classic queues refuse what only quorum queues know, whatever its value."""
    assert (
        refusal(Table({key: "?"}))
        == f"invalid arg '{key}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
    )


def test_value_is_checked_before_the_key() -> None:
    """#75 a bad value of the type's own argument is told first."""
    arguments = typed(queue_type=("S", "quorum"), max_priority=("I", 5), expires=("I", 0))
    assert refusal(arguments) == "invalid arg 'x-expires' for queue 'q' in vhost '/': {value_zero,0}"


def test_unknown_arguments_are_accepted() -> None:
    """#75 only arguments that some type knows can be wrong for another."""
    assert settings(Table({"x-retry-wait": "?", "x-what": 1, "what": None})) == QueueSettings()


def test_quorum_queue() -> None:
    read = settings(
        typed(
            queue_type=("S", "quorum"),
            overflow=("S", "reject-publish"),
            dead_letter_exchange=("S", "dlx"),
            dead_letter_strategy=("S", "at-least-once"),
            max_in_memory_length=("I", 0),
            max_in_memory_bytes=("I", 0),
            quorum_initial_group_size=("I", 3),
            queue_leader_locator=("S", "balanced"),
        )
    )
    assert read == QueueSettings(
        queue_type="quorum",
        overflow=Overflow.REJECT_PUBLISH,
        dead_letter_exchange="dlx",
        dead_letter_strategy="at-least-once",
        default_priority=4,
        delivery_limit=20,
    )
    assert read.holds_dead_letters


@pytest.mark.parametrize(("given", "limit"), [(5, 5), (0, 0), (-1, None)])
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_delivery_limit(queue_type: str, given: int, limit: int | None) -> None:
    assert settings(typed(queue_type=("S", queue_type), delivery_limit=("I", given))).delivery_limit == limit


def test_quorum_falls_back_where_overflow_does_not_suit() -> None:
    rejecting_dlx = settings(typed(queue_type=("S", "quorum"), overflow=("S", "reject-publish-dlx")))
    assert rejecting_dlx.overflow is Overflow.DROP_HEAD
    dropping = settings(typed(queue_type=("S", "quorum"), dead_letter_strategy=("S", "at-least-once")))
    assert not dropping.holds_dead_letters
    classic = QueueSettings(
        overflow=Overflow.REJECT_PUBLISH, dead_letter_exchange="", dead_letter_strategy="at-least-once"
    )
    assert not classic.holds_dead_letters
    assert settings(typed(overflow=("S", "reject-publish-dlx"))).overflow is Overflow.REJECT_PUBLISH_DLX


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (typed(dead_letter_strategy=("S", "always")), "invalid_dlx_strategy"),
        (typed(dead_letter_strategy=("I", 1)), "{unacceptable_type,signedint}"),
        (typed(quorum_initial_group_size=("I", 0)), "{value_zero,0}"),
        (typed(max_in_memory_bytes=("I", -1)), "{value_negative,-1}"),
    ],
)
def test_bad_values_of_quorum_arguments(arguments: Table, reason: str) -> None:
    """#74 arguments only quorum queues know."""
    key = next(iter(arguments))
    arguments.put("x-queue-type", "quorum", "S")
    assert refusal(arguments) == f"invalid arg '{key}' for queue 'q' in vhost '/': {reason}"


def test_quorum_flags() -> None:
    """#75 quorum queues are durable and belong to everyone."""
    quorum = typed(queue_type=("S", "quorum"))
    assert refusal(quorum, durable=False) == "invalid property 'non-durable' for queue 'q' in vhost '/'"
    assert refusal(quorum, exclusive=True) == "invalid property 'exclusive-owner' for queue 'q' in vhost '/'"
    assert (
        refusal(quorum, auto_delete=True, exclusive=True, durable=False)
        == "invalid property 'auto-delete' for queue 'q' in vhost '/'"
    )


def test_transient_shared_classic_queues_are_accepted() -> None:
    """#83 RabbitMQ 4.3 refuses them; several clients declare nothing else."""
    assert settings(durable=False) == QueueSettings()


def test_server_named() -> None:
    """#65 only classic queues get a name from the broker."""
    check_server_named(Table())
    check_server_named(typed(queue_type=("S", "classic")))
    with pytest.raises(AmqpError) as caught:
        check_server_named(typed(queue_type=("S", "quorum")))
    assert (caught.value.code, caught.value.text) == (
        406,
        "Cannot declare a server-named queue for type rabbit_quorum_queue",
    )
    assert queue_type_of(Table()) == "classic"


def test_redeclare_flags() -> None:
    """#70 #71 durable is compared first, then auto_delete, then arguments."""
    queue = DeclaredQueue(typed(message_ttl=("I", 1)), durable=True, auto_delete=False)
    with pytest.raises(AmqpError) as caught:
        check_equivalent(queue, durable=False, auto_delete=True, arguments=Table())
    assert caught.value.reply_text == (
        "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': "
        "received 'false' but current is 'true'"
    )
    with pytest.raises(AmqpError) as caught:
        check_equivalent(queue, durable=True, auto_delete=True, arguments=Table())
    assert caught.value.text == (
        "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"
    )


def test_redeclare_without_an_argument() -> None:
    """#71 the missing side is `none`, the other tells value and type."""
    assert mismatch(typed(message_ttl=("l", 1_800_000)), Table()) == (
        "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': "
        "received none but current is the value '1800000' of type 'long'"
    )
    assert mismatch(Table(), typed(message_ttl=("I", 10))) == (
        "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': "
        "received the value '10' of type 'signedint' but current is none"
    )


def test_redeclare_with_another_value() -> None:
    """#71 two values are told without their types."""
    assert mismatch(typed(message_ttl=("I", 10)), typed(message_ttl=("l", 20))).endswith(
        "received '20' but current is '10'"
    )
    assert mismatch(typed(dead_letter_exchange=("S", "a")), typed(dead_letter_exchange=("S", "b"))).endswith(
        "received 'b' but current is 'a'"
    )
    assert mismatch(typed(message_ttl=("I", 10)), typed(message_ttl=("V", None))).endswith(
        "received 'undefined' but current is '10'"
    )


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("I", 5, "the value '5' of type 'signedint'"),
        ("l", 5, "the value '5' of type 'long'"),
        ("L", 5, "the value '5' of type 'long'"),
        ("B", 5, "the value '5' of type 'unsignedbyte'"),
        ("b", 5, "the value '5' of type 'byte'"),
        ("s", 5, "the value '5' of type 'short'"),
        ("u", 5, "the value '5' of type 'unsignedshort'"),
        ("i", 5, "the value '5' of type 'unsignedint'"),
        ("d", 5.5, "the value '5.5' of type 'double'"),
        ("S", "5", "the value '5' of type 'longstr'"),
        ("x", b"5", "the value '5' of type 'binary'"),
        ("t", True, "the value 'true' of type 'bool'"),
        ("t", False, "the value 'false' of type 'bool'"),
        ("V", None, "the value 'undefined' of type 'void'"),
    ],
)
def test_type_names(kind: str, value: Value, told: str) -> None:
    """#72 RabbitMQ's names of the wire types."""
    assert mismatch(Table(), typed(max_length=(kind, value))).endswith(f"received {told} but current is none")


def test_integers_are_compared_by_value() -> None:
    """#72 width does not matter."""
    for kind in "bBsuIilL":
        check_equivalent(
            DeclaredQueue(typed(max_length=("l", 5))),
            durable=True,
            auto_delete=False,
            arguments=typed(max_length=(kind, 5)),
        )
    assert mismatch(typed(max_length=("I", 1)), typed(max_length=("t", True))).endswith(
        "received 'true' but current is '1'"
    )


def test_classic_said_or_not_is_the_same() -> None:
    """#73 in both directions; another type is not."""
    classic, quorum = typed(queue_type=("S", "classic")), typed(queue_type=("S", "quorum"))
    check_equivalent(DeclaredQueue(Table()), durable=True, auto_delete=False, arguments=classic)
    check_equivalent(DeclaredQueue(classic), durable=True, auto_delete=False, arguments=Table())
    assert mismatch(quorum, Table()).endswith(
        "inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': "
        "received none but current is the value 'quorum' of type 'longstr'"
    )
    assert mismatch(quorum, classic).endswith("received 'classic' but current is 'quorum'")


def test_unknown_arguments_are_not_compared() -> None:
    """#70 only arguments of the queue's type are."""
    check_equivalent(
        DeclaredQueue(Table({"x-what": 1})), durable=True, auto_delete=False, arguments=Table({"x-ever": 2})
    )


@pytest.mark.parametrize(("kind", "value"), [("I", 10), ("l", -10), ("b", 0)])
def test_consumer_priority(kind: str, value: int) -> None:
    """#126 any integer type, negative too."""
    assert consumer_priority(typed(priority=(kind, value)), queue="q", vhost="/") == value
    assert consumer_priority(Table(), queue="q", vhost="/") == 0


def test_bad_consumer_priority() -> None:
    """#126 anything else is refused."""
    with pytest.raises(AmqpError) as caught:
        consumer_priority(typed(priority=("S", "high")), queue="q", vhost="/")
    assert (caught.value.code, caught.value.text) == (
        406,
        "invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got longstr\"",
    )


def test_shares_are_read() -> None:
    """G11, S2: the mode, the weights as text or list, the guard, and what a message without a priority has."""
    read = settings(typed(priority_mode=("S", "weighted"), priority_weights=("S", "50, 25,15,7,3")))
    assert (read.levels, read.weights, read.priority_max_wait_ms) == (5, (3, 7, 15, 25, 50), 30_000)
    read = settings(
        typed(
            priority_mode=("S", "weighted"),
            priority_weights=("A", [3, 1]),
            priority_max_wait=("I", 5),
            max_priority=("B", 3),
            default_priority=("B", 2),
        )
    )
    assert (read.levels, read.weights, read.priority_max_wait_ms, read.default_priority) == (4, (1, 1, 1, 3), 5, 2)
    assert settings(typed(priority_mode=("S", "strict"))) == QueueSettings()


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (typed(priority_mode=("S", "fair")), "'x-priority-mode' {}: \"unsupported priority mode 'fair'\""),
        (typed(priority_mode=("I", 1)), "'x-priority-mode' {}: {unacceptable_type,signedint}"),
        (typed(priority_weights=("I", 1)), "'x-priority-weights' {}: {unacceptable_type,signedint}"),
        (
            typed(priority_weights=("S", "5,0")),
            "'x-priority-weights' {}: \"expected weights from 1 to 10000, the highest level's first\"",
        ),
        (
            typed(priority_weights=("A", [1, 2]), max_priority=("B", 0)),
            "'x-priority-weights' {}: \"2 weights for 1 levels\"",
        ),
        (typed(priority_max_wait=("I", 0)), "'x-priority-max-wait' {}: {value_zero,0}"),
        (typed(default_priority=("I", 256)), "'x-default-priority' {}: {max_value_exceeded,256}"),
    ],
)
def test_shares_that_are_refused(arguments: Table, refused: str) -> None:
    """G11"""
    assert refusal(arguments) == "invalid arg " + refused.replace("{}", "for queue 'q' in vhost '/'", 1)
