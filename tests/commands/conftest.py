"""A broker process, and the command line run against it within this process: what it says, and its exit code."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from rabbitlike import cli
from tests.support.broker_process import BrokerProcess, running


class Ended(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def assert_done(self) -> "Ended":
        assert self.code == 0, self.err
        return self

    def assert_refused(self, said: str, code: int = 1) -> None:
        """One line on standard error, nothing on standard output."""
        assert (self.code, self.out) == (code, ""), self
        assert said in self.err
        assert self.err.startswith("rabbitlike: ")
        assert self.err.count("\n") == 1, "one line"


Run = Callable[..., Ended]


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerProcess]:
    with running() as process:
        yield process


@pytest.fixture
def bare(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`bare("list", "queues", stdin=b"…")`: no variable is set but those a test sets itself."""
    for name in ("URL", "USER", "PASSWORD", "VHOST", "CAFILE"):
        monkeypatch.delenv(f"RABBITLIKE_{name}", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str, stdin: bytes = b"", terminal: bool = False) -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        if terminal:
            monkeypatch.setenv("FORCE_COLOR", "1")
        code = cli.main(words)
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return call


@pytest.fixture
def run(bare: Run, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same, with the address of the broker in the environment."""
    monkeypatch.setenv("RABBITLIKE_URL", f"http://127.0.0.1:{broker.management_port}")
    return bare
