"""pika's asynchronous connections, on its own loop and on asyncio's: every method they have, and what comes unasked."""

from collections.abc import Callable, Generator

import pytest
from pika import BasicProperties, PlainCredentials
from pika.channel import Channel
from pika.connection import Connection
from pika.exceptions import (
    ChannelClosedByBroker,
    ChannelClosedByClient,
    ConnectionClosedByBroker,
    ConnectionClosedByClient,
    ProbableAuthenticationError,
)
from pika.spec import Basic, Confirm, Exchange, Queue, Tx

from interop.conftest import Address
from interop.pika.walk import ADAPTERS, Adapter, Step, Values, Walk, open_channel, walk

Unique = Callable[[str], str]


@pytest.fixture(params=list(ADAPTERS))
def adapter(request: pytest.FixtureRequest) -> Adapter:
    return ADAPTERS[request.param]


def declare_queue(channel: Channel) -> Generator[Step, Values, str]:
    (frame,) = yield lambda done: channel.queue_declare("", exclusive=True, callback=done)
    return str(frame.method.queue)


def test_exchanges_and_queues(adapter: Adapter, address: Address, unique: Unique) -> None:
    queue, source, target = unique("q"), unique("source"), unique("target")

    def script(connection: Connection) -> Walk:
        channel = yield from open_channel(connection)
        (frame,) = yield lambda done: channel.exchange_declare(source, "topic", auto_delete=True, callback=done)
        assert isinstance(frame.method, Exchange.DeclareOk)
        (frame,) = yield lambda done: channel.exchange_declare(source, passive=True, callback=done)
        (frame,) = yield lambda done: channel.exchange_declare(target, "fanout", callback=done)
        (frame,) = yield lambda done: channel.exchange_bind(target, source, "a.#", callback=done)
        assert isinstance(frame.method, Exchange.BindOk)
        (frame,) = yield lambda done: channel.queue_declare(queue, durable=True, callback=done)
        assert isinstance(frame.method, Queue.DeclareOk)
        assert (frame.method.queue, frame.method.message_count, frame.method.consumer_count) == (queue, 0, 0)
        (frame,) = yield lambda done: channel.queue_declare(queue, passive=True, callback=done)
        (frame,) = yield lambda done: channel.queue_bind(queue, target, "", callback=done)
        assert isinstance(frame.method, Queue.BindOk)
        channel.basic_publish(source, "a.b", b"through both")
        (_, method, _, body) = yield lambda done: channel.basic_get(queue, done, auto_ack=True)
        assert (method.exchange, method.routing_key, body) == (source, "a.b", b"through both")
        (frame,) = yield lambda done: channel.queue_unbind(queue, target, "", callback=done)
        assert isinstance(frame.method, Queue.UnbindOk)
        (frame,) = yield lambda done: channel.exchange_unbind(target, source, "a.#", callback=done)
        assert isinstance(frame.method, Exchange.UnbindOk)
        channel.basic_publish("", queue, b"x")
        (frame,) = yield lambda done: channel.queue_purge(queue, callback=done)
        assert (type(frame.method), frame.method.message_count) == (Queue.PurgeOk, 1)
        channel.basic_publish("", queue, b"x")
        (frame,) = yield lambda done: channel.queue_delete(queue, callback=done)
        assert (type(frame.method), frame.method.message_count) == (Queue.DeleteOk, 1)
        (frame,) = yield lambda done: channel.exchange_delete(target, if_unused=True, callback=done)
        assert isinstance(frame.method, Exchange.DeleteOk)

    assert isinstance(walk(adapter, address, script), ConnectionClosedByClient)


def test_without_waiting_for_answers(adapter: Adapter, address: Address, unique: Unique) -> None:
    """No callback means nowait: nothing is answered, everything is done in order."""
    queue, exchange = unique("q"), unique("x")

    def script(connection: Connection) -> Walk:
        channel = yield from open_channel(connection)
        channel.exchange_declare(exchange, "fanout")
        channel.queue_declare(queue)
        channel.queue_bind(queue, exchange)
        channel.exchange_bind(exchange, "amq.fanout")
        channel.basic_publish("amq.fanout", "", b"1")
        channel.exchange_unbind(exchange, "amq.fanout")
        channel.confirm_delivery(lambda _: None)
        (_, _, _, body) = yield lambda done: channel.basic_get(queue, done, auto_ack=True)
        assert body == b"1"
        channel.basic_publish("", queue, b"2")
        channel.queue_purge(queue)
        (frame,) = yield lambda done: channel.queue_declare(queue, passive=True, callback=done)
        assert frame.method.message_count == 0
        tag = channel.basic_consume(queue, lambda *_: None)
        channel.basic_cancel(tag)
        channel.queue_delete(queue)
        channel.exchange_delete(exchange)
        (_, error) = yield lambda done: (
            channel.add_on_close_callback(done),
            channel.exchange_declare(exchange, passive=True, callback=lambda _: None),
        )
        assert isinstance(error, ChannelClosedByBroker)

    assert isinstance(walk(adapter, address, script), ConnectionClosedByClient)


