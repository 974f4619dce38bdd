"""Dead lettering as a client sees it: where a buried message goes, and the history it carries."""

from datetime import UTC, datetime

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.pair import Channel, Message, Pair, Typed


def bury_into(exchange: str, key: str | None = None, **others: object) -> dict[str, object]:
    """Queue arguments: the dead letter exchange, its routing key and whatever else, `_` for `-`."""
    arguments: dict[str, object] = {"x-dead-letter-exchange": exchange}
    if key is not None:
        arguments["x-dead-letter-routing-key"] = key
    return arguments | {name.replace("_", "-"): value for name, value in others.items()}


def fetch(ch: Channel, queue: str) -> Message:
    message = ch.get(queue, no_ack=False)
    assert message is not None, f"{queue} is empty"
    return message


def reject(ch: Channel, queue: str = "q") -> None:
    ch.reject(fetch(ch, queue).tag, requeue=False)


def deaths(message: Message) -> list[dict[str, object]]:
    entries = message.headers["x-death"]
    assert isinstance(entries, list)
    return entries


def field(key: str, value: object) -> bytes:
    """One entry of a table as it stands on the wire, type letter included."""
    return frames.table({key: value})[4:]


def simple(pair: Pair, **others: object) -> Channel:
    """q buries into dead by the default exchange."""
    ch = pair.connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments=bury_into("", "dead", **others))
    return ch


# ---------------------------------------------------------------------------------------------------- the first death


def test_x_death_of_a_first_death() -> None:
    """#131 one table with these keys, of these types, and nothing else."""
    pair = Pair()
    ch = simple(pair)
    ch.bind("q", "amq.topic", "a.*")
    ch.publish(b"m", "amq.topic", "a.b")
    pair.advance(12_345)
    now_s = pair.clock.now_ms() // 1000
    reject(ch)
    dead = fetch(ch, "dead")
    assert deaths(dead) == [
        {
            "count": 1,
            "reason": "rejected",
            "queue": "q",
            "time": datetime.fromtimestamp(now_s, UTC),
            "exchange": "amq.topic",
            "routing-keys": ["a.b"],
        }
    ]
    for octets in (
        field("count", Typed("l", 1)),
        field("reason", Typed("S", "rejected")),
        field("queue", Typed("S", "q")),
        field("time", Typed("T", now_s)),
        field("exchange", Typed("S", "amq.topic")),
        field("routing-keys", [Typed("S", "a.b")]),
    ):
        assert octets in dead.raw_properties
    assert frames.shortstr("x-death") + b"A" in dead.raw_properties


def test_first_and_last_death_headers() -> None:
    """#133 both tell the first death, as strings."""
    ch = simple(Pair())
    ch.publish(b"m", key="q")
    reject(ch)
    dead = fetch(ch, "dead")
    assert set(dead.headers) == {"x-death"} | {
        f"x-{which}-death-{what}" for which in ("first", "last") for what in ("reason", "queue", "exchange")
    }
    for which in ("first", "last"):
        for what, value in (("reason", "rejected"), ("queue", "q"), ("exchange", "")):
            assert field(f"x-{which}-death-{what}", Typed("S", value)) in dead.raw_properties


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen", "delivery_limit"])
def test_reasons(reason: str) -> None:
    """#131 every way to die has its name."""
    pair = Pair()
    ch = simple(pair, **{"maxlen": {"x_max_length": 1}, "delivery_limit": {"x_delivery_limit": 0}}.get(reason, {}))
    ch.publish(b"m", key="q", expiration="100" if reason == "expired" else None)
    if reason == "rejected":
        ch.nack(fetch(ch, "q").tag, requeue=False)
    elif reason == "expired":
        pair.advance(100)
    elif reason == "maxlen":
        ch.publish(b"next", key="q")
    else:
        ch.nack(fetch(ch, "q").tag, requeue=True)
    dead = fetch(ch, "dead")
    assert dead.body == b"m"
    assert [death["reason"] for death in deaths(dead)] == [reason]
    assert (dead.headers["x-first-death-reason"], dead.headers["x-last-death-reason"]) == (reason, reason)


