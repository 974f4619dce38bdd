"""What a start costs, and a broker that is short of memory from the first moment."""

import subprocess
import sys
import time
from pathlib import Path

from pamqp import commands
from pamqp.common import FieldTable
from pamqp.heartbeat import Heartbeat

from tests.server.raw import PROTOCOL_HEADER, RawClient
from tests.support.broker_process import running

#: What would make a client wait: importing any of these takes longer than the rest of a start.
SLOW = {
    "fastapi",
    "httpx",
    "jsonschema_rs",
    "prometheus_client",
    "pydantic",
    "pydantic_settings",
    "rich",
    "typer",
    "uvicorn",
}

#: What the management is made of.
MANAGEMENTS = ("anyio", "fastapi", "jsonschema", "prometheus", "pydantic", "rabbitlike", "starlette", "uvicorn")

SERVES = """
import asyncio, sys, threading, urllib.request
from rabbitlike.app import App
from rabbitlike.config import load

def ask(url):
    login = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
    for path in ("whoami", "queues"):
        urllib.request.urlopen(urllib.request.Request(f"{url}/api/{path}", headers=login)).read()

async def serve():
    app = App(load({"port": "0", "management_port": "0", "data_dir": sys.argv[1]}))
    await app.start()
    print(*sys.modules)
    loops, on_loop = threading.get_ident(), []

    def watch(event, args):
        if event == "import" and threading.get_ident() == loops:
            on_loop.append(args[0])

    sys.addaudithook(watch)
    await app.start_management()
    await asyncio.to_thread(ask, app.urls[-1])
    await app.prepare_management()
    print(*sys.modules)
    print(*on_loop)
    await app.stop()

asyncio.run(serve())
"""


def test_clients_do_not_wait_for_what_they_do_not_need(tmp_path: Path) -> None:
    """AMQP is served before anything of the management is even imported; `make bench` shows how soon."""
    found = subprocess.run([sys.executable, "-c", SERVES, str(tmp_path)], capture_output=True, text=True, check=True)
    imported, with_management, on_loop = (line.split(" ") for line in found.stdout.splitlines())
    assert "rabbitlike.server.transport" in imported
    assert SLOW.isdisjoint(imported)
    assert "uvicorn" in with_management
    assert "httpx" not in with_management  # whose import takes as long as that of all routes
    # Nor is any of it imported on the loop later, for the first requests: FastAPI leaves some of its imports to them.
    assert [name for name in on_loop if name.startswith(MANAGEMENTS)] == []


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
