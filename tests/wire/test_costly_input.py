"""Input that is small to send and used to be long to work on: each takes a bounded time now, or is refused.

The bounds are of processor time and far above what is needed: what they must tell apart are growing with the input and
growing with its square, or faster.
"""

import json
from itertools import product
from random import Random

from pamqp import commands

from rabbitlike.broker.queues.dead_letters.x_death import deaths_of
from rabbitlike.protocol.properties import Properties
from tests.support.bystander import Bystander, bounded_time
from tests.support.pair import Pair


def test_a_chain_of_a_thousand_queues_that_dead_letter_into_each_other(pair: Pair, bystander: Bystander) -> None:
    """Each death adds an entry to x-death, and no death decodes those before it."""
    length = 1000
    ch = pair.connect().channel()
    for number in range(length):
        following = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"q{number + 1}"}
        ch.declare(f"q{number}", arguments={"x-max-length": 0, **following})
    ch.declare(f"q{length}")
    with bounded_time(1.5):
        ch.publish(b"m", key="q0")
        pair.clock.advance(1)
    message = pair.broker.vhosts["/"].queues[f"q{length}"].fetch()
    assert message is not None
    deaths = deaths_of(Properties(message.properties))
    assert [death.queue for death in deaths] == [f"q{number}" for number in reversed(range(length))]
    assert {(death.reason, death.count) for death in deaths} == {("maxlen", 1)}
    bystander.expect_unharmed()


def keys(letters: str) -> list[str]:
    """200 keys of a hundred words each, all of them different, and the same at every run."""
    chosen = Random(11)
    return [".".join(chosen.choice(letters) for _ in range(100)) for _ in range(200)]


def test_two_hundred_keys_for_two_thousand_wildcard_patterns(pair: Pair, bystander: Bystander) -> None:
    ch = pair.connect().channel()
    ch.declare("q")
    for words in product("*#", repeat=11):
        ch.bind("q", "amq.topic", ".".join(words))
    first, *others = keys("abcdefghijklmnop")
    with bounded_time(1.0):
        ch.publish(b"m", exchange="amq.topic", key=first, headers={"CC": others})
    assert ch.get("q") is not None
    assert ch.get("q") is None
    bystander.expect_unharmed()


def test_a_message_that_would_be_compared_with_too_much(pair: Pair, bystander: Bystander) -> None:
    """406, wherever a client asks for it; and what is routed later, for no client, goes nowhere."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.declare("dead", arguments={"x-max-length": 0, "x-dead-letter-exchange": "amq.topic"})
    for words in product("a*#", repeat=7):
        ch.bind("q", "amq.topic", ".".join(words))
    first, *others = keys("ab")
    with bounded_time(1.0):
        ch.publish(b"m", key="dead", headers={"CC": [first, *others]})
    assert ch.get("dead") is None
    with bounded_time(1.0):
        ch.publish(b"m", exchange="amq.topic", key=first, headers={"CC": others})
    close = ch.expect(commands.Channel.Close)
    assert (close.reply_code, (close.class_id, close.method_id)) == (406, (60, 40))
    assert close.reply_text.startswith(
        "PRECONDITION_FAILED - routing takes too long: exchange 'amq.topic' in vhost '/'"
    )
    bystander.expect_unharmed()


def test_a_schema_that_would_be_read_two_hundred_million_times(pair: Pair, bystander: Bystander) -> None:
    """It is refused when it is declared: one publish would take seconds."""
    definitions: dict[str, object] = {
        f"d{level}": {"allOf": [{"$ref": f"#/definitions/d{level + 1}"}] * 2} for level in range(28)
    }
    schema = json.dumps({"definitions": {**definitions, "d28": True}, "$ref": "#/definitions/d0"})
    ch = pair.connect().channel()
    with bounded_time(1.0):
        ch.send(commands.Queue.Declare(queue="q", arguments={"x-schema": schema}))
    assert ch.expect(commands.Channel.Close).reply_text == (
        "PRECONDITION_FAILED - invalid arg 'x-schema' for queue 'q' in vhost '/': "
        '"invalid schema: a value would be compared with more than 10000 parts of the schema"'
    )
    bystander.expect_unharmed()
