"""Opening, tuning and closing connections with pika, and what it hears when that is refused."""

import socket
import time
from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NoFreeChannels,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    StreamLostError,
)

from interop.conftest import Address
from interop.patience import eventually
from interop.pika.conftest import Connect


def test_pika_takes_it_for_rabbitmq(connection: BlockingConnection) -> None:
    """Each of these switches something on in pika."""
    assert connection.publisher_confirms_supported
    assert connection.basic_nack_supported
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported
    properties = connection._impl.server_properties
    assert properties["product"] == "RabbitMQ"
    assert properties["version"].startswith("3.")
    capabilities = properties["capabilities"]
    assert capabilities["connection.blocked"] is True
    assert capabilities["authentication_failure_close"] is True
    assert capabilities["direct_reply_to"] is True


@pytest.mark.parametrize("vhost", ["%2F", "%2f", ""])
def test_urls(address: Address, vhost: str) -> None:
    """An empty path means the default vhost to pika."""
    url = address.url(vhost, "heartbeat=30&channel_max=7&frame_max=8192&connection_attempts=2&socket_timeout=5")
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        assert connection.is_open
        assert connection._impl.params.virtual_host == "/"
        assert connection._impl.params.channel_max == 7
        assert connection._impl.params.frame_max == 8192
        assert connection._impl.params.heartbeat == 30


def test_the_first_address_that_answers_is_taken(address: Address) -> None:
    dead = pika.ConnectionParameters(address.host, 1)
    alive = pika.ConnectionParameters(address.host, address.port)
    with pika.BlockingConnection([dead, alive]) as connection:
        assert connection.is_open


def test_a_wrong_password(connect: Connect) -> None:
    with pytest.raises(ProbableAuthenticationError) as caught:
        connect(credentials=pika.PlainCredentials("guest", "wrong"))
    assert "(403) 'ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN" in str(caught.value)


def test_a_user_that_does_not_exist(connect: Connect) -> None:
    with pytest.raises(ProbableAuthenticationError):
        connect(credentials=pika.PlainCredentials("nobody", "guest"))


def test_a_vhost_that_does_not_exist(connect: Connect) -> None:
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)) as caught:
        connect(virtual_host="nowhere")
    assert "(530) 'NOT_ALLOWED - vhost nowhere not found'" in str(caught.value)


def test_somebody_else_at_the_port() -> None:
    with pytest.raises(AMQPConnectionError):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", 1))


def test_the_smallest_frames(connect: Connect) -> None:
    connection = connect(frame_max=4096)
    assert connection._impl.params.frame_max == 4096
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    body = bytes(range(256)) * 400
    channel.basic_publish("", queue, body)
    assert next(channel.consume(queue, auto_ack=True))[2] == body


def test_more_channels_than_agreed(connect: Connect) -> None:
    connection = connect(channel_max=3)
    channels = [connection.channel() for _ in range(3)]
    with pytest.raises(NoFreeChannels):
        connection.channel()
    channels[1].close()
    assert connection.channel().channel_number == 2


def test_a_channel_number_can_be_used_again_and_again(connection: BlockingConnection) -> None:
    for _ in range(50):
        with connection.channel(7) as channel:
            assert channel.channel_number == 7
            assert channel.queue_declare("", exclusive=True).method.queue.startswith("amq.gen-")


def test_a_thousand_channels(connection: BlockingConnection) -> None:
    channels = [connection.channel() for _ in range(1000)]
    queue = channels[0].queue_declare("", exclusive=True).method.queue
    for channel in channels:
        channel.basic_publish("", queue, b"%d" % channel.channel_number)
    seen = {int(next(channels[-1].consume(queue, auto_ack=True))[2]) for _ in channels}
    assert seen == set(range(1, 1001))


def test_closing_gives_exclusive_queues_back_at_once(connect: Connect, unique: Callable[[str], str]) -> None:
    name = unique("mine")
    for _ in range(20):
        with connect() as connection:
            assert connection.channel().queue_declare(name, exclusive=True).method.message_count == 0


def test_closing_with_open_channels_and_consumers(connect: Connect) -> None:
    connection = connect()
    for _ in range(5):
        channel = connection.channel()
        channel.basic_consume(channel.queue_declare("", exclusive=True).method.queue, lambda *_: None)
    connection.close(200, "Normal shutdown")
    assert connection.is_closed


def test_a_channel_that_is_closed_leaves_the_others_alone(connection: BlockingConnection) -> None:
    first, second = connection.channel(), connection.channel()
    with pytest.raises(ChannelClosedByBroker):
        first.queue_declare("not there", passive=True)
    assert first.is_closed
    assert second.queue_declare("", exclusive=True).method.queue
    assert connection.channel().is_open


def test_flow(connection: BlockingConnection) -> None:
    """RabbitMQ lets a client switch its channel's flow on, and answers."""
    assert connection.channel().flow(True) is True


def test_update_secret(connection: BlockingConnection) -> None:
    connection.update_secret("guest", "token refreshed")
    assert connection.is_open
    assert connection.channel().is_open


def test_timers_run_while_it_waits(connection: BlockingConnection) -> None:
    ran: list[str] = []
    connection.call_later(0.05, lambda: ran.append("later"))
    connection.remove_timeout(connection.call_later(0.01, lambda: ran.append("never")))
    connection.sleep(0.1)
    assert ran == ["later"]


def test_heartbeats_keep_an_idle_connection_and_end_a_dead_one(connect: Connect) -> None:
    """One client is served by its loop, the other does not even answer heartbeats: the broker drops its socket."""
    alive, dead = connect(heartbeat=1), connect(heartbeat=1)
    assert alive._impl.params.heartbeat == 1
    deadline = time.monotonic() + 4.0
    while time.monotonic() < deadline:
        alive.process_data_events(0.2)
    assert alive.channel().is_open
    with pytest.raises((StreamLostError, AMQPConnectionError)):
        dead.process_data_events(0.5)


def test_without_heartbeats(connect: Connect) -> None:
    connection = connect(heartbeat=0)
    assert connection._impl.params.heartbeat == 0
    assert connection._impl._heartbeat_checker is None
    connection.sleep(0.1)
    assert connection.channel().is_open


def test_connections_come_and_go(connect: Connect) -> None:
    for _ in range(30):
        connect().close()


def test_a_client_that_vanishes_leaves_nothing(connect: Connect, unique: Callable[[str], str]) -> None:
    """The socket is cut without connection.close: exclusive queues die, unacked messages come back."""
    shared, private = unique("shared"), unique("private")
    watcher = connect().channel()
    watcher.queue_declare(shared)
    watcher.basic_publish("", shared, b"again")
    victim = connect()
    channel = victim.channel()
    channel.queue_declare(private, exclusive=True)
    method, _, _ = next(channel.consume(shared))
    assert not method.redelivered
    victim._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(AMQPConnectionError):
        while True:
            victim.process_data_events(1)
    eventually(lambda: watcher.queue_declare(shared, passive=True).method.message_count == 1, "the message is back")
    method, _, body = watcher.basic_get(shared)
    assert (method.redelivered, body) == (True, b"again")
    watcher.queue_declare(private, exclusive=True)
    watcher.queue_delete(shared)
