"""Clients whose network goes away, in a network namespace of their own: run by test_liveness.py, prints what it saw as
JSON. A loopback interface that is down is as good as a cable that was cut: nothing arrives, no end, no reset, no ACK.
"""

import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pamqp import commands

from rabbitlike.server import liveness, transport
from rabbitlike.testing import RunningBroker, run_broker
from tests.server.raw import RawClient

COUNT = 60
SIZE = 100_000
PATIENCE_S = 60

lines: list[str] = []


class Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        lines.append(record.getMessage())


def set_loopback(state: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


def wait_for(what: str, is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < until, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def disappeared(address: str) -> bool:
    return any(line.startswith(address) and "disappeared" in line for line in lines)


def address_of(client: RawClient) -> str:
    host, port = client.sock.getsockname()
    return f"{host}:{port} ->"


@contextmanager
def client_of(broker: RunningBroker, *, window: int | None = None) -> Iterator[RawClient]:
    sock = socket.socket()
    if window is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    sock.connect((broker.host, broker.port))
    client = RawClient(sock)
    client.log_in()  # without heartbeats
    client.open_channel()
    with sock:
        yield client


def count_ready(client: RawClient) -> int:
    client.send(commands.Queue.Declare(queue="kept", passive=True), 1)
    return client.expect(commands.Queue.DeclareOk).message_count or 0


def take_all_and_read_nothing(client: RawClient) -> None:
    for _ in range(COUNT):
        client.send(commands.Basic.Get(queue="kept", no_ack=False), 1)


def behind_a_zero_window(broker: RunningBroker) -> dict[str, object]:
    """It has asked for more than it reads: it is not read any more, and what it has taken is unacked."""
    with client_of(broker) as other, client_of(broker, window=4096) as client:
        other.send(commands.Queue.Declare(queue="kept"), 1)
        other.expect(commands.Queue.DeclareOk)
        for _ in range(COUNT):
            other.publish(bytes(SIZE), "kept")
        wait_for("published", lambda: count_ready(other) == COUNT)
        take_all_and_read_nothing(client)
        wait_for("taken", lambda: count_ready(other) < COUNT // 2)
        # One that is there answers the kernel, however long it does not read.
        time.sleep(2 * liveness.SILENT_MS / 1000)
        survived = not disappeared(address_of(client))
        set_loopback("down")
        wait_for("noticed", lambda: disappeared(address_of(client)))
        set_loopback("up")
        wait_for("given back", lambda: count_ready(other) == COUNT)
        return {"survived_while_there": survived, "given_back": count_ready(other)}


def blocked_by_an_alarm(broker: RunningBroker) -> dict[str, object]:
    """It waits in silence for connection.unblocked, in the middle of a transaction."""
    with client_of(broker) as client:
        client.send(commands.Tx.Select(), 1)
        client.expect(commands.Tx.SelectOk)
        client.publish(b"first", "nowhere")
        time.sleep(0.5)
        set_loopback("down")
        wait_for("noticed", lambda: disappeared(address_of(client)))
        set_loopback("up")
        return {"noticed": True}


def main() -> None:
    # Time is short here; how long each of these is by default is no matter of the network.
    transport.LOOK_MS = liveness.LOOK_MS = 500  # type: ignore[misc]
    liveness.SILENT_MS = 2000  # type: ignore[misc]
    liveness.KEEPALIVE_IDLE_S = liveness.KEEPALIVE_INTERVAL_S = 1  # type: ignore[misc]
    logging.getLogger("rabbitlike.connection").addHandler(Lines())
    set_loopback("up")
    seen: dict[str, object] = {}
    with run_broker() as broker:
        seen["zero window"] = behind_a_zero_window(broker)
    with run_broker(memory_high_watermark=4096) as broker:
        seen["alarm"] = blocked_by_an_alarm(broker)
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
