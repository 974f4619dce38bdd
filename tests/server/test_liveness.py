"""A client that disappeared is noticed although it is not read, and what it held is given back."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rabbitlike.server import liveness

ROOT = Path(__file__).parents[2]
NAMESPACE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]


def can_make_a_network() -> bool:
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    return subprocess.run([*NAMESPACE, "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0


def test_clients_whose_network_goes_away() -> None:
    """Behind a zero window nobody but the kernel can tell: no heartbeats, nothing to read, no keepalive."""
    if not can_make_a_network():
        pytest.skip("needs a network namespace: unshare and iproute2, and the right to make one")
    done = subprocess.run(
        [*NAMESPACE, sys.executable, "-P", "-m", "tests.server.vanish"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "zero window": {"survived_while_there": True, "given_back": 60},
        "alarm": {"noticed": True},
    }


def test_a_client_is_given_up_within_90_seconds() -> None:
    """At the second look at which it has been silent too long; or when keepalive has closed the socket."""
    assert liveness.SILENT_MS + 2 * liveness.LOOK_MS <= 90_000
    asked_s = liveness.KEEPALIVE_IDLE_S + liveness.KEEPALIVE_INTERVAL_S * liveness.KEEPALIVE_COUNT
    assert asked_s * 1000 + liveness.LOOK_MS <= 90_000


def test_nothing_is_known_of_other_sockets() -> None:
    left, right = socket.socketpair()
    with left, right:
        liveness.keep_asking(left)
        assert liveness.look(left) == liveness.UNKNOWN


def test_a_client_that_is_there_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(b"hello")
            client.recv(5)
            signs = liveness.look(accepted)
            assert not signs.is_closed
            assert not signs.is_silent
            client.close()
            while not liveness.look(accepted).is_closed:
                pass
