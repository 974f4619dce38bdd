"""Finding the broker and being let in: addresses, passwords, and what is said when it does not work."""

import socket
import subprocess
import sys

import pytest

from rabbitlike.commands.api import path_of, split_url
from rabbitlike.commands.call import NAMES
from rabbitlike.config import OPTIONS
from tests.commands.conftest import Run
from tests.support.broker_process import BrokerProcess, environment, running


@pytest.fixture
def nowhere() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_no_broker(bare: Run, nowhere: str) -> None:
    bare("list", "queues", "--url", f"http://{nowhere}").assert_refused(
        f"no broker at http://{nowhere}: start one with `rabbitlike serve`, or give --url", 2
    )


def test_a_server_that_is_no_broker(bare: Run, broker: BrokerProcess) -> None:
    """The AMQP port hangs up on HTTP."""
    bare("list", "queues", "--url", f"127.0.0.1:{broker.port}").assert_refused("the connection to", 2)


@pytest.mark.parametrize("url", ["ftp://localhost", "http://", "http://localhost:high"])
def test_no_address(bare: Run, url: str) -> None:
    bare("list", "queues", "--url", url).assert_refused(f"'{url}' is no address of a broker", 2)


def test_wrong_password(run: Run) -> None:
    said = "wrong user or password: 'guest' is not let in; give --user and --password"
    run("whoami", "--password", "wrong").assert_refused(said)


def test_being_let_in(run: Run) -> None:
    assert run("whoami").assert_done().out.startswith("guest at http://127.0.0.1:")
    assert run("whoami", "--json").assert_done().json["tags"] == ["administrator"]


def test_a_user_without_password(run: Run) -> None:
    """Asked for on a terminal; here there is none."""
    run("list", "users", "--user", "ann").assert_refused("password of ann is not known: give --password", 2)


@pytest.mark.parametrize(
    "words",
    [
        ["--url", "URL", "list", "queues"],
        ["list", "--url", "URL", "queues"],
        ["list", "queues", "--url", "URL"],
        ["--url", "nowhere:1", "list", "--url", "nowhere:2", "queues", "--url", "URL"],
        ["--url=URL", "--user", "nobody", "list", "queues", "-u", "guest"],
    ],
)
def test_options_stand_before_or_after_the_command(
    bare: Run, nowhere: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RABBITLIKE_URL", "http://environment.invalid")
    words = [word.replace("URL", nowhere) for word in words]
    bare(*words).assert_refused(f"no broker at http://{nowhere}:", 2)


def test_the_environment(bare: Run, nowhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RABBITLIKE_URL", nowhere)
    bare("list", "queues").assert_refused(f"no broker at http://{nowhere}:", 2)


def test_the_environment_of_commands_is_none_of_the_broker() -> None:
    assert not set(NAMES) & set(OPTIONS)
    with running(RABBITLIKE_URL="x", RABBITLIKE_USER="x", RABBITLIKE_PASSWORD="x", RABBITLIKE_VHOST="x"):
        pass


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("broker:15672", ("http://broker:15672", None, None)),
        ("https://broker/", ("https://broker", None, None)),
        ("http://broker:1/behind/api", ("http://broker:1/behind", None, None)),
        ("http://ann:p%40ss@[::1]:15672/", ("http://[::1]:15672", "ann", "p@ss")),
    ],
)
def test_addresses(url: str, read: tuple[str, str | None, str | None]) -> None:
    assert split_url(url) == read


def test_names_in_paths() -> None:
    assert path_of(("queues", "/", "a b/c%")) == "/api/queues/%2F/a%20b%2Fc%25"
    assert path_of(("queues", ".", "..")) == "/api/queues/%2E/%2E%2E", "no steps"


def test_serving_imports_none_of_it() -> None:
    """What a start does not need, it does not wait for."""
    program = (
        "import sys; from rabbitlike import app, cli; cli._plain_flags(['serve', '--port', '0']);"
        "print([name for name in ('typer', 'rich', 'httpx', 'rabbitlike.commands') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=True
    )
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize("words", [["list", "--help"], ["declare", "queue", "--help"], ["--help"]])
def test_help(bare: Run, words: list[str]) -> None:
    ended = bare(*words)
    assert ended.code == 0
    for name in NAMES:
        assert f"--{name}" in ended.out


def test_a_command_that_is_not_there(bare: Run) -> None:
    bare("lsit").assert_refused("No such command 'lsit'. Did you mean 'list'? Try 'rabbitlike --help'.", 2)
    bare("list", "queus").assert_refused("Did you mean 'queues'? Try 'rabbitlike list --help'.", 2)
