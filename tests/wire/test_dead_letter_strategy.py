"""x-dead-letter-strategy: at-least-once: dead letters that cannot go are kept, and go as soon as they can."""

import logging
from datetime import UTC, datetime

import pytest
from pamqp import commands

from rabbitlike.broker import views
from rabbitlike.broker.queues.dead_letters.held_dead_letters import LONGEST_MS, SHORTEST_MS, WINDOW
from rabbitlike.broker.queues.queue import Queue
from tests.support.pair import Channel, Message, Pair
from tests.wire.test_policies import clear_policy, set_policy

AT_LEAST_ONCE: dict[str, object] = {
    "x-queue-type": "quorum",
    "x-overflow": "reject-publish",
    "x-dead-letter-strategy": "at-least-once",
}
FULL_AT_ONE: dict[str, object] = {"x-max-length": 1, "x-overflow": "reject-publish"}


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def ch(pair: Pair) -> Channel:
    return pair.connect().channel()


def declare(ch: Channel, exchange: str = "dlx", **arguments: object) -> None:
    """The queue q, whose dead letters go to an exchange."""
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    ch.declare("q", durable=True, arguments={**AT_LEAST_ONCE, "x-dead-letter-exchange": exchange, **given})


def kill(ch: Channel, *bodies: bytes, key: str = "q", **fields: object) -> None:
    """Publish messages to q and reject them."""
    for body in bodies:
        ch.publish(body, key=key, **fields)
        message = ch.get("q", no_ack=False)
        assert message is not None
        ch.reject(message.tag, requeue=False)


def the_queue(pair: Pair, name: str = "q") -> Queue:
    return pair.broker.vhosts["/"].queues[name]


def held(pair: Pair) -> tuple[int, int]:
    """What is ready in q, and how many dead letters are kept."""
    return the_queue(pair).ready.count, the_queue(pair).held_dead_letter_count


def look(pair: Pair) -> None:
    """Let it see what has changed."""
    pair.advance(LONGEST_MS)


def fetch(ch: Channel, queue: str) -> Message:
    message = ch.get(queue)
    assert message is not None
    return message


# ----------------------------------------------------------------------------------------------------- what is kept


def test_a_letter_that_can_go_goes_at_once(pair: Pair, ch: Channel) -> None:
    """Just as with the other strategy."""
    ch.declare("dead")
    declare(ch, "", x_dead_letter_routing_key="dead")
    kill(ch, b"1", b"2")
    assert held(pair) == (0, 0)
    assert ch.drain("dead") == [b"1", b"2"]


def test_without_an_exchange_letters_are_kept_until_there_is_one(pair: Pair, ch: Channel) -> None:
    """And until it leads somewhere; in the order they died."""
    declare(ch)
    kill(ch, b"1", b"2")
    look(pair)
    assert held(pair) == (0, 2)
    assert ch.get("q") is None, "they are dead: no consumer sees them again"
    ch.declare_exchange("dlx", "fanout")
    look(pair)
    assert held(pair) == (0, 2)
    ch.declare("dead")
    ch.bind("dead", "dlx")
    look(pair)
    assert held(pair) == (0, 0)
    assert ch.drain("dead") == [b"1", b"2"]


def test_a_letter_says_when_and_of_what_it_died(pair: Pair, ch: Channel) -> None:
    """Not when it could go at last."""
    declare(ch, x_message_ttl=1000)
    ch.publish(b"m", key="q", expiration="500")
    pair.advance(500)
    died = pair.clock.now_ms() // 1000
    pair.advance(60_000)
    ch.declare_exchange("dlx", "fanout")
    ch.declare("dead")
    ch.bind("dead", "dlx")
    look(pair)
    letter = fetch(ch, "dead")
    [death] = letter.headers["x-death"]  # type: ignore[misc]
    assert (death["reason"], death["queue"], death["count"]) == ("expired", "q", 1)
    assert death["time"] == datetime.fromtimestamp(died, UTC)
    assert death["original-expiration"] == "500"
    assert letter.properties.expiration is None


@pytest.mark.parametrize("reason", ["rejected", "expired", "delivery_limit"])
def test_whatever_it_died_of(pair: Pair, ch: Channel, reason: str) -> None:
    """Every way to die that such a queue has."""
    declare(ch, x_delivery_limit=0)
    if reason == "rejected":
        kill(ch, b"m")
    else:
        ch.publish(b"m", key="q", **({"expiration": "10"} if reason == "expired" else {}))
        if reason == "delivery_limit":
            message = ch.get("q", no_ack=False)
            assert message is not None
            ch.nack(message.tag)
        pair.advance(10)
    assert held(pair) == (0, 1)
    ch.declare_exchange("dlx", "fanout")
    ch.declare("dead")
    ch.bind("dead", "dlx")
    look(pair)
    assert fetch(ch, "dead").headers["x-first-death-reason"] == reason


