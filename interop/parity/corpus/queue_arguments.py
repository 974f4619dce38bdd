"""Every argument of queues, with every kind of value, for both types of queue: taken or refused, and in which words."""

from functools import partial
from typing import Final

from pamqp import commands

from interop.parity.conversations import add, conversation
from interop.parity.talk import Talk
from tests.support.frames import Typed

TEN_YEARS_MS: Final = 315_360_000_000
NUMBERS: Final = (
    1,
    Typed("b", 5),
    Typed("B", 5),
    Typed("s", 5),
    Typed("u", 5),
    Typed("I", 5),
    Typed("i", 5),
    Typed("l", 5),
    Typed("L", 5),
    0,
    -1,
    256,
    Typed("i", 2**32 - 1),
    TEN_YEARS_MS,
    TEN_YEARS_MS + 1,
    Typed("l", 2**63 - 1),
)
ODD: Final = (
    "text",
    "10",
    "",
    True,
    False,
    Typed("d", 1.5),
    Typed("f", 2.0),
    Typed("T", 5),
    Typed("V", None),
    Typed("x", b"octets"),
    [1],
    {"a": 1},
)
VALUES: Final = (*NUMBERS, *ODD)

ARGUMENTS: Final[dict[str, tuple[object, ...]]] = {
    "x-expires": VALUES,
    "x-message-ttl": VALUES,
    "x-max-length": VALUES,
    "x-max-length-bytes": VALUES,
    "x-max-priority": VALUES,
    "x-max-in-memory-length": VALUES,
    "x-max-in-memory-bytes": VALUES,
    "x-delivery-limit": VALUES,
    "x-quorum-initial-group-size": VALUES,
    "x-single-active-consumer": (*ODD, 1, 0),
    "x-dead-letter-exchange": (*ODD, 1, "amq.direct", "absent"),
    "x-dead-letter-routing-key": ODD,
    "x-dead-letter-strategy": (*ODD, 1, "at-most-once", "at-least-once"),
    "x-overflow": (*ODD, 1, "drop-head", "reject-publish", "reject-publish-dlx"),
    "x-queue-mode": (*ODD, 1, "lazy", "default"),
    "x-queue-version": (*VALUES, 2),
    "x-queue-type": (*ODD, 1, "classic", "quorum", "Classic"),
    "x-queue-master-locator": ("min-masters", "client-local", "random"),
    "x-queue-leader-locator": (*ODD, 1, "client-local", "balanced"),
    "x-max-age": (*ODD, 1, "1h", "1D"),
    "x-stream-max-segment-size-bytes": VALUES,
    "x-initial-cluster-size": VALUES,
    "x-unheard-of": ODD,
}


def declare_with(talk: Talk, argument: str, queue_type: str) -> None:
    ch = talk.connect().channel()
    for number, value in enumerate(ARGUMENTS[argument]):
        queue = talk.name(f"q{number}")
        with_type = {} if queue_type == "classic" else {"x-queue-type": queue_type}
        with ch.refused():
            ch.declare(queue, durable=True, arguments={**with_type, argument: value})
        with ch.refused():
            ch.delete(queue)


for _argument in ARGUMENTS:
    add(f"queue_arguments.{_argument}", partial(declare_with, argument=_argument, queue_type="classic"))

#: What of them a quorum queue is asked: each that it takes costs some time there.
QUORUM: Final[dict[str, tuple[object, ...]]] = {
    "x-expires": (0, -1, "text", 5000),
    "x-message-ttl": (-1, "text", 5000),
    "x-max-length": (0, -1, "text"),
    "x-max-length-bytes": (-1, "text"),
    "x-max-priority": (5, 0, -1, "text"),
    "x-max-in-memory-length": (-1, "text", 5),
    "x-max-in-memory-bytes": (-1, "text"),
    "x-delivery-limit": (-1, "text", 0, 5),
    "x-quorum-initial-group-size": (-1, 0, "text", 1),
    "x-single-active-consumer": ("text", 1, True),
    "x-dead-letter-exchange": (1, True),
    "x-dead-letter-routing-key": ("key", 1),
    "x-dead-letter-strategy": ("text", 1, "at-most-once", "at-least-once"),
    "x-overflow": ("text", 1, "drop-head", "reject-publish-dlx"),
    "x-queue-mode": ("lazy", "text", 1),
    "x-queue-version": (2, "text"),
    "x-queue-master-locator": ("min-masters", 1),
    "x-queue-leader-locator": ("client-local", "text", 1),
    "x-max-age": ("1h", 1),
    "x-stream-max-segment-size-bytes": (100,),
    "x-initial-cluster-size": (1,),
    "x-unheard-of": (1,),
}


def declare_quorum(talk: Talk, argument: str) -> None:
    ch = talk.connect().channel()
    for number, value in enumerate(QUORUM[argument]):
        queue = talk.name(f"q{number}")
        with ch.refused():
            ch.declare(queue, durable=True, arguments={"x-queue-type": "quorum", argument: value})


for _argument in QUORUM:
    add(f"queue_arguments.quorum_{_argument}", partial(declare_quorum, argument=_argument))


@conversation
def quorum_flags(talk: Talk) -> None:
    """What a quorum queue cannot be."""
    ch = talk.connect().channel()
    quorum = {"x-queue-type": "quorum"}
    for fields in (
        {"durable": False},
        {"durable": True, "exclusive": True},
        {"durable": True, "auto_delete": True},
        {"durable": False, "exclusive": True, "auto_delete": True},
        {"durable": True, "queue": ""},
    ):
        with ch.refused():
            ch.say(commands.Queue.Declare, **{"queue": talk.name("q"), "arguments": quorum, **fields})


