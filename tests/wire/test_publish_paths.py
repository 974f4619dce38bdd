"""A publish over HTTP and one over AMQP are the same publish: checked, routed, traced and counted alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from pamqp import commands

from rabbitlike.broker.publishing.verbs import publish
from rabbitlike.broker.statistics.counters import NAMES, Counters
from rabbitlike.broker.tracing.event_columns import columns
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import Properties
from rabbitlike.storage.columns import values
from tests.support import frames
from tests.support.pair import Channel, Pair

TRACE = "amq.rabbitmq.trace"
SCHEMA = json.dumps({"type": "integer"})
LIMIT = 100


@dataclass
class Case:
    """What is published, and how often."""

    exchange: str = ""
    key: str = "q"
    body: bytes = b"7"
    times: int = 1
    properties: dict[str, object] = field(default_factory=dict)


def headers(**fields: object) -> dict[str, object]:
    return {"headers": {name.replace("_", "-"): value for name, value in fields.items()}}


CASES = {
    "plain": Case(),
    "unroutable": Case(key="nowhere"),
    "alternate": Case("with-alternate", "nowhere"),
    "copies": Case(properties=headers(CC=["r"], BCC=["other"])),
    "copies that are no array": Case(properties=headers(CC="r")),
    "expiration": Case(properties={"expiration": "50"}),
    "bad expiration": Case(properties={"expiration": "soon"}),
    "no exchange": Case("absent"),
    "internal exchange": Case("inner"),
    "too large": Case("absent", body=b"x" * (LIMIT + 1)),
    "user-id": Case(properties={"user_id": "somebody"}),
    "direct replies wanted": Case(properties={"reply_to": "amq.rabbitmq.reply-to"}),
    "direct reply to nobody": Case(key="amq.rabbitmq.reply-to.nobody"),
    "topic not permitted": Case("amq.topic", "yours"),
    "deaths": Case(properties=headers(x_death=[{"queue": "q"}])),
    "full": Case(key="full", times=2),
    "duplicate": Case("deduplicating", "q", times=2, properties=headers(x_deduplication_header="a")),
    "delayed": Case(properties=headers(x_delay=50, CC=["r"], BCC=["other"])),
    "delayed and unroutable": Case(key="nowhere", properties=headers(x_delay=50)),
    "delayed without a number": Case(properties=headers(x_delay="soon")),
    "delayed duplicate": Case("deduplicating", times=2, properties=headers(x_deduplication_header="a", x_delay=50)),
    "queue nacks": Case(key="nacks", body=b"no"),
    "queue closes": Case(key="closes", body=b"no"),
    "queue dead-letters": Case(key="dead-letters", body=b"no"),
    "queue conforms": Case(key="closes"),
    "exchange nacks": Case("nacks", body=b"no"),
    "exchange closes": Case("closes", body=b"no"),
    "exchange dead-letters": Case("dead-letters", body=b"no", properties=headers(BCC=["other"])),
    "exchange nacks a delayed one": Case("nacks", body=b"no", properties=headers(x_delay=50)),
    "exchange closes on a delayed one": Case("closes", body=b"no", properties=headers(x_delay=50)),
    "exchange dead-letters a delayed one": Case(
        "dead-letters", body=b"no", properties=headers(x_delay=50, BCC=["other"])
    ),
    "too large for the queue": Case(key="small", body=b"seven"),
}


def build(**settings: object) -> tuple[Pair, Channel]:
    pair = Pair(max_message_size=LIMIT, **settings)
    pair.set_topic_permission("guest", "amq.topic", write="^mine", read="")
    ch = pair.connect().channel()
    for queue, arguments in {
        "q": {},
        "r": {},
        "other": {},
        "full": {"x-max-length": 1, "x-overflow": "reject-publish"},
        "small": {"x-max-message-size": 3},
        "nacks": {"x-schema": SCHEMA},
        "closes": {"x-schema": SCHEMA, "x-schema-action": "close"},
        "dead-letters": {
            "x-schema": SCHEMA,
            "x-schema-action": "dead-letter",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "r",
        },
    }.items():
        ch.declare(queue, arguments=arguments)
    ch.declare_exchange("inner", internal=True)
    ch.declare_exchange("spare", "direct")
    for exchange, arguments in {
        "with-alternate": {"alternate-exchange": "amq.fanout"},
        "deduplicating": {"x-message-deduplication": True},
        "nacks": {"x-schema": SCHEMA},
        "closes": {"x-schema": SCHEMA, "x-schema-action": "close"},
        "dead-letters": {"x-schema": SCHEMA, "x-schema-action": "dead-letter", "alternate-exchange": "spare"},
    }.items():
        ch.declare_exchange(exchange, "direct", arguments=arguments)
        ch.bind("q", exchange, "q")
    ch.bind("r", "amq.fanout")
    ch.bind("r", "spare", "q")
    ch.bind("other", "spare", "other")
    return pair, ch


def over_amqp(pair: Pair, case: Case) -> list[str]:
    """Mandatory, with confirms."""
    ch = pair.connect().channel()
    ch.confirm()
    answers: list[str] = []
    for _ in range(case.times):
        ch.publish(case.body, case.exchange, case.key, mandatory=True, **case.properties)
        for item in ch.client.take_all():
            if isinstance(item.frame, commands.Channel.Close):
                answers.append(item.frame.reply_text)
            elif isinstance(item.frame, commands.Basic.Return | commands.Basic.Ack | commands.Basic.Nack):
                answers.append(item.frame.name)
    return answers


def over_http(pair: Pair, case: Case) -> list[str]:
    """What a channel would have answered."""
    user = pair.broker.users.get("guest")
    assert user is not None
    answers: list[str] = []
    for _ in range(case.times):
        pair.broker.turn.begin()
        try:
            properties = Properties(frames.properties(**case.properties))
            done = publish(pair.broker.vhosts["/"], case.exchange, case.key, properties, case.body, user)
        except AmqpError as error:
            answers.append(error.reply_text)
        else:
            answers += [] if done.is_routed else ["Basic.Return"]
            answers.append("Basic.Ack" if done.is_accepted else "Basic.Nack")
        pair.broker.turn.finish()
        pair.settle()
    return answers


WAYS = (over_amqp, over_http)


def counted(counters: Counters) -> dict[str, int]:
    return {name: getattr(counters, name) for name in NAMES if name not in ("confirm", "get_no_ack", "get_empty")}


def observe(pair: Pair, ch: Channel) -> dict[str, object]:
    """All that is counted of publishes, then what is in the queues, now and later."""
    vhost = pair.broker.vhosts["/"]
    seen: dict[str, object] = {
        "vhost": counted(vhost.counters),
        "exchanges": {name: counted(exchange.counters) for name, exchange in vhost.exchanges.items()},
        "inlets": {
            queue.name: {
                exchange.name: counts.publish for exchange, counts in (queue.incoming or {}).items() if counts.publish
            }
            for queue in vhost.queues.values()
        },
        "violations": {queue.name: queue.violations for queue in vhost.queues.values() if queue.violations},
        "sizes": pair.broker.sizes.buckets(),
        "delayed": vhost.delays.pending,
    }
    for when in ("now", "later"):
        seen[when] = {name: contents(ch, name) for name in vhost.queues if name != "tap"}
        pair.advance(100)
    return seen


def contents(ch: Channel, queue: str) -> list[tuple[bytes, bytes]]:
    found = []
    while (message := ch.get(queue, no_ack=True)) is not None:
        # The time of a death is the clock's, and so the same.
        found.append((message.body, message.raw_properties))
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_both_ways_answer_and_count_alike(case: Case) -> None:
    outcomes = []
    for way in WAYS:
        pair, ch = build()
        outcomes.append((way(pair, case), observe(pair, ch)))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_both_ways_are_logged_alike(case: Case) -> None:
    """But for the confirm, of which the log says when a channel was told."""
    logs = []
    for way in WAYS:
        pair, _ = build(event_log=True)
        way(pair, case)
        logs.append([{**row, "seq": 0} for row in logged(pair) if row["event"] != "confirm"])
    assert logs[0] == logs[1]


def logged(pair: Pair) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for block in pair.broker.events.blocks():
        named = columns(block, "n")
        unpacked = [values(column, block.count) for column in named.values()]
        found += [dict(zip(named, row, strict=True)) for row in zip(*unpacked, strict=True)]
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_firehose_sees_both_ways_alike(case: Case) -> None:
    outcomes = [tapped(way, case) for way in WAYS]
    assert outcomes[0] == outcomes[1]


def tapped(way: Callable[[Pair, Case], list[str]], case: Case) -> list[dict[str, object]]:
    pair, ch = build()
    ch.declare("tap")
    ch.bind("tap", TRACE, "publish.#")
    pair.broker.turn.begin()
    pair.broker.set_vhost("/", is_traced=True)
    pair.broker.turn.finish()
    way(pair, case)
    found = []
    while (message := ch.get("tap", no_ack=True)) is not None:
        of_the_client = ("connection", "channel")
        found.append({name: value for name, value in message.headers.items() if name not in of_the_client})
    return found


# What only one of them did before, or neither


def test_what_closes_is_counted_nowhere() -> None:
    pair, ch = build(event_log=True)
    over_http(pair, CASES["queue closes"])
    vhost = pair.broker.vhosts["/"]
    assert (vhost.counters.publish, vhost.exchanges[""].counters.publish_in) == (0, 0)
    assert logged(pair) == []
    assert ch.get("closes") is None


def test_what_is_refused_is_not_counted_as_routed() -> None:
    pair, _ = build()
    assert over_http(pair, CASES["queue nacks"]) == ["Basic.Nack"]
    counters = pair.broker.vhosts["/"].exchanges[""].counters
    assert (counters.publish_in, counters.publish_out) == (1, 0)


def test_the_firehose_sees_a_delayed_publish_as_it_was_published() -> None:
    """parity: RabbitMQ's is tapped before the delay is known, and after BCC is taken out."""
    (seen,) = tapped(over_amqp, Case(properties=headers(x_delay=50, BCC=["r"])))
    assert seen["properties"] == {"headers": {"x-delay": 50}}
    assert (seen["routing_keys"], seen["routed_queues"]) == (["q", "r"], [])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("delay", [{}, {"x-delay": 50}])
def test_the_alternate_gets_what_does_not_conform_as_it_was_published(
    way: Callable[[Pair, Case], list[str]], delay: dict[str, object]
) -> None:
    """By its BCC too, which nobody sees; what was to be delayed is not, and so does not say that it waited."""
    pair, ch = build()
    assert way(pair, Case("dead-letters", body=b"no", properties={"headers": {**delay, "BCC": ["other"]}})) == [
        "Basic.Ack"
    ]
    for queue in ("r", "other"):
        message = ch.get(queue, no_ack=True)
        assert message is not None, queue
        assert (message.body, message.headers) == (b"no", delay)