def test_consuming(adapter: Adapter, address: Address) -> None:
    seen: list[tuple[int, bool, bytes]] = []

    def script(connection: Connection) -> Walk:
        channel = yield from open_channel(connection)
        queue = yield from declare_queue(channel)
        (frame,) = yield lambda done: channel.basic_qos(prefetch_count=2, callback=done)
        assert isinstance(frame.method, Basic.QosOk)
        for number in range(4):
            channel.basic_publish("", queue, b"%d" % number)

        def until(number: int, done: Callable[..., None]) -> None:
            """Go on when so many have been seen."""
            if len(seen) >= number:
                done()
            else:
                connection._adapter_call_later(0.005, lambda: until(number, done))

        def on_message(_: object, method: Basic.Deliver, __: BasicProperties, body: bytes) -> None:
            seen.append((method.delivery_tag, method.redelivered, body))

        (frame,) = yield lambda done: channel.basic_consume(queue, on_message, consumer_tag="mine", callback=done)
        assert frame.method.consumer_tag == "mine"
        yield lambda done: until(2, done)
        assert seen == [(1, False, b"0"), (2, False, b"1")]
        channel.basic_ack(1)
        yield lambda done: until(3, done)
        channel.basic_reject(2, requeue=True)
        yield lambda done: until(4, done)
        assert seen[2:] == [(3, False, b"2"), (4, True, b"1")]
        channel.basic_nack(4, multiple=True, requeue=False)
        yield lambda done: until(5, done)
        (frame,) = yield lambda done: channel.basic_recover(requeue=True, callback=done)
        assert isinstance(frame.method, Basic.RecoverOk)
        yield lambda done: until(6, done)
        assert seen[4:] == [(5, False, b"3"), (6, True, b"3")]
        (frame,) = yield lambda done: channel.basic_cancel("mine", callback=done)
        assert isinstance(frame.method, Basic.CancelOk)
        channel.basic_nack(6)
        (_, method, _, body) = yield lambda done: channel.basic_get(queue, done)
        assert (method.delivery_tag, method.redelivered, method.message_count, body) == (7, True, 0, b"3")
        (frame,) = yield lambda done: (
            channel.add_callback(done, [Basic.GetEmpty]),
            channel.basic_get(queue, lambda *_: None),
        )
        assert isinstance(frame.method, Basic.GetEmpty)
        (frame,) = yield lambda done: channel.flow(True, callback=done)
        assert frame is True

    assert isinstance(walk(adapter, address, script), ConnectionClosedByClient)


def test_confirms_and_returns(adapter: Adapter, address: Address) -> None:
    heard: list[tuple[str, object]] = []

    def script(connection: Connection) -> Walk:
        channel = yield from open_channel(connection)
        full = {"x-max-length": 0, "x-overflow": "reject-publish"}
        (frame,) = yield lambda done: channel.queue_declare("", exclusive=True, arguments=full, callback=done)
        queue = frame.method.queue
        channel.add_on_return_callback(lambda _c, method, _p, body: heard.append((method.reply_text, body)))

        def on_confirm(frame: object) -> None:
            method = frame.method  # type: ignore[attr-defined]
            heard.append((method.NAME, method.delivery_tag))

        (frame,) = yield lambda done: channel.confirm_delivery(on_confirm, callback=done)
        assert isinstance(frame.method, Confirm.SelectOk)
        channel.basic_publish("", "nobody", b"returned", mandatory=True)
        yield lambda done: connection._adapter_call_later(0.1, done)
        channel.basic_publish("", queue, b"refused")
        yield lambda done: connection._adapter_call_later(0.1, done)
        assert heard == [("NO_ROUTE", b"returned"), ("Basic.Ack", 1), ("Basic.Nack", 2)]

    assert isinstance(walk(adapter, address, script), ConnectionClosedByClient)


