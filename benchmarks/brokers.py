"""The brokers under test, each in its own process, on its own ports, with its data in a temporary folder.

A node that already runs on the machine is not affected: RabbitMQ gets its own name, cookie, port mapper (epmd) and
folders, and everything started here is stopped here by process id.
"""

import contextlib
import enum
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import processes
from benchmarks.client import Address, Client

START_TIMEOUT_S = 60.0
STOP_GRACE_S, RESTART_GRACE_S = 15.0, 120.0  # a broker that will be restarted must not be killed
ROOT = Path(__file__).resolve().parent.parent
RABBITMQ_PLACES = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "/opt/rabbitmq/sbin/rabbitmq-server")


class CannotStart(Exception):
    """The broker did not start; the text contains the end of its output."""


class Place(enum.Enum):
    """What a broker stores. Scenarios share a broker only if they have the same place."""

    MEMORY = "nothing outlives the broker, where it can be told so"
    DISK = "durable things are on disk"
    BACKLOG = "the same, with a backlog from one scenario to the next"
    TRACED = "durable things are on disk, and so is every step of every message"
    MANAGED = "nothing outlives the broker, and its HTTP API is on"


@dataclass(frozen=True, slots=True)
class Launch:
    command: list[str]
    environment: dict[str, str]
    cwd: Path
    address: Address
    http: Address | None = None  # of the management API, if it is on


