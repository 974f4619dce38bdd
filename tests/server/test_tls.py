"""AMQP over TLS, and SASL EXTERNAL: the certificate is the password."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pika
import pytest
import trustme
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPConnectionError

from rabbitlike.config import ConfigError, load
from rabbitlike.server.tls import server_context
from tests.server.raw import RawClient
from tests.support.broker_process import BrokerProcess, running


class Authority:
    """An authority, its server certificate on disk, and client contexts that trust it."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.cafile = folder / "ca.pem"
        self.certfile = folder / "server.pem"
        self.keyfile = folder / "server.key"
        self.ca.cert_pem.write_to_path(str(self.cafile))
        server = self.ca.issue_cert("localhost", "127.0.0.1")
        for blob in server.cert_chain_pems:
            blob.write_to_path(str(self.certfile), append=True)
        server.private_key_pem.write_to_path(str(self.keyfile))

    @property
    def flags(self) -> list[str]:
        return ["--tls-port", "0", "--tls-certfile", str(self.certfile), "--tls-keyfile", str(self.keyfile)]

    def client(self, common_name: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.cafile))
        if common_name is not None:
            self.ca.issue_cert("client.example", common_name=common_name).configure_cert(context)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def optional(authority: Authority) -> Iterator[BrokerProcess]:
    """A broker that looks at client certificates and does without them."""
    with running(*authority.flags, "--tls-cafile", str(authority.cafile), "--tls-verify", "optional") as broker:
        yield broker


@pytest.fixture(scope="module")
def required(authority: Authority) -> Iterator[BrokerProcess]:
    with running(*authority.flags, "--tls-cafile", str(authority.cafile), "--tls-verify", "required") as broker:
        yield broker


def parameters(broker: BrokerProcess, context: ssl.SSLContext, *, external: bool = False) -> pika.ConnectionParameters:
    credentials = pika.credentials.ExternalCredentials() if external else pika.PlainCredentials("guest", "guest")
    return pika.ConnectionParameters(
        "127.0.0.1",
        broker.port_of("amqps"),
        credentials=credentials,
        ssl_options=pika.SSLOptions(context, "localhost"),
    )


def test_messages_pass(optional: BrokerProcess, authority: Authority) -> None:
    """Small and large: many records, many frames."""
    connection = pika.BlockingConnection(parameters(optional, authority.client()))
    channel = connection.channel()
    channel.queue_declare("tls", auto_delete=True)
    for size in (0, 1, 20_000, 3_000_000):
        channel.basic_publish("", "tls", bytes(size))
        assert channel.basic_get("tls", auto_ack=True)[2] == bytes(size)
    connection.close()


def test_plain_and_tls_side_by_side(optional: BrokerProcess) -> None:
    with RawClient.connect(optional.port) as client:
        client.log_in()


def test_external_takes_the_common_name(optional: BrokerProcess, authority: Authority) -> None:
    connection = pika.BlockingConnection(parameters(optional, authority.client("guest"), external=True))
    assert connection.is_open
    connection.close()


def test_the_management_shows_what_was_agreed(optional: BrokerProcess, authority: Authority) -> None:
    connection = pika.BlockingConnection(parameters(optional, authority.client("guest"), external=True))
    answer = httpx.get(
        f"http://127.0.0.1:{optional.management_port}/api/connections", auth=("guest", "guest"), params={"sort": "name"}
    )
    (shown,) = [each for each in answer.json() if each["ssl"]]
    assert shown["ssl_protocol"] == "tlsv1.3"
    assert shown["ssl_key_exchange"] == "any"
    assert shown["ssl_cipher"].startswith("TLS_")
    assert shown["ssl_hash"].startswith("sha")
    assert shown["peer_cert_subject"].startswith("CN=guest,")
    assert "trustme" in shown["peer_cert_issuer"]
    assert " - " in shown["peer_cert_validity"]
    assert shown["auth_mechanism"] == "EXTERNAL"
    connection.close()


def test_external_for_nobody_we_know(optional: BrokerProcess, authority: Authority) -> None:
    with pytest.raises(AMQPConnectionError):
        pika.BlockingConnection(parameters(optional, authority.client("stranger"), external=True))


