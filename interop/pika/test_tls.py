"""pika over TLS, with certificates made on the spot."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
import trustme
from pika.connection import Connection
from pika.exceptions import ConnectionClosedByClient

from interop.conftest import FOREIGN, Address
from interop.pika.walk import ADAPTERS, Walk, open_channel, walk
from tests.support.broker_process import BrokerProcess, running

pytestmark = pytest.mark.skipif(bool(FOREIGN), reason="starts a broker with a certificate")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def broker(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("tls")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    flags = ["--tls-port", "0", "--tls-certfile", str(folder / "server.pem")]
    flags += ["--tls-cafile", str(folder / "ca.pem"), "--tls-verify", "optional"]
    with running(*flags) as process:
        yield process


@pytest.fixture
def context(authority: trustme.CA) -> ssl.SSLContext:
    """A client's: it believes the authority and checks the name."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def parameters(broker: BrokerProcess, context: ssl.SSLContext, **others: object) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        "localhost", broker.port_of("amqps"), ssl_options=pika.SSLOptions(context, "localhost"), **others
    )


def test_large_bodies(broker: BrokerProcess, context: ssl.SSLContext) -> None:
    with pika.BlockingConnection(parameters(broker, context)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        bodies = [bytes([size % 251]) * size for size in (0, 1, 16_384, 131_064, 5_000_000)]
        for body in bodies:
            channel.basic_publish("", queue, body)
        assert [next(channel.consume(queue, auto_ack=True))[2] for _ in bodies] == bodies


def test_the_certificate_is_the_password(broker: BrokerProcess, context: ssl.SSLContext, authority: trustme.CA) -> None:
    authority.issue_cert("client.example", common_name="guest").configure_cert(context)
    credentials = pika.credentials.ExternalCredentials()
    with pika.BlockingConnection(parameters(broker, context, credentials=credentials)) as connection:
        assert connection.channel().is_open


def test_a_url(broker: BrokerProcess, authority: trustme.CA, tmp_path: Path) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    options = f"{{'ca_certs': '{tmp_path}/ca.pem'}}"
    url = f"amqps://guest:guest@localhost:{broker.port_of('amqps')}/%2F?ssl_options={options}"
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        assert connection.channel().is_open


def test_an_authority_pika_does_not_know(broker: BrokerProcess) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        pika.BlockingConnection(parameters(broker, ssl.create_default_context()))


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_asynchronous(broker: BrokerProcess, context: ssl.SSLContext, name: str) -> None:
    def script(connection: Connection) -> Walk:
        channel = yield from open_channel(connection)
        (frame,) = yield lambda done: channel.queue_declare("", exclusive=True, callback=done)
        queue = frame.method.queue
        channel.basic_publish("", queue, bytes(300_000))
        (_, _, _, body) = yield lambda done: channel.basic_get(queue, done, auto_ack=True)
        assert body == bytes(300_000)

    options = pika.SSLOptions(context, "localhost")
    ended = walk(ADAPTERS[name], Address("localhost", broker.port_of("amqps")), script, ssl_options=options)
    assert isinstance(ended, ConnectionClosedByClient)