class Running:
    """A broker's process, and its successor on the same data after a restart."""

    def __init__(self, name: str, launch: Launch, log: Path) -> None:
        self.name = name
        self.address = launch.address
        self.http = launch.http
        self.start_s = 0.0  # from the start of the process to a finished AMQP handshake
        self._launch = launch
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        launch = self._launch
        began = time.perf_counter()
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                launch.command,
                env=launch.environment,
                cwd=launch.cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches only the runner, which then stops the broker
            )
        _await_handshake(self._process, launch.address, self._log)
        self.start_s = time.perf_counter() - began

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        if self._process is not None:
            processes.stop(processes.tree(self._process.pid), grace_s=grace_s)
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop(grace_s=RESTART_GRACE_S)
        self.start()

    def rss_bytes(self) -> float:
        return processes.rss_bytes(self.pid)

    def cpu_seconds(self) -> float:
        return processes.cpu_seconds(self.pid)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of broker: how to prepare it in a folder, and the command to run."""

    name: str
    version: str
    prepare: Callable[[Path, Place], contextlib.AbstractContextManager[Launch]]
    is_pure: bool = False  # rabbitlike without compiled modules

    @contextlib.contextmanager
    def running(self, place: Place = Place.MEMORY) -> Iterator[Running]:
        with (
            tempfile.TemporaryDirectory(prefix=f"bench-{self.name}-") as folder,
            self.prepare(Path(folder), place) as launch,
        ):
            broker = Running(self.name, launch, Path(folder) / "output.log")
            try:
                broker.start()
                yield broker
            finally:
                broker.stop()


def _await_handshake(process: subprocess.Popen[bytes], address: Address, log: Path) -> None:
    deadline = time.perf_counter() + START_TIMEOUT_S
    while True:
        try:
            with Client(address):
                return
        except OSError as error:
            if process.poll() is None and time.perf_counter() < deadline:
                time.sleep(0.002)
                continue
            said = log.read_text(errors="replace").strip().splitlines()[-15:]
            raise CannotStart("\n".join([f"{process.args!r}: {error}", *said])) from error


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in socks]


# rabbitlike


def rabbitlike(python: str | None = None, *, pure: bool = False, with_api: bool = False) -> Kind:
    """Return the rabbitlike installed for `python`.

    `pure` runs its sources even if compiled modules lie beside them; `with_api` enables the management API at every
    place.
    """
    python = python or sys.executable
    # -P: run the installed package, never the sources in the current folder.
    run = [python, "-P", str(ROOT / "benchmarks" / "pure.py")] if pure else [python, "-P", "-m", "rabbitlike"]
    ask = [*run, "--build"] if pure else [python, "-P", "-c", _ASK_BUILD]
    answer = subprocess.run(ask, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise CannotStart(f"rabbitlike cannot be imported by {python}: {answer.stderr.strip().splitlines()[-1]}")
    build = answer.stdout.strip()

    @contextlib.contextmanager
    def prepare(folder: Path, place: Place) -> Iterator[Launch]:
        port, http_port = free_ports(2)
        is_managed = with_api or place is Place.MANAGED
        keeps = place not in (Place.MEMORY, Place.MANAGED)
        keeping = ["--data-dir", str(folder / "data")] if keeps else ["--memory"]
        serve = ["serve", *keeping, "--host", "127.0.0.1", "--port", str(port)]
        if place is Place.TRACED:
            serve.append("--event-log")
        # Without the API, like RabbitMQ here, which runs without its management plugin.
        command = [*run, *serve, "--management-port", str(http_port) if is_managed else "none"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RABBITLIKE_")}
        http = Address("127.0.0.1", http_port) if is_managed else None
        yield Launch(command, environment, folder, Address("127.0.0.1", port), http)

    return Kind("rabbitlike", build, prepare, is_pure=build.endswith("pure"))


_ASK_BUILD = (
    "import rabbitlike, rabbitlike.protocol.frames as f;"
    "print(rabbitlike.__version__, 'compiled' if f.__file__.endswith('.so') else 'pure')"
)


# RabbitMQ


def rabbitmq_script() -> str | None:
    """Return RabbitMQ's own start script, if it and Erlang exist: Debian's wrapper needs root and switches user."""
    if shutil.which("erl") is None:
        return None
    return next((place for place in RABBITMQ_PLACES if os.access(place, os.X_OK)), shutil.which("rabbitmq-server"))


def rabbitmq() -> Kind | None:
    """Return RabbitMQ, or None if it is not installed."""
    script = rabbitmq_script()
    if script is None:
        return None

    @contextlib.contextmanager
    def prepare(folder: Path, place: Place) -> Iterator[Launch]:
        port, dist_port, epmd_port, http_port = free_ports(4)
        is_managed = place is Place.MANAGED
        plugins = ("rabbitmq_management",) if is_managed else ()
        environment = rabbitmq_environment(folder, port, dist_port, epmd_port, plugins)
        if is_managed:
            with (folder / "rabbitmq.conf").open("a") as config:
                config.write(f"management.tcp.port = {http_port}\nmanagement.tcp.ip = 127.0.0.1\n")
        http = Address("127.0.0.1", http_port) if is_managed else None
        with port_mapper(environment):
            yield Launch([script], environment, folder, Address("127.0.0.1", port), http)

    return Kind("rabbitmq", _rabbitmq_version(script), prepare)


def rabbitmq_environment(
    folder: Path, port: int, dist_port: int, epmd_port: int, plugins: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the environment of a separate node: name, cookie, ports, folders. `options` extend rabbitmq.conf."""
    (folder / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
    (folder / "env.conf").touch()
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.default = 127.0.0.1:{port}\n")
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return inherited | {
        "HOME": str(folder),  # location of the Erlang cookie
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(dist_port),
        "RABBITMQ_BASE": str(folder),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "env.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }


@contextlib.contextmanager
def port_mapper(environment: dict[str, str]) -> Iterator[None]:
    """Run Erlang's epmd in the foreground. A node would start it as a daemon that outlives the node."""
    epmd = shutil.which("epmd")
    if epmd is None:
        yield
        return
    process = subprocess.Popen(
        [epmd], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        processes.stop([process.pid], grace_s=2)
        process.wait()


def _rabbitmq_version(script: str) -> str:
    """Read the version from the name of the library's folder, because asking the node costs a start of Erlang."""
    for beside in (Path(script).resolve().parent.parent, Path("/usr/lib/rabbitmq")):
        for found in sorted(beside.rglob("rabbit-[0-9]*")):
            return found.name.removeprefix("rabbit-").removesuffix(".ez")
    return "unknown"


# The sink


def sink() -> Kind:
    """Return the sink: it drops publishes and sends canned deliveries, to measure the generator itself."""

    @contextlib.contextmanager
    def prepare(folder: Path, _: Place) -> Iterator[Launch]:
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "benchmarks.sink", str(port)]
        yield Launch(command, dict(os.environ), ROOT, Address("127.0.0.1", port))

    return Kind("sink", "canned", prepare)
