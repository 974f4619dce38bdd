"""JSON Schemas of queues and exchanges: the three outcomes of a message that does not conform."""

import json
from collections.abc import Iterator

import pytest
from pamqp import base, commands

from tests.support.crash_pair import DurablePair, SimulatedDisk
from tests.support.pair import Channel, Pair

SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
GOOD, BAD, TEXT = b'{"id": 1}', b'{"id": "one"}', b"no JSON"


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def ch(pair: Pair) -> Channel:
    channel = pair.connect().channel()
    channel.send(commands.Confirm.Select())
    channel.expect(commands.Confirm.SelectOk)
    return channel


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    disk = SimulatedDisk()
    yield disk
    disk.close()


def rules(action: str | None = None) -> dict[str, object]:
    return {"x-schema": json.dumps(SCHEMA)} | ({} if action is None else {"x-schema-action": action})


def declare_exchange(ch: Channel, **arguments: object) -> None:
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    ch.send(commands.Exchange.Declare(exchange="x", exchange_type="fanout", arguments=given))
    ch.expect(commands.Exchange.DeclareOk)


@pytest.mark.parametrize("arguments", [rules(), rules("nack"), {"x-schema": SCHEMA}])
def test_nack(pair: Pair, ch: Channel, arguments: dict[str, object]) -> None:
    """G19: the publisher hears that it was refused, and the queue never sees it; text or table, it is the same."""
    ch.declare("q", arguments=arguments)
    for body, answer in ((GOOD, commands.Basic.Ack), (BAD, commands.Basic.Nack), (TEXT, commands.Basic.Nack)):
        ch.publish(body, key="q")
        ch.expect(answer)
    assert ch.drain("q") == [GOOD]
    assert pair.broker.vhosts["/"].queues["q"].violations == 2


def test_close(ch: Channel) -> None:
    """G19: 406 says what is wrong, and no other queue has got it."""
    declare_exchange(ch)
    for queue, arguments in (("plain", {}), ("q", rules("close"))):
        ch.declare(queue, arguments=arguments)
        ch.bind(queue, "x", "")
    ch.publish(GOOD, exchange="x")
    ch.expect(commands.Basic.Ack)
    ch.publish(BAD, exchange="x")
    close = ch.expect(commands.Channel.Close)
    assert (close.reply_code, close.reply_text) == (
        406,
        "PRECONDITION_FAILED - message does not conform to the schema of queue 'q' in vhost '/': "
        '"one" is not of type "integer"',
    )


def test_close_leaves_nothing_behind(pair: Pair, ch: Channel) -> None:
    """G19"""
    declare_exchange(ch)
    for queue, arguments in (("plain", {}), ("q", rules("close"))):
        ch.declare(queue, arguments=arguments)
        ch.bind(queue, "x", "")
    ch.publish(BAD, exchange="x")
    ch.expect(commands.Channel.Close)
    assert [queue.message_count for queue in pair.broker.vhosts["/"].queues.values()] == [0, 0]


