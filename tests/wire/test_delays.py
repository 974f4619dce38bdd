"""Delayed messages as clients see them: `x-delay` and `x-deliver-at` on any exchange, and x-delayed-message."""

from datetime import UTC, datetime

import pytest
from pamqp import commands

from tests.support.pair import Channel, Pair, Typed

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def ch(pair: Pair) -> Channel:
    ch = pair.connect().channel()
    ch.declare("q")
    return ch


# ---------------------------------------------------------------------------------------------- how long


@pytest.mark.parametrize("delay_ms", [1, 50, 1000, 8 * DAY_MS, 40 * 365 * DAY_MS])
def test_a_message_comes_exactly_when_it_is_due(pair: Pair, ch: Channel, delay_ms: int) -> None:
    """G9 50 ms, 1 s, 8 days and 40 years; on the default exchange"""
    ch.publish(b"later", key="q", headers={"x-delay": Typed("l", delay_ms)})
    pair.advance(delay_ms - 1)
    assert ch.get() is None
    pair.advance(1)
    message = ch.get()
    assert message is not None
    assert message.body == b"later"
    assert ch.get() is None


@pytest.mark.parametrize("kind", ["b", "B", "s", "u", "I", "i", "l", "L", "f", "d"])
def test_any_number_will_do(pair: Pair, ch: Channel, kind: str) -> None:
    """G9 and consumers see it negated, so that nobody delays it twice"""
    ch.publish(b"m", key="q", headers={"x-delay": Typed(kind, 100), "other": "kept"})
    pair.advance(99)
    assert ch.get() is None
    pair.advance(1)
    message = ch.get()
    assert message is not None
    assert message.headers == {"x-delay": -100, "other": "kept"}


def test_a_number_as_text(pair: Pair, ch: Channel) -> None:
    ch.publish(b"m", key="q", headers={"x-delay": "250"})
    pair.advance(249)
    assert ch.get() is None
    pair.advance(1)
    message = ch.get()
    assert message is not None
    assert message.headers == {"x-delay": -250}


@pytest.mark.parametrize("delay", [Typed("I", 0), Typed("I", -5), Typed("V", None), "-7"])
def test_no_delay_means_at_once(ch: Channel, delay: object) -> None:
    ch.publish(b"now", key="q", headers={"x-delay": delay})
    message = ch.get()
    assert message is not None
    assert message.body == b"now"


@pytest.mark.parametrize(
    "at",
    [
        Typed("l", START_MS + 5000),
        str(START_MS + 5000),
        Typed("T", START_MS // 1000 + 5),
        datetime.fromtimestamp(START_MS / 1000 + 5, UTC).isoformat(),
        datetime.fromtimestamp(START_MS / 1000 + 5, UTC).replace(tzinfo=None).isoformat(),
        datetime.fromtimestamp(START_MS / 1000 + 5, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "2023-11-14T23:13:25+01:00",
    ],
)
def test_deliver_at(pair: Pair, ch: Channel, at: object) -> None:
    """G9 milliseconds since 1970, a timestamp, an ISO time with a zone or in UTC"""
    ch.publish(b"m", key="q", headers={"x-deliver-at": at})
    pair.advance(4999)
    assert ch.get() is None
    pair.advance(1)
    assert ch.drain() == [b"m"]


def test_a_time_that_has_passed_means_at_once(ch: Channel) -> None:
    ch.publish(b"m", key="q", headers={"x-deliver-at": Typed("l", START_MS - 1)})
    assert ch.drain() == [b"m"]


def test_of_two_headers_the_later_holds(pair: Pair, ch: Channel) -> None:
    ch.publish(b"m", key="q", headers={"x-delay": 100, "x-deliver-at": Typed("l", START_MS + 300)})
    pair.advance(299)
    assert ch.get() is None
    pair.advance(1)
    assert ch.drain() == [b"m"]


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        (
            {"x-delay": "soon"},
            "invalid header 'x-delay': expected an integer of milliseconds, got 'soon' of type 'longstr'",
        ),
        (
            {"x-delay": True},
            "invalid header 'x-delay': expected an integer of milliseconds, got a value of type 'bool'",
        ),
        ({"x-delay": Typed("l", 1 << 62)}, f"invalid header 'x-delay': {1 << 62} is beyond the year 9999"),
        (
            {"x-deliver-at": "tomorrow"},
            "invalid header 'x-deliver-at': expected milliseconds since 1970, a timestamp or an ISO 8601 time, "
            "got 'tomorrow' of type 'longstr'",
        ),
        (
            {"x-deliver-at": {}},
            "invalid header 'x-deliver-at': expected milliseconds since 1970, a timestamp or an ISO 8601 time, "
            "got a value of type 'table'",
        ),
    ],
)
def test_what_says_nothing_is_refused(ch: Channel, headers: dict[str, object], text: str) -> None:
    """G9"""
    ch.publish(b"m", key="q", headers=headers)
    ch.expect_close(406, f"PRECONDITION_FAILED - {text}", commands.Basic.Publish)


