"""One run of a language's program, and what it says: a line for each check, `ok NAME` or `failed NAME: why`.

It is called with the broker's host and port and the names of the checks. TLS_PORT and TLS_CA, a file, are in its
environment. The line `restart` asks for the broker to be restarted. Whatever else it has to say goes to stderr.
"""

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

PATIENCE_S = 90.0
"""For all checks of one run, which take some seconds."""

OK, FAILED, RESTART = "ok ", "failed ", "restart"


class Program:
    """Runs at once; what it said of a check is there as soon as it said it."""

    def __init__(
        self,
        command: Iterable[str],
        folder: Path,
        *,
        variables: Mapping[str, str],
        restart: Callable[[], None] | None = None,
    ) -> None:
        self._deadline = time.monotonic() + PATIENCE_S
        self._faults: dict[str, str] = {}  # by check; none is ""
        self._has_ended = False
        self._heard = threading.Condition()
        self._restart = restart
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            list(command),
            cwd=folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in map(str.strip, self._process.stdout):
                self._hear(line)
        finally:
            with self._heard:
                self._has_ended = True
                self._heard.notify_all()

    def _hear(self, line: str) -> None:
        if line == RESTART and self._restart is not None:
            self._restart()
        with self._heard:
            if line.startswith(OK):
                self._faults[line.removeprefix(OK)] = ""
            elif line.startswith(FAILED):
                check, _, why = line.removeprefix(FAILED).partition(": ")
                self._faults[check] = why or "it does not say why"
            self._heard.notify_all()

    def expect(self, check: str) -> None:
        """Until it said how this check went; an AssertionError unless it went well."""
        with self._heard:
            self._heard.wait_for(
                lambda: check in self._faults or self._has_ended, timeout=max(0.0, self._deadline - time.monotonic())
            )
            fault = self._faults.get(check)
        if fault is None:
            raise AssertionError(f"said nothing of {check} ({self._how_it_ended()}):\n{self.said()}")
        assert not fault, f"{fault}\n{self.said()}"

    def _how_it_ended(self) -> str:
        return f"ended with {self._process.wait()}" if self._has_ended else f"still running after {PATIENCE_S:.0f} s"

    def said(self) -> str:
        """All it has written to stderr."""
        self._errors.seek(0)
        return self._errors.read()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()
