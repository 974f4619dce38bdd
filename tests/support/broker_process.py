"""A real broker in its own process, on ports that the kernel chose; it is always stopped at the end."""

import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent.parent
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0
LOG_TIMEOUT_S = 30.0

T = TypeVar("T", str, bytes)

ANNOUNCEMENT = "rabbitlike: listening on "


def environment(**extra: str) -> dict[str, str]:
    """Return the environment of a broker from this tree, with no option set except `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RABBITLIKE_")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **extra}


class BrokerProcess:
    """`rabbitlike serve` with these flags, on free ports unless the flags set them; always with `--memory`."""

    def __init__(self, *flags: str, **variables: str) -> None:
        words = [sys.executable, "-m", "rabbitlike", "serve", "--memory"]
        for name in ("--port", "--management-port", "--management-tls-port"):
            if name not in flags:
                words += [name, "0"]
        self.started_at = time.monotonic()
        self._errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [*words, *flags],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment(**variables),
        )
        self.urls: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.wait_for("http")  # announced last
        except BaseException:
            self.kill()
            raise

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, scheme: str) -> None:
        """Wait until it listens on an address of this scheme."""
        deadline = self.started_at + START_TIMEOUT_S
        while not any(urlsplit(url).scheme == scheme for url in self.urls):
            try:
                line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"the broker did not start in time: {self.log()}") from None
            if line is None:
                raise AssertionError(f"the broker ended with {self.process.wait()}: {self.log()}")
            if line.startswith(ANNOUNCEMENT):
                self.urls.append(line.removeprefix(ANNOUNCEMENT).strip())

    def port_of(self, scheme: str) -> int:
        return next(port for url in self.urls if urlsplit(url).scheme == scheme and (port := urlsplit(url).port))

    @property
    def port(self) -> int:
        return self.port_of("amqp")

    @property
    def management_port(self) -> int:
        return self.port_of("http")

    def log(self) -> str:
        """Return everything it has written to stderr."""
        self._errors.seek(0)
        return self._errors.read()

    def await_log(self, pattern: str, count: int = 1) -> list[str]:
        """Wait until its log has `count` matches, because a thread writes it; return all matches."""
        deadline = time.monotonic() + LOG_TIMEOUT_S
        while len(found := [match[0] for match in re.finditer(pattern, self.log())]) < count:
            assert time.monotonic() < deadline, f"{pattern!r} is not in the log {count} times: {self.log()}"
            time.sleep(0.01)
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End it if it has not ended, and close its pipes."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()
        if not self._errors.closed:
            self._errors.close()


@contextmanager
def ending(process: "subprocess.Popen[T]") -> Iterator["subprocess.Popen[T]"]:
    """End the process and close its pipes in any case.

    A process left behind by a failed test would fail another test, in which the garbage collector finds it.
    """
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def running(*flags: str, **variables: str) -> Iterator[BrokerProcess]:
    """Run a broker for the length of a `with`; a stop that is not clean fails the test."""
    broker = BrokerProcess(*flags, **variables)
    try:
        yield broker
        if broker.process.poll() is None:
            assert broker.stop() == 0, broker.log()
        assert "Traceback" not in broker.log(), broker.log()
    finally:
        broker.kill()