def test_a_letter_that_a_full_queue_refuses_waits_for_room(pair: Pair, ch: Channel) -> None:
    """And goes as soon as there is some, one after the other."""
    ch.declare("dead", arguments=FULL_AT_ONE)
    declare(ch, "", x_dead_letter_routing_key="dead")
    kill(ch, b"1", b"2", b"3")
    assert held(pair) == (0, 2)
    look(pair)
    assert held(pair) == (0, 2)
    assert fetch(ch, "dead").body == b"1"
    for _ in range(LONGEST_MS):
        pair.advance(1)
        if held(pair) == (0, 1):
            break
    assert fetch(ch, "dead").body == b"2"
    pair.advance(SHORTEST_MS)  # while dead letters go they are looked at often
    assert fetch(ch, "dead").body == b"3"
    assert held(pair) == (0, 0)
    assert ch.get("dead") is None


def test_a_consumer_that_makes_room_is_given_all_within_moments(pair: Pair, ch: Channel) -> None:
    """In one go, as far as it takes them."""
    ch.declare("dead", arguments=FULL_AT_ONE)
    declare(ch, "", x_dead_letter_routing_key="dead")
    kill(ch, *(b"%d" % number for number in range(50)))
    look(pair)
    assert held(pair) == (0, 49)
    ch.consume("dead", no_ack=True)
    look(pair)
    assert ch.bodies() == [b"%d" % number for number in range(50)]


def test_only_those_that_refused_are_sent_it_again(pair: Pair, ch: Channel) -> None:
    """Of several queues that are to have it one is full: the others have it at once, and once."""
    ch.declare_exchange("dlx", "fanout")
    ch.declare("full", arguments=FULL_AT_ONE)
    ch.declare("open")
    ch.publish(b"before", key="full")
    for queue in ("full", "open"):
        ch.bind(queue, "dlx")
    declare(ch)
    kill(ch, b"m")
    assert held(pair) == (0, 1)
    assert ch.drain("open") == [b"m"]
    look(pair)
    assert ch.drain("open") == []
    assert ch.drain("full") == [b"before"]
    look(pair)
    assert held(pair) == (0, 0)
    assert (ch.drain("full"), ch.drain("open")) == ([b"m"], [])


@pytest.mark.parametrize("how", ["unbind", "delete"])
def test_one_that_refused_and_is_to_have_it_no_more(pair: Pair, ch: Channel, how: str) -> None:
    """Another has it: that is enough."""
    ch.declare_exchange("dlx", "fanout")
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.declare("open")
    for queue in ("full", "open"):
        ch.bind(queue, "dlx")
    declare(ch)
    kill(ch, b"m")
    assert held(pair) == (0, 1)
    if how == "unbind":
        ch.unbind("full", "dlx")
    else:
        ch.call(commands.Queue.Delete(queue="full"), commands.Queue.DeleteOk)
    look(pair)
    assert held(pair) == (0, 0)
    assert ch.drain("open") == [b"m"]


def test_an_exchange_that_is_gone_keeps_those_that_somebody_has(pair: Pair, ch: Channel) -> None:
    """Who else is to have it nobody can tell until it is back."""
    ch.declare_exchange("dlx", "fanout")
    ch.declare("full", arguments=FULL_AT_ONE)
    ch.declare("open")
    ch.publish(b"before", key="full")
    for queue in ("full", "open"):
        ch.bind(queue, "dlx")
    declare(ch)
    kill(ch, b"m")
    ch.call(commands.Exchange.Delete(exchange="dlx"), commands.Exchange.DeleteOk)
    look(pair)
    assert held(pair) == (0, 1)
    assert ch.drain("full") == [b"before"]
    ch.declare_exchange("dlx", "fanout")
    ch.bind("full", "dlx")
    look(pair)
    assert (ch.drain("full"), ch.drain("open")) == ([b"m"], [b"m"])
    assert held(pair) == (0, 0)


def test_a_cycle_is_no_way(pair: Pair, ch: Channel) -> None:
    """A dead letter whose only way is back to where it died without a rejection is kept."""
    declare(ch, "", x_dead_letter_routing_key="q", x_message_ttl=10)
    ch.publish(b"m", key="q")
    pair.advance(10)
    look(pair)
    assert held(pair) == (0, 1)
    ch.declare("dead")
    set_policy(pair, {"message-ttl": 10})
    assert held(pair) == (0, 1)


def test_a_letter_may_go_back_into_its_own_full_queue(pair: Pair, ch: Channel) -> None:
    """It takes its own place: a rejected one may die there again."""
    declare(ch, "", x_dead_letter_routing_key="q", x_max_length=1)
    kill(ch, b"m")
    assert held(pair) == (1, 0)
    assert fetch(ch, "q").headers["x-death"][0]["count"] == 1  # type: ignore[index]