def test_transactions(adapter: Adapter, address: Address) -> None:
    def script(connection: Connection) -> Walk:
        channel = yield from open_channel(connection)
        queue = yield from declare_queue(channel)
        (frame,) = yield lambda done: channel.tx_select(callback=done)
        assert isinstance(frame.method, Tx.SelectOk)
        channel.basic_publish("", queue, b"no")
        (frame,) = yield lambda done: channel.tx_rollback(callback=done)
        assert isinstance(frame.method, Tx.RollbackOk)
        channel.basic_publish("", queue, b"yes")
        (frame,) = yield lambda done: channel.tx_commit(callback=done)
        assert isinstance(frame.method, Tx.CommitOk)
        (_, _, _, body) = yield lambda done: channel.basic_get(queue, done, auto_ack=True)
        assert body == b"yes"

    assert isinstance(walk(adapter, address, script), ConnectionClosedByClient)


def test_a_consumer_is_cancelled(adapter: Adapter, address: Address, unique: Unique) -> None:
    def script(connection: Connection) -> Walk:
        channel = yield from open_channel(connection)
        queue = unique("q")
        yield lambda done: channel.queue_declare(queue, callback=done)
        yield lambda done: channel.basic_consume(queue, lambda *_: None, consumer_tag="mine", callback=done)
        (frame,) = yield lambda done: (channel.add_on_cancel_callback(done), channel.queue_delete(queue))
        assert (type(frame.method), frame.method.consumer_tag) == (Basic.Cancel, "mine")
        assert channel.consumer_tags == []

    assert isinstance(walk(adapter, address, script), ConnectionClosedByClient)


def test_closing_channels(adapter: Adapter, address: Address) -> None:
    def script(connection: Connection) -> Walk:
        channel = yield from open_channel(connection)
        number = channel.channel_number
        (_, reason) = yield lambda done: (channel.add_on_close_callback(done), channel.close(200, "enough"))
        assert isinstance(reason, ChannelClosedByClient)
        channel = yield from open_channel(connection)
        assert channel.channel_number == number
        (_, reason) = yield lambda done: (
            channel.add_on_close_callback(done),
            channel.queue_declare("not there", passive=True, callback=lambda _: None),
        )
        assert isinstance(reason, ChannelClosedByBroker)
        assert (reason.reply_code, reason.reply_text) == (404, "NOT_FOUND - no queue 'not there' in vhost '/'")
        channel = yield from open_channel(connection)
        assert channel.is_open

    assert isinstance(walk(adapter, address, script), ConnectionClosedByClient)


def test_closed_by_the_broker(adapter: Adapter, address: Address) -> None:
    def script(connection: Connection) -> Walk:
        channel = yield from open_channel(connection)
        yield lambda _: channel.basic_qos(prefetch_size=1, callback=lambda _: None)

    error = walk(adapter, address, script)
    assert isinstance(error, ConnectionClosedByBroker)
    assert (error.reply_code, error.reply_text) == (540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)")


def test_refused_at_the_door(adapter: Adapter, address: Address) -> None:
    def script(_: Connection) -> Walk:
        raise AssertionError("let in")
        yield

    error = walk(adapter, address, script, credentials=PlainCredentials("guest", "wrong"))
    assert isinstance(error, ProbableAuthenticationError)


def test_update_secret(adapter: Adapter, address: Address) -> None:
    def script(connection: Connection) -> Walk:
        yield lambda done: connection.update_secret("guest", "token refreshed", callback=done)
        yield from open_channel(connection)

    assert isinstance(walk(adapter, address, script), ConnectionClosedByClient)


def test_a_burst(adapter: Adapter, address: Address) -> None:
    """Publishing and consuming at once on several channels, everything in flight together."""
    seen: dict[int, list[int]] = {}

    def script(connection: Connection) -> Walk:
        for number in range(5):
            channel = yield from open_channel(connection)
            queue = yield from declare_queue(channel)
            got = seen.setdefault(number, [])

            def on_message(
                channel: object, method: Basic.Deliver, _: BasicProperties, body: bytes, got: list[int] = got
            ) -> None:
                got.append(int(body))
                channel.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]

            channel.basic_consume(queue, on_message)
            for each in range(500):
                channel.basic_publish("", queue, b"%d" % each)
        while sum(map(len, seen.values())) < 2500:
            yield lambda done: connection._adapter_call_later(0.01, done)

    assert isinstance(walk(adapter, address, script), ConnectionClosedByClient)
    assert all(got == list(range(500)) for got in seen.values())