def test_a_header_value_that_looks_like_the_name_is_none(ch: Channel) -> None:
    ch.publish(b"m", key="q", headers={"about": "x-delay and x-deliver-at"})
    assert ch.drain() == [b"m"]


# ------------------------------------------------------------------------------------------------- order


def test_order_is_by_due_time_and_then_by_publishing(pair: Pair, ch: Channel) -> None:
    for number, delay in enumerate([300, 100, 200, 100, 300, 100]):
        ch.publish(f"{delay}.{number}".encode(), key="q", headers={"x-delay": delay})
    ch.publish(b"now", key="q")
    pair.advance(1000)
    assert ch.drain() == [b"now", b"100.1", b"100.3", b"100.5", b"200.2", b"300.0", b"300.4"]


def test_what_was_published_at_different_times_for_one_moment(pair: Pair, ch: Channel) -> None:
    for number in range(10):
        ch.publish(str(number).encode(), key="q", headers={"x-delay": 1000 - 100 * number})
        pair.advance(100)
    assert ch.drain() == [str(number).encode() for number in range(10)]


def test_a_consumer_gets_it_when_it_is_due(pair: Pair, ch: Channel) -> None:
    ch.consume("q", no_ack=True)
    ch.publish(b"m", key="q", headers={"x-delay": 10})
    assert ch.bodies() == []
    pair.advance(10)
    assert ch.bodies() == [b"m"]


def test_one_timer_and_no_residue(pair: Pair, ch: Channel) -> None:
    before = pair.clock.pending
    for delay in range(1, 200):
        ch.publish(b"m", key="q", headers={"x-delay": delay})
    assert pair.clock.pending == before + 1
    pair.advance(200)
    assert len(ch.drain()) == 199
    assert pair.clock.pending == before


# --------------------------------------------------------------------------------------------- all the rest


def test_routing_is_decided_when_it_is_due(pair: Pair, ch: Channel) -> None:
    ch.declare_exchange("x", "topic")
    ch.publish(b"m", "x", "a.b", headers={"x-delay": 100})
    ch.bind("q", "x", "a.*")
    pair.advance(100)
    message = ch.get()
    assert message is not None
    assert (message.exchange, message.routing_key) == ("x", "a.b")


def test_an_exchange_that_is_gone_when_it_is_due(pair: Pair, ch: Channel) -> None:
    ch.declare_exchange("x", "fanout")
    ch.bind("q", "x")
    ch.publish(b"m", "x", headers={"x-delay": 100})
    ch.call(commands.Exchange.Delete(exchange="x"), commands.Exchange.DeleteOk)
    pair.advance(100)
    assert ch.get() is None
    delays = pair.broker.vhosts["/"].delays
    assert (delays.pending, delays.dropped, delays.delivered) == (0, 1, 0)
    assert pair.broker.vhosts["/"].counters.drop_unroutable == 1


def test_the_alternate_exchange_is_honoured(pair: Pair, ch: Channel) -> None:
    ch.declare_exchange("aside", "fanout")
    ch.bind("q", "aside")
    ch.declare_exchange("x", "direct", arguments={"alternate-exchange": "aside"})
    ch.publish(b"m", "x", "nowhere", headers={"x-delay": 100})
    pair.advance(100)
    assert ch.drain() == [b"m"]