def test_external_without_certificate(optional: BrokerProcess, authority: Authority) -> None:
    with pytest.raises(AMQPConnectionError):
        pika.BlockingConnection(parameters(optional, authority.client(), external=True))


def test_a_certificate_of_another_authority(optional: BrokerProcess, authority: Authority) -> None:
    context = authority.client()
    trustme.CA().issue_cert("client.example", common_name="guest").configure_cert(context)
    with pytest.raises((AMQPConnectionError, AMQPConnectorException, ssl.SSLError)):
        pika.BlockingConnection(parameters(optional, context, external=True))


def test_a_certificate_can_be_demanded(required: BrokerProcess, authority: Authority) -> None:
    pika.BlockingConnection(parameters(required, authority.client("guest"), external=True)).close()
    with pytest.raises((AMQPConnectionError, AMQPConnectorException, ssl.SSLError)):
        pika.BlockingConnection(parameters(required, authority.client()))


def test_plain_octets_at_the_tls_port(optional: BrokerProcess) -> None:
    """Somebody who forgot TLS is dropped with a line in the log, and nobody else notices."""
    optional.wait_for("https")
    for scheme, said in (("amqps", b"AMQP\x00\x00\x09\x01"), ("https", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")):
        port = optional.port_of(scheme)
        for octets in (said, said * 100):
            with RawClient.connect(port) as client:
                client.sock.sendall(octets)
                while client.sock.recv(4096):
                    pass
        failed = rf"\[WARNING\] {scheme}://\S+:{port}: TLS handshake with a client failed: it sent"
        assert len(optional.await_log(failed + ".* plain text", 2)) == 2
    with RawClient.connect(optional.port) as client:
        client.log_in()


#: The first octets of a handshake: a record with a ClientHello of 512 octets, of which there are two.
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00"
#: Of each kind: together more than the HTTP API serves at a time.
SLOW_CLIENTS = 600


def until_closed(client: socket.socket) -> float:
    """How long the broker keeps a connection, in seconds."""
    began_s = time.monotonic()
    try:
        while client.recv(4096):
            pass
    except ConnectionError:
        pass
    return time.monotonic() - began_s


def test_clients_that_do_not_finish_their_handshake_keep_nobody_out_of_https(
    optional: BrokerProcess, authority: Authority
) -> None:
    optional.wait_for("https")
    port = optional.port_of("https")
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 30)) for _ in range(2 * SLOW_CLIENTS)]
        for client in slow[:SLOW_CLIENTS]:
            client.sendall(HALF_A_HELLO)
        url = f"https://localhost:{port}/api/whoami"
        assert httpx.get(url, auth=("guest", "guest"), verify=authority.client(), timeout=30).status_code == 200
        for client in slow:
            until_closed(client)  # within the 30 s of the socket


def test_the_handshake_timeout_covers_that_of_tls(authority: Authority) -> None:
    with running(*authority.flags, "--handshake-timeout-ms", "200") as broker:
        for said in (b"", HALF_A_HELLO):
            with socket.create_connection(("127.0.0.1", broker.port_of("amqps")), 30) as client:
                client.sendall(said)
                assert until_closed(client) < 4


def test_tls_at_the_plain_port(optional: BrokerProcess, authority: Authority) -> None:
    with RawClient.connect(optional.port) as client, pytest.raises((ssl.SSLError, OSError)):
        authority.client().wrap_socket(client.sock, server_hostname="localhost")
    optional.await_log("TLS")


def test_files_that_are_no_certificates(authority: Authority, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    for given in (
        {"tls_certfile": str(nonsense)},
        {"tls_certfile": str(authority.certfile), "tls_keyfile": str(nonsense)},
        {"tls_certfile": str(authority.certfile), "tls_keyfile": str(authority.keyfile), "tls_cafile": str(nonsense)},
        {"tls_certfile": str(authority.certfile), "tls_keyfile": str(authority.keyfile), "tls_cafile": "/no/such"},
    ):
        with pytest.raises(ConfigError, match="cannot use tls_"):
            server_context(load(given))
