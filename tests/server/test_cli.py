"""The command line as a user meets it: what it says, and with which exit code it ends."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from rabbitlike import __version__, cli, commands
from rabbitlike.config import OPTIONS
from tests.server.raw import RawClient
from tests.support.broker_process import BrokerProcess, environment, running


def rabbitlike(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rabbitlike", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=environment(**variables),
    )


def assert_refused(ended: "subprocess.CompletedProcess[str]", said: str) -> None:
    assert ended.returncode == 2, ended.stderr
    assert said in ended.stderr
    assert ended.stderr.startswith("rabbitlike: ")
    assert ended.stderr.count("\n") == 1, "one line"


def test_version() -> None:
    ended = rabbitlike("--version")
    assert (ended.returncode, ended.stdout) == (0, f"rabbitlike {__version__}\n")


def test_help_names_every_option() -> None:
    ended = rabbitlike("serve", "--help")
    assert ended.returncode == 0
    for name in OPTIONS:
        assert f"--{name.replace('_', '-')} " in ended.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "--prot", "5672"], "--port"),
        (["serve", "--port"], "requires an argument"),
        (["serve", "--port", "high"], "port = 'high': should be a valid integer"),
        (["serve", "--port=70000"], "port = '70000': should be less than or equal to 65535"),
        (["serve", "--log-level", "loud"], "should be 'debug', 'info', 'warning' or 'error'"),
        (["serve", "here"], "unexpected extra argument"),
        (["server"], "No such command 'server'"),
        ([], "Missing command"),
        (["serve", "--config", "/no/such/file"], "cannot read the config file /no/such/file"),
        (["serve", "--host", "no.such.host.invalid"], "no address is known for host 'no.such.host.invalid'"),
        (["serve", "--host", "203.0.113.1", "--port", "0"], "this machine does not have that address"),
        (["serve", "--tls-certfile", "/no/such/file"], "cannot use tls_certfile /no/such/file"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(words: list[str], said: str, tmp_path: Path) -> None:
    assert_refused(rabbitlike(*words, RABBITLIKE_DATA_DIR=str(tmp_path)), said)


def test_a_mistake_in_the_environment_counts_too() -> None:
    assert_refused(rabbitlike("serve", RABBITLIKE_HEARTBEAT="often"), "heartbeat = 'often'")


def test_an_unknown_variable_stops_the_start() -> None:
    assert_refused(rabbitlike("serve", RABBITLIKE_HEARTBEET="5"), "did you mean 'RABBITLIKE_HEARTBEAT'?")
    assert_refused(rabbitlike("check", RABBITLIKE_DATADIR="/tmp"), "did you mean 'RABBITLIKE_DATA_DIR'?")


def test_a_log_file_that_cannot_be_written() -> None:
    words = ["serve", "--memory", "--port", "0", "--log-file", "/no/such/folder/log"]
    assert_refused(rabbitlike(*words), "cannot write to log_file /no/such/folder/log: No such file or directory")


@pytest.mark.parametrize("option", ["--port", "--management-port"])
def test_a_taken_port(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        others = [word for name in ("--port", "--management-port") if name != option for word in (name, "0")]
        ended = rabbitlike("serve", "--memory", "--host", "127.0.0.1", option, port, *others)
    lines = [line for line in ended.stderr.splitlines() if line.startswith("rabbitlike: ")]
    assert ended.returncode == 2
    assert lines == [
        f"rabbitlike: cannot listen on {'amqp' if option == '--port' else 'http'}://127.0.0.1:{port}: "
        f"the port is taken; stop the other process or choose another port with {option}"
    ]


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = rabbitlike("serve", "--port", "0", "--data-dir", str(tmp_path / "file" / "data"))
    assert_refused(ended, f"cannot write to the data folder {tmp_path}/file/data: Not a directory; choose another")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert_refused(rabbitlike("serve", "--port", "0", "--data-dir", str(tmp_path)), "Permission denied")


def test_the_data_folder_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    with running("--no-memory", "--data-dir", str(folder)):
        assert folder.is_dir()
        assert not (folder / ".writable").exists(), "the probe is gone"


def test_memory_touches_no_folder(tmp_path: Path) -> None:
    with running("--data-dir", str(tmp_path / "data")):
        assert not (tmp_path / "data").exists()


def test_options_from_a_file_and_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "rabbitlike.toml"
    path.write_text('default_user = "ann"\ndefault_password = "secret"\nloopback_users = []\nheartbeat = 7\n')
    with running("--config", str(path), RABBITLIKE_DEFAULT_PASSWORD="known") as broker:
        with RawClient.connect(broker.port) as client:
            client.log_in(response="\0ann\0known")


def test_liveness(broker_url: str) -> None:
    with urllib.request.urlopen(f"{broker_url}/") as answer:
        assert json.loads(answer.read()) == {"name": "rabbitlike", "version": __version__}
    with urllib.request.urlopen(f"{broker_url}/api/health/checks/ready-to-serve-clients") as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
        assert json.loads(answer.read()) == {"status": "ok"}
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{broker_url}/nothing")
    caught.value.close()
    assert caught.value.code == 404


@pytest.fixture(scope="module")
def broker_url(broker: BrokerProcess) -> str:
    return f"http://127.0.0.1:{broker.management_port}"


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["serve"], {}),
        (["serve", "--port", "1", "--memory"], {"port": "1", "memory": True}),
        (["serve", "--data-dir", "a b", "--log-level", "debug"], {"data_dir": "a b", "log_level": "debug"}),
    ],
)
def test_plain_words_need_no_typer(words: list[str], given: dict[str, object]) -> None:
    assert cli._plain_flags(words) == given


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--version"],
        ["serve", "--help"],
        ["serve", "--port"],
        ["serve", "--port", "-1"],
        ["serve", "--port=1"],
        ["serve", "--data_dir", "x"],
        ["serve", "port", "1"],
        ["serve", "--no-memory"],
        ["serve", "--listeners", "unix:///a"],
        ["serve", "--port", "1", "--port", "2"],
    ],
)
def test_other_words_go_to_typer(words: list[str]) -> None:
    assert cli._plain_flags(words) is None


@pytest.mark.parametrize("name", sorted(commands.NAMES))
def test_a_command_made_alone_is_the_same_as_among_all(name: str) -> None:
    """Only what is called is made: all of them together take longer than most calls."""
    everything, alone = cli._command(), cli._command(name)

    def tree(command: object) -> object:
        inner = getattr(command, "commands", {})
        said = [(each.name, each.opts) for each in getattr(command, "params", [])]
        return said, {key: tree(value) for key, value in inner.items()}

    assert tree(everything.commands[name]) == tree(alone.commands[name])


def test_every_command_can_be_made_alone() -> None:
    assert set(cli._command().commands) == {*commands.NAMES, "serve", "check", "backup"}
