"""Numbers among our own arguments: as a decimal, as text, as a double; RabbitMQ's own are refused as there."""

from decimal import Decimal

import pytest
from pamqp import commands

from rabbitlike.broker.queue_settings.numbers import WHOLE
from tests.support.pair import Pair


@pytest.mark.parametrize("said", [Decimal("1.5"), "1.5", " 1.50 ", 1.5])
def test_a_factor(said: object) -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={"x-retry-initial": 1000, "x-retry-multiplier": said})
    queue = pair.broker.vhosts["/"].queues["q"]
    assert queue.settings.retry is not None
    assert queue.settings.retry.multiplier == 1.5
    for same in (Decimal("1.5"), "1.5", 1.5):
        ch.declare("q", arguments={"x-retry-initial": "1000", "x-retry-multiplier": same})
    assert dict(queue.arguments) == {"x-retry-initial": 1000, "x-retry-multiplier": 1.5}


@pytest.mark.parametrize("key", sorted(WHOLE))
@pytest.mark.parametrize("said", ["7", "7.0", Decimal("7.00"), 7.0, "+7"])
def test_a_whole_number(key: str, said: object) -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q", arguments={key: said})
    ch.declare("q", arguments={key: 7})
    assert dict(pair.broker.vhosts["/"].queues["q"].arguments) == {key: 7}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x-retry-initial": "1.5"}, "expected integer, got double"),
        ({"x-retry-initial": Decimal("1.5")}, "expected integer, got double"),
        ({"x-retry-initial": "soon"}, "expected integer, got longstr"),
        ({"x-retry-initial": "1e3"}, "expected integer, got longstr"),
        ({"x-retry-initial": "9" * 30}, "expected integer, got longstr"),
        ({"x-retry-initial": "-5"}, "{value_negative,-5}"),
        ({"x-retry-multiplier": "0.5"}, "{value_too_small,0.5}"),
        ({"x-retry-multiplier": "inf"}, "expected number, got longstr"),
        ({"x-max-length": "5"}, "expected integer, got longstr"),
        ({"x-message-ttl": Decimal("5")}, "expected integer, got decimal"),
    ],
)
def test_what_is_no_such_number(arguments: dict[str, object], said: str) -> None:
    ch = Pair().connect().channel()
    ch.send(commands.Queue.Declare(queue="q", arguments=arguments))
    assert said in ch.expect(commands.Channel.Close).reply_text


def test_an_exchange_and_a_consumer() -> None:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare_exchange(
        "x", "direct", arguments={"x-message-deduplication": True, "x-cache-size": "10", "x-cache-ttl": Decimal("500")}
    )
    assert pair.broker.vhosts["/"].exchanges["x"].arguments["x-cache-size"] == 10
    ch.declare("q")
    ch.consume("q", arguments={"x-ack-timeout": "1000"})
    ch.publish(b"m", key="q")
    assert len(ch.deliveries()) == 1
    pair.advance(1001)
    (again,) = ch.deliveries()
    assert again.redelivered
