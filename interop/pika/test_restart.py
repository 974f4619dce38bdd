"""A broker that goes away and comes back on the same port, and clients that go on as pika's documentation says."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import pika
import pytest
from pika.exceptions import AMQPConnectionError, AMQPError, ChannelClosedByBroker, ConnectionClosedByBroker

from interop.patience import eventually
from tests.support.broker_process import BrokerProcess

StartBroker = Callable[..., BrokerProcess]

RETRY_S = 0.02


class Reconnecting(threading.Thread):
    """The consumer loop of pika's documentation: connect, declare, consume; when it breaks, begin again."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.parameters = pika.ConnectionParameters("127.0.0.1", port)
        self.bodies: list[bytes] = []
        self.errors: list[AMQPError] = []
        self.is_consuming = threading.Event()
        self.is_wanted = True

    def run(self) -> None:
        while self.is_wanted:
            try:
                with pika.BlockingConnection(self.parameters) as connection:
                    channel = connection.channel()
                    channel.queue_declare("work")
                    channel.basic_qos(prefetch_count=1)
                    for method, _, body in channel.consume("work", inactivity_timeout=0.02):
                        self.is_consuming.set()
                        if method is not None:
                            self.bodies.append(body)
                            channel.basic_ack(method.delivery_tag)
                        if not self.is_wanted:
                            break
            except AMQPError as error:
                self.is_consuming.clear()
                self.errors.append(error)
                threading.Event().wait(RETRY_S)

    def finish(self) -> None:
        self.is_wanted = False
        self.join()


def publish(port: int, body: bytes) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "work", body, mandatory=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_a_consumer_goes_on(start_broker: StartBroker, number: signal.Signals) -> None:
    broker = start_broker()
    port = broker.port
    consumer = Reconnecting(port)
    consumer.start()
    assert consumer.is_consuming.wait(10)
    publish(port, b"before")
    eventually(lambda: consumer.bodies == [b"before"], "the first message")
    broker.process.send_signal(number)
    broker.process.wait(10)
    eventually(lambda: not consumer.is_consuming.is_set(), "the consumer notices")
    start_broker("--port", str(port))
    assert consumer.is_consuming.wait(10)
    publish(port, b"after")
    eventually(lambda: consumer.bodies == [b"before", b"after"], "the second message")
    consumer.finish()
    if number == signal.SIGTERM:
        first = consumer.errors[0]
        assert isinstance(first, ConnectionClosedByBroker)
        assert first.reply_code == 320
        assert first.reply_text.startswith(
            "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        )


def test_pika_waits_for_a_broker_that_is_not_there_yet(start_broker: StartBroker) -> None:
    broker = start_broker()
    port = broker.port
    broker.stop()
    parameters = pika.ConnectionParameters("127.0.0.1", port, connection_attempts=400, retry_delay=RETRY_S)
    timer = threading.Timer(0.2, lambda: start_broker("--port", str(port)))
    timer.start()
    with pika.BlockingConnection(parameters) as connection:
        assert connection.channel().is_open
    timer.join()


def test_what_was_kept_in_memory_is_gone(start_broker: StartBroker) -> None:
    broker = start_broker()
    port = broker.port
    parameters = pika.ConnectionParameters("127.0.0.1", port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("transient")
        channel.basic_publish("", "transient", b"x")
    broker.process.kill()
    broker.process.wait()
    start_broker("--port", str(port))
    with pika.BlockingConnection(parameters) as connection:
        with pytest.raises(ChannelClosedByBroker) as caught:
            connection.channel().queue_declare("transient", passive=True)
        assert caught.value.reply_code == 404
        assert connection.channel().queue_declare("transient").method.message_count == 0


def test_a_publisher_knows_what_was_confirmed(start_broker: StartBroker) -> None:
    """Killed in the middle of publishing: it hears an error, never a confirm that is not meant."""
    broker = start_broker()
    confirmed = 0

    def kill_soon() -> None:
        eventually(lambda: confirmed > 50, "some confirms")
        broker.process.kill()
        broker.process.wait()

    killer = threading.Thread(target=kill_soon)
    killer.start()
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
    channel = connection.channel()
    channel.queue_declare("work")
    channel.confirm_delivery()
    with pytest.raises(AMQPConnectionError):
        while True:
            channel.basic_publish("", "work", b"x", mandatory=True)
            confirmed += 1
    killer.join()
    assert confirmed > 50
    assert connection.is_closed
    with suppress(AMQPConnectionError):
        connection.close()