def test_dead_letter_is_a_new_message() -> None:
    """#135 exchange and key of its delivery are those of its burial; it was never delivered from there."""
    ch = Pair().connect().channel()
    ch.declare_exchange("dlx", "fanout")
    ch.declare("dead")
    ch.bind("dead", "dlx")
    ch.declare("q", arguments=bury_into("dlx", "override"))
    ch.publish(b"m", key="q")
    reject(ch)
    dead = fetch(ch, "dead")
    assert (dead.exchange, dead.routing_key, dead.redelivered) == ("dlx", "override", False)


def test_properties_survive() -> None:
    """#131 #104 everything else is as it was published, each header with its type."""
    ch = simple(Pair())
    headers = {
        "b": Typed("b", -5),
        "u": Typed("u", 65000),
        "L": Typed("L", -1),
        "f": Typed("f", 0.5),
        "bytes": Typed("x", b"\x00\xff"),
        "void": Typed("V", None),
        "not utf-8": Typed("S", b"\xff\xfe"),
        "array": [Typed("s", 1), "two", {"three": Typed("i", 3)}],
        "table": {"nested": {"deeper": Typed("I", 1)}},
    }
    fields = {
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "message_type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "x",
    }
    ch.publish(b"body", key="q", properties=frames.properties(headers=headers, **fields))
    reject(ch)
    dead = fetch(ch, "dead")
    assert dead.body == b"body"
    for key, value in headers.items():
        assert field(key, value) in dead.raw_properties
    bare = frames.properties(**fields)
    with_headers = frames.properties(headers={}, **fields)
    assert dead.raw_properties[:2] == with_headers[:2]
    assert dead.raw_properties.endswith(bare[bare.index(b"\x02\x03\x01c") :])
    assert dead.raw_properties[2:].startswith(bare[2 : bare.index(b"\x02\x03\x01c")])


# ------------------------------------------------------------------------------------------------------ dying again


def test_same_death_again_is_counted() -> None:
    """#132 one entry per queue and reason: the count grows, the time is the first one's."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments=bury_into("", "q"))
    ch.publish(b"m", key="q")
    first_s = pair.clock.now_ms() // 1000
    for count in range(1, 5):
        reject(ch)
        pair.advance(60_000)
        message = fetch(ch, "q")
        (death,) = deaths(message)
        assert (death["count"], death["time"]) == (count, datetime.fromtimestamp(first_s, UTC))
        assert field("count", Typed("l", count)) in message.raw_properties
        ch.nack(message.tag, requeue=True)


def test_retry_loop_history() -> None:
    """#131 #132 #133 reject, wait, come back, twice: newest entry first, first death kept, last death updated."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare_exchange("work", "direct")
    ch.declare("q", arguments=bury_into("", "wait"))
    ch.bind("q", "work", "job")
    ch.declare("wait", arguments=bury_into("work", "job", x_message_ttl=1000))
    ch.publish(b"m", "work", "job")

    def history(message: Message) -> list[tuple[object, object, object, object]]:
        return [(death["queue"], death["reason"], death["count"], death["exchange"]) for death in deaths(message)]

    reject(ch)
    waiting = fetch(ch, "wait")
    assert history(waiting) == [("q", "rejected", 1, "work")]
    ch.nack(waiting.tag, requeue=True)
    pair.advance(1000)
    back = fetch(ch, "q")
    assert history(back) == [("wait", "expired", 1, ""), ("q", "rejected", 1, "work")]
    assert back.headers["x-first-death-queue"] == "q"
    assert (back.headers["x-last-death-queue"], back.headers["x-last-death-reason"]) == ("wait", "expired")
    assert back.headers["x-last-death-exchange"] == ""
    ch.reject(back.tag, requeue=False)
    waiting = fetch(ch, "wait")
    assert history(waiting) == [("q", "rejected", 2, "work"), ("wait", "expired", 1, "")]
    assert (waiting.headers["x-last-death-queue"], waiting.headers["x-last-death-exchange"]) == ("q", "work")
    ch.nack(waiting.tag, requeue=True)
    pair.advance(1000)
    assert history(fetch(ch, "q")) == [("wait", "expired", 2, ""), ("q", "rejected", 2, "work")]


