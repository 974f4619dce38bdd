"""The management port as a socket: TLS, limits on what comes before a body, several addresses, the end."""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import uvicorn

from rabbitlike.management.http import connection
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
    for size, status in ((connection.MAX_HEAD // 2, 200), (connection.MAX_HEAD * 5, 431)):
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


REQUEST = b"GET /api/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"


@pytest.mark.parametrize("is_reset", [False, True])
def test_whoever_asks_much_and_hangs_up_leaves_no_trace(broker: BrokerProcess, is_reset: bool) -> None:
    """The fixture's end looks for tracebacks in the log."""
    for path in (b"/api/queues", b"/metrics/per-object", b"/api/livelog", b"/api/nothing"):
        for wait_s in (0, 0.02):
            client = socket.create_connection(("localhost", broker.management_port), 10)
            client.sendall(REQUEST.replace(b"/api/queues", path) * 50)
            time.sleep(wait_s)
            if is_reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
    assert httpx.get(f"http://localhost:{broker.management_port}/api/whoami", auth=AUTH).status_code == 200


@asynccontextmanager
async def serving(app: Callable[..., Awaitable[None]]) -> AsyncIterator[tuple[str, int]]:
    config = uvicorn.Config(
        app, http=partial(connection.HttpConnection, connection.IncompleteRequests()), lifespan="off", log_config=None
    )
    config.load()
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(server._serve([listening]))
    try:
        yield listening.getsockname()
    finally:
        server.should_exit = server.force_exit = True
        await task


async def test_the_request_being_answered_hears_that_its_client_is_gone() -> None:
    """Also if others stand in line behind it; those are not begun."""
    begun: list[str] = []
    first, heard = asyncio.Event(), asyncio.Event()

    async def app(scope: dict[str, str], receive: Callable[[], Awaitable[dict[str, str]]], send: object) -> None:
        begun.append(scope["path"])
        first.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        heard.set()

    async with serving(app) as address:
        _, writer = await asyncio.open_connection(*address)
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(5)))
        await asyncio.wait_for(first.wait(), 30)
        writer.close()
        await asyncio.wait_for(heard.wait(), 30)
    assert begun == ["/0"]


async def test_requests_in_line_are_answered_in_order() -> None:
    async def app(scope: dict[str, str], receive: object, send: Callable[[object], Awaitable[None]]) -> None:
        body = scope["path"].encode()
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await asyncio.sleep(0.001)
        await send({"type": "http.response.body", "body": body})

    async with serving(app) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(5)))
        for number in range(5):
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            assert await reader.readexactly(2) == b"/%d" % number
        writer.close()


async def test_a_head_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that sends nothing, or too slowly, is ended."""
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.05)

    async def app(scope: object, receive: object, send: object) -> None: ...

    async with serving(app) as address:
        with suppress(ConnectionResetError):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"GET / HT")
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()


HALF_A_HEAD = b"GET /api/whoami HTTP/1.1\r\nHost: x\r\nX: "
HALF_A_BODY = b"POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nusername="


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, HALF_A_BODY], ids=["nothing", "half a head", "half a body"])
def test_slow_requests_keep_nobody_out(broker: BrokerProcess, sent: bytes) -> None:
    """More of them than there may be connections, from the same address as a client that sends its requests whole."""
    with ExitStack() as stack:
        for _ in range(connection.MAX_CONNECTIONS + 100):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", broker.management_port), 10))
            with suppress(ConnectionError):
                client.sendall(sent)
        for _ in range(5):
            answer = httpx.get(f"http://127.0.0.1:{broker.management_port}/api/whoami", auth=AUTH, timeout=30)
            assert answer.status_code == 200
    assert len(broker.await_log("have not sent a complete request")) <= 2, "once a minute, not once a connection"


async def app_that_reads(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Any) -> None:
    if scope["path"] == "/upload":
        scope["state"]["caller"] = "somebody"  # what a login leaves behind
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def is_open(reader: asyncio.StreamReader) -> bool:
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(0.05):
            await reader.read(1)
        return False
    return reader.exception() is None and not reader.at_eof()


async def test_the_oldest_slow_request_of_the_busiest_address_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_INCOMPLETE", 6)
    monkeypatch.setattr(connection, "MAX_INCOMPLETE_OF_ADDRESS", 5)

    async with serving(app_that_reads) as address:

        async def begin(source: str, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection(*address, local_addr=(source, 0))
            writer.write(sent)
            await asyncio.sleep(0.005)
            return reader, writer

        upload = await begin("127.0.0.2", b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1")
        patient = await begin("127.0.0.3", HALF_A_HEAD)
        many = [await begin("127.0.0.2", HALF_A_HEAD) for _ in range(8)]
        # Five of one address, the last; the body of a request that is logged in, and the other address, may wait.
        assert [await is_open(reader) for reader, _ in many] == [False] * 3 + [True] * 5
        patient[1].write(b"y\r\n\r\n")
        assert (await asyncio.wait_for(patient[0].readuntil(b"\r\n\r\n"), 10)).startswith(b"HTTP/1.1 200")
        upload[1].write(b"234567890")
        assert (await asyncio.wait_for(upload[0].readuntil(b"\r\n\r\n"), 10)).startswith(b"HTTP/1.1 200")
        # Both wait for the next request now and count again, as the newest; one more connection is one too many.
        last = await begin("127.0.0.4", HALF_A_HEAD)
        assert [await is_open(reader) for reader, _ in (*many, upload, patient, last)] == [False] * 5 + [True] * 6
        for _, writer in (upload, patient, last, *many):
            writer.close()


def test_a_connection_is_kept_for_the_next_request(broker: BrokerProcess) -> None:
    """parity: for a minute; the management UI asks every five seconds, and so do most pollers."""
    with socket.create_connection(("localhost", broker.management_port), 10) as client:
        for wait_s in (6.5, 0):
            client.sendall(REQUEST.replace(b"/api/queues", b"/api/whoami"))
            answer = b""
            while not answer.endswith(b"}"):  # head and body may come by themselves
                part = client.recv(65536)
                assert part, "closed"
                answer += part
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(wait_s)
