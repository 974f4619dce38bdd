"""What pika's users read when something is refused: reply codes and RabbitMQ's words, on the channel or connection."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker
from pika.spec import Basic

from interop.patience import eventually
from interop.pika.blocking import temporary_queue
from interop.pika.conftest import Connect


class Setting(NamedTuple):
    """What the attempts below refer to. `q` is exclusive, `x` a direct exchange, `gone` was never there."""

    channel: BlockingChannel
    q: str
    x: str
    gone: str


@pytest.fixture
def setting(channel: BlockingChannel, unique: Callable[[str], str]) -> Setting:
    found = Setting(channel, unique("q"), unique("x"), unique("gone"))
    channel.queue_declare(found.q, exclusive=True, arguments={"x-message-ttl": 60_000})
    channel.exchange_declare(found.x, auto_delete=True)
    channel.queue_bind(found.q, found.x, "key")
    return found


Attempt = Callable[[Setting], object]


def await_close(channel: BlockingChannel) -> None:
    """For methods without an answer: wait for the close, and raise it as pika does from a call it can blame."""

    def is_closed() -> bool:
        channel.connection.process_data_events(0.01)
        return bool(channel.is_closed)

    eventually(is_closed, "the channel is closed")
    assert channel._closing_reason is not None
    raise channel._closing_reason


def publish(at: Setting, exchange: str, key: str, **properties: object) -> None:
    at.channel.basic_publish(exchange, key, b"x", BasicProperties(**properties))
    await_close(at.channel)


def consume(at: Setting, queue: str, **options: object) -> str:
    return str(at.channel.basic_consume(queue, lambda *_: None, **options))


def settle_twice(at: Setting) -> None:
    at.channel.basic_publish("", at.q, b"x")
    tag = at.channel.basic_get(at.q)[0].delivery_tag
    at.channel.basic_ack(tag)
    at.channel.basic_ack(tag)
    await_close(at.channel)


def nack_unknown(at: Setting) -> None:
    at.channel.basic_nack(42)
    await_close(at.channel)


def consume_exclusively_twice(at: Setting) -> None:
    consume(at, at.q, exclusive=True)
    consume(at, at.q)


def confirm_then_transaction(at: Setting) -> None:
    at.channel.confirm_delivery()
    at.channel.tx_select()


CHANNEL_ERRORS: list[tuple[str, Attempt, int, str]] = [
    (
        "declare-passive",
        lambda at: at.channel.queue_declare(at.gone, passive=True),
        404,
        "no queue '{gone}' in vhost '/'",
    ),
    ("bind-no-queue", lambda at: at.channel.queue_bind(at.gone, at.x, "k"), 404, "no queue '{gone}' in vhost '/'"),
    (
        "bind-no-exchange",
        lambda at: at.channel.queue_bind(at.q, at.gone, "k"),
        404,
        "no exchange '{gone}' in vhost '/'",
    ),
    ("purge-none", lambda at: at.channel.queue_purge(at.gone), 404, "no queue '{gone}' in vhost '/'"),
    ("consume-none", lambda at: consume(at, at.gone), 404, "no queue '{gone}' in vhost '/'"),
    ("get-none", lambda at: at.channel.basic_get(at.gone), 404, "no queue '{gone}' in vhost '/'"),
    ("publish-no-exchange", lambda at: publish(at, at.gone, "k"), 404, "no exchange '{gone}' in vhost '/'"),
    (
        "exchange-passive",
        lambda at: at.channel.exchange_declare(at.gone, passive=True),
        404,
        "no exchange '{gone}' in vhost '/'",
    ),
    ("e2e-no-source", lambda at: at.channel.exchange_bind(at.x, at.gone), 404, "no exchange '{gone}' in vhost '/'"),
    (
        "queue-reserved",
        lambda at: at.channel.queue_declare("amq.mine"),
        403,
        "queue name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    (
        "exchange-reserved",
        lambda at: at.channel.exchange_declare("amq.mine"),
        403,
        "exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    (
        "bind-default",
        lambda at: at.channel.queue_bind(at.q, "", "k"),
        403,
        "operation not permitted on the default exchange",
    ),
    (
        "delete-default",
        lambda at: at.channel.exchange_delete(""),
        403,
        "operation not permitted on the default exchange",
    ),
    ("consume-exclusive", consume_exclusively_twice, 403, "queue '{q}' in vhost '/' in exclusive use"),
    (
        "other-kind",
        lambda at: at.channel.exchange_declare(at.x, "fanout", auto_delete=True),
        406,
        "inequivalent arg 'type' for exchange '{x}' in vhost '/': received 'fanout' but current is 'direct'",
    ),
    (
        "other-durability",
        lambda at: at.channel.exchange_declare(at.x, durable=True, auto_delete=True),
        406,
        "inequivalent arg 'durable' for exchange '{x}' in vhost '/': received 'true' but current is 'false'",
    ),
    (
        "other-auto-delete",
        lambda at: at.channel.queue_declare(
            at.q, exclusive=True, auto_delete=True, arguments={"x-message-ttl": 60_000}
        ),
        406,
        "inequivalent arg 'auto_delete' for queue '{q}' in vhost '/': received 'true' but current is 'false'",
    ),
    (
        "argument-missing",
        lambda at: at.channel.queue_declare(at.q, exclusive=True),
        406,
        "inequivalent arg 'x-message-ttl' for queue '{q}' in vhost '/': "
        "received none but current is the value '60000' of type 'signedint'",
    ),
    (
        "argument-other",
        lambda at: at.channel.queue_declare(at.q, exclusive=True, arguments={"x-message-ttl": 1}),
        406,
        "inequivalent arg 'x-message-ttl' for queue '{q}' in vhost '/': received '1' but current is '60000'",
    ),
    (
        "argument-zero",
        lambda at: at.channel.queue_declare(at.gone, arguments={"x-expires": 0}),
        406,
        "invalid arg 'x-expires' for queue '{gone}' in vhost '/': {{value_zero,0}}",
    ),
    (
        "argument-no-dlx",
        lambda at: at.channel.queue_declare(at.gone, arguments={"x-dead-letter-routing-key": "k"}),
        406,
        "invalid arg 'x-dead-letter-routing-key' for queue '{gone}' in vhost '/': routing_key_but_no_dlx_defined",
    ),
    (
        "expiration",
        lambda at: publish(at, "", at.q, expiration="soon"),
        406,
        "invalid expiration 'soon': no_integer",
    ),
    (
        "user-id",
        lambda at: publish(at, "", at.q, user_id="someone"),
        406,
        "user_id property set to 'someone' but authenticated user was 'guest'",
    ),
    ("ack-twice", settle_twice, 406, "unknown delivery tag 1"),
    ("nack-unknown", nack_unknown, 406, "unknown delivery tag 42"),
    ("commit-alone", lambda at: at.channel.tx_commit(), 406, "channel is not transactional"),
    ("rollback-alone", lambda at: at.channel.tx_rollback(), 406, "channel is not transactional"),
    ("confirm-and-tx", confirm_then_transaction, 406, "cannot switch from confirm to tx mode"),
    (
        "reply-consumer-acks",
        lambda at: consume(at, "amq.rabbitmq.reply-to"),
        406,
        "reply consumer cannot acknowledge",
    ),
    (
        "no-reply-consumer",
        lambda at: publish(at, "", at.q, reply_to="amq.rabbitmq.reply-to"),
        406,
        "fast reply consumer does not exist",
    ),
]

NAMES = {
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    406: "PRECONDITION_FAILED",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
}


@pytest.mark.parametrize(
    ("attempt", "code", "text"), [row[1:] for row in CHANNEL_ERRORS], ids=[row[0] for row in CHANNEL_ERRORS]
)
def test_the_channel_is_closed(setting: Setting, attempt: Attempt, code: int, text: str) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        attempt(setting)
    assert caught.value.reply_code == code
    expected = text.format(q=setting.q, x=setting.x, gone=setting.gone)
    assert caught.value.reply_text == f"{NAMES[code]} - {expected}"
    assert setting.channel.connection.channel().is_open


def reuse_tag(at: Setting) -> None:
    """pika knows its own tags, so the second consumer is asked for behind its back."""
    consume(at, at.q, consumer_tag="twice")
    at.channel._impl._send_method(Basic.Consume(queue=at.q, consumer_tag="twice"))
    await_close(at.channel)


CONNECTION_ERRORS: list[tuple[str, Attempt, int, str]] = [
    ("tag-twice", reuse_tag, 530, "attempt to reuse consumer tag 'twice'"),
    ("prefetch-size", lambda at: at.channel.basic_qos(prefetch_size=10), 540, "prefetch_size!=0 (10)"),
    ("recover", lambda at: at.channel.basic_recover(requeue=False), 540, "requeue=false"),
    ("flow", lambda at: at.channel.flow(False), 540, "active=false"),
]


@pytest.mark.parametrize(
    ("attempt", "code", "text"), [row[1:] for row in CONNECTION_ERRORS], ids=[row[0] for row in CONNECTION_ERRORS]
)
def test_the_connection_is_closed(setting: Setting, attempt: Attempt, code: int, text: str) -> None:
    with pytest.raises(ConnectionClosedByBroker) as caught:
        attempt(setting)
    assert (caught.value.reply_code, caught.value.reply_text) == (code, f"{NAMES[code]} - {text}")
    assert setting.channel.connection.is_closed


def test_errors_do_not_disturb_other_connections(connect: Connect) -> None:
    bystander = connect().channel()
    queue = temporary_queue(bystander)
    victim = connect()
    with pytest.raises(ConnectionClosedByBroker):
        victim.channel().basic_qos(prefetch_size=1)
    bystander.basic_publish("", queue, b"still here")
    assert bystander.basic_get(queue, auto_ack=True)[2] == b"still here"


def test_publishes_after_the_one_that_failed_are_lost(connection: BlockingConnection) -> None:
    """They are on a channel that is closing: nothing is delivered, nothing else breaks."""
    queue = temporary_queue(connection.channel())
    channel = connection.channel()
    channel._impl.basic_publish("no such exchange", "", b"x")
    for _ in range(10):
        channel._impl.basic_publish("", queue, b"lost")
    with pytest.raises(ChannelClosedByBroker, match="no exchange 'no such exchange'"):
        await_close(channel)
    assert connection.channel().queue_declare(queue, passive=True).method.message_count == 0
