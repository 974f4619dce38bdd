"""SIGHUP, and certificates that are replaced while the broker runs."""

import json
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import trustme

from rabbitlike.config import Settings
from rabbitlike.server.certificates import LOOK_MS, Certificates
from rabbitlike.testing import FakeClock
from tests.server.raw import RawClient
from tests.support.broker_process import BrokerProcess, ending, environment, running

PATIENCE_S = 60.0


def wait_until(what: Callable[[], bool], said: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, said()
        time.sleep(0.02)


def hang_up(broker: BrokerProcess) -> None:
    """SIGHUP, and wait until the reload is done."""
    seen = broker.log().count("reloaded: ")
    broker.process.send_signal(signal.SIGHUP)
    wait_until(lambda: broker.log().count("reloaded: ") > seen or broker.process.poll() is not None, broker.log)
    assert broker.process.poll() is None, "SIGHUP ended the broker"


class Files:
    """A certificate and its key on disk, replaced by rename as certificate tools do."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.certfile, self.keyfile = folder / "server.pem", folder / "server.key"

    def write(self, name: str) -> None:
        made = self.ca.issue_cert("localhost", "127.0.0.1", common_name=name)
        self.put(b"".join(blob.bytes() for blob in made.cert_chain_pems), made.private_key_pem.bytes())

    def put(self, certificate: bytes, key: bytes) -> None:
        for path, data in ((self.certfile, certificate), (self.keyfile, key)):
            fresh = path.with_suffix(".new")
            fresh.write_bytes(data)
            os.replace(fresh, path)

    @property
    def settings(self) -> Settings:
        return Settings(tls_certfile=self.certfile, tls_keyfile=self.keyfile)

    def name_at(self, port: int) -> str:
        """The common name of the certificate that a listener shows."""
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        with (
            socket.create_connection(("127.0.0.1", port)) as sock,
            context.wrap_socket(sock, server_hostname="localhost") as secured,
        ):
            subject = (secured.getpeercert() or {})["subject"]
        return next(str(value) for part in subject for key, value in part if key == "commonName")  # type: ignore[misc]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path)
    made.write("first")
    return made


@pytest.fixture
def secured(files: Files) -> Iterator[BrokerProcess]:
    flags = ["--tls-port", "0", "--tls-certfile", str(files.certfile), "--tls-keyfile", str(files.keyfile)]
    with running(*flags) as broker:
        broker.wait_for("https")
        yield broker


def test_sighup_leaves_clients_alone() -> None:
    with running() as broker, RawClient.connect(broker.port) as client:
        client.log_in()
        for _ in range(3):
            hang_up(broker)
        client.open_channel()
        with RawClient.connect(broker.port) as other:
            other.log_in()


def test_sighup_during_the_start() -> None:
    """From the first port that is open on, and until the last is."""
    words = [sys.executable, "-m", "rabbitlike", "serve", "--memory", "--port", "0", "--management-port", "0"]
    started = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    with ending(started) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            assert "listening on " in line
            process.send_signal(signal.SIGHUP)
            if "http" in line:
                break
        said = next(line for line in process.stderr if "reloaded: " in line)
        assert "no option has changed" in said
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
        assert process.wait(PATIENCE_S) == 0


def test_sighup_loads_certificates(files: Files, secured: BrokerProcess) -> None:
    ports = [secured.port_of("amqps"), secured.port_of("https")]
    assert [files.name_at(port) for port in ports] == ["first", "first"]
    files.write("second")
    hang_up(secured)
    assert [files.name_at(port) for port in ports] == ["second", "second"]


def test_a_certificate_that_cannot_be_used_changes_nothing(files: Files, secured: BrokerProcess) -> None:
    key = files.keyfile.read_bytes()
    other = files.ca.issue_cert("localhost", common_name="other")
    for certificate, its_key in (
        (b"nonsense", key),
        (b"".join(blob.bytes() for blob in other.cert_chain_pems), key),  # of another key
    ):
        files.put(certificate, its_key)
        hang_up(secured)
        assert files.name_at(secured.port_of("amqps")) == "first"
    files.certfile.unlink()
    hang_up(secured)
    assert files.name_at(secured.port_of("amqps")) == "first"
    assert secured.log().count("[ERROR] keeping the current TLS certificate: cannot use tls_certfile") >= 3
    files.write("second")
    hang_up(secured)
    assert files.name_at(secured.port_of("amqps")) == "second"


def test_changed_files_are_loaded_without_a_signal(files: Files, secured: BrokerProcess) -> None:
    files.write("second")
    wait_until(lambda: files.name_at(secured.port_of("amqps")) == "second", secured.log)


def test_files_are_loaded_once_they_stay_the_same(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """Certificate and key are replaced one after the other: what is seen between is not loaded."""
    clock = FakeClock()
    certificates = Certificates(files.settings)
    stop = certificates.watch(clock)
    caplog.set_level(logging.INFO, "rabbitlike.tls")
    clock.advance(10 * LOOK_MS)
    assert not caplog.records

    certificate, key = files.certfile.read_bytes(), files.keyfile.read_bytes()
    files.write("second")
    second_key = files.keyfile.read_bytes()
    files.put(files.certfile.read_bytes(), key)  # the new certificate, the old key
    clock.advance(LOOK_MS)
    files.put(files.certfile.read_bytes(), second_key)
    clock.advance(LOOK_MS)
    assert not caplog.records
    clock.advance(LOOK_MS)
    assert [record.levelname for record in caplog.records] == ["INFO"]

    files.put(certificate, second_key)
    clock.advance(5 * LOOK_MS)
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR"], "said once, not at every look"
    stop()
    files.put(certificate, key)
    clock.advance(5 * LOOK_MS)
    assert len(caplog.records) == 2


def test_sighup_reads_the_file_of_options(tmp_path: Path) -> None:
    config = tmp_path / "rabbitlike.toml"
    config.write_text('log_level = "warning"\nconnection_max = 0\n')
    with running("--config", str(config)) as broker:
        with RawClient.connect(broker.port) as client:
            client.log_in()
        assert "[INFO]" not in broker.log()

        config.write_text('log_level = "info"\nconnection_max = 1\nframe_max = 8192\n')
        hang_up(broker)
        assert "reloaded: new log_level, connection_max" in broker.log()
        assert "[WARNING] reload: frame_max has changed; restart the broker to apply it" in broker.log()
        overview = f"http://127.0.0.1:{broker.management_port}/api/health/checks/below-node-connection-limit"
        with RawClient.connect(broker.port) as client:
            client.log_in()
            assert httpx.get(overview, auth=("guest", "guest")).status_code == 503

        for wrong in ("port = ", 'log_level = "loud"\n', "prot = 5\n"):
            config.write_text(wrong)
            hang_up(broker)
        assert broker.log().count("[ERROR] reload: keeping the current options: ") == 3


def test_log_file_is_opened_anew(tmp_path: Path) -> None:
    """As logrotate does it: rename, then SIGHUP."""
    file, rotated = tmp_path / "rabbitlike.log", tmp_path / "rabbitlike.log.1"
    with running("--log-file", str(file)) as broker:
        wait_until(lambda: "is ready" in file.read_text())
        assert broker.log() == ""
        assert file.stat().st_mode & 0o007 == 0, "not for everybody"
        file.rename(rotated)
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: file.exists() and "reloaded: " in file.read_text())
        with RawClient.connect(broker.port) as client:
            client.log_in()
        wait_until(lambda: "127.0.0.1" in file.read_text())
        assert "is ready" in rotated.read_text()
        assert "reloaded" not in rotated.read_text()


def test_a_log_file_that_cannot_be_opened(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    file = folder / "rabbitlike.log"
    with running("--log-file", str(file)) as broker:
        file.rename(tmp_path / "rotated")
        folder.rmdir()
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "keeping the current log: cannot write to log_file" in (tmp_path / "rotated").read_text())
        folder.mkdir()
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: file.exists() and "reloaded: " in file.read_text())


def test_log_lines_of_json(tmp_path: Path) -> None:
    with running("--log-format", "json") as broker:
        with RawClient.connect(broker.port) as client:
            client.log_in()
        wait_until(lambda: "is ready" in broker.log())
        lines = [json.loads(line) for line in broker.log().splitlines()]
        assert {"time", "level", "logger", "msg"} == set(lines[0])
        assert {line["level"] for line in lines} == {"info"}