def test_mandatory_is_judged_at_once(pair: Pair, ch: Channel) -> None:
    ch.publish(b"lost", key="nowhere", mandatory=True, headers={"x-delay": 100})
    returned = ch.expect_message(commands.Basic.Return)
    assert returned.body == b"lost"
    assert returned.headers == {"x-delay": 100}
    ch.publish(b"kept", key="q", mandatory=True, headers={"x-delay": 100})
    ch.expect_nothing()
    assert pair.broker.vhosts["/"].delays.pending == 1
    pair.advance(100)
    assert ch.drain() == [b"kept"]


def test_confirm(pair: Pair, ch: Channel) -> None:
    ch.confirm()
    ch.publish(b"m", key="q", headers={"x-delay": 100}, delivery_mode=2)
    assert ch.expect_confirms() == [("ack", 1, False)]


def test_transactions(pair: Pair, ch: Channel) -> None:
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    ch.publish(b"dropped", key="q", headers={"x-delay": 100})
    ch.call(commands.Tx.Rollback(), commands.Tx.RollbackOk)
    ch.publish(b"kept", key="q", headers={"x-delay": 100})
    pair.advance(50)
    ch.call(commands.Tx.Commit(), commands.Tx.CommitOk)
    ch.publish(b"late", key="q", headers={"x-delay": 100})
    pair.advance(49)
    assert ch.get() is None
    pair.advance(1)
    assert ch.drain() == [b"kept"]
    pair.advance(500)
    ch.call(commands.Tx.Commit(), commands.Tx.CommitOk)
    pair.advance(0)
    assert ch.drain() == [b"late"]


def test_expiration_counts_from_when_it_is_due(pair: Pair, ch: Channel) -> None:
    ch.publish(b"m", key="q", headers={"x-delay": 1000}, expiration="200")
    ch.publish(b"n", key="q", headers={"x-delay": 1000}, expiration="100")
    pair.advance(1150)
    assert ch.drain() == [b"m"]


def test_a_queues_ttl_counts_from_when_it_is_due(pair: Pair, ch: Channel) -> None:
    ch.declare("ttl", arguments={"x-message-ttl": 100})
    ch.publish(b"m", key="ttl", headers={"x-delay": 1000})
    pair.advance(1099)
    assert ch.drain("ttl") == [b"m"]


def test_priority_is_kept(pair: Pair, ch: Channel) -> None:
    ch.declare("p", arguments={"x-max-priority": 5})
    for priority in (1, 5, 3):
        ch.publish(str(priority).encode(), key="p", priority=priority, headers={"x-delay": 10})
    pair.advance(10)
    assert ch.drain("p") == [b"5", b"3", b"1"]


def test_cc_and_bcc(pair: Pair, ch: Channel) -> None:
    ch.declare("copy")
    ch.declare("blind")
    ch.publish(b"m", key="q", headers={"x-delay": 10, "CC": ["copy"], "BCC": ["blind"]})
    pair.advance(10)
    for queue in ("q", "copy", "blind"):
        message = ch.get(queue)
        assert message is not None
        assert message.headers == {"x-delay": -10, "CC": ["copy"]}


def test_a_copy_that_is_no_list_is_refused_at_once(ch: Channel) -> None:
    ch.publish(b"m", key="q", headers={"x-delay": 10, "CC": "copy"})
    ch.expect_close(
        406,
        'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}',
        commands.Basic.Publish,
    )


def test_user_id_is_checked_at_once(ch: Channel) -> None:
    ch.publish(b"m", key="q", headers={"x-delay": 10}, user_id="somebody")
    ch.expect_close(
        406,
        "PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was 'guest'",
        commands.Basic.Publish,
    )


def test_permission_is_checked_at_once(pair: Pair, ch: Channel) -> None:
    pair.add_user("reader", "secret", write="^$")
    other = pair.connect("reader", "secret").channel()
    other.publish(b"m", "amq.direct", "q", headers={"x-delay": 10})
    other.expect_close(
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.direct' in vhost '/' refused for user 'reader'",
        commands.Basic.Publish,
    )
    assert pair.broker.vhosts["/"].delays.pending == 0