def test_same_queue_other_reason_is_another_entry() -> None:
    """#131 queue and reason together make the entry."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments=bury_into("", "hold"))
    ch.declare("hold", arguments=bury_into("", "q"))
    ch.publish(b"m", key="q", expiration="100")
    pair.advance(100)
    reject(ch, "hold")
    reject(ch, "q")
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths(fetch(ch, "hold"))] == [
        ("q", "rejected", 1),
        ("hold", "rejected", 1),
        ("q", "expired", 1),
    ]


# -------------------------------------------------------------------------------------------------------- expiration


def test_expiration_is_taken_off() -> None:
    """#134 #131 it stands in the history as original-expiration; the message lives on in its next queue."""
    pair = Pair()
    ch = simple(pair)
    ch.publish(b"m", key="q", expiration="100", message_id="kept")
    pair.advance(100)
    pair.advance(10_000)
    dead = fetch(ch, "dead")
    assert (dead.properties.expiration, dead.properties.message_id) == (None, "kept")
    assert field("original-expiration", Typed("S", "100")) in dead.raw_properties
    assert deaths(dead)[0]["original-expiration"] == "100"


def test_queues_time_is_no_original_expiration() -> None:
    """#131 only a message's own expiration is remembered."""
    pair = Pair()
    ch = simple(pair, x_message_ttl=100)
    ch.publish(b"m", key="q")
    pair.advance(100)
    assert "original-expiration" not in deaths(fetch(ch, "dead"))[0]


def test_expiration_is_taken_off_whatever_the_reason() -> None:
    """#134 a rejected message does not expire in the dead letter queue either."""
    pair = Pair()
    ch = simple(pair)
    ch.publish(b"m", key="q", expiration="5000")
    reject(ch)
    pair.advance(60_000)
    dead = fetch(ch, "dead")
    assert dead.properties.expiration is None
    assert deaths(dead)[0]["original-expiration"] == "5000"


def test_time_of_the_next_queue_applies() -> None:
    """#134 x-message-ttl of the target runs from the burial."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("dead", arguments={"x-message-ttl": 1000})
    ch.declare("q", arguments=bury_into("", "dead"))
    ch.publish(b"m", key="q", expiration="600")
    pair.advance(600)
    pair.advance(999)
    assert ch.declare("dead", passive=True).message_count == 1
    pair.advance(1)
    assert ch.declare("dead", passive=True).message_count == 0


# --------------------------------------------------------------------------------------------------------- routing


def test_original_keys_without_override() -> None:
    """#135 the message goes by the keys it came with, CC included; they stand in the history without BCC."""
    ch = Pair().connect().channel()
    ch.declare_exchange("dlx", "direct")
    for queue in ("by-key", "by-copy"):
        ch.declare(queue)
    ch.declare("q", arguments=bury_into("dlx"))
    ch.declare("r")
    ch.bind("by-key", "dlx", "q")
    ch.bind("by-copy", "dlx", "copy")
    ch.publish(b"m", key="q", headers={"CC": ["copy"], "BCC": ["r"]})
    assert ch.drain("r") == [b"m"]
    reject(ch)
    by_key, by_copy = fetch(ch, "by-key"), fetch(ch, "by-copy")
    assert (by_key.routing_key, by_copy.routing_key) == ("q", "q")
    assert deaths(by_key)[0]["routing-keys"] == ["q", "copy"]
    assert by_key.headers["CC"] == ["copy"]


def test_override_replaces_every_key() -> None:
    """#135 with x-dead-letter-routing-key CC is dropped: no second copy now, nor at the next death."""
    ch = Pair().connect().channel()
    ch.declare_exchange("dlx", "direct")
    ch.declare("by-copy")
    ch.declare("dead", arguments=bury_into("dlx"))
    ch.declare("dead again")
    ch.declare("q", arguments=bury_into("dlx", "override"))
    ch.bind("by-copy", "dlx", "copy")
    ch.bind("dead", "dlx", "override")
    ch.publish(b"m", key="q", headers={"CC": ["copy"]})
    reject(ch)
    assert ch.drain("by-copy") == []
    dead = fetch(ch, "dead")
    assert dead.routing_key == "override"
    assert "CC" not in dead.headers
    assert deaths(dead)[0]["routing-keys"] == ["q", "copy"]
    ch.reject(dead.tag, requeue=False)
    assert ch.drain("by-copy") == []


def test_every_target_gets_a_copy() -> None:
    """#135 a fanout dead letter exchange reaches all its queues."""
    ch = Pair().connect().channel()
    for queue in ("one", "two"):
        ch.declare(queue)
        ch.bind(queue, "amq.fanout")
    ch.declare("q", arguments=bury_into("amq.fanout"))
    ch.publish(b"m", key="q")
    reject(ch)
    assert (ch.drain("one"), ch.drain("two")) == ([b"m"], [b"m"])


