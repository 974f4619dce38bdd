"""Stock clients of other languages: a program for each (languages.py), a test for each thing it shows (checks.py)."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme

from interop.conftest import FOREIGN
from interop.languages.checks import CHECKS, TOGETHER
from interop.languages.languages import LANGUAGES, Language, Missing, workshop
from interop.languages.program import Program
from tests.support.broker_process import BrokerProcess, running
from tests.support.left_out import NEEDS

NOT_FOREIGN = dict.fromkeys(("tls", "blocked", "recovery"), "starts a broker with options, or stops one")


@dataclass(frozen=True, slots=True)
class Door:
    """Where a program finds its broker."""

    port: int
    host: str = "127.0.0.1"
    variables: Mapping[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """The broker of most checks of all languages."""
    if FOREIGN:
        host, port = FOREIGN.rsplit(":", 1)
        yield Door(int(port), host)
        return
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    with running("--tls-port", "0", "--tls-certfile", str(folder / "server.pem")) as broker:
        variables = {"TLS_PORT": str(broker.port_of("amqps")), "TLS_CA": str(folder / "ca.pem")}
        yield Door(broker.port, variables=variables)


@pytest.fixture(scope="module")
def low() -> Iterator[Door | None]:
    """One that is always out of memory."""
    if FOREIGN:
        yield None
        return
    with running("--memory-high-watermark", "4096") as broker:
        yield Door(broker.port)


class Restartable:
    """A broker that can be stopped and started again on its port. It keeps nothing."""

    def __init__(self) -> None:
        self.broker = BrokerProcess()
        self.door = Door(self.broker.port)

    def restart(self) -> None:
        self.end()
        self.broker = BrokerProcess("--port", str(self.door.port))

    def end(self) -> None:
        try:
            assert self.broker.stop() == 0, self.broker.log()
            assert "Traceback" not in self.broker.log(), self.broker.log()
        finally:
            self.broker.kill()


@pytest.fixture(scope="module")
def restartable() -> Iterator[Restartable | None]:
    if FOREIGN:
        yield None
        return
    broker = Restartable()
    try:
        yield broker
    finally:
        broker.end()


@dataclass(slots=True)
class Programs:
    """A language's program at work: one run for what is asked together, beside one for each thing apart."""

    language: Language
    folder: Path
    ends: ExitStack
    runs: dict[str, Program] = field(default_factory=dict)  # by check

    def run(self, door: Door, *checks: str, restartable: Restartable | None = None) -> None:
        wanted = [check for check in checks if not self.why_not(check)]
        if wanted:
            command = [*self.language.run, door.host, str(door.port), *wanted]
            restart = restartable.restart if restartable else None
            program = Program(command, self.folder, variables=door.variables, restart=restart)
            self.ends.callback(program.end)
            self.runs.update(dict.fromkeys(wanted, program))

    def why_not(self, check: str) -> str | None:
        return self.language.cannot.get(check) or (NOT_FOREIGN.get(check) if FOREIGN else None)


@pytest.fixture(scope="module")
def programs(
    request: pytest.FixtureRequest, shared: Door, low: Door | None, restartable: Restartable | None
) -> Iterator[Programs]:
    language: Language = request.param
    try:
        folder = workshop(language)
    except Missing as missing:
        pytest.skip(f"{NEEDS}{missing}")
    with ExitStack() as ends:
        programs = Programs(language, folder, ends)
        programs.run(shared, *TOGETHER)
        programs.run(shared, "heartbeats")
        if low is not None:
            programs.run(low, "blocked")
        if restartable is not None:
            programs.run(restartable.door, "recovery", restartable=restartable)
        yield programs


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("programs", LANGUAGES, ids=lambda language: language.name, indirect=True)
def test_language(programs: Programs, check: str) -> None:
    if reason := programs.why_not(check):
        pytest.skip(reason)
    programs.runs[check].expect(check)


def test_what_a_client_cannot_do_is_something_we_ask_for() -> None:
    for language in LANGUAGES:
        assert set(language.cannot) <= set(CHECKS), language.name