def test_dead_letter(ch: Channel) -> None:
    """G19: confirmed, and found among the dead with the reason and the queue it was for."""
    ch.declare("dead")
    ch.declare(
        "q", arguments=rules("dead-letter") | {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    for body in (GOOD, BAD):
        ch.publish(body, key="q")
        ch.expect(commands.Basic.Ack)
    assert ch.drain("q") == [GOOD]
    letter = ch.get("dead", no_ack=True)
    assert letter is not None
    assert letter.body == BAD
    headers = letter.properties.headers or {}
    assert (headers["x-first-death-queue"], headers["x-first-death-reason"]) == ("q", "rejected")


def test_other_queues_get_what_one_refuses(ch: Channel) -> None:
    """G19: as with a full queue, a refusal of one is a refusal to the publisher."""
    declare_exchange(ch)
    for queue, arguments in (("plain", {}), ("q", rules())):
        ch.declare(queue, arguments=arguments)
        ch.bind(queue, "x", "")
    ch.publish(BAD, exchange="x")
    ch.expect(commands.Basic.Nack)
    assert (ch.drain("plain"), ch.drain("q")) == ([BAD], [])


@pytest.mark.parametrize("headers", [{}, {"x-delay": 1000}])
def test_an_exchange_refuses(pair: Pair, ch: Channel, headers: dict[str, object]) -> None:
    """G19: at once, also what is to be routed later."""
    declare_exchange(ch, x_schema=SCHEMA)
    ch.declare("q")
    ch.bind("q", "x", "")
    ch.publish(BAD, exchange="x", headers=headers, mandatory=True)
    ch.expect(commands.Basic.Nack)
    ch.publish(GOOD, exchange="x", headers=headers, mandatory=True)
    ch.expect(commands.Basic.Ack)
    pair.advance(1000)
    assert ch.drain("q") == [GOOD]
    assert pair.broker.vhosts["/"].exchanges["x"].violations == 1


def test_an_exchange_sends_it_to_its_alternate(ch: Channel) -> None:
    """G19: what conforms goes on, what does not goes where unroutable messages go."""
    declare_exchange(ch, x_schema=SCHEMA, x_schema_action="dead-letter", alternate_exchange="amq.fanout")
    for queue, exchange in (("q", "x"), ("odd", "amq.fanout")):
        ch.declare(queue)
        ch.bind(queue, exchange, "")
    for body in (GOOD, BAD):
        ch.publish(body, exchange="x")
        ch.expect(commands.Basic.Ack)
    assert (ch.drain("q"), ch.drain("odd")) == ([GOOD], [BAD])


def test_in_a_transaction_nothing_is_refused_in_silence(pair: Pair) -> None:
    """G19"""
    ch = pair.connect().channel()
    ch.declare("q", arguments=rules("nack"))
    ch.send(commands.Tx.Select())
    ch.expect(commands.Tx.SelectOk)
    ch.publish(BAD, key="q")
    assert ch.expect(commands.Channel.Close).reply_code == 406


def test_a_policy_brings_a_schema_to_publishers_that_are_there(pair: Pair, ch: Channel) -> None:
    """G19"""
    from rabbitlike.broker.policies.policies import make_policy

    ch.declare("q")
    ch.publish(BAD, key="q")
    ch.expect(commands.Basic.Ack)
    definition = {"schema": SCHEMA, "schema-action": "nack"}
    vhost = pair.broker.vhosts["/"]
    vhost.policies.set(make_policy("/", "s", "policy", pattern="q", definition=definition))  # type: ignore[arg-type]
    ch.publish(BAD, key="q")
    ch.expect(commands.Basic.Nack)
    vhost.policies.clear("policy", "s")
    ch.publish(BAD, key="q")
    ch.expect(commands.Basic.Ack)


def test_bodies_beyond_the_limit_do_not_conform(ch: Channel) -> None:
    """G19"""
    ch.declare("q", arguments={"x-schema": {}})
    ch.publish(b'"%s"' % (b"x" * (1 << 20)), key="q")
    ch.expect(commands.Basic.Nack)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-schema": 5}, "'x-schema' {}: {unacceptable_type,"),
        ({"x-schema": "{"}, "'x-schema' {}: \"invalid schema: not JSON"),
        ({"x-schema": '{"type": "nothing"}'}, "'x-schema' {}: \"invalid schema: "),
        ({"x-schema": '{"$ref": "http://127.0.0.1:1/other"}'}, "'x-schema' {}: \"invalid schema: Resource"),
        ({"x-schema-action": "drop"}, "'x-schema-action' {}: \"unsupported schema action 'drop'\""),
    ],
)
def test_schemas_that_are_refused(pair: Pair, arguments: dict[str, object], text: str) -> None:
    """G19: when it is declared, not when somebody publishes."""
    ch = pair.connect().channel()
    ch.send(commands.Queue.Declare(queue="q", arguments=arguments))
    expected = "PRECONDITION_FAILED - invalid arg " + text.replace("{}", "for queue 'q' in vhost '/'", 1)
    assert ch.expect(commands.Channel.Close).reply_text.startswith(expected)


def declare_durable(pair: DurablePair, *methods: base.Frame) -> Channel:
    ch = pair.connect().channel()
    for method in methods:
        ch.send(method)
    pair.commit_all()
    ch.client.take_all()
    return ch


def test_what_goes_to_the_alternate_is_confirmed_when_it_is_stored(disk: SimulatedDisk) -> None:
    """G19: also when the queue it was for would have stored nothing."""
    pair = disk.boot()
    ch = declare_durable(
        pair,
        commands.Exchange.Declare(
            exchange="x", exchange_type="fanout", arguments=rules("dead-letter") | {"alternate-exchange": "amq.fanout"}
        ),
        commands.Queue.Declare(queue="q"),
        commands.Queue.Bind(queue="q", exchange="x"),
        commands.Queue.Declare(queue="odd", durable=True),
        commands.Queue.Bind(queue="odd", exchange="amq.fanout"),
        commands.Confirm.Select(),
    )
    ch.publish(BAD, exchange="x", delivery_mode=2)
    ch.expect_nothing()
    pair.commit_all()
    ch.expect(commands.Basic.Ack)


def test_a_transaction_is_committed_when_what_did_not_conform_is_stored(disk: SimulatedDisk) -> None:
    """G19"""
    pair = disk.boot()
    ch = declare_durable(
        pair,
        commands.Queue.Declare(
            queue="q",
            durable=True,
            arguments=rules("dead-letter") | {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
        ),
        commands.Queue.Declare(queue="dead", durable=True),
        commands.Tx.Select(),
    )
    ch.publish(BAD, key="q", delivery_mode=2)
    ch.send(commands.Tx.Commit())
    ch.expect_nothing()
    pair.commit_all()
    ch.expect(commands.Tx.CommitOk)