def test_dead_letters_reach_a_waiting_consumer() -> None:
    """#135 at once, in the order they died."""
    client = Pair().connect()
    ch, undertaker = client.channel(), client.channel()
    ch.declare("dead")
    ch.declare("q", arguments=bury_into("", "dead"))
    undertaker.consume("dead", no_ack=True)
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    for _ in range(3):
        fetch(ch, "q")
    ch.nack(0, multiple=True, requeue=False)
    assert undertaker.bodies() == [b"1", b"2", b"3"]


# ------------------------------------------------------------------------------------------------------------ cycles


def test_automatic_cycle_of_one_queue() -> None:
    """#136 a queue that expires into itself: the message is dropped."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments=bury_into("", "q", x_message_ttl=100))
    ch.publish(b"m", key="q")
    pair.advance(100)
    assert ch.get("q") is None


def test_automatic_cycle_of_two_queues() -> None:
    """#136 through another queue and back: dropped when it would enter the first again."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments=bury_into("", "r", x_message_ttl=100))
    ch.declare("r", arguments=bury_into("", "q", x_message_ttl=100))
    ch.publish(b"m", key="q")
    pair.advance(100)
    assert ch.declare("r", passive=True).message_count == 1
    pair.advance(100)
    assert (ch.get("q"), ch.get("r")) == (None, None)


def test_rejection_breaks_the_cycle() -> None:
    """#136 a client that rejects may send a message round again; automatic deaths since then count anew."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments=bury_into("", "r", x_message_ttl=100))
    ch.declare("r", arguments=bury_into("", "q", x_message_ttl=100))
    ch.publish(b"m", key="q")
    pair.advance(100)  # expired in q, now in r
    reject(ch, "r")  # rejected in r: may enter q although it died there
    assert ch.declare("q", passive=True).message_count == 1
    pair.advance(100)  # expired in q again: r knows it from a rejection only
    assert ch.declare("r", passive=True).message_count == 1
    pair.advance(100)  # expired in r: q has seen it since, nobody rejected it since
    assert (ch.get("q"), ch.get("r")) == (None, None)


def test_only_the_copy_in_the_cycle_is_dropped() -> None:
    """#136 other targets of the same burial get theirs."""
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments=bury_into("amq.fanout", x_message_ttl=100))
    ch.declare("other")
    for queue in ("q", "other"):
        ch.bind(queue, "amq.fanout")
    ch.publish(b"m", key="q")
    pair.advance(100)
    assert ch.declare("q", passive=True).message_count == 0
    assert ch.drain("other") == [b"m"]


def test_full_queue_that_buries_into_itself() -> None:
    """#136 maxlen into itself ends: the oldest is dropped, not sent round."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments=bury_into("", "q", x_max_length=2))
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    assert ch.drain("q") == [b"2", b"3"]


# ----------------------------------------------------------------------------------------- deaths told by publishers

TOLD = {
    "x-death": [
        {
            "count": Typed("l", 3),
            "reason": "rejected",
            "queue": "q",
            "time": Typed("T", 1_600_000_000),
            "exchange": "old",
            "routing-keys": ["old key"],
        }
    ],
    "x-first-death-queue": "q",
    "x-first-death-reason": "rejected",
    "x-first-death-exchange": "old",
}


def test_published_history_is_continued() -> None:
    """#137 as RabbitMQ 3.x: a republished message goes on counting from its x-death header."""
    ch = simple(Pair())
    ch.publish(b"m", key="q", headers=TOLD)
    reject(ch)
    dead = fetch(ch, "dead")
    (death,) = deaths(dead)
    assert (death["count"], death["exchange"], death["routing-keys"]) == (4, "old", ["old key"])
    assert death["time"] == datetime.fromtimestamp(1_600_000_000, UTC)
    assert dead.headers["x-first-death-exchange"] == "old"


def test_published_history_can_be_ignored() -> None:
    """#137 as RabbitMQ 4.x, by a setting: counting starts at one."""
    ch = simple(Pair(trust_client_x_death=False))
    ch.publish(b"m", key="q", headers=TOLD)
    reject(ch)
    (death,) = deaths(fetch(ch, "dead"))
    assert (death["count"], death["exchange"], death["routing-keys"]) == (1, "", ["q"])


