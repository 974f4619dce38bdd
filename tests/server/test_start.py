"""What a start costs, and a broker that is short of memory from the first moment."""

import resource
import time

from pamqp import commands
from pamqp.common import FieldTable
from pamqp.heartbeat import Heartbeat

from tests.server.raw import PROTOCOL_HEADER, RawClient
from tests.support.broker_process import running

#: A client can connect after half a second. Taken in processor time, which other programs do not stretch as much.
BUDGET_S = 0.5


def test_a_start_is_cheap() -> None:
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with running():
            pass
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < BUDGET_S, "see `python -X importtime -m rabbitlike serve`"


def test_a_blocked_publisher_keeps_its_connection() -> None:
    """#34 #39 While we do not read, silence is not held against the client, and our heartbeats go on."""
    with running("--memory-high-watermark", "2") as broker, RawClient.connect(broker.port) as client:
        client.sock.sendall(PROTOCOL_HEADER)
        client.expect(commands.Connection.Start)
        properties: FieldTable = {"capabilities": {"connection.blocked": True}}
        client.send(commands.Connection.StartOk(properties, "PLAIN", "\0guest\0guest", "en_US"))
        client.expect(commands.Connection.Tune)
        client.send(commands.Connection.TuneOk(2047, 131_072, 1))
        client.send(commands.Connection.Open("/"))
        client.expect(commands.Connection.OpenOk)
        client.open_channel()
        client.publish(b"one", "nowhere")
        assert client.expect(commands.Connection.Blocked).reason == "low on memory"
        started = time.monotonic()
        while time.monotonic() - started < 4:
            client.expect(Heartbeat)
        client.sock.close()