@conversation
def dead_lettering_together(talk: Talk) -> None:
    """A routing key with an exchange, in either order, and strategies with what they need."""
    ch = talk.connect().channel()
    for number, arguments in enumerate(
        (
            {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "key"},
            {"x-dead-letter-routing-key": "key", "x-dead-letter-exchange": "amq.direct"},
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": ""},
            {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": 5},
            {"x-dead-letter-exchange": 5, "x-dead-letter-routing-key": "key"},
            {"x-overflow": "reject-publish", "x-max-length": 5, "x-max-length-bytes": -1},
            {"x-expires": 0, "x-message-ttl": -1},
            {"x-message-ttl": -1, "x-expires": 0},
            {"x-max-priority": 256, "x-overflow": "text"},
            {"x-single-active-consumer": True, "x-max-priority": 5},
        )
    ):
        with ch.refused():
            ch.declare(talk.name(f"q{number}"), arguments=arguments)


REDECLARED: Final[tuple[tuple[dict[str, object], dict[str, object]], ...]] = (
    ({}, {"x-message-ttl": 5}),
    ({"x-message-ttl": 5}, {}),
    ({"x-message-ttl": 5}, {"x-message-ttl": 6}),
    ({"x-message-ttl": Typed("I", 5)}, {"x-message-ttl": Typed("l", 5)}),
    ({"x-message-ttl": Typed("I", 5)}, {"x-message-ttl": Typed("b", 6)}),
    ({"x-expires": Typed("s", 5000)}, {"x-expires": Typed("u", 5001)}),
    ({"x-expires": Typed("i", 50000)}, {"x-expires": Typed("L", 50001)}),
    ({"x-expires": Typed("i", 50000)}, {}),
    ({"x-max-length": 5}, {"x-max-length-bytes": 5}),
    ({"x-max-length": Typed("B", 5)}, {"x-max-length": Typed("b", 5)}),
    ({"x-max-priority": 5}, {"x-max-priority": 6}),
    ({"x-max-priority": 5}, {}),
    ({}, {"x-max-priority": 5}),
    ({"x-dead-letter-exchange": "a"}, {"x-dead-letter-exchange": "b"}),
    ({"x-dead-letter-exchange": "a"}, {"x-dead-letter-exchange": Typed("x", b"a")}),
    ({"x-dead-letter-exchange": "a"}, {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "b"}),
    ({"x-dead-letter-exchange": "a"}, {}),
    ({"x-overflow": "drop-head"}, {}),
    ({}, {"x-overflow": "drop-head"}),
    ({"x-overflow": "reject-publish"}, {"x-overflow": "drop-head"}),
    ({"x-single-active-consumer": True}, {}),
    ({"x-single-active-consumer": True}, {"x-single-active-consumer": False}),
    ({}, {"x-single-active-consumer": False}),
    ({"x-queue-type": "classic"}, {}),
    ({}, {"x-queue-type": "classic"}),
    ({}, {"x-queue-type": "quorum"}),
    ({"x-queue-mode": "lazy"}, {}),
    ({}, {"x-queue-mode": "default"}),
    ({"x-queue-version": 1}, {"x-queue-version": 2}),
    ({}, {"x-queue-version": 1}),
    ({"x-unheard-of": 1}, {"x-unheard-of": 2}),
    ({"x-unheard-of": 1}, {}),
    ({"x-queue-master-locator": "random"}, {}),
    ({"x-queue-master-locator": "random"}, {"x-queue-master-locator": "min-masters"}),
    ({"x-message-ttl": 5, "x-expires": 50000}, {"x-message-ttl": 6, "x-expires": 50001}),
    ({"x-expires": 50000, "x-message-ttl": 5}, {"x-message-ttl": 6, "x-expires": 50001}),
    ({"x-max-length": 5, "x-message-ttl": 5}, {}),
    ({"x-max-length": 5}, {"x-max-length": -1}),
    ({"x-max-length": 5}, {"x-max-length": "text"}),
)


@conversation
def redeclared(talk: Talk) -> None:
    """The same queue with other arguments."""
    ch = talk.connect().channel()
    for number, (first, second) in enumerate(REDECLARED):
        queue = talk.name(f"q{number}")
        ch.declare(queue, durable=True, arguments=first)
        with ch.refused():
            ch.declare(queue, durable=True, arguments=second)
        ch.delete(queue)


@conversation
def redeclared_quorum(talk: Talk) -> None:
    ch = talk.connect().channel()
    quorum = {"x-queue-type": "quorum"}
    queue = talk.name("q")
    ch.declare(queue, durable=True, arguments={**quorum, "x-delivery-limit": 5, "x-max-length": 100})
    for arguments in (
        {},
        {"x-queue-type": "classic"},
        quorum,
        {**quorum, "x-delivery-limit": 6, "x-max-length": 100},
        {**quorum, "x-delivery-limit": 5, "x-max-length": 101},
        {**quorum, "x-delivery-limit": 5, "x-max-length": 100, "x-message-ttl": 5},
        {**quorum, "x-delivery-limit": Typed("l", 5), "x-max-length": Typed("l", 100)},
        {**quorum, "x-delivery-limit": 5, "x-max-length": 100, "x-max-priority": 5},
        {**quorum, "x-delivery-limit": 5, "x-max-length": 100, "x-overflow": "reject-publish"},
    ):
        with ch.refused():
            ch.declare(queue, durable=True, arguments=arguments)
    for fields in ({"durable": False}, {"durable": True, "auto_delete": True}, {"durable": True, "exclusive": True}):
        with ch.refused():
            ch.declare(queue, **fields, arguments={**quorum, "x-delivery-limit": 5, "x-max-length": 100})