def test_own_history_counts_when_published_ones_do_not() -> None:
    """#137 the switch is about clients: deaths the broker has seen itself are counted on."""
    ch = Pair(trust_client_x_death=False).connect().channel()
    ch.declare("q", arguments=bury_into("", "q"))
    ch.publish(b"m", key="q")
    for _ in range(3):
        reject(ch)
    (death,) = deaths(fetch(ch, "q"))
    assert death["count"] == 3


@pytest.mark.parametrize(
    "nonsense",
    ["text", 5, [], ["text", 5], [{"queue": "q"}], [{"queue": 5, "reason": [], "count": "many"}], {"queue": "q"}],
    ids=str,
)
def test_nonsense_history_does_no_harm(nonsense: object) -> None:
    """#137 an x-death header of any shape: the message is buried with one good entry at the front."""
    ch = simple(Pair())
    ch.publish(b"m", key="q", headers={"x-death": nonsense})
    reject(ch)
    death = deaths(fetch(ch, "dead"))[0]
    assert (death["queue"], death["reason"], death["count"]) == ("q", "rejected", 1)


# ------------------------------------------------------------------------------------------------------- nowhere to go


@pytest.mark.parametrize("exchange", ["no such exchange", "amq.direct"], ids=["missing", "no-route"])
def test_no_way_for_the_dead(exchange: str) -> None:
    """#138 dropped in silence; mandatory of the publish does not come back to life."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments=bury_into(exchange))
    ch.confirm()
    ch.publish(b"m", key="q", mandatory=True)
    assert ch.expect_confirms() == [("ack", 1, False)]
    reject(ch)
    ch.expect_nothing()
    assert ch.get("q") is None


def test_dead_letter_exchange_is_looked_up_at_each_death() -> None:
    """#138 one that is made later works, one that is deleted works no more."""
    ch = Pair().connect().channel()
    ch.declare("dead")
    ch.declare("q", arguments=bury_into("dlx"))
    for body in (b"before", b"while", b"after"):
        ch.publish(body, key="q")
    reject(ch)
    ch.declare_exchange("dlx", "fanout")
    ch.bind("dead", "dlx")
    reject(ch)
    ch.call(commands.Exchange.Delete(exchange="dlx"), commands.Exchange.DeleteOk)
    reject(ch)
    assert ch.drain("dead") == [b"while"]


def test_alternate_exchange_of_the_dead_letter_exchange() -> None:
    """#138 #61 a dead letter is routed like any message."""
    ch = Pair().connect().channel()
    ch.declare("caught")
    ch.bind("caught", "amq.fanout")
    ch.declare_exchange("dlx", "direct", arguments={"alternate-exchange": "amq.fanout"})
    ch.declare("q", arguments=bury_into("dlx", "nobody"))
    ch.publish(b"m", key="q")
    reject(ch)
    assert ch.drain("caught") == [b"m"]


def test_deleted_queue_buries_nothing() -> None:
    """#138 #85 what is rejected after its queue was deleted is gone: the queue that would bury it is no more."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("dead")
    ch.declare("q", arguments=bury_into("", "dead", x_delivery_limit=0))
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    held = [fetch(ch, "q") for _ in range(3)]
    ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    ch.reject(held[0].tag, requeue=False)
    ch.nack(held[1].tag, requeue=False)
    ch.nack(held[2].tag, requeue=True)
    assert ch.drain("dead") == []


def test_internal_exchange_takes_the_dead() -> None:
    """#138 #48 internal keeps clients out, not the broker."""
    ch = Pair().connect().channel()
    ch.declare("dead")
    ch.declare_exchange("dlx", "fanout", internal=True)
    ch.bind("dead", "dlx")
    ch.declare("q", arguments=bury_into("dlx"))
    ch.publish(b"m", key="q")
    reject(ch)
    assert ch.drain("dead") == [b"m"]


def test_an_exchange_that_keeps_its_last_messages_keeps_dead_letters(pair: Pair) -> None:
    """#135 parity: a dead letter is routed like any message, so x-recent-history remembers it."""
    ch = pair.connect().channel()
    ch.declare_exchange("recent", "x-recent-history")
    ch.declare("q", arguments=bury_into("recent"))
    ch.publish(b"m", key="q")
    reject(ch)
    ch.declare("late")
    ch.bind("late", "recent")
    message = fetch(ch, "late")
    assert (message.body, deaths(message)[0]["queue"]) == (b"m", "q")
