"""amqp-tools: librabbitmq, the C client, in the shape of commands for shell scripts."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import trustme

from interop.conftest import Address
from interop.patience import PATIENCE_S
from tests.support.broker_process import BrokerProcess
from tests.support.left_out import NEEDS

Unique = Callable[[str], str]
Run = Callable[..., CompletedProcess[str]]


def run(url: str, command: str, *words: str, given: str = "") -> CompletedProcess[str]:
    line = [f"amqp-{command}", f"--url={url}", *words]
    return subprocess.run(line, input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.fixture(autouse=True)
def installed() -> None:
    if shutil.which("amqp-publish") is None:
        pytest.skip(f"{NEEDS}amqp-tools (Debian's package of that name)")


@pytest.fixture
def amqp(address: Address) -> Run:
    """amqp("get", "--queue=q") runs amqp-get."""
    return lambda command, *words, given="": run(address.url(), command, *words, given=given)


@pytest.fixture
def queue(amqp: Run, unique: Unique) -> Iterator[str]:
    name = unique("tools")
    assert amqp("declare-queue", f"--queue={name}").stdout == f"{name}\n"
    yield name
    amqp("delete-queue", f"--queue={name}")


def test_publish_and_get(amqp: Run, queue: str) -> None:
    properties = ("--persistent", "--content-type=text/plain", "--reply-to=me", "--header=shade: grün")
    assert amqp("publish", f"--routing-key={queue}", *properties, "--body=Grüße").returncode == 0
    got = amqp("get", f"--queue={queue}")
    assert (got.returncode, got.stdout) == (0, "Grüße")
    assert amqp("get", f"--queue={queue}").returncode == 2, "nothing is left"


def test_a_line_for_each_message(amqp: Run, queue: str) -> None:
    """amqp-consume runs a command for each, and acks it when that succeeds."""
    amqp("publish", f"--routing-key={queue}", "--line-buffered", given="one\ntwo\nthree\n")
    got = amqp("consume", f"--queue={queue}", "--prefetch-count=1", "--count=2", "cat")
    assert (got.returncode, got.stdout) == (0, "one\ntwo\n")
    assert amqp("delete-queue", f"--queue={queue}").stdout == "1\n"


def test_a_command_that_fails(amqp: Run, queue: str) -> None:
    """It is not acked, and comes again."""
    amqp("publish", f"--routing-key={queue}", "--body=again")
    amqp("consume", f"--queue={queue}", "--count=1", "false")
    assert amqp("get", f"--queue={queue}").stdout == "again"


def test_a_large_body(amqp: Run, queue: str) -> None:
    body = "frames" * 200_000
    amqp("publish", f"--routing-key={queue}", given=body)
    assert amqp("get", f"--queue={queue}").stdout == body


def test_errors(address: Address, amqp: Run, queue: str) -> None:
    def refusal(tried: CompletedProcess[str]) -> str:
        assert tried.returncode == 1
        return tried.stderr.strip().partition(": ")[2]

    get = ("get", f"--queue={queue}-not")
    no_queue = f"server channel error 404, message: NOT_FOUND - no queue '{queue}-not' in vhost '/'"
    no_exchange = "server channel error 404, message: NOT_FOUND - no exchange 'nowhere' in vhost '/'"
    no_vhost = "server connection error 530, message: NOT_ALLOWED - vhost nowhere not found"
    assert refusal(amqp(*get)) == no_queue
    assert refusal(amqp("publish", "--exchange=nowhere", "--body=x")) == no_exchange
    assert refusal(run(address.url("nowhere"), *get)) == no_vhost
    refused = refusal(run(address.url().replace("guest:guest", "guest:wrong"), *get))
    assert refused.startswith("server connection error 403, message: ACCESS_REFUSED - Login was refused")


def test_over_tls(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    broker = start_broker("--tls-port", "0", "--tls-certfile", str(tmp_path / "server.pem"))
    url, trust = f"amqps://guest:guest@localhost:{broker.port_of('amqps')}/%2F", f"--cacert={tmp_path}/ca.pem"
    assert run(url, "declare-queue", trust, "--queue=q").stdout == "q\n"
    assert run(url, "publish", trust, "--routing-key=q", "--body=secret").returncode == 0
    assert run(url, "get", trust, "--queue=q").stdout == "secret"
