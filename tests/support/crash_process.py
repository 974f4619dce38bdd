"""A broker on a data folder, in a process of its own that is killed with SIGKILL and restarted."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.broker_process import ANNOUNCEMENT, ROOT, START_TIMEOUT_S, environment

#: `rabbitlike serve` as users start it, and the same with a short log and optional sabotage.
REAL = ("-m", "rabbitlike", "serve")
FRAIL = (str(ROOT / "tests" / "crash" / "serve.py"), "serve")


class DurableProcess:
    """One run of a broker on `folder`; it listens when the constructor returns."""

    def __init__(self, folder: Path, *, program: tuple[str, ...] = REAL, sabotage: str = "") -> None:
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, *program, "--data-dir", str(folder), "--port", "0", "--management-port", "none"],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            # The smallest possible window, so that backlogs leave memory.
            env=environment(RABBITLIKE_QUEUE_WINDOW="65536", CRASH_SABOTAGE=sabotage),
        )
        try:
            self.port = self._await_port()
        except BaseException:
            self.kill()
            raise

    def _await_port(self) -> int:
        assert self._process.stdout is not None
        started_at = time.monotonic()
        for line in self._process.stdout:
            if line.startswith(ANNOUNCEMENT):
                port = urlsplit(line.removeprefix(ANNOUNCEMENT).strip()).port
                assert port is not None
                return port
            assert time.monotonic() - started_at < START_TIMEOUT_S, f"the broker did not start in time: {self.log()}"
        raise AssertionError(f"the broker ended with {self._process.wait()}: {self.log()}")

    def log(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def interrupt(self) -> None:
        """Send SIGKILL without waiting; `kill` must follow."""
        self._process.kill()

    def kill(self) -> str:
        """Send SIGKILL unless it has ended; return all it has logged."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        said = self.log()
        self._errors.close()
        return said

    def stop(self) -> str:
        """Send SIGTERM and require a clean end; return all it has logged."""
        self._process.terminate()
        code = self._process.wait(30)
        said = self.kill() if not self._errors.closed else ""
        assert code == 0, said
        return said