def test_letters_that_can_go_pass_those_that_cannot(pair: Pair, ch: Channel) -> None:
    """But only so many are tried again: the others stand in line behind them, and lose nothing."""
    ch.declare_exchange("dlx", "direct")
    ch.declare_exchange("in", "fanout")
    ch.declare("dead")
    ch.bind("dead", "dlx", "way")
    declare(ch)
    ch.bind("q", "in")

    def die(key: str, *bodies: bytes) -> None:
        for body in bodies:
            ch.publish(body, exchange="in", key=key)
            message = ch.get("q", no_ack=False)
            assert message is not None
            ch.reject(message.tag, requeue=False)

    die("none", *(b"none" for _ in range(WINDOW - 1)))
    die("way", b"1")
    assert ch.drain("dead") == [b"1"]
    die("none", b"none", b"none")
    die("way", b"2")
    look(pair)
    assert ch.drain("dead") == []
    assert held(pair) == (0, WINDOW + 2)
    ch.bind("dead", "dlx", "none")
    look(pair)
    assert held(pair) == (0, 0)
    assert ch.drain("dead") == [b"none"] * (WINDOW + 1) + [b"2"]


# -------------------------------------------------------------------------------------- limits, purging and deleting


def test_letters_that_are_kept_count_for_the_limit(pair: Pair, ch: Channel) -> None:
    """Publishers are refused, rather than the disk filled."""
    declare(ch, x_max_length=2)
    kill(ch, b"1")
    ch.confirm()
    ch.publish(b"2", key="q")
    ch.publish(b"3", key="q")
    assert [kind for kind, _, _ in ch.expect_confirms()] == ["ack", "nack"]
    ch.declare_exchange("dlx", "fanout")
    ch.declare("dead")
    ch.bind("dead", "dlx")
    look(pair)
    ch.publish(b"4", key="q")
    assert [kind for kind, _, _ in ch.expect_confirms()] == ["ack"]
    assert ch.drain("q") == [b"2", b"4"]


def test_octets_of_letters_count_as_well(pair: Pair, ch: Channel) -> None:
    """With x-max-length-bytes."""
    declare(ch, x_max_length_bytes=10)
    kill(ch, b"12345")
    ch.confirm()
    ch.publish(b"12345", key="q")
    ch.publish(b"1", key="q")
    assert [kind for kind, _, _ in ch.expect_confirms()] == ["ack", "nack"]


def test_purging_takes_letters_too(pair: Pair, ch: Channel) -> None:
    """And counts them, as RabbitMQ 4.3 does."""
    declare(ch)
    kill(ch, b"1", b"2")
    ch.publish(b"3", key="q")
    assert ch.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk).message_count == 3
    assert held(pair) == (0, 0)
    ch.declare_exchange("dlx", "fanout")
    ch.declare("dead")
    ch.bind("dead", "dlx")
    look(pair)
    assert ch.get("dead") is None
    kill(ch, b"4")
    assert ch.drain("dead") == [b"4"]


def test_a_queue_that_is_deleted_takes_its_letters_with_it(pair: Pair, ch: Channel) -> None:
    """As all else that is in it; what is counted is what was ready."""
    declare(ch)
    kill(ch, b"1", b"2")
    ch.publish(b"3", key="q")
    assert ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk).message_count == 1
    ch.declare_exchange("dlx", "fanout")
    ch.declare("dead")
    ch.bind("dead", "dlx")
    look(pair)
    assert ch.get("dead") is None


def test_a_queue_with_letters_is_not_empty(pair: Pair, ch: Channel) -> None:
    """If-empty."""
    declare(ch)
    kill(ch, b"1")
    ch.send(commands.Queue.Delete(queue="q", if_empty=True))
    ch.expect_close(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty", commands.Queue.Delete)
    assert held(pair) == (0, 1)


# ------------------------------------------------------------------------------------------------- when it holds


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x-overflow": "drop-head"}, "at-least-once needs overflow reject-publish"),
        ({"x-overflow": "reject-publish-dlx"}, "at-least-once needs overflow reject-publish"),
        ({"x-dead-letter-exchange": None}, "at-least-once has no effect without a dead-letter exchange"),
    ],
)
def test_where_it_cannot_be(
    pair: Pair, ch: Channel, caplog: pytest.LogCaptureFixture, arguments: dict[str, object], said: str
) -> None:
    """It falls back to the other strategy, and the log says so."""
    given = {**AT_LEAST_ONCE, "x-dead-letter-exchange": "dlx", **arguments}
    given = {key: value for key, value in given.items() if value is not None}
    with caplog.at_level(logging.WARNING):
        ch.declare("q", durable=True, arguments=given)
    assert caplog.text.count(said) == 1
    kill(ch, b"m")
    assert held(pair) == (0, 0)


