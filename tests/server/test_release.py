"""Real sockets: what a client leaves behind is freed by reference counting when its connection ends."""

import socket
import time
from collections import Counter
from collections.abc import Callable

import pytest
from pamqp import commands

from rabbitlike.testing import RunningBroker, run_broker
from tests.server.raw import PROTOCOL_HEADER, RawClient
from tests.support.live import Alive, live_objects


def closed(broker: RunningBroker) -> None:
    with RawClient.connect(broker.port) as client:
        use(client)
        client.send(commands.Connection.Close(200, "bye", 0, 0))
        while not isinstance(client.read(), commands.Connection.CloseOk):
            pass


def lost(broker: RunningBroker) -> None:
    with RawClient.connect(broker.port) as client:
        use(client)


def reset(broker: RunningBroker) -> None:
    with RawClient.connect(broker.port) as client:
        use(client)
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def failed(broker: RunningBroker) -> None:
    with RawClient.connect(broker.port) as client:
        use(client)
        client.send(commands.Channel.Open(), 1)
        while not isinstance(client.read(), commands.Connection.Close):
            pass
        client.send(commands.Connection.CloseOk())
        client.expect_end()


def never_logged_in(broker: RunningBroker) -> None:
    with RawClient.connect(broker.port) as client:
        client.sock.sendall(PROTOCOL_HEADER)
        client.expect(commands.Connection.Start)


def use(client: RawClient) -> None:
    client.log_in(heartbeat=10)
    client.open_channel()
    client.send(commands.Queue.Declare(queue="used", exclusive=True), 1)
    client.expect(commands.Queue.DeclareOk)
    client.send(commands.Basic.Consume(queue="used", consumer_tag="tag"), 1)
    client.expect(commands.Basic.ConsumeOk)
    client.publish(b"never acked", "used")
    client.expect(commands.Basic.Deliver)


def settled(alive: Alive, before: Counter[str]) -> Counter[str]:
    """What is left, once the broker's thread has noticed the ends."""
    until = time.monotonic() + 10
    while (left := alive() - before) and time.monotonic() < until:
        time.sleep(0.01)
    return left


@pytest.mark.parametrize("come_and_go", [closed, lost, reset, failed, never_logged_in])
def test_what_a_connection_leaves_is_freed(come_and_go: Callable[[RunningBroker], None]) -> None:
    with run_broker(memory_check_interval_ms=3_600_000) as broker, live_objects() as alive:
        come_and_go(broker)
        time.sleep(0.1)
        before = alive()
        for _ in range(3):
            come_and_go(broker)
        assert settled(alive, before) == Counter()