def test_headers_decide_when_it_is_due(pair: Pair, ch: Channel) -> None:
    ch.bind("q", "amq.headers", "", {"colour": "red"})
    ch.publish(b"red", "amq.headers", headers={"x-delay": 10, "colour": "red"})
    ch.publish(b"blue", "amq.headers", headers={"x-delay": 10, "colour": "blue"})
    pair.advance(10)
    assert ch.drain() == [b"red"]


def test_a_full_queue_refuses_it_when_it_is_due(pair: Pair, ch: Channel) -> None:
    ch.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for body in (b"1", b"2"):
        ch.publish(body, key="full", headers={"x-delay": 10})
    pair.advance(10)
    assert ch.drain("full") == [b"1"]


def test_counts(pair: Pair, ch: Channel) -> None:
    ch.publish(b"m", key="q", headers={"x-delay": 10})
    vhost = pair.broker.vhosts["/"]
    exchange = vhost.exchanges[""].counters
    assert (vhost.counters.publish, vhost.counters.drop_unroutable) == (1, 0)
    assert (exchange.publish_in, exchange.publish_out) == (1, 0)
    pair.advance(10)
    assert (vhost.counters.publish, exchange.publish_in, exchange.publish_out) == (1, 1, 1)


def test_deleting_the_vhost_drops_them(pair: Pair, ch: Channel) -> None:
    pair.broker.add_vhost("v")
    pair.add_user("guest", "guest", vhost="v")
    before = pair.clock.pending
    client = pair.connect(vhost="v")
    other = client.channel()
    other.declare("q")
    other.publish(b"m", key="q", headers={"x-delay": 10})
    assert pair.clock.pending == before + 1
    client.close()
    pair.broker.delete_vhost("v")
    pair.settle()
    assert pair.clock.pending == before


# ---------------------------------------------------------------------------------------- x-delayed-message


@pytest.mark.parametrize(
    ("kind", "binding", "key"), [("direct", "k", "k"), ("fanout", "", "any"), ("topic", "a.#", "a.b")]
)
def test_the_plugins_exchange(pair: Pair, ch: Channel, kind: str, binding: str, key: str) -> None:
    """G9 routes like the type it names, delays by x-delay, and negates the header"""
    ch.declare_exchange("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": kind})
    ch.bind("q", "later", binding)
    ch.publish(b"now", "later", key)
    ch.publish(b"later", "later", key, headers={"x-delay": 5000})
    assert ch.drain() == [b"now"]
    pair.advance(5000)
    message = ch.get()
    assert message is not None
    assert (message.body, message.headers["x-delay"], message.exchange) == (b"later", -5000, "later")


def test_the_plugins_exchange_by_headers(pair: Pair, ch: Channel) -> None:
    ch.declare_exchange("later", "x-delayed-message", arguments={"x-delayed-type": "headers"})
    ch.bind("q", "later", "", {"colour": "red"})
    ch.publish(b"red", "later", headers={"x-delay": 5, "colour": "red"})
    ch.publish(b"blue", "later", headers={"x-delay": 5, "colour": "blue"})
    pair.advance(5)
    assert ch.drain() == [b"red"]


def test_a_message_sent_on_is_not_delayed_again(pair: Pair, ch: Channel) -> None:
    ch.declare_exchange("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    ch.declare_exchange("second", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    ch.bind_exchange("second", "later")
    ch.bind("q", "second")
    ch.publish(b"m", "later", headers={"x-delay": 100})
    pair.advance(100)
    message = ch.get()
    assert message is not None
    ch.publish(b"again", "later", properties=message.raw_properties)
    assert ch.drain() == [b"again"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": 5}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": "x-nothing"}, "unknown exchange type 'x-nothing'"),
        ({"x-delayed-type": "x-delayed-message"}, "unknown exchange type 'x-delayed-message'"),
    ],
)
def test_an_inner_type_is_needed(ch: Channel, arguments: dict[str, object], text: str) -> None:
    ch.send(commands.Exchange.Declare(exchange="later", exchange_type="x-delayed-message", arguments=arguments))
    ch.expect_close(406, f"PRECONDITION_FAILED - {text}", commands.Exchange.Declare)
