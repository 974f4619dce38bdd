"""Limits, expiry and dead letters: what goes where, when and why, and what is written on it."""

from functools import partial
from typing import Any, Final

from pamqp import commands

from interop.parity.conversations import add, conversation
from interop.parity.corpus.consuming import fill
from interop.parity.talk import Talk, Voice
from tests.support.frames import Typed

QUORUM: Final = {"x-queue-type": "quorum"}


def dead_letters(ch: Voice, queue: str, dead: str, *, key: str | None = None, **fields: object) -> None:
    """A queue whose dead letters go to another."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead if key is None else key}
    ch.declare(dead, arguments={"x-max-priority": 0})
    given = fields.pop("arguments", {})
    assert isinstance(given, dict)
    ch.declare(queue, arguments={**arguments, **given}, **fields)


def rejected(talk: Talk, queue_type: str) -> None:
    """By every verb; properties and headers stay, the letter says why."""
    ch = talk.connect().channel(confirms=True)
    queue, dead = talk.name("q"), talk.name("dead")
    is_quorum = queue_type == "quorum"
    dead_letters(ch, queue, dead, durable=is_quorum, arguments=QUORUM if is_quorum else {})
    ch.publish(b"plain", key=queue)
    ch.publish(b"all", key=queue, headers={"a": 1}, expiration="100000", delivery_mode=2, message_id="m")
    ch.publish(b"copies", key=queue, headers={"CC": ["nowhere", "else"]})
    ch.publish(b"nobody knows", key=queue, headers={"a": 1, "BCC": ["nowhere"]})
    ch.get(queue)
    ch.reject(1, requeue=False)
    ch.get(queue)
    ch.get(queue)
    ch.get(queue)
    ch.nack(0, multiple=True, requeue=False)
    ch.count(dead)
    ch.drain(dead, 4)


for _type in ("classic", "quorum"):
    add(f"dying.rejected_{_type}", partial(rejected, queue_type=_type))


@conversation
def without_a_key(talk: Talk) -> None:
    """The keys a letter had are those it goes by; a key of the queue's replaces them, and CC."""
    ch = talk.connect().channel(confirms=True)
    queue, exchange, dead, copy, other = (talk.name(word) for word in ("q", "x", "dead", "copy", "other"))
    ch.exchange(exchange)
    for name in (dead, copy, other):
        ch.declare(name)
    ch.bind(dead, exchange, queue)
    ch.bind(copy, exchange, "copy")
    ch.bind(other, exchange, "other")
    ch.declare(queue, arguments={"x-dead-letter-exchange": exchange})
    ch.publish(b"1", key=queue, headers={"CC": ["copy"], "a": 1})
    ch.get(queue)
    ch.reject(1, requeue=False)
    for name in (dead, copy, other):
        ch.count(name)
        ch.get(name, no_ack=True)
    ch.delete(queue)
    ch.declare(queue, arguments={"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "other"})
    ch.publish(b"2", key=queue, headers={"CC": ["copy"], "a": 1})
    ch.get(queue)
    ch.reject(5, requeue=False)
    for name in (other, dead, copy):
        ch.count(name)
        ch.get(name, no_ack=True)


@conversation
def nowhere(talk: Talk) -> None:
    """An exchange that is not there, or leads nowhere: the letter is gone, the channel is not."""
    ch = talk.connect().channel(confirms=True)
    for number, arguments in enumerate(
        (
            {"x-dead-letter-exchange": talk.name("absent")},
            {"x-dead-letter-exchange": "amq.fanout"},
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "nowhere"},
        )
    ):
        queue = talk.name(f"q{number}")
        ch.declare(queue, arguments=arguments)
        ch.publish(b"", key=queue)
        ch.get(queue)
        ch.reject(number + 1, requeue=False)
        ch.count(queue)


@conversation
def again_and_again(talk: Talk) -> None:
    """Two queues that die into each other: what was rejected goes round and is counted."""
    ch = talk.connect().channel(confirms=True)
    queue, dead = talk.name("q"), talk.name("dead")
    ch.declare(queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    ch.declare(dead, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue})
    ch.publish(b"round", key=queue, headers={"a": 1})
    for number in range(3):
        ch.get(queue)
        ch.reject(2 * number + 1, requeue=False)
        ch.get(dead)
        ch.reject(2 * number + 2, requeue=False)
    ch.get(queue)


@conversation
def to_itself(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue, arguments={"x-dead-letter-exchange": ""})
    ch.publish(b"again", key=queue)
    for tag in (1, 2, 3):
        ch.get(queue)
        ch.reject(tag, requeue=False)
    ch.get(queue)


@conversation
def cycles(talk: Talk) -> None:
    """A letter that dies by itself is not sent to where it has died already."""
    ch = talk.connect().channel(confirms=True)
    queue, slow, dead = talk.name("q"), talk.name("slow"), talk.name("dead")
    ch.declare(queue, arguments={"x-dead-letter-exchange": "", "x-message-ttl": 1})
    ch.publish(b"to itself", key=queue)
    talk.pause(0.1)
    ch.count(queue)
    ch.declare(dead)
    ch.declare(slow, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-message-ttl": 1})
    ch.publish(b"expires", key=slow)
    ch.count(dead)
    ch.get(dead)


@conversation
def expired(talk: Talk) -> None:
    """By the queue's time and by the message's own, the shorter of them; the property is taken off and told."""
    ch = talk.connect().channel(confirms=True)
    queue, dead = talk.name("q"), talk.name("dead")
    dead_letters(ch, queue, dead, arguments={"x-message-ttl": 60000})
    ch.publish(b"short", key=queue, expiration="20", headers={"n": 1})
    ch.count(dead)
    ch.drain(dead, 1)
    ch.publish(b"long", key=queue, expiration="100000")
    ch.get(queue)
    ch.reject(2, requeue=False)
    ch.count(dead)
    ch.drain(dead, 1)
    ch.publish(b"at once", key=queue, expiration="0")
    ch.count(dead)
    ch.drain(dead, 1)


@conversation
def expired_to_a_consumer(talk: Talk) -> None:
    """Whoever waits for it gets what expires at once."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue, arguments={"x-message-ttl": 0})
    ch.publish(b"too early", key=queue)
    ch.count(queue)
    ch.consume(queue, "c")
    ch.publish(b"in time", key=queue)
    ch.reject(1)
    ch.count(queue)


@conversation
def copied_headers(talk: Talk) -> None:
    """A letter that says it has died already, as a client may write it."""
    ch = talk.connect().channel(confirms=True)
    queue, dead = talk.name("q"), talk.name("dead")
    dead_letters(ch, queue, dead)
    death = {
        "count": Typed("l", 3),
        "reason": "rejected",
        "queue": queue,
        "time": Typed("T", 1_600_000_000),
        "exchange": "",
        "routing-keys": [queue],
    }
    for number, headers in enumerate(
        (
            {"x-death": [death]},
            {"x-death": [{**death, "queue": "other"}]},
            {"x-death": [{**death, "reason": "expired"}]},
            {"x-death": []},
            {"x-first-death-queue": "other"},
        )
    ):
        ch.publish(repr(number).encode(), key=queue, headers=headers)
        ch.get(queue)
        ch.reject(2 * number + 1, requeue=False)
        ch.count(dead)
        ch.get(dead)
        ch.ack(2 * number + 2)


OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")


def overflowing(talk: Talk, overflow: str, limit: str) -> None:
    """More than fits, confirmed or refused, and what of it dies."""
    ch = talk.connect().channel(confirms=True)
    queue, dead = talk.name("q"), talk.name("dead")
    room = 3 if limit == "x-max-length" else 10
    dead_letters(ch, queue, dead, arguments={limit: room, "x-overflow": overflow})
    for number in range(5):
        ch.publish(b"%d" % number * (number + 1), key=queue, headers={"n": number})
        ch.count(queue)
    ch.count(dead)
    ch.consume(queue, "c")
    ch.publish(b"next", key=queue)
    ch.publish(b"x" * 20, key=queue)
    ch.nack(0, multiple=True)
    ch.cancel("c")
    ch.say(commands.Basic.Recover, requeue=True)
    ch.count(queue)
    ch.count(dead)
    ch.consume(dead, "dead", no_ack=True)


for _overflow in OVERFLOWS:
    for _limit in ("x-max-length", "x-max-length-bytes"):
        add(f"dying.{_overflow}_{_limit}", partial(overflowing, overflow=_overflow, limit=_limit))


@conversation
def no_room_at_all(talk: Talk) -> None:
    ch = talk.connect().channel(confirms=True)
    for overflow in OVERFLOWS:
        for limit in ("x-max-length", "x-max-length-bytes"):
            queue = talk.name(f"{overflow}{limit}")
            ch.declare(queue, arguments={limit: 0, "x-overflow": overflow})
            ch.publish(b"full", key=queue)
            ch.publish(b"", key=queue)
            ch.count(queue)
            ch.consume(queue, queue, no_ack=True)
            ch.publish(b"through", key=queue)


@conversation
def several_full(talk: Talk) -> None:
    """One refusal is enough for a nack; the others keep it."""
    ch = talk.connect().channel(confirms=True)
    exchange, full, roomy = talk.name("x"), talk.name("full"), talk.name("roomy")
    ch.exchange(exchange, "fanout")
    ch.declare(full, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.declare(roomy)
    ch.bind(full, exchange)
    ch.bind(roomy, exchange)
    fill(ch, full, 1)
    ch.publish(b"to both", exchange)
    ch.count(full)
    ch.count(roomy)


@conversation
def queue_expiry(talk: Talk) -> None:
    """Unused for its time it goes; being got from and declared again is being used."""
    ch = talk.connect().channel(confirms=True)
    idle, got, consumed = talk.name("idle"), talk.name("got"), talk.name("consumed")
    for name in (idle, got, consumed):
        ch.declare(name, arguments={"x-expires": 300})
    ch.consume(consumed, "c")
    for _ in range(3):
        talk.pause(0.15)
        ch.get(got)
    ch.count(consumed)
    with ch.refused():
        ch.declare(idle, passive=True)


@conversation
def priorities(talk: Talk) -> None:
    """Highest first, each level in its order, what is above the highest as the highest."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue, arguments={"x-max-priority": 5})
    for number, priority in enumerate((None, 0, 3, 5, 9, 255, 3, 1)):
        fields: dict[str, Any] = {} if priority is None else {"priority": priority}
        ch.publish(b"%d" % number, key=queue, **fields)
    ch.get(queue)
    ch.reject(1)
    ch.count(queue)
    ch.drain(queue, 8)


@conversation
def full_priorities(talk: Talk) -> None:
    """The lowest are dropped first."""
    ch = talk.connect().channel(confirms=True)
    queue, dead = talk.name("q"), talk.name("dead")
    dead_letters(ch, queue, dead, arguments={"x-max-priority": 5, "x-max-length": 2})
    for number, priority in enumerate((1, 5, 3, 0, 5)):
        ch.publish(b"%d" % number, key=queue, priority=priority)
    ch.count(dead)
    ch.drain(queue, 2)
    ch.drain(dead, 3)


@conversation
def delivery_limit(talk: Talk) -> None:
    """A quorum queue counts, and gives up."""
    ch = talk.connect().channel(confirms=True)
    queue, dead = talk.name("q"), talk.name("dead")
    dead_letters(ch, queue, dead, durable=True, arguments={**QUORUM, "x-delivery-limit": 2})
    ch.publish(b"fails", key=queue, headers={"a": 1})
    for tag in (1, 2, 3):
        ch.get(queue)
        ch.nack(tag)
        talk.pause(0.05)
    ch.count(dead)
    ch.drain(dead, 1)


@conversation
def quorum_basics(talk: Talk) -> None:
    """What a quorum queue does otherwise than a classic one."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue, durable=True, arguments={**QUORUM, "x-delivery-limit": 10})
    ch.publish(b"1", key=queue, headers={"a": 1, "x-delivery-count": 7})
    ch.publish(b"2", key=queue)
    ch.publish(b"3", key=queue)
    ch.get(queue)
    ch.reject(1)
    talk.pause(0.05)
    ch.count(queue)
    ch.qos(1)
    ch.consume(queue, "c")
    ch.ack(2)
    ch.ack(3)
    ch.ack(4)
    ch.cancel("c")
    ch.count(queue)
    with ch.refused():
        ch.consume(queue, "c", arguments={"x-priority": "text"})


@conversation
def priorities_unasked(talk: Talk) -> None:
    """In a queue that was not declared with priorities."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    ch.publish(b"low", key=queue, priority=1)
    ch.publish(b"high", key=queue, priority=9)
    ch.get(queue, no_ack=True)
    ch.get(queue, no_ack=True)


@conversation
def quorum_requeue(talk: Talk) -> None:
    """Without a limit of deliveries."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue, durable=True, arguments=QUORUM)
    fill(ch, queue, 2)
    ch.get(queue)
    ch.reject(1)
    talk.pause(0.1)
    ch.get(queue)


@conversation
def expired_behind(talk: Talk) -> None:
    """What expires behind what does not."""
    ch = talk.connect().channel(confirms=True)
    queue = talk.name("q")
    ch.declare(queue)
    ch.publish(b"stays", key=queue)
    ch.publish(b"expires", key=queue, expiration="10")
    talk.pause(0.1)
    ch.declare(queue, passive=True)


@conversation
def blind_copies(talk: Talk) -> None:
    """Dead letters by the keys of BCC."""
    ch = talk.connect().channel(confirms=True)
    queue, exchange, copy = talk.name("q"), talk.name("x"), talk.name("copy")
    ch.exchange(exchange)
    ch.declare(copy)
    ch.bind(copy, exchange, "copy")
    ch.declare(queue, arguments={"x-dead-letter-exchange": exchange})
    ch.publish(b"1", key=queue, headers={"BCC": ["copy"]})
    ch.get(queue)
    ch.reject(1, requeue=False)
    talk.pause(0.1)
    ch.get(copy)


@conversation
def going_back_together(talk: Talk) -> None:
    """Where there is no room for all, the first in line are dropped, in whatever order they were delivered last."""
    client = talk.connect()
    ch, other = client.channel(), client.channel(2, confirms=True)
    queue, dead = talk.name("q"), talk.name("dead")
    dead_letters(other, queue, dead, arguments={"x-max-length-bytes": 8})
    for how in ("nack", "recover", "close"):
        ch.reopen()
        ch.consume(queue, "c")
        other.publish(b"1.", key=queue)
        other.publish(b"2...........", key=queue)
        ch.nack(1)
        ch.cancel("c")
        if how == "nack":
            ch.nack(0, multiple=True)
        elif how == "recover":
            ch.say(commands.Basic.Recover, requeue=True)
        ch.close()
        other.count(queue)
        other.drain(dead, 2)
