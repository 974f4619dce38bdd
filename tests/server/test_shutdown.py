"""The end: signals, clients told and clients that do not answer."""

import signal
import socket
import time

import pika
import pytest
from pamqp import commands

from tests.server.raw import RawClient
from tests.support.broker_process import running

LIMIT_S = 5.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    with running() as broker, RawClient.connect(broker.port) as client:
        client.log_in()
        broker.process.send_signal(number)
        close = client.expect(commands.Connection.Close)
        assert (close.reply_code, close.class_id, close.method_id) == (320, 0, 0)
        assert close.reply_text == "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        started = time.monotonic()
        client.send(commands.Connection.CloseOk())
        client.expect_end()
        client.sock.close()
        assert broker.process.wait(LIMIT_S) == 0
        assert time.monotonic() - started < 1.0, "nobody was left to wait for"


def test_without_clients_it_ends_at_once() -> None:
    with running() as broker:
        started = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - started < 2.0


def test_clients_that_do_not_answer_do_not_hold_it_up() -> None:
    """One ignores the close, one never logged in, one does not read, one is half closed."""
    with running() as broker:
        ignoring, mute, greeted = (RawClient.connect(broker.port) for _ in range(3))
        ignoring.log_in()
        greeted.sock.sendall(b"AMQP\x00\x00\x09\x01")
        greeted.expect(commands.Connection.Start)
        deaf = RawClient.connect(broker.port)
        deaf.log_in()
        deaf.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.open_channel()
        deaf.send(commands.Queue.Declare(queue="deaf", exclusive=True), 1)
        deaf.expect(commands.Queue.DeclareOk)
        deaf.send(commands.Basic.Consume(queue="deaf", no_ack=True), 1)
        deaf.expect(commands.Basic.ConsumeOk)
        for _ in range(20):
            deaf.publish(bytes(1_000_000), "deaf")
        started = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - started < LIMIT_S
        for client in (ignoring, mute, greeted, deaf):
            client.sock.close()


def test_it_accepts_nobody_while_stopping() -> None:
    with running() as broker, RawClient.connect(broker.port) as client:
        client.log_in()
        broker.process.send_signal(signal.SIGTERM)
        client.expect(commands.Connection.Close)
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", broker.port), 1).close()
        client.send(commands.Connection.CloseOk())


def test_a_stock_client_is_told_why() -> None:
    with running() as broker:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
        channel = connection.channel()
        broker.process.send_signal(signal.SIGTERM)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            channel.connection.process_data_events(LIMIT_S)
        assert caught.value.reply_code == 320
        assert broker.process.wait(LIMIT_S) == 0


def test_the_port_is_free_again_at_once() -> None:
    with running() as broker, RawClient.connect(broker.port) as client:
        client.log_in()
        port = broker.port
        broker.process.kill()
        broker.process.wait()
        with running("--port", str(port)) as next_broker, RawClient.connect(next_broker.port) as next_client:
            next_client.log_in()