def test_by_a_policy(pair: Pair, ch: Channel) -> None:
    """All of it can be said there."""
    ch.declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    kill(ch, b"before")
    set_policy(
        pair, {"dead-letter-strategy": "at-least-once", "dead-letter-exchange": "dlx", "overflow": "reject-publish"}
    )
    kill(ch, b"m")
    assert held(pair) == (0, 1)


def test_another_strategy_deletes_what_is_kept(pair: Pair, ch: Channel, caplog: pytest.LogCaptureFixture) -> None:
    """As in RabbitMQ, which says so in its log as well."""
    ch.declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    policy = {"dead-letter-strategy": "at-least-once", "dead-letter-exchange": "dlx", "overflow": "reject-publish"}
    set_policy(pair, {**policy})
    kill(ch, b"12", b"345")
    ch.publish(b"ready", key="q")
    with caplog.at_level(logging.INFO):
        set_policy(pair, {**policy, "overflow": "drop-head"})
    assert "queue 'q' in vhost '/': deleted 2 held dead-lettered messages (5 bytes)" in caplog.text
    assert held(pair) == (1, 0)
    assert (the_queue(pair).persistent_count, the_queue(pair).persistent_bytes) == (0, 0)
    set_policy(pair, {**policy})
    ch.declare_exchange("dlx", "fanout")
    ch.declare("dead")
    ch.bind("dead", "dlx")
    look(pair)
    assert ch.get("dead") is None
    clear_policy(pair)
    assert ch.drain("q") == [b"ready"]


def test_another_exchange(pair: Pair, ch: Channel) -> None:
    """Dead letters that are kept go the way that holds now, by the keys that hold now, and at once."""
    ch.declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    policy = {"dead-letter-strategy": "at-least-once", "dead-letter-exchange": "dlx", "overflow": "reject-publish"}
    set_policy(pair, {**policy})
    kill(ch, b"m")
    ch.declare("dead")
    set_policy(pair, {**policy, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"})
    assert held(pair) == (0, 0)
    letter = fetch(ch, "dead")
    assert (letter.body, letter.exchange, letter.routing_key) == (b"m", "", "dead")


# ------------------------------------------------------------------------------------------------------ what is told


def test_the_log_says_once_why_letters_are_kept(pair: Pair, ch: Channel, caplog: pytest.LogCaptureFixture) -> None:
    """No exchange, no route; and that it is over."""
    declare(ch)
    with caplog.at_level(logging.INFO):
        kill(ch, b"1", b"2")
        look(pair)
        missing = "queue 'q' in vhost '/': holding dead-lettered messages: there is no exchange 'dlx'"
        assert caplog.text.count(missing) == 1
        ch.declare_exchange("dlx", "fanout")
        look(pair)
        look(pair)
        assert caplog.text.count("exchange 'dlx' leads them to no queue that may have them") == 1
        ch.declare("dead")
        ch.bind("dead", "dlx")
        look(pair)
    assert caplog.text.count("all held dead-lettered messages have been sent") == 1


def test_letters_that_are_kept_are_shown(pair: Pair, ch: Channel) -> None:
    """Neither ready nor unacknowledged, but there."""
    declare(ch)
    kill(ch, b"12345")
    ch.publish(b"123", key="q")
    view = views.queue(the_queue(pair))
    assert (view["messages"], view["messages_ready"], view["messages_dlx"]) == (2, 1, 1)
    assert (view["message_bytes"], view["message_bytes_ready"], view["message_bytes_dlx"]) == (8, 3, 5)
    assert views.queue_at_rest(the_queue(pair)) is None
    assert pair.broker.dead_letters_confirmed == 0
    ch.declare_exchange("dlx", "fanout")
    ch.declare("dead")
    ch.bind("dead", "dlx")
    look(pair)
    view = views.queue(the_queue(pair))
    assert (view["messages"], view["messages_dlx"], view["message_bytes_dlx"]) == (1, 0, 0)
    assert pair.broker.dead_letters_confirmed == 1


def test_nobody_looks_when_nothing_is_kept(pair: Pair, ch: Channel) -> None:
    """No timer is left behind by dead letters that have gone."""
    ch.declare("dead", arguments=FULL_AT_ONE)
    declare(ch, "", x_dead_letter_routing_key="dead")
    before = pair.clock.pending
    kill(ch, b"1", b"2")
    assert pair.clock.pending == before + 1
    assert fetch(ch, "dead").body == b"1"
    look(pair)
    assert pair.clock.pending == before
    kill(ch, b"3")
    assert ch.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk).message_count == 1
    assert pair.clock.pending == before
