"""The management port as a socket: TLS, limits on what comes before a body, several addresses, the end."""

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme

from rabbitlike.management import intake
from tests.support.broker_process import BrokerProcess, running

AUTH = ("guest", "guest")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with running() as process:
        yield process


def test_it_answers_on_every_address_of_the_host(broker: BrokerProcess) -> None:
    found = [url for url in broker.urls if url.startswith("http:")]
    assert found
    for url in found:
        assert httpx.get(f"{url}/api/whoami", auth=AUTH).json()["name"] == "guest"


def test_https(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "server.pem")
    )
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    flags = ("--tls-certfile", str(tmp_path / "server.pem"), "--tls-port", "0", "--host", "127.0.0.1")
    with running(*flags) as broker:
        broker.wait_for("https")
        url = f"https://localhost:{broker.port_of('https')}/api/whoami"
        assert httpx.get(url, auth=AUTH, verify=context).json()["name"] == "guest"
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, auth=AUTH)
        plain = f"http://127.0.0.1:{broker.management_port}/api/overview"
        protocols = {each["protocol"] for each in httpx.get(plain, auth=AUTH).json()["listeners"]}
        assert {"http", "https"} <= protocols


def test_a_head_that_is_too_large(broker: BrokerProcess) -> None:
    url = f"http://localhost:{broker.management_port}/api/whoami"
    for size, status in ((intake.MAX_HEAD // 2, 200), (intake.MAX_HEAD * 5, 431)):
        with socket.create_connection(("localhost", broker.management_port), 10) as client:
            client.sendall(b"GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nX: ")
            try:
                for _ in range(0, size, 4096):
                    client.sendall(b"x" * 4096)
                    time.sleep(0.001)
                client.sendall(b"\r\n\r\n")
            except OSError:
                pass
            assert client.recv(100).startswith(b"HTTP/1.1 %d" % status)
    assert httpx.get(url, auth=AUTH).status_code == 200


def test_what_is_no_http(broker: BrokerProcess) -> None:
    with socket.create_connection(("localhost", broker.management_port), 10) as client:
        client.sendall(b"AMQP\x00\x00\x09\x01")
        assert client.recv(100).startswith(b"HTTP/1.1 400")


def test_forwarded_addresses_are_not_believed(broker: BrokerProcess) -> None:
    """From this machine; uvicorn would take the header's word for it by itself."""
    url = f"http://localhost:{broker.management_port}/api/whoami"
    assert httpx.get(url, auth=AUTH, headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 200


def test_following_the_log_does_not_hold_up_the_end() -> None:
    with running() as broker, httpx.Client(auth=AUTH, timeout=10) as client:
        with client.stream("GET", f"http://localhost:{broker.management_port}/api/livelog") as answer:
            assert answer.status_code == 200
            parts = answer.iter_raw()
            assert next(parts) == b": the log\n\n"
            assert broker.stop() == 0
            assert b"stopping" in b"".join(parts)


async def test_a_head_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that sends nothing, or too slowly, is ended."""
    monkeypatch.setattr(intake, "HEAD_TIMEOUT_S", 0.05)
    import uvicorn

    async def app(scope: object, receive: object, send: object) -> None: ...

    config = uvicorn.Config(app, http=intake.Intake, lifespan="off", log_config=None)
    config.load()
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(server._serve([listening]))
    try:
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"GET / HT")
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
    except ConnectionResetError:
        pass
    finally:
        server.should_exit = True
        await task
